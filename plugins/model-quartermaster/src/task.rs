//! Classifies tasks, and records what a turn does until it ends.

use rind_sdk::data;
use rind_sdk::prelude::*;

use crate::stats::FinishedTurnStats;

/// Maximum size, in bytes, of a short and of a medium input. Larger inputs count as `long`.
const INPUT_SIZE_CLASS_MAX_BYTES: [(usize, &str); 2] = [(200, "short"), (2000, "medium")];

/// Turn of an agent that has not ended, with its kind of task and model.
#[data]
pub(crate) struct RunningTurn {
    pub(crate) turn: u32,
    pub(crate) kind: String,
    /// Model that answered the latest request, or that is being asked.
    pub(crate) model: String,
    /// Model that the plugin picked for the turn, if it did.
    pub(crate) picked: Option<String>,
    /// Whether a request of the turn has no answer yet.
    pub(crate) is_asking: bool,
    pub(crate) requests: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) millis: u64,
    /// Number of tool results in the turn, and number of these that are errors.
    pub(crate) results: u32,
    pub(crate) errors: u32,
    /// Whether the last answer had neither text nor tool calls.
    pub(crate) is_empty: bool,
}

impl RunningTurn {
    pub(crate) fn new(turn: u32, kind: String, model: &str) -> Self {
        Self {
            turn,
            kind,
            model: model.to_owned(),
            picked: None,
            is_asking: false,
            requests: 0,
            input: 0,
            output: 0,
            millis: 0,
            results: 0,
            errors: 0,
            is_empty: true,
        }
    }

    /// Returns the tokens, requests and other numbers of the ended turn, and whether the model did
    /// well. `None` if the stop reason does not depend on the model, as when the user cancelled the
    /// turn.
    pub(crate) fn summarize_ended_turn(&self, stop: StopReason) -> Option<FinishedTurnStats> {
        let has_ended = match stop {
            StopReason::Done => true,
            StopReason::MaxSteps | StopReason::Failed => false,
            StopReason::Blocked | StopReason::Cancelled => return None,
        };
        Some(FinishedTurnStats {
            is_good: has_ended && !self.is_empty && self.errors * 2 <= self.results,
            input: self.input,
            output: self.output,
            requests: self.requests,
            millis: self.millis,
        })
    }
}

/// Returns the kind of a task, such as `short-plain` or `long-tools`, from the size of the last
/// input and whether tools were used.
pub(crate) fn task_kind(messages: &[Message]) -> String {
    let input = messages
        .iter()
        .rev()
        .find(|message| message.role == Role::User);
    let n_bytes = input.map_or(0, |message| message.text().len());
    let size = INPUT_SIZE_CLASS_MAX_BYTES
        .iter()
        .find(|(most, _)| n_bytes <= *most);
    let size = size.map_or("long", |(_, name)| name);
    let has_tools = messages.iter().any(|message| message.role == Role::Tool);
    format!("{size}-{}", if has_tools { "tools" } else { "plain" })
}

/// Counts the tool results since the last input, and the errors among them.
pub(crate) fn count_tool_results(messages: &[Message]) -> (u32, u32) {
    let since = messages
        .iter()
        .rev()
        .take_while(|message| message.role != Role::User);
    since
        .flat_map(Message::tool_results)
        .fold((0, 0), |(all, errors), result| {
            (all + 1, errors + u32::from(result.is_error))
        })
}

/// Returns a number from 0 to 1 that is the same for the same turn. It is an FNV-1a hash with the
/// finalizer of MurmurHash3, because the turn's number comes last in the text and FNV-1a alone
/// spreads the last bytes badly.
pub(crate) fn hash_turn_to_fraction() -> f64 {
    let text = format!(
        "{} {} {}",
        caller::session(),
        caller::agent(),
        caller::turn()
    );
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rind_sdk::testing::{Caller, set_caller};

    fn message(role: Role, content: Content) -> Message {
        rind_sdk::testing::message("m", role, vec![content])
    }

    fn text(role: Role, n_bytes: usize) -> Message {
        message(role, Content::Text("x".repeat(n_bytes)))
    }

    fn result(is_error: bool) -> Message {
        let result = ToolResult {
            call_id: "c".to_owned(),
            name: "t".to_owned(),
            parts: Vec::new(),
            is_error,
        };
        message(Role::Tool, Content::ToolResult(result))
    }

    #[test]
    fn kinds_are_of_the_last_input_and_the_tools_used() {
        for (messages, expected) in [
            (vec![], "short-plain"),
            (
                vec![text(Role::User, 5000), text(Role::User, 200)],
                "short-plain",
            ),
            (
                vec![text(Role::User, 201), text(Role::Assistant, 9)],
                "medium-plain",
            ),
            (vec![text(Role::User, 2001), result(false)], "long-tools"),
        ] {
            assert_eq!(task_kind(&messages), expected);
        }
        let messages = [
            result(true),
            text(Role::User, 1),
            result(true),
            result(false),
        ];
        assert_eq!(count_tool_results(&messages), (2, 1));
    }

    #[test]
    fn a_turn_is_good_when_it_ended_with_an_answer_and_most_calls_worked() {
        for (stop, is_empty, errors, expected) in [
            (StopReason::Done, false, 0, Some(true)),
            (StopReason::Done, false, 1, Some(true)),
            (StopReason::Done, false, 2, Some(false)),
            (StopReason::Done, true, 0, Some(false)),
            (StopReason::MaxSteps, false, 0, Some(false)),
            (StopReason::Failed, false, 0, Some(false)),
            (StopReason::Blocked, false, 0, None),
            (StopReason::Cancelled, false, 0, None),
        ] {
            let running = RunningTurn {
                is_empty,
                errors,
                results: 2,
                ..RunningTurn::new(1, String::new(), "m")
            };
            let is_good = running.summarize_ended_turn(stop).map(|seen| seen.is_good);
            assert_eq!(is_good, expected, "{stop:?} {is_empty} {errors}");
        }
    }

    #[test]
    fn chances_are_spread_evenly() {
        let below = (0..1000).filter(|turn| {
            set_caller(Caller {
                turn: *turn,
                ..Caller::default()
            });
            hash_turn_to_fraction() < 0.2
        });
        let n = below.count();
        assert!((120..280).contains(&n), "{n}");
    }
}
