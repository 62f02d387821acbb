//! Points that fire in a turn that is cancelled at various places.

use insta::assert_snapshot;
use rind::event::{Event, Stamped};
use rind::message::EffectClass;
use rind::point::payload::StopReason;
use rind::provider::scripted::Reply;
use rind::tool::ToolOutput;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::scene::{INPUT, host, setup};
use super::whole::fired;
use crate::harness::{NativeTool, Running, Setup};

/// A tool whose call ends only when it is cancelled.
fn wait() -> impl rind::tool::Tool {
    NativeTool::new("wait", EffectClass::Read, |cancel| {
        Box::pin(async move {
            cancel.cancelled().await;
            ToolOutput::from_error_content("stopped")
        })
    })
}

/// Runs a turn and cancels it when `is_time` says so.
async fn cancelled(setup: Setup, is_time: impl Fn(&Stamped) -> bool) -> Running {
    let mut running = setup.build();
    let cancel = CancellationToken::new();
    let mut events = Vec::new();
    let outcome = {
        let turn = running.agent.turn(INPUT).until(&cancel);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                event = running.receiver.recv() => {
                    let event = event.unwrap();
                    if is_time(&event) {
                        cancel.cancel();
                    }
                    events.push(event);
                }
                outcome = &mut turn => break outcome.unwrap(),
            }
        }
    };
    assert_eq!(outcome.summary.stop, StopReason::Cancelled);
    running.stream = events;
    running.drain();
    running
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_a_tool_runs() {
    let setup = setup(&host(json!({})), vec![Reply::call("wait", json!({}))]).await;
    let running = cancelled(setup.tool(wait()), |stamped| {
        matches!(stamped.event, Event::ToolStart { .. })
    })
    .await;
    assert_snapshot!(fired(&running.stream), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool post-tool message-end turn-end
    ");
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_the_model_writes() {
    let setup = setup(&host(json!({})), vec![Reply::text("one two three")]).await;
    let running = cancelled(setup, |stamped| {
        matches!(stamped.event, Event::TextDelta { .. })
    })
    .await;
    assert_snapshot!(fired(&running.stream), @r"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request output-delta post-reason output-delta message-end turn-end
    ");
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_a_subagent_works() {
    let act = json!({"what": "run", "text": "Wait", "tools": ["wait"]});
    let script = vec![Reply::call("act", act), Reply::call("wait", json!({}))];
    let setup = setup(&host(json!({})), script).await.tool(wait());
    let running = cancelled(setup, |stamped| {
        !stamped.is_from_main_agent() && matches!(stamped.event, Event::ToolStart { .. })
    })
    .await;
    // The parent closes its own calls without waiting for the subagent, so the events of each are
    // compared separately.
    let stream = running.stream.into_iter();
    let (main, sub): (Vec<_>, Vec<_>) = stream.partition(Stamped::is_from_main_agent);
    assert_snapshot!([fired(&main), fired(&sub)].join("\n"), @"
    main 0.0: session-start
    main 1.0: turn-start pre-assess post-assess message-end system-prompt before-system-prompt after-system-prompt
    main 1.1: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool output-delta subagent-start post-tool message-end subagent-end turn-end
    sub 1.0: turn-start pre-assess post-assess output-delta message-end system-prompt before-system-prompt after-system-prompt
    sub 1.1: context pre-reason before-provider-request after-provider-response post-reason output-delta message-end pre-tool post-tool message-end turn-end
    ");
}
