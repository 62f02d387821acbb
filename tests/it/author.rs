//! Tests of building plugins with the real toolchain. The crates have no dependencies, so that
//! cargo downloads nothing.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rind::author::build::{BuildOptions, BuildReport, ProgressCallback, build_plugins};
use rind::plugin::contract::stamp;

pub(crate) fn put(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A plugin crate without dependencies.
pub(crate) fn put_crate(dir: &Path, name: &str, component: &str, code: &str) {
    let cargo = format!(
        "[package]\nname = \"{name}-crate\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n"
    );
    put(&dir.join("Cargo.toml"), &cargo);
    put(
        &dir.join("plugin.toml"),
        &format!("name = \"{name}\"\n{component}\n[hooks.pre-tool]\n"),
    );
    put(&dir.join("src/lib.rs"), code);
}

async fn run(dirs: &[&Path], out: Option<&Path>) -> (BuildReport, String) {
    let lines = Arc::new(Mutex::new(String::new()));
    let told = lines.clone();
    let progress: ProgressCallback =
        Arc::new(move |line| *told.lock().unwrap() += &format!("{line}\n"));
    let options = BuildOptions {
        dirs: dirs.iter().map(|dir| dir.to_path_buf()).collect(),
        out: out.map(Path::to_path_buf),
        deadline: Duration::from_secs(120),
        shared: None,
    };
    let report = build_plugins(&options, &progress, &Default::default())
        .await
        .unwrap();
    let lines = lines.lock().unwrap().clone();
    (report, lines)
}

fn is_component(path: &Path) -> bool {
    std::fs::read(path)
        .unwrap()
        .starts_with(b"\0asm\x0d\0\x01\0")
}

#[tokio::test]
async fn crates_of_one_workspace_are_built_at_once_and_the_good_ones_survive() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(
        &root.join("Cargo.toml"),
        "[workspace]\nresolver = \"3\"\nmembers = [\"*-plugin\"]\n",
    );
    let (good, bad) = (root.join("good-plugin"), root.join("bad-plugin"));
    let code = "#[unsafe(no_mangle)]\npub extern \"C\" fn nothing() {}\n";
    put_crate(&good, "good", "component = \"build/good.wasm\"", code);
    put_crate(
        &bad,
        "bad",
        "component = \"bad.wasm\"",
        "pub fn broken() -> u8 { \"text\" }",
    );
    let (report, lines) = run(&[&bad, &good], None).await;
    let built: Vec<&str> = report
        .built
        .iter()
        .map(|plugin| plugin.name.as_str())
        .collect();
    assert_eq!(
        (built, report.failed.len()),
        (vec!["good"], 1),
        "{:?}",
        report.failed
    );
    assert_eq!(
        report.built[0].path,
        good.canonicalize().unwrap().join("build/good.wasm")
    );
    assert!(is_component(&report.built[0].path));
    assert_eq!(
        report.built[0].bytes,
        report.built[0].path.metadata().unwrap().len()
    );
    let error = report.failed[0].to_string();
    assert!(
        error.starts_with("plugin `bad`: the build failed:\n"),
        "{error}"
    );
    assert!(error.contains("mismatched types"), "{error}");
    assert!(
        lines.starts_with("building bad, good\n") && lines.contains("Compiling good-crate"),
        "{lines}"
    );

    let out = root.join("out");
    put(&good.join("README.md"), "about");
    put(&good.join("prompts/ask.md"), "prompt");
    put(&good.join("skills/one/SKILL.md"), "skill");
    put(&out.join("good/plugin.toml"), "old");
    put(&out.join("good/stale.md"), "old");
    let (report, _) = run(&[&good], Some(&out)).await;
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!(report.built[0].path, out.join("good/build/good.wasm"));
    for file in [
        "plugin.toml",
        "README.md",
        "prompts/ask.md",
        "skills/one/SKILL.md",
        "build/good.wasm",
    ] {
        assert!(out.join("good").join(file).is_file(), "{file}");
    }
    assert!(!out.join("good/stale.md").exists() && !out.join("good/src").exists());
    assert_eq!(
        std::fs::read_dir(&out).unwrap().count(),
        1,
        "nothing temporary is left"
    );

    let folder_of = |name: &str| out.join(name).metadata().unwrap().ino();
    let first = folder_of("good");
    let (report, _) = run(&[&good], Some(&out)).await;
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    assert_eq!(
        folder_of("good"),
        first,
        "what is the same stays: it may be being loaded"
    );
    put(&good.join("prompts/ask.md"), "another prompt");
    run(&[&good], Some(&out)).await;
    assert_ne!(folder_of("good"), first);
    let prompt = std::fs::read_to_string(out.join("good/prompts/ask.md")).unwrap();
    assert_eq!(prompt, "another prompt");

    put(&root.join("taken/good/precious.txt"), "mine");
    let (report, _) = run(&[&good], Some(&root.join("taken"))).await;
    assert!(
        report.failed[0]
            .to_string()
            .contains("exists and is not a plugin folder"),
        "{:?}",
        report.failed
    );
    assert!(root.join("taken/good/precious.txt").is_file());
}

