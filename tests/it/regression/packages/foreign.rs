//! Tests of components that were built for another host, or for another copy of the contract.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rind::plugin::contract::CURRENT_CONTRACT_VERSION;
use rind_tests::cli::Rind;

use super::plugin;

/// End of the message about any component that was built for another host: the target to build for.
const REMEDY: &str = "build it for `wasm32-wasip2`";

/// Returns the text of a component that contains a core module.
fn around(module: &str) -> String {
    format!("(component (core module $m {module}) (core instance (instantiate $m)))")
}

/// Returns the text of a component that imports this interface.
fn importing(interface: &str) -> String {
    format!(
        "(component (import \"{interface}\" (instance (export \"get-random-u64\" (func (result u64))))))"
    )
}

#[test]
fn a_component_for_another_host_is_told_what_it_was_built_for_and_what_to_build_for() {
    let rind = Rind::default();
    let preview_1 = "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)))";
    for (name, component, built_for) in [
        (
            "module",
            "(module)".to_owned(),
            "c.wasm is a core module, not a component; ",
        ),
        (
            "preview-one",
            preview_1.to_owned(),
            "not a component, built for WASI 0.1 (`wasi_snapshot_preview1`)",
        ),
        (
            "wasi-three",
            importing("wasi:random/random@0.3.0"),
            "to WASI 0.3.0; this host runs WASI 0.2",
        ),
        (
            "candidate",
            importing("wasi:random/random@0.2.0-rc-2023-11-10"),
            "to WASI 0.2.0-rc-2023-11-10; this",
        ),
        (
            "unversioned",
            importing("wasi:random/random"),
            "to WASI without a version; this",
        ),
        (
            "async-one",
            "(component (import \"slow\" (func async (param \"x\" u32))))".to_owned(),
            "async functions (WASI 0.3)",
        ),
        (
            "streams",
            "(component (type $s (stream u8)) (import \"feed\" (func (param \"s\" $s))))"
                .to_owned(),
            "async functions (WASI 0.3)",
        ),
        (
            "wide",
            around("(memory i64 1)"),
            "was built for 64-bit memory (memory64); this host",
        ),
        (
            "throws",
            around("(tag $t) (func (throw $t))"),
            "was built for exceptions; this host",
        ),
        (
            "collected",
            around("(type $s (struct (field i32))) (func (drop (struct.new $s (i32.const 1))))"),
            "was built for garbage collection (GC); this host",
        ),
        (
            "threads",
            around("(memory 1 2 shared)"),
            "was built for threads; this host",
        ),
    ] {
        let folder = plugin(&rind, name, &component);
        let folder = folder.to_str().unwrap();
        for command in [
            &["plugin", "inspect", folder][..],
            &["plugin", "install", folder],
            &["plugin", "pack", folder],
            &["plugin", "check", folder],
            &["run", "--plugin", folder, "hi"],
        ] {
            let ran = rind.run(command);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert_ne!(ran.code, Some(0), "{command:?}\n{said}");
            assert!(said.contains(built_for), "{command:?}: {built_for}\n{said}");
            assert!(said.contains(REMEDY), "{command:?}\n{said}");
            for word in [
                "linker",
                "parser",
                "offset",
                "feature",
                ".install-",
                "/.tmp",
            ] {
                assert!(!said.contains(word), "{command:?}: {word}\n{said}");
            }
        }
    }
    // Components of JavaScript have several memories and tail calls, so both must be accepted.
    let folder = plugin(
        &rind,
        "memories",
        &around("(memory 1) (memory 2) (func $f (return_call $f))"),
    );
    rind.run(&["plugin", "inspect", folder.to_str().unwrap()])
        .exits(0);
}

