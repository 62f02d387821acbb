//! Checks that no dependency has an advisory with a fixed version, unless the list says why the
//! fault cannot be reached.

use semver::Version;
use serde::Deserialize;

/// Content of `.ci/advisories.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    checked: String,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    package: String,
    fixed: Version,
    what: String,
    unreachable: Option<String>,
    test: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Version,
}

/// Checks the list against a `Cargo.lock`. `has_file` says whether the tree has a file.
pub(super) fn check(list: &str, lock: &str, has_file: impl Fn(&str) -> bool) -> Vec<String> {
    let list: List = toml::from_str(list).expect("the list of advisories is TOML of its form");
    let lock: Lock = toml::from_str(lock).expect("Cargo.lock is TOML of its form");
    let mut findings = Vec::new();
    if list.checked.parse::<toml::value::Datetime>().is_err() {
        findings.push(format!("`checked` is no day: {}", list.checked));
    }
    for advisory in &list.advisory {
        let Advisory {
            id,
            package,
            fixed,
            what,
            ..
        } = advisory;
        // A fix applies to one major version only: each major version of a crate has its own entry.
        let of_line =
            |found: &&Package| found.name == *package && found.version.major == fixed.major;
        let mut affected = lock
            .package
            .iter()
            .filter(of_line)
            .filter(|found| found.version < *fixed);
        match (affected.next(), &advisory.unreachable) {
            (None, _) => findings.push(format!(
                "{id}: no version of {package} below {fixed} is in use; remove the entry"
            )),
            (Some(found), None) => findings.push(format!(
                "{id}: {package} {} is affected ({what}): run `cargo update -p {package} --precise {fixed}`",
                found.version
            )),
            (Some(_), Some(why)) if why.trim().is_empty() => {
                findings.push(format!("{id}: `unreachable` does not say why"));
            }
            (Some(_), Some(_)) => {}
        }
        if let Some(test) = &advisory.test
            && !has_file(test)
        {
            findings.push(format!("{id}: there is no test {test}"));
        }
    }
    findings
}

#[test]
fn an_affected_version_without_a_reason_and_an_entry_without_use_are_findings() {
    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
    let found = |fixed: &str, more: &str| {
        let list = format!(
            "checked = \"2026-11-25\"\n[[advisory]]\nid = \"X\"\ncrate = \"a\"\nfixed = \"{fixed}\"\nwhat = \"w\"\n{more}"
        );
        check(&list, LOCK, |path| path == "there.rs").join("|")
    };
    let reason = "unreachable = \"why\"\n";
    for (fixed, more, words) in [
        ("1.2.4", "", "X: a 1.2.3 is affected (w)"),
        ("1.2.4", "unreachable = \" \"\n", "does not say why"),
        ("1.2.3", reason, "remove the entry"),
        ("3.0.0", reason, "remove the entry"),
        (
            "1.2.4",
            "unreachable = \"why\"\ntest = \"gone.rs\"\n",
            "there is no test gone.rs",
        ),
    ] {
        let findings = found(fixed, more);
        assert!(findings.contains(words), "{fixed} {more}: {findings}");
    }
    assert_eq!(
        found("1.2.4", "unreachable = \"why\"\ntest = \"there.rs\"\n"),
        ""
    );
}
