//! Inputs with an id: a session runs each of them only once.
//!
//! A caller that does not know whether its input arrived sends it again. If the turn that ran the
//! input has ended, the session returns the outcome of that turn; if it was interrupted, the
//! session continues it.

use super::outcome::{Error, TurnOutcome};
use super::spec::{AgentSpec, TurnSpec};
use crate::event::Event;
use crate::point::outcome::Level;
use crate::text::escape_and_truncate_line;

/// Maximum length of an input's id in a notice, in bytes.
const MAX_SHOWN_INPUT_ID_BYTES: usize = 96;

/// Result of looking up an input by its id: run a turn, or return a known outcome.
pub(super) enum InputIdLookupResult {
    /// Run this turn: a new one for the input, or one that continues the interrupted turn of the
    /// input.
    Run(TurnSpec),
    /// The turn that ran the input has already ended with this outcome.
    Known(TurnOutcome),
}

/// Looks up the id of an input to decide whether to run a turn for it.
///
/// # Errors
/// The turn that ran the input was interrupted, and other turns came after that turn.
pub(super) fn look_up_input_id(
    agent: &AgentSpec,
    spec: TurnSpec,
) -> Result<InputIdLookupResult, Error> {
    let id = spec
        .input_id
        .as_deref()
        .filter(|_| spec.continues.is_none());
    let Some((id, taken)) = id.and_then(|id| Some((id, agent.session.find_turn_for_input_id(id)?)))
    else {
        return Ok(InputIdLookupResult::Run(spec));
    };
    let Some(ended) = taken.ended else {
        let interrupted = agent.session.interrupted_turn();
        let same = interrupted.filter(|turn| turn.input_id.as_deref() == Some(id));
        let Some(interrupted) = same else {
            return Err(Error::InputTaken {
                id: escape_and_truncate_line(id, MAX_SHOWN_INPUT_ID_BYTES),
                turn: taken.turn,
            });
        };
        return Ok(InputIdLookupResult::Run(TurnSpec {
            answer_schema: spec.answer_schema,
            max_cost_usd: spec.max_cost_usd,
            preset: spec.preset,
            ..TurnSpec::from_interrupted(interrupted)
        }));
    };
    let (summary, output) = *ended;
    let text = format!(
        "the input `{}` already ran in turn {}; its outcome is returned again",
        escape_and_truncate_line(id, MAX_SHOWN_INPUT_ID_BYTES),
        taken.turn
    );
    agent
        .events
        .emit(Event::create_host_notice(Level::Info, text));
    agent.events.emit(Event::TurnEnd {
        turn: taken.turn,
        summary: summary.clone(),
        output: output.clone(),
    });
    Ok(InputIdLookupResult::Known(TurnOutcome {
        turn: taken.turn,
        output,
        summary,
    }))
}
