//! Renders the activity of plugins in a turn, one block for each plugin.

use super::{
    BAD, BOLD, DIM, GOOD, PLUGIN, WARN, format_count, one_line, printable_text, say_line,
    style_text,
};
use crate::demo::activity::{ActivityKind, PluginActivity, TurnActivity};
use crate::environment;

/// Width of a line in columns, unless the variable `COLUMNS` sets another.
const WIDTH: usize = 100;

/// Minimum width in columns: a narrower report would be unreadable.
const LEAST_WIDTH: usize = 60;

/// Number of columns before the text of a line, for indentation and label.
const LABEL: usize = 17;

/// Maximum number of lines about one kind of activity in the block of a plugin.
const MAX_LINES: usize = 2;

/// Prints a block for each of `plugins`, in this order.
pub(in super::super) fn report_activity<'a>(
    acted: &TurnActivity,
    plugins: impl Iterator<Item = &'a str>,
    is_loaded: impl Fn(&str) -> bool,
) {
    say_line("");
    let title = "Activity of plugins: points where they acted, calls of their hooks, time in them";
    say_line(style_text(BOLD, title));
    let columns = environment::variable("COLUMNS").and_then(|columns| columns.parse().ok());
    let width = columns.unwrap_or(WIDTH).max(LEAST_WIDTH) - LABEL;
    for plugin in plugins {
        let name = style_text(PLUGIN, format_args!("{plugin:<25}"));
        match acted.get(plugin) {
            Some(activity) => {
                say_line(format_args!("{name} {}", format_activity_numbers(activity)));
                activity_lines(activity, width).iter().for_each(say_line);
            }
            None if is_loaded(plugin) => {
                say_line(format_args!("{name} {}", style_text(WARN, "never called")));
            }
            None => say_line(format_args!("{name} {}", style_text(DIM, "not loaded"))),
        }
    }
}

/// Formats the points at which a plugin acted, its number of calls and their total time. For a
/// plugin that did not act, the points are those at which it was called.
fn format_activity_numbers(activity: &PluginActivity) -> String {
    let points = match activity.activity_texts(ActivityKind::ActedAt) {
        [] => activity.activity_texts(ActivityKind::CalledAt),
        points => points,
    };
    let points = one_line(&points.join(", "), 48);
    let calls = format_count(u64::from(activity.calls), "call");
    let took = activity.micros / 1000.0;
    format!(
        "{} {}",
        style_text(GOOD, format_args!("{points:<48}")),
        style_text(DIM, format_args!("{calls:>12} {took:>9.1} ms"))
    )
}

fn activity_lines(activity: &PluginActivity, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let kinds = [
        ("said", ActivityKind::Said),
        ("told the model", ActivityKind::Told),
        ("refused", ActivityKind::Refused),
        ("logged", ActivityKind::Logged),
        ("changed", ActivityKind::Changed),
        ("used", ActivityKind::Reached),
        ("answered calls", ActivityKind::Ran),
        ("measured", ActivityKind::Measured),
        ("left behind", ActivityKind::Left),
    ];
    for (label, kind) in kinds {
        match (kind, activity.activity_texts(kind)) {
            (_, []) => {}
            (ActivityKind::Logged, _)
                if !activity.activity_texts(ActivityKind::Said).is_empty() => {}
            (
                ActivityKind::Changed
                | ActivityKind::Reached
                | ActivityKind::Ran
                | ActivityKind::Measured,
                all,
            ) => {
                lines.push(format_activity_line(label, &all.join(", "), width));
            }
            (_, all) => push_first_texts(&mut lines, width, label, all),
        }
    }
    if !activity.has_effects() {
        lines.push(format_activity_line("", "no effect in this turn", width));
    }
    let failed = activity.activity_texts(ActivityKind::Failed).iter();
    lines.extend(failed.map(|why| format!("  {}", style_text(BAD, printable_text(why)))));
    lines
}

/// Adds the first `MAX_LINES` texts, and the number of further ones. A single text with
/// the label `said` or `logged` may take two lines.
fn push_first_texts(lines: &mut Vec<String>, width: usize, label: &str, texts: &[String]) {
    if let ([text], true) = (texts, ["said", "logged"].contains(&label)) {
        let (first, rest) = split_line_at_space(text, width);
        lines.push(format_activity_line(label, &first, width));
        lines.extend(rest.map(|rest| format_activity_line("", &rest, width)));
        return;
    }
    for text in texts.iter().take(MAX_LINES) {
        lines.push(format_activity_line(label, text, width));
    }
    if let Some(n_more @ 1..) = texts.len().checked_sub(MAX_LINES) {
        lines.push(format_activity_line(
            "",
            &format!("and {n_more} more"),
            width,
        ));
    }
}

/// Splits a text at a space into two parts, if it is too long for one line.
fn split_line_at_space(text: &str, width: usize) -> (String, Option<String>) {
    let text = one_line(text, usize::MAX);
    let end = text.char_indices().nth(width);
    let cut = end.and_then(|(end, _)| text.get(..=end)?.rfind(' '));
    match cut.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
        None => (text, None),
    }
}

fn format_activity_line(label: &str, text: &str, width: usize) -> String {
    let label = style_text(DIM, format_args!("{label:<width$}", width = LABEL - 3));
    format!("  {label} {}", one_line(text, width))
}
