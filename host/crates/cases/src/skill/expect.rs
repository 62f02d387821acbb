//! Compares the behavior of a skill in a case with the expected behavior.

use super::file::SkillExpectation;
use super::seen::ObservedSkill;
use crate::expect::{contains_lines_in_order, describe_list_difference, describe_text_difference};
use crate::oversight::DONE_STOP_REASON;

/// Returns the differences, each as text of one or more lines.
pub(super) fn find_skill_case_differences(
    expect: &SkillExpectation,
    seen: &ObservedSkill,
) -> Vec<String> {
    let mut found = Vec::new();
    for (what, expected, is) in [
        ("skills", &expect.skills, &seen.skills),
        ("calls", &expect.calls, &seen.calls),
        ("asked", &expect.asked, &seen.asked),
    ] {
        if let Some(expected) = expected.as_ref().filter(|expected| *expected != is) {
            found.push(describe_list_difference(what, expected, is));
        }
    }
    let text: Vec<String> = seen.text.lines().map(str::to_owned).collect();
    for (what, expected, is) in [
        ("text", &expect.text, &text),
        ("results", &expect.results, &seen.results),
        ("notices", &expect.notices, &seen.notices),
    ] {
        if let Some(expected) = expected
            .as_ref()
            .filter(|expected| !contains_lines_in_order(expected, is))
        {
            found.push(describe_list_difference(what, expected, is));
        }
    }
    let is_refused = |reason: &&String| match reason.is_empty() {
        true => !seen.refused.is_empty(),
        false => !seen.refused.contains(reason.as_str()),
    };
    if let Some(reason) = expect.refused.as_ref().filter(is_refused) {
        found.push(describe_text_difference(
            "refused",
            &format!("…{reason}…"),
            &seen.refused,
        ));
    }
    // Fail the case if the skill was refused unexpectedly. Otherwise, a case of an unusable skill
    // would pass without testing anything.
    if expect.refused.is_none() && !seen.refused.is_empty() {
        found.push(describe_text_difference("refused", "", &seen.refused));
    }
    if let Some(expected) = expect.output.as_ref().filter(|own| **own != seen.output) {
        found.push(describe_text_difference("output", expected, &seen.output));
    }
    // If the case expects no stop reason, require `done`, because otherwise the turn did not run to
    // its end. If no turn ran, the skill was refused, which was compared above.
    let has_turn = !seen.stop.is_empty() || seen.refused.is_empty();
    let usual = has_turn.then_some(DONE_STOP_REASON);
    let stop = expect.stop.as_deref().or(usual);
    if let Some(expected) = stop.filter(|expected| *expected != seen.stop) {
        let why = match expect.output {
            None if !seen.output.is_empty() => format!("\n  output   {:?}", seen.output),
            _ => String::new(),
        };
        found.push(describe_text_difference("stop", expected, &seen.stop) + &why);
    }
    for (path, expected) in &expect.files {
        let is = seen.files.get(path);
        let is = is.map_or("(no such file)", String::as_str);
        if expected != is {
            found.push(describe_text_difference(
                &format!("files.{path}"),
                expected,
                is,
            ));
        }
    }
    found
}
