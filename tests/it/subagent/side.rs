//! Tests of several subagents at once: waited for, stopped, continued, blocked.

use std::time::{Duration, Instant};

use rind::message::EffectClass;
use rind::point::payload::StopReason;
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::{NativeTool, check_pairs, session_spec};

/// Returns a tool that waits until its call is cancelled.
fn hang() -> impl rind::tool::Tool {
    NativeTool::new("hang", EffectClass::Read, |cancelled| {
        Box::pin(async move {
            cancelled.cancelled().await;
            ToolOutput::ok("half done")
        })
    })
}

/// Returns the replies of three subagents: one reads a file, one is refused a write, one hangs.
fn workers() -> Vec<Reply> {
    vec![
        reply(
            "Read a.txt",
            1,
            Reply::call("read_file", json!({"path": "a.txt"})),
        ),
        reply("Read a.txt", 2, Reply::text("it says alpha")),
        reply(
            "Write c.txt",
            1,
            Reply::call("write_file", json!({"path": "c.txt", "content": "x"})),
        ),
        reply("Write c.txt", 2, Reply::text("I could not write")),
        reply("Hang", 1, Reply::call("hang", json!({}))),
    ]
}

/// Returns the calls that start the three subagents of [`workers`].
fn three() -> Reply {
    spawn("investigate", "Read a.txt")
        .with_tool_call(
            "spawn_subagent",
            json!({"task": "Write c.txt", "preset": "work"}),
        )
        .with_tool_call(
            "spawn_subagent",
            json!({"task": "Hang", "preset": "investigate", "tools": ["hang"]}),
        )
}

#[tokio::test]
async fn three_subagents_side_by_side_one_is_stopped_one_continued_and_one_is_blocked() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, three()),
        reply(
            "go on",
            2,
            Reply::call(
                "wait_subagents",
                json!({"ids": ["@Read a.txt", "@Write c.txt"]}),
            ),
        ),
        reply("go on", 3, Reply::call("list_subagents", json!({}))),
        reply(
            "go on",
            4,
            Reply::call("stop_subagent", json!({"id": "@Hang"})),
        ),
        reply(
            "go on",
            5,
            Reply::call(
                "continue_subagent",
                json!({"id": "@Read a.txt", "message": "And b.txt?", "wait": true}),
            ),
        ),
        reply("go on", 6, Reply::text("done")),
        reply(
            "And b.txt?",
            1,
            Reply::call("read_file", json!({"path": "b.txt"})),
        ),
        reply("And b.txt?", 2, Reply::text("it says beta")),
    ]);
    let setup = setup(script).tool(hang()).asking(vec![ApprovalAnswer::Yes]);
    let mut running = setup.build();
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "done");
    let results = running.results();
    let texts: Vec<&str> = results.iter().map(|result| &*result.0).collect();

    // Each call returns as soon as its subagent runs.
    for text in &texts[..3] {
        assert!(text.contains("\nstate: running\n"), "{text}");
    }
    let (answers, list, stopped, continued) = (texts[3], texts[4], texts[5], texts[6]);
    assert!(
        answers.contains("\n\nit says alpha\n\n---\n\n"),
        "{answers}"
    );
    assert!(
        answers
            .contains("\nstate: blocked\n\nI could not write\n\n[blocked: a subagent cannot ask"),
        "{answers}"
    );
    assert!(answers.contains("`write_file`"), "{answers}");
    assert_eq!(running.approver.asked.lock().unwrap().len(), 0);
    assert!(!running.folder.path().join("w/c.txt").exists());

    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 3, "{list}");
    for expected in [
        " | answered | investigate | 2 steps | task: Read a.txt",
        " | blocked | work | 2 steps | task: Write c.txt",
        " | running | investigate | step 1 | hang | task: Hang",
    ] {
        let is_it = |row: &&str| row.starts_with("- sub-") && row.ends_with(expected);
        assert!(rows.iter().any(is_it), "{expected}\n{list}");
    }
    assert!(
        stopped.ends_with("\nstate: stopped\n\nthe subagent was stopped: its parent stopped it"),
        "{stopped}"
    );
    assert!(continued.ends_with("\n\nit says beta"), "{continued}");
    assert_eq!(
        ends(&running).last().unwrap(),
        &("And b.txt?".to_owned(), SubagentState::Answered)
    );

    // The continued subagent has its complete conversation in one file.
    let children = running.session.subagents();
    assert_eq!(children.len(), 3);
    let sent = running.provider.recorded_request_bodies();
    let last = sent
        .iter()
        .rev()
        .find(|body| body.to_string().contains("beta"));
    assert!(last.unwrap().to_string().contains("it says alpha"));
    for child in &children {
        let own = entries_of(&running, &child.agent);
        assert!(matches!(own.last(), Some(Body::TurnEnd { .. })), "{own:?}");
    }
    assert_eq!(faults(&running), Vec::<String>::new());
    check_pairs(&running.session.messages());
    let of_children: u64 = running
        .stream
        .iter()
        .filter_map(|stamped| match &stamped.event {
            Event::SubagentEnd { usage, .. } => Some(usage.total()),
            _ => None,
        })
        .sum();
    assert!(of_children > 0 && outcome.summary.usage.total() > of_children);
}

