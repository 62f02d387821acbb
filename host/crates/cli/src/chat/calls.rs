//! Shows tool calls in a chat: running calls with the last lines of their output, and ended calls,
//! which a person can open in full.
//!
//! The module must not know the terminal. Start from [`RunningToolCall`] and [`EndedToolCalls`].

use std::collections::VecDeque;
use std::time::Instant;

use anstyle::Style;

use super::super::render::call::ToolCallPreviewHighlighter;
use super::super::render::command_end::{CommandOutputTail, N_SHOWN_OUTPUT_LINES};
use super::super::render::highlight::CodeHighlighter;
use super::super::render::steps::summarize_call_arguments;
use super::super::render::{
    DIM_STYLE, escape_prose_for_display, format_count_with_noun, format_elapsed_seconds,
    printable_text, style_text, truncate_to_one_line,
};
use super::picker::ChatPickerEntry;
use super::screen::truncate_row;
use rind_lib::message::{EffectClass, ToolCall, ToolResult, ToolSpec};
use rind_lib::point::trace::{TraceOutcome, TraceRecord};
use rind_lib::tool::live::RunningToolCallOutputs;
use rind_lib::tool::preview::preview_call_arguments;

/// Number of seconds after which a running call shows its elapsed time.
const MIN_SHOWN_CALL_SECONDS: u64 = 1;

/// Maximum number of ended calls that are kept. The oldest are removed first.
const MAX_KEPT_ENDED_CALLS: usize = 200;

/// Maximum total size of the results of ended calls that are kept, in bytes.
const MAX_KEPT_CALL_RESULT_BYTES: usize = 16 << 20;

/// Tool call that is still running.
pub(super) struct RunningToolCall {
    agent: String,
    pub(super) call: ToolCall,
    /// Description of the tool call in one line.
    pub(super) line: String,
    pub(super) since: Instant,
}

impl RunningToolCall {
    pub(super) fn new(agent: &str, call: ToolCall, line: String) -> Self {
        Self {
            agent: agent.to_owned(),
            call,
            line,
            since: Instant::now(),
        }
    }

    /// Returns the rows of a running call: its line with the elapsed time, and the last lines of
    /// its output.
    pub(super) fn render_rows(&self, live: &RunningToolCallOutputs, columns: usize) -> Vec<String> {
        let seconds = self.since.elapsed().as_secs();
        let clock = match seconds {
            ..MIN_SHOWN_CALL_SECONDS => String::new(),
            _ => format!("  {}", format_elapsed_seconds(seconds)),
        };
        let line = truncate_row(&self.line, columns.saturating_sub(clock.len()));
        let mut rows = vec![format!("{line}{}", style_text(DIM_STYLE, clock))];
        let lines = live.last_lines(&self.agent, &self.call.id, N_SHOWN_OUTPUT_LINES);
        rows.extend(lines.iter().map(|line| format_output_row(line, columns)));
        rows
    }
}

/// Formats a line of output as a row, truncated to the width of the screen.
pub(super) fn format_output_row(line: &str, columns: usize) -> String {
    let line = escape_prose_for_display(line).replace('\t', "    ");
    let row = format!("  │ {line}");
    let shown = truncate_row(&row, columns.saturating_sub(1));
    let more = if shown.len() < row.len() { "…" } else { "" };
    style_text(DIM_STYLE, format_args!("{shown}{more}"))
}

/// Returns the rows with the last lines of the output of a command that ended.
pub(super) fn command_output_rows(end: &CommandOutputTail<'_>, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    if end.n_before > 0 {
        let words = format!(
            "  … {} before (Ctrl-O)",
            format_count_with_noun(end.n_before as u64, "line")
        );
        rows.push(style_text(DIM_STYLE, words));
    }
    rows.extend(
        end.lines
            .iter()
            .map(|line| format_output_row(line, columns)),
    );
    rows
}

