//! Renders a turn as it happens: for people on standard error with the answer on standard output,
//! or as JSON lines.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use super::markdown::render_rows;
use super::plain::PlainTurnRenderer;
use super::stream::StreamedAnswerRenderer;
use super::tail::DrawnAnswerTail;
use super::trace::{TraceRenderer, TracedHookCallTotals};
use super::waiting::WaitStatusLine;
use super::{
    DIM_STYLE, ERROR_STYLE, WARNING_STYLE, escape_prose_for_display, format_count_with_noun,
    format_duration_ms, format_warning_line, is_stderr_terminal, print_json_to_stdout,
    print_stderr_line, print_to_stdout, style_text,
};
use crate::args::TurnOutputArgs;
use crate::environment;
use crate::terminal::terminal_columns;
use rind_lib::agent::{extract_unfinished_answer, extract_unsaved_answer, find_unshown_output};
use rind_lib::event::{Event, NumberedEvent, Stamped};
use rind_lib::message::{Message, Role};
use rind_lib::point::payload::{StopReason, TurnSummary};
use rind_lib::provider::scripted;
use rind_lib::tool::live::RunningToolCallOutputs;

/// Id of the main agent: the waiting line names only its calls.
const MAIN_AGENT_ID: &str = "main";

/// Returns the width of standard output if answers are laid out there as Markdown: on a terminal
/// that can move its cursor.
fn stdout_markdown_width() -> Option<usize> {
    let is_no = |value: &str| ["0", "f", "false", "n", "no", "off"].contains(&value);
    let plain = environment::environment_variable("RIND_PLAIN");
    let is_plain = plain.is_some_and(|value| !is_no(&value.to_lowercase()))
        || environment::environment_variable("TERM").is_none_or(|term| term == "dumb");
    let columns = terminal_columns(std::io::stdout());
    columns.filter(|_| !is_plain)
}

/// Writes rows of text to standard output.
fn print_rows_to_stdout(rows: &[String]) {
    if !rows.is_empty() {
        print_to_stdout(rows.join("\n") + "\n");
    }
}

#[derive(Default)]
pub(in super::super) struct TurnRenderer {
    is_json: bool,
    /// Number of lines of JSON that were printed so far.
    n_lines: u64,
    /// Whether all output goes to a pipe or file, so that rendering need not pause while a question
    /// is on the terminal.
    is_elsewhere: bool,
    /// Whether the model's text is shown while the model still writes it.
    is_live: bool,
    waiting: WaitStatusLine,
    /// Width to which the model's text is wrapped, as in the chat; `None` prints it unwrapped.
    columns: Option<usize>,
    /// Layout of the model's text, which is still being written.
    answer: StreamedAnswerRenderer,
    /// Rows on the terminal that show the end of `answer`, which may still change.
    tail: DrawnAnswerTail,
    /// Whether `answer` has changed since `tail` was drawn.
    is_tail_stale: bool,
    /// Text of the last step's message that was already shown while it streamed.
    streamed: String,
    /// Whether the text that was streamed so far ends in the middle of a line.
    is_line_open: bool,
    is_scripted: bool,
    hides_answer: bool,
    /// Names of the running tools, by the id of their call.
    running: BTreeMap<String, String>,
    /// Outputs so far of the tool calls in `running`.
    live: RunningToolCallOutputs,
    hooks: TracedHookCallTotals,
    plain: PlainTurnRenderer,
    /// Trace, which replaces `plain` and shows everything except the model's text; `None` without
    /// `--trace`.
    trace: Option<TraceRenderer>,
}

impl TurnRenderer {
    pub(in super::super) fn new(show: TurnOutputArgs) -> Self {
        let is_live = super::is_stdout_terminal() && !show.hides_answer;
        Self {
            is_json: show.json,
            // Ask once: `is_terminal` is a system call, and the answer is needed after every event.
            is_elsewhere: show.json && !std::io::stdout().is_terminal(),
            is_live,
            columns: stdout_markdown_width().filter(|_| is_live),
            hides_answer: show.hides_answer,
            waiting: WaitStatusLine::new(!show.json && is_stderr_terminal()),
            trace: show.trace.map(|detail| TraceRenderer::new(detail, is_live)),
            ..Self::default()
        }
    }

    /// Shows the last output line of a running command in the waiting line, if standard output is
    /// also a terminal.
    pub(in super::super) fn with_live_outputs(mut self, live: RunningToolCallOutputs) -> Self {
        if std::io::stdout().is_terminal() {
            self.live = live;
        }
        self
    }

