//! Prints the report of `rind doctor`.

use super::super::doctor::{DoctorCheck, DoctorCheckState, DoctorReport};
use super::{BAD, BOLD, DIM, GOOD, WARN, answer_line, format_count, indent_text, style_text};

pub(in super::super) fn print_report(report: &DoctorReport) {
    report.checks.iter().for_each(print_check);
    let n_of = |state| {
        let of = report.checks.iter().filter(|check| check.state == state);
        of.count() as u64
    };
    let line = if report.ok {
        let n = n_of(DoctorCheckState::Weaker);
        let it = if n == 1 { "it" } else { "they" };
        format!(
            "{} weaker than {it} could be; nothing required is missing",
            format_count(n, "thing")
        )
    } else {
        format!(
            "{} missing, of which at least one is required",
            format_count(n_of(DoctorCheckState::Missing), "thing")
        )
    };
    answer_line(style_text(BOLD, line));
}

fn print_check(check: &DoctorCheck) {
    let mark = match check.state {
        DoctorCheckState::Ok => style_text(GOOD, "✓"),
        DoctorCheckState::Weaker => style_text(WARN, "▲"),
        DoctorCheckState::Missing => style_text(BAD, "✗"),
    };
    let name = style_text(BOLD, format_args!("{:<18}", check.name));
    answer_line(format_args!("{mark} {name} {}", indent_text(&check.found)));
    if !check.means.is_empty() {
        let means = style_text(DIM, indent_text(&check.means));
        answer_line(format_args!("{:21}{means}", ""));
    }
    if !check.todo.is_empty() {
        answer_line(format_args!("{:21}to do: {}", "", indent_text(&check.todo)));
    }
}
