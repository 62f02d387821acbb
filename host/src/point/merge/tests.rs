//! Tests of refused outcomes, and of combinations.

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

/// Environment of a plugin without that side effect.
const LOOKS: MergeEnv<'static> = MergeEnv {
    may_change: false,
    ..CHANGES
};

fn too_long() -> String {
    "x".repeat(MAX_TEXT_BYTES + 1)
}

/// Merges an outcome that must be refused, checks that the payload is unchanged, and returns the
/// error.
fn refused<P: Clone + std::fmt::Debug, O: Merge<P>>(
    payload: &P,
    outcome: O,
    env: &MergeEnv<'_>,
) -> String {
    let mut changed = payload.clone();
    let refusal = outcome
        .merge(&mut changed, &mut Merged::default(), env)
        .unwrap_err();
    assert_eq!(format!("{changed:?}"), format!("{payload:?}"), "{refusal}");
    refusal
}

/// Merges an outcome that must be accepted. Returns the payload and the reported changes.
fn taken<P: Clone, O: Merge<P>>(payload: &P, outcome: O) -> (P, Vec<&'static str>) {
    let mut changed = payload.clone();
    let mut merged = Merged::default();
    outcome.merge(&mut changed, &mut merged, &CHANGES).unwrap();
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
    ToolCall::new(id, "read_file", json!({"path": "a"}))
}

fn message(id: &str, role: Role, content: Vec<Content>) -> Message {
    Message {
        id: id.to_owned(),
        ..Message::new(role, content)
    }
}

