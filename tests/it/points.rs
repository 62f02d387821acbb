//! Tests that a real component receives every field of every point and that each outcome arrives.

use rind::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult, Usage};
use rind::point::caller::PluginCallContext;
use rind::point::catalog::*;
use rind::point::dispatch::CombinedHookVerdict;
use rind::point::outcome::{Effect, Level, LogLine, Metric, Stored, VerdictChange};
use rind::point::payload::*;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;
use std::sync::Arc;

async fn session() -> Session {
    let mut host = Host::default();
    host.guest("every-point");
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Session::open(&plugins)
}

/// Dispatches to the hook, and returns the result and the changes that its trace reports.
async fn dispatch<P: rind::point::ExtensionPoint>(
    session: &Session,
    payload: impl Into<P::Payload>,
) -> (
    rind::point::dispatch::HookDispatchResult<P::Payload>,
    String,
) {
    let done = session
        .dispatcher
        .dispatch::<P>(&session.caller, payload)
        .await;
    let traces = std::mem::take(&mut *session.memory.traces.lock().unwrap());
    let lines: Vec<String> = traces
        .iter()
        .map(|t| {
            format!(
                "{:?} {}{}",
                t.outcome,
                t.changed.join(","),
                t.reason
                    .clone()
                    .map(|r| format!(": {r}"))
                    .unwrap_or_default()
            )
        })
        .collect();
    (done, lines.join("; "))
}

fn info() -> SessionInfo {
    SessionInfo {
        id: "s".into(),
        resumed: true,
        messages: 3,
        provider: "p".into(),
        model: "m".into(),
    }
}

#[tokio::test]
async fn session_start_and_end_see_the_session_and_effects_arrive_cleaned() {
    let session = session().await;
    dispatch::<SessionStart>(&session, info()).await;
    assert_eq!(
        session.state("every-point", "session-start"),
        format!("{:?}", info())
    );
    let effects: Vec<Effect> = session
        .memory
        .effects
        .lock()
        .unwrap()
        .iter()
        .map(|(_, effect)| effect.clone())
        .collect();
    assert_eq!(
        effects,
        [
            Effect::Log(LogLine {
                level: Level::Debug,
                text: "a line".into()
            }),
            Effect::Metric(Metric {
                name: "seen.count".into(),
                value: 1.5
            }),
            Effect::Store(Stored {
                key: "seen".into(),
                value: "yes".into()
            }),
            Effect::Notify(LogLine {
                level: Level::Warn,
                text: "a notice\\u{1b}[31m".into()
            }),
        ]
    );
    dispatch::<SessionEnd>(&session, info()).await;
    assert_eq!(
        session.state("every-point", "session-end"),
        format!("{:?}", info())
    );
}

#[tokio::test]
async fn turn_start_sees_the_caller_and_may_replace_and_inject() {
    let mut session = session().await;
    session.caller.context = PluginCallContext {
        workspace: "/work".into(),
        model: "large".into(),
        depth: 1,
        usage: Usage {
            input_tokens: 40,
            output_tokens: 2,
            ..Usage::default()
        },
        cost_usd: 0.5,
        unpriced_tokens: 3,
        tool_calls: 4,
        ..session.caller.context
    };
    let (done, trace) = dispatch::<TurnStart>(
        &session,
        TurnInput {
            text: "hi".into(),
            source: Source::Terminal,
        },
    )
    .await;
    assert_eq!(done.value.text, "hi turn-start");
    let injected: Vec<_> = done
        .inject
        .iter()
        .map(|(by, injection)| (&**by, injection.text.as_str(), injection.keep))
        .collect();
    assert_eq!(
        injected,
        [
            ("every-point", "kept", true),
            ("every-point", "once", false)
        ]
    );
    assert_eq!(trace, "Changed inject,text");
    assert_eq!(
        session.state("every-point", "turn-start"),
        r#"(1, 2, "main", 1, 42, 0.5, 4)"#
    );
    assert_eq!(
        session.state("every-point", "caller"),
        r#"("s", "/work", "large", None, 2, 3)"#
    );
}

#[tokio::test]
async fn pre_assess_may_block() {
    let (done, trace) = dispatch::<PreAssess>(
        &session().await,
        TurnInput {
            text: "hi".into(),
            source: Source::Mcp,
        },
    )
    .await;
    let CombinedHookVerdict::Block(said) = done.verdict else {
        panic!("{:?}", done.verdict)
    };
    assert_eq!(
        (&*said.plugin, said.text.as_str()),
        ("every-point", "Source::Mcp hi")
    );
    assert_eq!(trace, "Blocked : Source::Mcp hi");
}

