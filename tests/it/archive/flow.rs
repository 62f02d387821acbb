//! Tests of which turns are archived, when, and what may delay their archival.

use std::sync::{Arc, Mutex};

use rind::point::catalog as at;
use rind::point::failure::OnFailure;
use rind::point::outcome as o;
use rind::point::payload::{Source, StopReason};
use rind::tool::policy::{PolicyRule, RuleDecision};
use rind_tests::guests::Host;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::{Hang, check_pairs};

#[tokio::test]
async fn a_turn_with_five_calls_leaves_the_users_message_and_a_summary_with_the_holders_id() {
    let mut script = reads(5);
    script.push(Reply::text("still here"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (before, after, turns) = (seen.clone(), seen.clone(), seen.clone());
    let setup = archiving(script)
        .hook::<at::BeforeArchive>("watcher", move |caller, slice| {
            let line = format!(
                "before {} {} {:?} turn {} at depth {}",
                slice.reason,
                slice.messages.len(),
                slice.summary,
                caller.context.turn,
                caller.context.depth
            );
            before.lock().unwrap().push(line);
            Ok(o::SliceOutcome::default())
        })
        .hook::<at::AfterArchive>("watcher", move |_, slice| {
            let line = format!("after {} {}", slice.messages.len(), slice.summary);
            after.lock().unwrap().push(line);
            Ok(o::Observed::default())
        })
        .hook::<at::TurnEnd>("watcher", move |_, summary| {
            let line = format!("turn-end {:?}", summary.stop);
            turns.lock().unwrap().push(line);
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    let outcome = running.archived_turn("Read a.txt\nfive times").await;
    assert_eq!(outcome.output, "done");

    let id = holder(&running);
    let archived = format!("assistant: [archived turn]\nsubagent_id: {id}\n\n{SUMMARY}");
    let lines = ["user: Read a.txt\nfive times".to_owned(), archived];
    assert_eq!(running.lines(), lines);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "turn-end StopReason::Done".to_owned(),
            "before tool-calls 12 \"\" turn 1 at depth 0".to_owned(),
            format!("after 12 {SUMMARY}"),
        ]
    );
    // The turn ends before its summary is requested.
    let names = running.names();
    let end = names.iter().position(|name| *name == "turn-end").unwrap();
    assert_eq!(names[end..], ["turn-end", "archive-start", "archive-end"]);

    running.archived_turn("and now?").await;
    assert_eq!(ends(&running).len(), 1, "a small turn stays");
    let request = running.provider.recorded_request_bodies().len() - 1;
    assert_eq!(running.request(request)[..2], lines);
    assert_eq!(running.request(request)[2], "user: and now?");
    let system = system(&running, request);
    let listed = format!("- id: {id} | task: Archive: Read a.txt");
    assert!(system.ends_with(&listed), "{system}");
    assert!(system.contains("query_subagent"), "{system}");
    let names = tools(&running, request);
    for name in ["query_subagent", "spawn_subagent"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

#[tokio::test]
async fn the_question_for_the_summary_goes_the_way_of_every_request() {
    let sent = Arc::new(Mutex::new(0));
    let (sends, answered) = (sent.clone(), Arc::new(Mutex::new(0)));
    let answers = answered.clone();
    let setup = archiving(reads(5))
        .hook::<at::BeforeProviderRequest>("watcher", move |_, _| {
            *sends.lock().unwrap() += 1;
            Ok(o::WireOutcome::default())
        })
        .hook::<at::AfterProviderResponse>("watcher", move |_, _| {
            *answers.lock().unwrap() += 1;
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    running.archived_turn("go on").await;
    assert_eq!((*sent.lock().unwrap(), *answered.lock().unwrap()), (7, 7));
    let bodies = running.provider.recorded_request_bodies();
    assert_eq!(bodies.len(), 7);
    assert!(bodies[6].get("tools").is_none(), "{}", bodies[6]);
    let question = &running.request(6)[0];
    assert!(question.starts_with("user: <transcript "), "{question}");
    assert!(
        question.contains("## user\ngo on\n\n## assistant\n[tool_use: read_file("),
        "{question}"
    );
    let id = holder(&running);
    let asked = entries(&running, "")
        .into_iter()
        .find_map(|body| match body {
            Body::HostAsked {
                about,
                agent,
                turn,
                usage,
                ..
            } => Some((about, agent, turn, usage.total() > 100)),
            _ => None,
        });
    assert_eq!(asked, Some(("archive".to_owned(), Some(id), 1, true)));
}

#[tokio::test]
async fn nothing_is_archived_unless_it_is_switched_on() {
    let mut script = reads(20);
    script.push(Reply::text("ok"));
    let mut running = Setup::new(script).build();
    running.archived_turn("go on").await;
    running.archived_turn("and on").await;
    assert_eq!(ends(&running), []);
    assert_eq!(running.lines().len(), 44);
    let names = tools(&running, 21);
    assert!(
        !names.iter().any(|name| name.contains("subagent")),
        "{names:?}"
    );
    assert!(!system(&running, 21).contains("subagents"));
}

#[tokio::test]
async fn each_trigger_archives_by_itself_and_without_any_the_turn_stays() {
    /// Disables every trigger except those that `set` enables.
    async fn reasons_with(script: Vec<Reply>, set: fn(&mut Setup)) -> Vec<String> {
        let mut setup = archiving(script);
        let trigger = &mut setup.config.archival.trigger;
        trigger.on_max_turns = false;
        trigger.token_threshold = 1_000_000;
        trigger.tool_call_threshold = 1000;
        set(&mut setup);
        let mut running = setup.build();
        running.archived_turn("go on").await;
        check_pairs(&running.session.messages());
        reasons(&running)
    }
    let calls = |setup: &mut Setup| setup.config.archival.trigger.tool_call_threshold = 2;
    assert_eq!(reasons_with(reads(2), calls).await, ["tool-calls"]);
    assert_eq!(reasons_with(reads(1), calls).await, Vec::<String>::new());

    let tokens = |setup: &mut Setup| setup.config.archival.trigger.token_threshold = 1000;
    let long = vec![Reply::text("word ".repeat(2000))];
    assert_eq!(reasons_with(long, tokens).await, ["token-threshold"]);
    assert_eq!(reasons_with(reads(1), tokens).await, Vec::<String>::new());

    let steps = |setup: &mut Setup| {
        setup.config.max_steps = 2;
        setup.config.archival.trigger.on_max_turns = true;
    };
    assert_eq!(reasons_with(reads(5), steps).await, ["max-steps"]);
    assert_eq!(reasons_with(reads(1), steps).await, Vec::<String>::new());
    let without = |setup: &mut Setup| setup.config.max_steps = 2;
    assert_eq!(reasons_with(reads(5), without).await, Vec::<String>::new());
    let all = |setup: &mut Setup| {
        setup.config.max_steps = 2;
        setup.config.archival.trigger = Default::default();
        setup.config.archival.trigger.tool_call_threshold = 1;
        setup.config.archival.trigger.token_threshold = 1;
    };
    assert_eq!(reasons_with(reads(5), all).await, ["max-steps"]);
    let capped = |setup: &mut Setup| {
        setup.config.archival.trigger = Default::default();
        setup.config.archival.trigger.depth_cap = 0;
    };
    assert_eq!(reasons_with(reads(9), capped).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_turn_that_was_refused_or_failed_stays() {
    let setup = archiving(reads(9)).hook::<at::PreOutput>("guard", |_, _| {
        Ok(o::OutputOutcome {
            block: Some("no".to_owned()),
            ..Default::default()
        })
    });
    let mut running = setup.build();
    let outcome = running.archived_turn("go on").await;
    assert_eq!(outcome.summary.stop, StopReason::Blocked);
    assert_eq!(ends(&running), []);

    let mut script = reads(9);
    script.pop();
    let mut running = archiving(script).build();
    let outcome = running.archived_turn("go on").await;
    assert_eq!(outcome.summary.stop, StopReason::Failed);
    assert_eq!(ends(&running), []);
    assert_eq!(running.lines().len(), 19);
}

/// Sets up an agent with the guest `archivist`, after a turn that is due for archival.
async fn with_archivist(refuses: bool) -> Running {
    let mut host = Host::default();
    host.guest("archivist");
    host.set("archivist", "refuse", refuses);
    let mut setup = archiving(reads(5));
    setup.plugins = host.load().await;
    assert!(
        setup.plugins.left_out.is_empty(),
        "{:?}",
        setup.plugins.left_out
    );
    let mut running = setup.build();
    running.archived_turn("go on").await;
    running
}

#[tokio::test]
async fn a_plugin_brings_its_own_summary_and_no_model_is_asked() {
    let running = with_archivist(false).await;
    let text = "12 messages, because of tool-calls";
    let id = holder(&running);
    assert_eq!(
        running.lines()[1],
        format!("assistant: [archived turn]\nsubagent_id: {id}\n\n{text}")
    );
    assert_eq!(running.provider.recorded_request_bodies().len(), 6);
    let state = running.session.state_get("archivist", "archived");
    assert_eq!(state.unwrap().as_deref(), Some(text));
}

#[tokio::test]
async fn a_plugin_refuses_and_the_turn_stays() {
    let running = with_archivist(true).await;
    let why = "refused by plugin archivist: not this one".to_owned();
    assert_eq!(ends(&running), [(None, None, Some(why))]);
    assert_eq!(running.lines().len(), 12);
    assert_eq!(running.session.subagents(), []);
    assert_eq!(
        running.session.state_get("archivist", "archived").unwrap(),
        None
    );
    assert_eq!(running.provider.recorded_request_bodies().len(), 6);
}

#[tokio::test]
async fn a_hook_that_hangs_refuses_as_a_guard_and_is_passed_over_otherwise() {
    for (on_failure, is_done) in [(OnFailure::Block, false), (OnFailure::Skip, true)] {
        let setup =
            archiving(reads(5)).bind::<at::BeforeArchive>("hangs", on_failure, Arc::new(Hang));
        let mut running = setup.build();
        running.archived_turn("go on").await;
        assert_eq!(ends(&running)[0].0.is_some(), is_done, "{on_failure:?}");
        assert_eq!(running.lines().len(), if is_done { 2 } else { 12 });
    }
}

#[tokio::test]
async fn it_can_be_interrupted_anywhere_and_nothing_is_lost() {
    let (mut n_kept, mut n_archived) = (0, 0);
    for n in 0.. {
        let summary = Reply {
            delay_ms: 20,
            ..Reply::text("It went well and as it was to be expected.")
        };
        let mut script = reads(5);
        script.extend([read("b.txt"), read("b.txt")]);
        script.push(Reply {
            delay_ms: 60,
            ..Reply::text("done again")
        });
        let mut setup = with_summary(script, summary)
            .hook::<at::BeforeArchive>("looks", |_, _| Ok(o::SliceOutcome::default()));
        setup.config.archival.summary.style = rind::agent::SummaryStyle::Paragraph;
        let (store, workspace) = (setup.store(), setup.workspace());
        let mut running = setup.build();
        running.turn("go on").await;
        assert_eq!(running.session.turns_due_for_archival().len(), 1);
        let cancel = CancellationToken::new();
        let outcome = {
            let turn = running.agent.turn("and on").until(&cancel);
            tokio::pin!(turn);
            let mut n_seen = 0;
            loop {
                if n_seen >= n {
                    cancel.cancel();
                }
                tokio::select! {
                    biased;
                    event = running.receiver.recv() => {
                        n_seen += 1;
                        running.stream.extend(event);
                    }
                    outcome = &mut turn => break outcome.unwrap(),
                }
            }
        };
        let stop = outcome.summary.stop;
        running.drain();
        let messages = running.session.messages();
        check_pairs(&messages);
        let is_archived = ends(&running).iter().any(|end| end.0.is_some());
        let n_first = if is_archived { 2 } else { 12 };
        assert_eq!(messages[0].joined_text(), "go on");
        let texts: Vec<String> = messages.iter().map(Message::joined_text).collect();
        let second = texts.iter().position(|text| text == "and on");
        assert_eq!(second.unwrap_or(texts.len()), n_first, "{n}: {texts:?}");
        assert_eq!(running.session.subagents().len(), usize::from(is_archived));
        let due = usize::from(!is_archived);
        assert_eq!(running.session.turns_due_for_archival().len(), due, "{n}");
        let agents = running.session.local_folder().unwrap().join("agents");
        assert_eq!(agents.exists(), is_archived, "{n}");
        let id = running.session.id().to_string();
        let folder = running.folder;
        drop((running.agent, running.session));
        let resumed = store.resume(&id, &session_spec(&workspace)).unwrap();
        assert_eq!(resumed.messages(), messages, "{n}");
        assert_eq!(resumed.turns_due_for_archival().len(), due, "{n}");
        assert_eq!(resumed.notices(), Vec::<String>::new());
        drop(folder);
        n_archived += usize::from(is_archived);
        n_kept += usize::from(!is_archived);
        if stop == StopReason::Done {
            break;
        }
    }
    assert!(n_kept >= 2 && n_archived >= 1, "{n_kept} {n_archived}");
}

#[tokio::test]
async fn the_next_turn_waits_for_no_summary() {
    let mut script = reads(5);
    script.push(Reply::text("at once"));
    let summary = Reply {
        delay_ms: 3_600_000,
        ..Reply::text(SUMMARY)
    };
    let mut setup = with_summary(script, summary);
    setup.config.archival.summary.timeout_seconds = 3_600;
    let mut running = setup.build();
    running.turn("go on").await;
    assert_eq!(
        running.provider.recorded_request_bodies().len(),
        6,
        "a session that ends here costs no summary"
    );
    let outcome = running.turn("and?").await;
    assert_eq!(outcome.output, "at once");
    assert_eq!(ends(&running), []);
    let session = running.session.clone();
    let started = std::time::Instant::now();
    running.agent.close().await.unwrap();
    assert!(started.elapsed().as_secs() < 60);
    assert_eq!(session.turns_due_for_archival().len(), 1);
    assert_eq!(session.subagents(), []);
}

#[tokio::test]
async fn what_one_process_left_due_is_archived_beside_the_next_turn_of_another() {
    let mut running = archiving(reads(5)).build();
    running.turn("go on").await;
    let mut script = vec![read("b.txt"), read("b.txt")];
    script.push(Reply {
        delay_ms: 200,
        ..Reply::text("done again")
    });
    let mut running = again(running, archiving(script));
    running.turn("and on").await;
    let id = holder(&running);
    let lines = running.lines();
    assert_eq!(lines[0], "user: go on");
    assert!(
        lines[1].contains(&format!("subagent_id: {id}")),
        "{lines:?}"
    );
    assert_eq!(lines[2], "user: and on");
    assert_eq!(running.session.turns_due_for_archival(), []);
    let names = running.names();
    let at = |name: &str| names.iter().position(|n| *n == name).unwrap();
    assert!(at("turn-start") < at("archive-start"), "{names:?}");
}

#[tokio::test]
async fn a_disk_that_fails_leaves_the_turn_and_everybody_is_told() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let setup = archiving(reads(5)).hook::<at::Error>("watcher", move |_, report| {
        sees.lock().unwrap().push(report.where_.clone());
        Ok(o::Observed::default())
    });
    let mut running = setup.build();
    // A file takes the place of the agents' folder, so that no holder can be created.
    std::fs::write(running.session.local_folder().unwrap().join("agents"), "").unwrap();
    let outcome = running.archived_turn("go on").await;
    assert_eq!(outcome.output, "done");
    let ends = ends(&running);
    let why = ends[0].2.as_deref().unwrap();
    assert!(why.starts_with("cannot write "), "{why}");
    assert_eq!(*seen.lock().unwrap(), ["session"]);
    assert_eq!(running.lines().len(), 12);
    assert_eq!(running.session.subagents(), []);
}

#[tokio::test]
async fn follow_ups_and_texts_of_plugins_go_to_the_holder_with_the_rest() {
    let mut script = reads(5);
    script.push(Reply::text("twice done"));
    let setup = archiving(script).hook::<at::TurnStart>("adviser", |_, _| {
        Ok(o::InputOutcome {
            inject: vec![o::Injection {
                text: "be quick".to_owned(),
                keep: true,
            }],
            ..Default::default()
        })
    });
    let mut running = setup.build();
    running
        .agent
        .steering()
        .follow_up("and again", Source::Terminal);
    running.archived_turn("go on").await;
    assert_eq!(running.lines().len(), 2);
    assert_eq!(running.lines()[0], "user: go on");
    let kept = messages(entries(&running, &format!("/agents/{}", holder(&running))));
    let texts: Vec<String> = kept.iter().map(Message::joined_text).collect();
    assert!(texts.contains(&"and again".to_owned()), "{texts:?}");
    assert!(texts[1].contains("be quick"), "{texts:?}");
}

#[tokio::test]
async fn compaction_leaves_holders_alone_and_takes_a_summary_for_any_other_text() {
    let mut script = reads(5);
    script.extend(reads(4));
    let mut setup = archiving(script);
    setup.config.archival.trigger.token_threshold = 1_000_000;
    setup.config.compact.threshold_tokens = Some(8000);
    setup.config.compact.keep_last_messages = 1;
    setup.config.compact.keep_tokens = 1;
    setup.config.compact.max_summary_tokens = 200;
    let long = "a line of text\n".repeat(800);
    std::fs::write(setup.workspace().join("a.txt"), long).unwrap();
    let mut running = setup.build();
    running.archived_turn("go on").await;
    let n_compacted = running
        .names()
        .iter()
        .filter(|n| **n == "compact-end")
        .count();
    assert!(n_compacted > 0);
    let id = holder(&running);
    // Compaction removed messages from the conversation during the turn; the holder has all of
    // them.
    let kept = messages(entries(&running, &format!("/agents/{id}")));
    assert_eq!(kept.len(), 12);
    assert_eq!(running.lines().len(), 2);
    let before = std::fs::read(
        running
            .session
            .local_folder()
            .unwrap()
            .join(format!("agents/{id}/session.jsonl")),
    );

    running.archived_turn("and on").await;
    let lines = running.lines();
    assert!(
        lines[1].starts_with("user: [summary of earlier messages"),
        "{}",
        lines[1]
    );
    assert!(!lines.iter().any(|line| line.contains("[archived turn]\n")));
    let last = running.provider.recorded_request_bodies().len() - 1;
    assert!(system(&running, last).contains(&id));
    let after = std::fs::read(
        running
            .session
            .local_folder()
            .unwrap()
            .join(format!("agents/{id}/session.jsonl")),
    );
    assert_eq!(before.unwrap(), after.unwrap());
}

#[tokio::test]
async fn what_policy_denies_and_hooks_block_holds_for_the_tools_of_subagents_too() {
    let script = vec![
        Reply::call("spawn_subagent", json!({"task": "go", "wait": true})),
        Reply::call("query_subagent", json!({"id": "held-1", "search": "x"})),
        Reply::text("done"),
    ];
    let mut setup = archiving(script).hook::<at::PreTool>("guard", |_, proposed| {
        let is_query = proposed.call.name == "query_subagent";
        Ok(o::CallOutcome {
            verdict: if is_query {
                o::CallVerdict::Block("not now".to_owned())
            } else {
                o::CallVerdict::Pass
            },
            ..Default::default()
        })
    });
    let rule = PolicyRule::for_tool("spawn_subagent", RuleDecision::Deny).unwrap();
    setup.policy.rules = vec![rule];
    let mut running = setup.build();
    running.archived_turn("go on").await;
    let refused: Vec<Option<String>> = running.results().into_iter().map(|r| r.2).collect();
    assert_eq!(
        refused,
        [Some("policy".to_owned()), Some("plugin guard".to_owned())]
    );
}
