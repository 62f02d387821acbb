//! Renders the plugins' loops that `rind serve` runs: a line for each run and its failures, or
//! every event as a JSON line.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::lines::{
    LINE_RATE_LIMIT_PERIOD, LineRateLimitDecision, PluginLoopLinesPerMinuteCounts,
    line_limit_reached_notice,
};
use super::plain::PlainTurnRenderer;
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, format_count_with_noun,
    format_duration_ms, format_warning_line, print_stderr_line, print_to_stdout, style_text,
    truncate_to_one_line,
};
use rind_lib::event::{Event, LoopResult, Stamped};
use rind_lib::host::plugin_owning_loop_session;
use rind_lib::loops::{EndedLoop, LoopEndReason};
use rind_lib::point::payload::{StopReason, TurnSummary};

/// Maximum length of a reason in a line, in characters.
const MAX_SHOWN_REASON_OR_SESSION_CHARS: usize = 200;

pub(in super::super) struct PluginLoopsRenderer {
    is_json: bool,
    /// Renderer of each loop, by the id of the loop's session.
    loops: BTreeMap<Arc<str>, PluginLoopRenderer>,
}

/// Renderer of one loop, with the number of lines that the loop may still show in this minute.
struct PluginLoopRenderer {
    plugin: String,
    plain: PlainTurnRenderer,
    minute: Instant,
    lines: Arc<PluginLoopLinesPerMinuteCounts>,
}

impl PluginLoopsRenderer {
    /// Renders the given loops (session id to plugin), each until its budget of lines per minute is
    /// used up.
    pub(in super::super) fn new(
        loops: BTreeMap<Arc<str>, String>,
        lines: &Arc<PluginLoopLinesPerMinuteCounts>,
        is_json: bool,
    ) -> Self {
        let views = loops
            .into_iter()
            .map(|(session, plugin)| (session, PluginLoopRenderer::new(plugin, lines.clone())));
        Self {
            is_json,
            loops: views.collect(),
        }
    }

    pub(in super::super) fn show_plugin_loop_event(&mut self, stamped: &Stamped) {
        if self.is_json {
            match serde_json::to_string(stamped) {
                Ok(line) => print_to_stdout(line + "\n"),
                Err(e) => print_stderr_line(format_args!("an event could not be written: {e}")),
            }
            return;
        }
        let Some(session) = &stamped.session else {
            return;
        };
        let line = match self.loops.get_mut(session) {
            Some(view) => view.render_event_line(stamped, Instant::now()),
            None => self.render_loop_turn_event(session, stamped),
        };
        line.into_iter().for_each(print_stderr_line);
    }

    /// Returns the line for an event of a session that a loop opened to run a turn.
    fn render_loop_turn_event(&mut self, session: &str, stamped: &Stamped) -> Option<String> {
        let plugin = plugin_owning_loop_session(session)?;
        let mut views = self.loops.values_mut();
        let view = views.find(|view| view.plugin == plugin)?;
        view.render_event_line(stamped, Instant::now())
    }
}

/// Prints the address of the API, the path of its token, and the URL that signs a browser in.
pub(in super::super) fn print_api_address(address: &str, token: &Path, login: Option<&str>) {
    print_stderr_line(format_args!(
        "API at {address}/v1, token in {}; Ctrl-C ends it",
        token.display()
    ));
    if let Some(login) = login {
        print_stderr_line(format_args!("open in a browser: {login}"));
    }
}

impl PluginLoopRenderer {
    fn new(plugin: String, lines: Arc<PluginLoopLinesPerMinuteCounts>) -> Self {
        Self {
            plugin,
            plain: PlainTurnRenderer::with_flag_for_hints("--json"),
            minute: Instant::now(),
            lines,
        }
    }