#[tokio::test]
async fn post_assess_may_put_another_assessment_in_place() {
    let assessment = Assessment {
        input: "hi".into(),
        decision: Decision::Delegate,
        confidence: 0.8,
        reasons: vec!["a".into()],
    };
    let (done, _) = dispatch::<PostAssess>(&session().await, assessment).await;
    let expected = Assessment {
        input: "hi".into(),
        decision: Decision::Plan,
        confidence: 0.4,
        reasons: vec!["a".into(), "was Decision::Delegate".into()],
    };
    assert_eq!(done.value, expected);
}

fn part(key: &str, text: &str) -> PromptPart {
    PromptPart {
        tier: Tier::Stable,
        key: key.into(),
        source: "host".into(),
        text: text.into(),
    }
}

#[tokio::test]
async fn system_prompt_hooks_contribute_replace_and_remove_parts_and_change_the_text() {
    let session = session().await;
    let context = PromptContext {
        model: "m".into(),
        tools: vec!["read_file".into()],
        decision: Decision::AskFirst,
        parts: vec![part("identity", "you")],
    };
    let (done, _) = dispatch::<SystemPrompt>(&session, context).await;
    let added = PromptPart {
        tier: Tier::Volatile,
        key: "every-point:every-point".into(),
        source: "every-point".into(),
        text: r#"m ["read_file"] Decision::AskFirst"#.into(),
    };
    assert_eq!(done.value.parts, [part("identity", "you"), added]);
    let (done, trace) =
        dispatch::<BeforeSystemPrompt>(&session, vec![part("a", "one"), part("b", "two")]).await;
    assert_eq!(
        done.value,
        [PromptPart {
            source: "every-point".into(),
            ..part("b", "TWO")
        }]
    );
    assert_eq!(trace, "Changed parts");
    let (done, _) = dispatch::<AfterSystemPrompt>(&session, "text").await;
    assert_eq!(done.value, "text after");
}

#[tokio::test]
async fn context_edits_replace_drop_with_the_other_half_of_a_call_and_append() {
    let session = session().await;
    let call = ToolCall::new("c", "read_file", json!({}));
    let result = ToolResult {
        call_id: "c".into(),
        name: "read_file".into(),
        content: "x".into(),
        is_error: false,
    };
    let messages = vec![
        Message::text(Role::User, "hi"),
        Message::new(
            Role::Assistant,
            vec![Content::from_thinking("hm"), Content::ToolCall(call)],
        ),
        Message::new(Role::Tool, vec![Content::ToolResult(result)]),
    ];
    let (done, trace) = dispatch::<Context>(&session, messages).await;
    let texts: Vec<String> = done.value.iter().map(Message::joined_text).collect();
    assert_eq!(
        texts,
        ["HI", "[plugin every-point] at the end"],
        "the call went with its result"
    );
    assert_eq!(trace, "Changed messages");
    assert_eq!(
        session.state("every-point", "context"),
        "[(Role::User, 1), (Role::Assistant, 2), (Role::Tool, 1)]"
    );
}

#[tokio::test]
async fn a_large_payload_is_lent_and_not_copied() {
    let mut host = Host::default();
    host.guest("reader");
    let plugins = host.load().await;
    let session = Session::open(&plugins);
    let messages: Arc<Vec<Message>> = Arc::new(vec![Message::text(Role::User, "hi"); 250]);
    let (done, trace) = dispatch::<Context>(&session, messages.clone()).await;
    assert_eq!(trace, "Pass ");
    assert!(Arc::ptr_eq(&done.value, &messages));
    drop(done);
    assert_eq!(Arc::strong_count(&messages), 1, "no instance holds it");
    let slice = Arc::new(Slice {
        reason: "asked".into(),
        messages: Vec::clone(&messages),
        summary: String::new(),
    });
    let (done, trace) = dispatch::<BeforeCompact>(&session, slice.clone()).await;
    assert_eq!(trace, "Pass ");
    assert!(Arc::ptr_eq(&done.value, &slice));
}

