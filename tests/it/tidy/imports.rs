//! Compares the table of imports in `wit/README.md` with the host's table.

use rind::plugin::authority::{IMPORTABLE_INTERFACES, ImportableInterface};

use super::table::Table;

/// Returns the table as generated from the host's imports. Neighbors with the same cells share a
/// line.
pub(super) fn table() -> Table {
    let mut lines = vec![
        "| import | needs | gives | at most |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    let is_alike = |a: &ImportableInterface, b: &ImportableInterface| {
        (a.needs, a.gives, a.limits) == (b.needs, b.gives, b.limits)
    };
    lines.extend(IMPORTABLE_INTERFACES.chunk_by(is_alike).map(|rows| {
        let names = rows
            .iter()
            .map(|row| format!("`{}`", row.name.trim_end_matches(['/', '@'])));
        let names: Vec<String> = names.collect();
        let limits: Vec<String> = rows[0].limits.iter().map(ToString::to_string).collect();
        let (needs, gives) = (rows[0].needs, rows[0].gives);
        format!(
            "| {} | {needs} | {gives} | {} |",
            names.join(", "),
            limits.join(", ")
        )
    }));
    Table {
        file: "wit/README.md",
        name: "imports",
        source: "host",
        lines,
    }
}
