//! Tests of `rewrite_conversation`. Each test compares the rewritten conversation with expected
//! lines, one line per message.

use serde_json::json;

use super::*;
use crate::provider::mend::RequestCorrection;

fn tool_call(id: &str, name: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, name, json!({})))
}

fn result_message(id: &str, text: &str) -> Message {
    Message::from_tool_result(ToolResult::new(id, "look", text, false))
}

fn model_writer(model: &str) -> Writer {
    Writer {
        provider: "p".to_owned(),
        wire: ModelApiFormat::OpenaiChat.name().to_owned(),
        model: model.to_owned(),
    }
}

fn answer_from_model(model: &str, content: Vec<Content>) -> Message {
    Message {
        writer: Some(model_writer(model)),
        ..Message::new(Role::Assistant, content)
    }
}

fn user_message(text: &str) -> Message {
    Message::text(Role::User, text)
}

/// Rewrites the messages with `rewrite_conversation`, and returns one line per rewritten message:
/// its role and its parts.
fn fitted_lines(messages: Vec<Message>, mends: &RequestCorrections) -> Vec<String> {
    let request = Request {
        model: "m".to_owned(),
        messages,
        ..Request::default()
    };
    let target = RecipientModelServer {
        provider: "p",
        wire: ModelApiFormat::OpenaiChat,
        mends,
    };
    let fitted = rewrite_conversation(&request, &target);
    // A second rewriting of the rewritten conversation changes nothing.
    assert_eq!(*rewrite_conversation(&fitted, &target), *fitted);
    let part = |part: &Content| match part {
        Content::Text { text } => text.clone(),
        Content::Thinking { text, .. } => format!("({text})"),
        Content::Blob(_) => "blob".to_owned(),
        Content::ToolCall(call) => format!("{}:{}", call.id, call.name),
        Content::ToolResult(result) => format!("{}={}", result.call_id, result.content.text()),
    };
    let line = |message: &Message| {
        let parts: Vec<String> = message.content.iter().map(part).collect();
        format!("{:?} {}", message.role, parts.join(" "))
    };
    fitted.messages.iter().map(line).collect()
}

fn assert_fitted(messages: Vec<Message>, expected: &[&str]) {
    assert_eq!(
        fitted_lines(messages, &RequestCorrections::default()),
        expected
    );
}

#[test]
fn call_ids_are_unique_in_the_conversation_and_results_use_the_ids_of_their_calls() {
    assert_fitted(
        vec![
            user_message("go"),
            answer_from_model("m", vec![tool_call("call_0", "look")]),
            result_message("call_0", "a"),
            answer_from_model(
                "m",
                vec![
                    tool_call("call_0", "look"),
                    tool_call("a.1", "look"),
                    tool_call("a:1", "look"),
                ],
            ),
            result_message("call_0", "b"),
            result_message("a:1", "d"),
            result_message("a.1", "c"),
        ],
        &[
            "User go",
            "Assistant call_0:look",
            "Tool call_0=a",
            "Assistant call_0_2:look a_1:look a_1_2:look",
            "Tool call_0_2=b",
            "Tool a_1_2=d",
            "Tool a_1=c",
        ],
    );
}

#[test]
fn results_of_calls_with_the_same_id_are_assigned_in_order() {
    let answer = || {
        answer_from_model(
            "other",
            vec![
                tool_call("a", "look"),
                tool_call("a", "look"),
                tool_call("b", "look"),
            ],
        )
    };
    let calls = "Assistant a:look a_2:look b:look";
    assert_fitted(
        vec![
            user_message("go"),
            answer(),
            result_message("a", "first"),
            result_message("b", "third"),
            result_message("a", "second"),
        ],
        &[
            "User go",
            calls,
            "Tool a=first",
            "Tool b=third",
            "Tool a_2=second",
        ],
    );
    // Too few results for one id: the last calls with that id get the placeholder. A surplus result
    // is dropped.
    assert_fitted(
        vec![
            user_message("go"),
            answer(),
            result_message("a", "first"),
            user_message("on"),
        ],
        &[
            "User go",
            calls,
            "Tool a=first",
            "Tool a_2=[no result: the call did not end]",
            "Tool b=[no result: the call did not end]",
            "User on",
        ],
    );
    let one = || answer_from_model("m", vec![tool_call("a", "look")]);
    assert_fitted(
        vec![
            user_message("go"),
            one(),
            result_message("a", "x"),
            result_message("a", "y"),
        ],
        &["User go", "Assistant a:look", "Tool a=x"],
    );
}

