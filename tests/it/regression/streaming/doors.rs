//! Tests of every output for the model's text, such as events, refusals and summaries: the hooks
//! that judge the text see it first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use rind::event::Event;
use rind::message::Role;
use rind::point::catalog as at;
use rind::point::failure::{Failure, OnFailure};
use rind::point::outcome as o;
use rind::point::payload::{StopReason, TextDelta};
use rind::point::{Hook, caller::Caller};
use rind::provider::Provider;
use rind::provider::scripted::{Reply, ReplyCondition};
use rind::session::Body;
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind_tests::guests::Host;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{Hang, ProxyProvider, Running, Setup};

const CARD: &str = "4111 1111 1111 1111";

/// Returns the setup of an agent with content-safety, which checks text as it streams.
async fn guarded(script: Vec<Reply>) -> (Host, Setup) {
    let mut host = Host::default();
    host.guest("content-safety");
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    (host, setup)
}

/// Returns a setup with a guard that judges complete outputs and allows all of them.
fn held(script: Vec<Reply>) -> Setup {
    Setup::new(script).hook::<at::PreOutput>("guard", |_, _| Ok(o::OutputOutcome::default()))
}

/// Returns the events of all agents as JSON lines.
fn said(running: &Running) -> String {
    let lines: Vec<String> = running
        .stream
        .iter()
        .map(|stamped| serde_json::to_string(stamped).unwrap())
        .collect();
    lines.join("\n")
}

fn read_with(text: &str) -> Reply {
    Reply {
        text: Some(text.to_owned()),
        thinking: Some(format!("I think of {text}")),
        ..Reply::call("read_file", json!({"path": "a.txt"}))
    }
}

#[tokio::test]
async fn no_event_shows_what_content_safety_masks() {
    let text = format!("the card {CARD} is");
    let answer = Reply {
        thinking: Some(format!("thinking of {CARD}")),
        ..Reply::text(format!("{text} yours"))
    };
    let (_host, setup) = guarded(vec![read_with(&text), answer]).await;
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.output, "the card [card masked] is yours");
    let said = said(&running);
    assert!(!said.contains("4111 1"), "{said}");
    assert_eq!(said.matches("\"type\":\"correction\"").count(), 0, "{said}");
    // The session keeps the unmasked text that the model wrote.
    assert!(running.lines().iter().any(|line| line.contains(CARD)));
}

#[tokio::test]
async fn an_answer_that_came_at_once_is_checked_once() {
    for (is_at_once, n_checks) in [(true, 1), (false, 2)] {
        let text = format!("one\ntwo {CARD}\nthree 3");
        let (_host, setup) = guarded(vec![Reply::text(text)]).await;
        let mut running = setup.build();
        if is_at_once {
            // A provider that passes on all events of the answer at once, after the answer is
            // complete.
            let provider = ProxyProvider::new(
                "at-once",
                running.provider.clone(),
                |model, body, on, cancel| {
                    Box::pin(async move {
                        let mut events = Vec::new();
                        let mut keep = |event| events.push(event);
                        let response = model.send(body, &mut keep, cancel).await;
                        events.into_iter().for_each(on);
                        response
                    })
                },
            );
            running.agent.set_model(provider, "test-model");
        }
        let outcome = running.turn("go on with the work").await;
        assert_eq!(outcome.output, "one\ntwo [card masked]\nthree 3");
        let is_check = |event: &Event| matches!(event, Event::Hook { record } if record.point == "output-delta");
        let checks = running
            .stream
            .iter()
            .filter(|stamped| is_check(&stamped.event));
        assert_eq!(checks.count(), n_checks, "at once: {is_at_once}");
    }
}

#[tokio::test]
async fn arguments_of_calls_are_shown_as_hooks_let_them_through() {
    let joined = CARD.replace(' ', "");
    let many: Vec<String> = (0..100).map(|n| format!("{n} {CARD}")).collect();
    for (arguments, expected) in [
        (json!({"path": format!("card {CARD}")}), "[card masked]"),
        (
            json!({"path": "a.txt", "more": [{"card": CARD}]}),
            "[card masked]",
        ),
        (json!({"path": "a.txt", "more": many}), "not_shown"),
        (json!({"path": "a.txt"}), "a.txt"),
        (json!(format!("{{\"path\": \"{CARD}")), "[card masked]"),
    ] {
        let script = vec![Reply::call("read_file", arguments), Reply::text("ok")];
        let (_host, setup) = guarded(script).await;
        let mut running = setup.build();
        running.turn("go on with the work").await;
        let calls = running.stream.iter().filter(|stamped| {
            matches!(
                stamped.event,
                Event::ToolCall { .. } | Event::ToolStart { .. } | Event::MessageEnd { .. }
            )
        });
        let calls = calls.filter_map(|stamped| match &stamped.event {
            Event::MessageEnd { message } if message.role != Role::Assistant => None,
            _ => Some(serde_json::to_string(stamped).unwrap()),
        });
        let said = calls.collect::<Vec<_>>().join("\n");
        assert!(!said.contains(CARD) && !said.contains(&joined), "{said}");
        assert!(said.matches(expected).count() >= 2, "{expected}: {said}");
    }
}

