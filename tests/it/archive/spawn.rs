//! Tests of `spawn_subagent`: work that the model delegates, and archival within subagents.

use std::sync::{Arc, Mutex};

use rind::message::EffectClass;
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::point::payload::StopReason;
use rind::session::examine_session;
use rind::tool::ToolOutput;
use rind::tool::approval::ApprovalAnswer;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::harness::{NativeTool, check_pairs};

fn spawn(task: &str, tools: &[&str]) -> Reply {
    Reply::call(
        "spawn_subagent",
        json!({"task": task, "tools": tools, "wait": true}),
    )
}

/// Returns the holders of turns that were archived within subagents.
fn inner_holders(running: &Running) -> Vec<String> {
    let id = |stamped: &Stamped| match &stamped.event {
        Event::ArchiveEnd { holder, .. } if !stamped.is_from_main_agent() => holder.clone(),
        _ => None,
    };
    running.stream.iter().filter_map(id).collect()
}

#[tokio::test]
async fn a_subagent_works_with_tools_that_only_read_and_its_answer_is_the_result() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (starts, stops) = (told.clone(), told.clone());
    let script = vec![
        Reply::call(
            "spawn_subagent",
            json!({"task": "Look into a.txt", "wait": true}),
        ),
        read("a.txt"),
        Reply::text("it says alpha"),
        Reply::text("done"),
    ];
    let setup = archiving(script)
        .hook::<at::SubagentStart>("watcher", move |_, agent| {
            starts.lock().unwrap().push(agent.task.clone());
            Ok(o::Observed::default())
        })
        .hook::<at::SubagentEnd>("watcher", move |_, agent| {
            stops.lock().unwrap().push(agent.answer.clone());
            Ok(o::Observed::default())
        });
    let mut running = setup.build();
    let outcome = running.turn("find it").await;
    assert_eq!(outcome.output, "done");
    assert_eq!(*told.lock().unwrap(), ["Look into a.txt", "it says alpha"]);
    assert_eq!(tools(&running, 1), ["list_files", "read_file", "search"]);
    assert_eq!(running.request(1), ["user: Look into a.txt"]);
    let child = running.session.subagents().remove(0);
    assert!(!child.is_holder);
    assert_eq!(
        last_result(&running),
        format!("subagent_id: {}\n\nit says alpha", child.agent)
    );
    let start = entries(&running, "")
        .into_iter()
        .find_map(|body| match body {
            Body::SubagentStart { plugin, .. } => Some(plugin),
            _ => None,
        });
    assert_eq!(start, Some(None));

    // The finished subagent can be queried like a holder, and is not listed as live.
    let query = json!({"id": child.agent, "search": "alpha"});
    let script = vec![Reply::call("query_subagent", query), Reply::text("ok")];
    let mut running = again(running, archiving(script));
    running.turn("and?").await;
    assert!(
        last_result(&running).starts_with("2 of "),
        "{}",
        last_result(&running)
    );
    assert!(!system(&running, 0).contains("Live subagents"));
}

#[tokio::test]
async fn a_subagent_gets_only_tools_of_its_parent_and_nobody_approves_for_it() {
    let script = vec![
        spawn("Fly", &["fly"]),
        spawn("Write", &["write_file"]),
        Reply::call("write_file", json!({"path": "c.txt", "content": "x"})),
        Reply::text("could not"),
        Reply::text("done"),
    ];
    let mut running = archiving(script).asking(vec![ApprovalAnswer::Yes]).build();
    running.turn("go on").await;
    let (content, is_error, _) = running.results().remove(0);
    assert!(is_error);
    assert!(
        content.starts_with("there is no tool `fly` to give to a subagent"),
        "{content}"
    );
    assert!(
        running.request(3)[2].starts_with("tool!: blocked: a subagent cannot ask for approval"),
        "{:?}",
        running.request(3)
    );
    assert_eq!(running.approver.asked.lock().unwrap().len(), 0);
    assert!(!running.folder.path().join("w/c.txt").exists());
}

#[tokio::test]
async fn a_turn_runs_sixteen_subagents_and_no_more() {
    let mut all = Reply::default();
    for n in 0..17 {
        all = all.with_tool_call(
            "spawn_subagent",
            json!({"task": format!("task {n}"), "wait": true}),
        );
    }
    let mut script = vec![all];
    script.extend((0..16).map(|_| Reply::text("yes")));
    script.push(Reply::text("done"));
    let mut setup = archiving(script);
    setup.config.archival.enabled = false;
    let mut running = setup.build();
    running.turn("go on").await;
    let results = running.results();
    assert_eq!(results.len(), 17);
    let failed: Vec<&String> = results.iter().filter(|r| r.1).map(|r| &r.0).collect();
    assert_eq!(
        failed,
        ["the limit of 16 subagents in this turn is reached"]
    );
}

