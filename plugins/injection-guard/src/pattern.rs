//! Matches the words of a text against patterns, such as
//! `ignore|forget ..3 previous|all ..2 instruction*`.
//!
//! Alternatives are separated by `|`. A `*` at the end of an alternative matches any ending, but is
//! not supported in the first step. `..N` allows up to N words in between. A match never crosses
//! the end of a sentence.

use std::borrow::Cow;

use crate::words::NormalizedTextWord;

/// Parsed pattern of words that a rule searches for.
pub(crate) struct PhrasePattern {
    steps: Vec<PhrasePatternStep>,
}

struct PhrasePatternStep {
    /// Maximum number of words between the match of the previous step and that of this step.
    gap: usize,
    alternatives: Vec<&'static str>,
}

impl PhrasePattern {
    /// Parses a pattern from its text form.
    pub(crate) fn new(source: &'static str) -> Self {
        let mut steps = Vec::new();
        let mut gap = 0;
        for part in source.split_whitespace() {
            match part
                .strip_prefix("..")
                .and_then(|number| number.parse().ok())
            {
                Some(number) => gap = number,
                None => {
                    steps.push(PhrasePatternStep {
                        gap,
                        alternatives: part.split('|').collect(),
                    });
                    gap = 0;
                }
            }
        }
        Self { steps }
    }

    /// Returns the words that a match can start with.
    pub(crate) fn first_words(&self) -> impl Iterator<Item = &'static str> {
        self.steps
            .iter()
            .take(1)
            .flat_map(|step| step.alternatives.iter().copied())
    }

    /// Returns the index of the last word of a match that starts at `index`. The caller has checked
    /// that the word there is one of [`Self::first_words`].
    pub(crate) fn find_match_end(
        &self,
        words: &(impl SentenceWordAccess + ?Sized),
        index: usize,
    ) -> Option<usize> {
        find_steps_match_end(&self.steps[1..], words, index)
    }
}

/// Access to the words of a text, in the form that patterns compare.
pub(crate) trait SentenceWordAccess {
    /// Returns the word at an index, unless a new sentence begins there.
    fn next_word_in_sentence(&self, index: usize) -> Option<Cow<'_, str>>;
}

impl SentenceWordAccess for [NormalizedTextWord<'_>] {
    fn next_word_in_sentence(&self, index: usize) -> Option<Cow<'_, str>> {
        let word = self.get(index).filter(|word| !word.begins)?;
        Some(Cow::Borrowed(&word.text))
    }
}

fn find_steps_match_end(
    steps: &[PhrasePatternStep],
    words: &(impl SentenceWordAccess + ?Sized),
    index: usize,
) -> Option<usize> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(index);
    };
    for candidate in index + 1..=index + 1 + step.gap {
        let word = words.next_word_in_sentence(candidate)?;
        if step
            .alternatives
            .iter()
            .any(|alternative| matches_alternative(alternative, &word))
            && let Some(found) = find_steps_match_end(rest, words, candidate)
        {
            return Some(found);
        }
    }
    None
}

/// Whether an alternative of a pattern matches a word. A `*` at the end of the alternative matches
/// any ending.
pub(crate) fn matches_alternative(alternative: &str, word: &str) -> bool {
    match alternative.strip_suffix('*') {
        Some(stem) => word.starts_with(stem),
        None => word == alternative,
    }
}
