//! One turn that meets every point, and a rendering of the points that fired.

use rind::event::{Event, Stamped};
use rind::point::catalog as at;
use rind::point::failure::Failure;
use rind::point::outcome as o;
use rind::point::payload::Source;
use rind::point::trace::TraceRecord;
use rind::provider::scripted::Reply;
use rind_tests::guests::Host;
use serde_json::json;

use super::PLUGIN;
use super::scene::{INPUT, make_archived, make_long, setup};
use crate::harness::Running;

/// Runs one turn that meets every point (a subagent, steering, compaction, a failing hook, a
/// follow-up, archival) and closes the session. Returns all events and all stored values.
pub(super) async fn whole_turn(host: &Host) -> (Vec<Stamped>, Vec<String>) {
    let act = json!({"what": "run", "text": "Read b.txt", "tools": ["read_file"]});
    let read = |path: &str| Reply::call("read_file", json!({"path": path}));
    let script = vec![
        Reply::call("act", act).with_tool_call("skill", json!({"skill": "plain"})),
        read("b.txt"),
        Reply::text("it says beta"),
        read("a.txt"),
        read("a.txt"),
        read("a.txt"),
        Reply::text("the draft"),
        Reply::text("the second answer"),
        Reply::text(r#"{"outcome": "all was read"}"#),
    ];
    let mut setup = setup(host, script).await;
    setup = setup.hook::<at::PreOutput>("broken", |_, text| match text.as_str() {
        "the draft" => Err(Failure::Error("out of ideas".to_owned())),
        _ => Ok(o::OutputOutcome::default()),
    });
    let plain = crate::skill_session::skill("plain", "Go on.");
    setup.skills = rind::skill::SessionSkills::new([plain], Vec::new());
    make_long(&mut setup);
    // The threshold is higher because the tools of archival are in every request.
    setup.config.compact.threshold_tokens = Some(8_000);
    make_archived(&mut setup, 3);
    let mut running = setup.build();
    let queue = running.agent.steering();
    queue.steer("hurry", Source::Terminal);
    queue.follow_up("and then?", Source::Terminal);
    running.archived_turn(INPUT).await;
    let stored = running.stored.clone();
    let events = close(running).await;
    let stored = stored.lock().unwrap().clone();
    (events, stored)
}

/// Closes the session and returns all events, including those of the close.
pub(super) async fn close(running: Running) -> Vec<Stamped> {
    let (mut events, mut receiver) = (running.stream, running.receiver);
    running.agent.close().await.unwrap();
    while let Ok(event) = receiver.try_recv() {
        events.push(event);
    }
    events
}

/// Events of the main agent.
pub(super) fn of_main(events: &[Stamped]) -> impl Iterator<Item = &Event> {
    let main = events.iter().filter(|stamped| stamped.is_from_main_agent());
    main.map(|stamped| &stamped.event)
}

/// Trace records of the plugin's hooks in order, each with the agent that ran it: `main` or `sub`.
pub(super) fn hooks(events: &[Stamped]) -> Vec<(&'static str, TraceRecord)> {
    let of = |stamped: &Stamped| match &stamped.event {
        Event::Hook { record } if &*record.plugin == PLUGIN => {
            let agent = if stamped.is_from_main_agent() {
                "main"
            } else {
                "sub"
            };
            Some((agent, record.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Points that fired in order, one line for each step of each agent: `main 1.2: context pre-reason
/// …`.
pub(super) fn fired(events: &[Stamped]) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (agent, record) in hooks(events) {
        let place = format!("{agent} {}.{}", record.turn, record.step);
        match lines.last_mut() {
            // Repeats of `output-delta` are merged, since their number depends on the speed of the
            // stream.
            Some((last, points))
                if *last == place
                    && record.point == "output-delta"
                    && points.last().is_some_and(|point| point == "output-delta") => {}
            Some((last, points)) if *last == place => points.push(record.point.to_string()),
            _ => lines.push((place, vec![record.point.to_string()])),
        }
    }
    let line = |(place, points): &(String, Vec<String>)| format!("{place}: {}", points.join(" "));
    let lines: Vec<String> = lines.iter().map(line).collect();
    lines.join("\n")
}
