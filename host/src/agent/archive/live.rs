//! Gives the model access to holders (subagents that keep archived turns): lists them in the system
//! prompt, and provides the tool that queries them.

use std::sync::Arc;

use super::query::{QuerySubagentTool, has_archived_turns};
use crate::agent::scope::ActiveTurns;
use crate::agent::spec::AgentSpec;
use crate::point::payload::{PromptPart, Tier};
use crate::prompt::host_prompt_part;
use crate::session::{Session, SubagentSession};
use crate::tokens::estimate_tokens;

/// Introduction to the list of holders in the system prompt.
const LIVE_SUBAGENTS_PROMPT_INTRO: &str = "# Live subagents

Earlier turns of this conversation were moved to the subagents below, the newest first; a summary with the subagent's id stands \
where each of them was. When a task needs what a summary leaves out, use `query_subagent` with that id: `search` finds lines of \
the turn and costs nothing, `prompt` has a model read the whole turn. Without an id, `search` finds the passages of all of them \
that fit best. Where the summary is enough, do not ask.";

/// Returns the part of the system prompt that lists the holders (subagents that contain archived
/// turns), with at most `max_tokens` tokens; `None` if there are no holders. The same holders
/// result in the same bytes, so that the part does not change between requests.
pub(in crate::agent) fn archival_subagents_prompt_part(
    session: &Session,
    max_tokens: u64,
) -> Option<PromptPart> {
    let text = format_archival_subagent_list(&session.subagents(), max_tokens)?;
    Some(host_prompt_part(Tier::Volatile, "20-live-subagents", text))
}

fn format_archival_subagent_list(children: &[SubagentSession], max_tokens: u64) -> Option<String> {
    let holders: Vec<&SubagentSession> = children.iter().filter(|child| child.is_holder).collect();
    if holders.is_empty() {
        return None;
    }
    let mut text = format!("{LIVE_SUBAGENTS_PROMPT_INTRO}\n");
    let mut room = max_tokens
        .saturating_sub(estimate_tokens(&text) + estimate_tokens(&unlisted_subagent_count_line(0)));
    let mut n_older = holders.len();
    for holder in holders.iter().rev() {
        let line = format!("\n- id: {} | task: {}", holder.agent, holder.task);
        let Some(left) = room.checked_sub(estimate_tokens(&line)) else {
            break;
        };
        room = left;
        n_older -= 1;
        text.push_str(&line);
    }
    if n_older > 0 {
        text.push_str(&unlisted_subagent_count_line(n_older));
    }
    Some(text)
}

/// Returns the line with the number of holders (subagents that contain archived turns) that do not
/// fit into the list.
fn unlisted_subagent_count_line(n: usize) -> String {
    format!(
        "\n- {n} older ones, not listed: find them with `query_subagent` and `search`, without an id"
    )
}

/// Adds the tool that asks subagents about their transcripts, if the settings enable it or the
/// session already has subagents that hold archived turns.
pub(in crate::agent) fn add_query_tool(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    let is_on = spec.config.subagents.enabled || spec.config.archival.enabled;
    if is_on || has_archived_turns(spec) {
        spec.add_built_in_tool(Arc::new(QuerySubagentTool::new(active_turns.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(n: usize) -> Vec<SubagentSession> {
        let child = |n| SubagentSession {
            agent: format!("held-{n:08}"),
            task: format!("Archive: task number {n}"),
            is_holder: n % 10 != 3,
            plugin: None,
            preset: None,
            tools: Vec::new(),
            state: None,
        };
        (0..n).map(child).collect()
    }

    #[test]
    fn the_list_is_bounded_newest_first_and_says_how_many_older_ones_there_are() {
        assert_eq!(format_archival_subagent_list(&children(0), 1000), None);
        let short = format_archival_subagent_list(&children(3), 1000).unwrap();
        let ids: Vec<&str> = short.lines().filter(|l| l.starts_with("- ")).collect();
        assert_eq!(ids[0], "- id: held-00000002 | task: Archive: task number 2");
        assert_eq!(ids.len(), 3);
        for (n, most) in [(500, 1000), (5000, 1000), (500, 3000)] {
            let list = format_archival_subagent_list(&children(n), most).unwrap();
            assert!(estimate_tokens(&list) <= most + 10, "{n} {most}");
            let ids: Vec<&str> = list.lines().filter(|l| l.starts_with("- id")).collect();
            let last = list.lines().last().unwrap();
            let n_older = n / 10 * 9 - ids.len();
            assert!(
                last.starts_with(&format!("- {n_older} older ones")),
                "{last}"
            );
            assert_eq!(
                format_archival_subagent_list(&children(n), most).unwrap(),
                list
            );
        }
        let none = format_archival_subagent_list(&children(3), 0).unwrap();
        assert!(none.contains("- 3 older ones, not listed"), "{none}");
    }
}
