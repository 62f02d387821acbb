//! Compilation in a child process: it is stopped at its limits of time and memory, and finished
//! work is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rind::grant::Trust;
use rind::plugin::load::{FoundPluginSet, PluginSkipReason};
use rind_tests::bytes::compile_bomb;
use rind_tests::cli::program;
use rind_tests::guests::Host;

/// A host that compiles in a child process, into its own cache.
fn host() -> Host {
    let mut host = Host::default();
    host.options.cache = host.folder().join("cache");
    host.options.cache_key = host.folder().join("key/cache.key");
    host.options.compiler.helper = Some(program().to_owned());
    host
}

/// Adds a plugin with this component to the host's plugins.
fn component(host: &mut Host, bytes: &[u8]) {
    let folder = host.plugin(Trust::Managed, "hello", |manifest| {
        let manifest = manifest.replace("name = \"hello\"", "name = \"bomb\"");
        manifest.replace("hello.wasm", "bomb.wasm")
    });
    fs::write(folder.join("bomb.wasm"), bytes).unwrap();
}

/// Returns the error of the only plugin that was not loaded.
fn failure(plugins: &FoundPluginSet) -> String {
    let [left] = &plugins.left_out[..] else {
        panic!("{:?}", plugins.left_out)
    };
    match &left.why {
        PluginSkipReason::Failed(error) => error.to_string(),
        why => panic!("{why:?}"),
    }
}

/// Lists the files in the cache.
fn cached(host: &Host) -> Vec<PathBuf> {
    let entries = fs::read_dir(&host.options.cache).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Whether a running process has this text in its command line.
fn is_running(text: &Path) -> bool {
    let text = text.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[tokio::test]
async fn a_component_is_compiled_in_a_process_and_kept() {
    let mut host = host();
    host.guest("hello");
    let first = host.load().await;
    assert!(first.left_out.is_empty(), "{:?}", first.left_out);
    assert!(!first.plugins[0].was_cached);
    assert_eq!(cached(&host).len(), 1, "{:?}", cached(&host));
    assert!(host.load().await.plugins[0].was_cached);
}

#[tokio::test]
async fn a_component_that_takes_too_long_is_stopped_by_name_and_leaves_nothing_behind() {
    let mut host = host();
    host.guest("hello");
    host.load().await;
    component(&mut host, &compile_bomb());
    host.options.compiler.time_limit = Duration::from_secs(1);
    let started = Instant::now();
    let plugins = host.load().await;
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    let why = failure(&plugins);
    assert!(
        why.contains("bomb.wasm: compiling was stopped after 1 s"),
        "{why}"
    );
    assert_eq!(plugins.plugins.len(), 1, "the other plugin runs");
    assert!(!is_running(host.folder()));
    assert_eq!(cached(&host).len(), 1, "{:?}", cached(&host));
}

#[tokio::test]
async fn a_component_that_takes_too_much_memory_is_stopped_by_name() {
    let mut host = host();
    component(&mut host, &compile_bomb());
    host.options.compiler.memory_limit = 32 << 20;
    let why = failure(&host.load().await);
    assert!(
        why.contains("bomb.wasm") && why.contains("takes more than 32 MiB of memory"),
        "{why}"
    );
}

#[tokio::test]
async fn a_component_that_is_none_is_refused_with_what_is_wrong_with_it() {
    let mut host = host();
    for (bytes, says) in [
        (&b"(component)"[..], "it is not WebAssembly"),
        (b"\0asm\x0d\0\x01\0\xff\xff", "offset 0x"),
    ] {
        component(&mut host, bytes);
        let why = failure(&host.load().await);
        assert!(
            why.contains("bomb.wasm is not a valid component: ") && why.contains(says),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_compiler_that_crashes_is_the_failure_of_that_plugin_alone() {
    let mut host = host();
    host.guest("hello");
    host.load().await;
    component(&mut host, b"\0asm\x0d\0\x01\0");
    let crashing = host.folder().join("crashing");
    fs::write(
        &crashing,
        "#!/bin/sh\necho something went wrong >&2\nkill -SEGV $$\n",
    )
    .unwrap();
    fs::set_permissions(
        &crashing,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    host.options.compiler.helper = Some(crashing);
    let plugins = host.load().await;
    let why = failure(&plugins);
    assert!(
        why.contains("the compiler was ended by signal 11: something went wrong"),
        "{why}"
    );
    assert_eq!(plugins.plugins.len(), 1, "the other plugin runs");

    host.options.compiler.helper = Some(host.folder().join("missing"));
    let why = failure(&host.load().await);
    assert!(why.contains("missing"), "{why}");
}

#[tokio::test]
async fn native_code_that_was_not_used_for_a_month_is_removed_once_a_day_and_nothing_else() {
    let mut host = host();
    host.guest("hello");
    host.load().await;
    let used = cached(&host).remove(0);
    let folder = host.options.cache.clone();
    let name = |digit: &str| folder.join(format!("{}.cwasm", digit.repeat(64)));
    let (old, young, foreign) = (name("a"), name("b"), folder.join("notes.cwasm"));
    let abandoned = folder.join("compiling-x");
    fs::create_dir(&abandoned).unwrap();
    for path in [&old, &young, &foreign] {
        fs::write(path, "").unwrap();
    }
    let day = Duration::from_secs(24 * 60 * 60);
    for (path, days) in [
        (&used, 20),
        (&old, 31),
        (&young, 29),
        (&foreign, 400),
        (&abandoned, 2),
    ] {
        let then = SystemTime::now() - days * day;
        fs::File::open(path).unwrap().set_modified(then).unwrap();
    }
    host.load().await;
    assert!(old.exists(), "it was looked for today");
    let age = fs::metadata(&used).unwrap().modified().unwrap().elapsed();
    assert!(age.unwrap() < day, "its use was noted");

    let swept = fs::File::open(folder.with_extension("swept")).unwrap();
    swept.set_modified(SystemTime::now() - 2 * day).unwrap();
    assert!(host.load().await.plugins[0].was_cached);
    assert!(!old.exists() && !abandoned.exists());
    assert!(young.exists() && foreign.exists() && used.exists());
}

/// A component of 5 MiB with several functions, one of which returns `number`.
fn large_component(number: u32) -> Vec<u8> {
    let data = "a".repeat(5 << 20);
    let text = format!(
        r#"(component (core module (memory 100) (data (i32.const 0) "{data}")
            (func (export "one") (result i32) (i32.const {number}))
            (func (export "two") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 7)))))"#
    );
    wat::parse_str(text).unwrap()
}

#[tokio::test]
async fn functions_of_a_large_component_are_kept_for_its_author_alone() {
    let mut host = host();
    component(&mut host, &large_component(1));
    host.load().await;
    assert_eq!(cached(&host).len(), 1, "{:?}", cached(&host));

    host.options.compiler.keeps_functions = true;
    component(&mut host, &large_component(2));
    host.load().await;
    let before = cached(&host);
    assert_eq!(
        before.len(),
        3,
        "native code of two, and functions: {before:?}"
    );
    // Cache entries that something else overwrote are ignored, and the component is compiled.
    for entry in &before {
        fs::write(entry, b"written by somebody else").unwrap();
    }
    component(&mut host, &large_component(3));
    host.load().await;
    assert_eq!(cached(&host).len(), 4, "{:?}", cached(&host));
    let n_foreign = before
        .iter()
        .filter(|entry| fs::read(entry).unwrap().starts_with(b"written by"));
    assert_eq!(n_foreign.count(), 2, "the functions were replaced");
}
