//! Renders a turn without a trace: one line for each tool call and each failure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anstyle::Style;

use super::command_end::CommandOutputTail;
use super::row::OutputRowBuilder;
use super::steps::{self, MAX_OUTCOME_REASON_CHARS, ToolCallOutcomeText};
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, format_count_with_noun,
    line, style_text, truncate_to_one_line,
};
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::message::ToolResult;
use rind_lib::point::trace::{AccessOutcome, AccessRecord, TraceOutcome, TraceRecord};

/// Maximum number of lines with which a dry run describes a tool call.
const MAX_DRY_RUN_CALL_LINES: usize = 30;

/// Maximum number of refusals of one plugin that are shown if the user requested no trace.
const MAX_SHOWN_REFUSALS_PER_PLUGIN: u32 = 5;

/// Maximum number of notices of one plugin that are shown if the user requested no trace.
const MAX_SHOWN_NOTICES_PER_PLUGIN: u32 = 8;

#[derive(Default)]
pub(in super::super) struct PlainTurnRenderer {
    /// Flag that hints name as the way to see more output, such as `--json`; `None` stands for
    /// `--trace`.
    more_with: Option<&'static str>,
    refusals: BTreeMap<String, u32>,
    notices: BTreeMap<String, u32>,
    /// Name and arguments of each running tool call, as one text.
    calls: HashMap<TurnPartId, String>,
    /// Call whose start was printed in the last line, if any.
    above: Option<TurnPartId>,
    /// Members of [`FAILURES_SHOWN_ONCE_PER_TURN`] that a line of this turn has already reported.
    told: BTreeSet<&'static str>,
    /// Whether a failed hook has already reported one of [`FAILURES_SHOWN_ONCE_PER_TURN`] in this
    /// turn.
    has_hook_told: bool,
}

/// Causes that make many operations fail at once, in lower case. Each cause is shown once per turn,
/// because further lines would add nothing.
const FAILURES_SHOWN_ONCE_PER_TURN: [&str; 3] = [
    "no space left on device",
    "disk quota exceeded",
    "read-only file system",
];

/// Error of a hook that is only a consequence of one of [`FAILURES_SHOWN_ONCE_PER_TURN`].
const SESSION_WRITE_ERROR_TEXT: &str = "the session cannot be written";

impl PlainTurnRenderer {
    /// Creates a renderer whose hints name `flag` instead of `--trace`.
    pub(super) fn with_flag_for_hints(flag: &'static str) -> Self {
        Self {
            more_with: Some(flag),
            ..Self::default()
        }
    }

    /// Returns the line for an event, if it has one. Of the events of subagents, only tool calls
    /// and failures have lines; the others are only for the parent agent.
    pub(in super::super) fn render_event(&mut self, stamped: &Stamped) -> Option<String> {
        let line = match &stamped.event {
            // Show only failed hooks. A refusal is shown at the call that it prevents, but a
            // failure that the host skips has no other line.
            Event::Hook { record } => {
                (record.outcome == TraceOutcome::Failed).then(|| render_failed_hook(record))
            }
            Event::Access { record } => self.render_blocked_access(record),
            Event::Notice {
                plugin: Some(plugin),
                ..
            } => {
                // Limit the notices of a plugin, so that they do not scroll the lines before a
                // question off the screen.
                let flag = self.more_with;
                let more = count_plugin_line_against_limit(
                    &mut self.notices,
                    plugin,
                    MAX_SHOWN_NOTICES_PER_PLUGIN,
                    flag,
                )?;
                line::format_event_line(&stamped.event).map(|line| line + &more)
            }
            // Only a trace shows the assessment of an input; here it would be noise.
            Event::Assessed { .. } => None,
            Event::ToolEnd {
                result,
                duration_ms,
                refused_by,
                ..
            } => {
                let call = TurnPartId::part_ended_by_event(stamped);
                let words = call.as_ref().and_then(|call| self.calls.remove(call));
                // A result directly below the line of its start needs no name; after other lines it
                // does.
                let named = words.filter(|_| self.above != call);
                let refused_by = refused_by.as_deref();
                Some(render_call_end(result, *duration_ms, refused_by, named))
            }
            event => line::format_event_line(event),
        };
        if matches!(stamped.event, Event::TurnStart { .. }) && stamped.is_from_main_agent() {
            self.reset_reported_failure_causes();
        }
        let is_hook = matches!(stamped.event, Event::Hook { .. });
        // Always show the line of a tool call, even if its text, such as a command's output,
        // contains an error cause that an earlier line has shown.
        let is_call = matches!(
            stamped.event,
            Event::ToolStart { .. } | Event::ToolEnd { .. }
        );
        let line = line.filter(|line| is_call || self.should_show_failure_line(line, is_hook));
        if let Event::ToolStart { call, .. } = &stamped.event {
            self.above = TurnPartId::enclosing_part(stamped, |_| true);
            let words = format!("{} {}", call.name, steps::summarize_call_arguments(call));
            self.calls.extend(self.above.clone().zip(Some(words)));
        } else if line.is_some() {
            self.above = None;
        }
        let is_access = matches!(stamped.event, Event::Access { .. });
        if stamped.is_from_main_agent() || is_access {
            return line;
        }
        line.map(|line| format!("  {} {line}", style_text(DIM_STYLE, &stamped.agent)))
    }

