//! Converts the events of a session into finished lines, and into the rows that are redrawn below
//! these lines while a turn runs.
//!
//! The module must not know the terminal. Start from [`ChatScreenView::handle_event`].

use std::collections::HashMap;
use std::time::Instant;

use super::super::render::command_end::CommandOutputTail;
use super::super::render::markdown::render_rows;
use super::super::render::plain::PlainTurnRenderer;
use super::super::render::steps::{self, MAX_OUTCOME_REASON_CHARS, ToolCallOutcomeText};
use super::super::render::stream::StreamedAnswerRenderer;
use super::super::render::wrap::wrap_lines_to_columns;
use super::super::render::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, WARNING_STYLE, escape_prose_for_display,
    format_warning_line, printable_text, style_text, truncate_to_one_line,
};
use super::agents::RunningSubagents;
use super::calls::{self, EndedToolCalls, RunningToolCall};
use super::diff::FileChangeDiffs;
use super::editor::FIRST_EDITOR_ROW_PREFIX;
use super::status::ChatStatusLineState;
use rind_lib::agent::{extract_unfinished_answer, find_unshown_output};
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::message::{Message, Role, ToolCall, ToolResult};
use rind_lib::point::payload::{StopReason, TurnSummary};
use rind_lib::tool::live::RunningToolCallOutputs;

/// Whether the messages contain an error as the result of a call: it failed, was refused or was
/// cancelled.
fn has_call_failed(messages: &[Message], call: &str) -> bool {
    let mut results = messages.iter().flat_map(Message::tool_results);
    results.any(|result| result.call_id == call && result.is_error)
}

/// Maximum number of rows that are printed each time the person expands a tool call, and of the
/// lines of a shell command's output that are printed.
const MAX_EXPANDED_CALL_ROWS: usize = 400;

/// Duration of a wait, in milliseconds, after which its reason is shown.
const WAIT_REASON_SHOWN_AFTER_MS: u128 = 400;

/// Kind of the last finished line. A blank row separates lines of different kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FinishedChatLineKind {
    /// Text that the model wrote.
    Answer,
    /// Text that the user wrote.
    Said,
    #[default]
    Line,
}

#[derive(Default)]
pub(super) struct ChatScreenView {
    columns: usize,
    finished: Vec<String>,
    kind: FinishedChatLineKind,
    plain: PlainTurnRenderer,
    stream: StreamedAnswerRenderer,
    /// Answers of this turn that were shown. They are compared with the turn's output at its end.
    answers: Vec<String>,
    /// Last text of this turn that was added to the finished lines as an answer, complete or not.
    flushed: String,
    /// Reason for which the turn waits now, and the time at which the wait began.
    waiting: Option<(String, Instant)>,
    /// Tool calls that are still running.
    calls: HashMap<TurnPartId, RunningToolCall>,
    /// Outputs so far of the running tool calls.
    live: RunningToolCallOutputs,
    /// Subagents that are still running.
    agents: RunningSubagents,
    /// Tool calls of this turn as the model made them, by their ids.
    made: HashMap<String, ToolCall>,
    /// Number of the tool call that the person opened last, and how many of its rows were shown so
    /// far; `None` if all rows were shown.
    opened: Option<(String, usize)>,
    /// Tool calls that have ended and that the person can open.
    pub(super) ended: EndedToolCalls,
    /// Whether the next message of the user is the input of the turn. It is not shown again,
    /// because it was shown when it was typed.
    is_input_due: bool,
    pub(super) status: ChatStatusLineState,
    diffs: FileChangeDiffs,
}

impl ChatScreenView {
    pub(super) fn new(
        columns: usize,
        status: ChatStatusLineState,
        diffs: FileChangeDiffs,
        live: RunningToolCallOutputs,
    ) -> Self {
        Self {
            columns,
            status,
            diffs,
            live,
            ..Self::default()
        }
    }

