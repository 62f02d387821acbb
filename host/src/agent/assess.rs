//! Assesses the input of a turn before the turn starts: the built-in assessment, which is cheap and
//! local.
//!
//! The assessment consists of a table of cue words and a few sums, so that it takes no time and can
//! give its reasons. It does not understand the meaning of the input; hooks of `post-assess` can
//! correct it.

use crate::point::payload::{Assessment, Decision};

/// Confidence below which a turn does not start immediately but first asks the user.
pub(super) const ASK_USER_CONFIDENCE_THRESHOLD: f64 = 0.35;

/// Initial confidence that a request can be carried out immediately. Each sign of harm or vagueness
/// subtracts from it.
const INITIAL_PROCEED_CONFIDENCE: f64 = 0.8;

/// Amount by which each sign of possible harm lowers the confidence of the assessment. With two
/// signs, the turn first asks the user.
const IRREVERSIBLE_WORD_CONFIDENCE_PENALTY: f64 = 0.25;

/// Amount that a very short request without a concrete noun subtracts from the confidence.
const VAGUE_REQUEST_CONFIDENCE_PENALTY: f64 = 0.5;

/// Minimum number of list items for a request to count as having several parts.
const MIN_LIST_ITEMS_SUGGESTING_PLAN: usize = 3;

/// Words in an input that suggest an irreversible action, such as a deletion.
const IRREVERSIBLE_ACTION_WORDS: &[&str] = &[
    "delete",
    "remove all",
    "drop table",
    "drop the",
    "wipe",
    "erase",
    "overwrite",
    "rm -rf",
    "force push",
    "--force",
    "reset --hard",
    "production",
    "deploy",
    "publish",
    "send an email",
    "send the email",
    "pay",
    "purchase",
    "transfer",
    "revoke",
    "irreversible",
    "everything",
];

/// Words that refer to an object without naming it.
const VAGUE_REFERENCE_WORDS: &[&str] = &[
    "it",
    "this",
    "that",
    "them",
    "stuff",
    "things",
    "thing",
    "better",
    "nice",
    "something",
];

/// Words that suggest a decision for the turn, with the weight of each word.
const DECISION_CUE_WORDS_AND_WEIGHTS: &[(Decision, f64, &[&str])] = &[
    (
        Decision::Plan,
        0.4,
        &[
            "refactor",
            "migrate",
            "migration",
            "redesign",
            "rewrite",
            "implement",
            "step by step",
            "architecture",
            "roadmap",
            "plan",
        ],
    ),
    (
        Decision::Delegate,
        0.4,
        &[
            "research",
            "investigate",
            "survey",
            "find out",
            "look into",
            "audit",
            "compare all",
            "whole codebase",
            "entire codebase",
            "every file",
        ],
    ),
    (
        Decision::Parallelize,
        0.5,
        &[
            "in parallel",
            "side by side",
            "at the same time",
            "for each",
            "each of",
            "all of the following",
            "independently",
            "simultaneously",
        ],
    ),
];

pub(super) fn assess_how_to_handle_input(input: &str) -> Assessment {
    let words: Vec<String> = input
        .split_whitespace()
        .map(|word| {
            word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '-')
                .to_lowercase()
        })
        .filter(|word| !word.is_empty())
        .collect();
    let text = format!(" {} ", words.join(" "));
    let has = |phrase: &&&str| text.contains(&format!(" {phrase} "));
    let mut reasons = Vec::new();

    let mut confidence = INITIAL_PROCEED_CONFIDENCE;
    for word in IRREVERSIBLE_ACTION_WORDS.iter().filter(has) {
        confidence -= IRREVERSIBLE_WORD_CONFIDENCE_PENALTY;
        reasons.push(format!("may do harm: {word}"));
    }
    let is_pointing = words
        .iter()
        .any(|word| VAGUE_REFERENCE_WORDS.contains(&word.as_str()));
    if words.len() <= 4 && is_pointing && !input.trim_end().ends_with('?') {
        confidence -= VAGUE_REQUEST_CONFIDENCE_PENALTY;
        reasons.push("names no thing to work on".to_owned());
    }
    let is_harmful = confidence < INITIAL_PROCEED_CONFIDENCE;

    let n_items = input.lines().filter(|line| is_list_item(line)).count();
    let mut best = (Decision::Direct, 0.0);
    for (decision, weight, cues) in DECISION_CUE_WORDS_AND_WEIGHTS {
        let found: Vec<&&str> = cues.iter().filter(has).collect();
        let mut score = weight * found.len() as f64;
        reasons.extend(found.iter().map(|cue| format!("says {cue}")));
        if *decision == Decision::Plan && n_items >= MIN_LIST_ITEMS_SUGGESTING_PLAN {
            score += weight;
            reasons.push(format!("a list of {n_items} items"));
        }
        if score > best.1 {
            best = (*decision, score);
        }
    }
    let decision = if is_harmful { Decision::Direct } else { best.0 };
    if reasons.is_empty() {
        reasons.push("a plain request".to_owned());
    }
    if decision != Decision::Direct {
        confidence = (0.4 + best.1 / 2.0).min(0.9);
    }
    apply_low_confidence_ask_first_rule(Assessment {
        input: input.to_owned(),
        decision,
        confidence: confidence.clamp(0.05, 1.0),
        reasons,
    })
}

/// Changes the decision `Direct` to `AskFirst` if its confidence is low. This rule also applies to
/// decisions that hooks changed.
pub(super) fn apply_low_confidence_ask_first_rule(mut assessment: Assessment) -> Assessment {
    if assessment.decision == Decision::Direct
        && assessment.confidence < ASK_USER_CONFIDENCE_THRESHOLD
    {
        assessment.decision = Decision::AskFirst;
        assessment.reasons.push(format!(
            "a confidence below {ASK_USER_CONFIDENCE_THRESHOLD}"
        ));
    }
    assessment
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_on_by_what_it_says() {
        use Decision::{AskFirst, Delegate, Direct, Parallelize, Plan};
        for (input, decision) in [
            ("What does src/main.rs do?", Direct),
            ("Rename the function parse_line to parse_entry", Direct),
            ("", Direct),
            ("explain this?", Direct),
            // Requests that may do harm.
            ("Delete everything in the folder", AskFirst),
            ("deploy to production and force push", AskFirst),
            // Requests that do not name their object.
            ("fix it", AskFirst),
            ("Make this better.", AskFirst),
            ("Refactor the session store and migrate old files", Plan),
            ("Please do:\n1. add a test\n2. fix the bug\n3. update", Plan),
            ("Investigate why the build is slow", Delegate),
            (
                "Run the linter in parallel on each of the crates",
                Parallelize,
            ),
        ] {
            let assessment = assess_how_to_handle_input(input);
            assert_eq!(assessment.decision, decision, "{assessment:?}");
            assert!((0.0..=1.0).contains(&assessment.confidence));
            assert!(!assessment.reasons.is_empty());
        }
    }

    #[test]
    fn an_unsure_direct_decision_of_a_hook_becomes_ask_first() {
        let mut assessment = assess_how_to_handle_input("hello");
        assessment.confidence = 0.34;
        assert_eq!(
            apply_low_confidence_ask_first_rule(assessment.clone()).decision,
            Decision::AskFirst
        );
        assessment.confidence = 0.35;
        assert_eq!(
            apply_low_confidence_ask_first_rule(assessment).decision,
            Decision::Direct
        );
    }
}
