//! Checks the lock file of new plugins in Rust: it has the versions with which this tree is tested.

use std::collections::BTreeMap;

use super::super::tree;

/// Returns the packages of a lock file: name and version, with the checksum.
fn packages(path: &str) -> BTreeMap<(String, String), Option<String>> {
    let lock: toml::Table = tree::read(path).parse().unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    let text = |package: &toml::Value, key| Some(package.get(key)?.as_str().unwrap().to_owned());
    packages
        .map(|package| {
            let name = text(package, "name").unwrap();
            let version = text(package, "version").unwrap();
            ((name, version), text(package, "checksum"))
        })
        .collect()
}

#[test]
fn new_plugins_lock_the_versions_that_this_tree_is_tested_with() {
    let (tested, locked) = (
        packages("Cargo.lock"),
        packages("host/templates/rust/Cargo.lock"),
    );
    let other = locked
        .iter()
        .filter(|(package, checksum)| tested.get(*package) != Some(*checksum));
    let other: Vec<_> = other
        .map(|((name, version), _)| format!("{name} {version}"))
        .collect();
    assert!(
        other.is_empty(),
        "host/templates/rust/Cargo.lock: not as in Cargo.lock: {other:?}\nmake a plugin with `rind plugin new`, copy Cargo.lock of this \
         tree into it, run `cargo metadata` there, and take its Cargo.lock without the plugin's own package"
    );
    for name in ["rind-sdk", "rind-sdk-macros", "wit-bindgen", "serde"] {
        assert!(
            locked.keys().any(|(own, _)| own == name),
            "{name} is missing"
        );
    }
}
