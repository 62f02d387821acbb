//! Merges outcomes at plugin-defined points: the kind that the owner declared determines the
//! permitted answers.

use super::{HookObjection, MergeEnv, MergeIntoPayload, MergedOutcome};
use crate::point::dispatch::ExtensionPointKind;
use crate::point::outcome::{PluginDefinedPointOutcome, PluginDefinedPointVerdict};
use crate::point::payload::PluginDefinedPointPayload;

impl MergeIntoPayload<PluginDefinedPointPayload> for PluginDefinedPointOutcome {
    const RIGHTS: &'static [&'static str] = &["value", "contribution", "ask", "block"];

    fn merge(
        self,
        payload: &mut PluginDefinedPointPayload,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        let kind = payload.kind;
        match (self.verdict, kind) {
            (PluginDefinedPointVerdict::Pass, _)
            | (PluginDefinedPointVerdict::Value(_), ExtensionPointKind::Observe) => {}
            (PluginDefinedPointVerdict::Value(value), ExtensionPointKind::Collect) => {
                (payload.check)(&value)?;
                payload.collected.push(value);
                merged.changed.push("contribution");
            }
            (
                PluginDefinedPointVerdict::Value(value),
                ExtensionPointKind::Gate | ExtensionPointKind::Mutate,
            ) => {
                (payload.check)(&value)?;
                merged.rewrites = merged.set_if_changed("value", &mut payload.value, Some(value));
            }
            (PluginDefinedPointVerdict::Ask(reason), ExtensionPointKind::Gate) => {
                merged.answer = Some(HookObjection::Ask(reason));
            }
            (
                PluginDefinedPointVerdict::Block(reason),
                ExtensionPointKind::Gate | ExtensionPointKind::Mutate,
            ) => {
                merged.answer = Some(HookObjection::Block(reason));
            }
            (PluginDefinedPointVerdict::Ask(_), _) => {
                return Err(format!(
                    "the hook answered `ask`, which is not possible at {kind} points"
                ));
            }
            (PluginDefinedPointVerdict::Block(_), _) => {
                return Err(format!(
                    "the hook answered `block`, which is not possible at {kind} points"
                ));
            }
        }
        Ok(())
    }
}
