//! The table has a row for every point and every outcome that `wit/` knows.

use std::collections::BTreeSet;
use std::path::Path;

use rind::point::catalog::CATALOG;

/// Cases that change nothing, and so need no row.
const NEUTRAL: [&str; 3] = ["pass", "keep", "unset"];

fn wit(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../wit/{name}.wit"));
    std::fs::read_to_string(path).unwrap()
}

/// Lines within `record NAME {` or `variant NAME {` without docs: names of fields or cases with
/// their types.
fn members(text: &str, kind: &str, name: &str) -> Option<Vec<(String, String)>> {
    let (_, rest) = text.split_once(&format!("{kind} {name} {{"))?;
    let (body, _) = rest.split_once("\n  }")?;
    let lines = body.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("///"));
    let member = |line: &str| {
        let line = line.trim_end_matches(',');
        let (name, of) = line
            .split_once(": ")
            .or_else(|| line.split_once('('))
            .unwrap_or((line, ""));
        (name.to_owned(), of.trim_end_matches(')').to_owned())
    };
    Some(lines.map(member).collect())
}

/// Names that rows use for the possible values of a field: `of` is the field's type.
fn cases(outcomes: &str, field: &str, of: &str) -> Vec<String> {
    let inner = of
        .strip_prefix("list<")
        .or_else(|| of.strip_prefix("option<"));
    let inner = inner.map_or(of, |inner| inner.trim_end_matches('>'));
    let named = |cases: &[&str]| -> Vec<String> {
        cases.iter().map(|case| format!("{field}.{case}")).collect()
    };
    match inner {
        "injection" => named(&["kept", "once"]),
        "prompt-part" => named(&["stable", "context", "volatile"]),
        "bool" => named(&["true", "false"]),
        // The table in `effects` covers these for all points.
        "effect" => Vec::new(),
        _ => match members(outcomes, "variant", inner) {
            None => vec![field.to_owned()],
            Some(cases) => {
                let cases: Vec<&str> = cases
                    .iter()
                    .map(|(case, _)| case.as_str())
                    .filter(|case| !NEUTRAL.contains(case))
                    .collect();
                named(&cases)
            }
        },
    }
}

/// `POINT OUTCOME` for every point and outcome in `wit/`.
fn wanted() -> BTreeSet<String> {
    let outcomes = wit("outcomes");
    let mut all = BTreeSet::new();
    for row in CATALOG {
        let interface = wit(row.name);
        let (_, outcome) = interface.split_once("-> result<").unwrap();
        let (outcome, _) = outcome.split_once(',').unwrap();
        for (field, of) in members(&outcomes, "record", outcome).unwrap() {
            let cases = cases(&outcomes, &field, &of);
            all.extend(cases.iter().map(|case| format!("{} {case}", row.name)));
        }
    }
    all
}

#[test]
fn every_outcome_of_every_point_has_a_row() {
    let rows = [
        super::input::rows(),
        super::prompt::rows(),
        super::request::rows(),
        super::calls::rows(),
        super::answer::rows(),
        super::slice::rows(),
    ];
    let rows: BTreeSet<String> = rows
        .iter()
        .flatten()
        .map(|row| format!("{} {}", row.point, row.outcome))
        .collect();
    let wanted = wanted();
    assert!(wanted.len() > 50, "{wanted:?}");
    let missing: Vec<&String> = wanted.difference(&rows).collect();
    let unknown: Vec<&String> = rows.difference(&wanted).collect();
    assert_eq!((missing, unknown), (vec![], vec![]));
}