fn said(id: &str, role: Role) -> Message {
    let text = id.to_owned();
    message(id, role, vec![Content::Text { text }])
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

/// Returns a conversation: a question, an answer that makes two calls, both results, and an answer.
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

/// Builds an outcome from some of its fields, with defaults for the rest.
macro_rules! outcome {
    ($name:ident, $($field:ident = $value:expr),+) => {
        o::$name { $($field: $value,)+ ..Default::default() }
    };
}

fn edits(edits: Vec<o::MessageEdit>) -> o::ContextOutcome {
    outcome!(ContextOutcome, edits = edits)
}

fn drop(id: &str) -> o::MessageEdit {
    o::MessageEdit::Drop(id.to_owned())
}

fn replace(id: &str, text: &str) -> o::MessageEdit {
    let (id, text) = (id.to_owned(), text.to_owned());
    o::MessageEdit::Replace(o::Replacement { id, text })
}

fn contribute(parts: Vec<p::PromptPart>) -> o::PromptOutcome {
    outcome!(PromptOutcome, parts = parts)
}

fn edit_parts(put: Vec<p::PromptPart>, remove: &[&str]) -> o::PartsOutcome {
    let remove = remove.iter().map(|key| (*key).to_owned()).collect();
    outcome!(PartsOutcome, put = put, remove = remove)
}

fn temperature(t: f64) -> o::RequestOutcome {
    outcome!(RequestOutcome, temperature = o::FloatChange::Set(t))
}

fn tools(names: &[&str]) -> o::NamesChange {
    o::NamesChange::Set(names.iter().map(|name| (*name).to_owned()).collect())
}

fn change(arguments: &str) -> o::CallOutcome {
    outcome!(
        CallOutcome,
        verdict = o::CallVerdict::Change(arguments.to_owned())
    )
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
        usage: Usage::default().into(),
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
fn a_text_over_the_limit_is_refused_wherever_a_hook_may_put_one() {
    let injection = o::Injection {
        text: too_long(),
        keep: true,
    };
    let new_and_injected = outcome!(
        InputOutcome,
        text = Some("taken only as a whole".to_owned()),
        inject = vec![injection]
    );
    let new_input = outcome!(InputOutcome, text = Some(too_long()));
    let new_output = outcome!(OutputOutcome, text = Some(too_long()));
    let parts = vec![part("small", "x"), part("large", &too_long())];
    let edits = edits(vec![drop("question"), o::MessageEdit::Append(too_long())]);
    let arguments = change(&format!("\"{}\"", too_long()));
    let refusals = [
        refused(&input(), new_input, &CHANGES),
        refused(&input(), new_and_injected, &CHANGES),
        refused(&prompt(), contribute(parts), &CHANGES),
        refused(&conversation(), edits, &CHANGES),
        refused(&"draft".to_owned(), new_output, &CHANGES),
        refused(&proposed(), arguments, &CHANGES),
    ];
    for refusal in refusals {
        assert!(refusal.contains("at most 8388608 are allowed"), "{refusal}");
    }
}

#[test]
fn what_comes_in_numbers_is_bounded() {
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
    let put: Vec<p::PromptPart> = many.iter().map(|key| part(key, "x")).collect();
    let messages = Arc::new(vec![Message::text(Role::User, "hello")]);
    let append = o::MessageEdit::Append("x".to_owned());
    let table = [
        (
            refused(&input(), inject, &CHANGES),
            "17 injected messages, at most 16",
        ),
        (
            refused(&input(), observed, &CHANGES),
            "65 effects, at most 64",
        ),
        (
            refused(&reflection(), criteria, &CHANGES),
            "257 criteria, at most 256",
        ),
        (
            refused(&vec![part("a", "x")], edit_parts(put, &[]), &CHANGES),
            "257 prompt parts to put, at most 256",
        ),
        (
            refused(&messages, edits(vec![append; 18]), &CHANGES),
            "18 edits of messages, at most 17",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, format!("{expected} are allowed"));
    }
}

#[test]
fn what_makes_no_sense_or_is_not_allowed_is_refused_with_the_reason() {
    let parts = vec![part("a", "1"), part("b", "2")];
    let twice = contribute(vec![part("mine", "x"), part("mine", "y")]);
    let gone = edit_parts(vec![part("b", "3")], &["a", "c"]);
    let no_tokens = outcome!(
        RequestOutcome,
        model = Some("other".to_owned()),
        max_tokens = o::CountChange::Set(0)
    );
    let no_model = outcome!(RequestOutcome, model = Some(String::new()));
    let more_tools = outcome!(RequestOutcome, tools = tools(&["search", "write_file"]));
    let slice = Arc::new(p::Slice {
        reason: "asked".to_owned(),
        messages: Vec::new(),
        summary: String::new(),
    });
    let summary = o::SliceVerdict::Summary("mine".to_owned());
    let summary = outcome!(SliceOutcome, verdict = summary);
    let table = [
        (
            refused(&prompt(), twice, &CHANGES),
            "there are two prompt parts `guest:mine`",
        ),
        (
            refused(&parts, gone, &CHANGES),
            "there is no prompt part `c` to remove",
        ),
        (
            // Dropping the first result also drops the second.
            refused(
                &conversation(),
                edits(vec![drop("first"), drop("second")]),
                &CHANGES,
            ),
            "there is no message `second`",
        ),
        (
            refused(
                &conversation(),
                edits(vec![replace("nobody", "")]),
                &CHANGES,
            ),
            "there is no message `nobody`",
        ),
        (refused(&request(), no_tokens, &CHANGES), "max-tokens is 0"),
        (
            refused(&request(), no_model, &CHANGES),
            "the model's name is empty",
        ),
        (
            refused(&request(), more_tools, &CHANGES),
            "the tool `write_file` is not active, and a hook can only leave tools out",
        ),
        (
            refused(&proposed(), change("{\"path\": \"b\"}"), &LOOKS),
            "it changes arguments, which needs the side effect `session`",
        ),
        (
            refused(&proposed(), change("{}"), &CHANGES),
            "the new arguments do not fit the tool's schema: `path` is missing",
        ),
        (
            refused(&slice, summary, &LOOKS),
            "it brings its own summary, which needs the side effect `session`",
        ),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal, expected);
    }
    for t in [-0.1, 2.1, f64::NAN, f64::INFINITY] {
        let refusal = refused(&request(), temperature(t), &CHANGES);
        assert!(refusal.ends_with("is not between 0 and 2"), "{refusal}");
    }
    for key in [String::new(), "k".repeat(129)] {
        refused(&prompt(), contribute(vec![part(&key, "x")]), &CHANGES);
    }
    let refusal = refused(&proposed(), change("{"), &CHANGES);
    assert!(refusal.starts_with("the text of the new arguments is not JSON: "));
    let wire = Arc::new(p::WireRequest {
        provider: "openai".to_owned(),
        body: "{}".to_owned(),
    });
    for body in ["[]", "\"text\"", "{", ""] {
        let outcome = outcome!(WireOutcome, body = Some(body.to_owned()));
        let refusal = refused(&wire, outcome, &CHANGES);
        assert_eq!(refusal, "the new body is not a JSON object");
    }
}

#[test]
fn a_contributed_part_stands_under_the_name_of_its_plugin() {
    let (context, _) = taken(&prompt(), contribute(vec![part("rules", "x")]));
    assert_eq!(
        (&*context.parts[0].text, &*context.parts[1].key),
        ("Be kind.", "guest:rules"),
        "another's part of that key stays"
    );
    let (context, changed) = taken(&prompt(), contribute(vec![part("mine", "x")]));
    let source = &context.parts[1].source;
    assert_eq!(source, "guest", "it cannot speak as the host");
    assert_eq!(changed, ["parts"]);
}

#[test]
fn parts_are_put_in_place_of_those_with_their_key_and_only_what_is_there_is_removed() {
    let parts = vec![part("a", "1"), part("b", "2")];
    let edit = edit_parts(vec![part("b", "3"), part("c", "4")], &["a"]);
    let (changed, _) = taken(&parts, edit);
    let kept: Vec<_> = changed
        .iter()
        .map(|part| (part.key.as_str(), part.text.as_str(), part.source.as_str()))
        .collect();
    assert_eq!(kept, [("b", "3", "guest"), ("guest:c", "4", "guest")]);
    // A hook edits its plugin's own part by the chosen key or by the full key.
    for key in ["c", "guest:c"] {
        let (again, _) = taken(&changed, edit_parts(vec![part(key, "5")], &[]));
        assert_eq!((again.len(), &*again[1].text), (2, "5"), "{key}");
        let (less, _) = taken(&changed, edit_parts(vec![], &[key, key]));
        assert_eq!(less.len(), 1, "{key}");
    }
}

#[test]
fn calls_and_their_results_are_dropped_together() {
    for dropped in ["calls", "first", "second"] {
        let (messages, changed) = taken(&conversation(), edits(vec![drop(dropped)]));
        assert_eq!(ids(&messages), ["question", "answer"], "after {dropped}");
        assert_eq!(changed, ["messages"]);
    }
    let (messages, _) = taken(&conversation(), edits(vec![drop("question")]));
    assert_eq!(messages.len(), 4);
}

#[test]
fn a_replaced_tool_result_keeps_its_call_and_a_replaced_message_its_calls() {
    let edit = edits(vec![replace("first", "short"), replace("calls", "short")]);
    let (messages, _) = taken(&conversation(), edit);
    let result = messages[2].tool_results().next().unwrap();
    let result = (result.call_id.as_str(), &*result.content.text());
    assert_eq!(result, ("c1", "short"));
    let n_parts = messages[2].content.len();
    assert_eq!(n_parts, 1, "a result gets no text beside it");
    assert_eq!(messages[1].joined_text(), "short");
    assert_eq!(messages[1].tool_calls().count(), 2);
}

#[test]
fn an_appended_message_says_who_speaks() {
    let edit = edits(vec![o::MessageEdit::Append("mind the gap".to_owned())]);
    let (messages, _) = taken(&conversation(), edit);
    let last = messages.last().unwrap();
    assert_eq!(last.joined_text(), "[plugin guest] mind the gap");
    let speaker = (last.role, last.plugin.as_deref());
    assert_eq!(speaker, (Role::User, Some("guest")));
}

#[test]
fn parameters_of_a_request_are_set_and_taken_back_to_their_default() {
    let set = o::RequestOutcome {
        max_tokens: o::CountChange::Set(1),
        tools: tools(&["search"]),
        ..temperature(0.0)
    };
    let (changed, what) = taken(&request(), set);
    assert_eq!(what, ["temperature", "max-tokens", "tools"]);
    assert_eq!(changed.tools, ["search"]);
    let unset = outcome!(
        RequestOutcome,
        temperature = o::FloatChange::Unset,
        max_tokens = o::CountChange::Unset,
        tools = o::NamesChange::Unset
    );
    let (changed, what) = taken(&request(), unset.clone());
    assert_eq!((changed.temperature, changed.max_tokens), (None, None));
    assert_eq!(changed.tools, Vec::<String>::new());
    assert_eq!(what, ["temperature", "tools"], "no limit was set before");
    assert_eq!(taken(&changed, unset).1, Vec::<&str>::new());
}

#[test]
fn a_gate_changes_arguments_and_may_refuse_without_the_side_effect() {
    let (call, changed) = taken(&proposed(), change("{\"path\": \"b\"}"));
    assert_eq!(call.call.arguments, json!({"path": "b"}));
    assert_eq!(changed, ["arguments"]);
    let (_, changed) = taken(&proposed(), change("{\"path\": \"a\"}"));
    assert!(changed.is_empty(), "the same arguments are no change");
    let block = outcome!(
        CallOutcome,
        verdict = o::CallVerdict::Block("no".to_owned()),
        note = Some("mind".to_owned())
    );
    let mut merged = Merged::default();
    block.merge(&mut proposed(), &mut merged, &LOOKS).unwrap();
    assert_eq!(merged.answer, Some(Objection::Block("no".to_owned())));
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
        refused(&before, outcome(confidence), &CHANGES);
    }
    let (changed, _) = taken(&before, outcome(1.0));
    assert_eq!(changed, assessment("what was asked", 1.0));
}
