//! Pieces of lines about tool calls, subagents and hooks, for the plain view and the trace.

use anstyle::Style;

use super::row::TableRow;
use super::{
    BAD, BOLD, DIM, GOOD, PLUGIN, WARN, format_bytes, format_count, format_dollars,
    format_duration, format_millis, one_line,
};
use rind_lib::event::{Event, SubagentState};
use rind_lib::message::{Parts, ToolCall, ToolResult};
use rind_lib::point::outcome::Level;
use rind_lib::point::trace::TraceOutcome;

/// Maximum columns of a reason. Its end contains the remedy, or the last words of a plugin before
/// it died.
pub(in super::super) const WHY_WIDTH: usize = 400;

/// Row of a tool call that begins, `by` a plugin or the model. The caller appends the arguments.
pub(in super::super) fn tool_call(
    level: usize,
    call: &ToolCall,
    plugin: &Option<String>,
    by: &Option<String>,
) -> TableRow {
    let row = TableRow::at_level(level)
        .add_text(GOOD, "●")
        .with_plugin(by);
    let row = row.then_text(BOLD, &one_line(&call.name, 64));
    match plugin {
        Some(plugin) => row.then_text(DIM, &format!("of {plugin}")),
        None => row,
    }
}

/// Row of a tool call of an earlier run, marked if it failed, was refused or was cancelled. The caller
/// appends the arguments.
pub(in super::super) fn earlier_call(call: &ToolCall, has_failed: bool) -> TableRow {
    if !has_failed {
        return tool_call(0, call, &None, &None);
    }
    let row = TableRow::at_level(0).add_text(BAD, "✗");
    row.then_text(BOLD, &one_line(&call.name, 64))
}

/// Row of a subagent that starts. The caller appends the task.
pub(super) fn subagent_row(
    level: usize,
    agent: &str,
    plugin: &Option<String>,
    preset: &Option<String>,
) -> TableRow {
    let row = TableRow::at_level(level)
        .add_text(GOOD, "◆")
        .with_plugin(plugin);
    let row = row.then_text(BOLD, agent);
    match preset {
        Some(preset) => row.then_text(PLUGIN, &one_line(preset, 64)),
        None => row,
    }
}

/// Style and word for the state that a subagent ended in.
pub(super) fn subagent_end(state: SubagentState) -> (Style, &'static str) {
    let style = match state {
        SubagentState::Answered | SubagentState::Running => DIM,
        SubagentState::Blocked
        | SubagentState::Limited
        | SubagentState::Stopped
        | SubagentState::Interrupted
        | SubagentState::Failed => WARN,
    };
    (style, state.as_word())
}

/// Describes the work of a subagent: steps, tokens and cost.
pub(in super::super) fn subagent_work(steps: u32, tokens: u64, cost_usd: f64) -> String {
    let mut words = Vec::new();
    if steps > 0 {
        words.push(format_count(u64::from(steps), "step"));
    }
    words.push(format!("{tokens} tokens"));
    words.extend(format_dollars(cost_usd));
    words.join(" · ")
}

/// Row of a notice without its text, and the style for the text.
pub(super) fn notice_row(
    level: usize,
    loudness: Level,
    plugin: &Option<String>,
) -> (TableRow, Style) {
    // The warning sign is for warnings.
    let (style, mark) = match loudness {
        Level::Debug | Level::Info => (DIM, "·"),
        Level::Warn => (WARN, "▲"),
        Level::Error => (BAD, "▲"),
    };
    (
        TableRow::at_level(level)
            .add_text(style, mark)
            .with_plugin(plugin),
        style,
    )
}

