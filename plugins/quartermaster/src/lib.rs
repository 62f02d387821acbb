//! Learns across sessions which tool usually follows which, and suggests it to the model. It runs
//! nothing.

mod follow;
mod ledger;
#[cfg(test)]
mod tests;
mod trail;

#[rind_sdk::plugin]
mod quartermaster {
    use crate::follow::{self, FollowSettings};
    use crate::ledger;
    use crate::trail::AgentTrail;
    use rind_sdk::prelude::*;

    /// Number of the last messages that are read: the answer with the calls, and results of those
    /// before.
    const LOOK_BACK: u32 = 32;

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let call = &proposed.call;
        let mut trail = AgentTrail::load_trail()?;
        if !trail.is_at(&call.id) {
            trail.learn_tool(&call.name);
            trail.go_to(&call.id, &call.name);
            trail.save_trail()?;
        }
        Ok(CallOutcome::pass())
    }

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let settings: FollowSettings = config::all()?;
        let mut trail = AgentTrail::load_trail()?;
        if !settings.suggest || finished.is_error() || !trail.is_at(&finished.call().id) {
            return Ok(ResultOutcome::default());
        }
        let known = |place: &[String]| ledger::find_followers(place, trail.learnt()).ok().flatten();
        let Some(text) = follow::suggest_tool(trail.tools(), &settings, known) else {
            return Ok(ResultOutcome::default());
        };
        // More calls of the same answer may follow, and then it is too early to speak.
        if !trail.has_room_for(&text)
            || !is_last(&session::messages(LOOK_BACK), &finished.call().id)
        {
            return Ok(ResultOutcome::default());
        }
        trail.suggest_text(&text);
        trail.save_trail()?;
        Ok(ResultOutcome::default().inject_once(text))
    }

    #[hook]
    fn turn_end(_summary: TurnSummary) -> Result<(), Error> {
        let mut trail = AgentTrail::load_trail()?;
        let learnt = trail.take_learnt();
        if learnt.is_empty() {
            return Ok(());
        }
        // The ledger is written first: a lesson counted twice is better than a lost one.
        ledger::keep_learnt(learnt)?;
        trail.save_trail()
    }

    /// Whether a call is the last one of the model's last answer.
    pub(crate) fn is_last(messages: &[Message], call: &str) -> bool {
        let mut answers = messages
            .iter()
            .rev()
            .filter(|message| message.role == Role::Assistant);
        let last = answers.next().and_then(|answer| answer.tool_calls().last());
        last.is_some_and(|last| last.id == call)
    }
}
