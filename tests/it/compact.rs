//! Compaction in a running agent: later requests to the model, the outcomes of hooks, and the
//! session on disk.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rind::agent::CompactConfig;
use rind::event::Event;
use rind::message::{EffectClass, Message};
use rind::point::catalog as at;
use rind::point::failure::{Failure, OnFailure};
use rind::point::outcome as o;
use rind::provider::scripted::{Reply, ReplyError};
use rind::session::{Body, SessionStore};
use rind::tool::ToolOutput;
use rind_tests::cli::Rind;
use rind_tests::guests::Host;
use serde_json::{Value, json};

use crate::harness::{Hang, NativeTool, Running, Setup, check_pairs, session_spec};

/// Beginning of the message with the summary in a request.
const MARK: &str = "user: [summary of earlier messages";

/// A tool whose answers have some 2,000 tokens each.
fn look() -> impl rind::tool::Tool {
    let text = "a line of text\n".repeat(530);
    NativeTool::new("look", EffectClass::Read, move |_| {
        let text = text.clone();
        Box::pin(async move { ToolOutput::ok(text) })
    })
}

/// An agent that calls `look` `n` times and compacts its conversation at 20,000 tokens.
fn looking(n: usize) -> Setup {
    compacting(looks(n))
}

/// Replies of a turn with `n` calls of `look`.
fn looks(n: usize) -> Vec<Reply> {
    let mut script: Vec<Reply> = (0..n).map(|_| Reply::call("look", json!({}))).collect();
    script.push(Reply::text("done"));
    script
}

fn compacting(script: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(script).tool(look());
    setup.config.max_steps = 300;
    setup.config.compact = CompactConfig {
        threshold_tokens: Some(20_000),
        keep_last_messages: 4,
        keep_tokens: 3000,
        max_summary_tokens: 1000,
        ..CompactConfig::default()
    };
    setup
}

fn summary(text: &str) -> Result<o::SliceOutcome, Failure> {
    Ok(o::SliceOutcome {
        verdict: o::SliceVerdict::Summary(text.to_owned()),
        ..Default::default()
    })
}

/// Outcome of every compaction: number of messages, summary, whether the host wrote the summary,
/// and refusal.
fn ends(running: &Running) -> Vec<(u32, Option<String>, bool, Option<String>)> {
    let end = |event: &Event| match event.clone() {
        Event::CompactEnd {
            messages,
            summary,
            is_built_in,
            refused,
        } => Some((messages, summary, is_built_in, refused)),
        _ => None,
    };
    running.events.iter().filter_map(end).collect()
}

