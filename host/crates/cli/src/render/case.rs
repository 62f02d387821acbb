//! Cases of plugins and skills: a line each with its cost, the differences of those that fail, and
//! the exports that no case reached.

use std::path::Path;
use std::time::Duration;

use super::super::case::place;
use super::{
    BAD, BOLD, DIM, GOOD, answer_line, bytes, count, duration, note, printable, say, styled, warn,
};
use rind_cases::Cost;
use rind_cases::snapshot::Unused;
use rind_cases::suite::{Coverage, Ran};

/// Minimum difference of two times that is shown; smaller ones are noise.
const MIN_DIFFERENCE: Duration = Duration::from_micros(500);

pub(in super::super) fn ran(case: &Ran) {
    let (plugin, name) = (styled(BOLD, &case.plugin), printable(&case.name));
    if case.passed() {
        let accepted = if case.is_accepted {
            ", snapshot written"
        } else {
            ""
        };
        let cost = printable(&cost(&case.cost, case.last.as_ref()));
        let cost = styled(DIM, format!("{cost}{accepted}"));
        answer_line(format!("{} {plugin}: {name} {cost}", styled(GOOD, "✓")));
        return;
    }
    answer_line(format!(
        "{} {plugin}: {name} ({})",
        styled(BAD, "✗"),
        printable(&place(case))
    ));
    for line in case.failures.iter().flat_map(|failure| failure.lines()) {
        answer_line(format!("    {}", printable(line)));
    }
    for line in &case.log {
        answer_line(styled(DIM, format!("    log: {}", printable(line))));
    }
}

/// Formats time, memory and host calls, each with the value of the last run if it differs.
fn cost(now: &Cost, last: Option<&Cost>) -> String {
    let micros = |took: Duration| duration(took.as_secs_f64() * 1e6);
    let calls = |cost: &Cost| {
        let all: Vec<String> = cost
            .host_calls
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        all.join(" ")
    };
    let parts = [
        with_last(
            micros(now.took),
            last.filter(|last| is_other_time(now.took, last.took))
                .map(|last| micros(last.took)),
        ),
        with_last(
            // Leave the column empty for skills: only plugins have a memory.
            match now.memory_bytes {
                0 => String::new(),
                n => bytes(n),
            },
            last.filter(|last| last.memory_bytes != now.memory_bytes)
                .map(|last| bytes(last.memory_bytes)),
        ),
        with_last(
            calls(now),
            last.filter(|last| last.host_calls != now.host_calls)
                .map(calls),
        ),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn with_last(now: String, last: Option<String>) -> String {
    let none = |text: String| {
        if text.is_empty() {
            "no host calls".to_owned()
        } else {
            text
        }
    };
    match last {
        Some(last) => format!("{} (was {})", none(now), none(last)),
        None => now,
    }
}

/// Whether two times differ by more than a quarter, and by more than noise.
fn is_other_time(now: Duration, last: Duration) -> bool {
    let difference = now.abs_diff(last);
    difference >= MIN_DIFFERENCE && difference * 4 > last
}

pub(in super::super) fn none(folder: &Path, plugin: &str) {
    warn(&format!(
        "{plugin} has no cases: write some in {}",
        folder.join("tests/NAME.toml").display()
    ));
}

/// Names the hooks, tools, commands and loops that no case reached.
pub(in super::super) fn coverage(plugin: &str, coverage: &Coverage) {
    let never: Vec<&str> = coverage.never_called().collect();
    if !never.is_empty() {
        let n_called = coverage.n_all() - never.len();
        note(&format!(
            "{plugin}: cases call {n_called} of {} hooks, tools, commands and loops; no case reaches {}",
            coverage.n_all(),
            never.join(", ")
        ));
    }
}

/// Tells of a snapshot that no case has.
pub(in super::super) fn unused(unused: &Unused, is_accepted: bool) {
    let file = unused.path.display();
    match (unused.is_written, is_accepted) {
        (true, true) => note(&format!("removed {file}: no case has this snapshot")),
        (true, false) => warn(&format!(
            "no case has the snapshot {file}; `--accept` removes it"
        )),
        (false, _) => warn(&format!(
            "no case has the snapshot {file}, and it stays: `--accept` did not write it"
        )),
    }
}

/// Names the file for which cases are run again.
pub(in super::super) fn changed(file: &Path) {
    note(&format!("{} changed", file.display()));
}

/// Prints how many passed.
pub(in super::super) fn total(ran: &[Ran], how: &str) {
    let n_failed = ran.iter().filter(|case| !case.passed()).count();
    let cases = count(ran.len() as u64, "case");
    if ran.is_empty() {
        say(format_args!("{} no cases were run", styled(BAD, "✗")));
    } else if n_failed == 0 {
        say(format_args!("{} {cases} passed{how}", styled(GOOD, "✓")));
    } else {
        say(format_args!(
            "{} {n_failed} of {cases} failed",
            styled(BAD, "✗")
        ));
    }
}
