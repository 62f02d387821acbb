//! Tests of a hook that is set to block when it fails: at every point, its failure stops the data
//! that it should have checked.

use std::sync::Arc;

use rind::point::ExtensionPoint;
use rind::point::catalog as at;
use rind::point::failure::OnFailure;
use rind::point::payload::StopReason;

use super::{done, read};
use crate::harness::{Hang, Setup};

/// Runs a turn of one read and an answer, with a guard at `P` that never answers. Returns the stop
/// reason, the output and the number of requests.
async fn guarded<P: ExtensionPoint>() -> (StopReason, String, usize)
where
    Hang: rind::point::Hook<P>,
{
    let script = vec![read("a.txt"), done()];
    let setup = Setup::new(script).bind::<P>("guard", OnFailure::Block, Arc::new(Hang));
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    (
        outcome.summary.stop,
        outcome.output,
        running.provider.recorded_request_bodies().len(),
    )
}

/// Checks that the turn ends blocked, that its output names the guard, and that the model got
/// `asked` requests.
async fn stops<P: ExtensionPoint>(asked: usize)
where
    Hang: rind::point::Hook<P>,
{
    let (stop, output, bodies) = guarded::<P>().await;
    assert_eq!(stop, StopReason::Blocked, "{}: {output}", P::NAME);
    assert!(output.contains("plugin guard"), "{}: {output}", P::NAME);
    assert_eq!(bodies, asked, "{}", P::NAME);
}

#[tokio::test]
async fn a_guard_that_hangs_before_the_model_is_asked_keeps_it_from_being_asked() {
    stops::<at::TurnStart>(0).await;
    stops::<at::PreAssess>(0).await;
    stops::<at::PostAssess>(0).await;
    stops::<at::SystemPrompt>(0).await;
    stops::<at::BeforeSystemPrompt>(0).await;
    stops::<at::AfterSystemPrompt>(0).await;
    stops::<at::Context>(0).await;
    stops::<at::PreReason>(0).await;
    stops::<at::BeforeProviderRequest>(0).await;
}

#[tokio::test]
async fn a_guard_that_hangs_after_an_answer_keeps_it_from_being_used() {
    stops::<at::PostReason>(1).await;
    stops::<at::PreReflect>(2).await;
    stops::<at::PostReflect>(2).await;
    stops::<at::PreOutput>(2).await;
}

#[tokio::test]
async fn a_guard_that_hangs_on_a_tool_result_keeps_it_from_the_model() {
    let script = vec![read("a.txt"), done()];
    let setup = Setup::new(script).bind::<at::PostTool>("guard", OnFailure::Block, Arc::new(Hang));
    let mut running = setup.build();
    let outcome = running.turn("go on with the work").await;
    assert_eq!(outcome.summary.stop, StopReason::Done);
    let (content, is_error, _) = &running.results()[0];
    assert!(is_error);
    assert!(
        content.starts_with("[the result was withheld by plugin guard: "),
        "{content}"
    );
}
