//! Ranks texts by the words of a query with Okapi BM25, without a model.
//!
//! Only the word counts of each text are kept, not the text. The functions change only the values
//! that they are called on. Start from [`RankingQueryWords::new`].

/// Maximum number of words of a query. Further words are ignored, because they hardly change the
/// ranking.
const MAX_QUERY_WORDS: usize = 32;

/// Parameters of BM25: `BM25_COUNT_SATURATION` limits the effect of repeated words, and
/// `BM25_LENGTH_WEIGHT` is the weight of the text's length. The weight is low, because the ranked
/// texts have nearly the same length.
const BM25_COUNT_SATURATION: f64 = 1.2;
const BM25_LENGTH_WEIGHT: f64 = 0.4;

/// Words of a query, and counts over all texts that are ranked.
#[derive(Debug)]
pub struct RankingQueryWords {
    words: Vec<String>,
    n_texts: u32,
    n_words: u64,
    /// Number of texts that contain each word of `words`, in the same order.
    with_word: Vec<u32>,
}

/// Counts of a query's words in one text, and the number of all words in the text.
#[derive(Clone, Debug)]
pub struct QueryWordCounts {
    counts: Vec<u32>,
    n_words: u32,
}

impl QueryWordCounts {
    /// Whether the text contains any word of the query.
    #[must_use]
    pub fn has_query_word(&self) -> bool {
        self.counts.iter().any(|n| *n > 0)
    }

    /// Returns how many different words of the query the text contains, and how many of its words
    /// are words of the query.
    #[must_use]
    pub fn distinct_and_total_query_words(&self) -> (usize, u32) {
        let n_distinct = self.counts.iter().filter(|n| **n > 0).count();
        (n_distinct, self.counts.iter().sum())
    }
}

impl RankingQueryWords {
    /// Creates a query; `None` if the text has no words.
    #[must_use]
    pub fn new(query: &str) -> Option<Self> {
        let mut words: Vec<String> = Vec::new();
        for_each_word(query, |word| {
            if words.len() < MAX_QUERY_WORDS && !words.iter().any(|own| own == word) {
                words.push(word.to_owned());
            }
        });
        (!words.is_empty()).then(|| Self {
            with_word: vec![0; words.len()],
            words,
            n_texts: 0,
            n_words: 0,
        })
    }

    /// Counts the query's words in a text, and adds the text to the counts over all texts. Every
    /// score depends on the counts over all texts.
    pub fn count_query_words(&mut self, text: &str) -> QueryWordCounts {
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
        self.n_texts = self.n_texts.saturating_add(1);
        self.n_words = self.n_words.saturating_add(u64::from(n_words));
        for (with, _) in self
            .with_word
            .iter_mut()
            .zip(&counts)
            .filter(|(_, n)| **n > 0)
        {
            *with = with.saturating_add(1);
        }
        QueryWordCounts { counts, n_words }
    }

    /// Returns the BM25 score of a text. Call this only after [`Self::count_query_words`] was
    /// called for all texts.
    #[must_use]
    pub fn bm25_score(&self, text: &QueryWordCounts) -> f64 {
        let n_texts = f64::from(self.n_texts);
        let total = u32::try_from(self.n_words).map_or(f64::from(u32::MAX), f64::from);
        let average = (total / n_texts.max(1.0)).max(1.0);
        let length =
            1.0 - BM25_LENGTH_WEIGHT + BM25_LENGTH_WEIGHT * f64::from(text.n_words) / average;
        let of_word = |(count, with): (&u32, &u32)| {
            let (count, with) = (f64::from(*count), f64::from(*with));
            let rarity = (1.0 + (n_texts - with + 0.5) / (with + 0.5)).ln();
            rarity * count * (BM25_COUNT_SATURATION + 1.0)
                / (count + BM25_COUNT_SATURATION * length)
        };
        text.counts.iter().zip(&self.with_word).map(of_word).sum()
    }
}

/// Calls `take` with each word of a text, in lower case and without the `s` of a plural. In scripts
/// without spaces, each character is a word.
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
        let stands_alone = is_cjk_character(c);
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

/// Whether a character is Chinese, Japanese or Korean: texts in these scripts are split into
/// characters.
fn is_cjk_character(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_weigh_more_than_usual_ones() {
        let mut query = RankingQueryWords::new("the harbors").unwrap();
        let counts =
            ["the the the", "the port", "a harbor"].map(|text| query.count_query_words(text));
        let scores = counts.each_ref().map(|counts| query.bm25_score(counts));
        assert!(scores[2] > scores[0] && scores[0] > scores[1], "{scores:?}");
        assert_eq!(counts[0].distinct_and_total_query_words(), (1, 3));
        assert!(RankingQueryWords::new(" .,; ").is_none());
    }
}
