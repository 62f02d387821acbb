//! Edits settings files: changes some values and leaves the rest of the file as it is.

use std::fs;
use std::path::Path;

use anyhow::Context;
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::exit_code::Usage;
use rind_lib::disk::{create_private_folder, replace_private_file};

/// Sets values in a TOML file, each at its path of keys. A file that did not exist begins with the
/// text `head`. Returns whether the file changed.
pub(super) fn set_toml_values(
    file: &Path,
    head: &str,
    values: &[(&[&str], Value)],
) -> anyhow::Result<bool> {
    // If the file is a symlink, edit its target instead of replacing the symlink.
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let (head, text) = match fs::read_to_string(file) {
        Ok(text) => ("", text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => (head, String::new()),
        Err(e) => return Err(e.into()),
    };
    let mut document: DocumentMut = text.parse()?;
    let mut is_news = false;
    for (keys, value) in values {
        is_news |= set_table_value(document.as_table_mut(), keys, value)?;
    }
    if !is_news {
        return Ok(false);
    }
    if let Some(folder) = file.parent() {
        create_private_folder(folder)?;
    }
    // Prepend the head as text: in an otherwise empty document, toml_edit would move a parsed
    // comment behind the table.
    replace_private_file(file, format!("{head}{document}").as_bytes())?;
    Ok(true)
}

/// Removes the value at `keys` from the TOML file. Returns whether it existed.
pub(super) fn remove_toml_value(file: &Path, keys: &[&str]) -> anyhow::Result<bool> {
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let mut document: DocumentMut = text.parse()?;
    let (last, sections) = keys.split_last().context("no key")?;
    let mut table: Option<&mut dyn toml_edit::TableLike> = Some(document.as_table_mut());
    for key in sections {
        table = table
            .and_then(|table| table.get_mut(key))
            .and_then(Item::as_table_like_mut);
    }
    if table.and_then(|table| table.remove(last)).is_none() {
        return Ok(false);
    }
    replace_private_file(file, document.to_string().as_bytes())?;
    Ok(true)
}

/// Returns the elements of a list; none if the key is missing.
pub(super) fn read_toml_list(file: &Path, keys: &[&str]) -> anyhow::Result<Vec<Value>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let document: DocumentMut = text
        .parse()
        .with_context(|| format!("cannot read {}", file.display()))?;
    let mut item = Some(document.as_item());
    for key in keys {
        item = item.and_then(|item| item.get(key));
    }
    Ok(match item {
        Some(Item::ArrayOfTables(tables)) => {
            let inline = tables.iter().map(|table| table.clone().into_inline_table());
            inline.map(Value::InlineTable).collect()
        }
        Some(Item::Value(Value::Array(array))) => array.iter().cloned().collect(),
        _ => Vec::new(),
    })
}

/// Appends values to a list and writes each element on its own line. A new file begins with the
/// text `head`.
pub(super) fn add_to_toml_list(
    file: &Path,
    head: &str,
    keys: &[&str],
    values: Vec<Value>,
) -> anyhow::Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let mut list = read_toml_list(file, keys)?;
    list.extend(values);
    let mut array = Array::new();
    for mut value in list {
        value.decor_mut().set_prefix("\n    ");
        value.decor_mut().set_suffix("");
        array.push_formatted(value);
    }
    array.set_trailing_comma(true);
    array.set_trailing("\n");
    set_toml_values(file, head, &[(keys, Value::Array(array))])?;
    Ok(())
}

fn set_table_value(table: &mut Table, keys: &[&str], value: &Value) -> anyhow::Result<bool> {
    let (last, sections) = keys.split_last().context("no key")?;
    let mut table = table;
    for (n, key) in sections.iter().enumerate() {
        table = inner_toml_table_or_create(table, key)
            .ok_or_else(|| Usage(format!("its `{key}` is not a table")))?;
        // A table that contains only tables needs no header line.
        table.set_implicit(n + 1 < sections.len());
    }
    let before = table.get(last).and_then(Item::as_value);
    if before.is_some_and(|before| before.to_string().trim() == value.to_string().trim()) {
        return Ok(false);
    }
    let mut value = value.clone();
    // Keep the comment that follows the replaced value.
    if let Some(before) = before {
        *value.decor_mut() = before.decor().clone();
    }
    table.insert(last, Item::Value(value));
    Ok(true)
}

/// Returns the table of this name, created if missing; `None` if the name has a value that is no
/// table.
fn inner_toml_table_or_create<'a>(above: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let item = above
        .entry(name)
        .or_insert_with(|| Item::Table(Table::new()));
    if let Some(inline) = item.as_inline_table() {
        *item = Item::Table(inline.clone().into_table());
    }
    item.as_table_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(file: &Path, is_on: bool) -> anyhow::Result<bool> {
        let keys: &[&str] = &["plugins", "guard", "enabled"];
        set_toml_values(file, "# mine\n", &[(keys, is_on.into())])
    }

    fn written(before: &str, is_on: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, before).unwrap();
        switch(&file, is_on).unwrap();
        fs::read_to_string(file).unwrap()
    }

    #[test]
    fn a_new_file_begins_with_what_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new.toml");
        assert!(switch(&file, false).unwrap());
        assert!(!switch(&file, false).unwrap());
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text, "# mine\n[plugins.guard]\nenabled = false\n");
    }

    #[test]
    fn one_line_changes_and_comments_stay() {
        assert_eq!(written("", false), "[plugins.guard]\nenabled = false\n");
        let before = "# mine\n[agent]\nmax_steps = 5 # few\n\n[plugins.guard]\nenabled = false\npriority = 3\n";
        assert_eq!(
            written(before, true),
            before.replace("enabled = false", "enabled = true")
        );
        assert_eq!(
            written("plugins = { guard = { priority = 3 } }\n", false),
            "[plugins.guard]\npriority = 3\nenabled = false\n"
        );
    }

    #[test]
    fn values_are_added_to_a_list_in_each_of_its_forms() {
        for (before, after) in [
            ("", "[hooks]\nclaude = [\n    \"b\",\n]\n"),
            (
                "[hooks]\nclaude = [\"a\"] # mine\n",
                "[hooks]\nclaude = [\n    \"a\",\n    \"b\",\n] # mine\n",
            ),
            (
                "[[hooks.claude]]\nx = 1\n",
                "[hooks]\nclaude = [\n    { x = 1 },\n    \"b\",\n]\n",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.toml");
            fs::write(&file, before).unwrap();
            add_to_toml_list(&file, "", &["hooks", "claude"], vec!["b".into()]).unwrap();
            assert_eq!(fs::read_to_string(file).unwrap(), after, "{before}");
        }
    }

    #[test]
    fn several_values_are_set_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let name: &[&str] = &["provider", "name"];
        let model: &[&str] = &["provider", "model"];
        set_toml_values(&file, "", &[(name, "ollama".into()), (model, "m".into())]).unwrap();
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text, "[provider]\nname = \"ollama\"\nmodel = \"m\"\n");
    }

    #[test]
    fn a_file_that_is_not_toml_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        for text in ["[plugins", "plugins = 3\n"] {
            fs::write(&file, text).unwrap();
            assert!(switch(&file, false).is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
