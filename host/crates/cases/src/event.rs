//! Events in cases: calls the hooks of a point with a payload, without the rest of a turn.
//!
//! Events can test points that an ordinary turn does not reach, and plugin-defined points. The
//! hooks still run through the real dispatcher.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::payload::CaseShape;
use super::run::RunError;
use rind_lib::host::Session;
use rind_lib::point::Point;
use rind_lib::point::catalog;

include!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../wit/points.in"
));

/// A point whose hooks are called, and the payload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenEvent {
    /// Name of the point; `OWNER.NAME` for a plugin-defined point.
    pub point: String,
    /// Payload, with the contract's names in snake case. For a plugin-defined point, the payload
    /// that the plugin which owns the point would pass.
    #[serde(default)]
    pub payload: Value,
    /// Number of the step in the turn, as the hooks see it.
    #[serde(default = "first_step")]
    pub step: u32,
}

impl GivenEvent {
    /// Whether the point is plugin-defined. Only such points have a dot in their name.
    pub(super) fn is_of_plugin(&self) -> bool {
        self.point.contains('.')
    }
}

fn first_step() -> u32 {
    1
}

/// Either a single event or a list of events, in order.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a table of `point`, `payload` and `step`, or a list of these"
)]
enum FiredEventList {
    One(GivenEvent),
    More(Vec<GivenEvent>),
}

/// Reads a single event or a list of events.
pub(super) fn one_or_more<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<GivenEvent>, D::Error> {
    Ok(match FiredEventList::deserialize(deserializer)? {
        FiredEventList::One(event) => vec![event],
        FiredEventList::More(events) => events,
    })
}

/// Result of the events of a case.
#[derive(Debug, Default)]
pub(super) struct FiredEvents {
    /// Payload of the last event, as changed by the hooks.
    pub(super) payload: Value,
    /// Warnings of the hooks for the model.
    pub(super) notes: Vec<String>,
    /// Whether a hook failed that is required to see everything. Such a failure would have ended an
    /// ordinary turn.
    pub(super) is_halted: bool,
    /// Total duration of the hooks.
    pub(super) took: Duration,
}

/// Calls the hooks of the events in order, all in one turn of the session.
///
/// # Errors
/// A payload does not fit its point, or the session failed.
pub(super) async fn fire_events(
    session: &mut Session,
    events: &[GivenEvent],
) -> Result<FiredEvents, RunError> {
    let tools = session.tool_registry().clone();
    let handle = session.handle();
    let turn = session.direct_turn()?;
    let mut fired = FiredEvents::default();
    for event in events {
        let unfit = |message: String| RunError::Event {
            point: event.point.clone(),
            message,
        };
        if let Some((owner, _)) = event.point.split_once('.') {
            let caller = turn.direct_caller(event.step).caused_by(&owner.into());
            let payload = event.payload.clone();
            let started = Instant::now();
            let called = handle.call_point(owner, &event.point, payload, caller);
            let answer = called.await.map_err(|error| unfit(error.to_string()))?;
            fired.took += started.elapsed();
            fired.payload = answer.value;
            continue;
        }
        let name = catalog::find(&event.point).map_or(event.point.as_str(), |row| row.name);
        macro_rules! dispatch {
            ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
                match name {
                    $($name => {
                        let payload = <catalog::$marker as Point>::Payload::read(event.payload.clone(), &tools).map_err(unfit)?;
                        let call = payload.call_id().map(str::to_owned);
                        let started = Instant::now();
                        let called = turn.dispatch_direct::<catalog::$marker>(payload, event.step, call.as_deref());
                        let out = Box::pin(called).await?;
                        fired.took += started.elapsed();
                        fired.payload = out.value.show();
                        fired.notes.extend(out.notes.into_iter().map(|note| note.text));
                    })*
                    _ => return Err(unfit("there is no such point".to_owned())),
                }
            };
        }
        for_each_point!(dispatch);
    }
    fired.is_halted = turn.end_turn().await?.is_some();
    Ok(fired)
}