#[tokio::test]
async fn pre_reason_may_change_model_parameters_and_tools() {
    let session = session().await;
    let request = ModelRequest {
        purpose: Purpose::Step,
        provider: "p".into(),
        model: "m".into(),
        temperature: Some(1.0),
        max_tokens: Some(100),
        tools: vec!["a".into(), "b".into()],
        messages: 1,
        usage: Usage {
            input_tokens: 7,
            ..Usage::default()
        }
        .into(),
    };
    let (done, trace) = dispatch::<PreReason>(&session, request).await;
    assert_eq!(
        (
            done.value.model.as_str(),
            done.value.temperature,
            done.value.max_tokens
        ),
        ("m-mini", Some(0.5), Some(101))
    );
    assert_eq!(done.value.tools, ["a"]);
    assert_eq!(done.inject.len(), 2);
    assert_eq!(trace, "Changed inject,model,temperature,max-tokens,tools");
    assert_eq!(session.state("every-point", "pre-reason"), r#"("p", 7, 1)"#);
}

#[tokio::test]
async fn the_wire_request_may_be_rewritten_and_the_response_is_seen() {
    let session = session().await;
    let (done, _) = dispatch::<BeforeProviderRequest>(
        &session,
        WireRequest {
            provider: "p".into(),
            body: r#"{"x":"a"}"#.into(),
        },
    )
    .await;
    assert_eq!(done.value.body, r#"{"x":"b"}"#);
    let response = WireResponse {
        purpose: Purpose::Plugin("b".to_owned()),
        provider: "p".into(),
        status: 200,
        latency_ms: 5,
        model: "m".to_owned(),
        cost_usd: Some(0.5),
        usage: Usage::default(),
        body: "raw".into(),
    };
    dispatch::<AfterProviderResponse>(&session, response).await;
    assert_eq!(
        session.state("every-point", "after-provider-response"),
        r#"(Purpose::Plugin("b"), "p", 200, 5, "raw")"#
    );
}

#[tokio::test]
async fn post_reason_may_replace_the_text_and_ask_for_another_step() {
    let session = session().await;
    let (done, _) = dispatch::<PostReason>(&session, Message::text(Role::Assistant, "done")).await;
    assert_eq!(done.value.joined_text(), "Role::Assistant");
    assert_eq!(done.inject[0].1.text, "go on");
    let message = Message::text(Role::User, "hi");
    dispatch::<MessageEnd>(&session, message.clone()).await;
    let seen = session.state("every-point", "message-end");
    assert!(seen.contains(&format!("id: {:?}", message.id)), "{seen}");
    assert!(seen.contains(r#"Content::Text("hi")"#), "{seen}");
}

fn proposed(name: &str) -> ProposedCall {
    ProposedCall {
        call: ToolCall::new("c", name, json!({"path": "a"})),
        effect_class: EffectClass::Write,
        plugin: Some("hello".into()),
        check: Arc::new(|_| Ok(())),
    }
}

#[tokio::test]
async fn pre_tool_may_pass_change_ask_block_and_note() {
    let session = session().await;
    let (done, trace) = dispatch::<PreTool>(&session, proposed("other")).await;
    assert_eq!(
        (done.verdict, done.notes[0].text.as_str(), trace.as_str()),
        (CombinedHookVerdict::Pass, "noted", "Changed note: noted")
    );
    assert_eq!(
        session.state("every-point", "pre-tool"),
        r#"(EffectClass::Write, Some("hello"))"#
    );
    let (done, _) = dispatch::<PreTool>(&session, proposed("change")).await;
    assert_eq!(done.value.call.arguments, json!({"path": "b"}));
    let (done, _) = dispatch::<PreTool>(&session, proposed("ask")).await;
    assert!(matches!(done.verdict, CombinedHookVerdict::Ask(said) if said[0].text == "sure?"));
    let (done, _) = dispatch::<PreTool>(&session, proposed("block")).await;
    assert!(matches!(done.verdict, CombinedHookVerdict::Block(said) if said.text == "never"));
}

#[tokio::test]
async fn post_tool_may_replace_the_content_and_turn_the_error_flag() {
    let call = ToolCall::new("c", "bash", json!({}));
    let result = ToolResult {
        call_id: "c".into(),
        name: "bash".into(),
        content: "ok".into(),
        is_error: false,
    };
    let (done, trace) = dispatch::<PostTool>(
        &session().await,
        FinishedCall {
            call,
            result,
            is_refused: false,
            duration_ms: 12,
            plugin: Some("git".to_owned()),
        },
    )
    .await;
    assert_eq!(
        (
            &*done.value.result.content.text(),
            done.value.result.is_error
        ),
        ("bash of Some(\"git\") took 12 ms: ok", true)
    );
    assert_eq!(trace, "Changed inject,content,is-error");
}

#[tokio::test]
async fn steering_may_be_replaced_or_dropped() {
    let session = session().await;
    let input = |text: &str| TurnInput {
        text: text.into(),
        source: Source::Terminal,
    };
    let (done, _) = dispatch::<SteeringReceived>(&session, input("left")).await;
    assert_eq!((done.value.text.as_str(), done.inject.len()), ("LEFT", 1));
    let (done, _) = dispatch::<SteeringReceived>(&session, input("drop")).await;
    assert!(matches!(done.verdict, CombinedHookVerdict::Block(said) if said.text == "not now"));
}

#[tokio::test]
async fn reflection_may_be_given_criteria_and_turned() {
    let session = session().await;
    let reflection = Reflection {
        draft: "d".into(),
        input: "i".into(),
        tools: vec![UsedTool {
            name: "bash".into(),
            is_error: true,
        }],
        criteria: vec!["old".into()],
        verdict: VerdictChange::Keep,
    };
    let (done, _) = dispatch::<PreReflect>(&session, reflection).await;
    assert_eq!(
        (done.value.draft.as_str(), done.value.criteria),
        ("d for i", vec!["old".to_owned(), "bash true".to_owned()])
    );
    let (done, _) = dispatch::<PostReflect>(
        &session,
        ReflectVerdict {
            draft: "d".into(),
            continue_because: None,
        },
    )
    .await;
    assert_eq!(done.value.continue_because.as_deref(), Some("not d"));
    let (done, _) = dispatch::<PostReflect>(
        &session,
        ReflectVerdict {
            draft: "d".into(),
            continue_because: Some("x".into()),
        },
    )
    .await;
    assert_eq!(done.value.continue_because, None);
}

#[tokio::test]
async fn output_may_be_replaced_or_held_back_and_is_seen_without_waiting() {
    let session = session().await;
    let (done, _) = dispatch::<PreOutput>(&session, "fine").await;
    assert_eq!(done.value, "FINE");
    let (done, _) = dispatch::<PreOutput>(&session, "secret").await;
    assert!(
        matches!(done.verdict, CombinedHookVerdict::Block(said) if said.text == "it is a secret")
    );
    dispatch::<PostOutput>(&session, "shown").await;
    assert!(
        session
            .dispatcher
            .wait_for_background_hooks(std::time::Duration::from_secs(10))
            .await
            .is_empty()
    );
    assert_eq!(session.state("every-point", "post-output"), r#""shown""#);
}

#[tokio::test]
async fn turn_end_compaction_archival_subagents_and_errors_are_seen() {
    let session = session().await;
    let usage = Usage {
        output_tokens: 9,
        ..Usage::default()
    };
    let summary = TurnSummary {
        stop: StopReason::MaxSteps,
        steps: 4,
        tool_calls: 3,
        usage,
        cost_usd: 0.0,
        unpriced_tokens: 0,
        duration_ms: 1,
        output: "out".into(),
    };
    dispatch::<TurnEnd>(&session, summary).await;
    assert_eq!(
        session.state("every-point", "turn-end"),
        "TurnSummary { stop: StopReason::MaxSteps, steps: 4, tool-calls: 3, usage: Usage { input-tokens: 0, output-tokens: 9, \
         cache-read-tokens: 0, cache-write-tokens: 0, estimated: false }, cost-usd: 0.0, unpriced-tokens: 0, duration-ms: 1, \
         output: \"out\" }"
    );
    let slice = Slice {
        reason: "asked".into(),
        messages: vec![Message::text(Role::User, "hi")],
        summary: String::new(),
    };
    let (done, _) = dispatch::<BeforeCompact>(&session, slice.clone()).await;
    assert_eq!(done.value.summary, "1 messages, asked");
    let (done, _) = dispatch::<BeforeArchive>(&session, slice.clone()).await;
    assert!(matches!(done.verdict, CombinedHookVerdict::Block(said) if said.text == "asked"));
    dispatch::<AfterCompact>(
        &session,
        Slice {
            summary: "short".into(),
            ..slice.clone()
        },
    )
    .await;
    dispatch::<AfterArchive>(
        &session,
        Slice {
            summary: "shorter".into(),
            ..slice
        },
    )
    .await;
    assert_eq!(
        (
            session.state("every-point", "after-compact"),
            session.state("every-point", "after-archive")
        ),
        (r#""short""#.into(), r#""shorter""#.into())
    );
    let subagent = SubagentInfo {
        id: "a".into(),
        task: "t".into(),
        answer: "done".into(),
        is_error: false,
    };
    dispatch::<SubagentStart>(&session, subagent.clone()).await;
    dispatch::<SubagentEnd>(&session, subagent.clone()).await;
    assert_eq!(
        session.state("every-point", "subagent-end"),
        format!("{subagent:?}")
    );
    let skill = SkillInfo {
        id: "review".into(),
        trust: "user".into(),
        hash: "h".into(),
        by: "model".into(),
        allow: Some(vec!["read_file".into()]),
        deny: vec!["bash".into()],
        reason: String::new(),
    };
    dispatch::<SkillActivated>(&session, skill.clone()).await;
    dispatch::<SkillEnded>(&session, skill.clone()).await;
    assert_eq!(
        session.state("every-point", "skill-ended"),
        format!("{skill:?}")
    );
    let report = FailureReport {
        where_: "provider".into(),
        message: "down".into(),
        plugin: None,
    };
    dispatch::<Error>(&session, report.clone()).await;
    assert_eq!(session.state("every-point", "error"), format!("{report:?}"));
}