/// Describes the replacement of older messages at the end of compaction or archival, or why they
/// stay.
pub(super) fn shorten_event(event: &Event) -> Result<String, &str> {
    let kept = |messages: &u32| format_count(u64::from(*messages), "message");
    match event {
        Event::CompactEnd {
            messages,
            summary: Some(summary),
            is_built_in,
            ..
        } => {
            let by = match is_built_in {
                true => "",
                false => ", written by a plugin",
            };
            let size = format_bytes(summary.len() as u64);
            let kept = kept(messages);
            Ok(format!("{kept} replaced by a summary of {size}{by}"))
        }
        Event::ArchiveEnd {
            messages,
            holder: Some(holder),
            summary: Some(summary),
            ..
        } => {
            let (kept, size) = (kept(messages), format_bytes(summary.len() as u64));
            let what = format!("{kept} moved to {holder}, a summary of {size} stays");
            Ok(what)
        }
        Event::CompactEnd { refused, .. } | Event::ArchiveEnd { refused, .. } => {
            Err(refused.as_deref().unwrap_or("no reason given"))
        }
        _ => Err(""),
    }
}

/// Returns the most informative argument, or all arguments.
pub(in super::super) fn call_arguments(call: &ToolCall) -> String {
    let telling = ["command", "path", "pattern", "regex", "query"]
        .into_iter()
        .find_map(|name| call.arguments.get(name)?.as_str());
    let words = telling.map_or_else(
        || one_line(&call.arguments.to_string(), 100),
        |text| one_line(text, 100),
    );
    let goes_on = call.name == "bash" && call.arguments.get("background") == Some(&true.into());
    let mark = if goes_on { " (in the background)" } else { "" };
    words + mark
}

/// Extracts the reason for a refusal from the text for the model.
fn why_refused<'a>(content: &'a str, who: &str) -> &'a str {
    // Strip the prefix that tells the model who refused.
    let own = |article| content.strip_prefix(&format!("refused by {article}{who}: "));
    let of_skill = || content.strip_prefix(&format!("refused by {who}, which "));
    let why = own("").or_else(|| own("the ")).or_else(of_skill);
    let why = why.unwrap_or(content);
    // Drop the last line under the words of a plugin or the user: it is advice for the model.
    let has_advice = who.starts_with("plugin ") || who == "user";
    let words = why.rsplit_once('\n').filter(|_| has_advice);
    words.map_or(why, |(words, _)| words)
}

/// Formats the size of a tool's answer: blobs by their type and size, all else by its length.
fn content_amount(content: &Parts) -> String {
    let blobs: Vec<String> = content.blobs().map(ToString::to_string).collect();
    let text = content.text();
    match blobs.as_slice() {
        [] => format!(
            "{} in {}",
            format_bytes(text.len() as u64),
            format_count(text.lines().count() as u64, "line")
        ),
        blobs => one_line(&blobs.join(" "), WHY_WIDTH),
    }
}

pub(in super::super) struct StepsEnd<'a> {
    pub(in super::super) style: Style,
    pub(super) mark: &'static str,
    pub(in super::super) what: String,
    /// Reason of a refusal or failure; else empty.
    pub(in super::super) why: &'a str,
}

impl<'a> StepsEnd<'a> {
    /// Describes the end of a call whose result has this `text`.
    pub(in super::super) fn end_of_call(
        result: &ToolResult,
        text: &'a str,
        duration_ms: u64,
        refused_by: Option<&str>,
    ) -> Self {
        let (style, mark, what, why) = match refused_by {
            Some(who) => {
                let (style, mark) = match result.is_error {
                    true => (BAD, "✗"),
                    false => (WARN, "○"),
                };
                let why = why_refused(text, who);
                (style, mark, format!("refused by {who}:"), why)
            }
            None if result.is_error => (WARN, "└", "error:".to_owned(), text),
            None => {
                let what = format!(
                    "{}, {}",
                    content_amount(&result.content),
                    format_millis(duration_ms)
                );
                (DIM, "└", what, "")
            }
        };
        Self {
            style,
            mark,
            what,
            why,
        }
    }
}

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

/// Formats the time in hooks, if any of them was called.
pub(super) fn duration_text(was_called: bool, micros: f64) -> String {
    if was_called {
        format_duration(micros)
    } else {
        "–".to_owned()
    }
}
