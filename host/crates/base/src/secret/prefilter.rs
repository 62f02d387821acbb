//! Searches a text for the keywords of the rules. A scan runs this search on every text, and the
//! regexes of the rules only near the keywords that are found.
//!
//! Start from [`SecretKeywordSearcher::find_keyword_hits`].

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::rule::SecretRule;

/// Number of buckets in the vectorized search of `aho_corasick`, whose prefilter does not
/// distinguish between patterns in the same bucket.
const N_AHO_CORASICK_BUCKETS: usize = 16;

/// Searches for keywords, separately for short and long ones. The vectorized search compares only
/// as many bytes as its shortest keyword has. In one common search, the few keywords of three bytes
/// would therefore cause false candidates at every other word.
#[derive(Debug)]
pub(super) struct SecretKeywordSearcher {
    short: KeywordGroupSearcher,
    long: KeywordGroupSearcher,
}

#[derive(Debug)]
struct KeywordGroupSearcher {
    search: KeywordSearchAlgorithm,
    /// Indices of the secret rules that may match where a keyword occurs, for each keyword.
    candidates: Vec<Vec<usize>>,
}

#[derive(Debug)]
enum KeywordSearchAlgorithm {
    /// Vectorized search, which is not available on every processor or for every set of keywords.
    Packed(Searcher),
    /// Automaton that searches byte by byte and runs on every processor.
    Automaton(AhoCorasick),
    Nothing,
}

impl SecretKeywordSearcher {
    pub(super) fn new(rules: &[SecretRule]) -> Self {
        let mut words: Vec<&str> = rules
            .iter()
            .flat_map(|rule| rule.keywords.iter().map(String::as_str))
            .collect();
        words.sort_unstable();
        // Leave out a keyword that begins with another keyword, because the search for the shorter
        // one finds both.
        words.dedup_by(|next, kept| next.starts_with(&**kept));
        let (short, long) = words.into_iter().partition(|word| word.len() <= 3);
        Self {
            short: KeywordGroupSearcher::new(short, rules),
            long: KeywordGroupSearcher::new(long, rules),
        }
    }

    /// Iterates over the positions of keywords in `text`, in order.
    pub(super) fn find_keyword_hits<'a>(&'a self, text: &'a [u8]) -> KeywordHitIterator<'a> {
        KeywordHitIterator {
            groups: [&self.short, &self.long],
            next: [
                self.short.find_keyword(text, 0),
                self.long.find_keyword(text, 0),
            ],
            text,
        }
    }
}

impl KeywordGroupSearcher {
    fn new(words: Vec<&str>, rules: &[SecretRule]) -> Self {
        let words = order_keywords_by_similarity(&words);
        let may_begin = |rule: &SecretRule, word: &str| {
            let mut keywords = rule.keywords.iter();
            keywords.any(|keyword| keyword.starts_with(word))
        };
        let candidates = words.iter().map(|word| {
            let rules = rules.iter().enumerate();
            let those = rules.filter(|(_, rule)| may_begin(rule, word));
            those.map(|(at, _)| at).collect()
        });
        Self {
            search: KeywordSearchAlgorithm::new(&words),
            candidates: candidates.collect(),
        }
    }

    /// Finds the first keyword at or after the offset `from`. Returns its offset and its index in
    /// the group.
    fn find_keyword(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let rest = from.min(text.len())..text.len();
        match &self.search {
            KeywordSearchAlgorithm::Packed(searcher) => searcher
                .find_in(text, rest.into())
                .map(|found| (found.start(), found.pattern().as_usize())),
            KeywordSearchAlgorithm::Automaton(automaton) => automaton
                .find(Input::new(text).range(rest))
                .map(|found| (found.start(), found.pattern().as_usize())),
            KeywordSearchAlgorithm::Nothing => None,
        }
    }
}

impl KeywordSearchAlgorithm {
    fn new(words: &[&str]) -> Self {
        if let Some(searcher) = packed::Config::new().builder().extend(words).build() {
            return Self::Packed(searcher);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(words);
        match automaton {
            Ok(automaton) if !words.is_empty() => Self::Automaton(automaton),
            _ => Self::Nothing,
        }
    }
}

/// Arranges sorted keywords so that the search puts neighbors into the same bucket. Similar
/// keywords such as `ghp_` and `gho_` can share a bucket without cost, while unrelated keywords
/// would produce a candidate at every mixture of the two. The search assigns keywords to buckets
/// round-robin.
fn order_keywords_by_similarity<'a>(sorted: &[&'a str]) -> Vec<&'a str> {
    let (least, n_larger) = (
        sorted.len() / N_AHO_CORASICK_BUCKETS,
        sorted.len() % N_AHO_CORASICK_BUCKETS,
    );
    let (larger, smaller) = sorted.split_at(n_larger * (least + 1));
    let buckets = larger.chunks(least + 1).chain(smaller.chunks(least.max(1)));
    let buckets: Vec<&[&str]> = buckets.collect();
    let row = |at: usize| buckets.iter().filter_map(move |bucket| bucket.get(at));
    (0..=least).flat_map(row).copied().collect()
}

pub(super) struct KeywordHitIterator<'a> {
    groups: [&'a KeywordGroupSearcher; 2],
    /// Next keyword of each group that the text contains: its offset in the text, and its index in
    /// the group.
    next: [Option<(usize, usize)>; 2],
    text: &'a [u8],
}

impl<'a> KeywordHitIterator<'a> {
    /// Returns the offset of the next occurrence of a keyword, with the indices of the rules that
    /// may match there.
    pub(super) fn next(&mut self) -> Option<(usize, &'a [usize])> {
        let is_short_first = match self.next {
            [Some((short, _)), Some((long, _))] => short <= long,
            [short, _] => short.is_some(),
        };
        let which = usize::from(!is_short_first);
        let (at, word) = self.next[which]?;
        let group = self.groups[which];
        self.next[which] = group.find_keyword(self.text, at + 1);
        Some((at, group.candidates.get(word)?))
    }

    /// Skips keywords that occur before the offset `to` of the text.
    pub(super) fn skip_hits_before(&mut self, to: usize) {
        for (next, group) in self.next.iter_mut().zip(self.groups) {
            if next.is_some_and(|(at, _)| at < to) {
                *next = group.find_keyword(self.text, to);
            }
        }
    }
}
