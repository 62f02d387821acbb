//! Tests of outcomes that are refused, and of edits that affect several messages or parts.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult, Usage};
use crate::point::payload as p;

/// Environment of a plugin with the side effect `session`.
const CHANGES: MergeEnv<'static> = MergeEnv {
    plugin: "guest",
    may_change: true,
};

/// Environment of a plugin without the side effect `session`.
const LOOKS: MergeEnv<'static> = MergeEnv {
    may_change: false,
    ..CHANGES
};

fn oversized_text() -> String {
    "x".repeat(MAX_TEXT_BYTES + 1)
}

/// Merges an outcome that must be refused, checks that the payload is unchanged, and returns the
/// error.
fn merge_error<P: Clone + std::fmt::Debug, O: MergeIntoPayload<P>>(
    payload: &P,
    outcome: O,
    env: &MergeEnv<'_>,
) -> String {
    let mut changed = payload.clone();
    let refusal = outcome
        .merge(&mut changed, &mut MergedOutcome::default(), env)
        .unwrap_err();
    assert_eq!(format!("{changed:?}"), format!("{payload:?}"), "{refusal}");
    refusal
}

/// Merges an outcome that must be accepted. Returns the payload and the reported changes.
fn merge_accepted<P: Clone, O: MergeIntoPayload<P>>(
    payload: &P,
    outcome: O,
) -> (P, Vec<&'static str>) {
    let mut changed = payload.clone();
    let mut merged = MergedOutcome::default();
    outcome.merge(&mut changed, &mut merged, &CHANGES).unwrap();
    (changed, merged.changed)
}

fn turn_input() -> p::TurnInput {
    p::TurnInput {
        text: "hello".to_owned(),
        source: p::Source::Terminal,
    }
}

fn prompt_part(key: &str, text: &str) -> p::PromptPart {
    p::PromptPart {
        tier: p::Tier::Context,
        key: key.to_owned(),
        source: "host".to_owned(),
        text: text.to_owned(),
    }
}

fn prompt_context() -> p::PromptContext {
    p::PromptContext {
        model: "m".to_owned(),
        tools: Vec::new(),
        decision: p::Decision::Direct,
        parts: vec![prompt_part("rules", "Be kind.")],
    }
}

fn tool_call(id: &str) -> ToolCall {
    ToolCall::new(id, "read_file", json!({"path": "a"}))
}

fn message(id: &str, role: Role, content: Vec<Content>) -> Message {
    Message {
        id: id.to_owned(),
        ..Message::new(role, content)
    }
}

fn text_message(id: &str, role: Role) -> Message {
    let text = id.to_owned();
    message(id, role, vec![Content::Text { text }])
}

fn result_message(id: &str, call: &str) -> Message {
    let result = ToolResult {
        call_id: call.to_owned(),
        name: "read_file".to_owned(),
        content: "alpha".into(),
        is_error: false,
    };
    message(id, Role::Tool, vec![Content::ToolResult(result)])
}

/// Returns a conversation: a question, an answer that makes two calls, both results, and an answer.
fn conversation() -> Arc<Vec<Message>> {
    let calls = ["c1", "c2"].map(|id| Content::ToolCall(tool_call(id)));
    Arc::new(vec![
        text_message("question", Role::User),
        message("calls", Role::Assistant, calls.into()),
        result_message("first", "c1"),
        result_message("second", "c2"),
        text_message("answer", Role::Assistant),
    ])
}

/// Creates an outcome with the given fields; all other fields have their default values.
macro_rules! outcome {
    ($name:ident, $($field:ident = $value:expr),+) => {
        o::$name { $($field: $value,)+ ..Default::default() }
    };
}

fn context_edits(edits: Vec<o::MessageEdit>) -> o::ContextOutcome {
    outcome!(ContextOutcome, edits = edits)
}

fn drop_edit(id: &str) -> o::MessageEdit {
    o::MessageEdit::Drop(id.to_owned())
}

fn replace_edit(id: &str, text: &str) -> o::MessageEdit {
    let (id, text) = (id.to_owned(), text.to_owned());
    o::MessageEdit::Replace(o::Replacement { id, text })
}

fn contribute_parts(parts: Vec<p::PromptPart>) -> o::PromptOutcome {
    outcome!(PromptOutcome, parts = parts)
}

fn edit_parts(put: Vec<p::PromptPart>, remove: &[&str]) -> o::PartsOutcome {
    let remove = remove.iter().map(|key| (*key).to_owned()).collect();
    outcome!(PartsOutcome, put = put, remove = remove)
}

fn request_with_temperature(t: f64) -> o::RequestOutcome {
    outcome!(RequestOutcome, temperature = o::FloatChange::Set(t))
}

