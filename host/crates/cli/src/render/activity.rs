//! Renders the activity of plugins in a turn, one block for each.

use super::{BAD, BOLD, DIM, GOOD, PLUGIN, WARN, count, one_line, printable, say, styled};
use crate::demo::activity::{Kind, PluginActivity, TurnActivity};
use crate::environment;

/// Columns of a line where `COLUMNS` says nothing else.
const WIDTH: usize = 100;

/// Fewest columns: below that nothing can be read.
const LEAST_WIDTH: usize = 60;

/// Columns before the text of a line.
const LABEL: usize = 17;

/// Most lines of one kind in a block.
const MAX_LINES: usize = 2;

/// Shows a block for each of `plugins`, in this order.
pub(in super::super) fn report<'a>(
    acted: &TurnActivity,
    plugins: impl Iterator<Item = &'a str>,
    is_loaded: impl Fn(&str) -> bool,
) {
    say("");
    let title = "Activity of plugins: points where they acted, calls of their hooks, time in them";
    say(styled(BOLD, title));
    let columns = environment::variable("COLUMNS").and_then(|columns| columns.parse().ok());
    let width = columns.unwrap_or(WIDTH).max(LEAST_WIDTH) - LABEL;
    for plugin in plugins {
        let name = styled(PLUGIN, format_args!("{plugin:<25}"));
        match acted.get(plugin) {
            Some(activity) => {
                say(format_args!("{name} {}", numbers(activity)));
                lines(activity, width).iter().for_each(say);
            }
            None if is_loaded(plugin) => {
                say(format_args!("{name} {}", styled(WARN, "never called")));
            }
            None => say(format_args!("{name} {}", styled(DIM, "not loaded"))),
        }
    }
}

/// Points, calls and time. One that only watches has acted wherever it was called.
fn numbers(activity: &PluginActivity) -> String {
    let points = match activity.all(Kind::ActedAt) {
        [] => activity.all(Kind::CalledAt),
        points => points,
    };
    let points = one_line(&points.join(", "), 48);
    let calls = count(u64::from(activity.calls), "call");
    let took = activity.micros / 1000.0;
    format!(
        "{} {}",
        styled(GOOD, format_args!("{points:<48}")),
        styled(DIM, format_args!("{calls:>12} {took:>9.1} ms"))
    )
}

fn lines(activity: &PluginActivity, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let kinds = [
        ("said", Kind::Said),
        ("told the model", Kind::Told),
        ("refused", Kind::Refused),
        ("logged", Kind::Logged),
        ("changed", Kind::Changed),
        ("used", Kind::Reached),
        ("answered calls", Kind::Ran),
        ("measured", Kind::Measured),
        ("left behind", Kind::Left),
    ];
    for (label, kind) in kinds {
        match (kind, activity.all(kind)) {
            (_, []) => {}
            (Kind::Logged, _) if !activity.all(Kind::Said).is_empty() => {}
            (Kind::Changed | Kind::Reached | Kind::Ran | Kind::Measured, all) => {
                lines.push(line(label, &all.join(", "), width));
            }
            (_, all) => some(&mut lines, width, label, all),
        }
    }
    if !activity.is_any() {
        lines.push(line("", "no effect in this turn", width));
    }
    let failed = activity.all(Kind::Failed).iter();
    lines.extend(failed.map(|why| format!("  {}", styled(BAD, printable(why)))));
    lines
}

/// Adds the first texts and the number of the others. A single text may take more lines.
fn some(lines: &mut Vec<String>, width: usize, label: &str, texts: &[String]) {
    if let ([text], true) = (texts, ["said", "logged"].contains(&label)) {
        let (first, rest) = broken(text, width);
        lines.push(line(label, &first, width));
        lines.extend(rest.map(|rest| line("", &rest, width)));
        return;
    }
    for text in texts.iter().take(MAX_LINES) {
        lines.push(line(label, text, width));
    }
    if let Some(n_more @ 1..) = texts.len().checked_sub(MAX_LINES) {
        lines.push(line("", &format!("and {n_more} more"), width));
    }
}

/// A text in two parts at a space, when it is too long for one line.
fn broken(text: &str, width: usize) -> (String, Option<String>) {
    let text = one_line(text, usize::MAX);
    let end = text.char_indices().nth(width);
    let cut = end.and_then(|(end, _)| text.get(..=end)?.rfind(' '));
    match cut.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
        None => (text, None),
    }
}

fn line(label: &str, text: &str, width: usize) -> String {
    let label = styled(DIM, format_args!("{label:<width$}", width = LABEL - 3));
    format!("  {label} {}", one_line(text, width))
}
