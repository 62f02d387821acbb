//! Tests of refused outcomes, and of combinations.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult, Usage};
use crate::point::payload as p;

/// A plugin with the side effect `session`.
const CHANGES: MergeEnv<'static> = MergeEnv {
    plugin: "guest",
    may_change: true,
};

/// A plugin without it.
const LOOKS: MergeEnv<'static> = MergeEnv {
    may_change: false,
    ..CHANGES
};

fn too_long() -> String {
    "x".repeat(MAX_TEXT_BYTES + 1)
}

/// Merges what must be refused; the payload must be as it was. Gives the refusal.
fn refused<P: Clone + std::fmt::Debug, O: Merge<P>>(
    payload: &P,
    outcome: O,
    env: &MergeEnv<'_>,
) -> String {
    let mut changed = payload.clone();
    let refusal = outcome.merge(&mut changed, env).unwrap_err();
    assert_eq!(format!("{changed:?}"), format!("{payload:?}"), "{refusal}");
    refusal
}

/// Merges what must be taken. Gives the payload and what is reported to have changed.
fn taken<P: Clone, O: Merge<P>>(payload: &P, outcome: O) -> (P, Vec<&'static str>) {
    let mut changed = payload.clone();
    let merged = outcome.merge(&mut changed, &CHANGES).unwrap();
    (changed, merged.changed)
}

fn input() -> p::TurnInput {
    p::TurnInput {
        text: "hello".to_owned(),
        source: p::Source::Terminal,
    }
}

fn part(key: &str, text: &str) -> p::PromptPart {
    p::PromptPart {
        tier: p::Tier::Context,
        key: key.to_owned(),
        source: "host".to_owned(),
        text: text.to_owned(),
    }
}

fn prompt() -> p::PromptContext {
    p::PromptContext {
        model: "m".to_owned(),
        tools: Vec::new(),
        decision: p::Decision::Direct,
        parts: vec![part("rules", "Be kind.")],
    }
}

fn tool_call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({"path": "a"}),
    }
}

fn message(id: &str, role: Role, content: Vec<Content>) -> Message {
    Message {
        id: id.to_owned(),
        role,
        content,
        plugin: None,
        origin: None,
    }
}

fn said(id: &str, role: Role) -> Message {
    message(
        id,
        role,
        vec![Content::Text {
            text: id.to_owned(),
        }],
    )
}

fn answered(id: &str, call: &str) -> Message {
    let result = ToolResult {
        call_id: call.to_owned(),
        name: "read_file".to_owned(),
        content: "alpha".into(),
        is_error: false,
    };
    message(id, Role::Tool, vec![Content::ToolResult(result)])
}

/// A question, an answer that makes two calls, both results, and an answer.
fn conversation() -> Arc<Vec<Message>> {
    let calls = ["c1", "c2"].map(|id| Content::ToolCall(tool_call(id)));
    Arc::new(vec![
        said("question", Role::User),
        message("calls", Role::Assistant, calls.into()),
        answered("first", "c1"),
        answered("second", "c2"),
        said("answer", Role::Assistant),
    ])
}

