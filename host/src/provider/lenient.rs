//! Lenient reading of the JSON that a model server sends: each field is read independently, and a
//! value of an unexpected type is never an error.
//!
//! Servers that speak the same wire disagree on details: `null` for a list, a float for a count, a
//! list of parts for a text, a surrogate pair split over two chunks. A decoder that is strict about
//! a dispensable field would end the turn. Requests are strict, reading is lenient (the robustness
//! principle, RFC 1122, section 1.2.2).
//!
//! Owns the meaning of values that do not have the documented type. It must not know any wire.
//! Start from [`parse_event`].

use std::borrow::Cow;

use serde_json::Value;

/// Offset from a surrogate to the private-use character that replaces a lone surrogate while an
/// answer is read, because a `String` cannot hold a surrogate: U+10D800 to U+10DFFF (plane 16)
/// stand for U+D800 to U+DFFF.
const SURROGATE_REPLACEMENT_OFFSET: u32 = 0x10_0000;

/// JSON value of a stream event.
pub(super) struct StreamEventJson {
    pub(super) value: Value,
    /// Whether lone surrogates in the event were replaced. If so, its texts must be passed through
    /// a [`SurrogateJoiner`].
    pub(super) has_halves: bool,
}

/// Parses the data of an event; `None` when it is not JSON even after lone surrogates are replaced.
pub(super) fn parse_event(data: &str) -> Option<StreamEventJson> {
    if let Ok(value) = serde_json::from_str(data) {
        return Some(StreamEventJson {
            value,
            has_halves: false,
        });
    }
    let value = serde_json::from_str(&replace_lone_surrogates(data)?).ok()?;
    Some(StreamEventJson {
        value,
        has_halves: true,
    })
}

/// Replaces each escape of a lone surrogate (such as `\uD83D`) by its private-use character; `None`
/// when there is none.
fn replace_lone_surrogates(data: &str) -> Option<String> {
    let mut mended = String::with_capacity(data.len());
    let mut rest = data;
    let mut is_changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let n_bytes = match (
            parse_surrogate(escape),
            escape.get(6..).and_then(parse_surrogate),
        ) {
            (Some(high), Some(low)) if is_high_surrogate(high) && !is_high_surrogate(low) => 12,
            (Some(lone), _) => {
                mended.extend(char::from_u32(SURROGATE_REPLACEMENT_OFFSET + lone));
                is_changed = true;
                rest = &escape[6..];
                continue;
            }
            // `\\`, or the escape of another character: skip one more character.
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&escape[..n_bytes]);
        rest = &escape[n_bytes..];
    }
    mended.push_str(rest);
    is_changed.then_some(mended)
}

/// Parses the surrogate escape (such as `\uD83D`) at the start of the text; `None` if the text does
/// not begin with one.
fn parse_surrogate(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

fn is_high_surrogate(unit: u32) -> bool {
    unit < 0xDC00
}

/// Returns the surrogate for which a private-use character stands; `None` for any other character.
fn private_use_to_surrogate(c: char) -> Option<u32> {
    let unit = u32::from(c).checked_sub(SURROGATE_REPLACEMENT_OFFSET)?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

/// Joins surrogate pairs that were split over several pieces of one text. A lone surrogate becomes
/// U+FFFD.
///
/// For example:
///
/// ```text
/// "Hi \ud83d", "\ude00!"    ->  Hi 😀!
/// "a\ud83d", "b"            ->  a, U+FFFD, b
/// ```
#[derive(Debug, Default)]
pub(super) struct SurrogateJoiner {
    is_on: bool,
    high: Option<u32>,
}

impl SurrogateJoiner {
    /// Enables the joining of surrogate pairs in later calls of `push`. Before this call, `push`
    /// returns texts unchanged, so that private-use characters that a model really wrote are kept.
    pub(super) fn enable_surrogate_joining(&mut self) {
        self.is_on = true;
    }

    /// Returns the piece with its surrogate pairs joined. A high surrogate at the end of the piece
    /// is held back until the next piece.
    pub(super) fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if !self.is_on
            || (self.high.is_none()
                && !piece.chars().any(|c| private_use_to_surrogate(c).is_some()))
        {
            return Cow::Borrowed(piece);
        }
        let mut joined = String::with_capacity(piece.len());
        for c in piece.chars() {
            match (self.high.take(), private_use_to_surrogate(c)) {
                (Some(high), Some(low)) if !is_high_surrogate(low) => {
                    let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    joined.extend(char::from_u32(code));
                }
                (waiting, half) => {
                    joined.extend(waiting.map(|_| char::REPLACEMENT_CHARACTER));
                    match half {
                        Some(high) if is_high_surrogate(high) => self.high = Some(high),
                        Some(_) => joined.push(char::REPLACEMENT_CHARACTER),
                        None => joined.push(c),
                    }
                }
            }
        }
        Cow::Owned(joined)
    }

    /// Ends the text: returns U+FFFD if a high surrogate is still held back, otherwise nothing.
    pub(super) fn flush_held_back_surrogate(&mut self) -> &'static str {
        match self.high.take() {
            Some(_) => "\u{FFFD}",
            None => "",
        }
    }
}

/// Returns a complete text with its surrogate pairs joined.
pub(super) fn join_surrogates(text: &str) -> String {
    let mut joiner = SurrogateJoiner::default();
    joiner.enable_surrogate_joining();
    let mut whole = joiner.push(text).into_owned();
    whole.push_str(joiner.flush_held_back_surrogate());
    whole
}

