//! Secrets in a plugin's output are masked wherever the text goes, and each masking is recorded
//! without the secret.

use std::collections::BTreeSet;
use std::sync::Arc;

use rind::grant::Trust;
use rind::message::{EffectClass, ToolCall, ToolResult};
use rind::point::ExtensionPoint;
use rind::point::catalog::{
    BeforeProviderRequest, PostTool, PreTool, SessionStart, SystemPrompt, TurnStart,
};
use rind::point::dispatch::{CombinedHookVerdict, HookDispatchResult};
use rind::point::outcome::Effect;
use rind::point::payload::{
    Decision, FinishedCall, PromptContext, ProposedCall, SessionInfo, Source, TurnInput,
    WireRequest,
};
use rind::point::trace::{AccessOutcome, Reached};
use rind_tests::guests::Host;
use rind_tests::secrets::secret;
use rind_tests::session::Session;
use serde_json::{Value, json};

const MASK: &str = "[secret masked: github-token]";

/// A session with the leaking guest twice: `leaky` implements a point that `other` owns, and both
/// output `text`.
async fn session(text: &str, how: &str) -> Session {
    let mut host = Host::default();
    host.plugin(Trust::Managed, "leaky", |manifest| {
        manifest + "\n[implements.\"other.review\"]\n[dependencies]\nother = \"*\"\n"
    });
    host.plugin(Trust::Managed, "leaky", |manifest| {
        manifest.replace("name = \"leaky\"", "name = \"other\"")
    });
    for plugin in ["leaky", "other"] {
        host.set(plugin, "text", text);
        host.set(plugin, "how", how);
    }
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Session::open(&plugins)
}

async fn leaking(how: &str) -> Session {
    session(&secret("github-token"), how).await
}

fn call() -> ToolCall {
    ToolCall::new("c", "read_file", json!({"path": "a", "n": 1.5}))
}

async fn pre_tool(session: &Session) -> HookDispatchResult<ProposedCall> {
    let call = ProposedCall {
        call: call(),
        effect_class: EffectClass::Read,
        plugin: None,
        check: Arc::new(|_| Ok(())),
    };
    let dispatcher = &session.dispatcher;
    dispatcher.dispatch::<PreTool>(&session.caller, call).await
}

async fn dispatch<P: ExtensionPoint>(
    session: &Session,
    payload: impl Into<P::Payload>,
) -> HookDispatchResult<P::Payload>
where
    P::Payload: Send + Sync,
{
    let dispatcher = &session.dispatcher;
    dispatcher.dispatch::<P>(&session.caller, payload).await
}

/// Targets, outcomes and reasons of the access records of `leaky`. Also checks that nothing that
/// the session keeps holds the secret.
fn records(session: &Session) -> BTreeSet<String> {
    let memory = &session.memory;
    let accesses = memory.accesses.lock().unwrap();
    let kept = format!(
        "{:?}{:?}{:?}{:?}{:?}{accesses:?}",
        memory.log.lock().unwrap(),
        memory.effects.lock().unwrap(),
        memory.state.lock().unwrap(),
        memory.traces.lock().unwrap(),
        memory.appended.lock().unwrap(),
    );
    let secret = secret("github-token");
    assert!(!kept.contains(&secret), "{kept}");
    let own = accesses.iter().filter(|record| &*record.plugin == "leaky");
    let record = |record: &rind::point::trace::AccessRecord| {
        assert_eq!(record.reached, Reached::Secret);
        assert_eq!((record.origin.turn, record.origin.step), (1, 2));
        let reason = record.reason.clone().unwrap();
        said(&record.target, record.outcome, &reason)
    };
    let records: Vec<_> = own.map(record).collect();
    let distinct: BTreeSet<_> = records.iter().cloned().collect();
    assert_eq!(
        distinct.len(),
        records.len(),
        "each is said once: {records:?}"
    );
    distinct
}

fn said(target: &str, outcome: AccessOutcome, reason: &str) -> String {
    format!("{target}: {outcome:?}: {reason}")
}

fn masked(targets: &[&str]) -> BTreeSet<String> {
    let record = |target: &&str| said(target, AccessOutcome::Masked, "github-token");
    targets.iter().map(record).collect()
}