#[tokio::test]
async fn manifests_that_cannot_be_built_are_told_with_file_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("some-plugin");
    put_crate(&dir, "twin", "component = \"a.wasm\"", "");
    put_crate(
        &folder.path().join("other"),
        "twin",
        "component = \"a.wasm\"",
        "",
    );
    for (plugin, reason) in [
        (
            "name = \"Bad/Name\"\ncomponent = \"a.wasm\"",
            "is not made of a-z",
        ),
        ("name = \"x\"", "no `component` key"),
        (
            "name = \"x\"\ncomponent = \"../a.wasm\"",
            "not a path within the folder",
        ),
        (
            "name = \"x\"\ncomponent = \"/tmp/a.wasm\"",
            "not a path within the folder",
        ),
        ("name = ", "TOML parse error"),
    ] {
        put(&dir.join("plugin.toml"), plugin);
        let (report, _) = run(&[&dir], None).await;
        let error = report.failed[0].to_string();
        assert!(
            error.starts_with("plugin `some-plugin`: ") && error.contains(reason),
            "{error}"
        );
    }
    let (report, _) = run(&[&folder.path().join("missing")], None).await;
    assert!(
        report.failed[0].to_string().contains("missing"),
        "{:?}",
        report.failed
    );
}

/// Writes a crate whose component contains source paths: of the crate itself, of a crate in it, and
/// of code that a build script generated.
fn put_telling_crate(dir: &Path) {
    let code = r#"
include!(concat!(env!("OUT_DIR"), "/made.rs"));
#[unsafe(no_mangle)]
pub extern "C" fn places(index: usize) -> usize {
    let all = [file!(), made(), within::place()];
    all[index].len() + within::checked(index)
}
"#;
    put_crate(dir, "telling", "component = \"telling.wasm\"", code);
    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
    let within = "[dependencies]\nwithin = { path = \"within\" }\n[workspace]\n";
    put(&dir.join("Cargo.toml"), &(manifest + within));
    let made = r#"fn main() {
    let code = "fn made() -> &'static str { panic!(\"{}\", file!()) }";
    std::fs::write(std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("made.rs"), code).unwrap();
}"#;
    put(&dir.join("build.rs"), made);
    put(
        &dir.join("within/Cargo.toml"),
        "[package]\nname = \"within\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    );
    let code = "pub fn place() -> &'static str { file!() }\npub fn checked(n: usize) -> usize { n.checked_mul(3).unwrap() }\n";
    put(&dir.join("within/src/lib.rs"), code);
}

