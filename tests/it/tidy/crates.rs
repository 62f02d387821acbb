//! Checks which crate of the host may depend on which. Cargo already refuses circular dependencies.

use super::tree::{Source, folders, read};

/// The crates, lowest first, each with the crates of the host on which it may depend. `rind` is the
/// program and the crate that other programs embed.
const CRATES: &[(&str, &[&str])] = &[
    ("rind-embed", &[]),
    ("rind-base", &["rind-embed"]),
    ("rind-process", &["rind-base"]),
    ("rind-lib", &["rind-base", "rind-embed", "rind-process"]),
    ("rind-session-test", &["rind-lib"]),
    ("rind-nats", &["rind-lib"]),
    ("rind-otel", &["rind-lib"]),
    ("rind-author", &["rind-embed", "rind-lib"]),
    ("rind-mcp", &["rind-lib"]),
    ("rind-import", &["rind-lib", "rind-mcp"]),
    ("rind-package", &["rind-lib"]),
    (
        "rind-operator",
        &["rind-import", "rind-lib", "rind-mcp", "rind-package"],
    ),
    ("rind-serve", &["rind-embed", "rind-lib"]),
    ("rind-acp", &["rind-lib"]),
    ("rind-guard", &["rind-lib"]),
    ("rind-check", &["rind-lib"]),
    ("rind-cases", &["rind-lib"]),
    ("rind-derive", &["rind-author", "rind-cases", "rind-lib"]),
    (
        "rind-cli",
        &[
            "rind-acp",
            "rind-author",
            "rind-cases",
            "rind-check",
            "rind-derive",
            "rind-embed",
            "rind-guard",
            "rind-import",
            "rind-lib",
            "rind-mcp",
            "rind-nats",
            "rind-operator",
            "rind-otel",
            "rind-package",
            "rind-serve",
        ],
    ),
];

/// Returns the names of the crates.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CRATES.iter().map(|(name, _)| *name)
}

/// Returns the manifests of the crates in `host/crates`.
pub(super) fn manifests() -> Vec<Source> {
    let folders = folders("host/crates").into_iter();
    let paths = folders.map(|name| format!("host/crates/{name}/Cargo.toml"));
    let all = paths.chain(["host/Cargo.toml".to_owned()]);
    all.map(|path| Source::new(&path, &read(&path))).collect()
}

/// Reports dependencies that [`CRATES`] does not allow, and entries of it that are no longer
/// needed.
pub(super) fn check(manifests: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut left: Vec<&str> = names().collect();
    for manifest in manifests {
        let path = &manifest.path;
        let parsed: toml::Table = match toml::from_str(&manifest.text) {
            Ok(parsed) => parsed,
            Err(error) => {
                findings.push(format!("{path}: {error}"));
                continue;
            }
        };
        let name = parsed["package"]["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = CRATES.iter().find(|(row, _)| *row == name) else {
            findings.push(format!(
                "{path}: `{name}` has no place in the order of the crates"
            ));
            continue;
        };
        left.retain(|row| *row != name);
        let depends: Vec<&str> = ["dependencies", "dev-dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|table| parsed.get(table)?.as_table())
            .flat_map(toml::Table::keys)
            .map(String::as_str)
            .filter(|other| *other == "rind" || names().any(|row| row == *other))
            .collect();
        let wrong = depends.iter().filter(|other| !allowed.contains(other));
        findings.extend(
            wrong.map(|other| {
                format!("{path}: `{name}` depends on `{other}`, which is not below it")
            }),
        );
        let idle = allowed.iter().filter(|other| !depends.contains(other));
        findings.extend(
            idle.map(|other| format!("{path}: `{name}` may depend on `{other}` and does not")),
        );
    }
    findings.extend(
        left.iter()
            .map(|name| format!("there is no crate `{name}`")),
    );
    findings
}

#[test]
fn a_dependency_upwards_an_idle_row_and_a_crate_without_a_row_are_found() {
    let found = |name: &str, dependencies: &str| {
        let text = format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependencies}");
        let of_file = check(&[Source::new("a/Cargo.toml", &text)]);
        let of_file = of_file.into_iter().filter(|line| line.starts_with("a/"));
        of_file.collect::<Vec<_>>()
    };
    assert!(found("rind-check", "rind-lib = {}\nserde = {}").is_empty());
    let table = [
        ("rind-embed", "rind-lib = {}", "depends on `rind-lib`"),
        (
            "rind-check",
            "rind-lib = {}\nrind = {}",
            "depends on `rind`",
        ),
        ("rind-check", "", "may depend on `rind-lib` and does not"),
        ("rind-other", "", "has no place"),
    ];
    for (name, dependencies, expected) in table {
        let findings = found(name, dependencies);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains(expected), "{findings:?}");
    }
}