    /// Returns the line for an event, if the event has one and the limit of lines per minute is not
    /// reached.
    fn render_event_line(&mut self, stamped: &Stamped, now: Instant) -> Option<String> {
        if now.duration_since(self.minute) >= LINE_RATE_LIMIT_PERIOD {
            self.minute = now;
            self.plain = PlainTurnRenderer::with_flag_for_hints("--json");
        }
        let line = match &stamped.event {
            Event::LoopRun { .. } | Event::LoopWait { .. } => format_loop_run_event(&stamped.event),
            Event::TurnEnd { turn, summary, .. } if stamped.is_from_main_agent() => {
                Some(format_loop_turn(*turn, summary, stamped.session.as_deref()))
            }
            _ => self.plain.render_event(stamped),
        }?;
        let name = style_text(BOLD_STYLE, truncate_to_one_line(&self.plugin, 64));
        match self.lines.count_line_and_decide_display(&self.plugin, now) {
            LineRateLimitDecision::Line => Some(format!("{name} {line}")),
            LineRateLimitDecision::Notice => {
                Some(format!("{name} {}", line_limit_reached_notice()))
            }
            LineRateLimitDecision::None => None,
        }
    }
}

/// Returns the line about an event of a loop's run. A run that another run will follow has no line
/// of its own: the line about the wait shows its result and the time of the next run.
fn format_loop_run_event(event: &Event) -> Option<String> {
    match event {
        Event::LoopRun {
            outcome: LoopResult::Done,
            duration_ms,
            ..
        } => {
            let took = style_text(DIM_STYLE, format_duration_ms(*duration_ms));
            Some(format!("{} {took}", style_text(SUCCESS_STYLE, "done")))
        }
        Event::LoopWait {
            delay_ms,
            failures,
            reason,
            ..
        } => {
            let reason = truncate_to_one_line(reason, MAX_SHOWN_REASON_OR_SESSION_CHARS);
            let next = format!("runs again in {}", format_pause_duration(*delay_ms));
            Some(match failures {
                0 if reason.is_empty() => style_text(DIM_STYLE, next),
                0 => format!(
                    "{reason} {}",
                    style_text(DIM_STYLE, format_args!("· {next}"))
                ),
                1 => format!(
                    "{} {reason} {}",
                    styled_failed_label(),
                    style_text(WARNING_STYLE, format_args!("· {next}"))
                ),
                n => {
                    let next =
                        style_text(WARNING_STYLE, format_args!("· {n} times in a row · {next}"));
                    format!("{} {reason} {next}", styled_failed_label())
                }
            })
        }
        _ => None,
    }
}

/// Returns the line about a turn that a loop ran.
fn format_loop_turn(turn: u32, summary: &TurnSummary, session: Option<&str>) -> String {
    let (style, state) = match summary.stop {
        StopReason::Done => (SUCCESS_STYLE, "answered"),
        StopReason::MaxSteps => (WARNING_STYLE, "reached its limit of steps:"),
        StopReason::Blocked => (WARNING_STYLE, "was refused:"),
        StopReason::Cancelled => (WARNING_STYLE, "was interrupted:"),
        StopReason::Failed => (ERROR_STYLE, "failed:"),
    };
    let session = truncate_to_one_line(
        session.unwrap_or_default(),
        MAX_SHOWN_REASON_OR_SESSION_CHARS,
    );
    let took = format_duration_ms(summary.duration_ms);
    let mut rest = format!(
        "turn {turn} of {session} · {} · {took}",
        format_count_with_noun(u64::from(summary.steps), "step")
    );
    if summary.cost_usd > 0.0 {
        rest += &format!(" · ${:.4}", summary.cost_usd);
    }
    format!(
        "{} {}",
        style_text(style, state),
        style_text(DIM_STYLE, rest)
    )
}

fn styled_failed_label() -> String {
    style_text(ERROR_STYLE, "failed:")
}

/// Formats the pause before a loop's next run in the largest suitable unit.
fn format_pause_duration(ms: u64) -> String {
    match ms {
        ms if ms < 60_000 => format_duration_ms(ms),
        ms if ms < 2 * 3_600_000 => format!("{} min", ms / 60_000),
        ms if ms < 2 * 86_400_000 => format!("{} h", ms / 3_600_000),
        ms => format!("{} days", ms / 86_400_000),
    }
}

