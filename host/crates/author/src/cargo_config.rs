//! Finds compiler flags in cargo's configuration, because further flags must be passed in the same
//! table.
//!
//! Cargo takes `rustflags` from only one table: from `[target.…]` if any entry matches the target,
//! otherwise from `[build]`. Flags that are passed for the other table are silently ignored.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::target::WASM_TARGET_TRIPLE;

/// Configuration file of cargo, reduced to the keys that are used.
#[derive(Deserialize)]
struct CargoSettings {
    #[serde(default)]
    target: Table,
    /// Further configuration files, relative to the directory of this one. Each item is a string or
    /// a table with a `path`.
    #[serde(default)]
    include: Vec<Value>,
}

/// Maximum depth of files that include one another. Cargo itself reports cycles.
const MAX_CONFIG_INCLUDE_DEPTH: usize = 16;

/// Whether the cargo configuration that applies in `folder` sets flags under a `[target.…]` that
/// matches plugins. `cfg` is the output of `rustc --print cfg` for the target.
pub(super) fn has_target_specific_flags(
    folder: &Path,
    cargo_home: Option<&Path>,
    cfg: &str,
) -> bool {
    let above = folder.ancestors().map(|folder| folder.join(".cargo"));
    let folders = above.chain(cargo_home.map(Path::to_owned));
    folders
        .filter_map(|folder| find_cargo_config_path(&folder))
        .flat_map(|path| read_cargo_settings(&path, MAX_CONFIG_INCLUDE_DEPTH))
        .any(|settings| {
            settings.target.iter().any(|(key, value)| {
                let has_flags = value.get("rustflags").is_some_and(|flags| match flags {
                    Value::Array(flags) => !flags.is_empty(),
                    Value::String(flags) => !flags.trim().is_empty(),
                    _ => false,
                });
                has_flags && (key == WASM_TARGET_TRIPLE || cfg_matches_target(key, cfg))
            })
        })
}

/// Returns the path of cargo's configuration file in a directory.
fn find_cargo_config_path(folder: &Path) -> Option<PathBuf> {
    let mut paths = ["config", "config.toml"].map(|name| folder.join(name));
    let position = paths.iter().position(|path| path.is_file())?;
    Some(std::mem::take(&mut paths[position]))
}

/// Reads a configuration file and, recursively, the files that it includes, nested at most
/// `n_files` deep. Files that cannot be read are skipped: cargo reports them.
fn read_cargo_settings(path: &Path, n_files: usize) -> Vec<CargoSettings> {
    let text = std::fs::read_to_string(path).ok();
    let settings = text.and_then(|text| toml::from_str::<CargoSettings>(&text).ok());
    let (Some(settings), Some(n_files)) = (settings, n_files.checked_sub(1)) else {
        return Vec::new();
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let included = settings
        .include
        .iter()
        .filter_map(find_included_config_path);
    let mut all: Vec<CargoSettings> = included
        .flat_map(|name| read_cargo_settings(&folder.join(name), n_files))
        .collect();
    all.push(settings);
    all
}

fn find_included_config_path(value: &Value) -> Option<&str> {
    match value {
        Value::Table(table) => table.get("path")?.as_str(),
        value => value.as_str(),
    }
}

/// Whether a key of the `target` table matches the target of plugins. The key is a target triple or
/// an expression such as `cfg(all(target_os = "wasi", not(unix)))`.
fn cfg_matches_target(key: &str, cfg: &str) -> bool {
    let inner = key
        .trim()
        .strip_prefix("cfg(")
        .and_then(|key| key.strip_suffix(')'));
    inner.is_some_and(|inner| is_cfg_true(inner, cfg))
}

fn is_cfg_true(expression: &str, cfg: &str) -> bool {
    let expression = expression.trim();
    let call = expression
        .strip_suffix(')')
        .and_then(|text| text.split_once('('));
    match call.map(|(name, list)| (name.trim(), list)) {
        Some(("all", list)) => split_cfg_list(list)
            .iter()
            .all(|part| is_cfg_true(part, cfg)),
        Some(("any", list)) => split_cfg_list(list)
            .iter()
            .any(|part| is_cfg_true(part, cfg)),
        Some(("not", list)) => !is_cfg_true(list, cfg),
        Some(_) => false,
        None => {
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            let wanted = bare(expression);
            wanted == "true" || cfg.lines().any(|line| bare(line) == wanted)
        }
    }
}

/// Splits a list of `cfg` predicates at the commas that are outside parentheses.
fn split_cfg_list(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_usize, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.extend(list.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(list.get(from..).filter(|rest| !rest.trim().is_empty()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const CFG: &str =
        "panic=\"abort\"\ntarget_arch=\"wasm32\"\ntarget_family=\"wasm\"\ntarget_os=\"wasi\"\n";

    #[test]
    fn flags_of_a_target_count_where_they_are_for_plugins() {
        for (key, expected) in [
            ("wasm32-wasip2", true),
            ("x86_64-unknown-linux-gnu", false),
            ("cfg(target_arch = \"wasm32\")", true),
            ("cfg(all(target_os = \"wasi\", not(unix)))", true),
            ("cfg(any(unix, windows))", false),
            ("cfg(not(target_family = \"wasm\"))", false),
            ("cfg(all())", true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let below = folder.path().join("a/b");
            std::fs::create_dir_all(folder.path().join(".cargo")).unwrap();
            let text = format!("[target.'{key}']\nrustflags = [\"-Cdebuginfo=0\"]\n");
            std::fs::write(folder.path().join(".cargo/config.toml"), text).unwrap();
            assert_eq!(
                has_target_specific_flags(&below, None, CFG),
                expected,
                "{key}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("config.toml"),
            "[build]\nrustflags = [\"-g\"]\n",
        )
        .unwrap();
        assert!(!has_target_specific_flags(
            Path::new("/nowhere"),
            Some(folder.path()),
            CFG
        ));
    }

    #[test]
    fn files_that_a_configuration_includes_count_too() {
        for (include, expected) in [
            ("[\"sub/flags.toml\"]", true),
            ("[{ path = \"sub/flags.toml\", optional = true }]", true),
            ("[\"sub/above.toml\"]", true),
            ("[{ path = \"sub/missing.toml\", optional = true }]", false),
            ("[\"sub/circle.toml\"]", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cargo = folder.path().join(".cargo");
            std::fs::create_dir_all(cargo.join("sub")).unwrap();
            for (file, text) in [
                ("config.toml", format!("include = {include}\n")),
                (
                    "sub/flags.toml",
                    "[target.wasm32-wasip2]\nrustflags = [\"-g\"]\n".to_owned(),
                ),
                ("sub/above.toml", "include = [\"flags.toml\"]\n".to_owned()),
                (
                    "sub/circle.toml",
                    "include = [\"circle.toml\"]\n".to_owned(),
                ),
            ] {
                std::fs::write(cargo.join(file), text).unwrap();
            }
            assert_eq!(
                has_target_specific_flags(folder.path(), None, CFG),
                expected,
                "{include}"
            );
        }
    }
}
