//! Ranks passages of transcripts by the words of a query: Okapi BM25, without a model.
//!
//! Transcripts are added one by one and not kept: only the best passages of each are, and the
//! counts that the ranking needs. Pure. Start from [`PassageSearch::new`].

use std::cmp::Reverse;

use super::transcript::{render_body, role_label};
use crate::message::Message;

/// Longest passage, in bytes.
const PASSAGE_BYTES: usize = 800;

/// Bytes that are shown after a passage: a word and its value may stand on both sides of its end.
const AFTER_BYTES: usize = 240;

/// Bytes before the end of a passage without a line feed in which a place between words is sought.
const SEAM_CHARS: usize = 100;

/// Most words of a query; more say little.
const MAX_WORDS: usize = 32;

/// Passages of one transcript that are ranked against those of others.
const MAX_OF_ONE: usize = 6;

/// Passages of one transcript that are returned.
const MAX_SHOWN_OF_ONE: usize = 3;

/// Parameters of BM25. Passages have nearly the same length, so their length counts little.
const K1: f64 = 1.2;
const B: f64 = 0.4;

/// Factor for a passage that contains the whole query as it was written.
const PHRASE: f64 = 1.5;

/// A passage that was found.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    /// Number that the transcript was added with.
    pub(super) source: usize,
    /// Number of the message in the transcript, from 1.
    pub(super) message: usize,
    /// Sender of the message.
    pub(super) role: &'static str,
    /// Text, with the beginning of what follows it.
    pub(super) text: String,
    /// Number of times that it has each word of the query.
    counts: Vec<u32>,
    n_words: u32,
    is_phrase: bool,
}

/// A search on its way.
#[derive(Debug)]
pub(super) struct PassageSearch {
    phrase: String,
    words: Vec<String>,
    n_passages: u32,
    n_words: u64,
    /// Number of passages that have each word.
    with_word: Vec<u32>,
    found: Vec<Passage>,
    /// Passages that have a word of the query, those that are not kept included.
    n_found: u32,
}

impl PassageSearch {
    /// Begins a search; `None` when the query has no words.
    pub(super) fn new(query: &str) -> Option<Self> {
        let mut words: Vec<String> = Vec::new();
        for_each_word(query, |word| {
            if words.len() < MAX_WORDS && !words.iter().any(|own| own == word) {
                words.push(word.to_owned());
            }
        });
        (!words.is_empty()).then(|| Self {
            phrase: query.trim().to_lowercase(),
            with_word: vec![0; words.len()],
            words,
            n_passages: 0,
            n_words: 0,
            found: Vec::new(),
            n_found: 0,
        })
    }

    /// Number of passages that have a word of the query.
    pub(super) fn n_found(&self) -> u32 {
        self.n_found
    }

    /// Searches the messages of a transcript.
    pub(super) fn add_transcript(&mut self, source: usize, messages: &[Message]) {
        let mut own = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let body = render_body(message, usize::MAX);
            let mut start = 0;
            while let Some(rest) = body.get(start..).filter(|rest| !rest.is_empty()) {
                let end = find_end(rest);
                let (counts, n_words) = self.count_words(rest.get(..end).unwrap_or(rest));
                if counts.iter().any(|n| *n > 0) {
                    let shown = rest.floor_char_boundary(end.saturating_add(AFTER_BYTES));
                    let text = rest.get(..shown).unwrap_or(rest);
                    own.push(Passage {
                        source,
                        message: at + 1,
                        role: role_label(message),
                        is_phrase: text.to_lowercase().contains(&self.phrase),
                        text: text.trim().to_owned(),
                        counts,
                        n_words,
                    });
                    self.n_found = self.n_found.saturating_add(1);
                    if own.len() > 10 * MAX_OF_ONE {
                        keep_likely(&mut own);
                    }
                }
                start += end.max(1);
            }
        }
        keep_likely(&mut own);
        self.found.append(&mut own);
    }

    fn count_words(&mut self, text: &str) -> (Vec<u32>, u32) {
        let mut counts = vec![0_u32; self.words.len()];
        let mut n_words = 0_u32;
        for_each_word(text, |word| {
            n_words = n_words.saturating_add(1);
            if let Some(at) = self.words.iter().position(|own| own == word)
                && let Some(n) = counts.get_mut(at)
            {
                *n = n.saturating_add(1);
            }
        });
        self.n_passages = self.n_passages.saturating_add(1);
        self.n_words = self.n_words.saturating_add(u64::from(n_words));
        for (with, _) in self
            .with_word
            .iter_mut()
            .zip(&counts)
            .filter(|(_, n)| **n > 0)
        {
            *with = with.saturating_add(1);
        }
        (counts, n_words)
    }

    /// Returns the best passages, at most `most`, the best first.
    pub(super) fn best(mut self, most: usize) -> Vec<Passage> {
        let found = std::mem::take(&mut self.found);
        let mut scored: Vec<(f64, Passage)> = found
            .into_iter()
            .map(|passage| (self.score(&passage), passage))
            .collect();
        // A tie goes to the transcript that was added first.
        scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut best: Vec<Passage> = Vec::new();
        for (_, passage) in scored {
            let of_one = best.iter().filter(|own| own.source == passage.source);
            if best.len() < most && of_one.count() < MAX_SHOWN_OF_ONE {
                best.push(passage);
            }
        }
        best
    }

    fn score(&self, passage: &Passage) -> f64 {
        let n_passages = f64::from(self.n_passages);
        let total = u32::try_from(self.n_words).map_or(f64::from(u32::MAX), f64::from);
        let average = (total / n_passages.max(1.0)).max(1.0);
        let length = 1.0 - B + B * f64::from(passage.n_words) / average;
        let of_word = |(count, with): (&u32, &u32)| {
            let (count, with) = (f64::from(*count), f64::from(*with));
            let rarity = (1.0 + (n_passages - with + 0.5) / (with + 0.5)).ln();
            rarity * count * (K1 + 1.0) / (count + K1 * length)
        };
        let score: f64 = passage
            .counts
            .iter()
            .zip(&self.with_word)
            .map(of_word)
            .sum();
        score * if passage.is_phrase { PHRASE } else { 1.0 }
    }
}

