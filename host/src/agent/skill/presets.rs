//! Presets that select the tools of one turn: those that applied when its agent was started, the
//! preset of the turn, and the preset of the current step.
//!
//! A step's preset applies only to the agent of that step. Subagents that are already running keep
//! the presets with which they were started, so a later step of the parent neither removes nor
//! restores any of their tools. Start from [`TurnToolPresets`].

use std::sync::{Arc, Mutex, OnceLock};

use crate::agent::subagent::preset::SubagentPreset;
use crate::lock::lock_ignoring_poison;
use crate::message::ToolSpec;

/// Presets that applied to the parent of an agent when the agent was started.
pub(in crate::agent) type ParentAgentPresets = Arc<[Arc<SubagentPreset>]>;

/// Presets of one turn. A tool is available only if all of them select it.
#[derive(Default)]
pub(in crate::agent) struct TurnToolPresets {
    at_start: ParentAgentPresets,
    /// Preset that selects the tools of the whole turn; set at most once.
    of_turn: OnceLock<Arc<SubagentPreset>>,
    /// Preset that selects the tools of the current step; `None` without one.
    of_step: Mutex<Option<Arc<SubagentPreset>>>,
}

impl TurnToolPresets {
    /// Creates the presets of a turn. `at_start` are the presets that applied to the agent's parent
    /// when the agent was started.
    pub(super) fn new_with_parent_presets(at_start: ParentAgentPresets) -> Self {
        Self {
            at_start,
            ..Self::default()
        }
    }

    /// Limits the turn to the tools that a preset selects. Call this before the first step.
    pub(in crate::agent) fn set_turn_preset(&self, preset: Arc<SubagentPreset>) {
        let _ = self.of_turn.set(preset);
    }

    /// Limits the current step to the tools that a preset selects, until the next request.
    pub(in crate::agent) fn set_step_preset(&self, preset: Option<Arc<SubagentPreset>>) {
        *lock_ignoring_poison(&self.of_step) = preset;
    }

    /// Returns the presets that apply now, for a subagent that is about to start.
    pub(in crate::agent) fn current_presets(&self) -> ParentAgentPresets {
        let of_step = lock_ignoring_poison(&self.of_step).clone();
        let at_start = self.at_start.iter().cloned();
        let of_turn = self.of_turn.get().cloned();
        at_start.chain(of_turn).chain(of_step).collect()
    }

    /// Whether all presets in force select this tool.
    pub(super) fn is_tool_selected(&self, spec: &ToolSpec) -> bool {
        let of_step = lock_ignoring_poison(&self.of_step);
        let mut all = self
            .at_start
            .iter()
            .chain(self.of_turn.get())
            .chain(of_step.as_ref());
        all.all(|preset| preset.selects_tool(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::subagent::preset::SubagentPresets;
    use crate::message::EffectClass;

    fn preset(name: &str) -> Arc<SubagentPreset> {
        SubagentPresets::default().find_preset(name).unwrap()
    }

    #[test]
    fn a_step_of_the_parent_changes_nothing_for_a_subagent_that_runs() {
        let write = ToolSpec::from_name_and_effect("write_file", EffectClass::Write);
        let read = ToolSpec::from_name_and_effect("read_file", EffectClass::Read);
        let left =
            |presets: &TurnToolPresets| [&write, &read].map(|spec| presets.is_tool_selected(spec));
        let parent = TurnToolPresets::default();
        let with_all = TurnToolPresets::new_with_parent_presets(parent.current_presets());
        parent.set_step_preset(Some(preset("investigate")));
        let reading = TurnToolPresets::new_with_parent_presets(parent.current_presets());
        let below = TurnToolPresets::new_with_parent_presets(reading.current_presets());
        assert_eq!(left(&parent), [false, true]);
        // The next step of the parent restores nothing for subagents that were started in this
        // step.
        parent.set_step_preset(None);
        assert_eq!(left(&parent), [true, true]);
        assert_eq!(left(&reading), [false, true]);
        assert_eq!(left(&below), [false, true]);
        // And it removes nothing from subagents that were started before.
        parent.set_step_preset(Some(preset("minimal")));
        assert_eq!(left(&parent), [false, false]);
        assert_eq!(left(&with_all), [true, true]);
        // The preset of a turn applies to its subagents as well.
        let turn = TurnToolPresets::default();
        turn.set_turn_preset(preset("minimal"));
        let below = TurnToolPresets::new_with_parent_presets(turn.current_presets());
        assert_eq!(left(&below), [false, false]);
    }
}
