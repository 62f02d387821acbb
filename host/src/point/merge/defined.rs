//! Merges outcomes at plugin-defined points: the kind that the owner declared determines the
//! permitted answers.

use super::{HookObjection, MergeEnv, MergeIntoPayload, MergedOutcome};
use crate::point::dispatch::PointKind;
use crate::point::outcome::{PointOutcome, PointVerdict};
use crate::point::payload::PluginPayload;

impl MergeIntoPayload<PluginPayload> for PointOutcome {
    const RIGHTS: &'static [&'static str] = &["value", "contribution", "ask", "block"];

    fn merge(
        self,
        payload: &mut PluginPayload,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        let kind = payload.kind;
        match (self.verdict, kind) {
            (PointVerdict::Pass, _) | (PointVerdict::Value(_), PointKind::Observe) => {}
            (PointVerdict::Value(value), PointKind::Collect) => {
                (payload.check)(&value)?;
                payload.collected.push(value);
                merged.changed.push("contribution");
            }
            (PointVerdict::Value(value), PointKind::Gate | PointKind::Mutate) => {
                (payload.check)(&value)?;
                merged.rewrites = merged.set_if_changed("value", &mut payload.value, Some(value));
            }
            (PointVerdict::Ask(reason), PointKind::Gate) => {
                merged.answer = Some(HookObjection::Ask(reason));
            }
            (PointVerdict::Block(reason), PointKind::Gate | PointKind::Mutate) => {
                merged.answer = Some(HookObjection::Block(reason));
            }
            (PointVerdict::Ask(_), _) => {
                return Err(format!(
                    "it answered `ask`, which is not possible at {kind} points"
                ));
            }
            (PointVerdict::Block(_), _) => {
                return Err(format!(
                    "it answered `block`, which is not possible at {kind} points"
                ));
            }
        }
        Ok(())
    }
}
