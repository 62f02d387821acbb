//! Comparison of what a case did with what it is expected to do.

use std::collections::BTreeMap;

use serde::Serialize;

use super::file::{Expect, HookExpect};

/// Behaviour in one turn, without times and ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    /// Output of the turn.
    pub output: String,
    /// Reason for its end.
    pub stop: String,
    /// Texts of tool results.
    pub results: Vec<String>,
    /// Calls of the plugin's hooks.
    pub hooks: Vec<HookSeen>,
    /// Accesses, as in `expect.accesses`.
    pub accesses: Vec<String>,
    /// Notices of the plugin.
    pub notices: Vec<String>,
    /// Messages that the plugin added.
    pub injected: Vec<String>,
    /// Lines of its log.
    pub log: Vec<String>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Names of its tools that were called.
    pub tools: Vec<String>,
    /// Files of the workspace that are text.
    pub files: BTreeMap<String, String>,
}

/// One call of a hook.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookSeen {
    /// Name of the point.
    pub point: String,
    /// Outcome.
    pub outcome: String,
    /// Names of what it changed.
    pub changed: Vec<String>,
    /// Reason, or failure.
    pub reason: Option<String>,
}

/// Differences, each as lines for a person.
#[must_use]
pub fn differences(expect: &Expect, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let mut equal = |what: &str, expected: &str, is: &str| {
        if expected != is {
            found.push(format!(
                "{what}\n  expected {expected:?}\n  was      {is:?}"
            ));
        }
    };
    if let Some(output) = &expect.output {
        equal("output", output, &seen.output);
    }
    if let Some(stop) = &expect.stop {
        equal("stop", stop, &seen.stop);
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
        ("accesses", &expect.accesses, &seen.accesses),
    ] {
        if let Some(expected) = expected.as_ref().filter(|expected| *expected != is) {
            found.push(list(what, expected, is));
        }
    }
    if let Some(expected) = &expect.denials {
        let denied = seen
            .accesses
            .iter()
            .filter_map(|line| line.strip_suffix(" denied"));
        let denied: Vec<String> = denied.map(str::to_owned).collect();
        if *expected != denied {
            found.push(list("denials", expected, &denied));
        }
    }
    for (what, expected, is) in [
        ("notices", &expect.notices, &seen.notices),
        ("injected", &expect.injected, &seen.injected),
        ("log", &expect.log, &seen.log),
    ] {
        if let Some(expected) = expected.as_ref().filter(|expected| !holds(expected, is)) {
            found.push(list(what, expected, is));
        }
    }
    for (point, expected) in &expect.hooks {
        let calls: Vec<&HookSeen> = seen
            .hooks
            .iter()
            .filter(|hook| hook.point == *point)
            .collect();
        if !calls.iter().any(|call| is_so(expected, call)) {
            let was: Vec<String> = calls.iter().map(|call| format!("{call:?}")).collect();
            found.push(list(
                &format!("hooks.{point}"),
                &[format!("{expected:?}")],
                &was,
            ));
        }
    }
    found
}

/// Whether the texts are found in the lines, in this order. An empty list is for no lines at all.
fn holds(texts: &[String], lines: &[String]) -> bool {
    if texts.is_empty() {
        return lines.is_empty();
    }
    let mut lines = lines.iter();
    texts
        .iter()
        .all(|text| lines.any(|line| line.contains(text.as_str())))
}

fn is_so(expected: &HookExpect, call: &HookSeen) -> bool {
    match expected {
        HookExpect::Outcome(outcome) => *outcome == call.outcome,
        HookExpect::Whole {
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

fn list(what: &str, expected: &[String], is: &[String]) -> String {
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
