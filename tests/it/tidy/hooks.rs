//! Compares the table of hooks in `sdk/rust/README.md` with `wit/points.in`, and checks that each
//! hook has an example.

use super::table::Table;
use super::tree::read;

/// File with an example of each hook.
pub(super) const EXAMPLES: &str = "sdk/rust/examples/points.rs";

/// Returns for each point its name as a function, and its payload and outcome as Rust types.
pub(super) fn rows() -> Vec<(String, String, String)> {
    let text = read("wit/points.in");
    let rows = text.lines().filter_map(|line| {
        let line = line.trim().strip_suffix(';')?;
        let mut cells = line.split(", ").map(str::to_owned);
        let (_, _, module, _) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
        Some((module, cells.next()?, cells.next()?))
    });
    rows.collect()
}

/// Returns the table as generated from the points.
pub(super) fn table() -> Table {
    let head = ["| hook | takes | returns |", "|---|---|---|"];
    let rows = rows().into_iter().map(|(module, payload, outcome)| {
        let handle = payload.strip_prefix("Lent<");
        let payload = match handle.and_then(|rest| rest.strip_suffix('>')) {
            Some(handle) => format!("&{handle}"),
            None => payload,
        };
        let outcome = match outcome.as_str() {
            "Observed" => "nothing, or `Observed`".to_owned(),
            outcome => format!("`{outcome}`"),
        };
        format!("| `{module}` | `{payload}` | {outcome} |")
    });
    Table {
        file: "sdk/rust/README.md",
        name: "hooks",
        source: "contract",
        lines: head.into_iter().map(str::to_owned).chain(rows).collect(),
    }
}

/// Reports points without an example.
pub(super) fn without_example(text: &str) -> Vec<String> {
    let rows = rows().into_iter();
    let missing =
        rows.filter(|(module, ..)| !text.contains(&format!("    #[hook]\n    fn {module}(")));
    missing.map(|(module, ..)| module).collect()
}

#[test]
fn a_point_without_an_example_is_found() {
    let text = read(EXAMPLES);
    assert!(rows().len() > 20);
    let without = text.replace("fn turn_end(", "fn turn_ends(");
    assert_eq!(without_example(&without), ["turn_end"]);
}
