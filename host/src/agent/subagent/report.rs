//! Functions that several tools for subagents use: formats results for the model, and looks
//! subagents up.
//!
//! Start from [`outcome_text`] and [`find_own_child`].

use super::find::{UnresolvedSubagentReason, resolve_agent, unknown_agent_text};
use super::registry::{LiveSubagent, SubagentOutcome};
use crate::agent::scope::SharedTurnState;
use crate::event::SubagentState;
use crate::session::{Body, SubagentSession};
use crate::text::format_error_chain;
use crate::tool::ToolOutput;

/// Maximum number of ids in one call that waits for subagents.
const MAX_AWAITED_SUBAGENTS_PER_CALL: usize = 256;

/// Checks that a call does not wait for too many subagents, because each id is searched among all
/// subagents.
pub(in crate::agent) fn check_subagent_id_count(ids: &[String]) -> Result<(), String> {
    match ids.len() {
        0..=MAX_AWAITED_SUBAGENTS_PER_CALL => Ok(()),
        n => Err(format!(
            "{n} ids are given, but a call can wait for at most {MAX_AWAITED_SUBAGENTS_PER_CALL} subagents"
        )),
    }
}

/// Formats an outcome for the model: the id, the state unless it is `answered`, and the answer.
///
/// For example:
///
/// ```text
/// subagent_id: sub-4961a0c2
/// state: blocked
///
/// I could not write c.txt.
/// ```
pub(super) fn outcome_text(id: &str, outcome: &SubagentOutcome) -> String {
    let state = match outcome.state {
        SubagentState::Answered => String::new(),
        state => format!("\nstate: {state}"),
    };
    format!("subagent_id: {id}{state}\n\n{}", outcome.text())
}

/// Returns the result of a tool call that waited until a subagent ended, and marks the end of the
/// subagent as reported to the model.
pub(super) fn ended_subagent_output(live: &LiveSubagent, outcome: &SubagentOutcome) -> ToolOutput {
    live.mark_end_as_reported();
    let text = outcome_text(&live.id, outcome);
    match outcome.result {
        Ok(_) => ToolOutput::ok(text),
        Err(_) => ToolOutput::from_error_content(text),
    }
}

/// Returns the result of a call that started a subagent and does not wait for it.
pub(super) fn started_subagent_output(live: &LiveSubagent) -> ToolOutput {
    ToolOutput::ok(format!(
        "subagent_id: {}\nstate: running\n\nIt ends with this turn at the latest; `wait_subagents` returns its answer.",
        live.id
    ))
}

/// Finds a subagent of this agent by its id or a prefix of the id.
///
/// # Errors
/// A message for the model: the id is unknown or ambiguous, or it is the id of a holder.
pub(in crate::agent) fn find_own_child(
    scope: &SharedTurnState,
    text: &str,
) -> Result<SubagentSession, String> {
    let mut children = scope.spec.session.subagents();
    let ids: Vec<&str> = children.iter().map(|child| &*child.agent).collect();
    let id = match resolve_agent(text, ids.iter().copied()) {
        Ok(id) => id.to_owned(),
        Err(UnresolvedSubagentReason::Ambiguous(why)) => return Err(why),
        Err(UnresolvedSubagentReason::Unknown) => return Err(unknown_agent_text(text, ids)),
    };
    let at = children.iter().position(|child| child.agent == id);
    match at.map(|at| children.swap_remove(at)) {
        Some(child) if child.is_holder => Err(format!(
            "{id} only keeps an archived turn and runs no task; ask it with `query_subagent`"
        )),
        Some(child) => Ok(child),
        None => Err(unknown_agent_text(text, [])),
    }
}

/// Returns the state of a subagent: the state in this process if `live` is given, otherwise the
/// state that the session file records.
pub(in crate::agent) fn subagent_state(
    child: &SubagentSession,
    live: Option<&LiveSubagent>,
) -> SubagentState {
    let of_live = live.map(|live| {
        let outcome = live.outcome();
        outcome.map_or(SubagentState::Running, |outcome| outcome.state)
    });
    of_live
        .or(child.state)
        .unwrap_or(SubagentState::Interrupted)
}

/// Reads the last output of a subagent from its session file, for a subagent that is not in the
/// registry.
pub(super) async fn read_last_output(scope: &SharedTurnState, id: &str) -> Result<String, String> {
    let session = &scope.spec.session;
    let (place, children, child) = (
        session.session_location(),
        session.subagents(),
        id.to_owned(),
    );
    // Read in a blocking task, because the session file may be large.
    let read =
        tokio::task::spawn_blocking(move || place.read_subagent_entries(&children, &child)).await;
    let unreadable = |why: String| format!("the session of {id} cannot be read: {why}");
    let entries = match read {
        Ok(Ok(entries)) => entries.unwrap_or_default(),
        Ok(Err(error)) => return Err(unreadable(format_error_chain(&error))),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let outputs = entries
        .into_iter()
        .rev()
        .filter_map(|entry| match entry.body {
            Body::TurnEnd { output, .. } => Some(output),
            _ => None,
        });
    let last = outputs.into_iter().next();
    Ok(last.unwrap_or_else(|| "[it has no answer]".to_owned()))
}
