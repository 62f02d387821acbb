//! Finds terms in a case that can never match: unknown points, outcomes and stop reasons.
//!
//! Without this check the comparison with such a term would fail with a message that does not name
//! the mistake, or would even pass. Start from [`find_unknown`].

use super::file::{CaseExpect, HookExpect};
use rind_lib::near::{nearest, nearest_key};
use rind_lib::point::catalog::{self, CATALOG};

/// Outcomes of a hook that was called.
const OUTCOMES: [&str; 6] = [
    "pass",
    "changed",
    "asked",
    "blocked",
    "failed",
    "failed-blocking",
];

/// Reasons why a turn ends.
const STOPS: [&str; 5] = ["done", "max-steps", "blocked", "cancelled", "failed"];

/// Describes the first unknown term in the expectations of a step.
pub(super) fn find_unknown(expect: &CaseExpect) -> Option<String> {
    let hooks = expect.hooks.iter();
    let hooks = hooks.flat_map(|(point, hook)| [unknown_point(point), unknown_outcome(hook)]);
    let stop = expect.stop.as_deref();
    let stop = stop.and_then(|stop| unknown_word("`expect.stop`", stop, &STOPS));
    hooks.chain([stop]).flatten().next()
}

fn unknown_point(point: &str) -> Option<String> {
    // The name of a point that a plugin defines begins with the plugin's name and a dot.
    if point.contains('.') || CATALOG.iter().any(|row| row.name == point) {
        return None;
    }
    if let Some(row) = catalog::find(point) {
        return Some(format!(
            "`expect.hooks`: write the point `{point}` as `{}`",
            row.name
        ));
    }
    Some(format!(
        "`expect.hooks`: {}; the README of the contract lists them",
        no_such_point(point)
    ))
}

/// Returns the message that there is no such point, with the most similar name.
pub(super) fn no_such_point(point: &str) -> String {
    let hyphened = point.replace('_', "-");
    let names: Vec<&str> = CATALOG.iter().map(|row| row.name).collect();
    let near = names.iter().find(|name| **name == hyphened).copied();
    let near = near.or_else(|| nearest(&hyphened, names));
    let hint = near.map(|near| format!(", did you mean `{near}`?"));
    format!("there is no point `{point}`{}", hint.unwrap_or_default())
}

fn unknown_outcome(hook: &HookExpect) -> Option<String> {
    let (HookExpect::Outcome(outcome) | HookExpect::Whole { outcome, .. }) = hook;
    unknown_word("`expect.hooks`: the outcome", outcome, &OUTCOMES)
}

fn unknown_word(what: &str, word: &str, known: &[&'static str]) -> Option<String> {
    if known.contains(&word) {
        return None;
    }
    let near = nearest_key(word, known.iter().copied());
    let hint = near.map_or_else(
        || format!("it is one of {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    Some(format!("{what} is never `{word}`; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(toml: &str) -> String {
        find_unknown(&toml::from_str(toml).unwrap()).unwrap_or_default()
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
                "is never `block`; did you mean `blocked`?",
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
                "`expect.stop` is never `canceled`; did you mean `cancelled`?",
            ),
        ] {
            let said = said(toml);
            assert!(said.contains(expected), "{toml}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{toml}: {said}");
        }
    }
}
