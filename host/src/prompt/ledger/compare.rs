//! Compares the system prompts of two turns, and finds the cache breakpoint that a difference
//! invalidates. The module must not depend on the format of session entries.

use super::{
    CacheBreakpoint, InvalidBreakpoint, PreviousTurnPromptState, PromptPartChange,
    PromptPartComparison, TurnPromptReport,
};
use crate::point::payload::Tier;
use crate::session::PromptRow;

/// Returns all current parts, each with its change since the previous turn, followed by the removed
/// parts.
pub(super) fn compare_prompt_parts(
    before: &[PromptRow],
    now: &[PromptRow],
) -> Vec<PromptPartComparison> {
    let find = |rows: &[PromptRow], part: &PromptRow| {
        let is_it = |other: &&PromptRow| (other.tier, &other.key) == (part.tier, &part.key);
        rows.iter().find(is_it).cloned()
    };
    let row = |part: &PromptRow| PromptPartComparison {
        part: part.clone(),
        change: match find(before, part) {
            None => PromptPartChange::Added,
            Some(old) if old == *part => PromptPartChange::Kept,
            Some(_) => PromptPartChange::Changed,
        },
    };
    let removed = before
        .iter()
        .filter(|part| find(now, part).is_none())
        .map(|part| PromptPartComparison {
            part: part.clone(),
            change: PromptPartChange::Removed,
        });
    now.iter().map(row).chain(removed).collect()
}

/// Finds the first cache breakpoint that is no longer valid since the previous turn. Changes
/// between the steps of the turn are included: if a step has other tools than the previous step,
/// its request reads nothing from the cache.
pub(super) fn find_first_invalid_breakpoint(
    before: &PreviousTurnPromptState,
    turn: &TurnPromptReport,
) -> Option<InvalidBreakpoint> {
    let mut causes: Vec<(CacheBreakpoint, String)> = Vec::new();
    let mut last = before.step.as_ref();
    for step in &turn.steps {
        if let Some(last) = last {
            if last.model != step.model {
                let text = format!("model `{}` in place of `{}`", step.model, last.model);
                causes.push((CacheBreakpoint::Tools, text));
            }
            if last.tools != step.tools {
                let what = describe_tool_changes(&last.tool_names, &step.tool_names);
                let text = format!("tools from step {} on: {what}", step.step);
                causes.push((CacheBreakpoint::Tools, text));
            }
        }
        last = Some(step);
    }
    for PromptPartComparison { part, change } in &turn.parts {
        let what = match change {
            PromptPartChange::Kept => continue,
            PromptPartChange::Added => "added",
            PromptPartChange::Changed => "changed",
            PromptPartChange::Removed => "removed",
        };
        let text = format!("`{}` {what}", part.key);
        causes.push((CacheBreakpoint::after_prompt_tier(part.tier), text));
    }
    for tier in [Tier::Stable, Tier::Context] {
        let text = match (before.lost.contains(&tier), turn.lost.contains(&tier)) {
            (false, true) => "hooks rewrote the text up to it",
            (true, false) => "hooks leave the text up to it alone again",
            _ => continue,
        };
        causes.push((CacheBreakpoint::after_prompt_tier(tier), text.to_owned()));
    }
    let border = causes.iter().map(|(border, _)| *border).min()?;
    causes.retain(|(of, _)| *of == border);
    Some(InvalidBreakpoint {
        border,
        by: causes.into_iter().map(|(_, text)| text).collect(),
    })
}

/// Describes the difference between the tools of two steps.
fn describe_tool_changes(before: &[String], now: &[String]) -> String {
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
