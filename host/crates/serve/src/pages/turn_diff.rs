//! Compares two turns. Shows the differences between the lines of their conversations as a patch.

use maud::{Markup, html};
use rind_lib::session::{TurnEventContent, TurnView};
use similar::{ChangeTag, TextDiff};

use super::waterfall::mask_and_escape_text;

/// Number of unchanged lines that are shown around a change.
const DIFF_CONTEXT_LINES: usize = 3;

/// Maximum number of lines that the page with a comparison of two turns shows.
const MAX_DIFF_LINES_PER_PAGE: usize = 5000;

/// Maximum time for the comparison. Lines that are not compared within this time count as changed.
const DIFF_COMPARISON_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Renders the lines in which the conversations of two turns differ.
pub(super) fn render_turn_diff(from: &TurnView, to: &TurnView) -> Markup {
    let (before, after) = (
        format_conversation_lines(from),
        format_conversation_lines(to),
    );
    let diff = TextDiff::configure()
        .timeout(DIFF_COMPARISON_TIMEOUT)
        .diff_lines(&before, &after);
    let groups = diff.grouped_ops(DIFF_CONTEXT_LINES);
    let mut n_lines = 0;
    html! {
        @if groups.is_empty() { p { "Both turns say and do the same." } }
        @for group in &groups {
            pre.diff {
                @for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                    @let is_shown = { n_lines += 1; n_lines <= MAX_DIFF_LINES_PER_PAGE };
                    @if is_shown {
                        @match change.tag() {
                            ChangeTag::Delete => { del { "-" (change.value()) } },
                            ChangeTag::Insert => { ins { "+" (change.value()) } },
                            ChangeTag::Equal => { " " (change.value()) },
                        }
                    }
                }
            }
        }
        @if n_lines > MAX_DIFF_LINES_PER_PAGE { p { (n_lines - MAX_DIFF_LINES_PER_PAGE) " more lines are not shown." } }
    }
}

/// Returns the messages, calls and decisions of a turn as lines, without times and ids: those always differ.
fn format_conversation_lines(turn: &TurnView) -> String {
    let mut lines = String::new();
    let mut add = |what: &str, text: &str| {
        lines.push_str(what);
        lines.push('\n');
        for line in mask_and_escape_text(text).lines() {
            lines.push_str("  ");
            lines.push_str(line);
            lines.push('\n');
        }
    };
    for item in &turn.items {
        match &item.item {
            TurnEventContent::Said { role, by, text, .. } => {
                let who = by
                    .as_deref()
                    .map_or_else(|| format!("{role:?}").to_lowercase(), mask_and_escape_text);
                add(&who, text);
            }
            TurnEventContent::Call(call) => {
                let arguments = call.ran_with.as_ref().unwrap_or(&call.arguments);
                let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
                add(
                    &format!("call of {}", mask_and_escape_text(&call.tool)),
                    &arguments,
                );
                if let Some(by) = &call.refused_by {
                    add("refused by", by);
                }
                for decision in &call.decisions {
                    add(
                        &hook_decision_text(&decision.plugin, &decision.outcome),
                        decision.reason.as_deref().unwrap_or_default(),
                    );
                }
                add("result", call.result.as_deref().unwrap_or_default());
            }
            TurnEventContent::Decision(decision) => {
                add(
                    &hook_decision_text(&decision.plugin, &decision.outcome),
                    decision.reason.as_deref().unwrap_or_default(),
                );
            }
            TurnEventContent::Subagent { task, answer, .. } => {
                add("subagent", task);
                add("its answer", answer.as_deref().unwrap_or_default());
            }
            TurnEventContent::Replaced {
                reason, summary, ..
            } => add(
                &format!("replaced: {}", mask_and_escape_text(reason)),
                summary,
            ),
            TurnEventContent::Note { text } => add("note", text),
            TurnEventContent::Step { .. } | TurnEventContent::Prompt { .. } => {}
        }
    }
    lines
}

fn hook_decision_text(plugin: &str, outcome: &str) -> String {
    format!(
        "{}: {}",
        mask_and_escape_text(plugin),
        mask_and_escape_text(outcome)
    )
}
