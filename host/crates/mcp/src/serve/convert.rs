//! Converts the host's tools, results and questions into those of MCP.

use std::fmt::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitationAction,
    ElicitationSchema, Tool, ToolAnnotations,
};
use serde_json::Value;

use super::bytes::to_resource_contents;
use rind_lib::host::ClientToolCallResult;
use rind_lib::message::{EffectClass, Part, ToolSpec};
use rind_lib::text::{escape_to_one_line, printable_text};
use rind_lib::tool::approval::{ApprovalAnswer, Question};

/// Name of the form field that contains the user's answer to an approval question.
const APPROVAL_ANSWER_FIELD: &str = "allow";

/// Maximum length of a question, in bytes. A longer question is not asked and the call is refused,
/// because the user could not read it.
const MAX_QUESTION_BYTES: usize = 16 << 10;

/// Describes a tool to clients. Its annotations follow from its effect class, which the host
/// enforces.
pub(super) fn to_mcp_tool(spec: &ToolSpec) -> Tool {
    let schema = match &spec.parameters {
        Value::Object(schema) => schema.clone(),
        _ => serde_json::Map::new(),
    };
    let (is_read, is_open) = match spec.effect_class {
        EffectClass::Read => (true, false),
        EffectClass::Write => (false, false),
        EffectClass::Execute | EffectClass::External => (false, true),
    };
    let mut claims = ToolAnnotations::new()
        .read_only(is_read)
        .open_world(is_open);
    if !is_read {
        claims = claims.destructive(spec.effect_class != EffectClass::External);
    }
    let described = Tool::new_with_raw(
        spec.name.clone(),
        Some(spec.description.clone().into()),
        Arc::new(schema),
    );
    described.with_annotations(claims)
}

/// Converts the result of a call. The first JSON value becomes structured content, and also a text
/// for clients without support for structured content.
pub(super) fn to_mcp_call_result(result: ClientToolCallResult) -> CallToolResult {
    let mut bytes = result.bytes.into_iter();
    let (mut content, mut structured) = (Vec::new(), None);
    for part in result.content.iter() {
        content.push(match part {
            Part::Text { text } => ContentBlock::text(text.clone()),
            Part::Json { value } => {
                structured.get_or_insert_with(|| value.clone());
                ContentBlock::text(value.to_string())
            }
            Part::Blob(blob) => match bytes.next().flatten() {
                Some(bytes) if blob.is_image() => {
                    ContentBlock::image(STANDARD.encode(bytes), blob.media_type.clone())
                }
                Some(bytes) if blob.media_type.starts_with("audio/") => {
                    ContentBlock::audio(STANDARD.encode(bytes), blob.media_type.clone())
                }
                Some(bytes) => {
                    let uri = format!("blob:{}", blob.id);
                    let resource = to_resource_contents(bytes, &uri, &blob.media_type);
                    ContentBlock::resource(resource)
                }
                None => {
                    ContentBlock::text(blob.unshown_blob_placeholder("its bytes cannot be read"))
                }
            },
        });
    }
    let mut described = match result.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    described.structured_content = structured;
    described
}

/// Describes an approval question to the client; `None` if the text would be too long.
pub(super) fn to_approval_elicitation(question: &Question) -> Option<ElicitRequest> {
    let mut text = format!("May `{}` run? ({})\n", question.tool, question.effect_class);
    if let Some(plugin) = &question.plugin {
        let may = match question.may.is_empty() {
            true => "touch nothing outside its sandbox".to_owned(),
            false => question.may.join("; "),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "It belongs to {plugin}, whose permissions are: {may}");
    }
    for (plugin, reason) in &question.reasons {
        let _ = writeln!(text, "{plugin} asks: {reason}");
    }
    for line in &question.arguments {
        let _ = writeln!(text, "{}{}", line.mark, escape_to_one_line(&line.text));
    }
    if text.len() > MAX_QUESTION_BYTES {
        return None;
    }
    let schema = ElicitationSchema::builder()
        .required_bool_property(APPROVAL_ANSWER_FIELD, |own| {
            own.title("Allow this call").with_default(false)
        })
        .build()
        .ok()?;
    Some(ElicitRequest::new(
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: printable_text(&text),
            requested_schema: schema,
        },
    ))
}

