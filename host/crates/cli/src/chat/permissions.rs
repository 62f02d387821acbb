//! `/permissions`: lists the approvals of the session and revokes them.

use super::super::render::{
    BOLD_STYLE, DIM_STYLE, WARNING_STYLE, style_text, truncate_to_one_line,
};
use rind_lib::tool::approval::SessionApprovals;

/// Maximum length of the text that describes one approval, in characters.
const MAX_APPROVAL_TEXT_CHARS: usize = 400;

/// Revokes the approval with this number or, if `number` is empty, lists the approvals of the
/// session. Returns lines for the person.
pub(super) fn list_or_revoke_approvals(approvals: &SessionApprovals, number: &str) -> Vec<String> {
    let approved = approvals.list_session_approvals();
    if number.is_empty() {
        if approved.is_empty() {
            return vec![style_text(
                DIM_STYLE,
                "nothing was allowed for this session",
            )];
        }
        let lines = approved.iter().enumerate().map(|(n, approved)| {
            let by = approved.by.as_ref().map(|by| format!(", called by {by}"));
            let of = approved.plugin.as_ref().map(|of| format!(" of {of}"));
            format!(
                "  {} {}{}{}: {}",
                n + 1,
                style_text(BOLD_STYLE, &approved.tool),
                of.unwrap_or_default(),
                by.unwrap_or_default(),
                truncate_to_one_line(&approved.covers, MAX_APPROVAL_TEXT_CHARS)
            )
        });
        return lines.collect();
    }
    let chosen = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let line = match chosen.and_then(|at| approved.get(at)) {
        Some(approved) => {
            approvals.revoke(approved);
            let covers = truncate_to_one_line(&approved.covers, MAX_APPROVAL_TEXT_CHARS);
            let what = format!("taken back: {}: {covers}", approved.tool);
            style_text(DIM_STYLE, what)
        }
        None => style_text(
            WARNING_STYLE,
            "there is no such number; /permissions lists the numbers",
        ),
    };
    vec![line]
}
