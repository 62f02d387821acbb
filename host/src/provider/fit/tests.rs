//! Tests of `fit_conversation`: each compares a conversation before and after, with one line per
//! message.

use serde_json::json;

use super::*;
use crate::provider::mend::Mend;

fn call(id: &str, name: &str) -> Content {
    Content::ToolCall(ToolCall::new(id, name, json!({})))
}

fn result(id: &str, text: &str) -> Message {
    Message::result(ToolResult::new(id, "look", text, false))
}

fn writer(model: &str) -> Writer {
    Writer {
        provider: "p".to_owned(),
        wire: Wire::OpenaiChat.name().to_owned(),
        model: model.to_owned(),
    }
}

fn by(model: &str, content: Vec<Content>) -> Message {
    Message {
        writer: Some(writer(model)),
        ..Message::new(Role::Assistant, content)
    }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

/// Returns one line per message: its role and its parts.
fn shown(messages: Vec<Message>, mends: &Mends) -> Vec<String> {
    let request = Request {
        model: "m".to_owned(),
        messages,
        ..Request::default()
    };
    let target = FitTarget {
        provider: "p",
        wire: Wire::OpenaiChat,
        mends,
    };
    let fitted = fit_conversation(&request, &target);
    // Fitting a conversation twice changes nothing the second time.
    assert_eq!(*fit_conversation(&fitted, &target), *fitted);
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

fn check(messages: Vec<Message>, expected: &[&str]) {
    assert_eq!(shown(messages, &Mends::default()), expected);
}

#[test]
fn ids_are_unique_over_the_conversation_and_results_follow_them() {
    check(
        vec![
            user("go"),
            by("m", vec![call("call_0", "look")]),
            result("call_0", "a"),
            by(
                "m",
                vec![
                    call("call_0", "look"),
                    call("a.1", "look"),
                    call("a:1", "look"),
                ],
            ),
            result("call_0", "b"),
            result("a:1", "d"),
            result("a.1", "c"),
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
fn results_of_calls_with_one_id_answer_them_in_order() {
    let answer = || {
        by(
            "other",
            vec![call("a", "look"), call("a", "look"), call("b", "look")],
        )
    };
    let calls = "Assistant a:look a_2:look b:look";
    check(
        vec![
            user("go"),
            answer(),
            result("a", "first"),
            result("b", "third"),
            result("a", "second"),
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
    check(
        vec![user("go"), answer(), result("a", "first"), user("on")],
        &[
            "User go",
            calls,
            "Tool a=first",
            "Tool a_2=[no result: the call did not end]",
            "Tool b=[no result: the call did not end]",
            "User on",
        ],
    );
    let one = || by("m", vec![call("a", "look")]);
    check(
        vec![user("go"), one(), result("a", "x"), result("a", "y")],
        &["User go", "Assistant a:look", "Tool a=x"],
    );
}

#[test]
fn names_are_brought_into_the_alphabet() {
    let long = "x".repeat(80);
    for (name, expected) in [
        ("read_file", "read_file"),
        ("functions.read_file", "functions_read_file"),
        ("read_file<|channel|>commentary", "read_file"),
        ("", NO_NAME),
        ("<|x|>", NO_NAME),
        ("日本", NO_NAME),
        ("1st", "_1st"),
        (&long, &long[..64]),
    ] {
        assert_eq!(safe_name(name), expected, "{name}");
    }
    assert_eq!(safe_id(""), "call");
    assert_eq!(safe_id(&long).len(), MAX_ID);
    assert_eq!(short_id("abcdefgh1"), "abcdefgh1");
    assert!(
        short_id("call_1")
            .chars()
            .all(|c| c.is_ascii_alphanumeric())
    );
}

#[test]
fn calls_and_results_are_paired() {
    check(
        vec![
            user("go"),
            by("m", vec![call("a", "look"), call("b", "look")]),
            result("b", " "),
            result("x", "of nobody"),
            user("stop"),
            result("a", "too late"),
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
fn neighbors_are_joined_and_the_user_begins() {
    check(
        vec![
            by("m", vec![Content::text("hi")]),
            user("one"),
            Message::new(Role::Assistant, vec![Content::text(" ")]),
            user("two"),
            by("m", vec![Content::text("a")]),
            by("m", vec![Content::text("b")]),
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
fn reasoning_goes_to_its_writer_only() {
    let thought = |model: &str| by(model, vec![Content::thinking("hm"), call("a", "look")]);
    let mut extra = thought("other");
    extra.extra = Some(json!({"details": 1}));
    check(
        vec![user("go"), thought("m"), result("a", "x")],
        &["User go", "Assistant (hm) a:look", "Tool a=x"],
    );
    check(
        vec![user("go"), extra, result("a", "x")],
        &["User go", "Assistant a:look", "Tool a=x"],
    );
    let mut mends = Mends::default();
    let messages = vec![user("go"), thought("m"), result("a", "x")];
    mends.learn_correction(&Mend::DropReasoning, &messages);
    assert_eq!(
        shown(messages, &mends),
        ["User go", "Assistant a:look", "Tool a=x"]
    );
}

#[test]
fn roles_alternate_where_a_template_wants_it() {
    let messages = vec![
        user("go"),
        by("m", vec![call("a", "look")]),
        result("a", "x"),
        user("stop"),
    ];
    let mends = Mends::known_mends(&[Mend::AlternateRoles, Mend::ShortIds]);
    let lines = shown(messages, &mends);
    assert_eq!(lines[3..], ["Assistant [the user goes on]", "User stop"]);
    assert!(lines[2].starts_with(&format!("Tool {}=", short_id("a"))));
}

#[test]
fn a_conversation_that_fits_is_not_copied() {
    let request = Request {
        model: "m".to_owned(),
        messages: vec![
            user("go"),
            by("m", vec![call("a", "look")]),
            result("a", "x"),
        ],
        ..Request::default()
    };
    let mends = Mends::default();
    let target = FitTarget {
        provider: "p",
        wire: Wire::OpenaiChat,
        mends: &mends,
    };
    assert!(matches!(
        fit_conversation(&request, &target),
        Cow::Borrowed(_)
    ));
}
