//! Compares the observed behavior of a plugin in a test case with the expected behavior.
//!
//! An expectation that is absent is not compared. The result is a list of differences, described in
//! text; the case passes if the list is empty.

use serde_json::Value;

use super::file::{CaseExpectation, ExpectedNextLoopRun, HookExpectation};
use super::seen::{ObservedHook, ObservedTurn};

/// Returns the differences, each described in one or more lines.
#[must_use]
pub fn find_plugin_case_differences(expect: &CaseExpectation, seen: &ObservedTurn) -> Vec<String> {
    let mut found = Vec::new();
    let mut equal = |what: &str, expected: &str, is: &str| {
        if expected != is {
            found.push(describe_text_difference(what, expected, is));
        }
    };
    if let Some(output) = &expect.output {
        equal("output", output, &seen.output);
    }
    if let Some(prompt) = &expect.prompt {
        equal("prompt", prompt, &seen.prompt);
    }
    if let Some(status) = &expect.status {
        equal("status", status, &seen.status);
    }
    if let Some(stop) = &expect.stop {
        equal("stop", stop, &seen.stop);
    }
    if let Some(done) = expect.done
        && done != seen.done
    {
        equal("done", &done.to_string(), &describe_loop_run_end(seen));
    }
    if let Some(again) = &expect.again
        && !matches_expected_next_loop_run(again, seen)
    {
        equal(
            "again",
            &describe_expected_next_loop_run(again),
            &describe_loop_run_end(seen),
        );
    }
    for (path, text) in &expect.files {
        let is = seen
            .files
            .get(path)
            .map_or("(no such file)", String::as_str);
        equal(&format!("files.{path}"), text, is);
    }
    for (name, value) in &expect.metrics {
        let is = seen
            .metrics
            .get(name)
            .map_or("(none)".to_owned(), f64::to_string);
        equal(&format!("metrics.{name}"), &value.to_string(), &is);
    }
    for (what, expected, is) in [
        ("results", &expect.results, &seen.results),
        ("asked", &expect.asked, &seen.asked),
        ("accesses", &expect.accesses, &seen.accesses),
    ] {
        if let Some(expected) = expected.as_ref().filter(|expected| *expected != is) {
            found.push(describe_list_difference(what, expected, is));
        }
    }
    if let Some(expected) = &expect.denials {
        let denied = seen.denied_accesses();
        if *expected != denied {
            found.push(describe_list_difference("denials", expected, &denied));
        }
    }
    for (what, expected, is) in [
        ("notices", &expect.notices, &seen.notices),
        ("injected", &expect.injected, &seen.injected),
        ("system", &expect.system, &seen.system),
        ("notes", &expect.notes, &seen.notes),
        ("log", &expect.log, &seen.log),
    ] {
        if let Some(expected) = expected
            .as_ref()
            .filter(|expected| !contains_lines_in_order(expected, is))
        {
            found.push(describe_list_difference(what, expected, is));
        }
    }
    for (point, expected) in &expect.hooks {
        let calls: Vec<&ObservedHook> = seen
            .hooks
            .iter()
            .filter(|hook| hook.point == *point)
            .collect();
        if !calls
            .iter()
            .any(|call| matches_expected_hook(expected, call))
        {
            let was: Vec<String> = calls.iter().map(|call| describe_hook_call(call)).collect();
            found.push(describe_list_difference(
                &format!("hooks.{point}"),
                &[describe_expected_hook(expected)],
                &was,
            ));
        }
    }
    if let Some(expected) = &expect.payload {
        append_value_differences("payload", expected, Some(&seen.payload), &mut found);
    }
    found
}

/// Appends the differences between the actual value `is` and the expected one to `found`. `place`
/// is the path of the value. In a table, only the expected fields are compared; in a list, all
/// items.
fn append_value_differences(
    place: &str,
    expected: &Value,
    is: Option<&Value>,
    found: &mut Vec<String>,
) {
    let is_same = match (expected, is) {
        (Value::Object(fields), Some(Value::Object(is))) => {
            for (name, expected) in fields {
                append_value_differences(&format!("{place}.{name}"), expected, is.get(name), found);
            }
            true
        }
        (Value::Array(expected), Some(Value::Array(is))) if expected.len() == is.len() => {
            for (n, (expected, is)) in expected.iter().zip(is).enumerate() {
                append_value_differences(&format!("{place}[{n}]"), expected, Some(is), found);
            }
            true
        }
        (Value::Number(expected), Some(Value::Number(is))) => expected.as_f64() == is.as_f64(),
        (expected, is) => Some(expected) == is,
    };
    if !is_same {
        let is = is.map_or("(nothing)".to_owned(), Value::to_string);
        found.push(format!("{place}\n  expected {expected}\n  was      {is}"));
    }
}

