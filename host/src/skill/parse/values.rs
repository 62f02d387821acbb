//! Reads the values of keys as text, as lists of texts, as flags, or as one of several words.

use super::diagnose::SkillFileDiagnostics;
use crate::front_matter::{YamlMappingEntry, YamlNode, YamlNodeKind};

/// Maximum number of values in a list of the front matter.
const MAX_LIST_VALUES: usize = 500;

impl SkillFileDiagnostics {
    /// Returns the text of a value that only describes the skill. A value that is not text causes a
    /// warning and is ignored.
    pub(super) fn read_descriptive_text(&mut self, entry: &YamlMappingEntry) -> Option<String> {
        match &entry.node.kind {
            _ if entry.node.is_null() => None,
            YamlNodeKind::Scalar(text, _) => {
                Some(text.trim().to_owned()).filter(|text| !text.is_empty())
            }
            _ => {
                self.add_warning(
                    entry.node.place,
                    format!("`{}` is not a text", entry.key),
                    "write it as one text; it is ignored as it is",
                );
                None
            }
        }
    }

    /// Returns the texts of a list, or of one text that is split at commas and whitespace outside
    /// braces. A value of another kind is a fault.
    pub(super) fn read_text_list(
        &mut self,
        key: &str,
        node: &YamlNode,
    ) -> Vec<(String, (usize, usize))> {
        match &node.kind {
            _ if node.is_null() => {
                self.add_error(
                    node.place,
                    format!("`{key}` has no value"),
                    "give it one or remove the key",
                );
                Vec::new()
            }
            YamlNodeKind::Scalar(text, _) => {
                let items = split_outside_brackets(text, ['{', '}'])
                    .into_iter()
                    .take(MAX_LIST_VALUES);
                items.map(|item| (item, node.place)).collect()
            }
            YamlNodeKind::List(items) => {
                let mut texts = Vec::new();
                for item in items.iter().take(MAX_LIST_VALUES) {
                    match item.scalar_text() {
                        Some(text) => texts.push((text.trim().to_owned(), item.place)),
                        None => self.add_error(
                            item.place,
                            format!("an entry of `{key}` is not a text"),
                            "write each entry as text",
                        ),
                    }
                }
                texts
            }
            YamlNodeKind::Mapping(_) => {
                self.add_error(
                    node.place,
                    format!("`{key}` is a mapping"),
                    "write a list: `[a, b]`",
                );
                Vec::new()
            }
        }
    }

    /// Parses a flag in any of YAML's spellings. Any other value is recorded as a fault, and the
    /// result is `None`.
    pub(super) fn read_boolean(&mut self, entry: &YamlMappingEntry) -> Option<bool> {
        let text = entry
            .node
            .scalar_text()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match text.as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => {
                let text = format!("`{}` is neither true nor false", entry.key);
                self.add_error(entry.node.place, text, "write `true` or `false`");
                None
            }
        }
    }

    /// Parses a value that must be one of `words`. Any other value is recorded as a fault, and the
    /// result is `None`.
    pub(super) fn read_choice<T: Copy>(
        &mut self,
        entry: &YamlMappingEntry,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = entry.node.scalar_text().unwrap_or_default().trim();
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let what = match entry.node.scalar_text() {
                Some(text) => format!("`{}` has the unknown value `{text}`", entry.key),
                None => format!("`{}` has a value of the wrong kind", entry.key),
            };
            let hint = format!("write `{}`", known.join("`, `"));
            self.add_error(entry.node.place, what, hint);
        }
        found
    }
}

/// Splits a text at commas and whitespace outside brackets. A `(` after whitespace belongs to the
/// item before it.
pub(super) fn split_outside_brackets(text: &str, [open, close]: [char; 2]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    let mut is_new = true;
    for c in text.chars() {
        let is_border = depth == 0 && (c == ',' || c.is_whitespace());
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
        }
        match items.last_mut() {
            _ if is_border => is_new = true,
            Some(last) if !is_new || c == '(' => {
                last.push(c);
                is_new = false;
            }
            _ => {
                items.push(c.to_string());
                is_new = false;
            }
        }
    }
    items
}