#[tokio::test]
async fn the_model_is_told_once_of_subagents_that_an_answer_would_stop() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, three()),
        reply("go on", 2, Reply::text("I am done")),
        reply("subagents still run", 1, Reply::text("really done")),
    ]);
    let mut running = setup(script).tool(hang()).build();
    let started = Instant::now();
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "really done");
    assert_eq!(outcome.summary.stop, StopReason::Done);
    assert!(started.elapsed() < Duration::from_secs(6));
    let hang = ends(&running).into_iter().find(|end| end.0 == "Hang");
    assert_eq!(hang.unwrap().1, SubagentState::Stopped);
    assert_eq!(running.names().last(), Some(&"turn-end"));
    assert_eq!(faults(&running), Vec::<String>::new());
    let told = running.events.iter().any(|event| {
        matches!(event, Event::Notice { text, .. } if text.contains("the turn ended while subagents ran"))
    });
    assert!(told);
}

#[tokio::test]
async fn subagents_that_run_side_by_side_end_with_a_turn_that_is_interrupted_or_dropped() {
    for is_dropped in [false, true] {
        let mut script = workers();
        script.extend([
            reply("go on", 1, three()),
            reply(
                "go on",
                2,
                Reply::call("wait_subagents", json!({"ids": ["@Hang"]})),
            ),
        ]);
        let mut running = setup(script).tool(hang()).build();
        let cancel = CancellationToken::new();
        let limit = Duration::from_millis(1500);
        if is_dropped {
            let turn = running.agent.turn("go on").until(&cancel);
            assert!(tokio::time::timeout(limit, turn).await.is_err());
            tokio::time::sleep(limit).await;
        } else {
            let user = cancel.clone();
            let stop = async move {
                tokio::time::sleep(limit).await;
                user.cancel();
            };
            let turn = running.agent.turn("go on").until(&cancel);
            let (outcome, ()) = tokio::join!(turn, stop);
            assert_eq!(outcome.unwrap().summary.stop, StopReason::Cancelled);
        }
        running.drain();
        let hang = ends(&running).into_iter().find(|end| end.0 == "Hang");
        assert_eq!(hang.unwrap().1, SubagentState::Stopped, "{is_dropped}");
        let mut children = running.session.subagents().into_iter();
        let child = children.find(|child| child.task == "Hang").unwrap();
        let own = entries_of(&running, &child.agent);
        assert!(matches!(own.last(), Some(Body::TurnEnd { .. })), "{own:?}");
        assert_eq!(faults(&running), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_subagent_of_an_earlier_run_is_listed_read_and_continued_by_the_beginning_of_its_id() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, spawn("work", "Write c.txt")),
        reply("go on", 2, Reply::call("wait_subagents", json!({}))),
        reply("go on", 3, Reply::text("done")),
    ]);
    let mut running = setup(script).asking(Vec::new()).build();
    running.turn("go on").await;
    let id = running.session.subagents().remove(0).agent;
    let (begin, session) = (&id[..8], running.session.id().to_string());

    let script = vec![
        reply("next", 1, Reply::call("list_subagents", json!({}))),
        reply(
            "next",
            2,
            Reply::call("wait_subagents", json!({"ids": [begin]})),
        ),
        reply(
            "next",
            3,
            Reply::call("query_subagent", json!({"id": begin, "search": "blocked:"})),
        ),
        reply(
            "next",
            4,
            Reply::call(
                "continue_subagent",
                json!({"id": begin, "message": "Now you may", "wait": true}),
            ),
        ),
        reply(
            "next",
            5,
            Reply::call("stop_subagent", json!({"id": begin})),
        ),
        reply(
            "next",
            6,
            Reply::call("stop_subagent", json!({"id": "sub-zzz"})),
        ),
        reply("next", 7, Reply::text("done")),
        reply(
            "Now you may",
            1,
            Reply::call("write_file", json!({"path": "c.txt", "content": "x"})),
        ),
        reply("Now you may", 2, Reply::text("written")),
    ];
    let mut later = setup(script);
    later.folder = running.folder;
    drop((running.agent, running.session));
    let session = later
        .store()
        .resume(&session, &session_spec(&later.workspace()))
        .unwrap();
    let mut running = later.build_on(session);
    running.turn("next").await;
    let results = running.results();
    let texts: Vec<&str> = results.iter().map(|result| &*result.0).collect();
    assert!(
        texts[0].contains(" | blocked | work | task: Write c.txt"),
        "{texts:#?}"
    );
    assert!(
        texts[1].contains("\nstate: blocked\n\nI could not write"),
        "{texts:#?}"
    );
    assert!(
        texts[2].contains("blocked: a subagent cannot ask"),
        "{texts:#?}"
    );
    assert!(texts[3].ends_with("\n\nwritten"), "{texts:#?}");
    assert!(texts[4].ends_with("is not running: answered"), "{texts:#?}");
    assert!(
        texts[5].contains("there is no subagent `sub-zzz`; the newest are sub-"),
        "{texts:#?}"
    );
    assert!(running.folder.path().join("w/c.txt").exists());
    assert_eq!(running.session.subagents().len(), 1);
    let turns = entries_of(&running, &id).into_iter();
    let turns = turns.filter(|body| matches!(body, Body::TurnStart { .. }));
    assert_eq!(turns.count(), 2);
    assert_eq!(faults(&running), Vec::<String>::new());
}

