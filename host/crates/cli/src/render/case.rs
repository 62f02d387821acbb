//! Reports on test cases of plugins and skills: a line for each case with its cost, the differences
//! of failed cases, and the exports that no case reached.

use std::path::Path;
use std::time::Duration;

use super::super::case::case_location;
use super::{
    BAD, BOLD, DIM, GOOD, answer_line, format_bytes, format_count, format_duration, print_note,
    print_warning, printable_text, say_line, style_text,
};
use rind_cases::CaseCost;
use rind_cases::snapshot::UnusedSnapshot;
use rind_cases::suite::{CaseRun, PluginCoverage};

/// Minimum difference of two durations that is shown; a smaller one is noise.
const MIN_DIFFERENCE: Duration = Duration::from_micros(500);

pub(in super::super) fn print_case_result(case: &CaseRun) {
    let (plugin, name) = (style_text(BOLD, &case.plugin), printable_text(&case.name));
    if case.passed() {
        let accepted = if case.is_accepted {
            ", snapshot written"
        } else {
            ""
        };
        let cost = printable_text(&format_cost(&case.cost, case.last.as_ref()));
        let cost = style_text(DIM, format!("{cost}{accepted}"));
        answer_line(format!("{} {plugin}: {name} {cost}", style_text(GOOD, "✓")));
        return;
    }
    answer_line(format!(
        "{} {plugin}: {name} ({})",
        style_text(BAD, "✗"),
        printable_text(&case_location(case))
    ));
    for line in case.failures.iter().flat_map(|failure| failure.lines()) {
        answer_line(format!("    {}", printable_text(line)));
    }
    for line in &case.log {
        answer_line(style_text(
            DIM,
            format!("    log: {}", printable_text(line)),
        ));
    }
}

/// Prints name, file and line of a case without running it.
pub(in super::super) fn print_case_name(plugin: &str, name: &str, file: &Path, line: usize) {
    let file = file.strip_prefix(".").unwrap_or(file).display();
    answer_line(format!(
        "{}: {} {}",
        style_text(BOLD, plugin),
        printable_text(name),
        style_text(
            DIM,
            format!("({}:{line})", printable_text(&file.to_string()))
        )
    ));
}

/// Formats duration, memory and host calls of a case, each followed by the value of the last run if
/// it differs.
fn format_cost(now: &CaseCost, last: Option<&CaseCost>) -> String {
    let micros = |took: Duration| format_duration(took.as_secs_f64() * 1e6);
    let calls = |cost: &CaseCost| {
        let all: Vec<String> = cost
            .host_calls
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        all.join(" ")
    };
    let parts = [
        append_previous_value(
            micros(now.took),
            last.filter(|last| durations_differ_noticeably(now.took, last.took))
                .map(|last| micros(last.took)),
        ),
        append_previous_value(
            // Omit the memory for cases of skills, which measure none.
            match now.memory_bytes {
                0 => String::new(),
                n => format_bytes(n),
            },
            last.filter(|last| last.memory_bytes != now.memory_bytes)
                .map(|last| format_bytes(last.memory_bytes)),
        ),
        append_previous_value(
            calls(now),
            last.filter(|last| last.host_calls != now.host_calls)
                .map(calls),
        ),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn append_previous_value(now: String, last: Option<String>) -> String {
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

/// Whether two durations differ by more than a quarter, and by more than noise.
fn durations_differ_noticeably(now: Duration, last: Duration) -> bool {
    let difference = now.abs_diff(last);
    difference >= MIN_DIFFERENCE && difference * 4 > last
}

pub(in super::super) fn print_folder_without_cases(folder: &Path, plugin: &str) {
    print_warning(&format!(
        "{plugin} has no cases: write some in {}",
        folder.join("tests/NAME.toml").display()
    ));
}

/// Lists the hooks, tools, commands and loops that no case reached, and the outcomes that no case
/// produced.
pub(in super::super) fn show_coverage(plugin: &str, coverage: &PluginCoverage) {
    let never: Vec<&str> = coverage.uncalled_plugin_parts().collect();
    if !never.is_empty() {
        let n_called = coverage.n_plugin_parts() - never.len();
        print_note(&format!(
            "{plugin}: the cases reach {n_called} of its {} hooks, tools, commands and loops; no case reaches {}",
            coverage.n_plugin_parts(),
            never.join(", ")
        ));
    }
    let unseen: Vec<String> = coverage
        .outcomes_without_case()
        .map(|(point, outcome)| format!("`{outcome}` of {point}"))
        .collect();
    if !unseen.is_empty() {
        print_note(&format!(
            "{plugin}: no case makes the plugin return {}",
            unseen.join(", ")
        ));
    }
}

/// Reports a snapshot that belongs to no case.
pub(in super::super) fn report_unused_snapshot(unused: &UnusedSnapshot, is_accepted: bool) {
    let file = unused.path.display();
    match (unused.is_written, is_accepted) {
        (true, true) => print_note(&format!("removed {file}: no case uses this snapshot")),
        (true, false) => print_warning(&format!(
            "no case uses the snapshot {file}; `--accept` removes it"
        )),
        (false, _) => print_warning(&format!(
            "no case uses the snapshot {file}; it is kept, because `--accept` did not write it"
        )),
    }
}

/// Prints the changed file because of which cases run again.
pub(in super::super) fn print_changed_file(file: &Path) {
    print_note(&format!("{} changed", file.display()));
}

/// Prints how many cases passed or failed; `how` is appended if all passed.
pub(in super::super) fn print_case_totals(ran: &[CaseRun], how: &str) {
    let n_failed = ran.iter().filter(|case| !case.passed()).count();
    let cases = format_count(ran.len() as u64, "case");
    if ran.is_empty() {
        say_line(format_args!("{} no cases were run", style_text(BAD, "✗")));
    } else if n_failed == 0 {
        say_line(format_args!(
            "{} {cases} passed{how}",
            style_text(GOOD, "✓")
        ));
    } else {
        say_line(format_args!(
            "{} {n_failed} of {cases} failed",
            style_text(BAD, "✗")
        ));
    }
}
