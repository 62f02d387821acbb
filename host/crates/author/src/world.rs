//! Writes the WIT world of one plugin: the interfaces that its module exports and imports, in a
//! directory together with the contract.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rind_lib::plugin::authority;
use rind_lib::plugin::contract;
use rind_lib::point::catalog;

pub(super) const GENERATED_WORLD_NAME: &str = "component";

/// Interfaces that plugins may export, besides the extension points.
const NON_HOOK_EXPORT_INTERFACES: [&str; 5] =
    ["tools", "implement", "loop", "agent-loop", "commands"];

/// Interfaces that contain only types. They grant no permissions, but the world must import them
/// for the bindings.
const TYPE_ONLY_INTERFACES: [&str; 3] = ["types", "payloads", "outcomes"];

/// Returns every interface that a plugin may export, in kebab case.
pub(super) fn exportable_interface_names() -> impl Iterator<Item = &'static str> {
    let points = catalog::CATALOG.iter().map(|row| row.name);
    points.chain(NON_HOOK_EXPORT_INTERFACES)
}

/// Whether `name` is an interface of Rind's plugin contract that the host implements.
pub(super) fn is_host_import(name: &str) -> bool {
    authority::IMPORTABLE_INTERFACES
        .iter()
        .any(|row| row.is_contract_interface() && row.name == name)
}

/// Writes the contract and a world with these exports and imports to a directory below `work`.
/// Returns the path of the directory.
pub(super) fn write_wit_world(
    work: &Path,
    exports: &[String],
    imports: &[String],
) -> io::Result<PathBuf> {
    let folder = work.join("wit");
    let contract = folder.join("deps/rind");
    fs::create_dir_all(&contract)?;
    for (name, text) in contract::list_contract_files() {
        fs::write(contract.join(name), text)?;
    }
    let version = contract::CURRENT_CONTRACT_VERSION;
    let types = TYPE_ONLY_INTERFACES.iter().map(|name| ("import", *name));
    let asked = imports.iter().map(|name| ("import", name.as_str()));
    let offered = exports.iter().map(|name| ("export", name.as_str()));
    let lines = types
        .chain(asked.filter(|(_, name)| !TYPE_ONLY_INTERFACES.contains(name)))
        .chain(offered);
    let lines: String = lines
        .map(|(side, name)| format!("  {side} rind:plugin/{name}@{version};\n"))
        .collect();
    let text = format!("package rind:component;\n\nworld {GENERATED_WORLD_NAME} {{\n{lines}}}\n");
    fs::write(folder.join("world.wit"), text)?;
    Ok(folder)
}
