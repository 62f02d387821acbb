//! Loops while they are served: a line for each run and its failures; or JSON lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::lines::{Lines, MINUTE, Room, notice};
use super::plain::Plain;
use super::{BAD, BOLD, DIM, GOOD, WARN, answer, millis, one_line, say, styled, warning};
use rind_lib::event::{Event, LoopResult, Stamped};
use rind_lib::loops::{EndReason, LoopEnd};

/// Longest reason of a line, in characters.
const REASON_WIDTH: usize = 200;

pub(in super::super) struct LoopRenderer {
    is_json: bool,
    /// Loops by the id of their session.
    loops: BTreeMap<Arc<str>, View>,
}

/// View of one loop.
struct View {
    plugin: String,
    plain: Plain,
    minute: Instant,
    lines: Arc<Lines>,
}

impl LoopRenderer {
    /// Shows loops, which are named by the ids of their sessions, as far as they have lines left.
    pub(in super::super) fn new(
        loops: BTreeMap<Arc<str>, String>,
        lines: &Arc<Lines>,
        is_json: bool,
    ) -> Self {
        let views = loops
            .into_iter()
            .map(|(session, plugin)| (session, View::new(plugin, lines.clone())));
        Self {
            is_json,
            loops: views.collect(),
        }
    }

    pub(in super::super) fn show(&mut self, stamped: &Stamped) {
        if self.is_json {
            match serde_json::to_string(stamped) {
                Ok(line) => answer(line + "\n"),
                Err(e) => say(format_args!("an event could not be written: {e}")),
            }
            return;
        }
        let session = stamped.session.as_ref();
        let Some(view) = session.and_then(|session| self.loops.get_mut(session)) else {
            return;
        };
        view.show(stamped, Instant::now()).into_iter().for_each(say);
    }
}

impl View {
    fn new(plugin: String, lines: Arc<Lines>) -> Self {
        Self {
            plugin,
            plain: Plain::more_with("--json"),
            minute: Instant::now(),
            lines,
        }
    }

    /// Returns the line for an event, if it has one and this minute has room for it.
    fn show(&mut self, stamped: &Stamped, now: Instant) -> Option<String> {
        if now.duration_since(self.minute) >= MINUTE {
            self.minute = now;
            self.plain = Plain::more_with("--json");
        }
        let line = match &stamped.event {
            Event::LoopRun { .. } | Event::LoopWait { .. } => about_run(&stamped.event),
            _ => self.plain.show(stamped),
        }?;
        let name = styled(BOLD, one_line(&self.plugin, 64));
        match self.lines.room(&self.plugin, now) {
            Room::Line => Some(format!("{name} {line}")),
            Room::Notice => Some(format!("{name} {}", notice())),
            Room::None => None,
        }
    }
}

/// Returns the line about a run: its result, and the time of the next one. A run with a next one is
/// reported together with that.
fn about_run(event: &Event) -> Option<String> {
    match event {
        Event::LoopRun {
            outcome: LoopResult::Done,
            duration_ms,
            ..
        } => {
            let took = styled(DIM, millis(*duration_ms));
            Some(format!("{} {took}", styled(GOOD, "done")))
        }
        Event::LoopWait {
            delay_ms,
            failures,
            reason,
            ..
        } => {
            let reason = one_line(reason, REASON_WIDTH);
            let next = format!("runs again in {}", pause(*delay_ms));
            Some(match failures {
                0 if reason.is_empty() => styled(DIM, next),
                0 => format!("{reason} {}", styled(DIM, format_args!("· {next}"))),
                1 => format!(
                    "{} {reason} {}",
                    failed(),
                    styled(WARN, format_args!("· {next}"))
                ),
                n => {
                    let next = styled(WARN, format_args!("· {n} times in a row · {next}"));
                    format!("{} {reason} {next}", failed())
                }
            })
        }
        _ => None,
    }
}

fn failed() -> String {
    styled(BAD, "failed:")
}

/// Formats a pause in the largest unit that it has.
fn pause(ms: u64) -> String {
    match ms {
        ms if ms < 60_000 => millis(ms),
        ms if ms < 2 * 3_600_000 => format!("{} min", ms / 60_000),
        ms if ms < 2 * 86_400_000 => format!("{} h", ms / 3_600_000),
        ms => format!("{} days", ms / 86_400_000),
    }
}

/// Says which loops are served.
pub(in super::super) fn beginning<'a>(plugins: impl Iterator<Item = &'a String>) {
    let names: Vec<String> = plugins.map(|name| one_line(name, 64)).collect();
    let text = format!("serving {}; Ctrl-C ends it", names.join(", "));
    say(styled(DIM, text));
}

/// Prints the reason for the end of a loop, unless an earlier line contained it.
pub(in super::super) fn end(end: &LoopEnd) {
    let name = styled(BOLD, one_line(&end.plugin, 64));
    match &end.why {
        EndReason::Done | EndReason::Failed(_) => {}
        EndReason::Interrupted => say(format_args!("{name} {}", styled(WARN, "interrupted"))),
        EndReason::Broken(why) => say(format_args!("{name} {}", warning(why))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::MAX_LINES_PER_MINUTE;
    use super::*;
    use rind_lib::event::Events;

    fn view_of(events: &[Event], now: Instant, view: &mut View) -> Vec<String> {
        let (stream, mut receiver) = Events::channel();
        let mut lines = Vec::new();
        for event in events {
            stream.emit(event.clone());
            let stamped = receiver.try_recv().unwrap();
            let line = view.show(&stamped, now);
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
        let mut view = View::new("heart".to_owned(), Arc::default());
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
        let mut view = View::new("heart".to_owned(), Arc::default());
        let now = Instant::now();
        let many = vec![wait(100, 0, "beat"); 100];
        let lines = view_of(&many, now, &mut view);
        assert_eq!(lines.len(), MAX_LINES_PER_MINUTE as usize);
        assert_eq!(
            lines.last().unwrap(),
            "heart says more than is shown; all of it with --json (events) and RIND_LOG=warn (log lines)"
        );
        assert_eq!(view_of(&many[..2], now + MINUTE, &mut view).len(), 2);
    }
}
