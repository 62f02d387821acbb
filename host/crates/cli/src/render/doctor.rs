//! The report of `rind doctor`.

use super::super::doctor::{Check, Report, State};
use super::{BAD, BOLD, DIM, GOOD, WARN, answer_line, count, indented, styled};

pub(in super::super) fn report(report: &Report) {
    report.checks.iter().for_each(check);
    let n_of = |state| {
        let of = report.checks.iter().filter(|check| check.state == state);
        of.count() as u64
    };
    let line = if report.ok {
        let n = n_of(State::Weaker);
        let it = if n == 1 { "it" } else { "they" };
        format!(
            "{} weaker than {it} could be, nothing required is missing",
            count(n, "thing")
        )
    } else {
        format!(
            "{} missing, and at least one of them is required",
            count(n_of(State::Missing), "thing")
        )
    };
    answer_line(styled(BOLD, line));
}

fn check(check: &Check) {
    let mark = match check.state {
        State::Ok => styled(GOOD, "✓"),
        State::Weaker => styled(WARN, "▲"),
        State::Missing => styled(BAD, "✗"),
    };
    let name = styled(BOLD, format_args!("{:<18}", check.name));
    answer_line(format_args!("{mark} {name} {}", indented(&check.found)));
    if !check.means.is_empty() {
        let means = styled(DIM, indented(&check.means));
        answer_line(format_args!("{:21}{means}", ""));
    }
    if !check.todo.is_empty() {
        answer_line(format_args!("{:21}to do: {}", "", indented(&check.todo)));
    }
}