    /// Forgets which of the [`FAILURES_SHOWN_ONCE_PER_TURN`] were reported, because each turn
    /// reports them again. Call it also for a turn that fails before its first event.
    pub(in super::super) fn reset_reported_failure_causes(&mut self) {
        self.told.clear();
        self.has_hook_told = false;
    }

    /// Whether a line adds information: it does not if it names one of
    /// [`FAILURES_SHOWN_ONCE_PER_TURN`] that this turn has already reported. Records that the cause
    /// is reported.
    fn should_show_failure_line(&mut self, line: &str, is_hook: bool) -> bool {
        let lower = line.to_lowercase();
        let cause = FAILURES_SHOWN_ONCE_PER_TURN
            .iter()
            .find(|cause| lower.contains(**cause));
        match cause {
            // Do not mark the cause as reported: the host's later line names the remedy and must
            // still appear.
            Some(_) if is_hook => {
                self.told.is_empty() && !std::mem::replace(&mut self.has_hook_told, true)
            }
            Some(cause) => self.told.insert(cause),
            None => self.told.is_empty() || !line.contains(SESSION_WRITE_ERROR_TEXT),
        }
    }

    fn render_blocked_access(&mut self, record: &AccessRecord) -> Option<String> {
        let (style, word) = match record.outcome {
            AccessOutcome::Denied => (ERROR_STYLE, "refused"),
            AccessOutcome::Masked => (WARNING_STYLE, "masked a secret in"),
            AccessOutcome::Done | AccessOutcome::Failed => return None,
        };
        let flag = self.more_with;
        let more = count_plugin_line_against_limit(
            &mut self.refusals,
            &record.plugin,
            MAX_SHOWN_REFUSALS_PER_PLUGIN,
            flag,
        )?;
        let why = record.reason.as_deref().unwrap_or_default();
        let row = OutputRowBuilder::with_indent_level(1)
            .with_styled_text(PLUGIN_NAME_STYLE, &format!("{:<24}", record.plugin));
        let row = row
            .with_space_and_styled_text(style, word)
            .with_space_and_styled_text(
                Style::new(),
                &truncate_to_one_line(&record.target, MAX_OUTCOME_REASON_CHARS),
            )
            .with_space_and_styled_text(
                DIM_STYLE,
                &truncate_to_one_line(why, MAX_OUTCOME_REASON_CHARS),
            );
        Some(row.into_line() + &more)
    }
}

/// Counts a line of a plugin. Returns the text to append to the line, or `None` if the line exceeds
/// the limit `most`. The text is empty, or at the last line a hint that further lines are hidden.
fn count_plugin_line_against_limit(
    shown: &mut BTreeMap<String, u32>,
    plugin: &str,
    most: u32,
    flag: Option<&str>,
) -> Option<String> {
    let n_shown = shown.entry(plugin.to_owned()).or_default();
    *n_shown = n_shown.saturating_add(1);
    let more = match *n_shown == most {
        true => format!(" (further ones with {})", flag.unwrap_or("--trace")),
        false => String::new(),
    };
    (*n_shown <= most).then(|| style_text(DIM_STYLE, more))
}

