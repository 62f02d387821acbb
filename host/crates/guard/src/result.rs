//! Finds the texts in a tool's result, in any of the agents' formats, and replaces them.

use rind_lib::message::{Part, Parts};
use serde_json::Value;

/// Keys whose text is the type of a value. Agents validate such a text, so the guard never replaces
/// it.
const KEYS_HOLDING_TYPE_NAMES: &[&str] = &["type", "mode", "mimeType", "media_type"];

/// Keys under which an object with binary data stores the encoded bytes.
const BINARY_DATA_KEYS: &[&str] = &["data", "base64", "blob"];

/// Keys whose presence shows that a JSON object of a tool result contains binary data.
const BINARY_DATA_MARKER_KEYS: &[&str] = &["mimeType", "media_type"];

/// Maximum number of texts in a tool's result that are judged.
const MAX_JUDGED_RESULT_TEXTS: usize = 1000;

/// Step in the path from a result to a text inside it.
#[derive(Clone, Debug, PartialEq)]
enum ToolResultPathStep {
    Key(String),
    Item(usize),
}

/// Texts of a tool's result, and the path of each text in the result's JSON (`places`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolResultTextsWithPaths {
    places: Vec<Vec<ToolResultPathStep>>,
    texts: Vec<String>,
}

impl ToolResultTextsWithPaths {
    /// Finds the texts in the JSON result of an agent's tool call.
    ///
    /// # Errors
    /// The result has more than [`MAX_JUDGED_RESULT_TEXTS`] texts.
    pub(crate) fn find_texts_within_limit(result: &Value) -> Result<Self, String> {
        let found = Self::find_all_texts(result);
        let n_texts = found.texts.len();
        if n_texts > MAX_JUDGED_RESULT_TEXTS {
            return Err(format!(
                "the result has {n_texts} texts, at most {MAX_JUDGED_RESULT_TEXTS} are supported"
            ));
        }
        Ok(found)
    }

    /// Finds the texts of a tool's result, all of which will be withheld, without a limit on their
    /// number.
    pub(crate) fn find_all_texts(result: &Value) -> Self {
        let mut found = Self::default();
        found.collect_texts(result, &mut Vec::new());
        found
    }

    fn collect_texts(&mut self, value: &Value, way: &mut Vec<ToolResultPathStep>) {
        match value {
            Value::String(text) if !text.is_empty() => {
                self.places.push(way.clone());
                self.texts.push(text.clone());
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    way.push(ToolResultPathStep::Item(at));
                    self.collect_texts(item, way);
                    way.pop();
                }
            }
            Value::Object(fields) => {
                let is_media = |kind: &Value| {
                    let kind = kind.as_str().unwrap_or_default();
                    kind.starts_with("image") || kind.starts_with("audio")
                };
                let has_bytes = BINARY_DATA_MARKER_KEYS
                    .iter()
                    .any(|key| fields.contains_key(*key))
                    || fields.get("type").is_some_and(is_media);
                for (key, field) in fields {
                    let key_text = key.as_str();
                    let is_kept = KEYS_HOLDING_TYPE_NAMES.contains(&key_text)
                        || has_bytes && BINARY_DATA_KEYS.contains(&key_text);
                    if is_kept && field.is_string() {
                        continue;
                    }
                    way.push(ToolResultPathStep::Key(key.clone()));
                    self.collect_texts(field, way);
                    way.pop();
                }
            }
            _ => {}
        }
    }

    /// Returns the texts of the tool result as message content, which plugins can judge.
    pub(crate) fn to_message_parts(&self) -> Parts {
        match self.texts.is_empty() {
            true => Parts::from(String::new()),
            false => self.texts.iter().map(Part::text).collect::<Vec<_>>().into(),
        }
    }

    /// Returns the result with its texts replaced by those of `content`. If the number of texts
    /// differs, the new content replaces the longest text, and the other texts become empty.
    ///
    /// # Errors
    /// The result has no text that could be replaced.
    pub(crate) fn result_with_replaced_texts(
        &self,
        result: &Value,
        content: &Parts,
    ) -> Result<Value, String> {
        let texts = self.replacement_for_each_text(content)?;
        let mut result = result.clone();
        for (place, text) in self.places.iter().zip(texts) {
            let mut at = Some(&mut result);
            for step in place {
                at = at.and_then(|value| match step {
                    ToolResultPathStep::Key(key) => value.get_mut(key),
                    ToolResultPathStep::Item(item) => value.get_mut(item),
                });
            }
            if let Some(at) = at {
                *at = Value::String(text);
            }
        }
        Ok(result)
    }

    /// Returns the text that replaces each of `self.texts`, in the same order; see
    /// [`Self::result_with_replaced_texts`].
    fn replacement_for_each_text(&self, content: &Parts) -> Result<Vec<String>, String> {
        let texts: Vec<String> = content.iter().filter_map(text_of_part).collect();
        let n_parts = content.iter().count();
        if texts.len() == n_parts && n_parts == self.texts.len() {
            return Ok(texts);
        }
        let lengths = self.texts.iter().map(String::len).enumerate();
        let main = lengths.max_by_key(|(_, length)| *length);
        let (main, _) = main.ok_or("the result has no text that could be changed")?;
        let mut texts = vec![String::new(); self.texts.len()];
        if let Some(text) = texts.get_mut(main) {
            *text = content.text().into_owned();
        }
        Ok(texts)
    }
}

fn text_of_part(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_changed_where_they_stand() {
        let result = json!({"stdout": "a key", "stderr": "", "interrupted": false, "type": "text"});
        let texts = ToolResultTextsWithPaths::find_texts_within_limit(&result).unwrap();
        assert_eq!(texts.to_message_parts().text(), "a key");
        let masked = texts
            .result_with_replaced_texts(&result, &"a ***".into())
            .unwrap();
        assert_eq!(
            masked,
            json!({"stdout": "a ***", "stderr": "", "interrupted": false, "type": "text"})
        );
    }

    #[test]
    fn every_text_is_judged_but_kinds_and_encoded_bytes() {
        let result = json!({
            "structuredContent": {"data": "a", "id": "b", "url": "c", "path": "d"},
            "content": [{"type": "image", "mimeType": "image/png", "data": "iVBO"}],
        });
        let texts = ToolResultTextsWithPaths::find_texts_within_limit(&result).unwrap();
        assert_eq!(texts.texts, ["a", "b", "c", "d"]);
        let many: Value = (0..=MAX_JUDGED_RESULT_TEXTS).map(|_| "x").collect();
        assert!(ToolResultTextsWithPaths::find_texts_within_limit(&many).is_err());
        let withheld = ToolResultTextsWithPaths::find_all_texts(&many)
            .result_with_replaced_texts(&many, &"gone".into());
        let withheld = withheld.unwrap();
        let left = withheld
            .as_array()
            .unwrap()
            .iter()
            .filter(|text| **text == "x");
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn content_of_another_shape_stands_in_place_of_the_longest_text() {
        let result =
            json!([{"type": "text", "text": "short"}, {"type": "text", "text": "the longest"}]);
        let texts = ToolResultTextsWithPaths::find_texts_within_limit(&result).unwrap();
        let masked = texts
            .result_with_replaced_texts(&result, &"gone".into())
            .unwrap();
        assert_eq!(
            masked,
            json!([{"type": "text", "text": ""}, {"type": "text", "text": "gone"}])
        );
        let none = ToolResultTextsWithPaths::find_texts_within_limit(&json!({"ok": true})).unwrap();
        assert!(
            none.result_with_replaced_texts(&json!({"ok": true}), &"x".into())
                .is_err()
        );
    }
}
