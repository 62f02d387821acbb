//! Cases of plugins: a line each, and the differences of those that fail.

use std::path::Path;

use super::super::case::Ran;
use super::{
    BAD, BOLD, DIM, GOOD, answer_line, count, duration, note, printable, say, styled, warn,
};

/// Prints a case.
pub(in super::super) fn ran(case: &Ran) {
    let took = styled(DIM, duration(case.took.as_secs_f64() * 1e6));
    let (plugin, name) = (styled(BOLD, &case.plugin), printable(&case.name));
    if case.failures.is_empty() {
        answer_line(format!("{} {plugin}: {name} {took}", styled(GOOD, "✓")));
        return;
    }
    answer_line(format!(
        "{} {plugin}: {name} ({})",
        styled(BAD, "✗"),
        printable(&case.place)
    ));
    for line in case.failures.iter().flat_map(|failure| failure.lines()) {
        answer_line(format!("    {}", printable(line)));
    }
}

/// Says that a plugin has no cases.
pub(in super::super) fn none(folder: &Path, plugin: &str, is_filtered: bool) {
    if !is_filtered {
        warn(&format!(
            "{plugin} has no cases: write some in {}",
            folder.join("tests/NAME.toml").display()
        ));
    }
}

/// Names the hooks and tools that no case reached.
pub(in super::super) fn untouched(plugin: &str, names: &[String]) {
    if !names.is_empty() {
        note(&format!("{plugin}: no case reaches {}", names.join(", ")));
    }
}

/// Prints how many passed.
pub(in super::super) fn total(ran: &[Ran]) {
    let n_failed = ran.iter().filter(|case| !case.failures.is_empty()).count();
    let cases = count(ran.len() as u64, "case");
    if ran.is_empty() {
        say(format_args!("{} no cases were run", styled(BAD, "✗")));
    } else if n_failed == 0 {
        say(format_args!(
            "{} {cases} passed, each warm and cold",
            styled(GOOD, "✓")
        ));
    } else {
        say(format_args!(
            "{} {n_failed} of {cases} failed",
            styled(BAD, "✗")
        ));
    }
}
