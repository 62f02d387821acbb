//! Turns in which the rows of the table are run, and what can be observed of them.

use std::path::PathBuf;

use rind::agent::{ArchivalConfig, ArchiveTriggerConfig, CompactConfig};
use rind::event::Event;
use rind::grant::Trust;
use rind::message::Message;
use rind::point::payload::{Source, StopReason, TurnSummary};
use rind::provider::scripted::{Reply, ReplyCondition};
use rind::session::SessionStore;
use rind::tool::approval::ApprovalAnswer;
use rind_tests::guests::Host;
use serde_json::{Map, Value, json};

use super::{PLUGIN, Row};
use crate::harness::{Running, Setup, check_pairs, line};

/// The input of the first turn.
pub(super) const INPUT: &str = "go on with the work";

/// Scene around the turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    /// Reads `a.txt`, writes `c.txt`, answers.
    Work,
    /// The first call fails: there is no such file.
    Failing,
    /// The user said `hurry` and then `never mind` before the first request.
    Steered,
    /// The user follows up with `and then?` and `never mind`.
    FollowedUp,
    /// Approval questions are answered with yes.
    AskedYes,
    /// Approval questions are answered with no.
    AskedNo,
    /// Reads until the conversation is too long.
    Long,
    /// The first turn is archived before the next one.
    Archived,
}

/// Observations of one agent's turns.
pub(super) struct Seen {
    /// Bodies of the requests that the provider received.
    pub(super) bodies: Vec<Value>,
    /// Number of requests of the first turn.
    pub(super) first_turn: usize,
    /// Maximum number of requests.
    pub(super) n_requests: usize,
    /// Messages of the conversation, one short line each.
    pub(super) messages: Vec<String>,
    /// The lines of the session on disk.
    pub(super) entries: Vec<Value>,
    pub(super) events: Vec<Value>,
    pub(super) output: String,
    pub(super) stop: StopReason,
    pub(super) steps: u32,
    pub(super) workspace: PathBuf,
    pub(super) asked: Vec<String>,
    /// Keeps the temporary folder alive.
    _running: Running,
}

impl Seen {
    pub(super) fn requests_with(&self, text: &str) -> Vec<usize> {
        let all = self.bodies.iter().enumerate();
        all.filter(|(_, body)| body.to_string().contains(text))
            .map(|(n, _)| n)
            .collect()
    }

    /// Outcomes of the hook at a point.
    pub(super) fn did(&self, point: &str) -> Vec<&str> {
        let hooks = self.events.iter().filter(|event| event["type"] == "hook");
        hooks
            .filter(|hook| hook["point"] == point && hook["plugin"] == PLUGIN)
            .filter_map(|hook| hook["outcome"].as_str())
            .collect()
    }

    pub(super) fn failures(&self) -> Vec<&Value> {
        let has_failed = |event: &&Value| {
            let outcome = event["outcome"].as_str().unwrap_or_default();
            event["type"] == "hook" && outcome.starts_with("failed")
        };
        self.events.iter().filter(has_failed).collect()
    }
}

/// Counts the values that are of this type and hold the text.
pub(super) fn count(values: &[Value], kind: &str, text: &str) -> usize {
    let is_it = |value: &&Value| value["type"] == kind && value.to_string().contains(text);
    values.iter().filter(is_it).count()
}

/// A host with the plugin, which gives these answers, and with a plugin that runs subagents.
pub(super) fn host(answers: Value) -> Host {
    let mut host = Host::default();
    host.guest(PLUGIN);
    host.plugin(Trust::Managed, "external", |manifest| manifest);
    let answers: toml::Value = serde_json::from_value(answers).unwrap();
    host.set(PLUGIN, "answers", answers);
    host
}

/// The answers of a row as settings, limited to the first turn of agents at this depth.
fn answers(row: &Row, depth: u32) -> Value {
    let mut all = Map::new();
    for (point, answer) in [(row.point, &row.answer)]
        .into_iter()
        .chain(row.also.as_ref().map(|(point, answer)| (*point, answer)))
    {
        let mut answer = answer.clone();
        answer["turn"] = json!(1);
        answer["depth"] = json!(depth);
        all.insert(point.to_owned(), answer);
    }
    Value::Object(all)
}

pub(super) async fn setup(host: &Host, script: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    let left_out = &setup.plugins.left_out;
    assert!(left_out.is_empty(), "{left_out:?}");
    setup
}

/// Replies of the plain turn: two calls and an answer, then "better" as often as requested.
pub(super) fn work() -> Vec<Reply> {
    let more = Reply {
        times: Some(0),
        ..Reply::text("better")
    };
    vec![
        Reply {
            text: Some("I will look".to_owned()),
            ..Reply::call("read_file", json!({"path": "a.txt"}))
        },
        Reply::call("write_file", json!({"path": "c.txt", "content": "new"})),
        Reply::text("the draft"),
        more,
    ]
}

fn script(scene: Scene) -> Vec<Reply> {
    let mut script = work();
    if scene == Scene::Failing {
        script[0] = Reply::call("read_file", json!({"path": "missing.txt"}));
    }
    if scene == Scene::Long {
        let read = script.remove(0);
        script.splice(0..1, std::iter::repeat_n(read, 4));
    }
    // This reply is for the second turn.
    script.push(Reply {
        when: Some(ReplyCondition {
            contains: Some("and now".to_owned()),
            ..ReplyCondition::default()
        }),
        ..Reply::text("the second answer")
    });
    script
}

