//! Formats pieces of lines about tool calls, subagents and hooks, for the plain view and the trace.

use anstyle::Style;

use super::row::OutputRowBuilder;
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    format_bytes, format_count_with_noun, format_dollars, format_duration_micros,
    format_duration_ms, truncate_to_one_line,
};
use rind_lib::event::{Event, SubagentState};
use rind_lib::message::{Parts, ToolCall, ToolResult};
use rind_lib::point::outcome::Level;
use rind_lib::point::trace::TraceOutcome;

/// Maximum length of a reason, in characters. The end of the reason must stay visible: it has the
/// remedy, or the last output of a plugin before the plugin died.
pub(in super::super) const MAX_OUTCOME_REASON_CHARS: usize = 400;

/// Returns the row of a tool call that begins, to which the arguments must be appended. `by` names
/// who made the call if it is not the model.
pub(in super::super) fn tool_call_row(
    level: usize,
    call: &ToolCall,
    plugin: &Option<String>,
    by: &Option<String>,
) -> OutputRowBuilder {
    let row = OutputRowBuilder::with_indent_level(level)
        .with_styled_text(SUCCESS_STYLE, "●")
        .with_plugin_name(by);
    let row = row.with_space_and_styled_text(BOLD_STYLE, &truncate_to_one_line(&call.name, 64));
    match plugin {
        Some(plugin) => row.with_space_and_styled_text(DIM_STYLE, &format!("of {plugin}")),
        None => row,
    }
}

/// Returns the row of a tool call of an earlier run, marked if it failed, was refused or was
/// cancelled. The caller appends the arguments.
pub(in super::super) fn recorded_tool_call_row(
    call: &ToolCall,
    has_failed: bool,
) -> OutputRowBuilder {
    if !has_failed {
        return tool_call_row(0, call, &None, &None);
    }
    let row = OutputRowBuilder::with_indent_level(0).with_styled_text(ERROR_STYLE, "✗");
    row.with_space_and_styled_text(BOLD_STYLE, &truncate_to_one_line(&call.name, 64))
}

/// Returns the output row for a subagent that starts. The caller appends the subagent's task.
pub(super) fn subagent_row(
    level: usize,
    agent: &str,
    plugin: &Option<String>,
    preset: &Option<String>,
) -> OutputRowBuilder {
    let row = OutputRowBuilder::with_indent_level(level)
        .with_styled_text(SUCCESS_STYLE, "◆")
        .with_plugin_name(plugin);
    let row = row.with_space_and_styled_text(BOLD_STYLE, agent);
    match preset {
        Some(preset) => {
            row.with_space_and_styled_text(PLUGIN_NAME_STYLE, &truncate_to_one_line(preset, 64))
        }
        None => row,
    }
}

/// Returns the style and word for the final state of a subagent.
pub(super) fn subagent_state_style(state: SubagentState) -> (Style, &'static str) {
    let style = match state {
        SubagentState::Answered | SubagentState::Running => DIM_STYLE,
        SubagentState::Blocked
        | SubagentState::Limited
        | SubagentState::Stopped
        | SubagentState::Interrupted
        | SubagentState::Failed => WARNING_STYLE,
    };
    (style, state.as_word())
}

/// Describes the work of a subagent: steps, tokens and cost.
pub(in super::super) fn describe_subagent_work(steps: u32, tokens: u64, cost_usd: f64) -> String {
    let mut words = Vec::new();
    if steps > 0 {
        words.push(format_count_with_noun(u64::from(steps), "step"));
    }
    words.push(format!("{tokens} tokens"));
    words.extend(format_dollars(cost_usd));
    words.join(" · ")
}

/// Returns the row of a notice without its text, and the style for the text.
pub(super) fn plugin_notice_row_and_style(
    level: usize,
    loudness: Level,
    plugin: &Option<String>,
) -> (OutputRowBuilder, Style) {
    // Only warnings and errors get the warning sign.
    let (style, mark) = match loudness {
        Level::Debug | Level::Info => (DIM_STYLE, "·"),
        Level::Warn => (WARNING_STYLE, "▲"),
        Level::Error => (ERROR_STYLE, "▲"),
    };
    (
        OutputRowBuilder::with_indent_level(level)
            .with_styled_text(style, mark)
            .with_plugin_name(plugin),
        style,
    )
}

