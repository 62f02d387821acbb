//! Learns across sessions which tool usually follows which, and suggests the next tool to the
//! model. It calls no tool itself.

mod follow;
mod ledger;
#[cfg(test)]
mod tests;
mod trail;

#[rind_sdk::plugin]
mod quartermaster {
    use crate::follow::{self, NextToolSuggestionSettings};
    use crate::ledger;
    use crate::trail::AgentTurnHistory;
    use rind_sdk::prelude::*;

    /// Number of recent messages among which the model's last answer is searched: results of tool
    /// calls may follow that answer.
    const LOOK_BACK: u32 = 32;

    /// Learns from a call that ran, and suggests the next tool. Refused calls and calls of tools
    /// that do not exist are not counted.
    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        if finished.is_refused() {
            return Ok(ResultOutcome::default());
        }
        let settings = config::shared::<NextToolSuggestionSettings>()?;
        let is_silent = !settings.suggest || finished.is_error();
        let call = finished.call();
        let (turn, step) = (caller::turn(), caller::step());
        let suggested = AgentTurnHistory::update_stored_history(turn, |trail| {
            if !trail.is_last_recorded_call(step, &call.id) {
                trail.count_next_tool(&call.name);
                trail.record_call(step, &call.id, &call.name);
            }
            if is_silent {
                return None;
            }
            ledger::clear_outdated_count_cache(turn);
            let known = |place: &[String]| {
                ledger::find_next_tool_counts(place, trail.unstored_tool_counts())
                    .ok()
                    .flatten()
            };
            let text = follow::suggest_next_tool(trail.last_tools(), &settings, known)?;
            // Suggest only after the last call of an answer: before that, the model has already
            // chosen the next call.
            let is_time = trail.can_suggest_next_tool(step, &text)
                && is_last_call_of_answer(&session::messages(LOOK_BACK), &call.id);
            is_time.then(|| {
                trail.record_suggestion(step, &text);
                text
            })
        })?;
        Ok(match suggested {
            Some(text) => ResultOutcome::default().inject_once(text),
            None => ResultOutcome::default(),
        })
    }

    #[hook]
    fn turn_end(_summary: TurnSummary) -> Result<(), Error> {
        let learnt =
            AgentTurnHistory::inspect_stored_history(|trail| trail.unstored_tool_counts().clone())?;
        if learnt.is_empty() {
            return Ok(());
        }
        // Write the store before the trail is cleared: after a crash between the two, counting
        // twice is better than losing counts.
        ledger::store_tool_sequence_counts(learnt)?;
        AgentTurnHistory::update_stored_history(
            caller::turn(),
            AgentTurnHistory::clear_unstored_tool_counts,
        )
    }

    /// Whether a call is the last one in the model's last answer.
    pub(crate) fn is_last_call_of_answer(messages: &[Message], call: &str) -> bool {
        let mut answers = messages
            .iter()
            .rev()
            .filter(|message| message.role == Role::Assistant);
        let last = answers.next().and_then(|answer| answer.tool_calls().last());
        last.is_some_and(|last| last.id == call)
    }
}