/// Keeps the passages of one transcript that are likely the best: how rare a word is, only the end
/// of the search tells.
fn keep_likely(own: &mut Vec<Passage>) {
    own.sort_by_key(|passage| {
        let n_distinct = passage.counts.iter().filter(|n| **n > 0).count();
        Reverse((
            passage.is_phrase,
            n_distinct,
            passage.counts.iter().sum::<u32>(),
        ))
    });
    own.truncate(MAX_OF_ONE);
}

/// Returns the length of the passage that a text begins with: whole lines if they are short enough,
/// whole words otherwise.
fn find_end(text: &str) -> usize {
    if text.len() <= PASSAGE_BYTES {
        return text.len();
    }
    let most = text.floor_char_boundary(PASSAGE_BYTES);
    let head = text.get(..most).unwrap_or(text);
    let line = head.rfind('\n').map(|at| at + 1);
    let between_words = || {
        let mut last = head.char_indices().rev().take(SEAM_CHARS);
        let (at, c) = last.find(|(_, c)| !c.is_alphanumeric())?;
        Some(at + c.len_utf8())
    };
    line.or_else(between_words).unwrap_or(most)
}

/// Calls `take` with each word of a text, in lower case and without a plural `s`. A character of a
/// script without spaces is a word.
fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            let whole: &str = word;
            let is_plural = whole.len() > 3 && !whole.ends_with("ss");
            let stem = whole.strip_suffix('s').filter(|_| is_plural);
            take(stem.unwrap_or(whole));
            word.clear();
        }
    };
    for c in text.chars() {
        let stands_alone = is_without_spaces(c);
        if stands_alone || !c.is_alphanumeric() {
            end(&mut word);
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        if stands_alone {
            end(&mut word);
        }
    }
    end(&mut word);
}

/// Whether a character belongs to Chinese, Japanese or Korean, which are searched by characters.
fn is_without_spaces(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    fn texts(all: &[&str], query: &str) -> Vec<usize> {
        let mut search = PassageSearch::new(query).unwrap();
        for (source, text) in all.iter().enumerate() {
            search.add_transcript(source, &[Message::text(Role::User, *text)]);
        }
        let best = search.best(8).into_iter();
        best.map(|passage| passage.source).collect()
    }

    #[test]
    fn rare_words_weigh_more_and_a_phrase_wins() {
        let all = [
            "the port of the server is open",
            "the port of the harbor master",
            "the the the the",
            "the harbor was closed, and its port too",
        ];
        assert_eq!(texts(&all, "harbor masters"), [1, 3]);
        assert_eq!(texts(&all, "HARBOR port")[..2], [1, 3]);
        assert_eq!(texts(&all, "port of the server")[0], 0);
        assert_eq!(texts(&all, "nothing"), Vec::<usize>::new());
        assert_eq!(texts(&["潮位は四センチ", "東京"], "潮位"), [0]);
        assert!(PassageSearch::new(" .,; ").is_none());
    }

    #[test]
    fn a_line_deep_in_a_long_text_is_found_with_its_surroundings() {
        let mut text = "row of numbers 1 2 3\n".repeat(5000);
        text.insert_str(50_001, "\nthe valve code is 4711-X\n");
        let mut search = PassageSearch::new("valve code").unwrap();
        search.add_transcript(7, &[Message::text(Role::User, text)]);
        assert_eq!(search.n_found(), 1);
        let best = search.best(8).remove(0);
        assert!(
            best.text.contains("the valve code is 4711-X"),
            "{}",
            best.text
        );
        assert!(best.text.len() <= PASSAGE_BYTES + AFTER_BYTES);
        assert_eq!((best.source, best.message, best.role), (7, 1, "user"));
    }

    #[test]
    fn a_text_in_one_line_is_cut_between_words_and_of_one_transcript_few_are_kept() {
        let text = "needle ".repeat(50_000);
        let mut search = PassageSearch::new("needle").unwrap();
        search.add_transcript(0, &[Message::text(Role::User, text)]);
        assert!(search.n_found() > 400);
        assert_eq!(search.best(8).len(), MAX_SHOWN_OF_ONE);
        let long = "é".repeat(10_000);
        let mut search = PassageSearch::new("x").unwrap();
        search.add_transcript(0, &[Message::text(Role::User, long)]);
        assert_eq!(search.n_found(), 0);
    }
}
