//! Renders a tool call and a hook, in one line each.

use anstyle::Style;

use super::{BAD, BOLD, DIM, GOOD, PLUGIN, WARN, bytes, count, duration, millis, one_line, styled};
use crate::message::{Parts, ToolCall, ToolResult, Usage};
use crate::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

/// Columns of a reason that are shown. The end of it says what to do, or what a plugin said before it died.
pub(super) const WHY_WIDTH: usize = 400;

/// A tool call about to run, `by` a plugin or the model.
pub(super) fn tool_start(call: &ToolCall, plugin: Option<&str>, by: Option<&str>) -> String {
    let from = plugin
        .map(|plugin| format!(" {}", styled(DIM, format_args!("of {plugin}"))))
        .unwrap_or_default();
    let by = by
        .map(|plugin| format!("{} ", styled(PLUGIN, plugin)))
        .unwrap_or_default();
    format!(
        "{} {by}{}{from} {}",
        styled(GOOD, "●"),
        styled(BOLD, one_line(&call.name, 64)),
        styled(DIM, arguments(call))
    )
}

/// Older messages that were replaced by a summary, or were not.
pub(super) fn compact_end(
    n_messages: u32,
    summary: Option<&str>,
    is_built_in: bool,
    refused: Option<&str>,
) -> String {
    let messages = count(u64::from(n_messages), "message");
    match summary {
        Some(summary) => {
            let by = if is_built_in {
                ""
            } else {
                ", written by a plugin"
            };
            styled(
                DIM,
                format_args!(
                    "≡ the conversation was too long: {messages} replaced by a summary of {}{by}",
                    bytes(summary.len() as u64)
                ),
            )
        }
        None => styled(
            WARN,
            format_args!(
                "≡ the conversation is too long and stays so: {}",
                one_line(refused.unwrap_or("no reason given"), WHY_WIDTH)
            ),
        ),
    }
}

/// A turn that was moved to a holder, with its summary, or stays.
pub(super) fn archive_end(
    n_messages: u32,
    holder: Option<(&str, &str)>,
    refused: Option<&str>,
) -> String {
    match holder {
        Some((agent, summary)) => styled(
            DIM,
            format_args!(
                "≡ an earlier turn was archived: {} are kept by {agent}, a summary of {} stays",
                count(u64::from(n_messages), "message"),
                bytes(summary.len() as u64)
            ),
        ),
        None => styled(
            WARN,
            format_args!(
                "≡ an earlier turn is not archived: {}",
                one_line(refused.unwrap_or("no reason given"), WHY_WIDTH)
            ),
        ),
    }
}

/// A subagent that starts.
pub(super) fn subagent_start(agent: &str, plugin: Option<&str>, task: &str) -> String {
    let by = plugin
        .map(|plugin| format!("{} ", styled(PLUGIN, plugin)))
        .unwrap_or_default();
    format!(
        "{} {by}{} {}",
        styled(GOOD, "◆"),
        styled(BOLD, agent),
        styled(DIM, one_line(task, 100))
    )
}

/// A subagent that ended.
pub(super) fn subagent_end(agent: &str, answer: &str, is_error: bool, usage: Usage) -> String {
    let (style, word) = if is_error {
        (WARN, "failed")
    } else {
        (DIM, "answered")
    };
    format!(
        "  {} {} {}",
        styled(style, format_args!("└ {agent} {word}:")),
        one_line(answer, if is_error { WHY_WIDTH } else { 100 }),
        styled(DIM, format_args!("{} tokens", usage.total()))
    )
}

/// The most telling argument, or all of them.
pub(super) fn arguments(call: &ToolCall) -> String {
    let telling = ["command", "path", "pattern", "regex", "query"]
        .into_iter()
        .find_map(|name| call.arguments.get(name)?.as_str());
    telling.map_or_else(
        || one_line(&call.arguments.to_string(), 100),
        |text| one_line(text, 100),
    )
}

/// Extracts the reason for a refusal from the text for the model.
pub(super) fn why_refused<'a>(content: &'a str, who: &str) -> &'a str {
    // The model is told who refused in the text itself.
    let own = |article| content.strip_prefix(&format!("refused by {article}{who}: "));
    let why = own("").or_else(|| own("the ")).unwrap_or(content);
    // The last line under a plugin's words tells the model what to make of them.
    let words = why.rsplit_once('\n').filter(|_| who.starts_with("plugin "));
    words.map_or(why, |(words, _)| words)
}