#[test]
fn tool_names_are_reduced_to_the_permitted_characters() {
    let long = "x".repeat(80);
    for (name, expected) in [
        ("read_file", "read_file"),
        ("functions.read_file", "functions_read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("", INVALID_TOOL_NAME_PLACEHOLDER),
        ("<|x|>", INVALID_TOOL_NAME_PLACEHOLDER),
        ("日本", INVALID_TOOL_NAME_PLACEHOLDER),
        ("1st", "_1st"),
        (&long, &long[..64]),
    ] {
        assert_eq!(to_safe_tool_name(name), expected, "{name}");
    }
    assert_eq!(to_safe_call_id(""), "call");
    assert_eq!(to_safe_call_id(&long).len(), MAX_CALL_ID_CHARS);
    assert_eq!(to_short_call_id("abcdefgh1"), "abcdefgh1");
    assert!(
        to_short_call_id("call_1")
            .chars()
            .all(|c| c.is_ascii_alphanumeric())
    );
}

#[test]
fn calls_and_results_are_paired() {
    assert_fitted(
        vec![
            user_message("go"),
            answer_from_model("m", vec![tool_call("a", "look"), tool_call("b", "look")]),
            result_message("b", " "),
            result_message("x", "of nobody"),
            user_message("stop"),
            result_message("a", "too late"),
        ],
        &[
            "User go",
            "Assistant a:look b:look",
            "Tool b=[no output]",
            "Tool a=[no result: the call did not end]",
            "User stop",
        ],
    );
}

#[test]
fn adjacent_messages_are_joined_and_a_user_message_comes_first() {
    assert_fitted(
        vec![
            answer_from_model("m", vec![Content::from_text("hi")]),
            user_message("one"),
            Message::new(Role::Assistant, vec![Content::from_text(" ")]),
            user_message("two"),
            answer_from_model("m", vec![Content::from_text("a")]),
            answer_from_model("m", vec![Content::from_text("b")]),
        ],
        &[
            "User [the beginning of the conversation was left out]",
            "Assistant hi",
            "User one two",
            "Assistant a b",
        ],
    );
}

#[test]
fn reasoning_is_sent_only_to_the_model_that_wrote_it() {
    let thought = |model: &str| {
        answer_from_model(
            model,
            vec![Content::from_thinking("hm"), tool_call("a", "look")],
        )
    };
    let mut extra = thought("other");
    extra.extra = Some(json!({"details": 1}));
    assert_fitted(
        vec![user_message("go"), thought("m"), result_message("a", "x")],
        &["User go", "Assistant (hm) a:look", "Tool a=x"],
    );
    assert_fitted(
        vec![user_message("go"), extra, result_message("a", "x")],
        &["User go", "Assistant a:look", "Tool a=x"],
    );
    let mut mends = RequestCorrections::default();
    let messages = vec![user_message("go"), thought("m"), result_message("a", "x")];
    mends.add_correction(&RequestCorrection::DropReasoning, &messages);
    assert_eq!(
        fitted_lines(messages, &mends),
        ["User go", "Assistant a:look", "Tool a=x"]
    );
}

#[test]
fn roles_alternate_if_the_chat_template_requires_it() {
    let messages = vec![
        user_message("go"),
        answer_from_model("m", vec![tool_call("a", "look")]),
        result_message("a", "x"),
        user_message("stop"),
    ];
    let mends = RequestCorrections::from_preset(&[
        RequestCorrection::AlternateRoles,
        RequestCorrection::ShortIds,
    ]);
    let lines = fitted_lines(messages, &mends);
    assert_eq!(lines[3..], ["Assistant [the user goes on]", "User stop"]);
    assert!(lines[2].starts_with(&format!("Tool {}=", to_short_call_id("a"))));
}

#[test]
fn a_conversation_that_fits_is_not_copied() {
    let request = Request {
        model: "m".to_owned(),
        messages: vec![
            user_message("go"),
            answer_from_model("m", vec![tool_call("a", "look")]),
            result_message("a", "x"),
        ],
        ..Request::default()
    };
    let mends = RequestCorrections::default();
    let target = RecipientModelServer {
        provider: "p",
        wire: ModelApiFormat::OpenaiChat,
        mends: &mends,
    };
    assert!(matches!(
        rewrite_conversation(&request, &target),
        Cow::Borrowed(_)
    ));
}
