//! Checks the tables in `tests/regressions`: each row says what once happened, what happens now,
//! and which test checks it.

use serde::Deserialize;

use super::tree::Source;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    case: Vec<Case>,
}

/// A row. Exactly one of `seen` and `tried` is present.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    seen: Option<String>,
    tried: Option<String>,
    now: String,
    test: String,
}

/// Reports rows that are incomplete, occur twice, or name a test that is not in `code`.
pub(super) fn check(table: &Source, code: &[Source]) -> Vec<String> {
    let path = &table.path;
    let parsed: Table = match toml::from_str(&table.text) {
        Ok(parsed) => parsed,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    let mut findings = Vec::new();
    let mut stood = std::collections::BTreeSet::new();
    for case in &parsed.case {
        let what = match (&case.seen, &case.tried) {
            (Some(what), None) | (None, Some(what)) if !what.is_empty() => what,
            _ => {
                findings.push(format!(
                    "{path}: a row has either `seen` or `tried`: {}",
                    case.test
                ));
                continue;
            }
        };
        if case.now.is_empty() {
            findings.push(format!("{path}: no outcome: {what}"));
        }
        if !stood.insert(what) {
            findings.push(format!("{path}: stands twice: {what}"));
        }
        if !code.iter().any(|source| has_test(source, &case.test)) {
            findings.push(format!("{path}: there is no test `{}`", case.test));
        }
    }
    findings
}

/// Whether a file contains the test with this path: the file's module path is a prefix of it, and
/// the file has the function.
fn has_test(source: &Source, test: &str) -> bool {
    let Some((modules, name)) = test.rsplit_once("::") else {
        return false;
    };
    let Some(own) = module_path(&source.path) else {
        return false;
    };
    let leads_there = modules == own
        || own.is_empty()
        || modules
            .strip_prefix(&own)
            .is_some_and(|rest| rest.starts_with("::"));
    leads_there && source.text.contains(&format!("fn {name}("))
}

/// Returns the module path of a file. It starts with the name of the crate, except for files of
/// `tests/it`.
fn module_path(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let (krate, rest) = if let Some(rest) = path.strip_prefix("tests/it/") {
        (String::new(), rest)
    } else if let Some(rest) = path.strip_prefix("tests/hostile/") {
        ("hostile".to_owned(), rest)
    } else if let Some(rest) = path.strip_prefix("host/src/") {
        ("rind".to_owned(), rest)
    } else if let Some(rest) = path.strip_prefix("host/crates/") {
        let (name, rest) = rest.split_once("/src/")?;
        (format!("rind::{name}"), rest)
    } else if let Some(rest) = path.strip_prefix("sdk/rust/src/") {
        ("rind_sdk".to_owned(), rest)
    } else {
        let (name, rest) = path.strip_prefix("plugins/")?.split_once('/')?;
        let rest = rest
            .strip_prefix("src/")
            .or_else(|| rest.strip_prefix("tests/"))?;
        (name.replace('-', "_"), rest)
    };
    let rest = rest.strip_suffix("/mod").unwrap_or(rest);
    let parts = rest
        .split('/')
        .filter(|part| *part != "lib" && *part != "main");
    let parts = Some(krate.as_str())
        .into_iter()
        .chain(parts)
        .filter(|part| !part.is_empty());
    Some(parts.collect::<Vec<_>>().join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(row: &str) -> Vec<String> {
        let code = [
            Source::new("tests/it/cli/run.rs", "#[test]\nfn it_runs() {}"),
            Source::new("host/src/tool/policy.rs", "mod tests { fn it_denies() {} }"),
        ];
        let table = Source::new("t.toml", &format!("[[case]]\nnow = \"refused\"\n{row}"));
        check(&table, &code)
    }

    #[test]
    fn a_row_names_what_happened_and_a_test_that_is_there() {
        for test in ["cli::run::it_runs", "rind::tool::policy::tests::it_denies"] {
            let row = format!("seen = \"x\"\ntest = \"{test}\"");
            assert!(findings(&row).is_empty(), "{test}");
        }
    }

    #[test]
    fn what_is_missing_is_found() {
        for row in [
            "test = \"cli::run::it_runs\"",
            "seen = \"x\"\ntried = \"x\"\ntest = \"cli::run::it_runs\"",
            "seen = \"x\"\ntest = \"cli::run::it_walks\"",
            "seen = \"x\"\ntest = \"cli::walk::it_runs\"",
            "seen = \"x\"",
        ] {
            assert_eq!(findings(row).len(), 1, "{row}");
        }
    }
}