    /// Creates a renderer that appends lines and never redraws one.
    pub(in super::super) fn without_redrawing() -> Self {
        Self {
            waiting: WaitStatusLine::new(false),
            columns: None,
            ..Self::new(TurnOutputArgs::default())
        }
    }

    pub(in super::super) fn show_event(&mut self, stamped: &Stamped) {
        self.show_events(std::slice::from_ref(stamped));
    }

    /// Shows events in order; as JSON, all of them in a single write.
    pub(in super::super) fn show_events(&mut self, events: &[Stamped]) {
        if !self.is_json {
            return events
                .iter()
                .for_each(|event| self.show_event_as_lines(event));
        }
        let mut lines = String::new();
        for stamped in events {
            self.n_lines += 1;
            let n = self.n_lines;
            match serde_json::to_string(&NumberedEvent { stamped, n }) {
                Ok(line) => lines.extend([&line, "\n"]),
                Err(e) => print_stderr_line(format_args!("an event could not be written: {e}")),
            }
        }
        print_json_to_stdout(&lines);
    }

    fn show_event_as_lines(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        if let Event::SessionOpened { provider, .. } = event {
            self.is_scripted = provider == scripted::SCRIPTED_PROVIDER_NAME;
        }
        if let Event::Hook { record } = event {
            self.hooks.add_hook_record(record);
        }
        if stamped.is_from_main_agent() {
            self.prepare_output_before_event_lines(event);
        }
        let lines = match &mut self.trace {
            None => self.plain.render_event(stamped).into_iter().collect(),
            Some(trace) => trace.show(stamped),
        };
        lines
            .into_iter()
            .for_each(|line| self.print_line_below_streamed_text(line));
        if stamped.is_from_main_agent() {
            self.update_answer_and_progress(event);
        }
    }

    /// Prepares the output for an event of the main agent, before the lines of the event are
    /// printed.
    fn prepare_output_before_event_lines(&mut self, event: &Event) {
        match event {
            // Forget the streamed text: the next step, or the retry of this one, streams a new
            // message.
            Event::StepStart { .. } | Event::Retry { .. } => {
                self.flush_answer();
                self.end_open_line();
                self.streamed.clear();
            }
            Event::MessageEnd { message } => self.show_message_end(message),
            _ => {}
        }
    }

    /// Completes the output for an event of the main agent, after the lines of the event were
    /// printed: shows the model's text, the answer, and what the turn waits for.
    fn update_answer_and_progress(&mut self, event: &Event) {
        match event {
            Event::StepStart { step } => {
                let what = format!("step {step}: waiting for the model");
                self.waiting.start_wait_if_new(&what);
            }
            Event::TextDelta { text } => self.show_streamed_text(text),
            Event::ThinkingDelta { .. }
            | Event::TextHeld {
                is_thinking: true, ..
            } => self.waiting.start_wait_if_new("thinking"),
            Event::TextHeld { by, .. } => self.waiting.start_wait_if_new(&format!(
                "the model is writing; {} checks the answer when it is complete",
                by.join(", ")
            )),
            Event::Correction { text, .. } => self.show_answer_corrected_warning(text),
            Event::TurnEnd {
                summary, output, ..
            } => self.show_turn_end(summary, output),
            Event::CompactStart { .. } => self
                .waiting
                .start_wait_if_new("making the conversation shorter"),
            Event::CompactEnd { .. } => self.waiting.start_wait_if_new("waiting for the model"),
            Event::ToolStart { call, .. } => {
                self.running.insert(call.id.clone(), call.name.clone());
                self.show_wait_for_running_tools();
            }
            Event::ToolEnd { result, .. } => {
                self.running.remove(&result.call_id);
                self.show_wait_for_running_tools();
            }
            _ => {}
        }
    }

    /// Prints what is still pending, such as the rest of the answer. Must be called after the last
    /// event.
    pub(in super::super) fn print_pending_output(&mut self) {
        self.waiting.stop_wait_and_hide_line();
        self.flush_answer();
        if let Some(trace) = &mut self.trace {
            trace.finish().iter().for_each(print_stderr_line);
        }
    }

