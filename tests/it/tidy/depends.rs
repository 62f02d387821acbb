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

/// Returns a line `NAME VERSION FEATURES` for each crate that a build with these arguments links
/// into its targets, build scripts or macros.
pub(super) fn tree(args: &[&str]) -> BTreeSet<String> {
    tree_of("normal,build", args)
}

/// Returns the lines of [`tree`] for dependencies of these kinds, as `--edges` of `cargo tree`
/// takes them.
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

/// Reports crates of the command line in the dependency tree of the library.
pub(super) fn check_library(tree: &BTreeSet<String>) -> Vec<String> {
    let of_cli = tree.iter().filter(|line| OF_CLI.contains(&name(line)));
    of_cli
        .map(|line| format!("the library depends on {line}, which only `cli` needs"))
        .collect()
}

/// Crates whose features may differ: the tests build them with a trace and with a future version of
/// the contract.
const OWN: [&str; 3] = ["rind", "rind-cli", "rind-lib"];

/// Reports crates that cargo builds again when it builds the tests as well, because their features
/// differ.
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

/// Crates that may be built twice. `proc-macro2`, `quote` and `syn` parse Rust for `rind derive`
/// with source positions, and for macros without. `rind-embed`, which takes half a second, packs
/// files in build scripts and unpacks them in the program.
const BUILT_TWICE: [&str; 4] = ["proc-macro2", "quote", "rind-embed", "syn"];

/// Returns the package id for each build of a library that cargo plans for the program. Uses
/// cargo's unstable `--unit-graph`, because `cargo tree` does not tell the features for build
/// scripts from those for the program.
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

/// Reports packages that are built twice, once for build scripts or macros and once for the
/// program, because their features differ. Each crate that depends on them is then built twice as
/// well, which takes minutes for wasmtime.
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
