//! Front matter: one small YAML mapping as JSON, with the place of each of its keys.
//!
//! The parser is a library; here is what a scalar means (YAML's core schema) and what is refused: references and tags, a key that
//! stands twice, more than a budget of depth and values. Start from [`read`].

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 24;

/// Most events, which are values, keys and ends of collections.
const MAX_EVENTS: usize = 20_000;

/// Line and column, both from 1.
pub(super) type Place = (usize, usize);

/// A mapping, and where each of its keys stands.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) values: Map<String, Value>,
    pub(super) places: BTreeMap<String, Place>,
}

/// A collection whose end was not reached.
enum Open {
    List(Vec<Value>),
    /// The key waits for its value.
    Mapping(Map<String, Value>, Option<String>),
}

/// Reads a document.
///
/// # Errors
/// Fault of a front matter, and its place.
pub(super) fn read(text: &str) -> Result<Document, (Place, String)> {
    let mut open: Vec<Open> = Vec::new();
    let mut places = BTreeMap::new();
    let mut root = None;
    for (n_events, event) in Parser::new_from_str(text).enumerate() {
        let (event, span) = event.map_err(|e| (place(*e.marker()), e.info()))?;
        let at = place(span.start);
        let refuse = |why: &str| Err((at, why.to_owned()));
        if n_events > MAX_EVENTS || open.len() > MAX_DEPTH {
            return refuse("the front matter is too long or nested too deep");
        }
        let value = match event {
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
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Mapping(Map::new(), None));
                continue;
            }
            Event::Scalar(text, style, _, _) => {
                let depth = open.len();
                if let Some(Open::Mapping(entries, key @ None)) = open.last_mut() {
                    let text = text.into_owned();
                    if entries.contains_key(&text) {
                        return refuse(&format!("the key `{}` stands twice", text.escape_debug()));
                    }
                    if depth == 1 {
                        places.insert(text.clone(), at);
                    }
                    *key = Some(text);
                    continue;
                }
                scalar(&text, style)
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(items)) => Value::Array(items),
                Some(Open::Mapping(entries, _)) => Value::Object(entries),
                None => continue,
            },
            _ => continue,
        };
        match open.last_mut() {
            Some(Open::List(items)) => items.push(value),
            Some(Open::Mapping(entries, key)) => match key.take() {
                Some(key) => _ = entries.insert(key, value),
                None => return refuse("a key must be text"),
            },
            None => root = Some(value),
        }
    }
    match root {
        Some(Value::Object(values)) => Ok(Document { values, places }),
        Some(Value::Null) | None => Ok(Document::default()),
        Some(_) => Err(((2, 1), "this is no mapping of keys to values".to_owned())),
    }
}

fn place(marker: Marker) -> Place {
    (marker.line(), marker.col() + 1)
}

/// The value of a scalar. Only one that is not quoted can be other than text; `yes` and `on` are text.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        // JSON's numbers are YAML's, but for forms that nobody needs here.
        _ => text
            .parse::<serde_json::Number>()
            .map_or_else(|_| text.into(), Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_have_the_type_of_the_core_schema_and_keys_their_order() {
        let text = "---\nb: 1\na: [yes, true, '1', -2.5, ~]\nc: {d: |\n}\n";
        assert!(read(text).is_err());
        let text = "---\nb: 1\na: [yes, true, '1', -2.5, ~]\nc:\n  d: >-\n    one\n    two\n";
        let document = read(text).unwrap();
        let expected = json!({"b": 1, "a": ["yes", true, "1", -2.5, null], "c": {"d": "one two"}});
        assert_eq!(Value::Object(document.values.clone()), expected);
        assert!(document.values.keys().eq(["b", "a", "c"]));
        assert_eq!(document.places.get("c"), Some(&(4, 1)));
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
            ("- a\n", "no mapping"),
            ("a: 1\n--- \nb: 2\n", "more than one document"),
            (&deep, ""),
            (&long, "too long"),
        ] {
            let ((line, _), why) = read(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
            assert!(line >= 1, "{why}");
        }
        assert!(read("# nothing\n").unwrap().values.is_empty());
    }
}
