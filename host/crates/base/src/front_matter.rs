//! Parses front matter, a small YAML mapping at the top of a Markdown file, into nodes with
//! positions.
//!
//! The YAML parser is a library. This module decides how a scalar is interpreted (by YAML's core
//! schema, or as its source text) and which documents are rejected: those with anchors, aliases or
//! tags, with duplicate keys, or beyond the limits of depth and size. These limits make files from
//! untrusted sources safe to read.
//!
//! The module must not know which keys exist. Start from [`split_front_matter`] and
//! [`parse_yaml_document`].

use granit_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Line that opens and closes the YAML front matter of a file.
pub const FRONT_MATTER_DELIMITER: &str = "---";

/// Maximum depth of nested lists and mappings in a front matter.
const MAX_YAML_NESTING_DEPTH: usize = 24;

/// Maximum number of parser events, such as scalars and the starts and ends of collections.
const MAX_YAML_PARSER_EVENTS: usize = 20_000;

/// Maximum number of keys in one mapping of a front matter.
const MAX_KEYS_PER_MAPPING: usize = 200;

/// Position in the text: line and column, both counted from 1.
pub type YamlPosition = (usize, usize);

/// YAML value with its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// Position where the value starts.
    pub place: YamlPosition,
    /// Content of the value: a scalar, a list or a mapping.
    pub kind: YamlNodeKind,
}

/// Content of a YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlNodeKind {
    /// Source text of a scalar, and whether the scalar is plain, which means unquoted. Only a plain
    /// scalar can be a number, a boolean or null.
    Scalar(String, bool),
    /// Items of a list, in order.
    List(Vec<YamlNode>),
    /// Keys of a mapping with their values, in the order of the text.
    Mapping(Vec<YamlMappingEntry>),
}

/// Key of a mapping with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlMappingEntry {
    /// Key of the entry, always a text.
    pub key: String,
    /// Position where the key starts.
    pub place: YamlPosition,
    /// Value of the key, with its position.
    pub node: YamlNode,
}

/// Parsed front matter: a mapping whose entries are in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YamlDocument {
    /// Keys of the mapping with their values.
    pub entries: Vec<YamlMappingEntry>,
}