#[test]
fn a_file_that_is_a_core_module_is_not_called_a_component_without_its_manifest() {
    let rind = Rind::default();
    let file = rind.user_home().join("core.wasm");
    fs::write(&file, wat::parse_str("(module)").unwrap()).unwrap();
    let ran = rind
        .run(&["plugin", "install", file.to_str().unwrap()])
        .exits(1);
    assert!(
        ran.stderr
            .contains("core.wasm is a core module, not a component"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("manifest"), "{}", ran.stderr);
}

/// Returns the text of a component with a hook on `turn-end` whose payload has this type.
fn hook(version: &str, payload: &str) -> String {
    format!(
        "(component (core module $m (memory (export \"m\") 1) (func (export \"run\") (param i32 i32)) \
         (func (export \"r\") (param i32 i32 i32 i32) (result i32) (i32.const 0)))\n\
         (core instance $i (instantiate $m))\n\
         (type $p {payload}) (export $payload \"turn-report\" (type $p))\n\
         (func $f (param \"payload\" $payload) (canon lift (core func $i \"run\") (memory (core memory $i \"m\")) (realloc (core func $i \"r\"))))\n\
         (instance $e (export \"turn-report\" (type $payload)) (export \"run\" (func $f)))\n\
         (export \"rind:plugin/turn-end@{version}\" (instance $e)))"
    )
}

#[test]
fn a_component_built_with_another_copy_of_the_contract_names_point_and_both_versions_and_nothing_trapped()
 {
    let rind = Rind::default();
    let point = hook(
        CURRENT_CONTRACT_VERSION,
        "(record (field \"a\" u32) (field \"b\" u32))",
    );
    let import = format!(
        "(component (import \"rind:plugin/log@{CURRENT_CONTRACT_VERSION}\" (instance (export \"write\" (func (param \"text\" string))))))"
    );
    for (name, component, interface) in [
        ("skewed-point", &point, "turn-end"),
        ("skewed-import", &import, "log"),
    ] {
        let folder = plugin(&rind, name, component);
        fs::create_dir(folder.join("tests")).unwrap();
        let case = "[[case]]\nname = \"a turn\"\n[case.given]\nfiles = { \"a.txt\" = \"x\" }\n\
                    tool = { name = \"read_file\", arguments = { path = \"a.txt\" } }\n[case.expect]\nresults = [\"x\"]\n";
        fs::write(folder.join("tests/cases.toml"), case).unwrap();
        let folder = folder.to_str().unwrap();
        for command in [
            &["plugin", "inspect", folder][..],
            &["plugin", "install", folder],
            &["plugin", "check", folder],
            &["plugin", "test", folder],
            &["run", "--plugin", folder, "hi"],
        ] {
            let ran = rind.run(command);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            for part in [
                "it was built with another copy of the contract: ",
                &format!("for `rind:plugin/{interface}@{CURRENT_CONTRACT_VERSION}`"),
                &format!(
                    "built with contract {CURRENT_CONTRACT_VERSION}, and this host has contract {CURRENT_CONTRACT_VERSION}"
                ),
            ] {
                assert!(said.contains(part), "{command:?}: {part}\n{said}");
            }
            assert!(
                !said.contains("trapped") && !said.contains("linker"),
                "{said}"
            );
        }
    }
}

/// Scripts in place of cargo and rustc, which report `made.wasm` of the plugin's folder as the
/// compiled component.
const TOOLCHAIN: [(&str, &str); 2] = [
    (
        "cargo",
        r#"case "$1" in
locate-project) echo "$PWD/Cargo.toml" ;;
build) echo "{\"reason\":\"compiler-artifact\",\"manifest_path\":\"$PWD/Cargo.toml\",\"target\":{\"kind\":[\"cdylib\"]},\"filenames\":[\"$PWD/made.wasm\"]}" ;;
esac"#,
    ),
    ("rustc", "echo \"${0%/*}/..\""),
];

#[test]
fn a_build_of_a_component_with_another_copy_of_the_contract_names_point_and_both_versions() {
    let rind = Rind::default();
    let skewed = hook(
        CURRENT_CONTRACT_VERSION,
        "(record (field \"a\" u32) (field \"b\" u32))",
    );
    let folder = plugin(&rind, "skewed", &skewed);
    fs::rename(folder.join("c.wasm"), folder.join("made.wasm")).unwrap();
    fs::create_dir(folder.join("src")).unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    let cargo = "[package]\nname = \"skewed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n";
    fs::write(folder.join("Cargo.toml"), cargo).unwrap();
    let toolchain = rind.user_home().join("toolchain");
    fs::create_dir_all(toolchain.join("lib/rustlib/wasm32-wasip2")).unwrap();
    fs::create_dir(toolchain.join("bin")).unwrap();
    for (name, script) in TOOLCHAIN {
        let path = toolchain.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = rind.command(&["plugin", "build", folder.to_str().unwrap()]);
    command.env("PATH", toolchain.join("bin"));
    let ran = rind.finish(&mut command).exits(1);
    for part in [
        "plugin `skewed` was compiled, and cannot be loaded: ",
        "it was built with another copy of the contract: ",
        &format!("for `rind:plugin/turn-end@{CURRENT_CONTRACT_VERSION}`"),
        &format!(
            "built with contract {CURRENT_CONTRACT_VERSION}, and this host has contract {CURRENT_CONTRACT_VERSION}"
        ),
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("trapped"), "{}", ran.stderr);
}

#[test]
fn a_function_under_the_name_of_a_point_is_refused() {
    let rind = Rind::default();
    let component = format!(
        "(component (core module $m (func (export \"run\"))) (core instance $i (instantiate $m)) \
         (func $f (canon lift (core func $i \"run\"))) (export \"rind:plugin/turn-end@{CURRENT_CONTRACT_VERSION}\" (func $f)))"
    );
    let folder = plugin(&rind, "function", &component);
    let ran = rind
        .run(&["plugin", "inspect", folder.to_str().unwrap()])
        .exits(1);
    let says = format!(
        "the component exports `rind:plugin/turn-end@{CURRENT_CONTRACT_VERSION}`, which is not an interface there"
    );
    assert!(ran.stderr.contains(&says), "{}", ran.stderr);
}

#[test]
fn a_component_that_nothing_calls_is_said_to_be_one_by_install_list_inspect_and_doctor() {
    let rind = Rind::default();
    let component = "(component (core module $m (func (export \"add\"))) (core instance $i (instantiate $m)) \
                     (func $f (canon lift (core func $i \"add\"))) (export \"add\" (func $f)))";
    let folder = plugin(&rind, "adder", component);
    let folder = folder.to_str().unwrap();
    for command in [
        &["plugin", "inspect", folder][..],
        &["plugin", "pack", folder],
        &["plugin", "install", folder],
        &["plugin", "list"],
        &["doctor"],
    ] {
        let ran = rind.run(command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("nothing calls it"), "{command:?}\n{said}");
    }
}
