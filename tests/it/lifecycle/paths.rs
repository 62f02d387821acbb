//! Points that fire, and how often, on each path of a turn: complete, failed, refused, cut, in a
//! subagent.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use rind::event::Event;
use rind::point::catalog as at;
use rind::point::catalog::CATALOG;
use rind::point::outcome as o;
use rind::point::payload::{Source, StopReason};
use rind::provider::scripted::{Reply, ReplyError};
use serde_json::{Value, json};

use super::scene::{INPUT, host, setup, work};
use super::whole::{fired, hooks, of_main, whole_turn};
use crate::harness::{Running, Setup};

/// Runs one turn of an agent with this script, whose hooks give these answers. Returns the agent
/// and the reason for the end of the turn.
async fn path(script: Vec<Reply>, answers: Value) -> (Running, StopReason) {
    let mut running = setup(&host(answers), script).await.build();
    let outcome = running.turn(INPUT).await;
    (running, outcome.summary.stop)
}

fn broken() -> Reply {
    Reply {
        error: Some(ReplyError {
            status: 400,
            message: "no".to_owned(),
        }),
        ..Reply::default()
    }
}

/// The model's call that starts a subagent.
fn run_agent() -> Reply {
    let act = json!({"what": "run", "text": "Read b.txt", "tools": ["read_file"]});
    Reply::call("act", act)
}

