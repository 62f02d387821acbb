//! Tests with refusals of many servers, and the correction that each leads to.

use super::*;
use crate::message::Role;

#[test]
fn refusals_are_recognized_by_the_error_texts_of_many_servers() {
    let table: &[(u16, &str, Option<RequestCorrection>)] = &[
        (
            400,
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            Some(RequestCorrection::DropReasoning),
        ),
        (
            400,
            "Missing `reasoning_content` field in the assistant message at message index 1",
            Some(RequestCorrection::FillReasoning),
        ),
        (
            400,
            "The reasoning_content is an unsupported field in the input",
            Some(RequestCorrection::DropReasoning),
        ),
        (
            400,
            "a thought_signature is missing in a functionCall part",
            Some(RequestCorrection::FillSignature),
        ),
        (
            400,
            "The encrypted content for item rs_1 could not be verified",
            Some(RequestCorrection::DropReasoning),
        ),
        (
            500,
            "Jinja Exception: conversation roles must alternate user/assistant",
            Some(RequestCorrection::AlternateRoles),
        ),
        (
            400,
            "Unexpected role 'user' after role 'tool'",
            Some(RequestCorrection::AlternateRoles),
        ),
        (
            400,
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
            Some(RequestCorrection::ShortIds),
        ),
        (
            400,
            "Invalid 'messages[1].tool_calls[0].id': string too long",
            Some(RequestCorrection::ShortIds),
        ),
        (
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}"#,
            Some(RequestCorrection::DropField("stream_options")),
        ),
        (
            400,
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            Some(RequestCorrection::DropField("parallel_tool_calls")),
        ),
        (
            400,
            "`temperature` is deprecated for this model.",
            Some(RequestCorrection::DropField("temperature")),
        ),
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(RequestCorrection::RenameTokenLimit),
        ),
        (
            400,
            "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
            Some(RequestCorrection::MaxTokens(8192)),
        ),
        (
            400,
            "max_tokens is too large: 32768. This model supports at most 16,384 completion tokens",
            Some(RequestCorrection::MaxTokens(16_384)),
        ),
        (
            400,
            "Invalid schema for response_format 'answer': In context=(), 'minimum' is not permitted.",
            Some(RequestCorrection::DropOutputFormat),
        ),
        (
            400,
            "output_config.format.schema: For 'object' type, property 'maxItems' is wrong",
            Some(RequestCorrection::DropOutputFormat),
        ),
        (
            400,
            "Function calling with a response mime type: 'application/json' is unsupported",
            Some(RequestCorrection::DropOutputFormat),
        ),
        (400, "the thermostore is unknown", None),
        (400, "something else", None),
        (500, "internal error about a signature", None),
        (401, "unknown stream_options", None),
    ];
    for (status, said, expected) in table {
        assert_eq!(
            RequestCorrection::from_refusal(*status, said, ""),
            *expected,
            "{said}"
        );
    }
}

#[test]
fn an_applied_correction_is_not_added_again() {
    let thought = |text: &str| {
        let message = Message::new(Role::Assistant, vec![Content::from_thinking(text)]);
        Message {
            id: text.to_owned(),
            ..message
        }
    };
    let mut mends = RequestCorrections::default();
    let (a, b, c) = (thought("a"), thought("b"), thought("c"));
    assert!(mends.add_correction(&RequestCorrection::DropReasoning, std::slice::from_ref(&a)));
    assert!(mends.should_drop_reasoning(&a) && !mends.should_drop_reasoning(&b));
    assert!(!mends.add_correction(&RequestCorrection::DropReasoning, std::slice::from_ref(&a)));
    assert!(mends.add_correction(&RequestCorrection::DropReasoning, &[a, b]));
    assert!(mends.should_drop_reasoning(&c));
    for mend in [
        RequestCorrection::FillReasoning,
        RequestCorrection::FillSignature,
        RequestCorrection::AlternateRoles,
        RequestCorrection::ShortIds,
        RequestCorrection::DropField("store"),
        RequestCorrection::DropOutputFormat,
        RequestCorrection::RenameTokenLimit,
        RequestCorrection::MaxTokens(9),
    ] {
        assert!(mends.add_correction(&mend, &[]), "{mend:?}");
        assert!(!mends.add_correction(&mend, &[]), "{mend:?}");
    }
    assert!(mends.add_correction(&RequestCorrection::MaxTokens(8), &[]));
    assert!(!mends.add_correction(&RequestCorrection::MaxTokens(10), &[]));
}

#[test]
fn request_bodies_are_corrected_for_every_wire_format() {
    let mut mends = RequestCorrections::default();
    for mend in [
        RequestCorrection::DropField("temperature"),
        RequestCorrection::DropField("cache_control"),
        RequestCorrection::RenameTokenLimit,
        RequestCorrection::MaxTokens(10),
    ] {
        mends.add_correction(&mend, &[]);
    }
    let mut body = json!({"max_tokens": 20, "temperature": 1, "system": [{"text": "x", "cache_control": {}}],
        "messages": [{"content": [{"text": "y", "cache_control": {}}]}]});
    mends.apply_corrections(&mut body);
    let expected = json!({"max_completion_tokens": 10, "system": [{"text": "x"}],
        "messages": [{"content": [{"text": "y"}]}]});
    assert_eq!(body, expected);
    let mut body = json!({"generationConfig": {"temperature": 1, "maxOutputTokens": 20}});
    mends.apply_corrections(&mut body);
    assert_eq!(body, json!({"generationConfig": {"maxOutputTokens": 10}}));
    let mends = RequestCorrections::from_preset(&[RequestCorrection::AlternateRoles]);
    let mut body = json!({"messages": [{"role": "user"}, {"role": "tool"}, {"role": "tool"}, {"role": "user"}]});
    mends.apply_corrections(&mut body);
    let between = json!({"role": "assistant", "content": ASSISTANT_MESSAGE_PLACEHOLDER});
    let expected = json!({"messages": [{"role": "user"}, {"role": "tool"}, {"role": "tool"}, between, {"role": "user"}]});
    assert_eq!(body, expected);
    let mut mends = RequestCorrections::default();
    mends.add_correction(&RequestCorrection::FillReasoning, &[]);
    mends.add_correction(&RequestCorrection::FillSignature, &[]);
    let mut body = json!({"messages": [{"tool_calls": [{}]}, {"content": "x"}, 5],
        "contents": [{"parts": [{"functionCall": {}}, {"text": "x"}]}]});
    mends.apply_corrections(&mut body);
    let signature = json!({"google": {"thought_signature": GEMINI_SIGNATURE_PLACEHOLDER}});
    let expected = json!({"messages": [{"tool_calls": [{"extra_content": signature}], "reasoning_content": " "},
        {"content": "x"}, 5],
        "contents": [{"parts": [{"functionCall": {}, "thoughtSignature": GEMINI_SIGNATURE_PLACEHOLDER}, {"text": "x"}]}]});
    assert_eq!(body, expected);
}
