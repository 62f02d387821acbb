//! Parts of a tool's answer: text, structured JSON, and content that is not text.
//!
//! Owns the conversion of parts to a single text, for consumers that accept only text, and the JSON
//! form of parts: an answer with a single text is a string, any other answer is a list. The module
//! must not know which consumers accept which parts.
//!
//! Start from [`Parts`].

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blob::Blob;

/// Maximum number of parts in the answer of a tool.
pub const MAX_ANSWER_PARTS: usize = 100;

/// Part of a tool's answer: text, a JSON value, or a reference to bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// Text of the part, which the model reads.
        text: String,
    },
    /// Result as a JSON value.
    Json {
        /// JSON value of any type.
        value: Value,
    },
    /// Reference to bytes, such as an image, that the session stores.
    Blob(Blob),
}

impl Part {
    /// Creates a part of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text { text } => Cow::Borrowed(text),
            Self::Json { value } => Cow::Owned(value.to_string()),
            Self::Blob(blob) => Cow::Owned(blob.to_string()),
        }
    }
}

/// Parts of a tool's answer, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "WirePart", into = "WirePart")]
pub struct Parts(Vec<Part>);

/// JSON form of the parts: a string for a single text, otherwise a list.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum WirePart {
    Text(String),
    Parts(Vec<Part>),
}

impl From<WirePart> for Parts {
    fn from(wire: WirePart) -> Self {
        match wire {
            WirePart::Text(text) => text.into(),
            WirePart::Parts(parts) => Self(parts),
        }
    }
}

impl From<Parts> for WirePart {
    fn from(Parts(mut parts): Parts) -> Self {
        match parts.pop() {
            None => Self::Text(String::new()),
            Some(Part::Text { text }) if parts.is_empty() => Self::Text(text),
            Some(last) => {
                parts.push(last);
                Self::Parts(parts)
            }
        }
    }
}

impl JsonSchema for Parts {
    fn schema_name() -> Cow<'static, str> {
        "Parts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parts = generator.subschema_for::<Vec<Part>>();
        json_schema!({
            "description": "An answer of one text is a string, any other a list of parts.",
            "anyOf": [{"type": "string"}, parts],
        })
    }
}

impl From<String> for Parts {
    fn from(text: String) -> Self {
        Self(vec![Part::Text { text }])
    }
}

impl From<&str> for Parts {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Vec<Part>> for Parts {
    fn from(parts: Vec<Part>) -> Self {
        Self(parts)
    }
}

/// Formats the parts like [`Parts::text`].
impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl PartialEq<str> for Parts {
    fn eq(&self, other: &str) -> bool {
        matches!(self.0.as_slice(), [Part::Text { text }] if text == other)
    }
}

impl PartialEq<&str> for Parts {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq<String> for Parts {
    fn eq(&self, other: &String) -> bool {
        self == other.as_str()
    }
}

impl Parts {
    /// Returns all parts as one text: JSON is serialized, and a blob is replaced by its type and
    /// size.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self.0.as_slice() {
            [] => Cow::Borrowed(""),
            [only] => only.as_text(),
            parts => {
                let texts: Vec<Cow<'_, str>> = parts.iter().map(Part::as_text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    /// Returns an iterator over the parts, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Part> {
        self.0.iter()
    }

    /// Returns an iterator that can change the parts, in order.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Part> {
        self.0.iter_mut()
    }

    /// Returns an iterator over the references to stored bytes.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.0.iter().filter_map(|part| match part {
            Part::Blob(blob) => Some(blob),
            Part::Text { .. } | Part::Json { .. } => None,
        })
    }

    /// Appends text to the last part if it is text; otherwise adds a part.
    pub fn push_text(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(Part::Text { text }) => text.push_str(more),
            _ => self.0.push(Part::text(more.trim_start_matches('\n'))),
        }
    }

    /// Truncates text and JSON to `limit` bytes in total and appends the number of missing bytes.
    /// Truncated JSON becomes text.
    pub fn truncate_to(&mut self, limit: usize) {
        let (mut room, mut n_missing) = (limit, 0);
        for part in &mut self.0 {
            if matches!(part, Part::Blob(_)) {
                continue;
            }
            let text = part.as_text();
            let end = text.floor_char_boundary(room);
            if end < text.len() {
                n_missing += text.len() - end;
                *part = Part::text(text.get(..end).unwrap_or_default());
            }
            room -= end;
        }
        if n_missing > 0 {
            let is_empty = |part: &Part| matches!(part, Part::Text { text } if text.is_empty());
            self.0.retain(|part| !is_empty(part));
            self.push_text(&format!("\n[cut: {n_missing} more bytes]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mixed() -> Parts {
        let value = json!({"é": 1});
        let blob = Blob::from_bytes(b"GIF89a\x01\0\x01\0", "");
        vec![Part::text("abc"), Part::Json { value }, Part::Blob(blob)].into()
    }

    #[test]
    fn one_text_is_a_string_in_json_and_anything_else_a_list() {
        let check = |parts: &Parts, expected: Value| {
            assert_eq!(json!(parts), expected);
            let read: Parts = serde_json::from_value(expected).unwrap();
            assert_eq!(read.text(), parts.text());
        };
        check(&"hi".into(), json!("hi"));
        check(&Parts::default(), json!(""));
        let id = blake3::hash(b"GIF89a\x01\0\x01\0").to_hex().to_string();
        check(
            &mixed(),
            json!([
                {"type": "text", "text": "abc"},
                {"type": "json", "value": {"é": 1}},
                {"type": "blob", "id": id, "media_type": "image/gif", "size": 10, "pixels": [1, 1]},
            ]),
        );
        check(
            &vec![Part::text("a"), Part::text("b")].into(),
            json!([
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
            ]),
        );
    }

    #[test]
    fn a_cut_counts_text_and_json_and_leaves_blobs() {
        let cut = |limit| {
            let mut parts = mixed();
            parts.truncate_to(limit);
            parts.text().into_owned()
        };
        assert_eq!(cut(11), "abc\n{\"é\":1}\n[image/gif, 10 B]");
        assert_eq!(cut(6), "abc\n{\"\n[image/gif, 10 B]\n[cut: 6 more bytes]");
        assert_eq!(cut(0), "[image/gif, 10 B]\n[cut: 11 more bytes]");
        let mut text = Parts::from("abcdef");
        text.truncate_to(4);
        assert_eq!(text, "abcd\n[cut: 2 more bytes]");
    }
}