/// Checks that each call in a request's body is followed directly by its results, and that no
/// result lacks a call.
fn check_body(body: &Value) {
    let mut open: Vec<String> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let list = |key: &str| message[key].as_array().cloned().unwrap_or_default();
        for result in list("results") {
            let id = result["call_id"].as_str().unwrap();
            let at = open.iter().position(|open| open == id);
            open.remove(at.unwrap_or_else(|| panic!("a result without a call: {result}")));
        }
        if message["role"] != "tool" {
            assert_eq!(open, Vec::<String>::new(), "calls without a result");
        }
        open.extend(
            list("tool_calls")
                .iter()
                .map(|call| call["id"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(open, Vec::<String>::new(), "calls without a result");
}

fn store(running: &Running) -> SessionStore {
    SessionStore::new(running.folder.path().join("sessions"))
}

fn entries(running: &Running) -> Vec<Body> {
    let (entries, notices) = store(running).read_entries(running.session.id()).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries.into_iter().map(|entry| entry.body).collect()
}

#[tokio::test]
async fn two_hundred_steps_stay_within_the_budget_and_every_request_is_whole() {
    let mut running = looking(199).build();
    let outcome = running.turn("look around for as long as it takes").await;
    assert_eq!(
        (outcome.output.as_str(), outcome.summary.steps),
        ("done", 200)
    );

    let bodies = running.provider.recorded_request_bodies();
    assert_eq!(bodies.len(), 200);
    for (n, body) in bodies.iter().enumerate() {
        check_body(body);
        let first = &running.request(n)[0];
        assert_eq!(first, "user: look around for as long as it takes");
    }
    let entries = entries(&running);
    let used = entries.iter().filter_map(|body| match body {
        Body::Step { usage, .. } => Some(usage.input_tokens),
        _ => None,
    });
    // Tokens as the provider counted them, not as they were estimated.
    assert!(used.clone().max().unwrap() <= 21_000, "{:?}", used.max());
    let ends = ends(&running);
    assert!((10..60).contains(&ends.len()), "{}", ends.len());
    let (_, text, is_built_in, _) = ends.last().unwrap();
    let text = text.as_deref().unwrap();
    assert!(*is_built_in && text.len() <= 4000, "{text}");
    let n_looks: usize = text
        .split("- look ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(n_looks > 180, "{text}");

    // The file keeps every message, and rebuilding the conversation from it yields what the model
    // is sent.
    let n_kept = entries
        .iter()
        .filter(|body| matches!(body, Body::Message { .. }))
        .count();
    assert_eq!(n_kept, 400);
    let messages = running.session.messages();
    check_pairs(&messages);
    assert!(messages.len() < 40);
    let (store, id) = (store(&running), running.session.id().to_string());
    let spec = session_spec(&running.folder.path().join("w"));
    let fork = store.fork(&id, None, &spec).unwrap();
    assert_eq!(fork.messages(), messages);
    drop((running.agent, running.session));
    let resumed = store.resume(&id, &spec).unwrap();
    assert_eq!(resumed.messages(), messages);
    assert_eq!(resumed.notices(), Vec::<String>::new());
}

#[tokio::test]
async fn the_input_of_a_later_turn_stays_word_for_word_unless_it_fills_the_window() {
    let mut script = looks(1);
    script.extend(looks(40));
    script.extend(looks(15));
    let mut running = compacting(script).build();
    running.turn("look once").await;
    running.turn("look for the green door").await;
    assert!(ends(&running).len() > 3);
    for n in 2..43 {
        let asked = "user: look for the green door".to_owned();
        assert!(running.request(n).contains(&asked), "{n}");
    }

    // An input of more than a quarter of the threshold is summarized with the other messages.
    let long = format!("look at this: {}", "one more word ".repeat(2000));
    running.turn(&long).await;
    let last = running.request(running.provider.recorded_request_bodies().len() - 1);
    assert!(last.iter().any(|message| message.starts_with(MARK)));
    assert!(!last.contains(&format!("user: {long}")));
}

#[tokio::test]
async fn a_turn_that_goes_on_after_it_was_cut_keeps_its_input_too() {
    let mut script = looks(1);
    script.extend(looks(2).into_iter().take(2));
    script.push(Reply {
        delay_ms: 3_600_000,
        ..Reply::text("late")
    });
    script.extend(looks(30));
    let mut running = compacting(script).build();
    running.turn("look once").await;
    let asked = "look for the green door";
    let turn = running.agent.turn(asked);
    let cut = tokio::time::timeout(Duration::from_millis(1500), turn).await;
    assert!(cut.is_err(), "the third answer never comes");
    let n_before = running.provider.recorded_request_bodies().len();
    running.agent.continue_turn().unwrap().await.unwrap();
    running.drain();
    assert!(ends(&running).len() > 2);
    let n_requests = running.provider.recorded_request_bodies().len();
    assert!(n_requests > n_before + 20, "{n_requests}");
    for n in n_before..n_requests {
        assert!(
            running.request(n).contains(&format!("user: {asked}")),
            "{n}"
        );
    }
}

#[tokio::test]
async fn a_hook_may_refuse_and_is_asked_again_only_after_the_conversation_has_grown() {
    let setup = looking(19).hook::<at::BeforeCompact>("keeper", |_, slice| {
        assert_eq!(
            (slice.reason.as_str(), slice.summary.as_str()),
            ("token-threshold", "")
        );
        Ok(o::SliceOutcome {
            verdict: o::SliceVerdict::Cancel("I need it all".to_owned()),
            ..Default::default()
        })
    });
    let mut running = setup.build();
    running.turn("go on").await;
    let ends = ends(&running);
    // The hook is called again only after the conversation has grown by a tenth, so not at each of
    // the ten steps from 20,000 to 40,000 tokens.
    assert!((3..=7).contains(&ends.len()), "{ends:?}");
    let refused = ends[0].3.as_deref();
    assert_eq!(refused, Some("refused by plugin keeper: I need it all"));
    assert!(ends.iter().all(|end| end.1.is_none()));
    assert_eq!(running.session.n_messages(), 40);
    assert!(
        !entries(&running)
            .iter()
            .any(|body| matches!(body, Body::Replaced { .. }))
    );
}

#[tokio::test]
async fn a_hook_may_bring_its_own_summary_and_after_compact_sees_it() {
    let seen: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let sees = seen.clone();
    let setup = looking(12)
        .hook::<at::BeforeCompact>("writer", |_, _| summary("they looked"))
        .hook::<at::AfterCompact>("watcher", move |_, slice| {
            sees.lock()
                .unwrap()
                .push((slice.messages.len(), slice.summary.clone()));
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    running.turn("go on").await;
    let ends = ends(&running);
    assert_eq!(ends.len(), 1);
    assert_eq!(
        (ends[0].1.as_deref(), ends[0].2),
        (Some("they looked"), false)
    );
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, [(ends[0].0 as usize, "they looked".to_owned())]);
    let lines = running.lines();
    assert_eq!(lines[0], "user: go on");
    assert!(
        lines[1].starts_with(MARK) && lines[1].ends_with("\n\nthey looked"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("assistant:"), "{}", lines[2]);
    let names = running.names();
    let start = names
        .iter()
        .position(|name| *name == "compact-start")
        .unwrap();
    assert_eq!(
        names[start - 1..=start + 1],
        ["step-start", "compact-start", "compact-end"]
    );
}

#[tokio::test]
async fn a_failing_hook_that_is_skipped_leaves_the_built_in_summary_and_a_guard_refuses() {
    for (on_failure, is_done) in [(OnFailure::Skip, true), (OnFailure::Block, false)] {
        let setup = looking(12).bind::<at::BeforeCompact>("hangs", on_failure, Arc::new(Hang));
        let mut running = setup.build();
        running.turn("go on").await;
        let ends = ends(&running);
        assert_eq!(ends[0].1.is_some(), is_done, "{ends:?}");
        assert_eq!(ends[0].2, is_done, "{ends:?}");
        for body in running.provider.recorded_request_bodies() {
            check_body(&body);
        }
    }
}

#[tokio::test]
async fn it_can_be_switched_off() {
    let mut setup = looking(14);
    setup.config.compact.enabled = false;
    let mut running = setup.build();
    running.turn("go on").await;
    assert_eq!(ends(&running), []);
    assert_eq!(running.session.n_messages(), 30);
}

#[tokio::test]
async fn over_the_hard_limit_results_are_sent_cut_and_kept_whole() {
    let mut setup = looking(19)
        .hook::<at::BeforeCompact>("keeper", |_, _| Err(Failure::Error("I cannot".to_owned())));
    setup.config.compact.hard_limit_tokens = Some(24_000);
    let mut running = setup.build();
    running.turn("go on").await;
    let bodies = running.provider.recorded_request_bodies();
    bodies.iter().for_each(check_body);
    let largest = bodies
        .iter()
        .map(|body| body.to_string().len() / 4)
        .max()
        .unwrap();
    assert!((20_000..25_500).contains(&largest), "{largest}");
    let last = running.request(19);
    assert!(last[2].contains("bytes were cut here"), "{}", last[2]);
    assert!(!last[39 - 1].contains("bytes were cut here"));
    let results = |message: &Message| {
        message
            .tool_results()
            .all(|r| r.content.text().len() > 7000)
    };
    assert!(running.session.messages().iter().all(results));
    let is_told = |event: &Event| matches!(event, Event::Notice { text, .. } if text.contains("hard_limit_tokens = 24000"));
    assert!(running.events.iter().any(is_told));
}

/// Runs a turn with the plugin `summarization`. `answer` is the model's reply to the plugin's
/// request for a summary, after nine calls of `look`.
async fn summarizing(answer: Reply) -> Running {
    let mut host = Host::default();
    host.guest("summarization");
    let mut setup = looking(9);
    setup.script.insert(9, answer);
    setup.plugins = host.load().await;
    assert!(
        setup.plugins.left_out.is_empty(),
        "{:?}",
        setup.plugins.left_out
    );
    let mut running = setup.build();
    let outcome = running.turn("look around").await;
    assert_eq!(outcome.output, "done");
    running
}

#[tokio::test]
async fn the_plugin_asks_the_model_for_the_summary() {
    let running = summarizing(Reply::text("## Goal\n- see all\n")).await;
    let ends = ends(&running);
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(
        (ends[0].1.as_deref(), ends[0].2),
        (Some("## Goal\n- see all"), false)
    );
    let bodies = running.provider.recorded_request_bodies();
    let question = bodies
        .iter()
        .position(|body| body.get("tools").is_none())
        .unwrap();
    let asked = &running.request(question)[0];
    assert!(
        asked.starts_with("user: <conversation ") && asked.ends_with("Summarize it."),
        "{asked}"
    );
    assert!(running.request(question + 1)[1].ends_with("## Goal\n- see all"));
    let asked =
        |body: &Body| matches!(body, Body::Asked { plugin, .. } if plugin == "summarization");
    assert!(entries(&running).iter().any(asked));
}

#[tokio::test]
async fn when_the_model_does_not_answer_the_plugin_the_built_in_summary_stands_in() {
    let error = ReplyError {
        status: 400,
        message: "no".to_owned(),
    };
    let answer = Reply {
        error: Some(error),
        ..Reply::default()
    };
    let running = summarizing(answer).await;
    let ends = ends(&running);
    assert!(
        ends[0].2 && ends[0].1.as_deref().unwrap().contains("- look "),
        "{ends:?}"
    );
    let traces = running.traces();
    assert!(
        traces.contains(&"before-compact summarization failed".to_owned()),
        "{traces:?}"
    );
}

#[test]
fn the_screen_says_that_the_conversation_was_made_shorter() {
    let call =
        "[[reply]]\n[[reply.tool_calls]]\nname = \"read_file\"\narguments = { path = \"a.txt\" }\n";
    let rind = Rind::with_script(&format!("{}[[reply]]\ntext = \"done\"\n", call.repeat(4)));
    rind.file("a.txt", &"a line of text\n".repeat(500));
    rind.config(
        "[agent.compact]\nthreshold_tokens = 5_000\nkeep_tokens = 0\nkeep_last_messages = 2\n",
    );
    let ran = rind.run(&["run", "read it"]).exits(0);
    let line = ran.stderr.lines().find(|line| line.starts_with('≡'));
    let line = line.unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(line.contains("messages replaced by a summary of"), "{line}");
}
