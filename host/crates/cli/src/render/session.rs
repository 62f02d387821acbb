//! Renders sessions in lists, and their prompt ledgers.

use std::path::Path;

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    format_bytes, format_count_with_noun, print_stdout_line, style_text, truncate_to_one_line,
};
use rind_lib::message::Usage;
use rind_lib::point::payload::Tier;
use rind_lib::prompt::ledger::{
    CacheBreakpoint, PromptPartChange, PromptPartComparison, TurnPromptReport,
};
use rind_lib::session::{SessionState, SessionSummary};

/// Width of the columns for key and source; longer values shift the rest of their line.
const KEY_AND_SOURCE_COLUMN_CHARS: usize = 40;

/// Formats the time from `then` to `now`, both in milliseconds since 1970.
pub(in super::super) fn format_ago(now: i64, then: i64) -> String {
    let minutes = now.saturating_sub(then) / 60_000;
    match minutes {
        ..1 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..2880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / (24 * 60)),
    }
}

/// Describes a session in a list: its age, length, state and title.
pub(in super::super) fn describe_session(head: &SessionSummary, now: i64) -> String {
    let state = match head.state {
        SessionState::Empty | SessionState::Finished => "",
        SessionState::Open => " · open turn",
        SessionState::Waiting => " · waiting for an answer",
    };
    let title = match head.title.is_empty() {
        true => "(nothing was said)".to_owned(),
        false => truncate_to_one_line(&head.title, 80),
    };
    format!(
        "{} · {}{state} · {title}",
        format_ago(now, head.updated),
        format_count_with_noun(head.turns, "turn")
    )
}

/// Whether the session's workspace is this folder.
pub(in super::super) fn is_session_in_workspace(row: &SessionSummary, workspace: &Path) -> bool {
    Path::new(&row.workspace) == workspace
}

/// Describes a session in a list of choices; adds its folder if that is not `workspace`.
pub(in super::super) fn describe_session_choice(
    row: &SessionSummary,
    workspace: &Path,
    now: i64,
) -> String {
    let about = describe_session(row, now);
    match is_session_in_workspace(row, workspace) {
        true => about,
        false => format!("{about} · in {}", row.workspace),
    }
}

/// Prints the ledger, that is, the parts of the system prompt turn by turn: all parts of the first
/// turn, then only the changes.
pub(in super::super) fn print_system_prompt_ledger(id: &str, turns: &[TurnPromptReport]) {
    print_stdout_line(format_args!(
        "session {}",
        style_text(BOLD_STYLE, truncate_to_one_line(id, 64))
    ));
    if turns.is_empty() {
        print_stdout_line("no turn of this session has a system prompt");
    }
    for (at, turn) in turns.iter().enumerate() {
        print_stdout_line(format_args!(
            "{} {}",
            style_text(BOLD_STYLE, format_args!("turn {}", turn.turn)),
            truncate_to_one_line(&turn.input, 80)
        ));
        print_prompt_parts(turn, at == 0);
        print_turn_tokens_and_cost(turn);
    }
}

fn print_prompt_parts(turn: &TurnPromptReport, is_first: bool) {
    let shown = |row: &&PromptPartComparison| is_first || row.change != PromptPartChange::Kept;
    let rows: Vec<&PromptPartComparison> = turn.parts.iter().filter(shown).collect();
    let keys: Vec<String> = rows
        .iter()
        .map(|r| truncate_to_one_line(&r.part.key, KEY_AND_SOURCE_COLUMN_CHARS))
        .collect();
    let sources = rows
        .iter()
        .map(|r| truncate_to_one_line(&r.part.source, KEY_AND_SOURCE_COLUMN_CHARS));
    let sources: Vec<String> = sources.collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max();
    let key_width = widest(&keys).unwrap_or_default();
    let source_width = widest(&sources).unwrap_or_default();
    for ((row, key), source) in rows.iter().zip(keys).zip(sources) {
        let mark = match row.change {
            _ if is_first => " ".to_owned(),
            PromptPartChange::Kept => " ".to_owned(),
            PromptPartChange::Added => style_text(SUCCESS_STYLE, "+"),
            PromptPartChange::Changed => style_text(WARNING_STYLE, "~"),
            PromptPartChange::Removed => style_text(ERROR_STYLE, "-"),
        };
        let part = &row.part;
        print_stdout_line(format_args!(
            "{mark} {:<8} {key:<key_width$}  {}  {:>8} {:>6} tokens  {}",
            prompt_stability_tier_name(part.tier),
            style_text(PLUGIN_NAME_STYLE, format_args!("{source:<source_width$}")),
            format_bytes(part.bytes as u64),
            part.tokens,
            style_text(DIM_STYLE, &part.hash),
        ));
    }
    let n_kept = turn.parts.len() - rows.len();
    if n_kept > 0 {
        let text = format!(
            "  {} as before",
            format_count_with_noun(n_kept as u64, "part")
        );
        print_stdout_line(style_text(DIM_STYLE, text));
    }
}

fn print_turn_tokens_and_cost(turn: &TurnPromptReport) {
    for rewrite in &turn.rewrites {
        print_stdout_line(format_args!(
            "  {} {} changed what is sent at {}",
            style_text(WARNING_STYLE, "▲"),
            style_text(PLUGIN_NAME_STYLE, truncate_to_one_line(&rewrite.plugin, 64)),
            truncate_to_one_line(&rewrite.point, 64)
        ));
    }
    for lost in &turn.lost {
        print_stdout_line(format_args!(
            "  {} no cache boundary after the {} tier: the text before it was changed",
            style_text(WARNING_STYLE, "▲"),
            prompt_stability_tier_name(*lost)
        ));
    }
    if let Some(broken) = &turn.broken {
        let by: Vec<String> = broken
            .by
            .iter()
            .map(|by| truncate_to_one_line(by, 120))
            .collect();
        print_stdout_line(format_args!(
            "  {} the cache is invalid from {} on: {}",
            style_text(WARNING_STYLE, "▲"),
            cache_breakpoint_text(broken.border),
            by.join(", ")
        ));
    }
    let steps = format_count_with_noun(turn.steps.len() as u64, "step");
    let text = format!("  {steps} · {}", format_cache_usage(turn.usage));
    print_stdout_line(style_text(DIM_STYLE, text));
    if let (Some(first), 2..) = (turn.steps.first(), turn.steps.len()) {
        let text = format!("  the first step · {}", format_cache_usage(first.usage));
        print_stdout_line(style_text(DIM_STYLE, text));
    }
}

fn format_cache_usage(usage: Usage) -> String {
    format!(
        "{} tokens in · {} read from cache · {} written to cache",
        usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    )
}

fn prompt_stability_tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Stable => "stable",
        Tier::Context => "context",
        Tier::Volatile => "volatile",
    }
}

fn cache_breakpoint_text(border: CacheBreakpoint) -> &'static str {
    match border {
        CacheBreakpoint::Tools => "the tools",
        CacheBreakpoint::Stable => "the stable tier",
        CacheBreakpoint::Context => "the context tier",
        CacheBreakpoint::Conversation => "the conversation",
    }
}

#[cfg(test)]
mod tests {
    use super::format_ago;

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        let minute = 60_000;
        let at = |minutes: i64| format_ago(minutes * minute + 1, 1);
        let said: Vec<String> = [-3, 0, 1, 59, 60, 2879, 2880].map(at).to_vec();
        let expected = [
            "just now",
            "just now",
            "1 min ago",
            "59 min ago",
            "1 h ago",
            "47 h ago",
            "2 days ago",
        ];
        assert_eq!(said, expected);
    }
}
