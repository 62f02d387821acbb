//! Comparison of the prompts of two turns, and the search for the cache breakpoint that a
//! difference invalidates. It must not know session entries.

use super::{Before, Border, Broken, Change, PartRow, TurnLedger};
use crate::point::payload::Tier;
use crate::session::PromptRow;

/// Returns all current parts with their change, followed by the removed parts.
pub(super) fn compare(before: &[PromptRow], now: &[PromptRow]) -> Vec<PartRow> {
    let find = |rows: &[PromptRow], part: &PromptRow| {
        let is_it = |other: &&PromptRow| (other.tier, &other.key) == (part.tier, &part.key);
        rows.iter().find(is_it).cloned()
    };
    let row = |part: &PromptRow| PartRow {
        part: part.clone(),
        change: match find(before, part) {
            None => Change::Added,
            Some(old) if old == *part => Change::Kept,
            Some(_) => Change::Changed,
        },
    };
    let removed = before
        .iter()
        .filter(|part| find(now, part).is_none())
        .map(|part| PartRow {
            part: part.clone(),
            change: Change::Removed,
        });
    now.iter().map(row).chain(removed).collect()
}

/// Finds the first breakpoint that is not valid any more since the previous turn. Changes within
/// the turn count too: a step with other tools than the previous step reads nothing from the cache.
pub(super) fn broken(before: &Before, turn: &TurnLedger) -> Option<Broken> {
    let mut causes: Vec<(Border, String)> = Vec::new();
    let mut last = before.step.as_ref();
    for step in &turn.steps {
        if let Some(last) = last {
            if last.model != step.model {
                let text = format!("model `{}` in place of `{}`", step.model, last.model);
                causes.push((Border::Tools, text));
            }
            if last.tools != step.tools {
                let what = tools(&last.tool_names, &step.tool_names);
                let text = format!("tools from step {} on: {what}", step.step);
                causes.push((Border::Tools, text));
            }
        }
        last = Some(step);
    }
    for PartRow { part, change } in &turn.parts {
        let what = match change {
            Change::Kept => continue,
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Removed => "removed",
        };
        let text = format!("`{}` {what}", part.key);
        causes.push((Border::behind(part.tier), text));
    }
    for tier in [Tier::Stable, Tier::Context] {
        let text = match (before.lost.contains(&tier), turn.lost.contains(&tier)) {
            (false, true) => "hooks rewrote the text up to it",
            (true, false) => "hooks leave the text up to it alone again",
            _ => continue,
        };
        causes.push((Border::behind(tier), text.to_owned()));
    }
    let border = causes.iter().map(|(border, _)| *border).min()?;
    causes.retain(|(of, _)| *of == border);
    Some(Broken {
        border,
        by: causes.into_iter().map(|(_, text)| text).collect(),
    })
}

/// Describes the difference between the tools of two steps.
fn tools(before: &[String], now: &[String]) -> String {
    let missing = |there: &[String], here: &[String], what: &str| -> Vec<String> {
        let gone = there.iter().filter(|name| !here.contains(name));
        gone.map(|name| format!("`{name}` {what}")).collect()
    };
    let mut differ = missing(now, before, "added");
    differ.extend(missing(before, now, "removed"));
    if differ.is_empty() || before.is_empty() || now.is_empty() {
        "others, or with other words".to_owned()
    } else {
        differ.join(", ")
    }
}