/// Prints which plugin loops the server runs.
pub(in super::super) fn print_served_loops<'a>(plugins: impl Iterator<Item = &'a String>) {
    let names: Vec<String> = plugins.map(|name| truncate_to_one_line(name, 64)).collect();
    let text = format!("serving {}; Ctrl-C ends it", names.join(", "));
    print_stderr_line(style_text(DIM_STYLE, text));
}

/// Prints why a loop ended, unless an earlier line already said so.
pub(in super::super) fn print_loop_end(end: &EndedLoop) {
    let name = style_text(BOLD_STYLE, truncate_to_one_line(&end.plugin, 64));
    match &end.why {
        LoopEndReason::Done | LoopEndReason::Failed(_) => {}
        LoopEndReason::Interrupted => print_stderr_line(format_args!(
            "{name} {}",
            style_text(WARNING_STYLE, "interrupted")
        )),
        LoopEndReason::Broken(why) => {
            print_stderr_line(format_args!("{name} {}", format_warning_line(why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::MAX_LOOP_LINES_PER_MINUTE;
    use super::*;
    use rind_lib::event::EventSender;

    fn view_of(events: &[Event], now: Instant, view: &mut PluginLoopRenderer) -> Vec<String> {
        let (stream, mut receiver) = EventSender::new_with_receiver();
        let mut lines = Vec::new();
        for event in events {
            stream.emit(event.clone());
            let stamped = receiver.try_recv().unwrap();
            let line = view.render_event_line(&stamped, now);
            lines.extend(line.map(|line| anstream::adapter::strip_str(&line).to_string()));
        }
        lines
    }

    fn wait(delay_ms: u64, failures: u32, reason: &str) -> Event {
        Event::LoopWait {
            plugin: "heart".to_owned(),
            delay_ms,
            failures,
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn a_run_is_one_line_with_its_outcome_and_the_next_run() {
        let mut view = PluginLoopRenderer::new("heart".to_owned(), Arc::default());
        let run = |outcome| Event::LoopRun {
            plugin: "heart".to_owned(),
            outcome,
            after_ms: None,
            reason: None,
            duration_ms: 12,
        };
        let events = [
            run(LoopResult::Again),
            wait(60_000, 0, "beat 1"),
            wait(100, 0, ""),
            run(LoopResult::Failed),
            wait(1_000, 1, "it trapped\u{1b}[2K"),
            wait(2_000, 2, "it trapped"),
            wait(u64::MAX, 0, "beat 2"),
            run(LoopResult::Done),
        ];
        assert_eq!(
            view_of(&events, Instant::now(), &mut view),
            [
                "heart beat 1 · runs again in 1 min",
                "heart runs again in 100 ms",
                "heart failed: it trapped\\u{1b}[2K · runs again in 1.0 s",
                "heart failed: it trapped · 2 times in a row · runs again in 2.0 s",
                "heart beat 2 · runs again in 213503982334 days",
                "heart done 12 ms",
            ]
        );
    }

    #[test]
    fn a_loop_that_says_much_is_cut_off_until_the_next_minute() {
        let mut view = PluginLoopRenderer::new("heart".to_owned(), Arc::default());
        let now = Instant::now();
        let many = vec![wait(100, 0, "beat"); 100];
        let lines = view_of(&many, now, &mut view);
        assert_eq!(lines.len(), MAX_LOOP_LINES_PER_MINUTE as usize);
        assert_eq!(
            lines.last().unwrap(),
            "heart has more output than is shown; --json shows all events and RIND_LOG=warn all log lines"
        );
        assert_eq!(
            view_of(&many[..2], now + LINE_RATE_LIMIT_PERIOD, &mut view).len(),
            2
        );
    }
}
