//! Adds a line to a summary that says where the replaced turns can still be read.
//!
//! A summary of compaction also replaces the messages that named the holders of archived turns, so
//! that the model would lose the holders' ids. Start from [`name_holders`].

use std::collections::HashSet;

use crate::message::Message;
use crate::session::Child;

/// Prefix of the line, which follows the text of the summary.
const HEAD: &str = "\n\n[how to read what this replaces: ";

/// Maximum number of holders that are named.
const MAX_NAMED: usize = 20;

/// Returns the line for a summary. It names the holders among `children`, the newest first, that no
/// remaining message in `stays` names.
pub(super) fn name_holders<'a>(
    children: &[Child],
    stays: impl IntoIterator<Item = &'a Message>,
) -> String {
    let named: HashSet<&str> = stays.into_iter().filter_map(Message::archived_in).collect();
    let holders = children.iter().rev().filter(|child| child.is_holder);
    let gone: Vec<&str> = holders
        .map(|child| child.agent.as_str())
        .filter(|id| !named.contains(id))
        .collect();
    let listed = gone.get(..MAX_NAMED).unwrap_or(&gone).join(", ");
    let turns = match gone.len().saturating_sub(MAX_NAMED) {
        _ if gone.is_empty() => String::new(),
        0 => format!("archived turns are kept by {listed}; "),
        n_older => format!(
            "archived turns are kept by {listed} and {n_older} older ones, found by searching; "
        ),
    };
    format!("{HEAD}{turns}`query_subagent` without an id searches everything that was moved out]")
}

/// Returns the text of a summary without the line about holders.
pub(super) fn without_holders(text: &str) -> &str {
    match text.rsplit_once(HEAD) {
        Some((summary, line)) if line.ends_with(']') && !line.contains('\n') => summary,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    fn children(n: usize) -> Vec<Child> {
        let child = |n| Child {
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
            Message::of_archived("held-2", "s"),
            Message::text(Role::User, "[archived turn]\nsubagent_id: held-1"),
        ];
        let line = name_holders(&children(3), &stays);
        assert!(line.contains("are kept by held-1, held-0; "), "{line}");
        let line = name_holders(&children(30), &stays);
        assert!(line.contains("kept by held-29, held-28"), "{line}");
        assert!(line.contains("held-10 and 9 older ones"), "{line}");
        let none = name_holders(&[], &[]);
        assert!(!none.contains("held"), "{none}");
        for line in [line, none] {
            assert_eq!(
                without_holders(&format!("## Files\n- a{line}")),
                "## Files\n- a"
            );
        }
        assert_eq!(
            without_holders("a\n\n[how to read what this replaces: x"),
            "a\n\n[how to read what this replaces: x"
        );
    }
}
