//! Writes everything that a user sees: answers to standard output, the rest to standard error.
//!
//! Colour and live progress only on a terminal; `NO_COLOR` counts (through `anstream`). Text of models, tools and plugins
//! is made printable first: control characters of theirs must not reach a terminal. What the program says itself is broken at
//! blanks to the width of a terminal. Output that cannot be written makes the program fail at its end; a closed pipe does not.

pub(super) mod activity;
pub(super) mod doctor;
pub(super) mod grants;
pub(super) mod hold;
pub(super) mod install;
mod line;
mod output;
mod plain;
pub(super) mod plugins;
pub(super) mod session;
mod steps;
pub(super) mod trace;
pub(super) mod turn;
pub(super) mod waiting;
mod wrap;

use std::fmt::Display;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

use crate::message::Usage;
pub(super) use crate::text::{printable, prose};
pub(super) use output::{answer, answer_line, failure, put, say};

/// Style of secondary text.
pub(super) const DIM: Style = Style::new().dimmed();
/// Bold: names.
pub(super) const BOLD: Style = Style::new().bold();
/// Style of successes.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of warnings.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// Style of failures.
pub(super) const BAD: Style = AnsiColor::Red.on_default();
/// Style of plugins.
pub(super) const PLUGIN: Style = AnsiColor::Cyan.on_default();

/// A text in a style.
pub(super) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Whether standard output is a terminal.
pub(super) fn is_live() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(super) fn has_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// The title of what follows.
pub(super) fn heading(text: &str) {
    say(styled(BOLD, text));
}

/// Prints a note.
pub(super) fn note(text: &str) {
    say(styled(DIM, printable(text)));
}

/// Prints a warning.
pub(super) fn warn(text: &str) {
    say(warning(text));
}

/// The same as a text.
pub(super) fn warning(text: &str) -> String {
    format!("{} {}", styled(WARN, "▲"), printable(text))
}

/// A value as JSON on standard output.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    // As it is, also on a terminal: it is for programs.
    answer(serde_json::to_string_pretty(value)? + "\n");
    Ok(())
}

/// An error with everything that led to it, on standard error.
pub(super) fn error(error: &anyhow::Error) {
    say(format_args!(
        "{} {}",
        styled(BAD.bold(), "error:"),
        indented(&error.to_string())
    ));
    for cause in error.chain().skip(1) {
        say(format_args!(
            "  {} {}",
            styled(DIM, "because"),
            indented(&cause.to_string())
        ));
    }
}

/// Indents the lines of a text after the first.
pub(super) fn indented(text: &str) -> String {
    printable(text).trim_end().replace('\n', "\n    ")
}

/// One line of at most `width` characters.
pub(super) fn one_line(text: &str, width: usize) -> String {
    let flat: String = printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if flat.chars().count() <= width {
        return flat;
    }
    let mut cut: String = flat.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Formats microseconds, as milliseconds from a thousand on.
pub(super) fn duration(micros: f64) -> String {
    match micros {
        m if m < 100.0 => format!("{m:.1} µs"),
        m if m < 10_000.0 => format!("{m:.0} µs"),
        m if m < 10_000_000.0 => format!("{:.0} ms", m / 1000.0),
        m => format!("{:.1} s", m / 1_000_000.0),
    }
}

/// ` (estimated)` behind tokens that no provider reported.
pub(super) fn estimated(usage: &Usage) -> &'static str {
    if usage.estimated { " (estimated)" } else { "" }
}

/// Dollars with as many digits as tell something; `None` for nothing.
pub(super) fn dollars(usd: f64) -> Option<String> {
    match usd {
        usd if usd <= 0.0 => None,
        usd if usd < 0.1 => Some(format!("${usd:.4}")),
        usd => Some(format!("${usd:.2}")),
    }
}

/// Formats milliseconds, as seconds from a thousand on.
pub(super) fn millis(ms: u64) -> String {
    match ms {
        0 => "<1 ms".to_owned(),
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{:.1} s", ms as f64 / 1000.0),
    }
}

/// A number of things, by the name of one.
pub(super) fn count(n: u64, what: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{n} {what}{ending}")
}

/// Bytes in the unit that fits.
pub(super) fn bytes(n: u64) -> String {
    match n {
        n if n < 10_000 => format!("{n} B"),
        n if n < 10 << 20 => format!("{} KiB", n >> 10),
        n => format!("{} MiB", n >> 20),
    }
}
