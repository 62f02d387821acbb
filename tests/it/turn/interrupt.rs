//! Tests that all points fire in order, and that a turn leaves a valid session wherever it is
//! interrupted.

use rind::event::Event;
use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::{Source, StopReason};
use rind::provider::scripted::Reply;
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{done, inject, read, write};
use crate::harness::{NativeTool, Setup, check_pairs, session_spec};

#[tokio::test]
async fn the_order_of_the_points_is_that_of_the_design() {
    let setup = everywhere(Setup::new(vec![read("a.txt"), done()]));
    let mut running = setup.build();
    running.turn("go on with the work").await;
    running.agent.close().await.unwrap();
    while let Ok(stamped) = running.receiver.try_recv() {
        running.events.push(stamped.event);
    }
    let points: Vec<String> = running
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Hook { record } => Some(record.point.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        points,
        [
            "session-start",
            "turn-start",
            "pre-assess",
            "post-assess",
            "message-end",
            "system-prompt",
            "before-system-prompt",
            "after-system-prompt",
            "context",
            "pre-reason",
            "before-provider-request",
            "after-provider-response",
            "post-reason",
            "message-end",
            "pre-tool",
            "post-tool",
            "message-end",
            "context",
            "pre-reason",
            "before-provider-request",
            "after-provider-response",
            "post-reason",
            "message-end",
            "pre-reflect",
            "post-reflect",
            "pre-output",
            "post-output",
            "turn-end",
            "session-end",
        ]
    );
}

/// Adds a hook that does nothing at every point of a turn.
fn everywhere(setup: Setup) -> Setup {
    macro_rules! bind {
        ($setup:expr, $($point:ident)*) => {
            $setup$(.hook::<at::$point>("idle", |_, _| Ok(Default::default())))*
        };
    }
    bind!(setup, SessionStart SessionEnd TurnStart PreAssess PostAssess SystemPrompt BeforeSystemPrompt
        AfterSystemPrompt Context PreReason BeforeProviderRequest AfterProviderResponse PostReason MessageEnd PreTool
        PostTool SteeringReceived PreReflect PostReflect PreOutput PostOutput TurnEnd Error)
}

/// Returns the setup of a turn with all kinds of events: text, concurrent reads, a question about a
/// call, a refusal, steering and a follow-up.
fn eventful() -> Setup {
    let first = Reply {
        text: Some("I will look at both files first".into()),
        ..read("a.txt")
            .with_tool_call("read_file", json!({"path": "b.txt"}))
            .with_tool_call("fly", json!({}))
    };
    let script = vec![
        first,
        write("c.txt"),
        Reply::text("that was it"),
        Reply::text("and more"),
    ];
    let setup = Setup::new(script)
        .asking(vec![ApprovalAnswer::Yes])
        .hook::<at::TurnStart>("memo", |_, _| {
            Ok(o::InputOutcome {
                inject: inject("remember", true),
                ..Default::default()
            })
        });
    everywhere(setup)
}

#[tokio::test]
async fn a_turn_can_be_interrupted_at_every_await() {
    let mut n_cancelled = 0;
    for n in 0.. {
        let setup = eventful();
        let (store, workspace) = (setup.store(), setup.workspace());
        let mut running = setup.build();
        let queue = running.agent.steering();
        queue.steer("hurry", Source::Terminal);
        queue.follow_up("and then", Source::Terminal);
        let cancel = CancellationToken::new();
        let started = std::time::Instant::now();
        let outcome = {
            let turn = running.agent.turn("go on with the work").until(&cancel);
            tokio::pin!(turn);
            let mut n_events = 0;
            loop {
                if n_events >= n {
                    cancel.cancel();
                }
                tokio::select! {
                    biased;
                    event = running.receiver.recv() => {
                        n_events += 1;
                        running.stream.extend(event);
                    }
                    outcome = &mut turn => break outcome.unwrap(),
                }
            }
        };
        running.drain();
        // The grace period is not used up, because tools stop when they are cancelled.
        assert!(started.elapsed() < std::time::Duration::from_secs(3), "{n}");
        let messages = running.session.messages();
        check_pairs(&messages);
        assert_eq!(running.names().last(), Some(&"turn-end"), "{n}");
        let turn_ends = running
            .traces()
            .iter()
            .filter(|t| t.starts_with("turn-end "))
            .count();
        assert_eq!(turn_ends, 1, "{n}");

        // The session on the disk equals the one in memory, and resuming repairs nothing.
        let id = running.session.id().to_string();
        let folder = running.folder;
        drop((running.agent, running.session));
        let again = store.resume(&id, &session_spec(&workspace)).unwrap();
        assert_eq!(again.messages(), messages, "{n}");
        assert!(again.notices().is_empty());
        drop(folder);

        if outcome.summary.stop != StopReason::Cancelled {
            assert_eq!(outcome.output, "that was it\n\nand more");
            break;
        }
        n_cancelled += 1;
    }
    assert!(n_cancelled > 60, "{n_cancelled}");
}

