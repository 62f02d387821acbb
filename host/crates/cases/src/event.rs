//! Calls the hooks of an extension point with a payload from the test case, without running a turn.
//!
//! Such events can test points that an ordinary turn does not reach, and plugin-defined points. The
//! hooks still run through the real dispatcher.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::payload::CaseConvertiblePayload;
use super::run::RunError;
use rind_lib::host::Session;
use rind_lib::point::ExtensionPoint;
use rind_lib::point::catalog;

include!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../wit/points.in"
));

/// Event of a test case: an extension point whose hooks are called, and the payload for them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenEvent {
    /// Name of the extension point; `OWNER.NAME` for a plugin-defined point.
    pub point: String,
    /// Payload, with the contract's names in snake case. For a plugin-defined point, it is the
    /// payload that the plugin which defines the point would pass.
    #[serde(default)]
    pub payload: Value,
    /// Number of the step in the turn that the hooks get.
    #[serde(default = "default_step")]
    pub step: u32,
}

impl GivenEvent {
    /// Whether the point is plugin-defined. Only such points have a dot in their name.
    pub(super) fn is_plugin_defined(&self) -> bool {
        self.point.contains('.')
    }
}

fn default_step() -> u32 {
    1
}

/// Either a single event or a list of events, in order.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a table of `point`, `payload` and `step`, or a list of these"
)]
enum EventOrEventList {
    One(GivenEvent),
    More(Vec<GivenEvent>),
}

/// Deserializes a single event, or a list of events, as a list.
pub(super) fn deserialize_events<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<GivenEvent>, D::Error> {
    Ok(match EventOrEventList::deserialize(deserializer)? {
        EventOrEventList::One(event) => vec![event],
        EventOrEventList::More(events) => events,
    })
}

/// Effects of the hooks that the events of a case called.
#[derive(Debug, Default)]
pub(super) struct ObservedEventEffects {
    /// Payload of the last event, as changed by the hooks.
    pub(super) payload: Value,
    /// Warnings that the hooks gave for the model.
    pub(super) notes: Vec<String>,
    /// Whether a hook failed that must be called for every event. In an ordinary turn, such a
    /// failure would have ended the turn.
    pub(super) is_halted: bool,
    /// Total duration of all hook calls.
    pub(super) took: Duration,
}

/// Calls the hooks of the events in order, all in one turn of the session.
///
/// # Errors
/// A payload does not have the type that its point requires, or the session failed.
pub(super) async fn run_event_hooks(
    session: &mut Session,
    events: &[GivenEvent],
) -> Result<ObservedEventEffects, RunError> {
    let tools = session.tool_registry().clone();
    let handle = session.handle();
    let turn = session.direct_turn()?;
    let mut fired = ObservedEventEffects::default();
    for event in events {
        let unfit = |message: String| RunError::Event {
            point: event.point.clone(),
            message,
        };
        if let Some((owner, _)) = event.point.split_once('.') {
            let caller = turn
                .caller_info_for_step(event.step)
                .with_calling_plugin(&owner.into());
            let payload = event.payload.clone();
            let started = Instant::now();
            let called = handle.call_plugin_defined_point(owner, &event.point, payload, caller);
            let answer = called.await.map_err(|error| unfit(error.to_string()))?;
            fired.took += started.elapsed();
            fired.payload = answer.value;
            continue;
        }
        let name = catalog::find_builtin_extension_point(&event.point)
            .map_or(event.point.as_str(), |row| row.name);
        macro_rules! dispatch {
            ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
                match name {
                    $($name => {
                        let payload = <catalog::$marker as ExtensionPoint>::Payload::from_case_value(event.payload.clone(), &tools).map_err(unfit)?;
                        let call = payload.call_id().map(str::to_owned);
                        let started = Instant::now();
                        let called = turn.dispatch_hooks_in_step::<catalog::$marker>(payload, event.step, call.as_deref());
                        let out = Box::pin(called).await?;
                        fired.took += started.elapsed();
                        fired.payload = out.value.to_comparable_value();
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
