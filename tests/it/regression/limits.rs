//! Tests of deadlines, cancellation and limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rind::agent::AgentSteeringHandle;
use rind::event::Event;
use rind::grant::Trust;
use rind::message::{EffectClass, Message, Role, ToolCall, ToolResult};
use rind::point::catalog as at;
use rind::point::dispatch::CombinedHookVerdict;
use rind::point::outcome as o;
use rind::point::payload::{FinishedCall, Source, StopReason};
use rind::provider::scripted::Reply;
use rind::tool::ToolOutput;
use rind::tool::builtin;
use rind::tool::workspace::Workspace;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{NativeTool, Running, Setup, check_pairs};
use crate::provider::server::{Reply as Wire, Server};
use crate::provider::{provider, quick};

mod answers;
mod tools;

#[tokio::test]
async fn nobody_works_on_what_is_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let look = || Reply::call("read_file", json!({"path": "a.txt"}));
    let script = vec![look(), look(), look(), Reply::text("done")];
    let mut setup = Setup::new(script);
    let long = "a line of text\n".repeat(2_000);
    std::fs::write(setup.workspace().join("a.txt"), long).unwrap();
    setup.config.compact.threshold_tokens = Some(8_000);
    setup.config.compact.max_summary_tokens = 200;
    setup.config.compact.keep_last_messages = 1;
    setup.config.compact.keep_tokens = 1;
    setup = setup.hook::<at::BeforeCompact>("a-guard", |_, _| {
        Ok(o::SliceOutcome {
            verdict: o::SliceVerdict::Cancel("not now".to_owned()),
            ..Default::default()
        })
    });
    for plugin in ["b", "c", "d"] {
        let asked = asked.clone();
        setup = setup.hook::<at::BeforeCompact>(plugin, move |_, _| {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(o::SliceOutcome {
                verdict: o::SliceVerdict::Summary("a summary that was paid for".to_owned()),
                ..Default::default()
            })
        });
    }
    let mut running = setup.build();
    running.turn("read on").await;
    let refused = running.events.iter().filter(|event| {
        matches!(event, Event::CompactEnd { refused: Some(why), .. } if why.contains("a-guard"))
    });
    assert!(refused.count() > 0, "{:?}", running.names());
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_gate_that_spoke_before_a_change_is_not_asked_about_what_another_gate_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (first, last) = (asked.clone(), asked.clone());
    let call = Reply::call("read_file", json!({"path": "a.txt"}));
    let setup = Setup::new(vec![call, Reply::text("done")])
        .hook::<at::PreTool>("a", move |_, _| {
            first.fetch_add(1, Ordering::Relaxed);
            Ok(o::CallOutcome::default())
        })
        .hook::<at::PreTool>("b", |_, _| {
            Ok(o::CallOutcome {
                verdict: o::CallVerdict::Change(json!({"path": "b.txt"}).to_string()),
                ..Default::default()
            })
        })
        .hook::<at::PreTool>("c", |_, _| {
            Ok(o::CallOutcome {
                verdict: o::CallVerdict::Block("no".to_owned()),
                ..Default::default()
            })
        })
        .hook::<at::PreTool>("d", move |_, _| {
            last.fetch_add(10, Ordering::Relaxed);
            Ok(o::CallOutcome::default())
        });
    let mut running = setup.build();
    running.turn("go on").await;
    let results = running.results();
    assert_eq!(results[0].2.as_deref(), Some("plugin c"));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Opens a session with a plugin whose hook takes half a second and has a deadline of three.
async fn napping() -> Session {
    let mut host = Host::default();
    host.plugin(Trust::Managed, "hostile", |manifest| {
        manifest.replace("300ms", "3s")
    });
    host.set("hostile", "how", "nap");
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Session::open(&plugins)
}

fn finished() -> FinishedCall {
    FinishedCall {
        call: ToolCall::new("c", "look", json!({})),
        result: ToolResult {
            call_id: "c".to_owned(),
            name: "look".to_owned(),
            content: "as it was".into(),
            is_error: false,
        },
        is_refused: false,
        duration_ms: 1,
        plugin: None,
    }
}

#[tokio::test]
async fn a_hook_that_waits_for_a_busy_instance_keeps_its_whole_deadline() {
    let session = napping().await;
    // The one instance runs the calls one after the other, which takes longer than one deadline.
    let calls = (0..8).map(|_| {
        session
            .dispatcher
            .dispatch::<at::PostTool>(&session.caller, finished())
    });
    for done in futures_util::future::join_all(calls).await {
        assert_eq!(done.verdict, CombinedHookVerdict::Pass);
        assert_eq!(done.value.result.content, "behaved");
    }
}

#[tokio::test]
async fn who_calls_a_busy_plugin_again_and_again_does_not_come_before_those_who_wait() {
    let session = napping().await;
    let order = Mutex::new(Vec::new());
    let twice = async |name| {
        for _ in 0..2 {
            let call = session
                .dispatcher
                .dispatch::<at::PostTool>(&session.caller, finished());
            assert_eq!(call.await.value.result.content, "behaved");
            order.lock().unwrap().push(name);
        }
    };
    tokio::join!(twice("a"), twice("b"), twice("c"));
    assert_eq!(*order.lock().unwrap(), ["a", "b", "c", "a", "b", "c"]);
}

#[tokio::test]
async fn who_gives_up_waiting_for_a_busy_plugin_holds_nobody_up() {
    let session = napping().await;
    let call = || {
        session
            .dispatcher
            .dispatch::<at::PostTool>(&session.caller, finished())
    };
    let given_up = tokio::time::timeout(Duration::from_millis(50), call());
    let (first, given_up, last) = tokio::join!(call(), given_up, call());
    assert!(given_up.is_err());
    for done in [first, last] {
        assert_eq!(done.value.result.content, "behaved");
    }
}

#[tokio::test]
async fn a_text_that_is_taken_back_while_hooks_look_at_it_takes_no_other_with_it() {
    let handle: Arc<OnceLock<AgentSteeringHandle>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (way, looks) = (handle.clone(), seen.clone());
    let setup = Setup::new(vec![Reply::text("done"), Reply::text("again")])
        .hook::<at::SteeringReceived>("watcher", move |_, input| {
            looks.lock().unwrap().push(input.text.clone());
            if input.text == "first thought" {
                let steering = way.get().unwrap();
                assert_eq!(steering.take_queued_texts().len(), 1);
                steering.steer("second thought", Source::Terminal);
            }
            Ok(o::SteeringOutcome::default())
        });
    let mut running = setup.build();
    let steering = running.agent.steering();
    steering.steer("first thought", Source::Terminal);
    handle.set(steering.clone()).unwrap();
    running.turn("go on").await;
    assert_eq!(*seen.lock().unwrap(), ["first thought", "second thought"]);
    assert_eq!(
        running.lines(),
        ["user: go on", "user: second thought", "assistant: done"]
    );
    assert!(!steering.has_steering());
}