impl YamlDocument {
    /// Returns the entry with this key, if the document has one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&YamlMappingEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl YamlNode {
    /// Converts the node to JSON by YAML's core schema. Only plain scalars can become numbers,
    /// booleans or null; `yes` and `on` are texts.
    pub fn to_json_value(&self) -> Value {
        match &self.kind {
            YamlNodeKind::Scalar(text, false) => text.as_str().into(),
            YamlNodeKind::Scalar(text, true) => plain_scalar_to_json(text),
            YamlNodeKind::List(items) => items.iter().map(Self::to_json_value).collect(),
            YamlNodeKind::Mapping(entries) => {
                let entries = entries.iter();
                let entries = entries.map(|entry| (entry.key.clone(), entry.node.to_json_value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns the source text of a scalar, even if the scalar is a number or a date; `None` for
    /// null, lists and mappings.
    pub fn scalar_text(&self) -> Option<&str> {
        match &self.kind {
            YamlNodeKind::Scalar(text, is_plain) => {
                (!is_plain || !plain_scalar_to_json(text).is_null()).then_some(text)
            }
            _ => None,
        }
    }

    /// Whether the value is null: absent after its key, or a plain `null` or `~`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, YamlNodeKind::Scalar(text, true) if plain_scalar_to_json(text).is_null())
    }

    /// Builds a node from a JSON value. All nested nodes get the same position.
    pub fn from_json(value: &Value, place: YamlPosition) -> Self {
        let kind = match value {
            Value::Array(items) => YamlNodeKind::List(
                items
                    .iter()
                    .map(|item| Self::from_json(item, place))
                    .collect(),
            ),
            Value::Object(values) => {
                let entries = values.iter().map(|(key, value)| YamlMappingEntry {
                    key: key.clone(),
                    place,
                    node: Self::from_json(value, place),
                });
                YamlNodeKind::Mapping(entries.collect())
            }
            Value::String(text) => YamlNodeKind::Scalar(text.clone(), false),
            other => YamlNodeKind::Scalar(other.to_string(), true),
        };
        Self { place, kind }
    }
}

/// Splits a file into its front matter, including the opening fence, and the text after the closing
/// fence; `None` if the file has no front matter.
pub fn split_front_matter(text: &str) -> Option<(&str, &str)> {
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_fence = line.trim_end() == FRONT_MATTER_DELIMITER;
        if number == 0 && !is_fence {
            return None;
        }
        if number > 0 && is_fence {
            return Some((text.get(..end)?, text.get(end + line.len()..)?));
        }
        end += line.len();
    }
    None
}

/// YAML list or mapping whose end was not parsed yet.
enum UnfinishedYamlCollection {
    List(YamlPosition, Vec<YamlNode>),
    /// Position of the mapping, its entries, and the last key with its position if the value of
    /// that key was not parsed yet.
    Mapping(
        YamlPosition,
        Vec<YamlMappingEntry>,
        Option<(String, YamlPosition)>,
    ),
}

/// Parses a document.
///
/// # Errors
/// The position and the description of the first fault.
pub fn parse_yaml_document(text: &str) -> Result<YamlDocument, (YamlPosition, String)> {
    let mut open: Vec<UnfinishedYamlCollection> = Vec::new();
    let mut root = None;
    for (n_events, event) in Parser::new_from_str(text).enumerate() {
        let (event, span) = event.map_err(|e| (to_yaml_position(*e.marker()), e.info()))?;
        let at = to_yaml_position(span.start);
        let refuse = |why: &str| Err((at, why.to_owned()));
        if n_events > MAX_YAML_PARSER_EVENTS || open.len() > MAX_YAML_NESTING_DEPTH {
            return refuse("the front matter is too long or nested too deep");
        }
        let node = match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) | Event::Anchor(..) => {
                return refuse("references are not allowed here");
            }
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(_, anchor, _)
            | Event::MappingStart(_, anchor, _)
                if anchor != 0 =>
            {
                return refuse("references are not allowed here");
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => return refuse("tags are not allowed here"),
            Event::DocumentStart(..) if root.is_some() => {
                return refuse("there is more than one document");
            }
            Event::SequenceStart(..) => {
                open.push(UnfinishedYamlCollection::List(at, Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(UnfinishedYamlCollection::Mapping(at, Vec::new(), None));
                continue;
            }
            Event::Scalar(text, style, _, _) => {
                if let Some(UnfinishedYamlCollection::Mapping(_, entries, key @ None)) =
                    open.last_mut()
                {
                    let text = text.into_owned();
                    if entries.len() >= MAX_KEYS_PER_MAPPING {
                        return refuse(&format!(
                            "a mapping has more than {MAX_KEYS_PER_MAPPING} keys"
                        ));
                    }
                    if entries.iter().any(|entry| entry.key == text) {
                        return refuse(&format!("the key `{}` stands twice", text.escape_debug()));
                    }
                    *key = Some((text, at));
                    continue;
                }
                let is_plain = style == ScalarStyle::Plain;
                YamlNode {
                    place: at,
                    kind: YamlNodeKind::Scalar(text.into_owned(), is_plain),
                }
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(UnfinishedYamlCollection::List(place, items)) => YamlNode {
                    place,
                    kind: YamlNodeKind::List(items),
                },
                Some(UnfinishedYamlCollection::Mapping(place, entries, _)) => YamlNode {
                    place,
                    kind: YamlNodeKind::Mapping(entries),
                },
                None => continue,
            },
            _ => continue,
        };
        match open.last_mut() {
            Some(UnfinishedYamlCollection::List(_, items)) => items.push(node),
            Some(UnfinishedYamlCollection::Mapping(_, entries, key)) => match key.take() {
                Some((key, place)) => entries.push(YamlMappingEntry { key, place, node }),
                None => return refuse("a key must be text"),
            },
            None => root = Some(node),
        }
    }
    match root {
        None => Ok(YamlDocument::default()),
        Some(node) if node.is_null() => Ok(YamlDocument::default()),
        Some(YamlNode {
            kind: YamlNodeKind::Mapping(entries),
            ..
        }) => Ok(YamlDocument { entries }),
        Some(node) => Err((
            node.place,
            "this is not a mapping of keys to values".to_owned(),
        )),
    }
}

fn to_yaml_position(marker: Marker) -> YamlPosition {
    (marker.line(), marker.col() + 1)
}

/// Converts an unquoted scalar to JSON by YAML's core schema.
fn plain_scalar_to_json(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        // JSON's number syntax covers YAML's, except for forms such as `0x1F` and `.5`, which
        // remain texts.
        _ => text
            .parse::<serde_json::Number>()
            .map_or_else(|_| text.into(), Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(document: YamlDocument) -> Value {
        let kind = YamlNodeKind::Mapping(document.entries);
        let place = (1, 1);
        YamlNode { place, kind }.to_json_value()
    }

    #[test]
    fn scalars_have_the_type_of_the_core_schema_and_keys_their_order() {
        let text = "---\nb: 1\na: [yes, true, '1', -2.5, ~]\nc: {d: |\n}\n";
        assert!(parse_yaml_document(text).is_err());
        let text = "---\nb: 1\na: [yes, true, '1', -2.5, ~]\nc:\n  d: >-\n    one\n    two\n";
        let document = parse_yaml_document(text).unwrap();
        assert!(
            document
                .entries
                .iter()
                .map(|entry| &entry.key)
                .eq(["b", "a", "c"])
        );
        assert_eq!(document.get("c").unwrap().place, (4, 1));
        let expected = json!({"b": 1, "a": ["yes", true, "1", -2.5, null], "c": {"d": "one two"}});
        assert_eq!(value(document), expected);
    }

    #[test]
    fn the_text_of_a_scalar_is_as_written() {
        let text =
            "a: 2.0\nb: 2026-01-02\nc: 0x10\nd: 'null'\ne:\nf: 1_000\ng: null\nh: \"\"\ni: [1]\n";
        let document = parse_yaml_document(text).unwrap();
        let texts: Vec<_> = document
            .entries
            .iter()
            .map(|e| e.node.scalar_text())
            .collect();
        let expected = [
            Some("2.0"),
            Some("2026-01-02"),
            Some("0x10"),
            Some("null"),
            None,
            Some("1_000"),
            None,
            Some(""),
            None,
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_could_grow_or_hide_is_refused_with_its_place() {
        let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
        let long = format!("a: [{}]", "1, ".repeat(30_000));
        for (text, expected) in [
            ("a: &x 1\nb: *x\n", "references"),
            ("a: *x\n", ""),
            ("a: !!binary aGk=\n", "tags"),
            ("a: 1\na: 2\n", "stands twice"),
            ("[a]: 1\n", "a key must be text"),
            ("- a\n", "not a mapping"),
            ("a: 1\n--- \nb: 2\n", "more than one document"),
            (&deep, ""),
            (&long, "too long"),
        ] {
            let ((line, _), why) = parse_yaml_document(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(line >= 1, "{why}");
        }
        assert!(
            parse_yaml_document("# nothing\n")
                .unwrap()
                .entries
                .is_empty()
        );
    }
}
