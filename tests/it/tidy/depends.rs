//! Crates that the host depends on, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::tree::root;

/// Crates that only the command line needs.
const OF_CLI: &[&str] = &[
    "anstream",
    "anstyle",
    "axum",
    "clap",
    "clap_complete",
    "clap_mangen",
    "indicatif",
    "maud",
    "mimalloc",
    "supports-hyperlinks",
    "syntect",
    "toml_edit",
    "tracing-subscriber",
    "two-face",
];

/// A line `NAME VERSION FEATURES` for each crate that is linked into what is built with these arguments, or into its macros.
pub(super) fn tree(args: &[&str]) -> BTreeSet<String> {
    tree_of("normal,build", args)
}

/// The same for dependencies of these kinds.
pub(super) fn tree_of(kinds: &str, args: &[&str]) -> BTreeSet<String> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(["--edges", kinds, "--format", "{p} {f}"])
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| {
        let line = line.replace(" (*)", "").replace(" (proc-macro)", "");
        line.trim().to_owned()
    });
    lines.filter(|line| !line.is_empty()).collect()
}

fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Crates of the command line in the tree of the library.
pub(super) fn check_library(tree: &BTreeSet<String>) -> Vec<String> {
    let of_cli = tree.iter().filter(|line| OF_CLI.contains(&name(line)));
    of_cli
        .map(|line| format!("the library depends on {line}, which only `cli` needs"))
        .collect()
}

/// Crates whose features differ: the tests have a trace and a version of the contract to come built in.
const OWN: [&str; 3] = ["rind", "rind-cli", "rind-lib"];

/// Crates that are built once for the program alone and once more for it and the tests, because their features differ.
pub(super) fn check_shared(alone: &BTreeSet<String>, with_tests: &BTreeSet<String>) -> Vec<String> {
    let differs = |line: &&String| !OWN.contains(&name(line)) && !with_tests.contains(*line);
    alone
        .iter()
        .filter(differs)
        .map(|line| {
            let other = with_tests.iter().find(|other| name(other) == name(line));
            format!("`cargo build -p rind` builds {line}, and `cargo run` {other:?}")
        })
        .collect()
}

/// Crates that are built twice: those that read Rust for `rind derive`, with places in the text, and without for macros; and one of
/// this workspace, half a second each, which build scripts pack with and the program unpacks with.
const BUILT_TWICE: [&str; 4] = ["proc-macro2", "quote", "rind-embed", "syn"];

/// Builds of libraries for the program, as cargo plans them: the identifier of a package for each build. The plan is an unstable
/// option of cargo; `cargo tree` does not tell features of the build script's side from those of the program's.
pub(super) fn planned_builds() -> Vec<String> {
    let output = Command::new("cargo")
        .args(["build", "--locked", "--offline", "-p", "rind"])
        .args(["--unit-graph", "-Z", "unstable-options"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let units = plan["units"].as_array().unwrap();
    let of_library = units
        .iter()
        .filter(|unit| unit["mode"] == "build" && unit["target"]["kind"][0] == "lib");
    of_library
        .map(|unit| unit["pkg_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Packages that are built twice, for the build script or a macro and for the program, because their features differ. Each crate that
/// depends on them is then built twice as well: of wasmtime, that takes minutes.
pub(super) fn check_once(builds: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for package in builds {
        *counts.entry(package).or_default() += 1;
    }
    let is_known = |package: &str| {
        BUILT_TWICE
            .iter()
            .any(|name| package.contains(&format!("#{name}@")))
    };
    counts
        .into_iter()
        .filter(|(package, count)| *count > 1 && !is_known(package))
        .map(|(package, count)| {
            format!("{package} is built {count} times: unite its features in `[build-dependencies]` of host/program/Cargo.toml")
        })
        .collect()
}

#[test]
fn a_crate_of_the_command_line_and_one_with_other_features_are_found() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let alone = lines(&["clap v4.0.0 std", "serde v1.0.0 std", "rind v0.1.0 cli"]);
    let with_tests = lines(&[
        "clap v4.0.0 std",
        "serde v1.0.0 derive,std",
        "rind v0.1.0 cli,otel",
    ]);
    assert_eq!(check_library(&alone).len(), 1);
    let found = check_shared(&alone, &with_tests);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("serde v1.0.0 derive,std"), "{found:?}");
    let builds = [
        "r#a@1.0.0",
        "r#a@1.0.0",
        "r#a@2.0.0",
        "r#syn@2.0.0",
        "r#syn@2.0.0",
    ];
    assert_eq!(check_once(&builds.map(str::to_owned)).len(), 1);
}
