//! Tests of turns: the order of events, the requests to the model, and the entries in the session
//! after any end.

mod calls;
mod files;
mod flow;
mod guard;
mod interrupt;
mod reflect;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rind::event::Event;
use rind::point::catalog as at;
use rind::point::failure::Failure;
use rind::point::outcome as o;
use rind::point::payload::{Decision, StopReason};
use rind::provider::scripted::{Reply, ReplyError};
use serde_json::json;

use crate::harness::{Setup, check_turn};

/// Events of a turn with only an answer.
const PLAIN: &[&str] = &[
    "session-opened",
    "turn-start",
    "assessed",
    "message-end",
    "step-start",
    "text-delta",
    "message-end",
    "turn-end",
];

/// Returns the events of such a turn if a hook judges complete answers.
fn held() -> Vec<&'static str> {
    let shown = |name: &&'static str| match *name {
        "text-delta" => "text-held",
        name => name,
    };
    PLAIN.iter().map(shown).collect()
}

/// Returns the events of a turn with a step of calls and an answer. `middle` has the events of the
/// calls.
fn with_calls(middle: &[&'static str]) -> Vec<&'static str> {
    let start = ["session-opened", "turn-start", "assessed", "message-end"];
    let end = ["step-start", "text-delta", "message-end", "turn-end"];
    let calls = ["step-start", "message-end"];
    [&start[..], &calls, middle, &end].concat()
}

fn read(path: &str) -> Reply {
    Reply::call("read_file", json!({"path": path}))
}

fn write(path: &str) -> Reply {
    Reply::call("write_file", json!({"path": path, "content": "new"}))
}

fn done() -> Reply {
    Reply::text("done")
}

fn block(reason: &str) -> o::CallOutcome {
    o::CallOutcome {
        verdict: o::CallVerdict::Block(reason.into()),
        ..Default::default()
    }
}

fn ask(reason: &str) -> o::CallOutcome {
    o::CallOutcome {
        verdict: o::CallVerdict::Ask(reason.into()),
        ..Default::default()
    }
}

fn change(arguments: serde_json::Value) -> o::CallOutcome {
    o::CallOutcome {
        verdict: o::CallVerdict::Change(arguments.to_string()),
        ..Default::default()
    }
}

fn inject(text: &str, keep: bool) -> Vec<o::Injection> {
    vec![o::Injection {
        text: text.into(),
        keep,
    }]
}

#[tokio::test]
async fn a_plain_answer() {
    let (running, outcome) = check_turn(Setup::new(vec![done()]), "hello there", PLAIN).await;
    assert_eq!(outcome.output, "done");
    assert_eq!(outcome.turn, 1);
    assert_eq!(outcome.summary.stop, StopReason::Done);
    assert_eq!((outcome.summary.steps, outcome.summary.tool_calls), (1, 0));
    assert!(outcome.summary.usage.total() > 0);
    assert_eq!(running.request(0), ["user: hello there"]);
    assert_eq!(running.lines(), ["user: hello there", "assistant: done"]);
    let body = &running.provider.recorded_request_bodies()[0];
    assert_eq!(body["model"], "test-model");
    assert_eq!(body["tools"].as_array().unwrap().len(), 7);
    assert!(
        body["system"][0]
            .as_str()
            .unwrap()
            .starts_with("You are an agent")
    );
}

#[tokio::test]
async fn a_tool_call_and_its_result() {
    let expected = with_calls(&["tool-start", "tool-end", "message-end"]);
    let (running, outcome) = check_turn(
        Setup::new(vec![write("c.txt"), done()]),
        "go on with the work",
        &expected,
    )
    .await;
    assert_eq!((outcome.summary.steps, outcome.summary.tool_calls), (2, 1));
    let written = std::fs::read_to_string(running.folder.path().join("w/c.txt")).unwrap();
    assert_eq!(written, "new");
    let request = running.request(1);
    assert_eq!(
        request[..2],
        ["user: go on with the work", "assistant:  +write_file"]
    );
    assert!(request[2].starts_with("tool: "), "{request:?}");
}

#[tokio::test]
async fn a_failing_mutate_hook_is_skipped_and_the_error_point_hears_of_it() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = heard.clone();
    let setup = Setup::new(vec![done()])
        .hook::<at::PreOutput>("broken", |_, _| Err(Failure::Error("out of ideas".into())))
        .hook::<at::PreOutput>("shout", |_, text| {
            Ok(o::OutputOutcome {
                text: Some(text.to_uppercase()),
                ..Default::default()
            })
        })
        .hook::<at::Error>("listener", move |_, report| {
            hears.lock().unwrap().push(report.clone());
            Ok(o::Observed::default())
        });
    let (running, outcome) = check_turn(setup, "hello there", &held()).await;
    assert_eq!(outcome.output, "DONE");
    assert_eq!(
        running.traces(),
        [
            "pre-output broken failed",
            "pre-output shout changed",
            "error listener pass"
        ]
    );
    let heard = heard.lock().unwrap();
    assert_eq!(heard[0].plugin.as_deref(), Some("broken"));
    assert_eq!(heard[0].where_, "pre-output");
}

#[tokio::test]
async fn a_kept_injection_stays_and_a_passing_one_is_for_the_next_request_only() {
    let script = vec![read("a.txt"), done()];
    let setup = Setup::new(script).hook::<at::PreAssess>("memo", |_, _| {
        let mut all = inject("remember the tests", true);
        all.extend(inject("it is raining", false));
        Ok(o::InputOutcome {
            inject: all,
            ..Default::default()
        })
    });
    let mut running = setup.build();
    running.turn("go on with the work").await;
    assert_eq!(
        running.request(0),
        [
            "user: go on with the work",
            "user: [plugin memo] remember the tests",
            "user: [plugin memo] it is raining"
        ]
    );
    assert_eq!(running.request(1).len(), 4);
    assert_eq!(
        running.request(1)[1],
        "user: [plugin memo] remember the tests"
    );
    assert_eq!(running.lines()[1], "user: [plugin memo] remember the tests");
    assert!(!running.lines().iter().any(|line| line.contains("raining")));
    assert_eq!(
        running
            .names()
            .iter()
            .filter(|name| **name == "injected")
            .count(),
        2
    );
}

#[tokio::test]
async fn the_wire_body_that_a_hook_wrote_is_sent() {
    let setup =
        Setup::new(vec![done()]).hook::<at::BeforeProviderRequest>("rewriter", |_, wire| {
            let mut body: serde_json::Value = serde_json::from_str(&wire.body).unwrap();
            body["messages"][0]["text"] = json!("something else");
            Ok(o::WireOutcome {
                body: Some(body.to_string()),
                ..Default::default()
            })
        });
    let (running, _) = check_turn(setup, "hello there", PLAIN).await;
    assert_eq!(running.request(0), ["user: something else"]);
    assert_eq!(running.lines()[0], "user: hello there");
}

#[tokio::test]
async fn pre_reason_changes_the_request_and_leaves_tools_out() {
    let setup =
        Setup::new(vec![write("c.txt"), done()]).hook::<at::PreReason>("picker", |_, request| {
            assert!(request.tools.contains(&"write_file".to_owned()));
            Ok(o::RequestOutcome {
                model: Some("small".into()),
                temperature: o::FloatChange::Set(0.25),
                max_tokens: o::CountChange::Set(99),
                tools: o::NamesChange::Set(vec!["read_file".into()]),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    running.turn("hello there").await;
    let body = &running.provider.recorded_request_bodies()[0];
    assert_eq!(body["model"], "small");
    assert_eq!(body["temperature"], 0.25);
    assert_eq!(body["max_tokens"], 99);
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    // The host refuses a call of a tool that the hook removed from the request.
    assert_eq!(running.results()[0].2.as_deref(), Some("host"));
}

#[tokio::test]
async fn a_failing_provider_ends_the_turn_and_keeps_everything() {
    let failure = Reply {
        error: Some(ReplyError {
            status: 529,
            message: "overloaded".into(),
        }),
        ..Default::default()
    };
    let mut running = Setup::new(vec![read("a.txt"), failure, done()]).build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.summary.stop, StopReason::Failed);
    assert!(
        outcome.output.starts_with("[the model gave no answer: "),
        "{}",
        outcome.output
    );
    assert!(running.names().contains(&"error"));
    assert_eq!(running.lines().len(), 3);
    let outcome = running.turn("try again").await;
    assert_eq!((outcome.turn, outcome.output.as_str()), (2, "done"));
}

#[tokio::test]
async fn effects_go_to_events_and_to_the_store() {
    let setup = Setup::new(vec![done()]).hook::<at::PostOutput>("meter", |_, _| {
        Ok(o::Observed {
            effects: vec![
                o::Effect::Metric(o::Metric {
                    name: "outputs".into(),
                    value: 1.0,
                }),
                o::Effect::Notify(o::LogLine {
                    level: o::Level::Info,
                    text: "counted".into(),
                }),
                o::Effect::Store(o::Stored {
                    key: "n".into(),
                    value: "1".into(),
                }),
                o::Effect::Log(o::LogLine {
                    level: o::Level::Debug,
                    text: "quiet".into(),
                }),
            ],
        })
    });
    let mut running = setup.build();
    running.turn("hello there").await;
    assert_eq!(*running.stored.lock().unwrap(), ["meter/n=1"]);
    let metric = Event::Metric {
        plugin: "meter".into(),
        name: "outputs".into(),
        value: 1.0,
    };
    assert!(running.events.contains(&metric));
    assert!(running.names().contains(&"notice"));
}

#[tokio::test]
async fn the_assessment_of_a_hook_reaches_the_prompt() {
    let setup = Setup::new(vec![done()]).hook::<at::PostAssess>("worrier", |_, assessment| {
        assert_eq!(assessment.decision, Decision::Direct);
        let mut new = assessment.clone();
        new.confidence = 0.1;
        Ok(o::AssessmentOutcome {
            assessment: Some(new),
            ..Default::default()
        })
    });
    let (running, _) = check_turn(setup, "hello there", PLAIN).await;
    let system = running.provider.recorded_request_bodies()[0]["system"].to_string();
    assert!(system.contains("ask the user"), "{system}");
}

#[tokio::test]
async fn stable_prompt_parts_are_frozen_and_the_rest_may_change() {
    let turn = Arc::new(AtomicUsize::new(0));
    let part = |tier, text: String| rind::point::payload::PromptPart {
        tier,
        key: format!("{tier:?}"),
        source: String::new(),
        text,
    };
    let setup =
        Setup::new(vec![done(), done()]).hook::<at::SystemPrompt>("persona", move |_, _| {
            let n = turn.fetch_add(1, Ordering::SeqCst);
            use rind::point::payload::Tier;
            let parts = vec![
                part(Tier::Stable, format!("stable {n}")),
                part(Tier::Volatile, format!("volatile {n}")),
            ];
            Ok(o::PromptOutcome {
                parts,
                ..Default::default()
            })
        });
    let mut running = setup.build();
    running.turn("hello there").await;
    running.turn("hello again").await;
    let bodies = running.provider.recorded_request_bodies();
    assert_eq!(bodies[0]["system"][0], bodies[1]["system"][0]);
    assert!(
        bodies[1]["system"][0]
            .as_str()
            .unwrap()
            .contains("stable 0")
    );
    assert!(bodies[1]["system"].to_string().contains("volatile 1"));
}
