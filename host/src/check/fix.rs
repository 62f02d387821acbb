//! Changes to `plugin.toml` that remove faults: each takes away or lowers what the plugin asks for, never more.

use std::io::{self, Write};
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, TableLike, value};

use super::{Checked, Fault};
use crate::plugin::manifest::FILE_NAME;

/// A change of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Removes a key, and tables that are empty then.
    Remove(Vec<String>),
    /// Removes a side effect, and its section.
    SideEffect(&'static str),
    /// Removes an item of a list.
    Item {
        /// Keys that lead to the list.
        keys: Vec<String>,
        /// Item to remove.
        item: String,
    },
    /// Sets a key to what holds anyway.
    Set {
        /// Keys that lead to it.
        keys: Vec<String>,
        /// The value: a number, or else a text.
        value: String,
    },
    /// Adds a list of one item.
    Insert {
        /// The key, at the top of the file.
        key: &'static str,
        /// Item that the list then holds.
        value: &'static str,
    },
}

impl Fix {
    pub(super) fn remove(keys: &[&str]) -> Self {
        Self::Remove(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    fn apply(&self, document: &mut DocumentMut) -> Option<()> {
        match self {
            Self::Remove(keys) => remove(document.as_table_mut(), keys),
            Self::SideEffect(name) => {
                let list = document.get_mut("side_effects")?.as_array_mut()?;
                list.retain(|item| item.as_str() != Some(name));
                if list.is_empty() {
                    list.push("none");
                    // The space after an item that is gone.
                    list.fmt();
                }
                document.remove(name);
                Some(())
            }
            Self::Item { keys, item } => {
                let list = find(document.as_table_mut(), keys)?.as_array_mut()?;
                list.retain(|own| own.as_str() != Some(item));
                let is_empty = list.is_empty();
                if is_empty {
                    remove(document.as_table_mut(), keys)
                } else {
                    Some(())
                }
            }
            Self::Set { keys, value: text } => {
                let at = find(document.as_table_mut(), keys)?;
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

fn find<'a>(table: &'a mut dyn TableLike, keys: &[String]) -> Option<&'a mut Item> {
    let (first, rest) = keys.split_first()?;
    let item = table.get_mut(first)?;
    if rest.is_empty() {
        Some(item)
    } else {
        find(item.as_table_like_mut()?, rest)
    }
}

fn remove(table: &mut dyn TableLike, keys: &[String]) -> Option<()> {
    let (first, rest) = keys.split_first()?;
    if rest.is_empty() {
        return table.remove(first).map(drop);
    }
    let inner = table.get_mut(first)?.as_table_like_mut()?;
    remove(inner, rest)?;
    if inner.is_empty() {
        table.remove(first);
    }
    Some(())
}

/// Applies the fixes of a plugin to its manifest, which keeps its comments and order. Returns the faults that are gone.
///
/// # Errors
/// The manifest cannot be read or written; it is then as it was.
pub fn fix(checked: &Checked) -> io::Result<Vec<Fault>> {
    let path = checked.folder.join(FILE_NAME);
    if checked.faults.iter().all(|fault| fault.fix.is_none()) {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path)?;
    let mut document: DocumentMut = text.parse().map_err(io::Error::other)?;
    let mut fixed = Vec::new();
    for fault in &checked.faults {
        let fix = fault.fix.as_ref();
        if fix.is_some_and(|fix| fix.apply(&mut document).is_some()) {
            fixed.push(fault.clone());
        }
    }
    write(&path, &document.to_string())?;
    Ok(fixed)
}

/// Writes the file whole or not at all, with the permissions that it had.
fn write(path: &Path, text: &str) -> io::Result<()> {
    // Behind a link is the file that is meant.
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