#[tokio::test]
async fn the_same_source_gives_the_same_bytes_in_any_folder() {
    let mut components = Vec::new();
    for name in ["one", "a/deeper/folder"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join(name);
        put_telling_crate(&dir);
        let (report, _) = run(&[&dir], None).await;
        assert!(report.failed.is_empty(), "{:?}", report.failed);
        let component = std::fs::read(&report.built[0].path).unwrap();
        let has = |text: &str| {
            component
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        // Some path is in the component, so that the comparison below means something.
        assert!(has("made.rs"), "made");
        for place in [folder.path(), &guests_target()] {
            assert!(!has(place.to_str().unwrap()), "{}", place.display());
        }
        components.push(component);
    }
    assert!(components[0] == components[1]);
}

#[tokio::test]
async fn settings_of_cargo_bring_no_place_of_this_machine_into_a_component() {
    // The settings change the code, so that a test whose settings have no effect fails.
    let marked = "#[cfg(marked)]\n#[unsafe(no_mangle)]\npub extern \"C\" fn marked() -> usize { file!().len() }\n";
    let flags = "[\"--cfg\", \"marked\"]";
    let of_target = format!("[target.wasm32-wasip2]\nrustflags = {flags}\n");
    let of_cfg = format!("[target.'cfg(target_family = \"wasm\")']\nrustflags = {flags}\n");
    let of_all = format!("[build]\nrustflags = {flags}\n");
    for (settings, included) in [
        (of_target.clone(), None),
        (of_cfg.clone(), None),
        (of_all.clone(), None),
        (of_all + &of_target, None),
        (
            "include = [\"more/flags.toml\"]\n".to_owned(),
            Some(of_target),
        ),
        (
            "include = [{ path = \"more/flags.toml\", optional = true }]\n".to_owned(),
            Some(of_cfg),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let dir = root.join("home/me/plugin");
        put_telling_crate(&dir);
        let code = std::fs::read_to_string(dir.join("src/lib.rs")).unwrap();
        put(&dir.join("src/lib.rs"), &(code + marked));
        put(&root.join(".cargo/config.toml"), &settings);
        if let Some(text) = &included {
            put(&root.join(".cargo/more/flags.toml"), text);
        }
        let (report, said) = run(&[&dir], None).await;
        assert!(report.failed.is_empty(), "{settings}\n{said}");
        let component = std::fs::read(&report.built[0].path).unwrap();
        let has = |text: &str| {
            component
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(has("made.rs") && has("marked"), "{settings}");
        assert!(!has(root.to_str().unwrap()), "{settings}");
    }
}

/// Runs itself again without `CARGO_TARGET_DIR`, because changing the environment within a test
/// process is unsafe.
#[tokio::test]
async fn a_target_folder_of_cargos_settings_is_not_in_a_component() {
    const FOLDER: &str = "RIND_TEST_TARGET_SETTING";
    let Some(root) = std::env::var_os(FOLDER) else {
        let folder = tempfile::tempdir().unwrap();
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "author::a_target_folder_of_cargos_settings_is_not_in_a_component",
            ])
            .env(FOLDER, folder.path().canonicalize().unwrap())
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    };
    let root = Path::new(&root);
    let dir = root.join("me/plugin");
    put_telling_crate(&dir);
    for setting in ["target-dir", "build-dir"] {
        let place = root.join("elsewhere").join(setting);
        let settings = format!("[build]\n{setting} = \"{}\"\n", place.display());
        put(&root.join(".cargo/config.toml"), &settings);
        let (report, said) = run(&[&dir], None).await;
        assert!(report.failed.is_empty(), "{setting}\n{said}");
        let component = std::fs::read(&report.built[0].path).unwrap();
        let has = |text: &str| {
            component
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(place.is_dir() && has("made.rs"), "{setting}");
        assert!(!has(root.to_str().unwrap()), "{setting}");
    }
}

/// Returns the target folder of this build.
fn guests_target() -> std::path::PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().nth(3).unwrap().to_owned()
}

#[tokio::test]
async fn a_folder_without_a_language_or_with_two_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    put(
        &dir.join("plugin.toml"),
        "name = \"x\"\ncomponent = \"x.wasm\"\n",
    );
    for (file, text, reason) in [
        (
            "README.md",
            "",
            "there is no Cargo.toml, package.json or pyproject.toml",
        ),
        ("package.json", "{}", "there is no `main`"),
        (
            "package.json",
            "{\"main\": \"../x.js\"}",
            "is not a file within the folder",
        ),
        ("package.json", "{\"main\": 1}", "package.json"),
        (
            "pyproject.toml",
            "",
            "there are both package.json and pyproject.toml",
        ),
    ] {
        put(&dir.join(file), text);
        let (report, _) = run(&[dir], None).await;
        let error = report.failed[0].to_string();
        assert!(error.contains(reason), "{error}");
    }
    std::fs::remove_file(dir.join("package.json")).unwrap();
    for (text, reason) in [
        ("", "there is no plugin.py"),
        ("[tool.rind]\nmodule = \"../x\"", "there is no ../x.py"),
        ("[tool.rind]\nmodul = \"x\"", "unknown field `modul`"),
    ] {
        put(&dir.join("pyproject.toml"), text);
        let (report, _) = run(&[dir], None).await;
        let error = report.failed[0].to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_missing_javascript_tool_is_told_with_the_command_that_brings_it() {
    if crate::examples::has("esbuild") {
        // Skipped: esbuild is on the search path and cannot be hidden safely within a test.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    put(
        &dir.join("plugin.toml"),
        "name = \"x\"\ncomponent = \"x.wasm\"\n",
    );
    put(&dir.join("package.json"), "{\"main\": \"x.js\"}");
    put(&dir.join("x.js"), "");
    let (report, _) = run(&[&dir], None).await;
    let expected = format!(
        "plugin `x`: esbuild is missing; install it with `npm install`, in {}",
        dir.display()
    );
    assert_eq!(report.failed[0].to_string(), expected);
}

/// An empty component, which the fake cargo reports as its build result.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

const RUSTC: &str = "echo \"${0%/*}/../toolchains/made\"";

const RUSTUP: &str =
    "echo \"installing $5\" >&2\n/bin/mkdir -p \"${0%/*}/../toolchains/$4/lib/rustlib/$5\"";

const RUSTUP_WITHOUT_NETWORK: &str = "echo 'error: could not download' >&2\nexit 1";

/// Fake cargo that reports a component which the plugin's folder already contains.
const CARGO: &str = r#"case "$1" in
locate-project) echo "$PWD/Cargo.toml" ;;
build) echo "{\"reason\":\"compiler-artifact\",\"manifest_path\":\"$PWD/Cargo.toml\",\"target\":{\"kind\":[\"cdylib\"]},\"filenames\":[\"$PWD/made.wasm\"]}" ;;
esac"#;

