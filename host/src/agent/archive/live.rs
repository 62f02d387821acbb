//! Access of the model to holders: their list in the system prompt, and the tools that query them.

use std::sync::Arc;

use super::query::QuerySubagent;
use crate::agent::scope::ActiveTurns;
use crate::agent::spec::AgentSpec;
use crate::point::payload::{PromptPart, Tier};
use crate::prompt::host_part;
use crate::session::Session;

/// Most holders that the system prompt lists, the newest ones: every request carries the list.
const MAX_LISTED: usize = 50;

/// Introduction to the list of holders in the system prompt.
const LIVE: &str = "# Live subagents

Earlier turns of this conversation were moved to the subagents below; a summary with the subagent's id stands where each of them \
was. When a task needs what a summary leaves out, use `query_subagent` with that id: `search` finds lines of the turn and costs \
nothing, `prompt` has a model read the whole turn. Where the summary is enough, do not ask.";

/// The part of the system prompt that lists the holders; `None` when there are none.
pub(in crate::agent) fn live_part(session: &Session) -> Option<PromptPart> {
    let mut children = session.children();
    children.retain(|child| child.is_holder);
    if children.is_empty() {
        return None;
    }
    let n_older = children.len().saturating_sub(MAX_LISTED);
    let mut text = format!("{LIVE}\n");
    if n_older > 0 {
        text.push_str(&format!("\n- {n_older} older ones, not listed"));
    }
    for child in children.iter().skip(n_older) {
        text.push_str(&format!("\n- id: {} | task: {}", child.agent, child.task));
    }
    Some(host_part(Tier::Volatile, "20-live-subagents", text))
}

/// Adds the tool that queries subagents: when the settings say so, and for a session that has
/// holders already.
pub(in crate::agent) fn add_tools(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    let is_on = spec.config.subagents.enabled || spec.config.archival.enabled;
    let has_holders = || spec.session.children().iter().any(|child| child.is_holder);
    if is_on || has_holders() {
        spec.add_built_in(Arc::new(QuerySubagent::new(active_turns.clone())));
    }
}