/// Runs two turns of the main agent; the row's answers apply to the first.
pub(super) async fn run(row: &Row) -> Seen {
    let host = host(answers(row, 0));
    let mut setup = setup(&host, script(row.scene)).await;
    match row.scene {
        Scene::AskedYes => setup = setup.asking(vec![ApprovalAnswer::Yes, ApprovalAnswer::Yes]),
        Scene::AskedNo => setup = setup.asking(Vec::new()),
        Scene::Long => make_long(&mut setup),
        Scene::Archived => make_archived(&mut setup, 2),
        _ => {}
    }
    std::fs::write(setup.workspace().join("AGENTS.md"), "Mind the style.\n").unwrap();
    let mut running = setup.build();
    let queue = running.agent.steering();
    match row.scene {
        Scene::Steered => {
            queue.steer("hurry", Source::Terminal);
            queue.steer("never mind", Source::Terminal);
        }
        Scene::FollowedUp => {
            queue.follow_up("and then?", Source::Terminal);
            queue.follow_up("never mind", Source::Terminal);
        }
        _ => {}
    }
    let outcome = running.archived_turn(INPUT).await;
    let first_turn = running.provider.recorded_request_bodies().len();
    running.turn("and now?").await;
    let events = running.events.iter().map(to_json).collect();
    let messages = running.session.messages();
    let mut seen = seen(running, "", messages, events, &outcome.summary);
    seen.output = outcome.output;
    seen.first_turn = first_turn;
    seen
}

/// Runs the plain turn in a subagent, to which the row's answers apply.
pub(super) async fn run_in_subagent(row: &Row) -> Seen {
    let host = host(answers(row, 1));
    let act = json!({"what": "run", "text": INPUT, "tools": ["read_file", "write_file"]});
    let mut script = vec![Reply::call("act", act)];
    script.extend(work());
    script.push(Reply {
        when: Some(ReplyCondition {
            after_tool: Some("act".to_owned()),
            ..ReplyCondition::default()
        }),
        ..Reply::text("done")
    });
    let setup = setup(&host, script).await;
    std::fs::write(setup.workspace().join("AGENTS.md"), "Mind the style.\n").unwrap();
    let mut running = setup.build();
    running.turn("run one").await;
    let mut id = String::new();
    let mut events = Vec::new();
    let mut summary = None;
    for stamped in &running.stream {
        if !stamped.is_from_main_agent() {
            id = stamped.agent.to_string();
            events.push(to_json(&stamped.event));
            if let Event::TurnEnd {
                summary: end,
                output,
                ..
            } = &stamped.event
            {
                summary = Some((end.clone(), output.clone()));
            }
        }
    }
    let (summary, output) = summary.expect("the subagent ran");
    let folder = format!("/agents/{id}");
    let messages = messages_of(&entries(&running, &folder));
    let mut seen = seen(running, &folder, messages, events, &summary);
    // The first and the last request belong to the parent.
    seen.bodies.pop();
    seen.bodies.remove(0);
    seen.output = output;
    seen
}

fn seen(
    running: Running,
    folder: &str,
    messages: Vec<Message>,
    events: Vec<Value>,
    summary: &TurnSummary,
) -> Seen {
    check_pairs(&messages);
    let asked = running.approver.asked.lock().unwrap().clone();
    let asked = asked.iter().map(|question| format!("{question:?}"));
    Seen {
        bodies: running.provider.recorded_request_bodies(),
        first_turn: 0,
        n_requests: usize::MAX,
        messages: messages.iter().map(line).collect(),
        entries: entries(&running, folder),
        events,
        output: String::new(),
        stop: summary.stop,
        steps: summary.steps,
        workspace: running.folder.path().join("w"),
        asked: asked.collect(),
        _running: running,
    }
}

fn to_json(event: &Event) -> Value {
    serde_json::to_value(event).unwrap()
}

/// Lines of the session on disk, or of a subagent's session in `folder`.
fn entries(running: &Running, folder: &str) -> Vec<Value> {
    let store = SessionStore::new(running.folder.path().join("sessions"));
    let id = format!("{}{folder}", running.session.id());
    let (entries, notices) = store.read_entries(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap())
        .collect()
}

fn messages_of(entries: &[Value]) -> Vec<Message> {
    let messages = entries.iter().filter(|entry| entry["type"] == "message");
    messages
        .map(|entry| serde_json::from_value(entry["message"].clone()).unwrap())
        .collect()
}

/// Makes turns with at least `n_calls` calls be archived.
pub(super) fn make_archived(setup: &mut Setup, n_calls: usize) {
    setup.config.subagents.enabled = true;
    setup.config.archival = ArchivalConfig {
        enabled: true,
        trigger: ArchiveTriggerConfig {
            tool_call_threshold: n_calls,
            ..ArchiveTriggerConfig::default()
        },
        ..ArchivalConfig::default()
    };
}

/// Makes `a.txt` large and the threshold low, so that a few reads lead to compaction.
pub(super) fn make_long(setup: &mut Setup) {
    std::fs::write(setup.workspace().join("a.txt"), "alpha\n".repeat(1200)).unwrap();
    setup.config.compact = CompactConfig {
        threshold_tokens: Some(6_000),
        keep_last_messages: 2,
        keep_tokens: 0,
        ..CompactConfig::default()
    };
}