/// Returns a field of an object; `None` when `value` is not an object, or the field is missing or
/// `null`.
pub(super) fn non_null_field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// Reads a text: a string, the `text` of an object, or the texts of the items of a list, joined.
/// `None` for any other value and for an empty text.
///
/// For example:
///
/// ```text
/// "a"                                                    ->  a
/// [{"type": "text", "text": "a"}, {"x": 1}, "b", null]   ->  ab
/// {"text": ""}                                           ->  none
/// ```
pub(super) fn json_to_text(value: &Value) -> Option<Cow<'_, str>> {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Array(items) => {
            let texts: Vec<Cow<'_, str>> = items.iter().filter_map(json_to_text).collect();
            Cow::Owned(texts.concat())
        }
        Value::Object(fields) => json_to_text(fields.get("text")?)?,
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Reads the text in the field `name` of a JSON object with [`json_to_text`].
pub(super) fn read_json_text_field<'a>(value: &'a Value, name: &str) -> Option<Cow<'a, str>> {
    json_to_text(value.get(name)?)
}

/// Reads an identifier in a field: a string, or a number as written. `None` for any other value and
/// for an empty string.
pub(super) fn read_json_id_field(value: &Value, name: &str) -> Option<String> {
    match value.get(name)? {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Reads a count of tokens or an index: a number, or a string with a number. `None` for any other
/// value and for a negative number.
///
/// For example:
///
/// ```text
/// 5      ->  5
/// 5.9    ->  5
/// "7"    ->  7
/// -1     ->  none
/// ```
pub(super) fn json_to_count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| float_to_count(number.as_f64()?)),
        Value::String(written) => {
            let written = written.trim();
            written
                .parse()
                .ok()
                .or_else(|| float_to_count(written.parse().ok()?))
        }
        _ => None,
    }
}

/// Reads the number in the field `name` of a JSON object with [`json_to_count`].
pub(super) fn number_field(value: &Value, name: &str) -> Option<u64> {
    json_to_count(value.get(name)?)
}

/// Converts a float to a count. Floats beyond 2^53 are not exact, and no answer has as many tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn float_to_count(number: f64) -> Option<u64> {
    (0.0..9_007_199_254_740_992.0)
        .contains(&number)
        .then_some(number as u64)
}

/// Returns the items of a list field; no items when the field is not a list.
pub(super) fn read_json_list_field<'a>(
    value: &'a Value,
    name: &str,
) -> impl Iterator<Item = &'a Value> {
    let items = value.get(name).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// Returns the field `error` of an answer if it is a non-empty object or a non-empty text.
pub(super) fn non_empty_error_field(value: &Value) -> Option<&Value> {
    let error = value.get("error")?;
    let is_error = match error {
        Value::Object(fields) => !fields.is_empty(),
        Value::String(said) => !said.trim().is_empty(),
        _ => false,
    };
    is_error.then_some(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn halves_of_a_pair_are_joined_over_pieces_and_lone_ones_are_replaced() {
        for (pieces, expected) in [
            (&["Hi \\ud83d", "\\ude00!"][..], "Hi 😀!"),
            (&["\\ud83d\\ude00"], "😀"),
            (&["a\\ud83d", "b"], "a\u{FFFD}b"),
            (&["\\ude00a\\ud83d"], "\u{FFFD}a\u{FFFD}"),
            (&["\\ud83d", "\\ud83d\\ude00"], "\u{FFFD}😀"),
            (&["\\\\ud83d \\n\\u00e9"], "\\ud83d \né"),
            (&["\\ud83d\\", "x"], ""),
        ] {
            let mut joiner = SurrogateJoiner::default();
            let mut read = String::new();
            for piece in pieces {
                let Some(parsed) = parse_event(&format!("{{\"t\":\"{piece}\"}}")) else {
                    continue;
                };
                if parsed.has_halves {
                    joiner.enable_surrogate_joining();
                }
                if let Some(text) = read_json_text_field(&parsed.value, "t") {
                    read.push_str(&joiner.push(&text));
                }
            }
            read.push_str(joiner.flush_held_back_surrogate());
            let expected = if pieces[0].ends_with("\\ud83d\\") {
                "x"
            } else {
                expected
            };
            assert_eq!(read, expected, "{pieces:?}");
        }
    }

    #[test]
    fn characters_of_the_private_range_pass_where_no_half_was_seen() {
        let text = "\u{10D83D}";
        assert_eq!(SurrogateJoiner::default().push(text), text);
        assert_eq!(join_surrogates(text), "\u{FFFD}");
    }

    #[test]
    fn values_of_odd_types_are_read_or_passed_over() {
        let parts = json!([{"type": "text", "text": "a"}, {"x": 1}, "b", null, 7]);
        assert_eq!(json_to_text(&parts).as_deref(), Some("ab"));
        for odd in [
            json!(null),
            json!(""),
            json!([]),
            json!({}),
            json!(5),
            json!({"text": ""}),
        ] {
            assert_eq!(json_to_text(&odd), None, "{odd}");
        }
        for (value, expected) in [
            (json!(5), Some(5)),
            (json!(5.9), Some(5)),
            (json!("7"), Some(7)),
            (json!("7.5"), Some(7)),
            (json!(-1), None),
            (json!(1e300), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(json_to_count(&value), expected, "{value}");
        }
        assert!(non_empty_error_field(&json!({"error": {"message": "x"}})).is_some());
        for none in [
            json!({"error": null}),
            json!({"error": {}}),
            json!({"error": " "}),
            json!([]),
        ] {
            assert_eq!(non_empty_error_field(&none), None);
        }
    }
}