/// Parses the user's answer to an approval question. Only an accepted form with `true` approves.
pub(super) fn parse_approval_answer(
    action: &ElicitationAction,
    content: Option<&Value>,
) -> ApprovalAnswer {
    let is_yes =
        content.and_then(|content| content.get(APPROVAL_ANSWER_FIELD)) == Some(&Value::Bool(true));
    match action {
        ElicitationAction::Accept if is_yes => ApprovalAnswer::Yes,
        _ => ApprovalAnswer::No(
            "the client of this server answered no, or has nobody to ask".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use rind_lib::message::Blob;
    use rind_lib::tool::subject::Subject;
    use serde_json::json;

    use super::*;

    #[test]
    fn results_keep_text_values_images_and_errors() {
        let png = STANDARD
            .decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
            .unwrap();
        let result = ClientToolCallResult {
            content: vec![
                Part::text("one"),
                Part::Json {
                    value: json!({"n": 1}),
                },
                Part::Blob(Blob::from_bytes(&png, "image/png")),
                Part::Blob(Blob::from_bytes(b"abc", "x/y")),
                Part::Blob(Blob::from_bytes(b"gone", "x/y")),
            ]
            .into(),
            bytes: vec![Some(png), Some(b"abc".to_vec()), None],
            is_error: true,
            refused_by: None,
        };
        let described = serde_json::to_value(to_mcp_call_result(result)).unwrap();
        assert_eq!(described["isError"], true);
        assert_eq!(described["structuredContent"], json!({"n": 1}));
        let kinds: Vec<&str> = (0..5)
            .filter_map(|at| described["content"][at]["type"].as_str())
            .collect();
        assert_eq!(kinds, ["text", "text", "image", "resource", "text"]);
        assert_eq!(described["content"][3]["resource"]["blob"], "YWJj");
    }

    #[test]
    fn claims_follow_the_effect_class() {
        for (class, read, destructive) in [
            (EffectClass::Read, true, None),
            (EffectClass::Write, false, Some(true)),
            (EffectClass::Execute, false, Some(true)),
            (EffectClass::External, false, Some(false)),
        ] {
            let tool = to_mcp_tool(&ToolSpec::from_name_and_effect("t", class));
            let claims = tool.annotations.unwrap();
            assert_eq!(claims.read_only_hint, Some(read));
            assert_eq!(claims.destructive_hint, destructive);
        }
    }

    #[test]
    fn a_question_shows_the_whole_call_and_only_a_clear_yes_is_one() {
        let spec = ToolSpec::from_name_and_effect("send", EffectClass::External);
        let arguments = json!({"to": "a\u{1b}[2Jb\nallow"});
        let question = Question::new(&spec, &arguments, &Subject::Any, &[]);
        let asked = serde_json::to_value(to_approval_elicitation(&question).unwrap()).unwrap();
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(
            message.contains("send") && !message.contains('\u{1b}'),
            "{message}"
        );
        let long = json!({"to": "x".repeat(MAX_QUESTION_BYTES)});
        assert!(
            to_approval_elicitation(&Question::new(&spec, &long, &Subject::Any, &[])).is_none()
        );
        let yes = json!({"allow": true});
        assert_eq!(
            parse_approval_answer(&ElicitationAction::Accept, Some(&yes)),
            ApprovalAnswer::Yes
        );
        for (action, content) in [
            (ElicitationAction::Decline, Some(yes.clone())),
            (ElicitationAction::Cancel, Some(yes)),
            (ElicitationAction::Accept, None),
            (ElicitationAction::Accept, Some(json!({"allow": "true"}))),
            (ElicitationAction::Accept, Some(json!({"allow": false}))),
        ] {
            let answer = parse_approval_answer(&action, content.as_ref());
            assert!(matches!(answer, ApprovalAnswer::No(_)));
        }
    }
}
