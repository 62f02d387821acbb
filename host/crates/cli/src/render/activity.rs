//! Renders the activity of plugins in a turn, one block for each plugin.

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    format_count_with_noun, print_stderr_line, printable_text, style_text, truncate_to_one_line,
};
use crate::demo::activity::{PluginActivity, PluginActivityKind, TurnPluginActivities};
use crate::environment;

/// Width of a line in columns, unless the variable `COLUMNS` sets another.
const DEFAULT_LINE_COLUMNS: usize = 100;

/// Minimum width in columns: a narrower report would be unreadable.
const MIN_LINE_COLUMNS: usize = 60;

/// Number of columns before the text of a line, for indentation and label.
const LABEL_WIDTH_COLUMNS: usize = 17;

/// Maximum number of lines about one kind of activity in the block of a plugin.
const MAX_LINES_PER_ACTIVITY_KIND: usize = 2;

/// Prints a block for each of `plugins`, in this order.
pub(in super::super) fn print_plugin_activity_blocks<'a>(
    acted: &TurnPluginActivities,
    plugins: impl Iterator<Item = &'a str>,
    is_loaded: impl Fn(&str) -> bool,
) {
    print_stderr_line("");
    let title = "Activity of plugins: points where they acted, calls of their hooks, time in them";
    print_stderr_line(style_text(BOLD_STYLE, title));
    let columns =
        environment::environment_variable("COLUMNS").and_then(|columns| columns.parse().ok());
    let width = columns
        .unwrap_or(DEFAULT_LINE_COLUMNS)
        .max(MIN_LINE_COLUMNS)
        - LABEL_WIDTH_COLUMNS;
    for plugin in plugins {
        let name = style_text(PLUGIN_NAME_STYLE, format_args!("{plugin:<25}"));
        match acted.get(plugin) {
            Some(activity) => {
                print_stderr_line(format_args!(
                    "{name} {}",
                    format_plugin_activity_summary(activity)
                ));
                format_plugin_activity_lines(activity, width)
                    .iter()
                    .for_each(print_stderr_line);
            }
            None if is_loaded(plugin) => {
                print_stderr_line(format_args!(
                    "{name} {}",
                    style_text(WARNING_STYLE, "never called")
                ));
            }
            None => print_stderr_line(format_args!(
                "{name} {}",
                style_text(DIM_STYLE, "not loaded")
            )),
        }
    }
}

/// Formats the points at which a plugin acted, its number of calls and their total time. For a
/// plugin that did not act, the points are those at which it was called.
fn format_plugin_activity_summary(activity: &PluginActivity) -> String {
    let points = match activity.activity_texts_of_kind(PluginActivityKind::ActedAt) {
        [] => activity.activity_texts_of_kind(PluginActivityKind::CalledAt),
        points => points,
    };
    let points = truncate_to_one_line(&points.join(", "), 48);
    let calls = format_count_with_noun(u64::from(activity.calls), "call");
    let took = activity.micros / 1000.0;
    format!(
        "{} {}",
        style_text(SUCCESS_STYLE, format_args!("{points:<48}")),
        style_text(DIM_STYLE, format_args!("{calls:>12} {took:>9.1} ms"))
    )
}

fn format_plugin_activity_lines(activity: &PluginActivity, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let kinds = [
        ("said", PluginActivityKind::Said),
        ("told the model", PluginActivityKind::Told),
        ("refused", PluginActivityKind::Refused),
        ("logged", PluginActivityKind::Logged),
        ("changed", PluginActivityKind::Changed),
        ("used", PluginActivityKind::Reached),
        ("answered calls", PluginActivityKind::Ran),
        ("measured", PluginActivityKind::Measured),
        ("left behind", PluginActivityKind::Left),
    ];
    for (label, kind) in kinds {
        match (kind, activity.activity_texts_of_kind(kind)) {
            (_, []) => {}
            (PluginActivityKind::Logged, _)
                if !activity
                    .activity_texts_of_kind(PluginActivityKind::Said)
                    .is_empty() => {}
            (
                PluginActivityKind::Changed
                | PluginActivityKind::Reached
                | PluginActivityKind::Ran
                | PluginActivityKind::Measured,
                all,
            ) => {
                lines.push(format_activity_line(label, &all.join(", "), width));
            }
            (_, all) => push_labeled_texts_up_to_limit(&mut lines, width, label, all),
        }
    }
    if !activity.has_lasting_or_outgoing_effects() {
        lines.push(format_activity_line("", "no effect in this turn", width));
    }
    let failed = activity
        .activity_texts_of_kind(PluginActivityKind::Failed)
        .iter();
    lines.extend(failed.map(|why| format!("  {}", style_text(ERROR_STYLE, printable_text(why)))));
    lines
}

/// Adds the first `MAX_LINES_PER_ACTIVITY_KIND` texts, and the number of further ones. A single
/// text with the label `said` or `logged` may take two lines.
fn push_labeled_texts_up_to_limit(
    lines: &mut Vec<String>,
    width: usize,
    label: &str,
    texts: &[String],
) {
    if let ([text], true) = (texts, ["said", "logged"].contains(&label)) {
        let (first, rest) = split_line_at_space(text, width);
        lines.push(format_activity_line(label, &first, width));
        lines.extend(rest.map(|rest| format_activity_line("", &rest, width)));
        return;
    }
    for text in texts.iter().take(MAX_LINES_PER_ACTIVITY_KIND) {
        lines.push(format_activity_line(label, text, width));
    }
    if let Some(n_more @ 1..) = texts.len().checked_sub(MAX_LINES_PER_ACTIVITY_KIND) {
        lines.push(format_activity_line(
            "",
            &format!("and {n_more} more"),
            width,
        ));
    }
}

/// Splits a text at a space into two parts, if it is too long for one line.
fn split_line_at_space(text: &str, width: usize) -> (String, Option<String>) {
    let text = truncate_to_one_line(text, usize::MAX);
    let end = text.char_indices().nth(width);
    let cut = end.and_then(|(end, _)| text.get(..=end)?.rfind(' '));
    match cut.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
        None => (text, None),
    }
}

fn format_activity_line(label: &str, text: &str, width: usize) -> String {
    let label = style_text(
        DIM_STYLE,
        format_args!("{label:<width$}", width = LABEL_WIDTH_COLUMNS - 3),
    );
    format!("  {label} {}", truncate_to_one_line(text, width))
}