/// Returns the rows that are shown when the person opens a call: its arguments, and its complete
/// result.
pub(super) fn ended_call_rows(ended: &EndedToolCall) -> Vec<String> {
    let EndedToolCall { call, result, .. } = ended;
    let mut rows = Vec::new();
    if !call.arguments.is_null() {
        let spec = ToolSpec::from_name_and_effect(&call.name, EffectClass::Read);
        let lines = preview_call_arguments(&spec, &call.arguments);
        let mut colors = ToolCallPreviewHighlighter::for_preview_lines(&lines);
        rows.extend(lines.iter().map(|line| {
            let text = printable_text(&line.text).replace('\t', "    ");
            let mark = if line.mark == "| " { "" } else { line.mark };
            format!(
                "{mark}{}",
                render_styled_pieces(colors.highlight_next_line(line.mark, &text))
            )
        }));
    }
    // Highlight the result of `read_file` in the language of the file that it read.
    let path = call.arguments.get("path").and_then(|path| path.as_str());
    let path = path.filter(|_| call.name == "read_file" && !result.is_error);
    let mut code = path.and_then(CodeHighlighter::for_path);
    rows.extend(result.content.text().lines().map(|line| {
        let line = printable_text(line).replace('\t', "    ");
        match &mut code {
            Some(code) => code.highlight_next_line_to_string(&line),
            None => line,
        }
    }));
    rows
}

fn render_styled_pieces(pieces: Vec<(Style, String)>) -> String {
    let pieces = pieces.into_iter();
    pieces
        .map(|(style, text)| style_text(style, text))
        .collect()
}

/// Tool call that has ended, with its result.
#[derive(Clone)]
pub(super) struct EndedToolCall {
    number: u32,
    pub(super) call: ToolCall,
    pub(super) result: ToolResult,
    /// Names of the plugins that changed the result of the call.
    changed_by: Vec<String>,
}

impl EndedToolCall {
    /// Describes which plugins changed the result before it was stored; `None` if no plugin changed
    /// it.
    pub(super) fn result_change_notice(&self) -> Option<String> {
        let by = truncate_to_one_line(&self.changed_by.join(", "), 200);
        (!by.is_empty()).then(|| format!("  this result was cut or changed by {by}"))
    }
}

/// Tool calls that ended in this chat; the person can open them.
#[derive(Default)]
pub(super) struct EndedToolCalls {
    calls: VecDeque<EndedToolCall>,
    n_bytes: usize,
    n_calls: u32,
    /// Calls whose results plugins changed before the calls ended: the id of the call, and the name
    /// of the plugin.
    changes: Vec<(String, String)>,
}

impl EndedToolCalls {
    /// Records that a hook changed the result of a call. The plugin is then named when the person
    /// opens the call.
    pub(super) fn record_result_changed_by_hook(&mut self, record: &TraceRecord) {
        let is_change = record.point == "post-tool" && record.outcome == TraceOutcome::Changed;
        let changes_result = record.changed.iter().any(|part| *part != "inject");
        if let (true, true, Some(call)) = (is_change, changes_result, &record.call_id) {
            let change = (call.to_string(), record.plugin.to_string());
            self.changes.push(change);
        }
    }

    pub(super) fn add_call(&mut self, call: ToolCall, result: ToolResult) {
        let of_call = |(id, _): &mut (String, String)| *id == result.call_id;
        let changes = self.changes.extract_if(.., of_call);
        let mut changed_by: Vec<String> = changes.map(|(_, plugin)| plugin).collect();
        changed_by.dedup();
        self.n_calls += 1;
        self.n_bytes += result.content.text().len();
        self.calls.push_front(EndedToolCall {
            number: self.n_calls,
            call,
            result,
            changed_by,
        });
        while self.calls.len() > MAX_KEPT_ENDED_CALLS || self.n_bytes > MAX_KEPT_CALL_RESULT_BYTES {
            let Some(oldest) = self.calls.pop_back() else {
                break;
            };
            self.n_bytes -= oldest.result.content.text().len();
        }
    }

    pub(super) fn find_call(&self, number: &str) -> Option<EndedToolCall> {
        let number: u32 = number.parse().ok()?;
        self.calls.iter().find(|own| own.number == number).cloned()
    }

