//! The README's table of points, held to the catalog.

use rind::point::catalog::CATALOG;

const START: &str = "<!-- points -->";
const END: &str = "<!-- /points -->";

/// The lines that must stand between the marks.
fn table() -> Vec<String> {
    let head = [
        "| point | kind | may return | also known as |",
        "|---|---|---|---|",
    ];
    let rows = CATALOG.iter().map(|row| {
        let aliases: Vec<String> = row.aliases.iter().map(|name| format!("`{name}`")).collect();
        format!(
            "| `{}` | {} | {} | {} |",
            row.name,
            row.kind,
            row.returns,
            aliases.join(", ")
        )
    });
    head.into_iter().map(str::to_owned).chain(rows).collect()
}

/// The cells of a row without spaces around them, so that a table may be aligned.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(str::trim).collect()
}

fn is_rule(row: &str) -> bool {
    cells(row)
        .iter()
        .all(|cell| cell.trim_matches(':').chars().all(|c| c == '-') && !cell.is_empty())
}

/// Compares the table in `readme` with the catalog; the error shows the table as it must be.
pub(super) fn check(readme: &str) -> Result<(), String> {
    let expected = table();
    let table = readme
        .split_once(START)
        .and_then(|(_, rest)| Some(rest.split_once(END)?.0))
        .ok_or_else(|| format!("README.md has no table between `{START}` and `{END}`"))?;
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let found: Vec<Vec<&str>> = lines.filter(|line| !is_rule(line)).map(cells).collect();
    let wanted: Vec<Vec<&str>> = expected
        .iter()
        .filter(|line| !is_rule(line))
        .map(|line| cells(line))
        .collect();
    if found == wanted {
        return Ok(());
    }
    let wrong = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at));
    let wrong = wrong
        .and_then(|at| found.get(at))
        .map(|cells| cells.join(" | "));
    Err(format!(
        "README.md: the table of points is not the catalog's, at `{}`; it must be\n{START}\n{}\n{END}",
        wrong.unwrap_or_default(),
        expected.join("\n")
    ))
}

#[test]
fn a_table_that_differs_from_the_catalog_is_found() {
    let good = format!("# Rind\n\n{START}\n{}\n{END}\n", table().join("\n"));
    assert_eq!(check(&good), Ok(()));
    let aligned = good
        .replace("|---|", "| :--- |")
        .replace("| gate |", "|   gate   |");
    assert_eq!(check(&aligned), Ok(()));
    let table = [
        ("| `pre-tool` | gate |", "| `pre-tool` | mutate |"),
        ("`tool_call`, ", ""),
        ("| edits, for this request only |", "| edits |"),
        ("`turn-end`", "`turn-ends`"),
        (START, ""),
        (END, ""),
    ];
    for (right, wrong) in table {
        assert!(good.contains(right), "{right}");
        assert!(check(&good.replace(right, wrong)).is_err(), "{right}");
    }
    let shorter: Vec<&str> = good
        .lines()
        .filter(|line| !line.contains("`error`"))
        .collect();
    assert!(check(&shorter.join("\n")).is_err());
}
