//! `/permissions`: lists the approvals of the session and revokes them.

use super::super::render::{BOLD, DIM, WARN, one_line, style_text};
use rind_lib::tool::approval::SessionApprovals;

/// Maximum length of the text that describes one approval, in characters.
const MAX_APPROVAL_CHARS: usize = 400;

/// Revokes the approval with this number or, if `number` is empty, lists the approvals of the
/// session. Returns lines for the person.
pub(super) fn run_permissions_command(approvals: &SessionApprovals, number: &str) -> Vec<String> {
    let approved = approvals.approved();
    if number.is_empty() {
        if approved.is_empty() {
            return vec![style_text(DIM, "nothing was allowed for this session")];
        }
        let lines = approved.iter().enumerate().map(|(n, approved)| {
            let by = approved.by.as_ref().map(|by| format!(", called by {by}"));
            let of = approved.plugin.as_ref().map(|of| format!(" of {of}"));
            format!(
                "  {} {}{}{}: {}",
                n + 1,
                style_text(BOLD, &approved.tool),
                of.unwrap_or_default(),
                by.unwrap_or_default(),
                one_line(&approved.covers, MAX_APPROVAL_CHARS)
            )
        });
        return lines.collect();
    }
    let chosen = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let line = match chosen.and_then(|at| approved.get(at)) {
        Some(approved) => {
            approvals.revoke(approved);
            let covers = one_line(&approved.covers, MAX_APPROVAL_CHARS);
            let what = format!("taken back: {}: {covers}", approved.tool);
            style_text(DIM, what)
        }
        None => style_text(
            WARN,
            "there is no such number; /permissions lists the numbers",
        ),
    };
    vec![line]
}