    /// Redraws the waiting line; must be called about every
    /// [`SPINNER_REDRAW_INTERVAL`](super::waiting::SPINNER_REDRAW_INTERVAL).
    pub(in super::super) fn redraw_waiting_line(&mut self) {
        let ids = self.running.keys();
        let lines = ids.flat_map(|id| self.live.last_lines(MAIN_AGENT_ID, id, 1));
        let last = lines.last().unwrap_or_default();
        if self.waiting.is_waiting() {
            self.tail.erase();
        } else {
            self.draw_answer_tail();
        }
        self.waiting.redraw_on_tick(&last);
    }

    /// Whether all output goes to a pipe or file, so that rendering need not pause while a question
    /// is on the terminal.
    pub(in super::super) fn is_redirected(&self) -> bool {
        self.is_elsewhere
    }

    /// Clears the waiting line and the drawn end of the answer, so that a question can be shown.
    pub(in super::super) fn clear_wait_line_and_answer_tail(&mut self) {
        self.waiting.stop_wait_and_hide_line();
        self.erase_unfinished_answer_text();
        self.end_open_line();
    }

    /// Records that the user's Enter has ended the current line on the terminal.
    pub(in super::super) fn record_line_ended_by_enter(&mut self) {
        self.is_line_open = false;
        self.tail.forget_rows_without_erasing();
    }

    pub(in super::super) fn show_turn_interrupted(&mut self) {
        // The terminal has echoed `^C`: overwrite it with this line.
        let over = if is_stderr_terminal() && !self.is_line_open {
            "\r"
        } else {
            ""
        };
        let text = format_warning_line("interrupted: ending the turn; press Ctrl-C again to quit");
        self.print_line_below_streamed_text(format!("{over}{text}"));
    }

    fn show_streamed_text(&mut self, text: &str) {
        if let Some(columns) = self.columns {
            self.answer.push(text);
            self.streamed.push_str(text);
            self.waiting.stop_wait_and_hide_line();
            let rows = self.answer.take_complete_blocks(columns);
            if !rows.is_empty() {
                self.tail.erase();
                print_rows_to_stdout(&rows);
            }
            self.is_tail_stale = true;
            self.draw_answer_tail();
        } else if self.is_live {
            self.waiting.stop_wait_and_hide_line();
            print_to_stdout(escape_prose_for_display(text));
            self.streamed.push_str(text);
            self.is_line_open = !self.streamed.ends_with('\n');
        } else {
            self.waiting.start_wait_if_new("the model is writing");
        }
    }

    /// Redraws the end of the answer, which may still change, if it has changed and enough time has
    /// passed since it was last drawn.
    fn draw_answer_tail(&mut self) {
        if let Some(columns) = self.columns
            && self.is_tail_stale
            && self.tail.is_redraw_due()
        {
            self.is_tail_stale = false;
            self.tail
                .draw(self.answer.render_unfinished_tail_rows(columns));
        }
    }

    /// Erases the end of the answer that may still change. It is drawn again at the next periodic
    /// redraw.
    fn erase_unfinished_answer_text(&mut self) {
        self.tail.erase();
        self.is_tail_stale = !self.answer.is_empty();
    }

    /// Reports that the answer was changed or is requested again. The text shown before stays
    /// visible, because a pipe cannot erase it, nor a terminal its scrollback.
    fn show_answer_corrected_warning(&mut self, text: &str) {
        if self.streamed.is_empty() {
            return;
        }
        self.flush_answer();
        let what = if text.is_empty() {
            "the request is sent again; ignore what was shown of this answer"
        } else {
            "the answer was changed after it was shown; it is now:"
        };
        self.print_line_below_streamed_text(format_warning_line(what));
        self.streamed.clear();
    }

    /// Ends the line of a model's message. If the message has tool calls, its text is not the
    /// answer of the turn, so the text is shown here unless it was shown while it streamed.
    fn show_message_end(&mut self, message: &Message) {
        if message.role != Role::Assistant {
            return;
        }
        self.waiting.stop_wait_and_hide_line();
        self.flush_answer();
        // End the line, so that a text that the user types next begins on a new line.
        self.end_open_line();
        let text = message.joined_text();
        if self.trace.is_none()
            && self.streamed.is_empty()
            && !text.trim().is_empty()
            && message.tool_calls().next().is_some()
        {
            self.print_line_below_streamed_text(style_text(
                DIM_STYLE,
                escape_prose_for_display(text.trim()),
            ));
        }
    }

