//! Converts answers of plugin tools into the host's types. All text is sanitized here, through
//! [`GuestTextSanitizer`].

use super::super::bindings::rind::plugin::types as wt;
use super::super::sanitize::GuestTextSanitizer;
use crate::json;
use crate::message::part::MAX_ANSWER_PARTS;
use crate::message::{Blob, Part};
use crate::tool::ToolOutput;

/// Converts the answer of a tool. An answer that breaks the contract becomes a tool output that is
/// an error.
pub(in super::super) fn convert_tool_answer(
    answer: wt::Answer,
    sanitizer: GuestTextSanitizer<'_>,
) -> ToolOutput {
    let n_parts = answer.parts.len();
    if n_parts > MAX_ANSWER_PARTS {
        let why = format!(
            "the answer of the tool has {n_parts} parts, at most {MAX_ANSWER_PARTS} are allowed"
        );
        return ToolOutput::from_fault_content(why);
    }
    let (mut parts, mut all_bytes) = (Vec::with_capacity(n_parts), Vec::new());
    for part in answer.parts {
        parts.push(match part {
            wt::AnswerPart::Text(text) => Part::Text {
                text: sanitizer.text("result", text),
            },
            wt::AnswerPart::Json(text) => {
                match json::parse_json(
                    &sanitizer.json("result", text),
                    json::DEFAULT_MAX_JSON_BYTES,
                ) {
                    Ok(value) => Part::Json { value },
                    Err(e) => {
                        return ToolOutput::from_fault_content(format!(
                            "the text of a JSON part of the answer {e}"
                        ));
                    }
                }
            }
            wt::AnswerPart::Bytes(bytes) => {
                let media_type = sanitizer.text("media type", bytes.media_type);
                // Valid UTF-8 is sanitized as text, regardless of its media type.
                let content = match String::from_utf8(bytes.content) {
                    Ok(text) => sanitizer.text("result", text).into_bytes(),
                    Err(no_text) => no_text.into_bytes(),
                };
                let blob = Blob::from_bytes(&content, &media_type);
                all_bytes.push(content);
                Part::Blob(blob)
            }
        });
    }
    ToolOutput {
        content: parts.into(),
        bytes: all_bytes,
        is_error: answer.is_error,
        is_fault: false,
    }
}