    pub(super) fn set_view_width(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Removes and returns the rows that became final since the last call of this function.
    pub(super) fn take_finished_rows(&mut self) -> Vec<String> {
        std::mem::take(&mut self.finished)
    }

    pub(super) fn add_finished_output_line(&mut self, line: impl Into<String>) {
        self.add_line_kind_separator(FinishedChatLineKind::Line);
        self.push_wrapped_line(&line.into());
    }

    /// Adds a blank row if the last line is of another kind than the next.
    fn add_line_kind_separator(&mut self, kind: FinishedChatLineKind) {
        let before = std::mem::replace(&mut self.kind, kind);
        if before != kind {
            self.finished.push(String::new());
        }
    }

    fn add_finished_answer_rows(&mut self, rows: Vec<String>) {
        if !rows.is_empty() {
            self.add_line_kind_separator(FinishedChatLineKind::Answer);
            self.finished.extend(rows);
        }
    }

    fn push_wrapped_line(&mut self, line: &str) {
        let rows = wrap_lines_to_columns(line, Some(self.columns)).into_owned();
        self.finished.push(rows);
    }

    /// Shows a text that the user wrote.
    pub(super) fn show_user_text(&mut self, text: &str) {
        let text = escape_prose_for_display(text.trim_end());
        self.plain.reset_reported_failure_causes();
        self.add_line_kind_separator(FinishedChatLineKind::Said);
        for (n, line) in text.lines().enumerate() {
            let mark = if n == 0 {
                FIRST_EDITOR_ROW_PREFIX
            } else {
                "  "
            };
            let line = line.replace('\t', "    ");
            self.push_wrapped_line(&style_text(BOLD_STYLE, format_args!("{mark}{line}")));
        }
    }

    /// Shows the last messages of an earlier conversation.
    pub(super) fn show_earlier_messages(&mut self, messages: &[Message]) {
        for message in messages {
            if let Some(holder) = message.id_of_archiving_subagent() {
                let line = format!("[archived: {}]", truncate_to_one_line(holder, 64));
                self.add_finished_output_line(style_text(DIM_STYLE, line));
                continue;
            }
            let text = message.joined_text();
            match message.role {
                Role::User if message.is_written_by_user() => self.show_user_text(&text),
                Role::Assistant => {
                    let rows = render_rows(&text, self.columns);
                    self.add_finished_answer_rows(rows);
                    for call in message.tool_calls() {
                        let row = steps::recorded_tool_call_row(
                            call,
                            has_call_failed(messages, &call.id),
                        );
                        self.add_finished_output_line(
                            row.with_space_and_styled_text(
                                DIM_STYLE,
                                &steps::summarize_call_arguments(call),
                            )
                            .into_line(),
                        );
                    }
                }
                Role::User | Role::Tool => {}
            }
        }
    }

    /// Returns the rows that are redrawn: the unfinished answer, running calls and subagents, and
    /// the current wait.
    pub(super) fn redrawn_rows(&self) -> Vec<String> {
        let mut rows = self.stream.render_unfinished_tail_rows(self.columns);
        if rows.first().is_some_and(|row| !row.is_empty())
            && self.kind != FinishedChatLineKind::Answer
        {
            rows.insert(0, String::new());
        }
        let mut calls: Vec<&RunningToolCall> = self.calls.values().collect();
        calls.sort_unstable_by_key(|call| call.since);
        let running = calls.into_iter();
        rows.extend(running.flat_map(|call| call.render_rows(&self.live, self.columns)));
        rows.extend(self.agents.render_rows());
        if let Some((what, since)) = &self.waiting
            && since.elapsed().as_millis() >= WAIT_REASON_SHOWN_AFTER_MS
        {
            let seconds = since.elapsed().as_secs();
            rows.push(style_text(DIM_STYLE, format_args!("… {what} {seconds} s")));
        }
        rows
    }

    pub(super) fn handle_event(&mut self, stamped: &Stamped) {
        self.status.update_from_event(stamped);
        self.agents.update_from_event(stamped);
        let event = &stamped.event;
        if stamped.is_from_main_agent() && self.handle_main_agent_event(event) {
            return;
        }
        match event {
            Event::ToolStart {
                call, plugin, by, ..
            } => {
                let row = steps::tool_call_row(0, call, plugin, by);
                let mut line = row
                    .with_space_and_styled_text(DIM_STYLE, &steps::summarize_call_arguments(call))
                    .into_line();
                if !stamped.is_from_main_agent() {
                    line = format!("  {} {line}", style_text(DIM_STYLE, &stamped.agent));
                }
                if let Some(part) = TurnPartId::enclosing_part(stamped, |_| true) {
                    let running = RunningToolCall::new(&stamped.agent, call.clone(), line);
                    self.calls.insert(part, running);
                }
            }
            Event::ToolEnd {
                result,
                duration_ms,
                refused_by,
                ..
            } => {
                let call = TurnPartId::part_ended_by_event(stamped)
                    .and_then(|part| self.calls.remove(&part));
                match call {
                    Some(RunningToolCall { call, line, .. }) => {
                        self.show_ended_call(line, result, *duration_ms);
                        self.ended.add_call(call, result.clone());
                    }
                    None => self.show_refused_call(stamped, result, refused_by.as_deref()),
                }
            }
            // Ignore this event, because the status line below the editor shows it.
            Event::Status { .. } => {}
            _ => {
                if let Event::Hook { record } = event {
                    self.ended.record_result_changed_by_hook(record);
                }
                let line = self.plain.render_event(stamped);
                if let Some(line) = line {
                    self.flush_streamed_answer();
                    self.add_finished_output_line(line);
                }
            }
        }
    }

    /// Updates the shown answer and the reason of the current wait from an event of the main agent.
    /// Returns true if the event needs no further handling.
    fn handle_main_agent_event(&mut self, event: &Event) -> bool {
        match event {
            Event::TurnStart { .. } => {
                self.answers.clear();
                self.flushed.clear();
                self.is_input_due = true;
                self.set_current_wait_reason("starting");
            }
            Event::StepStart { .. } => {
                self.flush_streamed_answer();
                self.set_current_wait_reason("waiting for the model");
            }
            Event::Retry { .. } => self.flush_streamed_answer(),
            Event::TextDelta { text } => {
                self.waiting = None;
                self.stream.push(text);
                let rows = self.stream.take_complete_blocks(self.columns);
                self.add_finished_answer_rows(rows);
            }
            Event::ThinkingDelta { .. }
            | Event::TextHeld {
                is_thinking: true, ..
            } => self.set_current_wait_reason("thinking"),
            Event::TextHeld { by, .. } => {
                let by = by.join(", ");
                self.set_current_wait_reason(&format!(
                    "the model is writing; {by} checks the answer when it is complete"
                ));
            }
            Event::CompactStart { .. } => {
                self.set_current_wait_reason("making the conversation shorter")
            }
            Event::CompactEnd { .. } => self.set_current_wait_reason("waiting for the model"),
            Event::Correction { text, .. } => self.show_answer_corrected_warning(text),
            Event::MessageEnd { message } => self.handle_message_end(message),
            Event::TurnEnd {
                summary, output, ..
            } => self.handle_turn_end(summary, output),
            Event::ToolCall { call, .. } => {
                self.waiting = None;
                self.made.insert(call.id.clone(), call.clone());
            }
            _ => {}
        }
        matches!(event, Event::SessionOpened { .. })
    }

    fn set_current_wait_reason(&mut self, what: &str) {
        if self.waiting.as_ref().is_none_or(|(known, _)| known != what) {
            self.waiting = Some((what.to_owned(), Instant::now()));
        }
    }

    /// Adds the unfinished answer to the finished lines, so that other output can follow below it.
    fn flush_streamed_answer(&mut self) {
        if !self.stream.is_empty() {
            self.stream.full_text().clone_into(&mut self.flushed);
        }
        let rows = self.stream.finish_and_take_rows(self.columns);
        self.add_finished_answer_rows(rows);
    }

    fn show_answer_corrected_warning(&mut self, text: &str) {
        if self.stream.is_empty() && self.answers.is_empty() {
            return;
        }
        self.flush_streamed_answer();
        self.answers.clear();
        self.add_finished_output_line(format_warning_line(if text.is_empty() {
            "the request is sent again; ignore what was shown of this answer"
        } else {
            "the answer was changed after it was shown; it is now:"
        }));
    }

    fn handle_message_end(&mut self, message: &Message) {
        match message.role {
            Role::User if message.is_written_by_user() => {
                // Show a text sent during the turn at the point where the model reads it.
                if !std::mem::take(&mut self.is_input_due) {
                    self.flush_streamed_answer();
                    self.show_user_text(&message.joined_text());
                }
            }
            Role::Assistant => {
                self.waiting = None;
                let has_calls = message.tool_calls().next().is_some();
                if self.stream.is_empty() && has_calls {
                    self.stream.push(&message.joined_text());
                } else if !has_calls {
                    self.answers.push(self.stream.full_text().to_owned());
                }
                self.flush_streamed_answer();
            }
            Role::User | Role::Tool => {}
        }
    }

    /// Records that the approval question of this call showed its complete change.
    pub(super) fn mark_file_change_shown_in_approval(&self, call: String) {
        self.diffs.mark_change_as_shown(call);
    }

    fn show_ended_call(&mut self, line: String, result: &ToolResult, duration_ms: u64) {
        let text = result.content.text();
        let end = ToolCallOutcomeText::from_tool_result(result, &text, duration_ms, None);
        let mark = if result.is_error { "✗" } else { "·" };
        let what = style_text(end.style, format_args!("{mark} {}", end.what));
        // Show for a command how it ended, because its last lines explain the failure.
        let command = CommandOutputTail::parse_bash_result(result, &text);
        let ending = command.as_ref().filter(|end| end.explains_failure(result));
        let why = truncate_to_one_line(
            ending.map_or(end.why, |end| end.ending),
            MAX_OUTCOME_REASON_CHARS,
        );
        let blank = if why.is_empty() { "" } else { " " };
        self.flush_streamed_answer();
        self.add_finished_output_line(format!("{line} {what}{blank}{why}"));
        let changed = self.diffs.take_diff(&result.call_id);
        let rows = command.map(|end| calls::command_output_rows(&end, self.columns));
        rows.into_iter()
            .flatten()
            .for_each(|row| self.add_finished_output_line(row));
        changed
            .rows
            .into_iter()
            .for_each(|row| self.add_finished_output_line(row));
        if changed.n_more > 0 {
            let words = format!("  … {} more lines", changed.n_more);
            self.add_finished_output_line(style_text(DIM_STYLE, words));
        }
        self.waiting = None;
    }

    fn show_refused_call(&mut self, stamped: &Stamped, result: &ToolResult, by: Option<&str>) {
        self.flush_streamed_answer();
        let call = self.made.get(&result.call_id).cloned().unwrap_or_else(|| {
            ToolCall::new(&result.call_id, &result.name, serde_json::Value::Null)
        });
        self.ended.add_call(call, result.clone());
        if by.is_some()
            && let Some(line) = self.plain.render_event(stamped)
        {
            self.add_finished_output_line(line);
        }
    }

    /// Shows the ended call with this number in full. A long call is shown in parts: opening it
    /// again shows the next part.
    pub(super) fn show_more_rows_of_opened_call(&mut self, number: &str) {
        let Some(ended) = self.ended.find_call(number) else {
            return;
        };
        let rows = calls::ended_call_rows(&ended);
        let from = match self.opened.take() {
            Some((known, n_shown)) if known == number && n_shown < rows.len() => n_shown,
            _ => 0,
        };
        let until = (from + MAX_EXPANDED_CALL_ROWS).min(rows.len());
        let head = style_text(BOLD_STYLE, truncate_to_one_line(&ended.call.name, 64));
        self.add_finished_output_line(match from {
            0 => head,
            _ => format!(
                "{head}{}",
                style_text(DIM_STYLE, format_args!(" from line {}", from + 1))
            ),
        });
        for row in rows.get(from..until).unwrap_or_default() {
            self.add_finished_output_line(format!("  {} {row}", style_text(DIM_STYLE, "│")));
        }
        if let Some(n_more @ 1..) = rows.len().checked_sub(until) {
            self.opened = Some((number.to_owned(), until));
            let words = format!("  … {n_more} more lines: Ctrl-O twice shows the next");
            return self.add_finished_output_line(style_text(DIM_STYLE, words));
        }
        if let Some(words) = ended.result_change_notice() {
            self.add_finished_output_line(style_text(WARNING_STYLE, words));
        }
    }

    /// Returns the number of the call that was opened last, if it has rows that were not shown yet.
    pub(super) fn partly_shown_call_ordinal(&self) -> Option<&str> {
        self.opened.as_ref().map(|(number, _)| number.as_str())
    }

    /// Shows a shell command that the person typed, and its output.
    pub(super) fn show_shell_result(&mut self, command: &str, output: &str, is_error: bool) {
        self.flush_streamed_answer();
        let style = if is_error { WARNING_STYLE } else { BOLD_STYLE };
        self.add_finished_output_line(style_text(
            style,
            format_args!("! {}", truncate_to_one_line(command, 400)),
        ));
        self.show_text_with_bar_prefix(output);
    }

    fn show_text_with_bar_prefix(&mut self, text: &str) {
        let text = printable_text(text);
        let n_lines = text.lines().count();
        for line in text.lines().take(MAX_EXPANDED_CALL_ROWS) {
            let line = line.replace('\t', "    ");
            self.add_finished_output_line(format!("  {} {line}", style_text(DIM_STYLE, "│")));
        }
        if let Some(n_more @ 1..) = n_lines.checked_sub(MAX_EXPANDED_CALL_ROWS) {
            self.add_finished_output_line(style_text(
                DIM_STYLE,
                format_args!("  … {n_more} more lines"),
            ));
        }
    }

    fn handle_turn_end(&mut self, summary: &TurnSummary, output: &str) {
        self.flush_streamed_answer();
        self.waiting = None;
        self.calls.clear();
        self.made.clear();
        let output = output.trim_end();
        match summary.stop {
            StopReason::Done => {
                let rest = self.turn_output_not_yet_shown(output).to_owned();
                if !rest.trim().is_empty() {
                    self.add_finished_answer_rows(render_rows(&rest, self.columns));
                }
            }
            StopReason::Blocked => self.add_finished_output_line(style_text(
                ERROR_STYLE,
                escape_prose_for_display(output),
            )),
            StopReason::MaxSteps => self.add_finished_output_line(style_text(
                WARNING_STYLE,
                escape_prose_for_display(output),
            )),
            StopReason::Cancelled => {
                self.add_finished_output_line(style_text(WARNING_STYLE, "interrupted"))
            }
            StopReason::Failed => {
                let begun = extract_unfinished_answer(output);
                let is_shown = !self.answers.is_empty() || self.flushed.trim() == begun.trim();
                if !is_shown && !begun.trim().is_empty() {
                    self.add_finished_output_line(escape_prose_for_display(begun.trim_end()));
                }
            }
        }
    }

    /// Returns the part of the turn's output that was not shown while the model wrote it.
    fn turn_output_not_yet_shown<'a>(&self, output: &'a str) -> &'a str {
        // Answers that the model gave before the user sent a steering text were shown, but are not
        // in the output. Ignore shown answers, the oldest first, until the output begins with the
        // remaining ones.
        let shown = (0..self.answers.len())
            .map(|from| self.answers.get(from..).unwrap_or_default().concat())
            .find(|shown| !shown.trim().is_empty() && find_unshown_output(output, shown) != output);
        shown.map_or(output, |shown| find_unshown_output(output, &shown))
    }
}
