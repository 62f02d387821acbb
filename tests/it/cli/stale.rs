//! Components that are older than their sources: `test` rebuilds them, and `check`, `pack` and
//! `install` refuse them.

use rind::plugin::contract::sources::digest_plugin_sources;
use rind::plugin::contract::stamp;
use rind_tests::cli::Rind;
use rind_tests::guests;

/// A plugin with sources, whose component is stamped with their digest.
fn with_sources() -> Rind {
    let rind = Rind::default();
    let folder = guests::put("hello", &rind.workspace(), |manifest| manifest);
    // Python sources that cannot be built into a plugin: `test` must report that the rebuild
    // failed.
    rind.file("hello/pyproject.toml", "[tool.rind]\nmodule = \"plugin\"\n");
    rind.file("hello/plugin.py", "one = 1\n");
    rind.file(
        "hello/tests/cases.toml",
        "[[case]]\nname = \"a\"\nexpect.stop = \"done\"\n",
    );
    let path = folder.join("hello.wasm");
    let mut component = std::fs::read(&path).unwrap();
    // The first section of this name counts, so the build's own section is removed first.
    let digest = digest_plugin_sources(&folder).unwrap();
    component = without_sources(&component);
    stamp::append_source_digest_section(&mut component, &digest).unwrap();
    std::fs::write(path, component).unwrap();
    rind
}

/// Hides the section that the component's own build wrote.
fn without_sources(component: &[u8]) -> Vec<u8> {
    let name = b"rind:sources";
    let mut out = component.to_vec();
    if let Some(at) = out.windows(name.len()).position(|part| part == name) {
        // The section is renamed, not removed, which keeps all lengths.
        out[at..at + 4].copy_from_slice(b"else");
    }
    out
}

#[test]
fn a_component_older_than_its_sources_is_not_tested_checked_packed_or_installed() {
    let rind = with_sources();
    rind.run(&["plugin", "test", "hello"]).exits(0);
    let ran = rind.run(&["plugin", "check", "hello"]);
    assert!(!ran.stdout.contains("other sources"), "{}", ran.stdout);
    rind.run(&["plugin", "pack", "hello"]).exits(0);
    rind.file("hello/plugin.py", "one = 2\n");
    let why = "its sources have changed since it was built: build it again with `rind plugin build hello`";
    let ran = rind.run(&["plugin", "check", "hello"]).exits(1);
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    for command in ["pack", "install"] {
        let ran = rind.run(&["plugin", command, "hello"]);
        assert_ne!(ran.code, Some(0), "{command}");
        assert!(
            ran.stderr
                .contains("its sources have changed since it was built"),
            "{}",
            ran.stderr
        );
    }
    let ran = rind.run(&["plugin", "test", "hello"]).exits(1);
    assert!(ran.stdout.contains("✗ hello: build"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains(
            "its component is older than its sources and cannot be rebuilt: plugin `hello`: "
        ),
        "{}",
        ran.stdout
    );
}
