//! Changes `plugin.toml` so that faults disappear. Each change removes or lowers what the plugin
//! requests.
//!
//! The document is edited with its comments and order preserved. A fix must never raise a limit or
//! add a permission, because an author may apply it without reading it.

use std::io::{self, Write};
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, TableLike, value};

use super::{PluginCheckResult, PluginFault};
use rind_lib::plugin::manifest::FILE_NAME;

/// Change to a plugin manifest that corrects a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestFix {
    /// Removes a key of the manifest, and the tables that become empty.
    Remove(Vec<String>),
    /// Removes an entry of `side_effects`, and the section of the same name.
    SideEffect(&'static str),
    /// Removes an item of a list, and the list if it becomes empty.
    Item {
        /// Keys that lead to the list in the manifest, outermost first.
        keys: Vec<String>,
        /// Item to remove from the list.
        item: String,
    },
    /// Sets a key to the value that the host already uses instead of the written one, such as its
    /// maximum.
    Set {
        /// Keys of the manifest that lead to the value, outermost first.
        keys: Vec<String>,
        /// Value that is written as a number if it is one, otherwise as a text.
        value: String,
    },
    /// Adds a list with one item to the manifest.
    Insert {
        /// Name of the list, a key at the top level of the manifest.
        key: &'static str,
        /// The only item of the list.
        value: &'static str,
    },
}

impl ManifestFix {
    pub(super) fn key_removal(keys: &[&str]) -> Self {
        Self::Remove(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    fn apply_fix(&self, document: &mut DocumentMut) -> Option<()> {
        match self {
            Self::Remove(keys) => remove_toml_item(document.as_table_mut(), keys),
            Self::SideEffect(name) => {
                let list = document.get_mut("side_effects")?.as_array_mut()?;
                list.retain(|item| item.as_str() != Some(name));
                if list.is_empty() {
                    list.push("none");
                    // Remove the whitespace that is left in the list after the removal of an item.
                    list.fmt();
                }
                document.remove(name);
                Some(())
            }
            Self::Item { keys, item } => {
                let list = find_toml_item_mut(document.as_table_mut(), keys)?.as_array_mut()?;
                list.retain(|own| own.as_str() != Some(item));
                let is_empty = list.is_empty();
                if is_empty {
                    remove_toml_item(document.as_table_mut(), keys)
                } else {
                    Some(())
                }
            }
            Self::Set { keys, value: text } => {
                let at = find_toml_item_mut(document.as_table_mut(), keys)?;
                *at = match text.parse::<i64>() {
                    Ok(number) => value(number),
                    Err(_) => value(text),
                };
                Some(())
            }
            Self::Insert { key, value: item } => {
                let mut list = Array::new();
                list.push(*item);
                document.insert(key, value(list));
                Some(())
            }
        }
    }
}

fn find_toml_item_mut<'a>(table: &'a mut dyn TableLike, keys: &[String]) -> Option<&'a mut Item> {
    let (first, rest) = keys.split_first()?;
    let item = table.get_mut(first)?;
    if rest.is_empty() {
        Some(item)
    } else {
        find_toml_item_mut(item.as_table_like_mut()?, rest)
    }
}

fn remove_toml_item(table: &mut dyn TableLike, keys: &[String]) -> Option<()> {
    let (first, rest) = keys.split_first()?;
    if rest.is_empty() {
        return table.remove(first).map(drop);
    }
    let inner = table.get_mut(first)?.as_table_like_mut()?;
    remove_toml_item(inner, rest)?;
    if inner.is_empty() {
        table.remove(first);
    }
    Some(())
}

/// Applies the fixes of a plugin to its manifest, preserving comments and order. Returns the faults
/// that were fixed.
///
/// # Errors
/// The manifest cannot be read or written; it is then unchanged.
pub fn fix_manifest(checked: &PluginCheckResult) -> io::Result<Vec<PluginFault>> {
    let path = checked.folder.join(FILE_NAME);
    if checked.faults.iter().all(|fault| fault.fix.is_none()) {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path)?;
    let mut document: DocumentMut = text.parse().map_err(io::Error::other)?;
    let mut fixed = Vec::new();
    for fault in &checked.faults {
        let fix = fault.fix.as_ref();
        if fix.is_some_and(|fix| fix.apply_fix(&mut document).is_some()) {
            fixed.push(fault.clone());
        }
    }
    write_manifest(&path, &document.to_string())?;
    Ok(fixed)
}

/// Writes the manifest atomically, preserving its permissions.
fn write_manifest(path: &Path, text: &str) -> io::Result<()> {
    // Resolve symlinks, so that the target is replaced and not the link.
    let path = path.canonicalize()?;
    let permissions = path.metadata()?.permissions();
    let mut file = tempfile::Builder::new()
        .prefix(".plugin.")
        .permissions(permissions)
        .tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}