/// Describes, at the end of a compaction or archival, what was replaced. `Err` has the reason why
/// the older messages were kept.
pub(super) fn describe_compaction_result(event: &Event) -> Result<String, &str> {
    let kept = |messages: &u32| format_count_with_noun(u64::from(*messages), "message");
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

/// Returns the most informative argument of a call, such as its command or path, or else all
/// arguments.
pub(in super::super) fn summarize_call_arguments(call: &ToolCall) -> String {
    let telling = ["command", "path", "pattern", "regex", "query"]
        .into_iter()
        .find_map(|name| call.arguments.get(name)?.as_str());
    let words = telling.map_or_else(
        || truncate_to_one_line(&call.arguments.to_string(), 100),
        |text| truncate_to_one_line(text, 100),
    );
    let goes_on = call.name == "bash" && call.arguments.get("background") == Some(&true.into());
    let mark = if goes_on { " (in the background)" } else { "" };
    words + mark
}

/// Extracts the reason for a refusal from the result text, which is written for the model.
fn extract_refusal_reason<'a>(content: &'a str, who: &str) -> &'a str {
    // Strip the prefix that tells the model who refused.
    let own = |article| content.strip_prefix(&format!("refused by {article}{who}: "));
    let of_skill = || content.strip_prefix(&format!("refused by {who}, which "));
    let why = own("").or_else(|| own("the ")).or_else(of_skill);
    let why = why.unwrap_or(content);
    // Drop the last line of a refusal by a plugin or the user: the host adds it as advice for the
    // model.
    let has_advice = who.starts_with("plugin ") || who == "user";
    let words = why.rsplit_once('\n').filter(|_| has_advice);
    words.map_or(why, |(words, _)| words)
}

/// Formats the size of a tool result: blobs by type and size, plain text by bytes and lines.
fn describe_content_size(content: &Parts) -> String {
    let blobs: Vec<String> = content.blobs().map(ToString::to_string).collect();
    let text = content.text();
    match blobs.as_slice() {
        [] => format!(
            "{} in {}",
            format_bytes(text.len() as u64),
            format_count_with_noun(text.lines().count() as u64, "line")
        ),
        blobs => truncate_to_one_line(&blobs.join(" "), MAX_OUTCOME_REASON_CHARS),
    }
}

pub(in super::super) struct ToolCallOutcomeText<'a> {
    pub(in super::super) style: Style,
    pub(super) mark: &'static str,
    pub(in super::super) what: String,
    /// Reason of a refusal or failure; empty if there is none.
    pub(in super::super) why: &'a str,
}

impl<'a> ToolCallOutcomeText<'a> {
    /// Describes how a tool call ended; `text` is the text of `result`.
    pub(in super::super) fn from_tool_result(
        result: &ToolResult,
        text: &'a str,
        duration_ms: u64,
        refused_by: Option<&str>,
    ) -> Self {
        let (style, mark, what, why) = match refused_by {
            Some(who) => {
                let (style, mark) = match result.is_error {
                    true => (ERROR_STYLE, "✗"),
                    false => (WARNING_STYLE, "○"),
                };
                let why = extract_refusal_reason(text, who);
                (style, mark, format!("refused by {who}:"), why)
            }
            None if result.is_error => (WARNING_STYLE, "└", "error:".to_owned(), text),
            None => {
                let what = format!(
                    "{}, {}",
                    describe_content_size(&result.content),
                    format_duration_ms(duration_ms)
                );
                (DIM_STYLE, "└", what, "")
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

pub(super) fn hook_outcome_style_and_word(outcome: TraceOutcome) -> (Style, &'static str) {
    match outcome {
        TraceOutcome::Pass => (DIM_STYLE, "pass"),
        TraceOutcome::Changed => (SUCCESS_STYLE, "changed"),
        TraceOutcome::Asked => (WARNING_STYLE, "asked"),
        TraceOutcome::Blocked => (ERROR_STYLE, "blocked"),
        TraceOutcome::Failed => (ERROR_STYLE, "failed, skipped"),
        TraceOutcome::FailedBlocking => (ERROR_STYLE, "failed, refusing"),
        TraceOutcome::Dropped => (WARNING_STYLE, "out this turn"),
        TraceOutcome::DroppedBlocking => (ERROR_STYLE, "out this turn, refusing"),
    }
}

/// Formats the time spent in hooks, if any hook was called.
pub(super) fn hook_duration_text(was_called: bool, micros: f64) -> String {
    if was_called {
        format_duration_micros(micros)
    } else {
        "–".to_owned()
    }
}
