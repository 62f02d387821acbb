//! The rules of dispatch, with hooks written in Rust: order, chain and side by side, deadlines, merge and re-check,
//! verdicts, failure policy and quarantine, traces, and that nothing triggers itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use rind::message::{Content, EffectClass, Message, Role, ToolCall};
use rind::point::caller::{Caller, MAX_PLUGIN_CALL_DEPTH, PluginCallContext};
use rind::point::catalog::{
    BeforeProviderRequest, PostOutput, PostReason, PostTool, PreOutput, PreTool, SystemPrompt,
};
use rind::point::dispatch::{CombinedHookVerdict, HookDispatchResult, HookDispatcher};
use rind::point::failure::{Failure, OnFailure};
use rind::point::outcome::{
    CallOutcome, CallVerdict, Effect, Level, LogLine, Metric, Observed, OutputOutcome,
    PromptOutcome, ReplyOutcome, ResultOutcome, WireOutcome,
};
use rind::point::payload::{
    Decision, FinishedCall, PromptContext, PromptPart, ProposedCall, Tier, WireRequest,
};
use rind::point::registry::{HookRegistry, HookSpec};
use rind::point::trace::{DispatchReportSink, TraceOutcome, TraceRecord};
use rind::point::{ExtensionPoint, Hook};
use serde_json::{Value, json};

/// A hook that is a function.
struct Native<F>(F);

impl<P: ExtensionPoint, F> Hook<P> for Native<F>
where
    F: Fn(P::Payload) -> BoxFuture<'static, Result<P::Outcome, Failure>> + Send + Sync,
{
    fn call<'a>(
        &'a self,
        _caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>> {
        (self.0)(payload.clone())
    }
}

/// Binds a function that answers at once.
fn answers<P: ExtensionPoint>(
    registry: &mut HookRegistry,
    spec: HookSpec,
    f: impl Fn(P::Payload) -> Result<P::Outcome, Failure> + Send + Sync + 'static,
) {
    registry.add::<P>(
        spec,
        Arc::new(Native(move |payload| -> BoxFuture<'static, _> {
            Box::pin(std::future::ready(f(payload)))
        })),
    );
}

/// Binds a hook that never answers.
fn hangs<P: ExtensionPoint>(registry: &mut HookRegistry, spec: HookSpec) {
    registry.add::<P>(
        spec,
        Arc::new(Native(|_| -> BoxFuture<'static, _> {
            Box::pin(std::future::pending())
        })),
    );
}

fn spec<P: ExtensionPoint>(plugin: &str, priority: u16) -> HookSpec {
    HookSpec {
        plugin: Arc::from(plugin),
        point: P::NAME.to_owned(),
        priority,
        deadline: Duration::from_millis(40),
        on_failure: P::KIND.default_failure_action(),
        is_async: false,
        may_change: true,
        may: None,
        only_tools: None,
        only_final: false,
        only_over: None,
    }
}

#[derive(Default)]
struct Recorder {
    traces: Mutex<Vec<TraceRecord>>,
    effects: Mutex<Vec<(Arc<str>, Effect)>>,
}

impl DispatchReportSink for Recorder {
    fn record_hook_trace(&self, record: TraceRecord) {
        self.traces.lock().unwrap().push(record);
    }

    fn handle_hook_effect(&self, plugin: &Arc<str>, effect: Effect) {
        self.effects.lock().unwrap().push((plugin.clone(), effect));
    }
}

impl Recorder {
    /// Drains the records: `plugin outcome changed,changed` for each.
    fn take(&self) -> Vec<String> {
        let traces = std::mem::take(&mut *self.traces.lock().unwrap());
        let line = |t: TraceRecord| {
            format!("{} {:?} {}", t.plugin, t.outcome, t.changed.join(","))
                .trim_end()
                .to_owned()
        };
        traces.into_iter().map(line).collect()
    }
}

fn dispatcher(registry: HookRegistry) -> (HookDispatcher, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    (
        HookDispatcher::new(Arc::new(registry), recorder.clone()),
        recorder,
    )
}

