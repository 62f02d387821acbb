//! Decides whether a finished turn is archived, and why. Pure. Start from [`reason`].

use std::collections::HashSet;

use super::config::TriggerConfig;
use crate::message::Message;
use crate::point::payload::StopReason;

/// Facts about a turn that decide whether it is archived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Reason why the turn ended.
    pub(super) stop: StopReason,
    /// Tool calls of the model in the turn.
    pub(super) n_calls: usize,
    /// Tokens of its messages, estimated.
    pub(super) tokens: u64,
}

/// Returns the reason for archiving the turn, as hooks see it; `None` when it is not archived. Only a turn that came to an
/// answer or to the step limit counts: one that was interrupted, refused or failed is what the next one is about.
pub(super) fn reason(config: &TriggerConfig, facts: &Facts) -> Option<&'static str> {
    let is_finished = matches!(facts.stop, StopReason::Done | StopReason::MaxSteps);
    if config.depth_cap == 0 || !is_finished {
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

/// The tool of a call that has no result: the turn is not really over then.
pub(super) fn unfinished(messages: &[Message]) -> Option<&str> {
    let results = messages.iter().flat_map(Message::tool_results);
    let answered: HashSet<&str> = results.map(|result| result.call_id.as_str()).collect();
    let mut calls = messages.iter().flat_map(Message::tool_calls);
    let open = calls.find(|call| !answered.contains(call.id.as_str()))?;
    Some(&open.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, Role, ToolCall, ToolResult};

    fn check(facts: Facts, expected: Option<&str>) {
        assert_eq!(
            reason(&TriggerConfig::default(), &facts),
            expected,
            "{facts:?}"
        );
    }

    #[test]
    fn triggers_are_tried_in_their_order() {
        let all = Facts {
            stop: StopReason::MaxSteps,
            n_calls: 5,
            tokens: 8000,
        };
        check(all, Some("max-steps"));
        let done = Facts {
            stop: StopReason::Done,
            ..all
        };
        check(done, Some("tool-calls"));
        check(Facts { n_calls: 4, ..done }, Some("token-threshold"));
        let small = Facts {
            n_calls: 4,
            tokens: 7999,
            ..done
        };
        check(small, None);
        for stop in [
            StopReason::Cancelled,
            StopReason::Blocked,
            StopReason::Failed,
        ] {
            check(Facts { stop, ..all }, None);
        }
        let off = TriggerConfig {
            on_max_turns: false,
            ..TriggerConfig::default()
        };
        assert_eq!(reason(&off, &all), Some("tool-calls"));
        let none = TriggerConfig {
            depth_cap: 0,
            ..TriggerConfig::default()
        };
        assert_eq!(reason(&none, &all), None);
    }

    #[test]
    fn a_call_without_a_result_is_found() {
        let call = |id: &str| {
            Content::ToolCall(ToolCall {
                id: id.to_owned(),
                name: format!("tool-{id}"),
                arguments: serde_json::json!({}),
            })
        };
        let calls = Message::new(Role::Assistant, vec![call("1"), call("2")]);
        let result = |id: &str| {
            let result = ToolResult {
                call_id: id.to_owned(),
                name: "tool".to_owned(),
                content: "".into(),
                is_error: false,
            };
            Message::new(Role::Tool, vec![Content::ToolResult(result)])
        };
        let mut messages = vec![calls, result("1")];
        assert_eq!(unfinished(&messages), Some("tool-2"));
        messages.push(result("2"));
        assert_eq!(unfinished(&messages), None);
    }
}
