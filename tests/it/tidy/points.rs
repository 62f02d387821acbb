//! Compares the table of points in `wit/README.md` with the catalog.

use rind::point::catalog::CATALOG;

use super::table::Table;

/// Document that holds the table.
pub(super) const FILE: &str = "wit/README.md";

/// Returns the table as generated from the catalog.
pub(super) fn table() -> Table {
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
    Table {
        file: FILE,
        name: "points",
        source: "catalog",
        lines: head.into_iter().map(str::to_owned).chain(rows).collect(),
    }
}

#[test]
fn a_table_that_differs_from_the_catalog_is_found() {
    let check = |text: &str| table().check(text);
    let good = format!("# Rind\n\n{}\n", table().text());
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
        ("<!-- points -->", ""),
        ("<!-- /points -->", ""),
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
