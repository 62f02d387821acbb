//! Tests of the model's subagents: presets, concurrency, stopping, continuing, blocking, and
//! limits.

mod limits;
mod preset;
mod side;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rind::event::{Event, SubagentState};
use rind::point::catalog as at;
use rind::point::outcome as o;
use rind::provider::scripted::{Reply, ReplyCondition};
use rind::session::{Body, SessionStore, examine_session};
use serde_json::{Value, json};

use crate::harness::{Running, Setup};

/// Returns a reply to requests of this step of a turn whose input contains this text.
fn reply(contains: &str, step: u32, reply: Reply) -> Reply {
    let when = ReplyCondition {
        contains: Some(contains.to_owned()),
        step: Some(step),
        ..ReplyCondition::default()
    };
    Reply {
        when: Some(when),
        ..reply
    }
}

/// Returns a reply to all requests of turns whose input contains this text.
fn always(contains: &str, reply: Reply) -> Reply {
    let when = ReplyCondition {
        contains: Some(contains.to_owned()),
        ..ReplyCondition::default()
    };
    Reply {
        when: Some(when),
        times: Some(0),
        ..reply
    }
}

fn spawn(preset: &str, task: &str) -> Reply {
    Reply::default().with_tool_call("spawn_subagent", json!({"task": task, "preset": preset}))
}

/// Returns the setup of an agent with subagents. In the arguments of its calls, `@TASK` stands for
/// the id of the subagent with this task.
fn setup(script: Vec<Reply>) -> Setup {
    let ids: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let learnt = ids.clone();
    let mut setup = Setup::new(script);
    setup.config.subagents.enabled = true;
    setup
        .hook::<at::PostTool>("ids", move |_, finished| {
            let text = finished.result.content.to_string();
            let id = text.strip_prefix("subagent_id: ");
            let task = finished.call.arguments["task"].as_str();
            if let (Some(id), Some(task)) = (id, task) {
                let id = id.lines().next().unwrap().to_owned();
                learnt.lock().unwrap().insert(task.to_owned(), id);
            }
            Ok(o::ResultOutcome::default())
        })
        .hook::<at::PreTool>("ids", move |_, proposed| {
            let written = proposed.call.arguments.to_string();
            let mut text = written.clone();
            for (task, id) in ids.lock().unwrap().iter() {
                text = text.replace(&format!("@{task}"), id);
            }
            Ok(o::CallOutcome {
                verdict: match text == written {
                    true => o::CallVerdict::Pass,
                    false => o::CallVerdict::Change(text),
                },
                ..Default::default()
            })
        })
}

/// Returns task and state of each subagent that ended, in the order of their ends.
fn ends(running: &Running) -> Vec<(String, SubagentState)> {
    let mut tasks = BTreeMap::new();
    let mut ends = Vec::new();
    for stamped in &running.stream {
        match &stamped.event {
            Event::SubagentStart { subagent, task, .. } => {
                tasks.insert(subagent.clone(), task.clone());
            }
            Event::SubagentEnd {
                subagent, state, ..
            } => ends.push((tasks[subagent].clone(), *state)),
            _ => {}
        }
    }
    ends
}

/// Returns the entries of a subagent's session.
fn entries_of(running: &Running, agent: &str) -> Vec<Body> {
    let store = SessionStore::new(running.folder.path().join("sessions"));
    let id = format!("{}/agents/{agent}", running.session.id());
    let (entries, notices) = store.read_entries(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries.into_iter().map(|entry| entry.body).collect()
}

/// Returns the faults that an examination of the session finds.
fn faults(running: &Running) -> Vec<String> {
    let store = SessionStore::new(running.folder.path().join("sessions"));
    let examined = examine_session(&store, running.session.id()).unwrap();
    let faults = examined.faults.into_iter();
    faults.map(|fault| fault.what).collect()
}
