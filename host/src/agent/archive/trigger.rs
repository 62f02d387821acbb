//! Decides whether a finished turn is archived, and for which reason. The module has no side
//! effects. Start from [`reason_to_archive_turn`].

use super::config::ArchiveTriggerConfig;
use crate::point::payload::StopReason;

/// Facts about a turn that decide whether it is archived.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnArchivalFacts {
    /// Depth of the agent that ran the turn: 0 for the main agent.
    pub(super) depth: u32,
    /// Reason why the turn ended.
    pub(super) stop: StopReason,
    /// Number of tool calls that the model made in the turn.
    pub(super) n_calls: usize,
    /// Estimated number of tokens of the turn's messages.
    pub(super) tokens: u64,
}

/// Returns the reason for archiving the turn, as hooks see it; `None` if the turn is not archived.
/// Only a turn that ended with an answer or at the step limit is archived: after a turn that was
/// interrupted, refused or failed, the next turn usually continues the same work. An agent at
/// `depth_cap` archives nothing.
pub(super) fn reason_to_archive_turn(
    config: &ArchiveTriggerConfig,
    facts: &TurnArchivalFacts,
) -> Option<&'static str> {
    let is_finished = matches!(facts.stop, StopReason::Done | StopReason::MaxSteps);
    if facts.depth >= config.depth_cap || !is_finished {
        None
    } else if config.on_max_turns && facts.stop == StopReason::MaxSteps {
        Some("max-steps")
    } else if facts.n_calls >= config.tool_call_threshold {
        Some("tool-calls")
    } else if facts.tokens >= config.token_threshold {
        Some("token-threshold")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_tried_in_their_order() {
        let on = ArchiveTriggerConfig::default();
        let off = ArchiveTriggerConfig {
            on_max_turns: false,
            ..ArchiveTriggerConfig::default()
        };
        let none = ArchiveTriggerConfig {
            depth_cap: 0,
            ..ArchiveTriggerConfig::default()
        };
        for (config, depth, stop, n_calls, tokens, expected) in [
            (&on, 0, StopReason::MaxSteps, 5, 8000, Some("max-steps")),
            (&on, 0, StopReason::Done, 5, 8000, Some("tool-calls")),
            (&on, 0, StopReason::Done, 4, 8000, Some("token-threshold")),
            (&on, 0, StopReason::Done, 4, 7999, None),
            (&on, 0, StopReason::Cancelled, 5, 8000, None),
            (&on, 0, StopReason::Blocked, 5, 8000, None),
            (&on, 0, StopReason::Failed, 5, 8000, None),
            (&off, 0, StopReason::MaxSteps, 5, 8000, Some("tool-calls")),
            (&none, 0, StopReason::MaxSteps, 5, 8000, None),
            (&on, 2, StopReason::Done, 5, 8000, Some("tool-calls")),
            (&on, 3, StopReason::Done, 5, 8000, None),
        ] {
            let facts = TurnArchivalFacts {
                depth,
                stop,
                n_calls,
                tokens,
            };
            assert_eq!(
                reason_to_archive_turn(config, &facts),
                expected,
                "{facts:?}"
            );
        }
    }
}