    fn show_wait_for_running_tools(&mut self) {
        let mut names: Vec<&str> = self.running.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            self.waiting.stop_wait_and_hide_line();
        } else {
            self.waiting
                .start_wait_if_new(&format!("running {}", names.join(", ")));
        }
    }

    /// Prints a complete line below the text that was streamed so far.
    fn print_line_below_streamed_text(&mut self, line: String) {
        self.waiting.hide_line_until_next_tick();
        self.erase_unfinished_answer_text();
        self.end_open_line();
        print_stderr_line(line);
    }

    /// Prints the part of the model's text that is not in the scrollback yet.
    fn flush_answer(&mut self) {
        if let Some(columns) = self.columns
            && !self.answer.is_empty()
        {
            self.waiting.hide_line_until_next_tick();
            self.is_tail_stale = false;
            let rows = self.answer.finish_and_take_rows(columns);
            if !self.tail.keep_rows_if_fully_drawn(&rows) {
                self.tail.erase();
                print_rows_to_stdout(&rows);
            }
        }
    }

    /// Prints an answer, or the part of it that was not streamed.
    fn print_answer_text(&self, text: &str) {
        match self.columns {
            Some(columns) => print_rows_to_stdout(&render_rows(text, columns)),
            None => print_to_stdout(format_args!("{}\n", escape_prose_for_display(text))),
        }
    }

    fn end_open_line(&mut self) {
        if self.is_line_open {
            print_to_stdout("\n");
            self.is_line_open = false;
        }
    }

    /// Ends the output of a turn. Standard output is only for answers, so the reason for a missing
    /// answer goes to standard error.
    fn show_turn_end(&mut self, summary: &TurnSummary, output: &str) {
        self.waiting.stop_wait_and_hide_line();
        self.flush_answer();
        self.end_open_line();
        let output = output.trim_end();
        match summary.stop {
            StopReason::Done if self.hides_answer => {}
            StopReason::Done => {
                let rest = find_unshown_output(output, &self.streamed);
                if !rest.trim().is_empty() {
                    self.print_answer_text(rest);
                }
            }
            StopReason::Blocked | StopReason::MaxSteps => {
                print_stderr_line(escape_prose_for_display(output))
            }
            // Print nothing: the user interrupted the turn.
            StopReason::Cancelled => {}
            // The error event was already shown. Show the partial answer, unless it was streamed.
            StopReason::Failed => {
                // An answer that is complete and only could not be saved to the session still goes
                // to standard output.
                if let Some(answer) = extract_unsaved_answer(output).filter(|_| !self.hides_answer)
                {
                    let rest = find_unshown_output(answer, &self.streamed);
                    if !rest.trim().is_empty() {
                        self.print_answer_text(rest);
                    }
                    self.streamed = answer.to_owned();
                }
                let begun = extract_unfinished_answer(output);
                if self.streamed.is_empty() && !begun.trim().is_empty() {
                    print_stderr_line(escape_prose_for_display(begun.trim_end()));
                }
            }
        }
        if self.trace.is_some() {
            self.hooks
                .format_total_lines(summary.duration_ms)
                .iter()
                .for_each(print_stderr_line);
        }
        print_stderr_line(self.turn_summary_line(summary));
    }

    /// Formats the cost of the turn. `None` if the replies are scripted and no price is known,
    /// because such a turn costs nothing.
    fn turn_cost(&self, summary: &TurnSummary) -> Option<String> {
        let is_unknown = summary.unpriced_tokens > 0 && summary.cost_usd <= 0.0;
        super::format_turn_cost(summary).filter(|_| !is_unknown || !self.is_scripted)
    }

    fn turn_summary_line(&self, summary: &TurnSummary) -> String {
        let mut words = vec![
            format_count_with_noun(u64::from(summary.steps), "step"),
            format_count_with_noun(u64::from(summary.tool_calls), "tool call"),
            super::format_token_usage(&summary.usage),
        ];
        words.extend(self.turn_cost(summary));
        words.push(format_duration_ms(summary.duration_ms));
        // A trace prints its own summary of the hooks.
        if self.trace.is_none() {
            words.extend(self.hooks.format_summary());
        }
        let line = style_text(DIM_STYLE, words.join(" · "));
        match summary.stop {
            StopReason::Done => line,
            StopReason::MaxSteps => {
                format!(
                    "{} {line}",
                    style_text(WARNING_STYLE, "stopped at the step limit")
                )
            }
            StopReason::Blocked => format!("{} {line}", style_text(ERROR_STYLE, "blocked")),
            StopReason::Cancelled => format!("{} {line}", style_text(WARNING_STYLE, "interrupted")),
            StopReason::Failed => format!("{} {line}", style_text(ERROR_STYLE, "failed")),
        }
    }
}