/// Whether the plugin's loop requested the next run that the case expects.
fn matches_expected_next_loop_run(expect: &ExpectedNextLoopRun, seen: &ObservedTurn) -> bool {
    seen.again.as_ref().is_some_and(|again| {
        let text = expect.reason.as_deref().unwrap_or_default();
        let is_at = |after_ms| after_ms == again.after_ms;
        expect.after_ms.is_none_or(is_at) && again.reason.contains(text)
    })
}

/// Describes the next run of a loop that the case expects.
fn describe_expected_next_loop_run(expect: &ExpectedNextLoopRun) -> String {
    let after = expect.after_ms.map(|ms| format!(" after {ms} ms"));
    let reason = expect.reason.as_ref().map(|text| format!(": …{text}…"));
    let parts = [after, reason].into_iter().flatten();
    parts.fold("again".to_owned(), |all, part| all + &part)
}

/// Describes how a run of a loop ended: with a request for another run, as done, or as failed.
fn describe_loop_run_end(seen: &ObservedTurn) -> String {
    match &seen.again {
        Some(again) => format!("again after {} ms: {}", again.after_ms, again.reason),
        None if seen.done => "done".to_owned(),
        None => format!("failed: {}", seen.output),
    }
}

/// Describes a call of a hook: outcome, changed parts and reason.
fn describe_hook_call(call: &ObservedHook) -> String {
    let mut text = call.outcome.clone();
    if !call.changed.is_empty() {
        text.push_str(&format!(" {}", call.changed.join(", ")));
    }
    if let Some(reason) = &call.reason {
        text.push_str(&format!(": {reason}"));
    }
    text
}

fn describe_expected_hook(expected: &HookExpectation) -> String {
    match expected {
        HookExpectation::Outcome(outcome) => outcome.clone(),
        HookExpectation::Whole {
            outcome,
            reason,
            changed,
        } => {
            let changed = changed.iter().map(|names| format!(" {}", names.join(", ")));
            let reason = reason.iter().map(|text| format!(": …{text}…"));
            let rest: String = changed.chain(reason).collect();
            format!("{outcome}{rest}")
        }
    }
}

/// Describes, in several lines, that a text differs from the expected one.
pub(super) fn describe_text_difference(what: &str, expected: &str, is: &str) -> String {
    format!("{what}\n  expected {expected:?}\n  was      {is:?}")
}

/// Whether each text occurs in a line of its own, in the order of the texts. An empty list of texts
/// requires that there are no lines.
pub(super) fn contains_lines_in_order(texts: &[String], lines: &[String]) -> bool {
    if texts.is_empty() {
        return lines.is_empty();
    }
    let mut lines = lines.iter();
    texts
        .iter()
        .all(|text| lines.any(|line| line.contains(text.as_str())))
}

fn matches_expected_hook(expected: &HookExpectation, call: &ObservedHook) -> bool {
    match expected {
        HookExpectation::Outcome(outcome) => *outcome == call.outcome,
        HookExpectation::Whole {
            outcome,
            reason,
            changed,
        } => {
            let said = call.reason.as_deref().unwrap_or_default();
            *outcome == call.outcome
                && reason
                    .as_ref()
                    .is_none_or(|text| said.contains(text.as_str()))
                && changed.as_ref().is_none_or(|names| *names == call.changed)
        }
    }
}

pub(super) fn describe_list_difference(what: &str, expected: &[String], is: &[String]) -> String {
    let lines = |sign: &str, all: &[String]| -> String {
        all.iter()
            .map(|line| format!("\n  {sign} {line}"))
            .collect()
    };
    let was = if is.is_empty() {
        "\n  + (none)".to_owned()
    } else {
        lines("+", is)
    };
    format!("{what} (- expected, + was){}{was}", lines("-", expected))
}
