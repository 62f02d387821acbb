//! Generates the lists in `wit/world.wit` from the host's tables of imports and points.

use rind::plugin::authority::IMPORTABLE_INTERFACES;
use rind::point::catalog::CATALOG;

use super::table::Part;

/// Returns the worlds that list the interfaces that the host offers and calls.
pub(super) fn parts() -> [Part; 2] {
    let part = |world: &str, lines: Vec<String>| Part {
        start: format!("world {world} {{\n"),
        end: "}\n".to_owned(),
        text: lines.concat(),
    };
    let imports = IMPORTABLE_INTERFACES
        .iter()
        .filter(|row| row.is_contract_interface());
    let imports = imports.map(|row| format!("  import {};\n", row.name));
    let hooks = CATALOG
        .iter()
        .map(|row| format!("  export {};\n", row.name));
    [
        part("imports", imports.collect()),
        part("hooks", hooks.collect()),
    ]
}