#[tokio::test]
async fn a_beginning_that_several_ids_have_names_them_and_stops_none() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, three()),
        reply(
            "go on",
            2,
            Reply::call("stop_subagent", json!({"id": "sub-"})),
        ),
        reply(
            "go on",
            3,
            Reply::call("wait_subagents", json!({"any": true})),
        ),
        reply(
            "go on",
            4,
            Reply::call("wait_subagents", json!({"timeout_seconds": 1})),
        ),
        reply("go on", 5, Reply::text("done")),
        reply("subagents still run", 1, Reply::text("done")),
    ]);
    let mut running = setup(script).tool(hang()).build();
    running.turn("go on").await;
    let results = running.results();
    let (ambiguous, is_error, _) = &results[3];
    assert!(is_error, "{ambiguous}");
    assert!(
        ambiguous.starts_with("`sub-` is the beginning of 3 ids: sub-"),
        "{ambiguous}"
    );
    // Waiting for any subagent returns although one hangs, and a timeout is no failure.
    assert!(!results[4].1 && !results[5].1, "{results:#?}");
    assert!(
        results[5].0.contains("\nstate: running"),
        "{}",
        results[5].0
    );
}

#[tokio::test]
async fn a_monitor_sees_the_subagents_of_its_parent_and_has_no_other_tools() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, three()),
        reply(
            "go on",
            2,
            Reply::call(
                "spawn_subagent",
                json!({"task": "Watch them", "preset": "monitor", "wait": true}),
            ),
        ),
        reply("go on", 3, Reply::text("done")),
        reply("subagents still run", 1, Reply::text("done")),
        reply("Watch them", 1, Reply::call("list_subagents", json!({}))),
        reply("Watch them", 2, Reply::text("{tool_result}")),
    ]);
    let mut running = setup(script).tool(hang()).build();
    running.turn("go on").await;
    let watched = running.results().pop().unwrap().0;
    assert!(watched.contains(" | running | "), "{watched}");
    assert!(watched.contains("task: Hang"), "{watched}");
    let bodies = running.provider.recorded_request_bodies();
    let own = bodies
        .iter()
        .find(|body| body["messages"].to_string().contains("Watch them"))
        .unwrap();
    let tools: Vec<&str> = own["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["list_subagents", "query_subagent"]);
}