#[tokio::test]
async fn a_refusal_quotes_arguments_as_hooks_let_them_through() {
    let arguments = json!({"path": format!("card {CARD}"), "content": CARD});
    for is_dry in [true, false] {
        let script = vec![
            Reply::call("write_file", arguments.clone()),
            Reply::text("ok"),
        ];
        let (_host, mut setup) = guarded(script).await;
        setup.policy = ToolPolicy {
            mode: ToolPolicyOptions {
                dry_run: is_dry,
                ..ToolPolicyOptions::default()
            },
            ..ToolPolicy::default()
        };
        let mut running = setup.build();
        running.turn("go on with the work").await;
        let said = said(&running);
        assert!(!said.contains(CARD), "{said}");
        let reason = if is_dry {
            "dry run"
        } else {
            "refused by policy"
        };
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn where_a_hook_judges_whole_answers_nothing_of_one_leaves_before() {
    let text = format!("the card {CARD} is");
    let setup = Setup::new(vec![read_with(&text), Reply::text(format!("{text} yours"))])
        .hook::<at::PreOutput>("guard", |_, output| {
        Ok(o::OutputOutcome {
            text: Some(output.replace(CARD, "[card]")),
            ..Default::default()
        })
    });
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.output, "the card [card] is yours");
    let said = said(&running);
    assert!(!said.contains("4111 1"), "{said}");
    assert!(
        said.contains("[not shown: guard checks it only as part of a complete answer]"),
        "{said}"
    );
    let held = |event: &&Event| matches!(event, Event::TextHeld { is_thinking: false, by } if by == &["guard"]);
    assert_eq!(running.events.iter().filter(held).count(), 2);
}

#[tokio::test]
async fn summaries_and_reasons_that_quote_the_model_are_judged_like_its_answers() {
    let summary = Reply {
        when: Some(ReplyCondition {
            contains: Some("Sum up this turn.".to_owned()),
            ..ReplyCondition::default()
        }),
        times: Some(0),
        ..Reply::text(format!("They gave {CARD}."))
    };
    let mut script: Vec<Reply> = (0..5).map(|_| read_with("looking")).collect();
    script.extend([Reply::text("done"), Reply::text("done again"), summary]);
    for is_held in [false, true] {
        let (_host, mut setup) = guarded(script.clone()).await;
        if is_held {
            setup = held(script.clone());
        }
        setup.config.subagents.enabled = true;
        setup.config.archival.enabled = true;
        let again = AtomicBool::new(true);
        let mut running = setup
            .hook::<at::PostReflect>("sender", move |_, _| {
                let verdict = match again.swap(false, Ordering::SeqCst) {
                    true => o::VerdictChange::Again(format!("you wrote {CARD}")),
                    false => o::VerdictChange::Keep,
                };
                Ok(o::VerdictOutcome {
                    verdict,
                    ..Default::default()
                })
            })
            .hook::<at::PostTool>("quoter", |_, _| {
                Ok(o::ResultOutcome {
                    inject: vec![o::Injection {
                        text: format!("the model said {CARD}"),
                        keep: true,
                    }],
                    ..Default::default()
                })
            })
            .build();
        running.archived_turn("go on with the work").await;
        let said = said(&running);
        assert!(said.contains("\"type\":\"archive-end\""), "{said}");
        assert!(said.contains("reflection sent the answer back"), "{said}");
        assert!(!said.contains("4111 1"), "{said}");
        let archived = running.lines();
        assert!(archived[1].contains(CARD), "{archived:?}");
    }
}

#[tokio::test]
async fn a_look_that_fails_or_hangs_shows_nothing_and_ends_the_turn() {
    let script = || vec![Reply::text("some words")];
    let fails =
        Setup::new(script()).bind::<at::OutputDelta>("guard", OnFailure::Block, Arc::new(Hang));
    let errs = Setup::new(script());
    let errs = errs.hook_blocking::<at::OutputDelta>("guard", |_, _| {
        Err(Failure::Error("out of ideas".to_owned()))
    });
    for setup in [fails, errs] {
        let mut running = setup.build();
        let outcome = running.turn("hello there").await;
        assert_eq!(outcome.summary.stop, StopReason::Blocked);
        assert!(
            outcome
                .output
                .starts_with("[the answer was held back by plugin guard: "),
            "{}",
            outcome.output
        );
        assert!(!said(&running).contains("some words"), "{}", said(&running));
    }
    // A guard with `OnFailure::Skip` is skipped.
    let setup =
        Setup::new(script()).bind::<at::OutputDelta>("guard", OnFailure::Skip, Arc::new(Hang));
    let outcome = setup.build().turn("hello there").await;
    assert_eq!(outcome.output, "some words");
}

#[tokio::test]
async fn what_is_changed_after_it_was_shown_is_a_correction_and_kept_as_one() {
    let setup = Setup::new(vec![Reply::text("it is nine")])
        .hook_blocking::<at::OutputDelta>("clock", |_, _| Ok(o::DeltaOutcome::default()))
        .hook::<at::PreOutput>("clock", |_, output| {
            Ok(o::OutputOutcome {
                text: Some(output.replace("nine", "ten")),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    let outcome = running.turn("what time is it").await;
    assert_eq!(outcome.output, "it is ten");
    let correction = Event::Correction {
        shown: "it is nine".to_owned(),
        text: "it is ten".to_owned(),
    };
    assert!(running.events.contains(&correction), "{:?}", running.events);
    let corrected = kept(&running)
        .into_iter()
        .filter(|body| matches!(body, Body::Corrected { shown, text } if shown == "it is nine" && text == "it is ten"));
    assert_eq!(corrected.count(), 1);
}

/// Returns the stored entries of the session.
fn kept(running: &Running) -> Vec<Body> {
    let store = rind::session::SessionStore::new(running.folder.path().join("sessions"));
    let (entries, _) = store.read_entries(running.session.id()).unwrap();
    entries.into_iter().map(|entry| entry.body).collect()
}

#[tokio::test]
async fn what_goes_on_from_what_was_shown_is_no_correction() {
    let setup = Setup::new(vec![Reply::text("it is nine")])
        .hook_blocking::<at::OutputDelta>("clock", |_, _| Ok(o::DeltaOutcome::default()))
        .hook::<at::PreOutput>("clock", |_, output| {
            Ok(o::OutputOutcome {
                text: Some(format!("{output}\n\n-- the clock")),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    let outcome = running.turn("what time is it").await;
    assert_eq!(outcome.output, "it is nine\n\n-- the clock");
    assert!(!running.names().contains(&"correction"));
}

/// A hook that passes the first piece, and cancels the turn while it is still checking the second.
struct Interrupted(CancellationToken);

impl Hook<at::OutputDelta> for Interrupted {
    fn call<'a>(
        &'a self,
        _: &'a Caller,
        delta: &'a TextDelta,
    ) -> BoxFuture<'a, Result<o::DeltaOutcome, Failure>> {
        Box::pin(async move {
            if !delta.before.is_empty() {
                self.0.cancel();
                std::future::pending::<()>().await;
            }
            Ok(o::DeltaOutcome::default())
        })
    }
}

#[tokio::test]
async fn a_cancelled_answer_leaves_what_was_shown_of_it_and_no_more() {
    let (_host, setup) = guarded(vec![Reply::text(format!("the card {CARD}"))]).await;
    let cancel = CancellationToken::new();
    let hook = Arc::new(Interrupted(cancel.clone()));
    let setup = setup.bind::<at::OutputDelta>("stopper", OnFailure::Block, hook);
    let mut running = setup.build();
    let outcome = running.agent.turn("hello").until(&cancel).await;
    running.drain();
    let stop = outcome.unwrap().summary.stop;
    assert_eq!(stop, StopReason::Cancelled, "{}", said(&running));
    assert!(!said(&running).contains("4111 1"), "{}", said(&running));
    let kept = running.session.messages();
    let last = kept.last().unwrap();
    assert_eq!(last.role, Role::Assistant);
    assert!(!last.joined_text().contains("4111 1"), "{last:?}");
    assert!(
        last.joined_text().contains("[the answer was cut off here]"),
        "{last:?}"
    );
}

#[tokio::test]
async fn texts_of_subagents_pass_the_same_hooks() {
    let script = vec![
        Reply::call(
            "spawn_subagent",
            json!({"task": "look it up", "wait": true}),
        ),
        Reply::text(format!("it is {CARD}")),
        Reply::text("done"),
    ];
    let (_host, mut setup) = guarded(script).await;
    setup.config.subagents.enabled = true;
    let mut running = setup.build();
    running.turn("go on with the work").await;
    let said = said(&running);
    assert!(said.contains("it is [card masked]"), "{said}");
    assert!(!said.contains("4111 1"), "{said}");
}

#[tokio::test]
async fn a_hook_that_gave_all_its_rights_up_holds_nothing_back() {
    let setup = Setup::new(vec![Reply::text("plain words")]).narrowed::<at::PreOutput>(
        "counter",
        &[],
        |_, _| Ok(o::OutputOutcome::default()),
    );
    let mut running = setup.build();
    running.turn("hello").await;
    assert!(running.names().contains(&"text-delta"));
    assert!(!running.names().contains(&"text-held"));
}