    /// Returns a list entry for each tool call that has ended, the last one first.
    pub(super) fn picker_entries(&self) -> Vec<ChatPickerEntry> {
        let entry = |own: &EndedToolCall| {
            let lines = own.result.content.text().lines().count() as u64;
            let mark = if own.result.is_error { "✗ " } else { "" };
            ChatPickerEntry {
                value: own.number.to_string(),
                about: format!(
                    "{mark}{} {} · {}",
                    own.call.name,
                    summarize_call_arguments(&own.call),
                    format_count_with_noun(lines, "line")
                ),
            }
        };
        self.calls.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::render::strip_styles;
    use super::*;

    fn result(id: &str, text: &str) -> ToolResult {
        ToolResult {
            call_id: id.to_owned(),
            name: "bash".to_owned(),
            content: text.into(),
            is_error: false,
        }
    }

    #[test]
    fn the_last_lines_of_a_command_stay_and_say_how_many_were_before() {
        let text = "1\n2\n\n3\n4\u{1b}[2J\n[exit code 0]";
        let end = CommandOutputTail::parse_bash_result(&result("c", text), text).unwrap();
        let rows = command_output_rows(&end, 20);
        let rows: Vec<_> = rows.iter().map(|row| strip_styles(row)).collect();
        assert_eq!(rows[0], "  … 1 line before (Ctrl-O)");
        assert_eq!(rows[1], "  │ 2");
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| !row.contains('\u{1b}')), "{rows:?}");
        let long = format_output_row(&"x".repeat(50), 20);
        assert_eq!(strip_styles(&long), format!("  │ {}…", "x".repeat(15)));
    }

    #[test]
    fn a_running_call_shows_its_time_on_a_narrow_screen_too() {
        let call = ToolCall::new("c", "bash", serde_json::Value::Null);
        let mut running = RunningToolCall::new("main", call, "x".repeat(100));
        let row = |running: &RunningToolCall| {
            running
                .render_rows(&RunningToolCallOutputs::default(), 20)
                .remove(0)
        };
        assert_eq!(strip_styles(&row(&running)), "x".repeat(20));
        let Some(earlier) = running.since.checked_sub(Duration::from_secs(65)) else {
            return;
        };
        running.since = earlier;
        let shown = strip_styles(&row(&running));
        assert!(
            shown.starts_with("xxxxx") && shown.ends_with("  1 min 05 s"),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), 20);
    }

    #[test]
    fn the_plugins_that_changed_a_result_are_named_with_it() {
        let record = |plugin: &str, changed| TraceRecord {
            point: "post-tool".into(),
            plugin: plugin.into(),
            outcome: TraceOutcome::Changed,
            changed: vec![changed],
            reason: None,
            micros: 1.0,
            turn: 1,
            step: 1,
            call_id: Some("c".into()),
        };
        let mut ended = EndedToolCalls::default();
        ended.record_result_changed_by_hook(&record("cutter", "content"));
        ended.record_result_changed_by_hook(&record("adviser", "inject"));
        let call = |id: &str| ToolCall::new(id, "bash", serde_json::Value::Null);
        ended.add_call(call("d"), result("d", "x"));
        ended.add_call(call("c"), result("c", "x"));
        let words = |number| ended.find_call(number).unwrap().result_change_notice();
        assert_eq!(words("1"), None);
        let by = "  this result was cut or changed by cutter";
        assert_eq!(words("2").as_deref(), Some(by));
    }

    #[test]
    fn the_oldest_calls_are_forgotten_and_numbers_stay() {
        let mut ended = EndedToolCalls::default();
        for n in 0..MAX_KEPT_ENDED_CALLS + 5 {
            let call = ToolCall::new(n.to_string(), "bash", serde_json::json!({"command": "ls"}));
            ended.add_call(call, result(&n.to_string(), "a\nb"));
        }
        let entries = ended.picker_entries();
        assert_eq!(entries.len(), MAX_KEPT_ENDED_CALLS);
        assert_eq!(entries[0].value, (MAX_KEPT_ENDED_CALLS + 5).to_string());
        assert_eq!(entries[0].about, "bash ls · 2 lines");
        assert!(ended.find_call("3").is_none() && ended.find_call("6").is_some());
        let large = "x".repeat(MAX_KEPT_CALL_RESULT_BYTES - 1);
        let call = ToolCall::new("l", "bash", serde_json::Value::Null);
        ended.add_call(call, result("l", &large));
        assert_eq!(ended.picker_entries().len(), 1);
    }
}