#[tokio::test]
async fn a_whole_turn_meets_every_point_in_order_with_its_agent_and_step() {
    let (events, _) = whole_turn(&host(json!({}))).await;
    assert_snapshot!(fired(&events), @r"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: steering-received message-end context pre-reason before-provider-request after-provider-response post-reason message-end pre-tool subagent-start
    sub 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    sub 1.1: context pre-reason before-provider-request after-provider-response post-reason message-end pre-tool post-tool message-end
    sub 1.2: context pre-reason before-provider-request after-provider-response post-reason message-end pre-reflect post-reflect pre-output output-delta post-output turn-end
    main 1.1: subagent-end post-tool message-end pre-tool skill-activated post-tool message-end
    main 1.2: context pre-reason before-provider-request after-provider-response post-reason message-end pre-tool post-tool message-end
    main 1.3: context pre-reason before-provider-request after-provider-response post-reason message-end pre-tool post-tool message-end
    main 1.4: context pre-reason before-provider-request after-provider-response post-reason message-end pre-tool post-tool message-end
    main 1.5: before-compact after-compact context pre-reason before-provider-request after-provider-response post-reason message-end pre-reflect post-reflect pre-output error output-delta post-output steering-received message-end
    main 1.6: context pre-reason before-provider-request after-provider-response post-reason message-end pre-reflect post-reflect pre-output output-delta post-output skill-ended turn-end
    main 1.0: before-archive pre-reason before-provider-request after-provider-response after-archive
    main 0.0: session-end
    ");
    let met: BTreeSet<String> = hooks(&events)
        .iter()
        .map(|(_, record)| record.point.to_string())
        .collect();
    let all = CATALOG.iter().map(|row| row.name.to_owned());
    let all: BTreeSet<String> = all.collect();
    assert_eq!(met, all);
    // `message-end` fires once for each message, and for nothing else.
    let count = |is_it: &dyn Fn(&Event) -> bool| of_main(&events).filter(|e| is_it(e)).count();
    let n_messages = count(&|event| matches!(event, Event::MessageEnd { .. }));
    let n_seen = hooks(&events);
    let n_seen = n_seen
        .iter()
        .filter(|(agent, record)| *agent == "main" && record.point == "message-end");
    assert_eq!(n_seen.count(), n_messages);
}

#[tokio::test]
async fn a_provider_that_fails() {
    let script = vec![work().remove(0), broken()];
    let (running, stop) = path(script, json!({})).await;
    assert_eq!(stop, StopReason::Failed);
    assert_snapshot!(fired(&running.stream), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request output-delta after-provider-response post-reason output-delta message-end pre-tool post-tool message-end
    main 1.2: context pre-reason before-provider-request error turn-end
    ");
}

#[tokio::test]
async fn a_provider_that_fails_in_a_subagent() {
    let script = vec![run_agent(), broken(), Reply::text("done")];
    let (running, stop) = path(script, json!({})).await;
    assert_eq!(stop, StopReason::Done);
    assert_snapshot!(fired(&running.stream), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool output-delta subagent-start
    sub 1.0: turn-start pre-assess post-assess output-delta message-end system-prompt before-system-prompt after-system-prompt
    sub 1.1: context pre-reason before-provider-request error turn-end
    main 1.1: subagent-end post-tool message-end
    main 1.2: context pre-reason before-provider-request output-delta after-provider-response post-reason message-end pre-reflect post-reflect pre-output post-output turn-end
    ");
}

#[tokio::test]
async fn a_turn_that_is_refused_at_each_place_where_it_may_be() {
    let mut all = String::new();
    for point in [
        "turn-start",
        "pre-assess",
        "pre-reason",
        "post-reason",
        "pre-output",
    ] {
        let (running, stop) = path(
            vec![Reply::text("the draft")],
            json!({point: {"block": "no"}}),
        )
        .await;
        assert_eq!(stop, StopReason::Blocked, "{point}");
        all.push_str(&format!("-- {point}\n{}\n", fired(&running.stream)));
    }
    assert_snapshot!(all, @r"
    -- turn-start
    main 0.0: session-start
    main 1.0: turn-start turn-end
    -- pre-assess
    main 0.0: session-start
    main 1.0: turn-start pre-assess turn-end
    -- pre-reason
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason turn-end
    -- post-reason
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request output-delta after-provider-response post-reason output-delta message-end turn-end
    -- pre-output
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request output-delta after-provider-response post-reason message-end pre-reflect post-reflect pre-output post-output turn-end
    ");
}

#[tokio::test]
async fn a_turn_that_is_refused_in_a_subagent() {
    let script = vec![run_agent(), Reply::text("done")];
    let answers = json!({"pre-reason": {"depth": 1, "block": "no"}});
    let (running, stop) = path(script, answers).await;
    assert_eq!(stop, StopReason::Done);
    assert_snapshot!(fired(&running.stream), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool output-delta subagent-start
    sub 1.0: turn-start pre-assess post-assess output-delta message-end system-prompt before-system-prompt after-system-prompt
    sub 1.1: context pre-reason turn-end
    main 1.1: subagent-end post-tool message-end
    main 1.2: context pre-reason before-provider-request output-delta after-provider-response post-reason message-end pre-reflect post-reflect pre-output post-output turn-end
    ");
}

#[tokio::test]
async fn a_call_that_is_refused_and_a_turn_that_is_cut() {
    let mut setup = setup(&host(json!({"pre-tool": {"block": "no"}})), work()).await;
    setup.config.max_steps = 2;
    let mut running = setup.build();
    let outcome = running.turn(INPUT).await;
    assert_eq!(outcome.summary.stop, StopReason::MaxSteps);
    assert_snapshot!(fired(&running.stream), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request output-delta after-provider-response post-reason output-delta message-end pre-tool post-tool message-end
    main 1.2: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool post-tool message-end pre-output output-delta post-output turn-end
    ");
}

#[tokio::test]
async fn steering_that_is_left_out_makes_no_request() {
    let answers = json!({"steering-received": {"drop": "no"}});
    let mut setup = setup(&host(answers), vec![Reply::text("done")]).await;
    let late = std::sync::Arc::new(std::sync::OnceLock::<rind::agent::AgentSteeringHandle>::new());
    let queue = late.clone();
    setup = setup.hook::<at::PostReason>("user", move |_, _| {
        queue.get().unwrap().steer("one more", Source::Terminal);
        Ok(o::ReplyOutcome::default())
    });
    let mut running = setup.build();
    assert!(late.set(running.agent.steering()).is_ok());
    let outcome = running.turn(INPUT).await;
    assert_eq!(
        (outcome.output.as_str(), outcome.summary.steps),
        ("done", 1)
    );
    assert_eq!(running.provider.recorded_request_bodies().len(), 1);
}

#[tokio::test]
async fn steering_that_comes_while_the_answer_is_looked_at_asks_for_another_step() {
    let script = vec![Reply::text("too early"), Reply::text("done")];
    let late = std::sync::Arc::new(std::sync::OnceLock::<rind::agent::AgentSteeringHandle>::new());
    let queue = late.clone();
    let setup = Setup::new(script).hook::<at::PostReflect>("user", move |caller, _| {
        if caller.context.step == 1 {
            queue.get().unwrap().steer("one more", Source::Terminal);
        }
        Ok(o::VerdictOutcome::default())
    });
    let mut running = setup.build();
    assert!(late.set(running.agent.steering()).is_ok());
    let outcome = running.turn(INPUT).await;
    assert_eq!(
        (outcome.output.as_str(), outcome.summary.steps),
        ("done", 2)
    );
}