#[tokio::test]
async fn texts_injected_messages_parts_and_bodies_of_hooks_hold_no_secret() {
    let session = leaking("").await;
    let input = TurnInput {
        text: "hi".into(),
        source: Source::Terminal,
    };
    let done = dispatch::<TurnStart>(&session, input).await;
    assert_eq!(done.value.text, format!("text {MASK}"));
    let injected: Vec<&str> = done.inject.iter().map(|(_, said)| &*said.text).collect();
    assert_eq!(
        injected[..2],
        [format!("kept {MASK}"), format!("once {MASK}")]
    );
    let context = PromptContext {
        model: "m".into(),
        tools: Vec::new(),
        decision: Decision::Direct,
        parts: Vec::new(),
    };
    let done = dispatch::<SystemPrompt>(&session, context).await;
    assert_eq!(done.value.parts[0].text, format!("part {MASK}"));
    let request = WireRequest {
        provider: "p".into(),
        body: json!({ "messages": [] }).to_string(),
    };
    let done = dispatch::<BeforeProviderRequest>(&session, request).await;
    let body: Value = serde_json::from_str(&done.value.body).unwrap();
    assert_eq!(body["messages"][0]["content"], MASK);
    assert_eq!(
        records(&session),
        masked(&[
            "turn-start text",
            "turn-start injected message",
            "system-prompt part",
            "before-provider-request body",
        ])
    );
}

#[tokio::test]
async fn effects_hold_no_secret() {
    let session = leaking("").await;
    let info = SessionInfo {
        id: "s".into(),
        resumed: false,
        messages: 0,
        provider: "p".into(),
        model: "m".into(),
    };
    dispatch::<SessionStart>(&session, info).await;
    let effects = session.memory.effects.lock().unwrap().clone();
    let mut said = effects.iter().map(|(_, effect)| match effect {
        Effect::Log(line) | Effect::Notify(line) => line.text.as_str(),
        Effect::Metric(metric) => &metric.name,
        Effect::Store(stored) => &stored.value,
    });
    for expected in ["log", "notice", "metric", "stored"] {
        assert_eq!(said.next().unwrap(), format!("{expected} {MASK}"));
    }
    let targets =
        ["log", "notice", "metric", "stored value"].map(|what| format!("session-start {what}"));
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    assert_eq!(records(&session), masked(&targets));
}

#[tokio::test]
async fn reasons_notes_errors_and_panics_hold_no_secret() {
    for (how, expected, target) in [
        ("", "block ", "pre-tool reason"),
        ("ask", "ask ", "pre-tool reason"),
        ("error", "error ", "pre-tool error"),
        ("panic", "panic ", "panic message"),
    ] {
        let session = leaking(how).await;
        let done = pre_tool(&session).await;
        let said = match done.verdict {
            CombinedHookVerdict::Block(said) => said.text,
            CombinedHookVerdict::Ask(said) => said[0].text.clone(),
            CombinedHookVerdict::Pass => panic!("{how}"),
        };
        assert!(said.contains(&format!("{expected}{MASK}")), "{how}: {said}");
        for note in &done.notes {
            assert_eq!(note.text, format!("note {MASK}"));
        }
        assert!(records(&session).is_superset(&masked(&[target])), "{how}");
    }
}

#[tokio::test]
async fn half_a_secret_does_not_stay_at_the_end_of_a_long_reason() {
    let session = leaking("long").await;
    let CombinedHookVerdict::Block(said) = pre_tool(&session).await.verdict else {
        panic!("it blocks")
    };
    assert!(said.text.len() <= 2048);
    assert!(said.text.contains("x [secret"), "{}", &said.text[2020..]);
    assert!(!said.text.contains("gh"), "{}", &said.text[2020..]);
}

#[tokio::test]
async fn changed_arguments_are_masked_within_their_strings_however_they_are_spelled() {
    for how in ["change", "escaped"] {
        let session = leaking(how).await;
        let done = pre_tool(&session).await;
        assert_eq!(
            done.value.call.arguments,
            json!({"path": MASK, "n": 1.5}),
            "{how}"
        );
        assert_eq!(records(&session), masked(&["pre-tool arguments"]), "{how}");
    }
    let session = session("nothing to see", "escaped").await;
    let done = pre_tool(&session).await;
    assert_eq!(done.value.call.arguments["path"], "nothing to see");
    assert_eq!(records(&session), masked(&[]));
}