fn keep_tools(names: &[&str]) -> o::NamesChange {
    o::NamesChange::Set(names.iter().map(|name| (*name).to_owned()).collect())
}

fn outcome_changing_arguments(arguments: &str) -> o::CallOutcome {
    outcome!(
        CallOutcome,
        verdict = o::CallVerdict::Change(arguments.to_owned())
    )
}

fn message_ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

fn model_request() -> p::ModelRequest {
    p::ModelRequest {
        purpose: p::Purpose::Step,
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
        temperature: Some(1.0),
        max_tokens: None,
        tools: vec!["bash".to_owned(), "search".to_owned()],
        messages: 0,
        usage: Usage::default().into(),
    }
}

fn proposed_call() -> p::ProposedCall {
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

fn reflection() -> p::Reflection {
    p::Reflection {
        draft: "done".to_owned(),
        input: "do it".to_owned(),
        tools: Vec::new(),
        criteria: Vec::new(),
        verdict: o::VerdictChange::Keep,
    }
}

fn assessment(input: &str, confidence: f64) -> p::Assessment {
    p::Assessment {
        input: input.to_owned(),
        decision: p::Decision::Plan,
        confidence,
        reasons: Vec::new(),
    }
}

#[test]
fn texts_over_the_limit_are_refused_at_every_point() {
    let injection = o::Injection {
        text: oversized_text(),
        keep: true,
    };
    let new_and_injected = outcome!(
        InputOutcome,
        text = Some("taken only as a whole".to_owned()),
        inject = vec![injection]
    );
    let new_input = outcome!(InputOutcome, text = Some(oversized_text()));
    let new_output = outcome!(OutputOutcome, text = Some(oversized_text()));
    let parts = vec![
        prompt_part("small", "x"),
        prompt_part("large", &oversized_text()),
    ];
    let edits = context_edits(vec![
        drop_edit("question"),
        o::MessageEdit::Append(oversized_text()),
    ]);
    let arguments = outcome_changing_arguments(&format!("\"{}\"", oversized_text()));
    let refusals = [
        merge_error(&turn_input(), new_input, &CHANGES),
        merge_error(&turn_input(), new_and_injected, &CHANGES),
        merge_error(&prompt_context(), contribute_parts(parts), &CHANGES),
        merge_error(&conversation(), edits, &CHANGES),
        merge_error(&"draft".to_owned(), new_output, &CHANGES),
        merge_error(&proposed_call(), arguments, &CHANGES),
    ];
    for refusal in refusals {
        assert!(refusal.contains("at most 8388608 are allowed"), "{refusal}");
    }
}

#[test]
fn the_number_of_items_in_an_outcome_is_limited() {
    let injection = o::Injection {
        text: "x".to_owned(),
        keep: false,
    };
    let inject = outcome!(
        InputOutcome,
        text = Some("new".to_owned()),
        inject = vec![injection; MAX_INJECTIONS + 1]
    );
    let effect = o::Effect::Metric(o::Metric {
        name: "m".to_owned(),
        value: 1.0,
    });
    let observed = o::Observed {
        effects: vec![effect; MAX_EFFECTS + 1],
    };
    let many: Vec<String> = (0..=MAX_PARTS).map(|n| n.to_string()).collect();
    let criteria = outcome!(ReflectionOutcome, criteria = many.clone());
    let put: Vec<p::PromptPart> = many.iter().map(|key| prompt_part(key, "x")).collect();
    let messages = Arc::new(vec![Message::text(Role::User, "hello")]);
    let append = o::MessageEdit::Append("x".to_owned());
    let table = [
        (
            merge_error(&turn_input(), inject, &CHANGES),
            "17 injected messages, at most 16",
        ),
        (
            merge_error(&turn_input(), observed, &CHANGES),
            "65 effects, at most 64",
        ),
        (
            merge_error(&reflection(), criteria, &CHANGES),
            "257 criteria, at most 256",
        ),
        (
            merge_error(&vec![prompt_part("a", "x")], edit_parts(put, &[]), &CHANGES),
            "257 prompt parts to put, at most 256",
        ),
        (
            merge_error(&messages, context_edits(vec![append; 18]), &CHANGES),
            "18 edits of messages, at most 17",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, format!("{expected} are allowed"));
    }
}

#[test]
fn invalid_or_forbidden_outcomes_are_refused_with_the_reason() {
    let parts = vec![prompt_part("a", "1"), prompt_part("b", "2")];
    let twice = contribute_parts(vec![prompt_part("mine", "x"), prompt_part("mine", "y")]);
    let gone = edit_parts(vec![prompt_part("b", "3")], &["a", "c"]);
    let no_tokens = outcome!(
        RequestOutcome,
        model = Some("other".to_owned()),
        max_tokens = o::CountChange::Set(0)
    );
    let no_model = outcome!(RequestOutcome, model = Some(String::new()));
    let more_tools = outcome!(
        RequestOutcome,
        tools = keep_tools(&["search", "write_file"])
    );
    let slice = Arc::new(p::Slice {
        reason: "asked".to_owned(),
        messages: Vec::new(),
        summary: String::new(),
    });
    let summary = o::SliceVerdict::Summary("mine".to_owned());
    let summary = outcome!(SliceOutcome, verdict = summary);
    let table = [
        (
            merge_error(&prompt_context(), twice, &CHANGES),
            "two prompt parts have the key `guest:mine`",
        ),
        (
            merge_error(&parts, gone, &CHANGES),
            "there is no prompt part `c` to remove",
        ),
        (
            // Dropping the first result also drops the second.
            merge_error(
                &conversation(),
                context_edits(vec![drop_edit("first"), drop_edit("second")]),
                &CHANGES,
            ),
            "the request has no message with the id `second`",
        ),
        (
            merge_error(
                &conversation(),
                context_edits(vec![replace_edit("nobody", "")]),
                &CHANGES,
            ),
            "the request has no message with the id `nobody`",
        ),
        (
            merge_error(&model_request(), no_tokens, &CHANGES),
            "max-tokens is 0",
        ),
        (
            merge_error(&model_request(), no_model, &CHANGES),
            "the model's name is empty",
        ),
        (
            merge_error(&model_request(), more_tools, &CHANGES),
            "the tool `write_file` is not active, and a hook can only remove tools",
        ),
        (
            merge_error(
                &proposed_call(),
                outcome_changing_arguments("{\"path\": \"b\"}"),
                &LOOKS,
            ),
            "it changes arguments, which needs the side effect `session`",
        ),
        (
            merge_error(&proposed_call(), outcome_changing_arguments("{}"), &CHANGES),
            "the new arguments do not fit the tool's schema: `path` is missing",
        ),
        (
            merge_error(&slice, summary, &LOOKS),
            "it brings its own summary, which needs the side effect `session`",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, expected);
    }
    for t in [-0.1, 2.1, f64::NAN, f64::INFINITY] {
        let refusal = merge_error(&model_request(), request_with_temperature(t), &CHANGES);
        assert!(refusal.ends_with("is not between 0 and 2"), "{refusal}");
    }
    for key in [String::new(), "k".repeat(129)] {
        merge_error(
            &prompt_context(),
            contribute_parts(vec![prompt_part(&key, "x")]),
            &CHANGES,
        );
    }
    let refusal = merge_error(&proposed_call(), outcome_changing_arguments("{"), &CHANGES);
    assert!(refusal.starts_with("the text of the new arguments is not JSON: "));
    let wire = Arc::new(p::WireRequest {
        provider: "openai".to_owned(),
        body: "{}".to_owned(),
    });
    for body in ["[]", "\"text\"", "{", ""] {
        let outcome = outcome!(WireOutcome, body = Some(body.to_owned()));
        let refusal = merge_error(&wire, outcome, &CHANGES);
        assert_eq!(refusal, "the new body is not a JSON object");
    }
}

#[test]
fn contributed_prompt_parts_are_prefixed_with_the_plugin_name() {
    let (context, _) = merge_accepted(
        &prompt_context(),
        contribute_parts(vec![prompt_part("rules", "x")]),
    );
    assert_eq!(
        (&*context.parts[0].text, &*context.parts[1].key),
        ("Be kind.", "guest:rules"),
        "another's part of that key stays"
    );
    let (context, changed) = merge_accepted(
        &prompt_context(),
        contribute_parts(vec![prompt_part("mine", "x")]),
    );
    let source = &context.parts[1].source;
    assert_eq!(source, "guest", "it cannot speak as the host");
    assert_eq!(changed, ["parts"]);
}

#[test]
fn prompt_parts_replace_parts_with_the_same_key_and_only_existing_parts_are_removed() {
    let parts = vec![prompt_part("a", "1"), prompt_part("b", "2")];
    let edit = edit_parts(vec![prompt_part("b", "3"), prompt_part("c", "4")], &["a"]);
    let (changed, _) = merge_accepted(&parts, edit);
    let kept: Vec<_> = changed
        .iter()
        .map(|part| (part.key.as_str(), part.text.as_str(), part.source.as_str()))
        .collect();
    assert_eq!(kept, [("b", "3", "guest"), ("guest:c", "4", "guest")]);
    // A hook edits its plugin's own part by the chosen key or by the full key.
    for key in ["c", "guest:c"] {
        let (again, _) = merge_accepted(&changed, edit_parts(vec![prompt_part(key, "5")], &[]));
        assert_eq!((again.len(), &*again[1].text), (2, "5"), "{key}");
        let (less, _) = merge_accepted(&changed, edit_parts(vec![], &[key, key]));
        assert_eq!(less.len(), 1, "{key}");
    }
}

#[test]
fn calls_and_their_results_are_dropped_together() {
    for dropped in ["calls", "first", "second"] {
        let (messages, changed) =
            merge_accepted(&conversation(), context_edits(vec![drop_edit(dropped)]));
        assert_eq!(
            message_ids(&messages),
            ["question", "answer"],
            "after {dropped}"
        );
        assert_eq!(changed, ["messages"]);
    }
    let (messages, _) = merge_accepted(&conversation(), context_edits(vec![drop_edit("question")]));
    assert_eq!(messages.len(), 4);
}

#[test]
fn a_replaced_tool_result_keeps_its_call_id_and_a_replaced_message_keeps_its_calls() {
    let edit = context_edits(vec![
        replace_edit("first", "short"),
        replace_edit("calls", "short"),
    ]);
    let (messages, _) = merge_accepted(&conversation(), edit);
    let result = messages[2].tool_results().next().unwrap();
    let result = (result.call_id.as_str(), &*result.content.text());
    assert_eq!(result, ("c1", "short"));
    let n_parts = messages[2].content.len();
    assert_eq!(n_parts, 1, "a result gets no text beside it");
    assert_eq!(messages[1].joined_text(), "short");
    assert_eq!(messages[1].tool_calls().count(), 2);
}

#[test]
fn an_appended_message_names_its_plugin() {
    let edit = context_edits(vec![o::MessageEdit::Append("mind the gap".to_owned())]);
    let (messages, _) = merge_accepted(&conversation(), edit);
    let last = messages.last().unwrap();
    assert_eq!(last.joined_text(), "[plugin guest] mind the gap");
    let speaker = (last.role, last.plugin.as_deref());
    assert_eq!(speaker, (Role::User, Some("guest")));
}

#[test]
fn request_parameters_are_set_and_reset_to_their_defaults() {
    let set = o::RequestOutcome {
        max_tokens: o::CountChange::Set(1),
        tools: keep_tools(&["search"]),
        ..request_with_temperature(0.0)
    };
    let (changed, what) = merge_accepted(&model_request(), set);
    assert_eq!(what, ["temperature", "max-tokens", "tools"]);
    assert_eq!(changed.tools, ["search"]);
    let unset = outcome!(
        RequestOutcome,
        temperature = o::FloatChange::Unset,
        max_tokens = o::CountChange::Unset,
        tools = o::NamesChange::Unset
    );
    let (changed, what) = merge_accepted(&model_request(), unset.clone());
    assert_eq!((changed.temperature, changed.max_tokens), (None, None));
    assert_eq!(changed.tools, Vec::<String>::new());
    assert_eq!(what, ["temperature", "tools"], "no limit was set before");
    assert_eq!(merge_accepted(&changed, unset).1, Vec::<&str>::new());
}

#[test]
fn a_gate_hook_can_change_arguments_and_its_refusal_changes_nothing_else() {
    let (call, changed) = merge_accepted(
        &proposed_call(),
        outcome_changing_arguments("{\"path\": \"b\"}"),
    );
    assert_eq!(call.call.arguments, json!({"path": "b"}));
    assert_eq!(changed, ["arguments"]);
    let (_, changed) = merge_accepted(
        &proposed_call(),
        outcome_changing_arguments("{\"path\": \"a\"}"),
    );
    assert!(changed.is_empty(), "the same arguments are no change");
    let block = outcome!(
        CallOutcome,
        verdict = o::CallVerdict::Block("no".to_owned()),
        note = Some("mind".to_owned())
    );
    let mut merged = MergedOutcome::default();
    block
        .merge(&mut proposed_call(), &mut merged, &LOOKS)
        .unwrap();
    assert_eq!(merged.answer, Some(HookObjection::Block("no".to_owned())));
    assert_eq!(merged.note.as_deref(), Some("mind"));
}

#[test]
fn a_confidence_is_between_0_and_1_and_the_input_stays() {
    let before = assessment("what was asked", 0.5);
    let outcome = |confidence| {
        let new = assessment("another question", confidence);
        outcome!(AssessmentOutcome, assessment = Some(new))
    };
    for confidence in [-0.5, 1.5, f64::NAN] {
        merge_error(&before, outcome(confidence), &CHANGES);
    }
    let (changed, _) = merge_accepted(&before, outcome(1.0));
    assert_eq!(changed, assessment("what was asked", 1.0));
}
