//! Rules of `rules.toml`, and the check whether a rule matches at a position.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::block;

/// Text of the built-in rules for finding secrets.
const BUILT_IN_RULES_TOML: &str = include_str!("rules.toml");

/// Default length of the window in which a rule is matched, in bytes. The window begins at the
/// keyword.
const DEFAULT_MATCH_WINDOW_BYTES: usize = 256;

/// Rules for finding secrets, as `rules.toml` contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretRuleSet {
    placeholders: String,
    pub(super) rules: Vec<SecretRuleSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretRuleSpec {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) keywords: Vec<String>,
    regex: String,
    #[serde(default)]
    before: CharBeforeKeywordCondition,
    #[serde(default)]
    entropy: f64,
    window: Option<usize>,
    allow: Option<String>,
    placeholders: Option<bool>,
    #[serde(default)]
    block: bool,
}

/// Condition on the character before a keyword of a secret.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CharBeforeKeywordCondition {
    /// Requires that the keyword is at the start of a word: after text after which a word can begin
    /// (see [`is_word_boundary`]), or directly after the previous secret.
    #[default]
    Boundary,
    Digit,
    Any,
}

/// A regex that is compiled on first use, because most processes need only a few of them.
#[derive(Debug)]
pub(super) struct LazyRegex {
    pattern: String,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyRegex {
    fn new(pattern: String) -> Arc<Self> {
        Arc::new(Self {
            pattern,
            compiled: OnceLock::new(),
        })
    }

    /// Returns the compiled regex. Returns `None` if the pattern is invalid; a test checks that
    /// none is.
    pub(super) fn get(&self) -> Option<&Regex> {
        let compile = || RegexBuilder::new(&self.pattern).unicode(false).build().ok();
        self.compiled.get_or_init(compile).as_ref()
    }

    fn is_match(&self, bytes: &[u8]) -> bool {
        self.get().is_some_and(|regex| regex.is_match(bytes))
    }
}

impl SecretRuleSet {
    /// Returns the built-in rules; a test checks that they parse.
    pub(super) fn parse_built_in_rules() -> Self {
        toml::from_str(BUILT_IN_RULES_TOML).unwrap_or_default()
    }

    pub(super) fn into_rules(self) -> Vec<SecretRule> {
        let placeholders = LazyRegex::new(self.placeholders);
        let rule = |spec: SecretRuleSpec| {
            let has_placeholders = spec.placeholders.unwrap_or(true);
            let allow = spec.allow.map(LazyRegex::new);
            let placeholders = has_placeholders.then(|| placeholders.clone());
            SecretRule {
                id: Arc::from(spec.id),
                description: spec.description,
                keywords: spec.keywords,
                regex: LazyRegex::new(format!("^(?:{})", spec.regex)),
                before: spec.before,
                entropy: spec.entropy,
                window: spec.window.unwrap_or(DEFAULT_MATCH_WINDOW_BYTES),
                allow: allow.into_iter().chain(placeholders).collect(),
                is_block: spec.block,
            }
        };
        self.rules.into_iter().map(rule).collect()
    }
}

/// Rule for finding secrets, prepared for matching.
#[derive(Debug)]
pub(super) struct SecretRule {
    pub(super) id: Arc<str>,
    pub(super) description: String,
    pub(super) keywords: Vec<String>,
    /// Regex that is anchored to the start of the window, which begins at the keyword.
    pub(super) regex: Arc<LazyRegex>,
    before: CharBeforeKeywordCondition,
    entropy: f64,
    window: usize,
    pub(super) allow: Vec<Arc<LazyRegex>>,
    is_block: bool,
}

impl SecretRule {
    /// Finds the secret whose keyword is at the offset `at`. `border` is the end of the previous
    /// secret; a word can begin directly after it.
    pub(super) fn find_secret(
        &self,
        text: &[u8],
        at: usize,
        border: usize,
    ) -> Option<Range<usize>> {
        let is_placed = match self.before {
            CharBeforeKeywordCondition::Any => true,
            CharBeforeKeywordCondition::Digit => {
                at > 0 && text.get(at - 1).is_some_and(u8::is_ascii_digit)
            }
            CharBeforeKeywordCondition::Boundary => {
                at == border || is_word_boundary(text.get(..at)?)
            }
        };
        if !is_placed {
            return None;
        }
        let end = text.len().min(at + self.window);
        let mut range = self.find_secret_in_window(text.get(at..end)?)?;
        range = at + range.start..at + range.end;
        if self.is_block {
            range.end = block::find_pem_block_end(text, range.end)?;
        }
        let secret = text.get(range.clone())?;
        if self.entropy > 0.0 && byte_entropy(secret) < self.entropy
            || self.allow.iter().any(|allow| allow.is_match(secret))
        {
            return None;
        }
        if range.end == end {
            // The token may continue beyond the window, so extend the match to the token's last
            // byte. A larger window for the match instead would make the scan read bytes twice.
            let rest = text.get(end..)?.iter();
            range.end += rest.take_while(|byte| is_token_byte(**byte)).count();
        }
        Some(range)
    }