#[tokio::test]
async fn a_tool_that_is_interrupted_says_what_it_did_so_far() {
    let cancel = CancellationToken::new();
    let user = cancel.clone();
    let wait = NativeTool::new("wait", EffectClass::Execute, move |cancelled| {
        user.cancel();
        Box::pin(async move {
            cancelled.cancelled().await;
            ToolOutput::ok("half done")
        })
    });
    let script = vec![
        Reply::call("wait", json!({})).with_tool_call("bash", json!({"command": "true"})),
        done(),
    ];
    let mut running = Setup::new(script).tool(wait).build();
    let outcome = running
        .agent
        .turn("go on with the work")
        .until(&cancel)
        .await
        .unwrap();
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    let lines = running.lines();
    assert!(lines[2].contains("half done"), "{lines:?}");
    assert!(lines[3].starts_with("tool!: [cancelled: "), "{lines:?}");
    check_pairs(&running.session.messages());
}

#[tokio::test]
async fn a_question_that_nobody_answers_can_be_interrupted() {
    let setup = Setup::new(vec![write("c.txt"), done()]).asking(Vec::new());
    setup
        .approver
        .hangs
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let mut running = setup.build();
    let cancel = CancellationToken::new();
    let (approver, user) = (running.approver.clone(), cancel.clone());
    let interrupt = async {
        while approver.asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        user.cancel();
    };
    let turn = running.agent.turn("go on with the work").until(&cancel);
    let (outcome, ()) = tokio::join!(turn, interrupt);
    assert_eq!(outcome.unwrap().summary.stop, StopReason::Cancelled);
    assert!(running.lines()[2].starts_with("tool!: [cancelled: "));
    assert!(!running.folder.path().join("w/c.txt").exists());
}

#[tokio::test]
async fn what_was_streamed_of_an_interrupted_answer_is_kept() {
    let mut running = Setup::new(vec![Reply::text("one two three four five")]).build();
    let cancel = CancellationToken::new();
    let outcome = {
        let turn = running.agent.turn("hello there").until(&cancel);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                event = running.receiver.recv() => if event.is_some_and(|stamped| matches!(stamped.event, Event::TextDelta { .. })) {
                    cancel.cancel();
                },
                outcome = &mut turn => break outcome.unwrap(),
            }
        }
    };
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    let last = running.lines().pop().unwrap();
    assert!(last.starts_with("assistant: one"), "{last}");
    assert!(last.ends_with("[the answer was cut off here]"), "{last}");
}

#[tokio::test]
async fn a_turn_that_is_dropped_is_closed_by_the_next() {
    let stuck = NativeTool::new("stuck", EffectClass::Execute, |_| {
        Box::pin(std::future::pending())
    });
    let script = vec![Reply::call("stuck", json!({})), done()];
    let mut running = Setup::new(script).tool(stuck).build();
    let cancel = CancellationToken::new();
    {
        let turn = running.agent.turn("go on with the work").until(&cancel);
        let limit = std::time::Duration::from_millis(200);
        assert!(tokio::time::timeout(limit, turn).await.is_err());
    }
    let outcome = running.turn("never mind").await;
    assert_eq!((outcome.turn, outcome.output.as_str()), (2, "done"));
    let lines = running.lines();
    assert!(lines[2].starts_with("tool!: [interrupted: "), "{lines:?}");
    check_pairs(&running.session.messages());
}

#[tokio::test]
async fn a_turn_can_run_on_another_thread() {
    let mut running = Setup::new(vec![done()]).build();
    let task = tokio::spawn(async move { running.turn("hello there").await });
    assert_eq!(task.await.unwrap().output, "done");
}
