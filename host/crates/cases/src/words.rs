//! Finds unknown points, outcomes and stop reasons in the expectations of a case, which could never
//! match.
//!
//! Without this check, the comparison would fail with a message that does not name the mistake, or
//! would even pass. Start from [`find_unknown_expectation_term`].

use super::file::{CaseExpectation, HookExpectation};
use rind_lib::near::{find_nearest_name, find_nearest_valid_key};
use rind_lib::point::catalog::{self, CATALOG};

/// Possible outcomes of a hook call, as case files name them.
const HOOK_OUTCOME_NAMES: [&str; 6] = [
    "pass",
    "changed",
    "asked",
    "blocked",
    "failed",
    "failed-blocking",
];

/// Possible stop reasons of a turn, as case files name them.
const TURN_STOP_REASONS: [&str; 5] = ["done", "max-steps", "blocked", "cancelled", "failed"];

/// Describes the first value in a step's expectations that is no known point, hook outcome or stop
/// reason; `None` if all are known.
pub(super) fn find_unknown_expectation_term(expect: &CaseExpectation) -> Option<String> {
    let hooks = expect.hooks.iter();
    let hooks = hooks.flat_map(|(point, hook)| {
        [
            find_unknown_hook_point(point),
            find_unknown_hook_outcome(hook),
        ]
    });
    let stop = expect.stop.as_deref();
    let stop =
        stop.and_then(|stop| unknown_term_message("`expect.stop`", stop, &TURN_STOP_REASONS));
    hooks.chain([stop]).flatten().next()
}

fn find_unknown_hook_point(point: &str) -> Option<String> {
    // The name of a point that a plugin defines begins with the plugin's name and a dot.
    if point.contains('.') || CATALOG.iter().any(|row| row.name == point) {
        return None;
    }
    if let Some(row) = catalog::find_builtin_extension_point(point) {
        return Some(format!(
            "`expect.hooks`: write the point `{point}` as `{}`",
            row.name
        ));
    }
    Some(format!(
        "`expect.hooks`: {}; the README of the plugin contract lists all points",
        unknown_extension_point_message(point)
    ))
}

/// Returns the message that the contract has no such point, with the most similar name.
pub(super) fn unknown_extension_point_message(point: &str) -> String {
    let hyphened = point.replace('_', "-");
    let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
    let near = names.iter().find(|name| **name == hyphened).copied();
    let near = near.or_else(|| find_nearest_name(&hyphened, names));
    let hint = near.map(|near| format!(", did you mean `{near}`?"));
    format!("there is no point `{point}`{}", hint.unwrap_or_default())
}

fn find_unknown_hook_outcome(hook: &HookExpectation) -> Option<String> {
    let (HookExpectation::Outcome(outcome) | HookExpectation::Whole { outcome, .. }) = hook;
    unknown_term_message("`expect.hooks`: the outcome", outcome, &HOOK_OUTCOME_NAMES)
}

fn unknown_term_message(what: &str, word: &str, known: &[&'static str]) -> Option<String> {
    if known.contains(&word) {
        return None;
    }
    let near = find_nearest_valid_key(word, known.iter().copied());
    let hint = near.map_or_else(
        || format!("it is one of {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    Some(format!("{what} cannot be `{word}`; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(toml: &str) -> String {
        find_unknown_expectation_term(&toml::from_str(toml).unwrap()).unwrap_or_default()
    }

    #[test]
    fn words_that_do_not_exist_are_found_with_the_nearest() {
        for (toml, expected) in [
            ("hooks = { pre-tool = \"blocked\" }\nstop = \"done\"", ""),
            ("hooks = { \"owner.point\" = \"pass\" }", ""),
            (
                "hooks = { pre_tool = \"blocked\" }",
                "`expect.hooks`: there is no point `pre_tool`, did you mean `pre-tool`?",
            ),
            (
                "hooks = { pre-tol = \"blocked\" }",
                "did you mean `pre-tool`?",
            ),
            (
                "hooks = { nowhere = \"blocked\" }",
                "there is no point `nowhere`; the README",
            ),
            (
                "hooks = { pre-tool = \"block\" }",
                "cannot be `block`; did you mean `blocked`?",
            ),
            (
                "hooks = { pre-tool = { outcome = \"chnged\" } }",
                "did you mean `changed`?",
            ),
            (
                "hooks = { pre-tool = \"allowed\" }",
                "it is one of pass, changed",
            ),
            (
                "stop = \"canceled\"",
                "`expect.stop` cannot be `canceled`; did you mean `cancelled`?",
            ),
        ] {
            let said = said(toml);
            assert!(said.contains(expected), "{toml}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{toml}: {said}");
        }
    }
}
