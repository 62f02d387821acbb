//! Ranks passages of transcripts by the words of a query, without a model.
//!
//! Transcripts are added one by one, and only the best passages of each are kept in memory. The
//! module has no side effects. Start from [`TranscriptPassageSearch::new`].

use std::cmp::Reverse;

use super::transcript::{render_message_body, role_label};
use crate::message::Message;
use crate::rank::{QueryWordCounts, RankingQueryWords};

/// Maximum length in bytes of a passage that a search in transcripts finds.
const MAX_PASSAGE_BYTES: usize = 800;

/// Number of bytes that are shown after a passage, because the end of the passage may separate a
/// word from the value that belongs to it.
const SHOWN_BYTES_AFTER_PASSAGE: usize = 240;

/// Number of characters at the end of a passage without a line feed, in which the last gap between
/// words is searched.
const MAX_WORD_BREAK_LOOKBACK_CHARS: usize = 100;

/// Maximum number of passages of one transcript that are ranked against those of other transcripts.
const MAX_RANKED_PASSAGES_PER_TRANSCRIPT: usize = 6;

/// Maximum number of passages of one transcript that are returned.
const MAX_SHOWN_PASSAGES_PER_TRANSCRIPT: usize = 3;

/// Factor by which the score of a passage is multiplied if the passage contains the query verbatim,
/// ignoring case.
const VERBATIM_MATCH_SCORE_FACTOR: f64 = 1.5;

/// Passage of a transcript that contains words of the query.
#[derive(Clone, Debug)]
pub(super) struct TranscriptPassage {
    /// Number of the transcript, as passed to [`TranscriptPassageSearch::add_transcript`].
    pub(super) source: usize,
    /// Number of the message in the transcript, counted from 1.
    pub(super) message: usize,
    /// Sender of the message that contains the passage.
    pub(super) role: &'static str,
    /// Text of the passage, and up to [`SHOWN_BYTES_AFTER_PASSAGE`] of the text after it.
    pub(super) text: String,
    counts: QueryWordCounts,
    is_phrase: bool,
}

/// Search for passages in transcripts, to which transcripts are added one by one.
#[derive(Debug)]
pub(super) struct TranscriptPassageSearch {
    phrase: String,
    query: RankingQueryWords,
    found: Vec<TranscriptPassage>,
    /// Number of passages that contain a word of the query, including those that were not kept.
    n_found: u32,
}

impl TranscriptPassageSearch {
    /// Begins a search for the passages of transcripts that match `query`. Returns `None` if the
    /// query has no words.
    pub(super) fn new(query: &str) -> Option<Self> {
        Some(Self {
            phrase: query.trim().to_lowercase(),
            query: RankingQueryWords::new(query)?,
            found: Vec::new(),
            n_found: 0,
        })
    }

    /// Returns the number of passages that contain a word of the query.
    pub(super) fn n_matching_passages(&self) -> u32 {
        self.n_found
    }

    /// Searches the messages of the transcript with the number `source`.
    pub(super) fn add_transcript(&mut self, source: usize, messages: &[Message]) {
        let mut own = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let body = render_message_body(message, usize::MAX);
            let mut start = 0;
            while let Some(rest) = body.get(start..).filter(|rest| !rest.is_empty()) {
                let end = find_passage_end(rest, MAX_PASSAGE_BYTES);
                let counts = self
                    .query
                    .count_query_words(rest.get(..end).unwrap_or(rest));
                if counts.has_query_word() {
                    // Show some text after the passage: if a value were truncated at the end of the
                    // passage, the model would take the beginning for the complete value.
                    let after = rest.get(end..).unwrap_or_default();
                    let shown =
                        end.saturating_add(find_passage_end(after, SHOWN_BYTES_AFTER_PASSAGE));
                    let text = rest.get(..shown).unwrap_or(rest);
                    own.push(TranscriptPassage {
                        source,
                        message: at + 1,
                        role: role_label(message),
                        is_phrase: text.to_lowercase().contains(&self.phrase),
                        text: text.trim().to_owned(),
                        counts,
                    });
                    self.n_found = self.n_found.saturating_add(1);
                    if own.len() > 10 * MAX_RANKED_PASSAGES_PER_TRANSCRIPT {
                        keep_best_passages(&mut own);
                    }
                }
                start += end.max(1);
            }
        }
        keep_best_passages(&mut own);
        self.found.append(&mut own);
    }

    /// Returns at most `most` of the best passages, the best first.
    pub(super) fn best_passages(mut self, most: usize) -> Vec<TranscriptPassage> {
        let found = std::mem::take(&mut self.found);
        let mut scored: Vec<(f64, TranscriptPassage)> = found
            .into_iter()
            .map(|passage| (self.score_passage(&passage), passage))
            .collect();
        // The sort is stable, so of passages with equal scores, those of the transcript that was
        // added first come first.
        scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut best: Vec<TranscriptPassage> = Vec::new();
        for (_, passage) in scored {
            let of_one = best.iter().filter(|own| own.source == passage.source);
            if best.len() < most && of_one.count() < MAX_SHOWN_PASSAGES_PER_TRANSCRIPT {
                best.push(passage);
            }
        }
        best
    }

    fn score_passage(&self, passage: &TranscriptPassage) -> f64 {
        let score = self.query.bm25_score(&passage.counts);
        score
            * if passage.is_phrase {
                VERBATIM_MATCH_SCORE_FACTOR
            } else {
                1.0
            }
    }
}

