//! Tests of tool calls: who may refuse them, the order in which they run, and the results for the
//! model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rind::agent::AgentSteeringHandle;
use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::failure::{Failure, OnFailure};
use rind::point::outcome as o;
use rind::point::payload::{Source, StopReason};
use rind::provider::scripted::Reply;
use rind::session::MAX_BLOB_BYTES;
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use rind::tool::policy::{PolicyRule, RuleDecision};
use serde_json::json;

use super::{ask, block, change, done, inject, read, with_calls, write};
use crate::harness::{Hang, NativeTool, Setup, check_pairs, check_turn};

#[tokio::test]
async fn calls_that_only_read_run_side_by_side_and_keep_their_order() {
    // Two tools that wait for each other. The call that comes first in the request ends last.
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let meet = |name: &str, pause: u64| {
        let barrier = barrier.clone();
        let text = format!("result of {name}");
        NativeTool::new(name, EffectClass::Read, move |_| {
            let (barrier, text) = (barrier.clone(), text.clone());
            Box::pin(async move {
                barrier.wait().await;
                tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
                ToolOutput::ok(text)
            })
        })
    };
    let script = vec![
        Reply::call("slow", json!({}))
            .with_tool_call("fast", json!({}))
            .with_tool_call("write_file", json!({"path": "c", "content": ""})),
        done(),
    ];
    let setup = Setup::new(script)
        .tool(meet("slow", 30))
        .tool(meet("fast", 0));
    let expected = with_calls(&[
        "tool-start",
        "tool-start",
        "tool-end",
        "message-end",
        "tool-end",
        "message-end",
        "tool-start",
        "tool-end",
        "message-end",
    ]);
    let (running, _) = check_turn(setup, "go on with the work", &expected).await;
    let lines = running.lines();
    assert_eq!(
        lines[2..4],
        ["tool: result of slow", "tool: result of fast"]
    );
}

#[tokio::test]
async fn calls_that_have_not_begun_when_the_user_says_something_are_skipped_each_with_a_result() {
    // Read calls run concurrently, but with a limit of one; write calls always run one after the
    // other.
    for class in [EffectClass::Read, EffectClass::Write] {
        let steered = Arc::new(OnceLock::<AgentSteeringHandle>::new());
        let steer = steered.clone();
        let steers = NativeTool::new("steers", class, move |_| {
            let steer = steer.get().unwrap().clone();
            Box::pin(async move {
                steer.steer("stop that", Source::Terminal);
                ToolOutput::ok("begun before")
            })
        });
        let calls = Reply::call("steers", json!({}))
            .with_tool_call("read_file", json!({"path": "a.txt"}))
            .with_tool_call("write_file", json!({"path": "c.txt", "content": ""}));
        let mut setup = Setup::new(vec![calls, done()]).tool(steers);
        setup.config.max_parallel_calls = 1;
        let mut running = setup.build();
        steered.set(running.agent.steering()).unwrap();
        let outcome = running.turn("go on with the work").await;
        assert_eq!(outcome.output, "done");
        let results = running.results();
        let told: Vec<&str> = results.iter().map(|(told, ..)| told.as_str()).collect();
        assert_eq!((told.len(), told[0]), (3, "begun before"));
        let are_skipped = told[1..].iter().all(|told| told.starts_with("not run: "));
        assert!(are_skipped, "{told:?}");
        assert_eq!(results[2].2.as_deref(), Some("user"));
        assert!(!running.folder.path().join("w/c.txt").exists());
        // The user's message follows directly after the results.
        assert_eq!(running.request(1).last().unwrap(), "user: stop that");
        check_pairs(&running.session.messages());
    }
}

/// Runs a turn whose one call is refused, and checks what the model is told.
async fn check_refused(setup: Setup, by: &str, told: &str) {
    let expected = with_calls(&["tool-end", "message-end"]);
    let (running, outcome) = check_turn(setup, "go on with the work", &expected).await;
    assert_eq!(outcome.summary.stop, StopReason::Done);
    let [(content, is_error, refused_by)] = &running.results()[..] else {
        panic!("{:?}", running.results());
    };
    assert!(content.contains(told), "{content}");
    assert!(is_error);
    assert_eq!(refused_by.as_deref(), Some(by));
    let last = running.request(1).pop().unwrap();
    assert_eq!(last, format!("tool!: {content}"));
    assert!(!running.folder.path().join("w/c.txt").exists());
}