#[tokio::test]
async fn what_a_hook_only_passes_on_is_masked_too() {
    let session = leaking("").await;
    let token = secret("github-token");
    let result = ToolResult {
        call_id: "c".into(),
        name: "read_file".into(),
        content: format!("1: GITHUB_TOKEN={token}\n2: é {token}").into(),
        is_error: false,
    };
    let finished = FinishedCall {
        call: call(),
        result,
        is_refused: false,
        duration_ms: 1,
        plugin: None,
    };
    let done = dispatch::<PostTool>(&session, finished).await;
    let expected = format!("1: GITHUB_TOKEN={MASK}\n2: é {MASK}");
    assert_eq!(done.value.result.content, expected);
    assert_eq!(records(&session), masked(&["post-tool content"]));
}

#[tokio::test]
async fn tool_results_and_what_goes_through_imports_hold_no_secret_and_names_with_one_are_refused()
{
    let session = leaking("").await;
    let output = session.tool("other:leak", json!({})).await;
    assert!(
        output
            .content
            .text()
            .contains(&format!(r#"{{"answer":"{MASK}"}}"#)),
        "{}",
        output.content
    );
    let output = session.tool("leaky:leak", json!({})).await;
    assert!(
        output.content.text().starts_with(&format!("result {MASK}")),
        "{}",
        output.content
    );
    assert_eq!(
        output.content.text().matches("Err(Error::Denied(").count(),
        3,
        "{}",
        output.content
    );
    let log = session.memory.log.lock().unwrap().clone();
    assert!(
        log.iter()
            .all(|(_, _, line)| *line == format!("line {MASK}")),
        "{log:?}"
    );
    assert_eq!(session.state("leaky", "key"), format!("state {MASK}"));
    assert_eq!(
        session.memory.appended.lock().unwrap()[0].2,
        json!({ "text": MASK })
    );
    let mut expected = masked(&[
        "other.review answer",
        "log line",
        "state value",
        "store value",
        "session entry",
        "points payload",
        "tool result",
    ]);
    for target in ["state key", "store key", "session name of an entry"] {
        expected.insert(said(target, AccessOutcome::Denied, "github-token"));
    }
    assert_eq!(records(&session), expected);
    let output = leaking("error").await.tool("leaky:leak", json!({})).await;
    assert_eq!(output.content, format!("error {MASK}"));
    assert!(output.is_error);
}

#[tokio::test]
async fn a_text_without_a_secret_is_as_the_plugin_said_it() {
    let session = session("sk_live_example, task-force \u{202e}", "").await;
    let input = TurnInput {
        text: "hi".into(),
        source: Source::Terminal,
    };
    let done = dispatch::<TurnStart>(&session, input).await;
    assert_eq!(done.value.text, "text sk_live_example, task-force \u{202e}");
    assert_eq!(records(&session), BTreeSet::new());
}

#[tokio::test]
async fn a_tool_whose_description_holds_a_secret_keeps_its_plugin_from_loading() {
    let mut host = Host::default();
    let component = host.guest("leaky").join("guest_leaky.wasm");
    // The description is patched in the component's bytes, with the same length so that nothing
    // else moves.
    let written = "Says it through every import, and then as the result.";
    let leak = format!("{:<53}", secret("github-token"));
    let mut bytes = std::fs::read(&component).unwrap();
    let mut places = bytes.windows(written.len());
    let at = places
        .position(|place| place == written.as_bytes())
        .unwrap();
    bytes[at..at + written.len()].copy_from_slice(leak.as_bytes());
    std::fs::write(&component, bytes).unwrap();
    let plugins = host.load().await;
    let why = format!("{:?}", plugins.left_out);
    assert!(why.contains("looks like a secret (github-token)"), "{why}");
    assert!(
        plugins.plugins.is_empty() && !why.contains(leak.trim()),
        "{why}"
    );
}
