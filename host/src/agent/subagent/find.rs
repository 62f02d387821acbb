//! Finds a subagent by its id or by a prefix of the id.
//!
//! The module must not know what the ids identify. Start from [`resolve_agent`].

use crate::text::escape_and_truncate_line;

/// Maximum number of ids of subagents that an error message names.
const MAX_SUBAGENT_IDS_IN_ERROR: usize = 8;

/// Maximum length of an id in an error, in bytes.
const MAX_SHOWN_SUBAGENT_ID_BYTES: usize = 64;

/// Reason why a text does not identify exactly one subagent.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::agent) enum UnresolvedSubagentReason {
    /// No subagent has an id that begins with the text.
    Unknown,
    /// Several ids begin with the text; the message names them.
    Ambiguous(String),
}

/// Resolves a text to an id: an exact id, or a prefix that only one id has.
///
/// For example, with the ids `sub-4961a0c2` and `sub-49d30b7e`:
///
/// ```text
/// sub-4961a0c2    ->  sub-4961a0c2
/// sub-496         ->  sub-4961a0c2
/// sub-49          ->  ambiguous
/// ```
pub(in crate::agent) fn resolve_agent<'a>(
    text: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<&'a str, UnresolvedSubagentReason> {
    let text = text.trim();
    let mut begin: Vec<&str> = ids.into_iter().filter(|id| id.starts_with(text)).collect();
    begin.sort_unstable();
    begin.dedup();
    if let Some(id) = begin.iter().find(|id| **id == text) {
        return Ok(id);
    }
    match begin.as_slice() {
        [id] if !text.is_empty() => Ok(id),
        [] => Err(UnresolvedSubagentReason::Unknown),
        _ if text.is_empty() => Err(UnresolvedSubagentReason::Unknown),
        several => Err(UnresolvedSubagentReason::Ambiguous(format!(
            "`{}` is the beginning of {} ids: {}; write more of the one you mean",
            escape_and_truncate_line(text, MAX_SHOWN_SUBAGENT_ID_BYTES),
            several.len(),
            format_first_subagent_ids(several)
        ))),
    }
}

/// Returns the message that no subagent has this id. `ids` are the existing ids, oldest first.
pub(in crate::agent) fn unknown_agent_text<'a>(
    text: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut ids: Vec<&str> = ids.into_iter().collect();
    ids.reverse();
    let which = match ids.as_slice() {
        [] => "this conversation has none".to_owned(),
        ids => format!("the newest are {}", format_first_subagent_ids(ids)),
    };
    let text = escape_and_truncate_line(text, MAX_SHOWN_SUBAGENT_ID_BYTES);
    format!("there is no subagent `{text}`; {which}")
}

fn format_first_subagent_ids(ids: &[&str]) -> String {
    let named = ids
        .get(..MAX_SUBAGENT_IDS_IN_ERROR)
        .unwrap_or(ids)
        .join(", ");
    match ids.len().checked_sub(MAX_SUBAGENT_IDS_IN_ERROR) {
        Some(n_more @ 1..) => format!("{named} and {n_more} more"),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_by_any_beginning_that_no_other_has() {
        let ids = ["sub-4961a0c2", "sub-49d30b7e", "held-11", "held-1"];
        for (text, expected) in [
            ("sub-4961a0c2", Some("sub-4961a0c2")),
            (" sub-496 ", Some("sub-4961a0c2")),
            ("sub-49d", Some("sub-49d30b7e")),
            // An id that is a prefix of another id can still be named exactly.
            ("held-1", Some("held-1")),
            ("held-11", Some("held-11")),
            ("sub-49", None),
            ("sub-7", None),
            ("496", None),
            ("", None),
        ] {
            assert_eq!(resolve_agent(text, ids).ok(), expected, "{text}");
        }
        let Err(UnresolvedSubagentReason::Ambiguous(why)) = resolve_agent("sub-", ids) else {
            panic!("not ambiguous");
        };
        assert_eq!(
            why,
            "`sub-` is the beginning of 2 ids: sub-4961a0c2, sub-49d30b7e; write more of the one you mean"
        );
    }

    #[test]
    fn an_unknown_id_is_told_with_the_newest_ones_and_without_control_characters() {
        let ids: Vec<String> = (0..20).map(|n| format!("sub-{n}")).collect();
        let why = unknown_agent_text("x\u{1b}[2J", ids.iter().map(String::as_str));
        assert!(why.contains("the newest are sub-19, sub-18,"), "{why}");
        assert!(why.ends_with("sub-12 and 12 more"), "{why}");
        assert!(!why.contains('\u{1b}'), "{why}");
        assert!(unknown_agent_text("x", []).ends_with("this conversation has none"));
    }
}