#[tokio::test]
async fn an_unknown_tool_is_a_result() {
    let setup = Setup::new(vec![Reply::call("fly", json!({})), done()]);
    check_refused(
        setup,
        "host",
        "there is no tool `fly` in this step; the tools are: background, bash,",
    )
    .await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_a_result() {
    let setup = Setup::new(vec![Reply::call("write_file", json!({"path": 1})), done()]);
    check_refused(setup, "host", "at `/path`: 1 is not of type \"string\"").await;
}

#[tokio::test]
async fn arguments_that_are_not_json_are_a_result() {
    let setup = Setup::new(vec![
        Reply::call("write_file", json!("{\"path\": ")),
        done(),
    ]);
    check_refused(setup, "host", "not valid JSON").await;
}

#[tokio::test]
async fn a_call_that_a_hook_blocks_is_a_result() {
    let setup = Setup::new(vec![write("c.txt"), done()])
        .hook::<at::PreTool>("guard", |_, _| Ok(block("not on a Sunday")));
    check_refused(
        setup,
        "plugin guard",
        "refused by plugin guard: not on a Sunday",
    )
    .await;
}

#[tokio::test]
async fn a_call_that_the_policy_denies_is_a_result() {
    let mut setup = Setup::new(vec![write("c.txt"), done()]);
    setup.policy.rules = vec![PolicyRule::for_tool("write_*", RuleDecision::Deny).unwrap()];
    check_refused(setup, "policy", "refused by policy: `write_file` is denied").await;
}

#[tokio::test]
async fn a_call_that_the_user_refuses_is_a_result() {
    let setup = Setup::new(vec![write("c.txt"), done()])
        .asking(vec![ApprovalAnswer::No("use d.txt".into())]);
    check_refused(setup, "user", "refused by the user: use d.txt").await;
}

#[tokio::test]
async fn no_hook_allows_what_the_policy_denies() {
    let mut setup = Setup::new(vec![write("c.txt"), done()])
        .hook::<at::PreTool>("eager", |_, _| {
            Ok(change(json!({"path": "c.txt", "content": "x"})))
        });
    setup.policy.rules = vec![PolicyRule::for_effect_class(
        EffectClass::Write,
        RuleDecision::Deny,
    )];
    check_refused(setup, "policy", "is denied").await;
}

#[tokio::test]
async fn ask_beats_pass_whatever_the_order() {
    let script = vec![read("a.txt"), done()];
    let setup = Setup::new(script)
        .asking(vec![ApprovalAnswer::Yes])
        .hook::<at::PreTool>("a-curious", |_, _| Ok(ask("is this the right file?")))
        .hook::<at::PreTool>("b-calm", |_, _| Ok(o::CallOutcome::default()));
    let expected = with_calls(&["tool-start", "tool-end", "message-end"]);
    let (running, _) = check_turn(setup, "go on with the work", &expected).await;
    let asked = running.approver.asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0].reasons,
        [("a-curious".to_owned(), "is this the right file?".to_owned())]
    );
}