/// Runs itself again with each fake toolchain on the search path, because changing the environment
/// within a test process is unsafe.
#[tokio::test]
async fn a_missing_target_is_added_and_a_missing_toolchain_is_told() {
    const FOLDER: &str = "RIND_TEST_TOOLCHAIN";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return with_toolchain(Path::new(&folder)).await;
    }
    for programs in [
        &[("cargo", CARGO), ("rustc", RUSTC), ("rustup", RUSTUP)][..],
        &[
            ("cargo", CARGO),
            ("rustc", RUSTC),
            ("rustup", RUSTUP_WITHOUT_NETWORK),
        ],
        &[("cargo", CARGO), ("rustc", RUSTC)],
        &[],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, script) in programs {
            let path = bin.join(name);
            put(&path, &format!("#!/bin/sh\n{script}\n"));
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "author::a_missing_target_is_added_and_a_missing_toolchain_is_told",
            ])
            .env(FOLDER, folder.path())
            .env("PATH", &bin)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && text.contains("1 passed"),
            "{programs:?}: {text}"
        );
    }
}

async fn with_toolchain(folder: &Path) {
    let has = |program: &str| folder.join("bin").join(program).exists();
    let plugin = folder.join("plugin");
    put_crate(&plugin, "made", "component = \"component.wasm\"", "");
    std::fs::write(plugin.join("made.wasm"), EMPTY_COMPONENT).unwrap();
    let lines = Arc::new(Mutex::new(String::new()));
    let told = lines.clone();
    let progress: ProgressCallback =
        Arc::new(move |line| *told.lock().unwrap() += &format!("{line}\n"));
    let options = BuildOptions {
        dirs: vec![plugin.clone()],
        out: None,
        deadline: Duration::from_secs(10),
        shared: None,
    };
    let built = build_plugins(&options, &progress, &Default::default()).await;
    match built {
        Ok(report) => {
            assert!(
                has("rustup") && report.failed.is_empty(),
                "{:?}",
                report.failed
            );
            let component = std::fs::read(plugin.join("component.wasm")).unwrap();
            let manifest = std::fs::read(plugin.join("plugin.toml")).unwrap();
            assert_eq!(stamp::read_embedded_manifest(&component), Some(manifest));
            let lines = lines.lock().unwrap();
            assert!(
                lines.starts_with("adding the target wasm32-wasip2"),
                "{lines}"
            );
            // Output of rustup is shown only if rustup fails.
            assert!(!lines.contains("installing"), "{lines}");
        }
        Err(error) if has("cargo") => {
            let words: &[&str] = if has("rustup") {
                &[
                    "`rustup target add --toolchain made wasm32-wasip2` did not add it",
                    "error: could not download",
                    "https://static.rust-lang.org",
                ]
            } else {
                &[
                    "no target wasm32-wasip2, and there is no rustup",
                    "`rustup target add wasm32-wasip2`",
                    "Debian",
                    "Nix",
                ]
            };
            let error = error.to_string();
            let missing = words.iter().find(|words| !error.contains(**words));
            assert_eq!(missing, None, "{error}");
        }
        Err(error) => assert!(error.to_string().contains("https://rustup.rs"), "{error}"),
    }
}