/// Formats the size of a tool's answer: blobs by their type and size, all else by its length.
pub(super) fn amount(content: &Parts) -> String {
    let blobs: Vec<String> = content.blobs().map(ToString::to_string).collect();
    let text = content.text();
    match blobs.as_slice() {
        [] => format!(
            "{} in {}",
            bytes(text.len() as u64),
            count(text.lines().count() as u64, "line")
        ),
        blobs => one_line(&blobs.join(" "), WHY_WIDTH),
    }
}

/// Formats a tool call that ended; `named` when its line is not directly below that of its start.
pub(super) fn tool_end(
    result: &ToolResult,
    duration_ms: u64,
    refused_by: Option<&str>,
    named: &str,
) -> String {
    let named = if named.is_empty() {
        String::new()
    } else {
        format!("{}: ", one_line(named, 80))
    };
    let text = result.content.text();
    let took = millis(duration_ms);
    match refused_by {
        Some(_) if !result.is_error => {
            let what = one_line(&text, WHY_WIDTH);
            format!(
                "{} {} {what}",
                styled(WARN, "○"),
                styled(BOLD, one_line(&result.name, 64))
            )
        }
        Some(who) => {
            let why = one_line(why_refused(&text, who), WHY_WIDTH);
            format!(
                "{} {} {} {}",
                styled(BAD, "✗"),
                styled(BOLD, one_line(&result.name, 64)),
                styled(BAD, format_args!("refused by {who}:")),
                why
            )
        }
        None if result.is_error => {
            format!(
                "  {} {}{} {}",
                styled(WARN, "└"),
                styled(DIM, named),
                styled(WARN, "error:"),
                one_line(&text, WHY_WIDTH)
            )
        }
        None => format!(
            "  {}",
            styled(
                DIM,
                format_args!("└ {named}{}, {took}", amount(&result.content))
            )
        ),
    }
}

/// One line for what a plugin reached for.
pub(super) fn access(record: &AccessRecord) -> String {
    let (style, word) = match record.outcome {
        AccessOutcome::Done => (DIM, "done"),
        AccessOutcome::Failed => (WARN, "failed"),
        AccessOutcome::Denied => (BAD, "refused"),
        AccessOutcome::Masked => (WARN, "masked a secret in"),
    };
    let why = record.reason.as_deref().unwrap_or_default();
    format!(
        "  {} {} {} {}",
        styled(PLUGIN, format_args!("{:<24}", record.plugin)),
        styled(style, word),
        one_line(&record.target, WHY_WIDTH),
        styled(DIM, one_line(why, WHY_WIDTH)),
    )
}

/// Describes the outcome of a hook.
pub(super) fn hook_outcome(outcome: TraceOutcome) -> (Style, &'static str) {
    match outcome {
        TraceOutcome::Pass => (DIM, "pass"),
        TraceOutcome::Changed => (GOOD, "changed"),
        TraceOutcome::Asked => (WARN, "asked"),
        TraceOutcome::Blocked => (BAD, "blocked"),
        TraceOutcome::Failed => (BAD, "failed, skipped"),
        TraceOutcome::FailedBlocking => (BAD, "failed, refusing"),
        TraceOutcome::Dropped => (WARN, "out this turn"),
        TraceOutcome::DroppedBlocking => (BAD, "out this turn, refusing"),
    }
}

/// One line for a hook that failed, where there is no trace.
pub(super) fn hook(record: &TraceRecord) -> String {
    let (style, word) = hook_outcome(record.outcome);
    let what = if record.changed.is_empty() {
        String::new()
    } else {
        format!(" {}", record.changed.join(", "))
    };
    let why = record
        .reason
        .as_deref()
        .map(|reason| format!(" {}", styled(DIM, one_line(reason, WHY_WIDTH))))
        .unwrap_or_default();
    let took = if record.was_called() {
        duration(record.micros)
    } else {
        "–".to_owned()
    };
    format!(
        "  {} {} {} {}{what}{why}",
        styled(DIM, format_args!("{:<24}", record.point)),
        styled(PLUGIN, format_args!("{:<24}", record.plugin)),
        styled(DIM, format_args!("{took:>9}")),
        styled(style, word),
    )
}