#[tokio::test]
async fn block_beats_ask_whatever_the_order() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        let setup = Setup::new(vec![write("c.txt"), done()])
            .asking(vec![ApprovalAnswer::Yes])
            .hook::<at::PreTool>(first, |_, _| Ok(ask("sure?")))
            .hook::<at::PreTool>(second, |_, _| Ok(block("never")));
        let approver = setup.approver.clone();
        check_refused(setup, &format!("plugin {second}"), "never").await;
        assert!(approver.asked.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn approval_is_asked_for_the_final_arguments() {
    let setup = Setup::new(vec![write("c.txt"), done()])
        .asking(vec![ApprovalAnswer::Yes])
        .hook::<at::PreTool>("mover", |_, _| {
            Ok(change(json!({"path": "d.txt", "content": "moved"})))
        });
    let expected = with_calls(&["tool-start", "tool-end", "message-end"]);
    let (running, _) = check_turn(setup, "go on with the work", &expected).await;
    assert!(running.approver.asked.lock().unwrap()[0].arguments[0].text == "d.txt");
    assert!(running.folder.path().join("w/d.txt").exists());
    assert!(!running.folder.path().join("w/c.txt").exists());
}

#[tokio::test]
async fn changed_arguments_that_do_not_fit_refuse_the_call_by_name() {
    let setup = Setup::new(vec![write("c.txt"), done()])
        .hook::<at::PreTool>("clumsy", |_, _| Ok(change(json!({"path": 7}))));
    check_refused(setup, "plugin clumsy", "do not fit the tool's schema").await;
}

#[tokio::test]
async fn a_guard_that_broke_goes_on_refusing_until_the_turn_ends() {
    for broken in ["trap", "deadline"] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let script = vec![
            write("c.txt"),
            write("c.txt"),
            done(),
            write("c.txt"),
            done(),
        ];
        let mut setup = Setup::new(script);
        setup = if broken == "trap" {
            setup.hook::<at::PreTool>("guard", move |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                Err(Failure::Trap("unreachable".into()))
            })
        } else {
            setup.bind::<at::PreTool>("guard", OnFailure::Block, Arc::new(Hang))
        };
        let mut running = setup.build();
        running.turn("go on with the work").await;
        let results = running.results();
        assert_eq!(results.len(), 2);
        for (content, _, by) in &results {
            assert!(
                content.starts_with("refused by plugin guard: "),
                "{content}"
            );
            assert_eq!(by.as_deref(), Some("plugin guard"));
        }
        assert!(
            results[1].0.contains("disabled for the rest of this turn"),
            "{}",
            results[1].0
        );
        let traces = running.traces();
        assert_eq!(
            traces,
            [
                "pre-tool guard failed-blocking",
                "pre-tool guard dropped-blocking"
            ]
        );
        // The hook is called again in the next turn.
        running.turn("go on").await;
        assert_eq!(running.traces()[2], "pre-tool guard failed-blocking");
        if broken == "trap" {
            assert_eq!(calls.load(Ordering::SeqCst), 2);
        }
    }
}

#[tokio::test]
async fn a_note_of_a_hook_stands_beneath_the_result_and_redactors_see_it() {
    let setup = Setup::new(vec![read("a.txt"), done()])
        .hook::<at::PreTool>("loop-detection", |_, _| {
            Ok(o::CallOutcome {
                note: Some("third time with alpha".into()),
                ..Default::default()
            })
        })
        .hook::<at::PostTool>("redact", |_, finished| {
            Ok(o::ResultOutcome {
                content: Some(vec![
                    finished
                        .result
                        .content
                        .text()
                        .replace("alpha", "[redacted]")
                        .into(),
                ]),
                inject: inject("mind the secrets", true),
                ..Default::default()
            })
        });
    let mut running = setup.build();
    running.turn("go on with the work").await;
    assert_eq!(
        running.lines()[2..4],
        [
            "tool: [redacted]\n\n[note from loop-detection: third time with [redacted]]",
            "user: [plugin redact] mind the secrets"
        ]
    );
}

#[tokio::test]
async fn a_blob_that_is_too_large_to_keep_is_a_line_of_text_and_the_turn_goes_on() {
    let tool = |name: &str, n_bytes: u64| {
        NativeTool::new(name, EffectClass::Read, move |_| {
            let bytes = vec![7; n_bytes as usize];
            Box::pin(async move { ToolOutput::from_bytes(bytes, "application/x-tide") })
        })
    };
    let script = vec![
        Reply::call("small", json!({})).with_tool_call("large", json!({})),
        done(),
    ];
    let mut running = Setup::new(script)
        .tool(tool("small", 10))
        .tool(tool("large", MAX_BLOB_BYTES + 1))
        .build();
    running.turn("go").await;
    let results = running.results();
    assert_eq!(results[0].0, "[application/x-tide, 10 B]");
    assert_eq!(
        results[1].0,
        "[application/x-tide, 8.3 MB; not shown: 8388609 bytes cannot be stored: a blob has at most 8388608 bytes]"
    );
    let kept = running.session.local_folder().unwrap().join("content");
    let files = std::fs::read_dir(kept).unwrap();
    let sizes: Vec<u64> = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .collect();
    // The other files are texts of the system prompt.
    assert_eq!(sizes.iter().filter(|size| **size == 10).count(), 1);
    assert!(sizes.iter().all(|size| *size < 10_000), "{sizes:?}");
}
