//! Finds and masks secrets in text.
//!
//! This module owns the rules (`rules.toml`, the formats of tokens of well-known services) and the
//! scan. It has no side effects, and must not know the origin or use of a text. It finds accidental
//! leaks, such as a token printed by a tool or a key in a file. It cannot find a secret that was
//! encoded on purpose.
//!
//! Most texts contain no keyword of any rule, so only the keyword search runs: below 100 ns for a
//! line, some 300 µs for a megabyte. At each keyword that is found, the regexes of its rules match
//! in a window of bounded length, so the time is linear in the length of any text.
//!
//! Start from [`Scanner::shared`].

mod aside;
mod block;
mod leaves;
mod outgoing;
mod prefilter;
mod rule;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use prefilter::KeywordFilter;
use rule::{RuleSet, SecretRule};

pub use aside::run_aside;
pub use leaves::mask_leaves;
pub use outgoing::check_outgoing;

/// Maximum number of times that a text is scanned and masked. Masking one secret can reveal a
/// second, but hardly ever a third.
const MAX_ROUNDS: usize = 4;

/// Length of the shortest text that can contain a secret, in bytes: a password in a URL,
/// `://:abc@d`.
const MIN_BYTES: usize = 9;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Id of the rule that found it.
    pub rule: Arc<str>,
    /// Byte range in the text.
    pub range: Range<usize>,
}

/// A text in which the secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The text, with `[secret masked: RULE-ID]` instead of each secret.
    pub text: String,
    /// Ids of the matching rules.
    pub rules: BTreeSet<Arc<str>>,
}

/// Scanner for secrets.
///
/// Use [`Scanner::shared`], because building a scanner compiles the keywords of all rules. For JSON
/// values use [`mask_leaves`], for outgoing requests [`check_outgoing`].
#[derive(Debug)]
pub struct Scanner {
    rules: Vec<SecretRule>,
    prefilter: KeywordFilter,
}

impl Scanner {
    /// Returns the scanner that all users in the process share. The first call builds it.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Scanner> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(RuleSet::built_in()))
    }

    fn new(set: RuleSet) -> Self {
        let rules = set.into_rules();
        let prefilter = KeywordFilter::new(&rules);
        Self { rules, prefilter }
    }

    /// Returns the description of a rule.
    #[must_use]
    pub fn description(&self, rule: &str) -> Option<&str> {
        let found = self.rules.iter().find(|known| &*known.id == rule);
        found.map(|rule| rule.description.as_str())
    }

    /// Returns the secrets in a text, in order and without overlaps.
    #[must_use]
    pub fn scan(&self, text: &str) -> Vec<Finding> {
        if text.len() < MIN_BYTES {
            return Vec::new();
        }
        let bytes = text.as_bytes();
        let mut hits = self.prefilter.find_hits(bytes);
        let mut found: Vec<Finding> = Vec::new();
        let mut last = 0..0;
        while let Some((at, candidates)) = hits.next() {
            let rules = candidates.iter().filter_map(|rule| self.rules.get(*rule));
            let of_rule = |rule: &SecretRule| {
                let range = rule.find_secret(bytes, at, last.end)?;
                Some(Finding {
                    rule: rule.id.clone(),
                    range,
                })
            };
            if let Some(finding) = rules.filter_map(of_rule).max_by_key(|f| f.range.end) {
                last = finding.range.clone();
                if last.start <= at {
                    hits.skip_to(last.end);
                }
                found.push(finding);
            }
        }
        keep_apart(found)
    }

    /// Masks the secrets in a text; `None` (without allocation) if there are none. Masking is
    /// idempotent.
    #[must_use]
    pub fn mask(&self, text: &str) -> Option<Masked> {
        let mut masked = Cow::Borrowed(text);
        let mut rules = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            let found = self.scan(&masked);
            if found.is_empty() {
                break;
            }
            masked = Cow::Owned(replace_found(&masked, &found));
            rules.extend(found.into_iter().map(|finding| finding.rule));
        }
        match masked {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(Masked { text, rules }),
        }
    }

    /// Returns a text with its secrets masked, without the ids of the matching rules.
    #[must_use]
    pub fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.mask(text) {
            Some(masked) => masked.text.into(),
            None => text.into(),
        }
    }
}

/// Merges overlapping findings, in order of their positions. If two findings begin at the same
/// position, the merged finding gets the later rule, which is more specific: for example, a token
/// format instead of a generic password.
fn keep_apart(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| finding.range.start);
    found.dedup_by(|next, kept| {
        let overlaps = next.range.start < kept.range.end;
        if overlaps && kept.range.start == next.range.start {
            std::mem::swap(&mut kept.rule, &mut next.rule);
        }
        if overlaps {
            kept.range.end = kept.range.end.max(next.range.end);
        }
        overlaps
    });
    found
}

fn replace_found(text: &str, found: &[Finding]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for Finding { rule, range } in found {
        masked.push_str(text.get(at..range.start).unwrap_or_default());
        masked.push_str("[secret masked: ");
        masked.push_str(rule);
        masked.push(']');
        at = range.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}