    /// Returns the range of the secret within a window that begins with the keyword.
    fn find_secret_in_window(&self, window: &[u8]) -> Option<Range<usize>> {
        let regex = self.regex.get()?;
        // Match without capture groups if the regex has none, because capturing makes a match
        // several times slower.
        if regex.captures_len() == 1 {
            return regex.find(window).map(|found| found.range());
        }
        let captures = regex.captures(window)?;
        captures.get(1).map(|found| found.range())
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether a word can begin after the text `before`. A word can begin if the last character of
/// `before` cannot be part of a token, or if it ends another construct: the `n` of an escaped line
/// break, the last digit of a percent-encoded byte, the `m` of a terminal color sequence.
fn is_word_boundary(before: &[u8]) -> bool {
    match before {
        [.., last] if !is_token_byte(*last) => true,
        [] | [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [colour @ .., b'm'] => {
            let is_parameter = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
            let n_parameters = colour.iter().rev().take(16).take_while(is_parameter);
            let n = n_parameters.count();
            colour.len().checked_sub(n).is_some_and(|end| {
                colour
                    .get(..end)
                    .is_some_and(|start| start.ends_with(b"\x1b["))
            })
        }
        _ => false,
    }
}

/// Returns the Shannon entropy of `bytes`, in bits per byte.
fn byte_entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let n = bytes.len() as f64;
    let mut bits = 0.0;
    for byte in bytes {
        // Count each distinct byte once, by resetting its count; ordinary text has few distinct
        // bytes.
        let count = std::mem::take(&mut counts[usize::from(*byte)]);
        if count > 0 {
            let share = f64::from(count) / n;
            bits -= share * share.log2();
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_can_be_read_and_tried() {
        let set: SecretRuleSet = toml::from_str(BUILT_IN_RULES_TOML).unwrap();
        assert!(set.rules.len() > 40, "{}", set.rules.len());
        let ids: BTreeSet<&str> = set.rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(ids.len(), set.rules.len(), "ids are distinct");
        for rule in &set.rules {
            assert!(!rule.description.is_empty() && !rule.keywords.is_empty());
            assert!(rule.keywords.iter().all(|word| word.len() >= 3));
        }
        for rule in set.into_rules() {
            assert!(rule.regex.get().is_some(), "{}", rule.id);
            assert!(rule.allow.iter().all(|allow| allow.get().is_some()));
        }
    }

    #[test]
    fn a_word_begins_after_what_is_no_part_of_it() {
        for before in [
            "",
            " ",
            "\"",
            "=",
            "é",
            "x\\n",
            "%3D",
            "\u{1b}[31m",
            "\u{1b}[1;31m",
            "\u{1b}[m",
        ] {
            assert!(is_word_boundary(before.as_bytes()), "{before:?}");
        }
        for before in ["a", "_", "-", "7", "n", "3D", "%zz", "31m", "m"] {
            assert!(!is_word_boundary(before.as_bytes()), "{before:?}");
        }
    }

    #[test]
    fn entropy_is_in_bits_per_character() {
        assert!(byte_entropy(b"aaaaaaaa").abs() < 1e-9);
        assert!((byte_entropy(b"abababab") - 1.0).abs() < 1e-9);
        assert!((byte_entropy(b"0123456789abcdef") - 4.0).abs() < 1e-9);
        assert!(byte_entropy(b"").abs() < 1e-9);
    }
}
