//! Adds a line to a summary of compaction that says how the replaced turns can still be read.
//!
//! Archived turns are kept by subagents (holders). The summary also replaces the messages that
//! named the holders, so without this line the model would lose their ids. Start from
//! [`archival_subagents_line`].

use std::collections::HashSet;

use crate::message::Message;
use crate::session::SubagentSession;

/// Prefix of the line about archived turns, which follows the text of the summary.
const ARCHIVED_TURNS_LINE_PREFIX: &str = "\n\n[how to read what this replaces: ";

/// Maximum number of holders (subagents that contain archived turns) whose ids the line contains.
const MAX_LISTED_ARCHIVAL_SUBAGENT_IDS: usize = 20;

/// Returns the line that follows a summary of compacted messages. The line contains the ids of
/// those holders (subagents that keep archived turns) among `children` that no message in `stays`
/// names, the newest first.
pub(super) fn archival_subagents_line<'a>(
    children: &[SubagentSession],
    stays: impl IntoIterator<Item = &'a Message>,
) -> String {
    let named: HashSet<&str> = stays
        .into_iter()
        .filter_map(Message::id_of_archiving_subagent)
        .collect();
    let holders = children.iter().rev().filter(|child| child.is_holder);
    let gone: Vec<&str> = holders
        .map(|child| child.agent.as_str())
        .filter(|id| !named.contains(id))
        .collect();
    let listed = gone
        .get(..MAX_LISTED_ARCHIVAL_SUBAGENT_IDS)
        .unwrap_or(&gone)
        .join(", ");
    let turns = match gone.len().saturating_sub(MAX_LISTED_ARCHIVAL_SUBAGENT_IDS) {
        _ if gone.is_empty() => String::new(),
        0 => format!("archived turns are kept by {listed}; "),
        n_older => format!(
            "archived turns are kept by {listed} and {n_older} older ones, found by searching; "
        ),
    };
    format!(
        "{ARCHIVED_TURNS_LINE_PREFIX}{turns}`query_subagent` without an id searches everything that was moved out]"
    )
}

/// Returns the text of a summary without the line about the holders of archived turns.
pub(super) fn strip_archival_subagents_line(text: &str) -> &str {
    match text.rsplit_once(ARCHIVED_TURNS_LINE_PREFIX) {
        Some((summary, line)) if line.ends_with(']') && !line.contains('\n') => summary,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    fn children(n: usize) -> Vec<SubagentSession> {
        let child = |n| SubagentSession {
            agent: format!("held-{n}"),
            task: "Archive: x".to_owned(),
            is_holder: true,
            plugin: None,
            preset: None,
            tools: Vec::new(),
            state: None,
        };
        (0..n).map(child).collect()
    }

    #[test]
    fn holders_that_nothing_else_names_are_named_the_newest_first() {
        let stays = [
            Message::for_archived_turn("held-2", "s"),
            Message::text(Role::User, "[archived turn]\nsubagent_id: held-1"),
        ];
        let line = archival_subagents_line(&children(3), &stays);
        assert!(line.contains("are kept by held-1, held-0; "), "{line}");
        let line = archival_subagents_line(&children(30), &stays);
        assert!(line.contains("kept by held-29, held-28"), "{line}");
        assert!(line.contains("held-10 and 9 older ones"), "{line}");
        let none = archival_subagents_line(&[], &[]);
        assert!(!none.contains("held"), "{none}");
        for line in [line, none] {
            assert_eq!(
                strip_archival_subagents_line(&format!("## Files\n- a{line}")),
                "## Files\n- a"
            );
        }
        assert_eq!(
            strip_archival_subagents_line("a\n\n[how to read what this replaces: x"),
            "a\n\n[how to read what this replaces: x"
        );
    }
}
