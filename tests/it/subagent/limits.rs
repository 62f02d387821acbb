//! Tests of limits on the number, steps, time and cost of subagents.

use std::time::{Duration, Instant};

use rind::message::EffectClass;
use rind::price::Prices;
use rind::tool::ToolOutput;

use super::*;
use crate::harness::NativeTool;

/// Returns replies of a subagent that reads the same file forever.
fn looping() -> Vec<Reply> {
    vec![
        reply(
            "go on",
            1,
            Reply::call("spawn_subagent", json!({"task": "Loop", "wait": true})),
        ),
        reply("go on", 2, Reply::text("done")),
        always("Loop", Reply::call("read_file", json!({"path": "a.txt"}))),
    ]
}

#[tokio::test]
async fn a_subagent_that_loops_for_ever_ends_at_its_limit_of_steps() {
    let mut setup = setup(looping());
    setup.config.subagents.max_steps = 4;
    let mut running = setup.build();
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "done");
    let text = running.results().remove(0).0;
    assert!(
        text.contains("\nstate: limited\n\n[stopped: the limit of 4 steps"),
        "{text}"
    );
    assert_eq!(
        ends(&running),
        [("Loop".to_owned(), SubagentState::Limited)]
    );
    assert_eq!(running.provider.recorded_request_bodies().len(), 6);
}

#[tokio::test]
async fn a_subagent_that_loops_for_ever_ends_at_its_limit_of_cost() {
    let mut setup = setup(looping());
    let prices = json!({"test-model": {"input": 1000.0, "output": 1000.0}});
    setup.config.prices = serde_json::from_value::<Prices>(prices).unwrap();
    setup.config.subagents.max_cost_usd = 3.0;
    let mut running = setup.build();
    let outcome = running.turn("go on").await;
    let text = running.results().remove(0).0;
    assert!(
        text.contains("\nstate: limited\n\n[stopped: the limit of $3.00"),
        "{text}"
    );
    let cost = running
        .stream
        .iter()
        .find_map(|stamped| match stamped.event {
            Event::SubagentEnd { cost_usd, .. } => Some(cost_usd),
            _ => None,
        });
    let cost = cost.unwrap();
    assert!(cost > 3.0 && outcome.summary.cost_usd > cost, "{cost}");
}

#[tokio::test]
async fn a_subagent_that_hangs_is_stopped_at_its_limit_of_time() {
    let hang = NativeTool::new("hang", EffectClass::Read, |cancelled| {
        Box::pin(async move {
            cancelled.cancelled().await;
            ToolOutput::ok("half done")
        })
    });
    let script = vec![
        reply(
            "go on",
            1,
            Reply::call("spawn_subagent", json!({"task": "Hang", "wait": true})),
        ),
        reply("go on", 2, Reply::text("done")),
        always("Hang", Reply::call("hang", json!({}))),
    ];
    let mut setup = setup(script).tool(hang);
    setup.config.subagents.max_seconds = 1;
    let mut running = setup.build();
    let started = Instant::now();
    running.turn("go on").await;
    assert!(started.elapsed() < Duration::from_secs(6));
    let (text, is_error, _) = running.results().remove(0);
    assert!(is_error && text.contains("\nstate: stopped\n\n"), "{text}");
    assert!(text.contains("(subagents.max_seconds)"), "{text}");
}

#[tokio::test]
async fn no_more_run_at_once_and_in_a_session_than_the_settings_say() {
    let two = spawn("minimal", "One").with_tool_call("spawn_subagent", json!({"task": "Two"}));
    let late = Reply {
        delay_ms: 1_000,
        ..Reply::text("yes")
    };
    let script = || {
        vec![
            reply("go on", 1, two.clone()),
            reply("go on", 2, Reply::call("wait_subagents", json!({}))),
            reply("go on", 3, spawn("minimal", "Three")),
            reply("go on", 4, Reply::call("wait_subagents", json!({}))),
            reply("go on", 5, Reply::text("done")),
            always("One", late.clone()),
            always("Two", late.clone()),
            always("Three", Reply::text("yes")),
        ]
    };
    let mut at_once = setup(script());
    at_once.config.subagents.max_running = 1;
    let mut running = at_once.build();
    running.turn("go on").await;
    let results = running.results();
    let refused: Vec<&str> = results.iter().filter(|r| r.1).map(|r| &*r.0).collect();
    assert_eq!(refused.len(), 1, "{results:#?}");
    assert!(
        refused[0].contains("subagents.max_running = 1"),
        "{refused:?}"
    );
    assert_eq!(running.session.subagents().len(), 2);
    assert_eq!(faults(&running), Vec::<String>::new());

    let mut in_session = setup(script());
    in_session.config.subagents.max_in_session = 2;
    let mut running = in_session.build();
    running.turn("go on").await;
    let results = running.results();
    let refused: Vec<&str> = results.iter().filter(|r| r.1).map(|r| &*r.0).collect();
    assert_eq!(refused.len(), 1, "{results:#?}");
    assert!(
        refused[0].contains("subagents.max_in_session"),
        "{refused:?}"
    );
}
