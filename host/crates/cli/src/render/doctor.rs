//! Prints the report of `rind doctor`.

use super::super::doctor::{DoctorCheck, DoctorCheckState, DoctorReport};
use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_and_indent_continuation_lines, format_count_with_noun, print_stdout_line, style_text,
};

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
            format_count_with_noun(n, "thing")
        )
    } else {
        format!(
            "{} missing, of which at least one is required",
            format_count_with_noun(n_of(DoctorCheckState::Missing), "thing")
        )
    };
    print_stdout_line(style_text(BOLD_STYLE, line));
}

fn print_check(check: &DoctorCheck) {
    let mark = match check.state {
        DoctorCheckState::Ok => style_text(SUCCESS_STYLE, "✓"),
        DoctorCheckState::Weaker => style_text(WARNING_STYLE, "▲"),
        DoctorCheckState::Missing => style_text(ERROR_STYLE, "✗"),
    };
    let name = style_text(BOLD_STYLE, format_args!("{:<18}", check.name));
    print_stdout_line(format_args!(
        "{mark} {name} {}",
        escape_and_indent_continuation_lines(&check.found)
    ));
    if !check.means.is_empty() {
        let means = style_text(
            DIM_STYLE,
            escape_and_indent_continuation_lines(&check.means),
        );
        print_stdout_line(format_args!("{:21}{means}", ""));
    }
    if !check.todo.is_empty() {
        print_stdout_line(format_args!(
            "{:21}to do: {}",
            "",
            escape_and_indent_continuation_lines(&check.todo)
        ));
    }
}
