//! Writes everything that a user sees: answers to standard output, the rest to standard error.
//!
//! Color and live progress appear only on a terminal; `NO_COLOR` turns color off (through
//! `anstream`). Control characters in text of models, tools and plugins are escaped, so that they
//! do not reach a terminal. The program's own text wraps at blanks to the width of the terminal.
//! After a write error the program exits with a failure; after a closed pipe it does not.

pub(super) mod activity;
pub(super) mod annotation;
pub(super) mod call;
pub(super) mod case;
pub(super) mod changes;
pub(super) mod check;
pub(super) mod command_end;
pub(super) mod config;
pub(super) mod derive;
pub(super) mod diff;
pub(super) mod doctor;
pub(super) mod grants;
pub(super) mod guard;
pub(super) mod highlight;
pub(super) mod hold;
pub(super) mod import;
pub(super) mod install;
mod line;
pub(super) mod lines;
pub(super) mod look;
pub(super) mod markdown;
pub(super) mod mcp;
pub(super) mod migrate;
pub(super) mod models;
mod output;
pub(super) mod plain;
pub(super) mod plugins;
pub(super) mod points;
mod row;
pub(super) mod sarif;
pub(super) mod scripts;
pub(super) mod serve;
pub(super) mod session;
pub(super) mod skill_install;
pub(super) mod skills;
pub(super) mod steps;
pub(super) mod stream;
mod tail;
pub(super) mod tools;
pub(super) mod trace;
pub(super) mod turn;
pub(super) mod waiting;
pub(super) mod wrap;

use std::fmt::Display;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
pub(super) use rind_lib::text::format_count_with_noun;

pub(super) use hold::write_or_buffer_output;
pub(super) use output::{
    first_output_write_error, is_output_reader_gone, print_json_to_stdout, print_stderr_line,
    print_stdout_line, print_to_stdout,
};
pub(super) use rind_lib::clock::format_duration_ms;
use rind_lib::message::Usage;
use rind_lib::point::payload::TurnSummary;
pub(super) use rind_lib::text::{escape_prose_for_display, printable_text};

pub(super) const DIM_STYLE: Style = Style::new().dimmed();
pub(super) const BOLD_STYLE: Style = Style::new().bold();
pub(super) const SUCCESS_STYLE: Style = AnsiColor::Green.on_default();
pub(super) const WARNING_STYLE: Style = AnsiColor::Yellow.on_default();
pub(super) const ERROR_STYLE: Style = AnsiColor::Red.on_default();
pub(super) const PLUGIN_NAME_STYLE: Style = AnsiColor::Cyan.on_default();

pub(super) fn style_text(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

pub(super) fn is_stdout_terminal() -> bool {
    std::io::stdout().is_terminal()
}

pub(super) fn is_stderr_terminal() -> bool {
    std::io::stderr().is_terminal()
}

pub(super) fn print_note(text: &str) {
    print_stderr_line(style_text(DIM_STYLE, printable_text(text)));
}

pub(super) fn print_warning(text: &str) {
    print_stderr_line(format_warning_line(text));
}

pub(super) fn format_warning_line(text: &str) -> String {
    format!(
        "{} {}",
        style_text(WARNING_STYLE, "▲"),
        printable_text(text)
    )
}

/// Returns a text without its style escape sequences.
pub(super) fn strip_styles(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Prints a value to standard output as JSON.
pub(super) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print_json_to_stdout(&(serde_json::to_string_pretty(value)? + "\n"));
    Ok(())
}

/// Prints an error with its chain of causes to standard error.
pub(super) fn print_error(error: &anyhow::Error) {
    let mut head = style_text(ERROR_STYLE.bold(), "error:");
    let mut before = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // Some errors end with the text of their cause; do not print that text twice.
        if before.ends_with(&text) {
            continue;
        }
        print_stderr_line(format_args!(
            "{head} {}",
            escape_and_indent_continuation_lines(&text)
        ));
        before = text;
        head = format!("  {}", style_text(DIM_STYLE, "because"));
    }
}

pub(super) fn escape_and_indent_continuation_lines(text: &str) -> String {
    printable_text(text).trim_end().replace('\n', "\n    ")
}

pub(super) fn truncate_to_one_line(text: &str, width: usize) -> String {
    truncate_text(to_escaped_single_line(text), width)
}

/// Returns the text as one line, with control characters escaped.
fn to_escaped_single_line(text: &str) -> String {
    let text = printable_text(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text if it has at most `width` characters; otherwise its beginning with `…` at the
/// end.
fn truncate_text(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Formats a duration given in microseconds: from 10 000 µs on in milliseconds, from 10 s on in
/// seconds.
pub(super) fn format_duration_micros(micros: f64) -> String {
    match micros {
        m if m < 100.0 => format!("{m:.1} µs"),
        m if m < 10_000.0 => format!("{m:.0} µs"),
        m if m < 10_000_000.0 => format!("{:.0} ms", m / 1000.0),
        m => format!("{:.1} s", m / 1_000_000.0),
    }
}

/// Formats elapsed seconds for display in seconds, minutes and hours.
pub(super) fn format_elapsed_seconds(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {:02} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes:02} min"),
    }
}

/// Returns ` (estimated)` if no provider reported the tokens, otherwise an empty string.
pub(super) fn estimated_usage_mark(usage: &Usage) -> &'static str {
    if usage.estimated { " (estimated)" } else { "" }
}

/// Formats the numbers of input and output tokens of a usage.
fn format_token_usage(usage: &Usage) -> String {
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    format!(
        "{input} tokens in, {output} out{}",
        estimated_usage_mark(usage)
    )
}

/// Formats the cost of a turn; mentions tokens without a known price.
fn format_turn_cost(turn: &TurnSummary) -> Option<String> {
    match (turn.unpriced_tokens, format_dollars(turn.cost_usd)) {
        (0, usd) => usd,
        (_, Some(usd)) => Some(format!("at least {usd}")),
        (_, None) => Some("cost unknown, the model has no price in [prices]".to_owned()),
    }
}

/// Formats US dollars, with four decimals below 10 cents and two above; `None` for zero. An amount
/// that four decimals would show as zero is shown as an upper bound.
pub(super) fn format_dollars(usd: f64) -> Option<String> {
    match usd {
        usd if usd <= 0.0 => None,
        usd if usd < 0.000_05 => Some("<$0.0001".to_owned()),
        usd if usd < 0.1 => Some(format!("${usd:.4}")),
        usd => Some(format!("${usd:.2}")),
    }
}

/// Formats a number of bytes in a suitable unit.
pub(super) fn format_bytes(n: u64) -> String {
    match n {
        n if n < 10_000 => format!("{n} B"),
        n if n < 10 << 20 => format!("{} KiB", n >> 10),
        n => format!("{} MiB", n >> 20),
    }
}