fn caller() -> Caller {
    Caller::new(PluginCallContext {
        session: "s".into(),
        turn: 1,
        step: 2,
        agent: "main".into(),
        ..PluginCallContext::default()
    })
}

fn call(arguments: Value) -> ProposedCall {
    let check = |value: &Value| {
        if value["path"].is_string() {
            Ok(())
        } else {
            Err("`path` is not a string".to_owned())
        }
    };
    ProposedCall {
        call: ToolCall::new("c1", "read_file", arguments),
        effect_class: EffectClass::Read,
        plugin: None,
        check: Arc::new(check),
    }
}

fn verdict(verdict: CallVerdict) -> CallOutcome {
    CallOutcome {
        verdict,
        ..CallOutcome::default()
    }
}

fn says(text: &str) -> OutputOutcome {
    OutputOutcome {
        text: Some(text.to_owned()),
        ..OutputOutcome::default()
    }
}

fn blocked<T>(done: &HookDispatchResult<T>) -> String {
    match &done.verdict {
        CombinedHookVerdict::Block(said) => format!("{}: {}", said.plugin, said.text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn hooks_run_by_priority_and_then_by_name_each_on_what_the_one_before_left() {
    let mut registry = HookRegistry::default();
    for (plugin, priority) in [("late", 200), ("b", 100), ("a", 100), ("early", 5)] {
        answers::<PreOutput>(
            &mut registry,
            spec::<PreOutput>(plugin, priority),
            move |text| Ok(says(&format!("{text} {plugin}"))),
        );
    }
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<PreOutput>(&caller(), "said".to_owned())
        .await;
    assert_eq!(done.value, "said early a b late");
    assert_eq!(
        recorder.take(),
        [
            "early Changed text",
            "a Changed text",
            "b Changed text",
            "late Changed text"
        ]
    );
}

#[tokio::test]
async fn block_beats_ask_beats_pass_whatever_the_order() {
    let orders = [
        ["ask", "block", "pass"],
        ["block", "pass", "ask"],
        ["pass", "ask", "block"],
    ];
    for order in orders {
        let mut registry = HookRegistry::default();
        for (at, what) in order.into_iter().enumerate() {
            answers::<PreTool>(&mut registry, spec::<PreTool>(what, at as u16), move |_| {
                Ok(verdict(match what {
                    "ask" => CallVerdict::Ask("is it?".to_owned()),
                    "block" => CallVerdict::Block("no".to_owned()),
                    _ => CallVerdict::Pass,
                }))
            });
        }
        let done = dispatcher(registry)
            .0
            .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
            .await;
        assert_eq!(blocked(&done), "block: no", "{order:?}");
    }
}

#[tokio::test]
async fn every_hook_that_asks_is_heard() {
    let mut registry = HookRegistry::default();
    for plugin in ["one", "two"] {
        answers::<PreTool>(&mut registry, spec::<PreTool>(plugin, 1), move |_| {
            Ok(verdict(CallVerdict::Ask(format!("{plugin} asks"))))
        });
    }
    let done = dispatcher(registry)
        .0
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    let CombinedHookVerdict::Ask(said) = done.verdict else {
        panic!("{:?}", done.verdict)
    };
    assert_eq!(
        said.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(),
        ["one asks", "two asks"]
    );
}

#[tokio::test]
async fn changed_arguments_are_checked_against_the_schema_and_a_bad_change_is_that_hooks_failure() {
    let mut registry = HookRegistry::default();
    answers::<PreTool>(
        &mut registry,
        HookSpec {
            on_failure: OnFailure::Skip,
            ..spec::<PreTool>("bad", 1)
        },
        |_| Ok(verdict(CallVerdict::Change(r#"{"path": 7}"#.to_owned()))),
    );
    answers::<PreTool>(&mut registry, spec::<PreTool>("good", 2), |call| {
        assert_eq!(
            call.call.arguments,
            json!({"path": "a"}),
            "what was refused is not seen by the next"
        );
        Ok(verdict(CallVerdict::Change(r#"{"path": "b"}"#.to_owned())))
    });
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert_eq!(done.value.call.arguments, json!({"path": "b"}));
    assert_eq!(done.verdict, CombinedHookVerdict::Pass);
    assert_eq!(
        recorder.take(),
        ["bad Failed", "good Changed arguments", "bad Failed"],
        "it is asked again, because what it judged was changed"
    );
}

#[tokio::test]
async fn a_gate_that_passed_judges_again_what_a_later_hook_changed() {
    let mut registry = HookRegistry::default();
    answers::<PreTool>(&mut registry, spec::<PreTool>("guard", 1), |call| {
        Ok(verdict(match call.call.arguments["path"].as_str() {
            Some("secret") => CallVerdict::Block("not that one".to_owned()),
            _ => CallVerdict::Pass,
        }))
    });
    answers::<PreTool>(&mut registry, spec::<PreTool>("late", 200), |_| {
        Ok(verdict(CallVerdict::Change(
            r#"{"path": "secret"}"#.to_owned(),
        )))
    });
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert_eq!(blocked(&done), "guard: not that one");
    assert_eq!(
        recorder.take(),
        ["guard Pass", "late Changed arguments", "guard Blocked"]
    );
}

#[tokio::test]
async fn two_gates_that_each_want_other_arguments_end_in_a_refusal() {
    let mut registry = HookRegistry::default();
    for plugin in ["b", "c"] {
        answers::<PreTool>(&mut registry, spec::<PreTool>(plugin, 1), move |_| {
            Ok(verdict(CallVerdict::Change(format!(
                r#"{{"path": "{plugin}"}}"#
            ))))
        });
    }
    let done = dispatcher(registry)
        .0
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert_eq!(done.value.call.arguments, json!({"path": "c"}));
    assert!(blocked(&done).starts_with("b: it wants to change"));
}

#[tokio::test]
async fn a_wire_body_may_leave_tools_out_and_bring_none() {
    let body = r#"{"model":"m","tools":[{"name":"read"},{"name":"bash"}]}"#;
    let cases = [
        (
            r#"{"model":"m","tools":[{"name":"read"}],"temperature":0}"#,
            None,
        ),
        (
            r#"{"model":"m","tools":[{"name":"web_search"}]}"#,
            Some("has a tool"),
        ),
        (
            r#"{"model":"m","mcp_servers":[]}"#,
            Some("has a key `mcp_servers`"),
        ),
        ("[]", Some("not a JSON object")),
    ];
    for (new, refusal) in cases {
        let mut registry = HookRegistry::default();
        answers::<BeforeProviderRequest>(
            &mut registry,
            spec::<BeforeProviderRequest>("wire", 1),
            move |_| {
                Ok(WireOutcome {
                    body: Some(new.to_owned()),
                    effects: Vec::new(),
                })
            },
        );
        let (dispatcher, recorder) = dispatcher(registry);
        let request = WireRequest {
            provider: "p".to_owned(),
            body: body.to_owned(),
        };
        let done = dispatcher
            .dispatch::<BeforeProviderRequest>(&caller(), request)
            .await;
        let reason = recorder.traces.lock().unwrap()[0].reason.clone();
        match refusal {
            None => assert_eq!((done.value.body.as_str(), reason), (new, None)),
            Some(text) => {
                assert_eq!(done.value.body, body);
                assert!(reason.clone().unwrap().contains(text), "{reason:?}");
            }
        }
    }
}

#[tokio::test]
async fn hooks_are_called_only_about_the_tools_results_and_answers_of_their_conditions() {
    let mut registry = HookRegistry::default();
    let only = |tool: &str| Some(vec![tool.to_owned()]);
    let gate = HookSpec {
        only_tools: only("write_file"),
        ..spec::<PreTool>("gate", 1)
    };
    hangs::<PreTool>(&mut registry, gate);
    let review = HookSpec {
        only_tools: only("write_file"),
        ..spec::<PostTool>("review", 1)
    };
    answers::<PostTool>(&mut registry, review, |_| Ok(ResultOutcome::default()));
    let keep = HookSpec {
        only_over: Some(7),
        ..spec::<PostTool>("keep", 2)
    };
    answers::<PostTool>(&mut registry, keep, |_| Ok(ResultOutcome::default()));
    let judge = HookSpec {
        only_final: true,
        ..spec::<PostReason>("judge", 1)
    };
    answers::<PostReason>(&mut registry, judge, |_| Ok(ReplyOutcome::default()));
    let (dispatcher, recorder) = dispatcher(registry);
    // The failed gate is not called again in this turn, and refuses only the tools that it matches.
    for (tool, is_refused) in [
        ("read_file", false),
        ("write_file", true),
        ("read_file", false),
        ("write_file", true),
    ] {
        let mut call = call(json!({"path": "a"}));
        call.call.name = tool.to_owned();
        let done = dispatcher
            .dispatch::<PreTool>(&caller(), call.clone())
            .await;
        assert_eq!(
            matches!(done.verdict, CombinedHookVerdict::Block(_)),
            is_refused
        );
        let n_traces = recorder.take().len();
        assert_eq!(n_traces == 1, is_refused, "{tool}");
        for (result, is_long) in [("7 bytes", false), ("8 bytes.", true)] {
            let finished = FinishedCall {
                result: call.call.create_result(result, false),
                call: call.call.clone(),
                is_refused: false,
                duration_ms: 1,
                plugin: None,
            };
            dispatcher.dispatch::<PostTool>(&caller(), finished).await;
            let called = [(is_refused, "review Pass"), (is_long, "keep Pass")];
            let called = called.into_iter().filter(|(is_called, _)| *is_called);
            let called: Vec<&str> = called.map(|(_, hook)| hook).collect();
            assert_eq!(recorder.take(), called, "{tool} {result}");
        }
    }
    let mut answer = Message::text(Role::Assistant, "I write.");
    dispatcher
        .dispatch::<PostReason>(&caller(), answer.clone())
        .await;
    assert_eq!(recorder.take(), ["judge Pass"]);
    let asked = call(json!({"path": "a"})).call;
    answer.content.push(Content::ToolCall(asked));
    dispatcher.dispatch::<PostReason>(&caller(), answer).await;
    assert_eq!(recorder.take(), [""; 0]);
}

#[tokio::test]
async fn a_gate_without_the_session_side_effect_may_refuse_but_not_change() {
    let mut registry = HookRegistry::default();
    let spec = HookSpec {
        may_change: false,
        may: None,
        ..spec::<PreTool>("gate", 1)
    };
    answers::<PreTool>(&mut registry, spec, |_| {
        Ok(verdict(CallVerdict::Change(r#"{"path": "b"}"#.to_owned())))
    });
    let done = dispatcher(registry)
        .0
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert!(
        blocked(&done).contains("needs the side effect `session`"),
        "{}",
        blocked(&done)
    );
    assert_eq!(done.value.call.arguments, json!({"path": "a"}));
}

#[tokio::test]
async fn a_guard_that_hangs_is_stopped_and_goes_on_refusing_until_the_turn_ends() {
    let mut registry = HookRegistry::default();
    hangs::<PreTool>(&mut registry, spec::<PreTool>("guard", 1));
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert!(
        blocked(&done).starts_with("guard: ") && blocked(&done).contains("deadline of 40 ms"),
        "{}",
        blocked(&done)
    );
    let again = dispatcher
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert!(
        blocked(&again).contains("disabled for the rest of this turn"),
        "{}",
        blocked(&again)
    );
    assert_eq!(
        recorder.take(),
        ["guard FailedBlocking", "guard DroppedBlocking"]
    );
    dispatcher.reset_quarantine_at_turn_start();
    dispatcher
        .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
        .await;
    assert_eq!(
        recorder.take(),
        ["guard FailedBlocking"],
        "a new turn is a new chance"
    );
}

#[tokio::test]
async fn a_failing_mutate_hook_is_skipped_a_trap_drops_it_and_an_error_does_not() {
    let calls = Arc::new(AtomicU32::new(0));
    for (failure, expected_calls) in [
        (Failure::Trap("unreachable".to_owned()), 1),
        (Failure::Error("not now".to_owned()), 2),
    ] {
        calls.store(0, Ordering::SeqCst);
        let mut registry = HookRegistry::default();
        let (seen, failure) = (calls.clone(), failure.clone());
        answers::<PreOutput>(&mut registry, spec::<PreOutput>("broken", 1), move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            Err(failure.clone())
        });
        answers::<PreOutput>(&mut registry, spec::<PreOutput>("fine", 2), |text| {
            Ok(says(&(text + "!")))
        });
        let (dispatcher, _) = dispatcher(registry);
        for _ in 0..2 {
            let done = dispatcher
                .dispatch::<PreOutput>(&caller(), "said".to_owned())
                .await;
            assert_eq!(
                (done.value.as_str(), done.verdict),
                ("said!", CombinedHookVerdict::Pass)
            );
        }
        assert_eq!(calls.load(Ordering::SeqCst), expected_calls);
    }
}

#[tokio::test]
async fn a_mutate_hook_that_is_set_to_block_refuses_when_it_fails() {
    let mut registry = HookRegistry::default();
    let spec = HookSpec {
        on_failure: OnFailure::Block,
        ..spec::<PreOutput>("safety", 1)
    };
    answers::<PreOutput>(&mut registry, spec, |_| {
        Err(Failure::Error("no list".to_owned()))
    });
    let done = dispatcher(registry)
        .0
        .dispatch::<PreOutput>(&caller(), "said".to_owned())
        .await;
    assert!(
        blocked(&done).starts_with("safety: ") && blocked(&done).contains("no list"),
        "{}",
        blocked(&done)
    );
}

fn prompt() -> PromptContext {
    let host = PromptPart {
        tier: Tier::Stable,
        key: "identity".to_owned(),
        source: "host".to_owned(),
        text: "You.".to_owned(),
    };
    PromptContext {
        model: "m".to_owned(),
        tools: Vec::new(),
        decision: Decision::Direct,
        parts: vec![host],
    }
}

fn part(key: &str) -> PromptOutcome {
    let part = PromptPart {
        tier: Tier::Context,
        key: key.to_owned(),
        source: "host".to_owned(),
        text: key.to_owned(),
    };
    PromptOutcome {
        parts: vec![part],
        ..PromptOutcome::default()
    }
}

#[tokio::test]
async fn collect_hooks_run_side_by_side_and_are_taken_in_order() {
    let mut registry = HookRegistry::default();
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    for (plugin, priority) in [("second", 2), ("first", 1)] {
        let barrier = barrier.clone();
        registry.add::<SystemPrompt>(
            spec::<SystemPrompt>(plugin, priority),
            Arc::new(Native(move |_| -> BoxFuture<'static, _> {
                let barrier = barrier.clone();
                // Each hook waits for the other one, so run in sequence they would hang.
                Box::pin(async move {
                    barrier.wait().await;
                    Ok(part(plugin))
                })
            })),
        );
    }
    let done = dispatcher(registry)
        .0
        .dispatch::<SystemPrompt>(&caller(), prompt())
        .await;
    let parts: Vec<_> = done
        .value
        .parts
        .iter()
        .map(|part| format!("{} from {}", part.key, part.source))
        .collect();
    assert_eq!(
        parts,
        [
            "identity from host",
            "first:first from first",
            "second:second from second"
        ],
        "the source is the plugin, whatever it wrote"
    );
}

#[tokio::test]
async fn a_plugin_that_comes_first_cannot_keep_the_part_of_another_out() {
    let mut registry = HookRegistry::default();
    for (plugin, priority) in [("thief", 1), ("guide", 2)] {
        let spec = spec::<SystemPrompt>(plugin, priority);
        answers::<SystemPrompt>(&mut registry, spec, |_| Ok(part("identity")));
    }
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<SystemPrompt>(&caller(), prompt())
        .await;
    let keys: Vec<&str> = done
        .value
        .parts
        .iter()
        .map(|part| part.key.as_str())
        .collect();
    assert_eq!(keys, ["identity", "thief:identity", "guide:identity"]);
    assert_eq!(done.value.parts[0].text, "You.");
    let traces = recorder.traces.lock().unwrap();
    assert!(
        traces.iter().all(|trace| trace.reason.is_none()),
        "{traces:?}"
    );
}

#[tokio::test]
async fn an_async_hook_does_not_hold_the_turn_up_and_is_waited_for_at_the_end() {
    let mut registry = HookRegistry::default();
    let spec = HookSpec {
        is_async: true,
        deadline: Duration::from_secs(5),
        ..spec::<PostOutput>("slow", 1)
    };
    let (open, gate) = tokio::sync::oneshot::channel::<()>();
    let gate = Arc::new(Mutex::new(Some(gate)));
    registry.add::<PostOutput>(
        spec,
        Arc::new(Native(move |_| -> BoxFuture<'static, _> {
            let gate = gate.lock().unwrap().take().unwrap();
            Box::pin(async move {
                gate.await.unwrap();
                Ok(Observed {
                    effects: vec![Effect::Notify(LogLine {
                        level: Level::Info,
                        text: "late".to_owned(),
                    })],
                })
            })
        })),
    );
    let (dispatcher, recorder) = dispatcher(registry);
    dispatcher
        .dispatch::<PostOutput>(&caller(), "said".to_owned())
        .await;
    assert_eq!(recorder.take(), [""; 0], "it has not ended yet");
    assert_eq!(
        dispatcher.longest_background_deadline(),
        Some(Duration::from_secs(5))
    );
    let short = Duration::from_millis(10);
    assert_eq!(
        dispatcher.wait_for_background_hooks(short).await,
        ["slow (post-output)"]
    );
    open.send(()).unwrap();
    assert_eq!(
        dispatcher
            .wait_for_background_hooks(Duration::from_secs(5))
            .await,
        [""; 0]
    );
    assert_eq!(dispatcher.longest_background_deadline(), None);
    assert_eq!(recorder.take(), ["slow Pass"]);
    assert_eq!(recorder.effects.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn hooks_of_a_plugin_do_not_fire_on_what_it_causes_and_nesting_is_capped() {
    let mut registry = HookRegistry::default();
    for plugin in ["a", "b"] {
        answers::<PreTool>(&mut registry, spec::<PreTool>(plugin, 1), |_| {
            Ok(CallOutcome::default())
        });
    }
    let (dispatcher, recorder) = dispatcher(registry);
    let caused = caller().with_calling_plugin(&Arc::from("a"));
    dispatcher
        .dispatch::<PreTool>(&caused, call(json!({"path": "a"})))
        .await;
    assert_eq!(recorder.take(), ["b Pass"]);
    // A call that `b` causes while it judges one of `a` skips only `b`'s hook, not that of `a`.
    let within = caused.with_calling_plugin(&Arc::from("b"));
    dispatcher
        .dispatch::<PreTool>(&within, call(json!({"path": "a"})))
        .await;
    assert_eq!(recorder.take(), ["a Pass"]);
    let deep = (0..=MAX_PLUGIN_CALL_DEPTH).fold(caller(), |caller, n| {
        caller.with_calling_plugin(&Arc::from(format!("p{n}")))
    });
    let done = dispatcher
        .dispatch::<PreTool>(&deep, call(json!({"path": "a"})))
        .await;
    assert!(
        blocked(&done).contains("nested deeper than"),
        "{}",
        blocked(&done)
    );
}

#[tokio::test]
async fn a_refused_outcome_has_no_effects() {
    let mut registry = HookRegistry::default();
    answers::<PreOutput>(&mut registry, spec::<PreOutput>("wordy", 1), |_| {
        let effects = vec![Effect::Metric(Metric {
            name: "n".to_owned(),
            value: 1.0,
        })];
        Ok(OutputOutcome {
            text: Some("x".repeat((8 << 20) + 1)),
            effects,
            ..OutputOutcome::default()
        })
    });
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<PreOutput>(&caller(), "said".to_owned())
        .await;
    assert_eq!(done.value, "said");
    assert!(recorder.effects.lock().unwrap().is_empty());
    assert_eq!(
        recorder.traces.lock().unwrap()[0].outcome,
        TraceOutcome::Failed
    );
}

proptest! {
    /// Any combination of hooks: one block blocks the call, and otherwise one ask asks.
    #[test]
    fn the_verdict_is_the_strongest_that_any_hook_gave(answers_given in proptest::collection::vec(0u8..4, 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut registry = HookRegistry::default();
        for (at, answer) in answers_given.iter().copied().enumerate() {
            answers::<PreTool>(&mut registry, spec::<PreTool>(&format!("p{at}"), at as u16), move |_| match answer {
                0 => Ok(verdict(CallVerdict::Pass)),
                1 => Ok(verdict(CallVerdict::Ask("ask".to_owned()))),
                2 => Ok(verdict(CallVerdict::Block("block".to_owned()))),
                _ => Err(Failure::Error("broken".to_owned())),
            });
        }
        let done = runtime.block_on(async { dispatcher(registry).0.dispatch::<PreTool>(&caller(), call(json!({"path": "a"}))).await });
        let strongest = match done.verdict {
            CombinedHookVerdict::Pass => 0,
            CombinedHookVerdict::Ask(said) => {
                prop_assert_eq!(said.len(), answers_given.iter().filter(|a| **a == 1).count());
                1
            }
            CombinedHookVerdict::Block(_) => 2,
        };
        // A gate that fails counts as a block.
        let expected = answers_given.iter().map(|a| (*a).min(2)).max().unwrap_or(0);
        prop_assert_eq!(strongest, expected);
    }
}

#[tokio::test]
async fn a_panic_of_the_host_is_the_failure_of_the_hook_that_was_called() {
    let mut registry = HookRegistry::default();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let passed_over = HookSpec {
        on_failure: OnFailure::Skip,
        ..spec::<PreTool>("at-once", 1)
    };
    registry.add::<PreTool>(
        passed_over,
        Arc::new(Native(|_| panic!("while the call is made"))),
    );
    registry.add::<PreTool>(
        spec::<PreTool>("later", 2),
        Arc::new(Native(|_| -> BoxFuture<'static, _> {
            Box::pin(async {
                tokio::task::yield_now().await;
                panic!("while it is waited for")
            })
        })),
    );
    answers::<PreTool>(&mut registry, spec::<PreTool>("calm", 3), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(CallOutcome::default())
    });
    let (dispatcher, recorder) = dispatcher(registry);
    for _ in 0..2 {
        let done = dispatcher
            .dispatch::<PreTool>(&caller(), call(json!({"path": "a"})))
            .await;
        let CombinedHookVerdict::Block(said) = done.verdict else {
            panic!("{:?}", done.verdict)
        };
        assert_eq!(&*said.plugin, "later");
        assert!(
            said.text.contains(
                "an internal error of the host occurred during the call: while it is waited for"
            ),
            "{}",
            said.text
        );
    }
    assert_eq!(
        asked.load(Ordering::SeqCst),
        0,
        "nobody works on what is refused"
    );
    assert_eq!(
        recorder.take(),
        [
            "at-once Failed",
            "later FailedBlocking",
            "at-once Dropped",
            "later DroppedBlocking",
        ]
    );
}

/// A point whose merge panics.
struct Brittle;

impl ExtensionPoint for Brittle {
    const NAME: &'static str = "brittle";
    const KIND: rind::point::dispatch::ExtensionPointKind =
        rind::point::dispatch::ExtensionPointKind::Mutate;
    type Payload = String;
    type Outcome = ();

    fn merge_outcome(
        _: &mut String,
        (): (),
        _: &mut rind::point::merge::MergedOutcome,
        _: &rind::point::merge::MergeEnv<'_>,
    ) -> Result<(), String> {
        panic!("while it is merged")
    }
}

#[tokio::test]
async fn a_panic_while_an_outcome_is_merged_is_that_hooks_failure() {
    let mut registry = HookRegistry::default();
    answers::<Brittle>(&mut registry, spec::<Brittle>("odd", 1), |_| Ok(()));
    let (dispatcher, recorder) = dispatcher(registry);
    let done = dispatcher
        .dispatch::<Brittle>(&caller(), "as it was".to_owned())
        .await;
    assert_eq!(
        (done.value.as_str(), done.verdict),
        ("as it was", CombinedHookVerdict::Pass)
    );
    assert_eq!(recorder.take(), ["odd Failed"]);
}