fn edits(edits: Vec<o::MessageEdit>) -> o::ContextOutcome {
    o::ContextOutcome {
        edits,
        ..o::ContextOutcome::default()
    }
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

fn request() -> p::ModelRequest {
    p::ModelRequest {
        purpose: p::Purpose::Step,
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
        temperature: Some(1.0),
        max_tokens: None,
        tools: vec!["bash".to_owned(), "search".to_owned()],
        messages: 0,
        usage: Usage::default(),
    }
}

fn proposed() -> p::ProposedCall {
    p::ProposedCall {
        call: tool_call("c1"),
        effect_class: EffectClass::Read,
        plugin: None,
        check: Arc::new(|arguments| match arguments.get("path") {
            Some(_) => Ok(()),
            None => Err("`path` is missing".to_owned()),
        }),
    }
}

fn change(arguments: &str) -> o::CallOutcome {
    o::CallOutcome {
        verdict: o::CallVerdict::Change(arguments.to_owned()),
        ..o::CallOutcome::default()
    }
}

#[test]
fn a_text_over_the_limit_is_refused_wherever_a_hook_may_put_one() {
    let injection = o::Injection {
        text: too_long(),
        keep: true,
    };
    let refusals = [
        refused(
            &input(),
            o::InputOutcome {
                text: Some(too_long()),
                ..o::InputOutcome::default()
            },
            &CHANGES,
        ),
        refused(
            &input(),
            o::InputOutcome {
                text: Some("taken only as a whole".to_owned()),
                inject: vec![injection],
                ..o::InputOutcome::default()
            },
            &CHANGES,
        ),
        refused(
            &prompt(),
            o::PromptOutcome {
                parts: vec![part("small", "x"), part("large", &too_long())],
                ..o::PromptOutcome::default()
            },
            &CHANGES,
        ),
        refused(
            &conversation(),
            edits(vec![
                o::MessageEdit::Drop("question".to_owned()),
                o::MessageEdit::Append(too_long()),
            ]),
            &CHANGES,
        ),
        refused(
            &"draft".to_owned(),
            o::OutputOutcome {
                text: Some(too_long()),
                ..o::OutputOutcome::default()
            },
            &CHANGES,
        ),
        refused(
            &proposed(),
            change(&format!("\"{}\"", too_long())),
            &CHANGES,
        ),
    ];
    for refusal in refusals {
        assert!(refusal.contains("at most 8388608 are allowed"), "{refusal}");
    }
}

#[test]
fn too_many_injections_or_effects_are_refused() {
    let injection = o::Injection {
        text: "x".to_owned(),
        keep: false,
    };
    let inject = o::InputOutcome {
        text: Some("new".to_owned()),
        inject: vec![injection; MAX_INJECTIONS + 1],
        ..o::InputOutcome::default()
    };
    assert_eq!(
        refused(&input(), inject, &CHANGES),
        "17 injected messages, at most 16 are allowed"
    );
    let effect = o::Effect::Metric {
        name: "m".to_owned(),
        value: 1.0,
    };
    let observed = o::Observed {
        effects: vec![effect; MAX_EFFECTS + 1],
    };
    assert_eq!(
        refused(&input(), observed, &CHANGES),
        "65 effects, at most 64 are allowed"
    );
}

#[test]
fn a_prompt_key_that_is_taken_is_refused_with_who_took_it() {
    let contribute = |parts| o::PromptOutcome {
        parts,
        ..o::PromptOutcome::default()
    };
    let (context, _) = taken(&prompt(), contribute(vec![part("rules", "x")]));
    assert_eq!(
        (&*context.parts[0].text, &*context.parts[1].key),
        ("Be kind.", "guest:rules"),
        "another's part of that key stays"
    );
    let twice = vec![part("mine", "x"), part("mine", "y")];
    assert_eq!(
        refused(&prompt(), contribute(twice), &CHANGES),
        "there are two prompt parts `guest:mine`"
    );
    for key in [String::new(), "k".repeat(129)] {
        refused(&prompt(), contribute(vec![part(&key, "x")]), &CHANGES);
    }
    let (context, changed) = taken(&prompt(), contribute(vec![part("mine", "x")]));
    assert_eq!(
        context.parts[1].source, "guest",
        "it cannot speak as the host"
    );
    assert_eq!(changed, ["parts"]);
}

#[test]
fn parts_are_put_in_place_of_those_with_their_key_and_only_what_is_there_is_removed() {
    let parts = vec![part("a", "1"), part("b", "2")];
    let outcome = |put, remove: &[&str]| o::PartsOutcome {
        put,
        remove: remove.iter().map(|key| (*key).to_owned()).collect(),
        ..o::PartsOutcome::default()
    };
    assert_eq!(
        refused(&parts, outcome(vec![part("b", "3")], &["a", "c"]), &CHANGES),
        "there is no prompt part `c` to remove"
    );
    let (changed, _) = taken(
        &parts,
        outcome(vec![part("b", "3"), part("c", "4")], &["a"]),
    );
    let kept: Vec<_> = changed
        .iter()
        .map(|part| (part.key.as_str(), part.text.as_str(), part.source.as_str()))
        .collect();
    assert_eq!(kept, [("b", "3", "guest"), ("guest:c", "4", "guest")]);
    // Its own part, by the key that it chose or by the whole one.
    for key in ["c", "guest:c"] {
        let (again, _) = taken(&changed, outcome(vec![part(key, "5")], &[]));
        assert_eq!((again.len(), &*again[1].text), (2, "5"), "{key}");
        let (less, _) = taken(&changed, outcome(vec![], &[key, key]));
        assert_eq!(less.len(), 1, "{key}");
    }
}

#[test]
fn calls_and_their_results_are_dropped_together() {
    for dropped in ["calls", "first", "second"] {
        let edit = edits(vec![o::MessageEdit::Drop(dropped.to_owned())]);
        let (messages, changed) = taken(&conversation(), edit);
        assert_eq!(ids(&messages), ["question", "answer"], "after {dropped}");
        assert_eq!(changed, ["messages"]);
    }
    let edit = edits(vec![o::MessageEdit::Drop("question".to_owned())]);
    assert_eq!(taken(&conversation(), edit).0.len(), 4);
}

#[test]
fn edits_of_a_message_that_is_not_there_are_refused_and_none_is_made() {
    let twice = ["first", "second"].map(|id| o::MessageEdit::Drop(id.to_owned()));
    assert_eq!(
        refused(&conversation(), edits(twice.into()), &CHANGES),
        "there is no message `second`"
    );
    let replace = o::MessageEdit::Replace {
        id: "nobody".to_owned(),
        text: String::new(),
    };
    assert_eq!(
        refused(&conversation(), edits(vec![replace]), &CHANGES),
        "there is no message `nobody`"
    );
}

#[test]
fn a_replaced_tool_result_keeps_its_call_and_a_replaced_message_its_calls() {
    let replace = |id: &str| o::MessageEdit::Replace {
        id: id.to_owned(),
        text: "short".to_owned(),
    };
    let edit = edits(vec![replace("first"), replace("calls")]);
    let (messages, _) = taken(&conversation(), edit);
    let result = messages[2].tool_results().next().unwrap();
    assert_eq!(
        (result.call_id.as_str(), &*result.content.text()),
        ("c1", "short")
    );
    assert_eq!(
        messages[2].content.len(),
        1,
        "a result gets no text beside it"
    );
    assert_eq!(messages[1].joined_text(), "short");
    assert_eq!(messages[1].tool_calls().count(), 2);
}

#[test]
fn an_appended_message_says_who_speaks() {
    let edit = edits(vec![o::MessageEdit::Append("mind the gap".to_owned())]);
    let (messages, _) = taken(&conversation(), edit);
    let last = messages.last().unwrap();
    assert_eq!(last.joined_text(), "[plugin guest] mind the gap");
    assert_eq!(
        (last.role, last.plugin.as_deref()),
        (Role::User, Some("guest"))
    );
}

#[test]
fn a_request_takes_only_what_a_provider_could_mean() {
    let none = o::RequestOutcome::default;
    let temperature = |t| o::RequestOutcome {
        temperature: o::Change::Set(t),
        ..none()
    };
    for t in [-0.1, 2.1, f64::NAN, f64::INFINITY] {
        let refusal = refused(&request(), temperature(t), &CHANGES);
        assert!(refusal.ends_with("is not between 0 and 2"), "{refusal}");
    }
    let no_tokens = o::RequestOutcome {
        model: Some("other".to_owned()),
        max_tokens: o::Change::Set(0),
        ..none()
    };
    assert_eq!(refused(&request(), no_tokens, &CHANGES), "max-tokens is 0");
    let no_model = o::RequestOutcome {
        model: Some(String::new()),
        ..none()
    };
    assert_eq!(
        refused(&request(), no_model, &CHANGES),
        "the model's name is empty"
    );
    let more_tools = o::RequestOutcome {
        tools: o::Change::Set(vec!["search".to_owned(), "write_file".to_owned()]),
        ..none()
    };
    assert_eq!(
        refused(&request(), more_tools, &CHANGES),
        "the tool `write_file` is not active, and a hook can only leave tools out"
    );
    let fine = o::RequestOutcome {
        temperature: o::Change::Set(0.0),
        max_tokens: o::Change::Set(1),
        tools: o::Change::Set(vec!["search".to_owned()]),
        ..none()
    };
    let (changed, what) = taken(&request(), fine);
    assert_eq!(what, ["temperature", "max-tokens", "tools"]);
    assert_eq!(changed.tools, ["search"]);
}

#[test]
fn what_has_a_default_can_be_taken_back_to_it() {
    let unset = o::RequestOutcome {
        temperature: o::Change::Unset,
        max_tokens: o::Change::Unset,
        tools: o::Change::Unset,
        ..o::RequestOutcome::default()
    };
    let (changed, what) = taken(&request(), unset.clone());
    assert_eq!((changed.temperature, changed.max_tokens), (None, None));
    assert_eq!(changed.tools, Vec::<String>::new());
    assert_eq!(what, ["temperature", "tools"], "no limit was set before");
    assert_eq!(taken(&changed, unset).1, Vec::<&str>::new());
}

#[test]
fn a_gate_changes_arguments_only_with_the_side_effect_and_within_the_schema() {
    let good = || change("{\"path\": \"b\"}");
    assert_eq!(
        refused(&proposed(), good(), &LOOKS),
        "it changes arguments, which needs the side effect `session`"
    );
    assert_eq!(
        refused(&proposed(), change("{}"), &CHANGES),
        "the new arguments do not fit the tool's schema: `path` is missing"
    );
    assert!(
        refused(&proposed(), change("{"), &CHANGES)
            .starts_with("the text of the new arguments is not JSON: ")
    );
    let (call, changed) = taken(&proposed(), good());
    assert_eq!(call.call.arguments, json!({"path": "b"}));
    assert_eq!(changed, ["arguments"]);
    let (_, changed) = taken(&proposed(), change("{\"path\": \"a\"}"));
    assert!(changed.is_empty(), "the same arguments are no change");
}

#[test]
fn a_gate_without_the_side_effect_may_still_refuse() {
    let block = o::CallOutcome {
        verdict: o::CallVerdict::Block("no".to_owned()),
        note: Some("mind".to_owned()),
        ..o::CallOutcome::default()
    };
    let merged = block.merge(&mut proposed(), &LOOKS).unwrap();
    assert_eq!(merged.answer, Some(Objection::Block("no".to_owned())));
    assert_eq!(merged.note.as_deref(), Some("mind"));
}

#[test]
fn a_summary_of_ones_own_needs_the_side_effect() {
    let slice = Arc::new(p::Slice {
        reason: "asked".to_owned(),
        messages: Vec::new(),
        summary: String::new(),
    });
    let summary = o::SliceOutcome {
        verdict: o::SliceVerdict::Summary("mine".to_owned()),
        ..o::SliceOutcome::default()
    };
    assert_eq!(
        refused(&slice, summary, &LOOKS),
        "it brings its own summary, which needs the side effect `session`"
    );
}

#[test]
fn a_confidence_is_between_0_and_1_and_the_input_stays() {
    let assessment = |confidence| p::Assessment {
        input: "what was asked".to_owned(),
        decision: p::Decision::Plan,
        confidence,
        reasons: Vec::new(),
    };
    let outcome = |confidence| o::AssessmentOutcome {
        assessment: Some(p::Assessment {
            input: "another question".to_owned(),
            ..assessment(confidence)
        }),
        ..o::AssessmentOutcome::default()
    };
    for confidence in [-0.5, 1.5, f64::NAN] {
        refused(&assessment(0.5), outcome(confidence), &CHANGES);
    }
    let (changed, _) = taken(&assessment(0.5), outcome(1.0));
    assert_eq!(changed, assessment(1.0));
}

#[test]
fn a_body_for_the_wire_is_a_json_object() {
    let wire = Arc::new(p::WireRequest {
        provider: "openai".to_owned(),
        body: "{}".to_owned(),
    });
    for body in ["[]", "\"text\"", "{", ""] {
        let outcome = o::WireOutcome {
            body: Some(body.to_owned()),
            ..o::WireOutcome::default()
        };
        assert_eq!(
            refused(&wire, outcome, &CHANGES),
            "the new body is not a JSON object"
        );
    }
}

#[test]
fn what_is_compared_with_all_others_comes_in_bounded_numbers() {
    let many: Vec<String> = (0..=MAX_PARTS).map(|n| n.to_string()).collect();
    let reflection = p::Reflection {
        draft: "done".to_owned(),
        input: "do it".to_owned(),
        tools: Vec::new(),
        criteria: Vec::new(),
        verdict: None,
    };
    let criteria = o::ReflectionOutcome {
        criteria: many.clone(),
        ..o::ReflectionOutcome::default()
    };
    let refusal = refused(&reflection, criteria, &CHANGES);
    assert_eq!(refusal, "257 criteria, at most 256 are allowed");

    let put: Vec<p::PromptPart> = many.iter().map(|key| part(key, "x")).collect();
    let parts = o::PartsOutcome {
        put,
        ..o::PartsOutcome::default()
    };
    let refusal = refused(&vec![part("a", "x")], parts, &CHANGES);
    assert_eq!(refusal, "257 prompt parts to put, at most 256 are allowed");

    let messages = Arc::new(vec![Message::text(Role::User, "hello")]);
    let append = o::MessageEdit::Append("x".to_owned());
    let refusal = refused(&messages, edits(vec![append; 18]), &CHANGES);
    assert_eq!(refusal, "18 edits of messages, at most 17 are allowed");
}
