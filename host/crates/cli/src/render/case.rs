//! Reports on test cases of plugins and skills: a line for each case with its cost, the differences
//! of failed cases, and the exports that no case reached.

use std::path::Path;
use std::time::Duration;

use super::super::case::format_case_file_and_line;
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, format_bytes, format_count_with_noun,
    format_duration_micros, print_note, print_stderr_line, print_stdout_line, print_warning,
    printable_text, style_text,
};
use rind_cases::CaseCost;
use rind_cases::snapshot::UnusedSnapshot;
use rind_cases::suite::{CaseRunResult, PluginCoverage};

/// Minimum difference of two durations that is shown; a smaller one is noise.
const MIN_SHOWN_DURATION_DIFFERENCE: Duration = Duration::from_micros(500);

pub(in super::super) fn print_case_result(case: &CaseRunResult) {
    let (plugin, name) = (
        style_text(BOLD_STYLE, &case.plugin),
        printable_text(&case.name),
    );
    if case.passed() {
        let accepted = if case.is_accepted {
            ", snapshot written"
        } else {
            ""
        };
        let cost = printable_text(&format_case_cost_with_previous(
            &case.cost,
            case.last.as_ref(),
        ));
        let cost = style_text(DIM_STYLE, format!("{cost}{accepted}"));
        print_stdout_line(format!(
            "{} {plugin}: {name} {cost}",
            style_text(SUCCESS_STYLE, "✓")
        ));
        return;
    }
    print_stdout_line(format!(
        "{} {plugin}: {name} ({})",
        style_text(ERROR_STYLE, "✗"),
        printable_text(&format_case_file_and_line(case))
    ));
    for line in case.failures.iter().flat_map(|failure| failure.lines()) {
        print_stdout_line(format!("    {}", printable_text(line)));
    }
    for line in &case.log {
        print_stdout_line(style_text(
            DIM_STYLE,
            format!("    log: {}", printable_text(line)),
        ));
    }
}

/// Prints name, file and line of a case without running it.
pub(in super::super) fn print_case_name(plugin: &str, name: &str, file: &Path, line: usize) {
    let file = file.strip_prefix(".").unwrap_or(file).display();
    print_stdout_line(format!(
        "{}: {} {}",
        style_text(BOLD_STYLE, plugin),
        printable_text(name),
        style_text(
            DIM_STYLE,
            format!("({}:{line})", printable_text(&file.to_string()))
        )
    ));
}

/// Formats duration, memory and host calls of a case, each followed by the value of the last run if
/// it differs.
fn format_case_cost_with_previous(now: &CaseCost, last: Option<&CaseCost>) -> String {
    let micros = |took: Duration| format_duration_micros(took.as_secs_f64() * 1e6);
    let calls = |cost: &CaseCost| {
        let all: Vec<String> = cost
            .host_calls
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        all.join(" ")
    };
    let parts = [
        append_previous_cost_value(
            micros(now.took),
            last.filter(|last| durations_differ_noticeably(now.took, last.took))
                .map(|last| micros(last.took)),
        ),
        append_previous_cost_value(
            // Omit the memory for cases of skills, which measure none.
            match now.memory_bytes {
                0 => String::new(),
                n => format_bytes(n),
            },
            last.filter(|last| last.memory_bytes != now.memory_bytes)
                .map(|last| format_bytes(last.memory_bytes)),
        ),
        append_previous_cost_value(
            calls(now),
            last.filter(|last| last.host_calls != now.host_calls)
                .map(calls),
        ),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn append_previous_cost_value(now: String, last: Option<String>) -> String {
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
    difference >= MIN_SHOWN_DURATION_DIFFERENCE && difference * 4 > last
}

pub(in super::super) fn print_plugin_without_cases(folder: &Path, plugin: &str) {
    print_warning(&format!(
        "{plugin} has no cases: write some in {}",
        folder.join("tests/NAME.toml").display()
    ));
}

/// Lists the hooks, tools, commands and loops that no case reached, and the outcomes that no case
/// produced.
pub(in super::super) fn print_missing_coverage(plugin: &str, coverage: &PluginCoverage) {
    let never: Vec<&str> = coverage.uncalled_plugin_parts().collect();
    if !never.is_empty() {
        let n_called = coverage.entry_count() - never.len();
        print_note(&format!(
            "{plugin}: the cases reach {n_called} of its {} hooks, tools, commands and loops; no case reaches {}",
            coverage.entry_count(),
            never.join(", ")
        ));
    }
    let unseen: Vec<String> = coverage
        .untested_hook_outcomes()
        .map(|(point, outcome)| format!("`{outcome}` of {point}"))
        .collect();
    if !unseen.is_empty() {
        print_note(&format!(
            "{plugin}: no case makes the plugin return {}",
            unseen.join(", ")
        ));
    }
}

/// Prints that a snapshot belongs to no test case, or that it was removed.
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
pub(in super::super) fn print_file_triggering_rerun(file: &Path) {
    print_note(&format!("{} changed", file.display()));
}

/// Prints how many cases passed or failed; `how` is appended if all passed.
pub(in super::super) fn print_case_totals(ran: &[CaseRunResult], how: &str) {
    let n_failed = ran.iter().filter(|case| !case.passed()).count();
    let cases = format_count_with_noun(ran.len() as u64, "case");
    if ran.is_empty() {
        print_stderr_line(format_args!(
            "{} no cases were run",
            style_text(ERROR_STYLE, "✗")
        ));
    } else if n_failed == 0 {
        print_stderr_line(format_args!(
            "{} {cases} passed{how}",
            style_text(SUCCESS_STYLE, "✓")
        ));
    } else {
        print_stderr_line(format_args!(
            "{} {n_failed} of {cases} failed",
            style_text(ERROR_STYLE, "✗")
        ));
    }
}