/// Renders the line about the end of a tool call. `named` is the call's name and arguments, which
/// the line repeats; `None` directly below the line about the call's start.
fn render_call_end(
    result: &ToolResult,
    duration_ms: u64,
    refused_by: Option<&str>,
    named: Option<String>,
) -> String {
    let text = result.content.text();
    let end = ToolCallOutcomeText::from_tool_result(result, &text, duration_ms, refused_by);
    let named = named.map_or_else(String::new, |named| truncate_to_one_line(&named, 80) + ": ");
    let row = if refused_by.is_some() {
        let name = truncate_to_one_line(&result.name, 64);
        let row = OutputRowBuilder::with_indent_level(0)
            .with_styled_text(end.style, end.mark)
            .with_space_and_styled_text(BOLD_STYLE, &name);
        match result.is_error {
            true => row.with_space_and_styled_text(end.style, &end.what),
            false => {
                return render_dry_run_call(row, &text);
            }
        }
    } else if let Some(end) = CommandOutputTail::parse_bash_result(result, &text)
        .filter(|end| end.explains_failure(result))
    {
        return render_failed_command(&end, &named);
    } else if result.is_error {
        let row = OutputRowBuilder::with_indent_level(1)
            .with_styled_text(end.style, end.mark)
            .with_space_and_styled_text(DIM_STYLE, &named);
        row.with_styled_text(end.style, &end.what)
    } else {
        let what = format!("{} {named}{}", end.mark, end.what);
        return OutputRowBuilder::with_indent_level(1)
            .with_styled_text(end.style, &what)
            .into_line();
    };
    row.with_space_and_styled_text(
        Style::new(),
        &truncate_to_one_line(end.why, MAX_OUTCOME_REASON_CHARS),
    )
    .into_line()
}

/// Renders a failed command with its last lines of output below it.
fn render_failed_command(end: &CommandOutputTail<'_>, named: &str) -> String {
    let row = OutputRowBuilder::with_indent_level(1)
        .with_styled_text(WARNING_STYLE, "└")
        .with_space_and_styled_text(DIM_STYLE, named);
    let row = row.with_styled_text(WARNING_STYLE, "error:");
    let head = row.with_space_and_styled_text(
        Style::new(),
        &truncate_to_one_line(end.ending, MAX_OUTCOME_REASON_CHARS),
    );
    let mut rows = vec![head.into_line()];
    if end.n_before > 0 {
        let before = format_count_with_noun(end.n_before as u64, "line");
        rows.push(style_text(DIM_STYLE, format!("    … {before} before")));
    }
    let line = |line: &&str| {
        style_text(
            DIM_STYLE,
            format!(
                "    │ {}",
                truncate_to_one_line(line, MAX_OUTCOME_REASON_CHARS)
            ),
        )
    };
    rows.extend(end.lines.iter().map(line));
    rows.join("\n")
}

/// Renders a call that a dry run described, line by line below its name.
fn render_dry_run_call(row: OutputRowBuilder, text: &str) -> String {
    let mut lines = text.lines();
    let first = truncate_to_one_line(lines.next().unwrap_or_default(), MAX_OUTCOME_REASON_CHARS);
    let rest: Vec<&str> = lines.collect();
    let n_more = rest.len().saturating_sub(MAX_DRY_RUN_CALL_LINES);
    let shown = rest.iter().take(MAX_DRY_RUN_CALL_LINES);
    let mut rows = vec![
        row.with_space_and_styled_text(Style::new(), &first)
            .into_line(),
    ];
    rows.extend(shown.map(|line| {
        format!(
            "    {}",
            truncate_to_one_line(line, MAX_OUTCOME_REASON_CHARS)
        )
    }));
    if n_more > 0 {
        let more = format!(
            "    … {}",
            format_count_with_noun(n_more as u64, "more line")
        );
        rows.push(style_text(DIM_STYLE, more));
    }
    rows.join("\n")
}

fn render_failed_hook(record: &TraceRecord) -> String {
    let (style, word) = steps::hook_outcome_style_and_word(record.outcome);
    let took = steps::hook_duration_text(record.was_hook_called(), record.micros);
    let row = OutputRowBuilder::with_indent_level(1)
        .with_styled_text(DIM_STYLE, &format!("{:<24}", record.point))
        .with_space_and_styled_text(PLUGIN_NAME_STYLE, &format!("{:<24}", record.plugin))
        .with_space_and_styled_text(DIM_STYLE, &format!("{took:>9}"))
        .with_space_and_styled_text(style, word);
    match &record.reason {
        Some(reason) => row
            .with_space_and_styled_text(
                DIM_STYLE,
                &truncate_to_one_line(reason, MAX_OUTCOME_REASON_CHARS),
            )
            .into_line(),
        None => row.into_line(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_one_line_of_the_host_and_each_text_tells_it_again() {
        let mut view = PlainTurnRenderer::default();
        let hook = "audit-log failed: `data/1.jsonl`: no space left on device";
        let host = "session: No space left on device (os error 28); make room there";
        assert!(view.should_show_failure_line(hook, true));
        assert!(!view.should_show_failure_line(hook, true));
        assert!(view.should_show_failure_line(host, false));
        assert!(
            !view.should_show_failure_line(host, false)
                && !view.should_show_failure_line(hook, true)
        );
        assert!(view.should_show_failure_line("another line", false));
        view.reset_reported_failure_causes();
        assert!(view.should_show_failure_line(host, false));
    }
}