#[tokio::test]
async fn a_session_that_was_tampered_with_gives_a_subagent_no_tool_and_leads_nowhere_else() {
    let mut script = workers();
    script.extend([
        reply("go on", 1, spawn("investigate", "Read a.txt")),
        reply("go on", 2, Reply::call("wait_subagents", json!({}))),
        reply("go on", 3, Reply::text("done")),
    ]);
    let mut running = setup(script).build();
    running.turn("go on").await;
    let id = running.session.subagents().remove(0).agent;
    let session = running.session.id().to_string();
    let folder = running.session.local_folder().unwrap();
    let kept = running.folder;
    drop((running.agent, running.session));
    let file = folder.join("session.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let tampered = text.replacen(
        "\"tools\":[\"list_files\"",
        "\"tools\":[\"bash\",\"list_files\"",
        1,
    );
    assert_ne!(text, tampered);
    std::fs::write(&file, tampered).unwrap();
    let go_on = |message: &str| {
        vec![
            reply(
                "next",
                1,
                Reply::call(
                    "continue_subagent",
                    json!({"id": id, "message": message, "wait": true}),
                ),
            ),
            reply("next", 2, Reply::text("done")),
            always("Use it", Reply::text("used")),
        ]
    };
    let mut later = setup(go_on("Use it"));
    later.folder = kept;
    let resumed = later
        .store()
        .resume(&session, &session_spec(&later.workspace()))
        .unwrap();
    let mut running = later.build_on(resumed);
    running.turn("next").await;
    let bodies = running.provider.recorded_request_bodies();
    let own = bodies
        .iter()
        .find(|body| body["messages"].to_string().contains("Use it"));
    let tools = own.unwrap()["tools"].to_string();
    assert!(
        tools.contains("read_file") && !tools.contains("\"bash\""),
        "{tools}"
    );

    // The folder of the subagent becomes a link.
    let kept = running.folder;
    drop((running.agent, running.session));
    let (own, elsewhere) = (
        folder.join("agents").join(&id),
        kept.path().join("elsewhere"),
    );
    std::fs::rename(&own, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    let before = std::fs::read(elsewhere.join("session.jsonl")).unwrap();
    let mut later = setup(go_on("Use it"));
    later.folder = kept;
    let resumed = later
        .store()
        .resume(&session, &session_spec(&later.workspace()))
        .unwrap();
    let mut running = later.build_on(resumed);
    running.turn("next").await;
    let (text, is_error, _) = running.results().remove(0);
    assert!(is_error, "{text}");
    assert!(text.starts_with("the subagent has no session: "), "{text}");
    assert_eq!(
        std::fs::read(elsewhere.join("session.jsonl")).unwrap(),
        before
    );
}
