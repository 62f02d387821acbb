//! Mistakes of a case itself that no expectation compares, and for which it would pass without having looked at anything: replies of the
//! model that were never asked for, a turn that failed, calls of tools that do not exist.

use crate::agent::NO_TOOL;
use crate::event::Event;
use crate::message::ToolResult;

/// Author of refusals of calls that come to no tool.
const HOST: &str = "host";

/// End of a turn that has its answer.
pub(super) const DONE: &str = "done";

/// End of a turn that has no answer.
pub(super) const FAILED: &str = "failed";

/// The result of a call of a tool that does not exist.
pub(super) fn unknown_tool(event: &Event) -> Option<&ToolResult> {
    match event {
        Event::ToolEnd {
            result,
            refused_by: Some(by),
            by: None,
            ..
        } if by == HOST && result.content.text().starts_with(NO_TOOL) => Some(result),
        _ => None,
    }
}

/// Tells of calls of tools that do not exist; `key` is the expectation that would compare them.
pub(super) fn unknown_tools(results: &[String], key: &str) -> Option<String> {
    let lines: String = results.iter().map(|text| format!("\n  {text}")).collect();
    (!results.is_empty()).then(|| {
        format!(
            "the model called a tool that does not exist; if that is meant, compare `{key}`{lines}"
        )
    })
}

/// Tells of replies of the case that were never asked for, by their places from 0. A case that expects the turn to end early, as
/// `stop` says, may have some: it shows that nobody asks for them.
pub(super) fn unused_replies(places: &[usize], stop: Option<&str>) -> Option<String> {
    if stop.is_some_and(|stop| stop != DONE) {
        return None;
    }
    let numbers: Vec<String> = places.iter().map(|n| (n + 1).to_string()).collect();
    let (what, were) = match numbers.len() {
        0 => return None,
        1 => ("reply", "was"),
        _ => ("replies", "were"),
    };
    Some(format!(
        "{what} {} of `given.reply` {were} never asked for: the model was asked less often; take out what is not needed, or set \
         `times = 0`",
        numbers.join(", ")
    ))
}

/// Tells of a turn that failed, by its number from 1.
pub(super) fn failed_turn(number: usize, stop: &str, output: &str) -> String {
    format!("turn {number} ended with `{stop}`: {output}")
}