#[tokio::test]
async fn a_subagent_of_the_model_ends_with_the_turn() {
    let cancel = CancellationToken::new();
    let user = cancel.clone();
    let wait = NativeTool::new("wait", EffectClass::Read, move |cancelled| {
        user.cancel();
        Box::pin(async move {
            cancelled.cancelled().await;
            ToolOutput::ok("half done")
        })
    });
    let wait_call = Reply::call("wait", json!({}));
    let script = vec![spawn("Wait", &["wait"]), wait_call, Reply::text("done")];
    let mut running = archiving(script).tool(wait).build();
    let turn = running.agent.turn("go on").until(&cancel);
    let outcome = turn.await.unwrap();
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    running.drain();
    let names = running.names();
    assert_eq!(names.last(), Some(&"turn-end"), "{names:?}");
    assert!(names.contains(&"subagent-end"), "{names:?}");
    check_pairs(&running.session.messages());
    let sub = running.session.subagents().remove(0).agent;
    let own = entries(&running, &format!("/agents/{sub}"));
    assert!(matches!(own.last(), Some(Body::TurnEnd { .. })), "{own:?}");
    check_pairs(&messages(own));
}

/// Sets up an agent whose subagent makes five calls.
fn busy() -> Setup {
    let mut script = vec![spawn("Read on and on", &["read_file"])];
    script.extend(reads(5));
    script.push(Reply::text("all done"));
    archiving(script)
}

#[tokio::test]
async fn a_turn_of_a_subagent_is_due_at_its_end_and_nobody_pays_to_sum_it_up_before_the_next() {
    let mut running = busy().build();
    running.archived_turn("go on").await;
    let sub = running.session.subagents().remove(0).agent;
    assert_eq!(inner_holders(&running), Vec::<String>::new());
    assert_eq!(ends(&running), [], "one call of its own is not many");
    assert_eq!(
        running.provider.recorded_request_bodies().len(),
        8,
        "two requests above, six below"
    );
    assert_eq!(last_result(&running), format!("subagent_id: {sub}\n\ndone"));
    let is_due = |body: &Body| matches!(body, Body::Archival { turn: 1, reason, is_over: false, .. } if reason == "tool-calls");
    let own = entries(&running, &format!("/agents/{sub}"));
    assert!(own.iter().any(is_due), "{own:?}");

    let query = json!({"id": sub, "search": "alpha"});
    let script = vec![Reply::call("query_subagent", query), Reply::text("ok")];
    running = again(running, archiving(script));
    running.turn("and?").await;
    let found = last_result(&running);
    assert!(found.starts_with("5 of "), "{found}");
}

#[tokio::test]
async fn a_subagent_that_is_continued_archives_its_turn_into_a_holder_below_its_own_folder() {
    let mut running = busy().build();
    running.turn("go on").await;
    let sub = running.session.subagents().remove(0).agent;
    let more = json!({"id": sub, "message": "And once more", "wait": true});
    let script = vec![
        Reply::call("continue_subagent", more),
        read("a.txt"),
        read("a.txt"),
        Reply::text("it still says alpha"),
        Reply::text("all done"),
    ];
    running = again(running, archiving(script));
    running.turn("next").await;
    assert!(last_result(&running).ends_with("it still says alpha"));
    let held = inner_holders(&running);
    assert_eq!(held.len(), 1, "{held:?}");
    let place = format!("/agents/{sub}/agents/{}", held[0]);
    let id = running.session.id().to_string();
    let file = running
        .folder
        .path()
        .join(format!("sessions/{id}{place}/session.jsonl"));
    assert!(file.is_file(), "{}", file.display());
    let kept = entries(&running, &place);
    assert!(
        matches!(kept[1], Body::TurnStart { turn: 1, .. }),
        "{kept:?}"
    );
    assert_eq!(
        messages(kept).len(),
        12,
        "the task, five calls with results, the answer"
    );
    let own = entries(&running, &format!("/agents/{sub}"));
    let is_archived = |body: &Body| matches!(body, Body::Replaced { holder: Some(holder), .. } if holder.agent == held[0]);
    assert_eq!(own.iter().filter(|body| is_archived(body)).count(), 1);
    check_pairs(&messages(own));
    assert_eq!(examine_session(&store(&running), &id).unwrap().faults, []);

    // The parent agent can query the subagent's holder by its id.
    let query = json!({"id": held[0], "search": "alpha"});
    let script = vec![Reply::call("query_subagent", query), Reply::text("ok")];
    running = again(running, archiving(script));
    running.turn("and?").await;
    let found = last_result(&running);
    assert!(found.starts_with("5 of "), "{found}");
}

#[tokio::test]
async fn no_agent_is_as_deep_as_the_depth_cap() {
    for (depth_cap, expected) in [
        (3, "subagent_id: "),
        (2, "subagent_id: "),
        (1, "at most 0 deep"),
    ] {
        let mut setup = busy();
        setup.config.archival.trigger.depth_cap = depth_cap;
        let mut running = setup.build();
        running.turn("go on").await;
        let results = running.results();
        assert!(results[0].0.contains(expected), "{depth_cap}: {results:?}");
    }
}