/// Removes all but the passages of one transcript that are probably the best. The final rank needs
/// the frequency of each word in all transcripts, which is known only at the end of the search.
fn keep_best_passages(own: &mut Vec<TranscriptPassage>) {
    own.sort_by_key(|passage| {
        Reverse((
            passage.is_phrase,
            passage.counts.distinct_and_total_query_words(),
        ))
    });
    own.truncate(MAX_RANKED_PASSAGES_PER_TRANSCRIPT);
}

/// Returns the length of a text's prefix that has at most `limit` bytes. The prefix ends after a
/// line feed if there is one, or else between words if possible, or else at `limit`.
fn find_passage_end(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let most = text.floor_char_boundary(limit);
    let head = text.get(..most).unwrap_or(text);
    let line = head.rfind('\n').map(|at| at + 1);
    let between_words = || {
        let mut last = head
            .char_indices()
            .rev()
            .take(MAX_WORD_BREAK_LOOKBACK_CHARS);
        let (at, c) = last.find(|(_, c)| !c.is_alphanumeric())?;
        Some(at + c.len_utf8())
    };
    line.or_else(between_words).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    fn texts(all: &[&str], query: &str) -> Vec<usize> {
        let mut search = TranscriptPassageSearch::new(query).unwrap();
        for (source, text) in all.iter().enumerate() {
            search.add_transcript(source, &[Message::text(Role::User, *text)]);
        }
        let best = search.best_passages(8).into_iter();
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
        assert!(TranscriptPassageSearch::new(" .,; ").is_none());
    }

    #[test]
    fn a_line_deep_in_a_long_text_is_found_with_its_surroundings() {
        let mut text = "row of numbers 1 2 3\n".repeat(5000);
        text.insert_str(50_001, "\nthe valve code is 4711-X\n");
        let mut search = TranscriptPassageSearch::new("valve code").unwrap();
        search.add_transcript(7, &[Message::text(Role::User, text)]);
        assert_eq!(search.n_matching_passages(), 1);
        let best = search.best_passages(8).remove(0);
        assert!(
            best.text.contains("the valve code is 4711-X"),
            "{}",
            best.text
        );
        assert!(best.text.len() <= MAX_PASSAGE_BYTES + SHOWN_BYTES_AFTER_PASSAGE);
        assert_eq!((best.source, best.message, best.role), (7, 1, "user"));
    }

    #[test]
    fn no_line_is_cut_at_the_end_of_what_is_shown() {
        let row = "gate report 1 row 2: level 3 ok\n";
        for n_before in 0..40 {
            let rows = row.repeat(n_before);
            let text = format!("{rows}clearance of the gate is K-762\n{}", row.repeat(40));
            let mut search = TranscriptPassageSearch::new("clearance gate").unwrap();
            search.add_transcript(0, &[Message::text(Role::User, text)]);
            for found in search.best_passages(8) {
                let mut codes = found.text.split("gate is ").skip(1);
                assert!(
                    codes.all(|code| code.starts_with("K-762")),
                    "{}",
                    found.text
                );
            }
        }
    }

    #[test]
    fn a_text_in_one_line_is_cut_between_words_and_of_one_transcript_few_are_kept() {
        let text = "needle ".repeat(50_000);
        let mut search = TranscriptPassageSearch::new("needle").unwrap();
        search.add_transcript(0, &[Message::text(Role::User, text)]);
        assert!(search.n_matching_passages() > 400);
        assert_eq!(
            search.best_passages(8).len(),
            MAX_SHOWN_PASSAGES_PER_TRANSCRIPT
        );
        let long = "é".repeat(10_000);
        let mut search = TranscriptPassageSearch::new("x").unwrap();
        search.add_transcript(0, &[Message::text(Role::User, long)]);
        assert_eq!(search.n_matching_passages(), 0);
    }
}
