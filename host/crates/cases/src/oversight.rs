//! Finds mistakes in a test case that would not make it fail, so that the case would pass without
//! testing anything: scripted replies that were never used, a failed turn, and calls of tools that
//! do not exist.

use rind_lib::agent::UNKNOWN_TOOL_REFUSAL_PREFIX;
use rind_lib::event::Event;
use rind_lib::message::ToolResult;

/// Value of `refused_by` if the host itself refused a call, for example of an unknown tool.
const REFUSED_BY_HOST_VALUE: &str = "host";

/// Stop reason of a turn that ended with an answer.
pub(super) const DONE_STOP_REASON: &str = "done";

/// Stop reason of a turn that failed.
pub(super) const FAILED_STOP_REASON: &str = "failed";

/// Returns the result of a call that the model made with a name that no tool has; `None` for any
/// other event.
pub(super) fn find_result_of_unknown_tool(event: &Event) -> Option<&ToolResult> {
    match event {
        Event::ToolEnd {
            result,
            refused_by: Some(by),
            by: None,
            ..
        } if by == REFUSED_BY_HOST_VALUE
            && result
                .content
                .text()
                .starts_with(UNKNOWN_TOOL_REFUSAL_PREFIX) =>
        {
            Some(result)
        }
        _ => None,
    }
}

/// Describes the model's calls of tools that do not exist; `results` are the error results of these
/// calls. Returns `None` if there are none. `key` is the field of the case's `expect` section to
/// which the author adds these results if the calls are intended.
pub(super) fn describe_unknown_tool_calls(results: &[String], key: &str) -> Option<String> {
    let lines: String = results.iter().map(|text| format!("\n  {text}")).collect();
    (!results.is_empty()).then(|| {
        format!(
            "the model called a tool that does not exist; if the case intends this, compare the result with `{key}`{lines}"
        )
    })
}

/// Describes scripted replies that were never used; `None` if there are none. `places` are their
/// indexes in `given.reply`. If the case expects another stop reason than `done`, unused replies
/// are allowed, because they prove that the model is not asked again.
pub(super) fn describe_unused_replies(places: &[usize], stop: Option<&str>) -> Option<String> {
    if stop.is_some_and(|stop| stop != DONE_STOP_REASON) {
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

/// Describes a failed turn. `number` is the number of the turn, counted from 1.
pub(super) fn describe_failed_turn(number: usize, stop: &str, output: &str) -> String {
    format!("turn {number} ended with `{stop}`: {output}")
}
