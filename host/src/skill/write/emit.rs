//! Writes nodes as YAML: one key per line, and text in double quotes unless it is unambiguous
//! without quotes.

use crate::front_matter::{YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind};
use crate::text::is_deceptive_character;

/// Maximum length of a list that is written on one line, in characters.
const MAX_ONE_LINE_LIST_CHARS: usize = 100;

/// Writes the keys of a document, without the `---` lines around them.
pub(super) fn emit_document(document: &YamlDocument) -> String {
    document.entries.iter().map(emit_yaml_entry).collect()
}

/// Returns a key with its value as YAML.
pub(super) fn emit_yaml_entry(entry: &YamlMappingEntry) -> String {
    let mut text = String::new();
    append_yaml_entry_lines(&mut text, 0, entry);
    text
}

fn append_yaml_entry_lines(text: &mut String, indent: usize, entry: &YamlMappingEntry) {
    let blanks = " ".repeat(indent);
    let key = emit_key(&entry.key);
    match &entry.node.kind {
        YamlNodeKind::Mapping(entries) if !entries.is_empty() => {
            text.push_str(&format!("{blanks}{key}:\n"));
            entries
                .iter()
                .for_each(|inner| append_yaml_entry_lines(text, indent + 2, inner));
        }
        YamlNodeKind::List(items) if !fits_on_one_line(&entry.node) => {
            text.push_str(&format!("{blanks}{key}:\n"));
            let items = items
                .iter()
                .map(|item| format!("{blanks}  - {}\n", emit_one_line_value(item)));
            text.extend(items);
        }
        _ => text.push_str(&format!(
            "{blanks}{key}: {}\n",
            emit_one_line_value(&entry.node)
        )),
    }
}

/// Whether a list is short enough to be written on one line.
fn fits_on_one_line(node: &YamlNode) -> bool {
    let is_empty = matches!(&node.kind, YamlNodeKind::List(items) if items.is_empty());
    is_empty || emit_one_line_value(node).chars().count() <= MAX_ONE_LINE_LIST_CHARS
}

/// Returns a value as YAML on one line.
fn emit_one_line_value(node: &YamlNode) -> String {
    match &node.kind {
        YamlNodeKind::Scalar(text, is_plain) => emit_scalar(text, *is_plain, node),
        YamlNodeKind::List(items) => {
            let items: Vec<String> = items.iter().map(emit_one_line_value).collect();
            format!("[{}]", items.join(", "))
        }
        YamlNodeKind::Mapping(entries) => {
            let entries = entries.iter().map(|entry| {
                format!(
                    "{}: {}",
                    emit_key(&entry.key),
                    emit_one_line_value(&entry.node)
                )
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn emit_scalar(text: &str, is_plain: bool, node: &YamlNode) -> String {
    if node.is_null() {
        return "null".to_owned();
    }
    // Write numbers, booleans and other unquoted values as they were spelled in the file.
    if (is_plain && !node.to_json_value().is_string()) || needs_no_quotes(text) {
        return text.to_owned();
    }
    quote_text(text)
}

fn emit_key(key: &str) -> String {
    let is_in_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_simple =
        key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(is_in_key);
    if is_simple {
        key.to_owned()
    } else {
        quote_text(key)
    }
}

/// Whether a text needs no quotes, even in a list on one line.
fn needs_no_quotes(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-./()".contains(c);
    let node = YamlNode {
        place: (1, 1),
        kind: YamlNodeKind::Scalar(text.to_owned(), true),
    };
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_plain)
        && !text.ends_with(' ')
        && node.to_json_value().is_string()
}

/// Writes a text in double quotes. Escapes invisible characters, and characters that a parser could
/// take for a line break.
fn quote_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control()
                || is_deceptive_character(c)
                || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c)
                || u32::from(c) & 0xfffe == 0xfffe =>
            {
                quoted.push_str(&format!("\\U{:08X}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
