//! Finds and masks secrets in text.
//!
//! This module owns the scan and its rules: `rules.toml` describes the token formats of well-known
//! services. It has no side effects, and must not know the origin or use of a text. It finds
//! accidental leaks, such as a token printed by a tool or a key in a file. It cannot find a secret
//! that was encoded on purpose.
//!
//! Most texts contain no keyword of any rule, so only the keyword search runs, which takes less
//! than 100 ns for a line and some 300 µs for a megabyte. At each keyword, the regexes of its rules
//! are matched in a window of limited length, so the time is linear in the length of the text.
//!
//! Start from [`SecretScanner::shared`].

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

use prefilter::SecretKeywordSearcher;
use rule::{SecretRule, SecretRuleSet};

pub use aside::run_blocking_scan;
pub use leaves::mask_secrets_in_json;
pub use outgoing::check_request_for_secrets;

/// Maximum number of passes over a text, each of which finds and masks secrets. Masking one secret
/// can reveal a second, but hardly ever a third.
const MAX_MASKING_PASSES: usize = 4;

/// Length of the shortest text that can contain a secret, in bytes. The shortest is a password in a
/// URL: `://:abc@d`.
const MIN_TEXT_BYTES_WITH_SECRET: usize = 9;

/// Secret, such as an API key, that was found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFinding {
    /// Id of the rule that recognized the secret.
    pub rule: Arc<str>,
    /// Byte range of the secret in the text.
    pub range: Range<usize>,
}

/// A text in which the secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedText {
    /// The text, with `[secret masked: RULE-ID]` instead of each secret.
    pub text: String,
    /// Ids of the rules that found the masked secrets.
    pub rules: BTreeSet<Arc<str>>,
}

/// Scanner for secrets.
///
/// Use [`SecretScanner::shared`], because building a scanner compiles the keywords of all rules.
/// For JSON values use [`mask_secrets_in_json`], for outgoing requests
/// [`check_request_for_secrets`].
#[derive(Debug)]
pub struct SecretScanner {
    rules: Vec<SecretRule>,
    prefilter: SecretKeywordSearcher,
}

impl SecretScanner {
    /// Returns the scanner that the whole process shares. The first call builds it.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<SecretScanner> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(SecretRuleSet::parse_built_in_rules()))
    }

    fn new(set: SecretRuleSet) -> Self {
        let rules = set.into_rules();
        let prefilter = SecretKeywordSearcher::new(&rules);
        Self { rules, prefilter }
    }

    /// Returns the description of the rule with this id.
    #[must_use]
    pub fn rule_description(&self, rule: &str) -> Option<&str> {
        let found = self.rules.iter().find(|known| &*known.id == rule);
        found.map(|rule| rule.description.as_str())
    }

    /// Returns the secrets in a text, in order and without overlaps.
    #[must_use]
    pub fn find_secrets(&self, text: &str) -> Vec<SecretFinding> {
        if text.len() < MIN_TEXT_BYTES_WITH_SECRET {
            return Vec::new();
        }
        let bytes = text.as_bytes();
        let mut hits = self.prefilter.find_keyword_hits(bytes);
        let mut found: Vec<SecretFinding> = Vec::new();
        let mut last = 0..0;
        while let Some((at, candidates)) = hits.next() {
            let rules = candidates.iter().filter_map(|rule| self.rules.get(*rule));
            let of_rule = |rule: &SecretRule| {
                let range = rule.find_secret(bytes, at, last.end)?;
                Some(SecretFinding {
                    rule: rule.id.clone(),
                    range,
                })
            };
            if let Some(finding) = rules.filter_map(of_rule).max_by_key(|f| f.range.end) {
                last = finding.range.clone();
                if last.start <= at {
                    hits.skip_hits_before(last.end);
                }
                found.push(finding);
            }
        }
        merge_overlapping_findings(found)
    }

    /// Masks the secrets in a text. Returns `None`, without an allocation, if there are none.
    /// Masking a masked text changes nothing.
    #[must_use]
    pub fn mask_secrets(&self, text: &str) -> Option<MaskedText> {
        let mut masked = Cow::Borrowed(text);
        let mut rules = BTreeSet::new();
        for _ in 0..MAX_MASKING_PASSES {
            let found = self.find_secrets(&masked);
            if found.is_empty() {
                break;
            }
            masked = Cow::Owned(replace_findings_with_markers(&masked, &found));
            rules.extend(found.into_iter().map(|finding| finding.rule));
        }
        match masked {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(MaskedText { text, rules }),
        }
    }

    /// Returns a text with its secrets masked, without the ids of the matching rules.
    #[must_use]
    pub fn to_masked_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.mask_secrets(text) {
            Some(masked) => masked.text.into(),
            None => text.into(),
        }
    }
}

/// Merges overlapping findings and sorts them by position. If two findings begin at the same
/// position, the merged finding gets the rule whose keyword is later in the text, which is more
/// specific: for example, a token format instead of a generic password.
fn merge_overlapping_findings(mut found: Vec<SecretFinding>) -> Vec<SecretFinding> {
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

fn replace_findings_with_markers(text: &str, found: &[SecretFinding]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for SecretFinding { rule, range } in found {
        masked.push_str(text.get(at..range.start).unwrap_or_default());
        masked.push_str("[secret masked: ");
        masked.push_str(rule);
        masked.push(']');
        at = range.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}
