//! Compares the behavior of a skill in a case with the expected behavior.

use super::file::SkillExpect;
use super::seen::SkillSeen;
use crate::expect::{compare_lists, describe_pair, holds_lines};
use crate::oversight::DONE;

/// Returns the differences, each as text of one or more lines.
pub(super) fn find_differences(expect: &SkillExpect, seen: &SkillSeen) -> Vec<String> {
    let mut found = Vec::new();
    for (what, expected, is) in [
        ("skills", &expect.skills, &seen.skills),
        ("calls", &expect.calls, &seen.calls),
        ("asked", &expect.asked, &seen.asked),
    ] {
        if let Some(expected) = expected.as_ref().filter(|expected| *expected != is) {
            found.push(compare_lists(what, expected, is));
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
            .filter(|expected| !holds_lines(expected, is))
        {
            found.push(compare_lists(what, expected, is));
        }
    }
    let is_refused = |reason: &&String| match reason.is_empty() {
        true => !seen.refused.is_empty(),
        false => !seen.refused.contains(reason.as_str()),
    };
    if let Some(reason) = expect.refused.as_ref().filter(is_refused) {
        found.push(describe_pair(
            "refused",
            &format!("…{reason}…"),
            &seen.refused,
        ));
    }
    // Fail the case if the skill was refused unexpectedly: otherwise a case of an unusable skill
    // would pass without testing anything.
    if expect.refused.is_none() && !seen.refused.is_empty() {
        found.push(describe_pair("refused", "", &seen.refused));
    }
    if let Some(expected) = expect.output.as_ref().filter(|own| **own != seen.output) {
        found.push(describe_pair("output", expected, &seen.output));
    }
    // If no stop reason is expected, require `done`: a turn that stopped otherwise did not get as
    // far as the case intends. If no turn ran, the skill was refused, which was compared above.
    let has_turn = !seen.stop.is_empty() || seen.refused.is_empty();
    let usual = has_turn.then_some(DONE);
    let stop = expect.stop.as_deref().or(usual);
    if let Some(expected) = stop.filter(|expected| *expected != seen.stop) {
        let why = match expect.output {
            None if !seen.output.is_empty() => format!("\n  output   {:?}", seen.output),
            _ => String::new(),
        };
        found.push(describe_pair("stop", expected, &seen.stop) + &why);
    }
    for (path, expected) in &expect.files {
        let is = seen.files.get(path);
        let is = is.map_or("(no such file)", String::as_str);
        if expected != is {
            found.push(describe_pair(&format!("files.{path}"), expected, is));
        }
    }
    found
}
