//! Masks secrets of a request in its response, by replacing them with their names.
//!
//! A server that echoes the request would otherwise show a plugin its own credentials. The search
//! covers each secret and the whole header value, as plain text, percent-encoded, JSON-escaped,
//! hexadecimal, and Base64 at any alignment. Truncated secrets are found too, if at least half is
//! left, because servers quote shortened tokens (`invalid key abcd1234…`). This does not stop a
//! server that cooperates with the plugin: it knows the secret and can encode it in any other way.
//!
//! Start from [`CredentialMasker`].
//!
//! For example:
//!
//! ```text
//! sent:      authorization: Bearer s3cr3t/p+q=42
//! answer:    invalid key s3cr3t/p…                     ->  invalid key [masked: TOKEN]…
//! answer:    {"key": "s3cr3t%2Fp%2Bq%3D42"}            ->  {"key": "[masked: TOKEN]"}
//! ```

use std::fmt::Write as _;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::credential::SentSecret;
use super::error::{EgressErrorKind, Error};

/// Minimum length of a text that is searched, in bytes. A secret has at least eight, and its Base64
/// form loses a few at either end.
const MIN_SECRET_PATTERN_BYTES: usize = 8;

/// Maximum length of a secret for which all truncations are searched, in bytes; of a longer one,
/// only the shortest are.
const MAX_SECRET_BYTES_FOR_ALL_TRUNCATIONS: usize = 512;

/// Finds and masks the secrets that were sent in a request and in its redirects.
#[derive(Debug, Default)]
pub(super) struct CredentialMasker {
    used: Vec<SentSecret>,
    finder: Option<SecretFinder>,
}

#[derive(Debug)]
struct SecretFinder {
    patterns: AhoCorasick,
    /// Index in `CredentialMasker::used` of the secret to which each pattern belongs.
    of: Vec<usize>,
}

impl CredentialMasker {
    /// Adds secrets to search for, and rebuilds the search automaton.
    pub(super) fn add_secrets(&mut self, used: Vec<SentSecret>) -> Result<(), Error> {
        let is_new = used.iter().any(|new| !self.used.contains(new));
        if !is_new {
            return Ok(());
        }
        self.used.extend(used);
        let mut patterns = Vec::new();
        let mut of = Vec::new();
        for (at, used) in self.used.iter().enumerate() {
            let secret = used.secret.reveal();
            let mut all = list_secret_encodings(secret);
            if !used.is_whole {
                all.extend(list_truncated_secret_forms(secret));
            }
            all.retain(|pattern| pattern.len() >= MIN_SECRET_PATTERN_BYTES);
            of.extend(all.iter().map(|_| at));
            patterns.extend(all);
        }
        let patterns = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The digits of percent-encoding and hexadecimal may be in upper or lower case.
            .ascii_case_insensitive(true)
            // The automatic choice can be a DFA with a table row per byte of each pattern: half a
            // gigabyte for long secrets.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .map_err(|_| {
                let text =
                    "the secrets of the request cannot be masked in its answer, so the request is not sent";
                Error::new(EgressErrorKind::Credential, text)
            })?;
        self.finder = Some(SecretFinder { patterns, of });
        Ok(())
    }

    /// Whether there are no secrets that must be masked in the response.
    pub(super) fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Returns the ranges of secrets in `bytes`, each with the name of the secret.
    fn find_secrets<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (Range<usize>, &'a str)> {
        let finder = self.finder.iter();
        finder.flat_map(move |finder| {
            finder.patterns.find_iter(bytes).filter_map(|found| {
                let at = finder.of.get(found.pattern().as_usize())?;
                Some((found.range(), self.used.get(*at)?.name.as_str()))
            })
        })
    }

    /// Returns the name of the first secret that occurs in `bytes`.
    pub(super) fn first_secret_name<'a>(&'a self, bytes: &'a [u8]) -> Option<&'a str> {
        self.find_secrets(bytes).next().map(|(_, name)| name)
    }

    /// Returns `bytes` with the secrets masked; `None` if there are none. Secrets are also found in
    /// JSON, where any character may be escaped.
    pub(super) fn mask_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let plain = unescape_ascii(bytes);
        match plain.filter(|plain| self.first_secret_name(plain).is_some()) {
            Some(plain) => self.mask_plain_secrets(&plain),
            None => self.mask_plain_secrets(bytes),
        }
    }

    fn mask_plain_secrets(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut masked = Vec::new();
        let mut done = 0;
        for (range, name) in self.find_secrets(bytes) {
            masked.extend_from_slice(bytes.get(done..range.start)?);
            masked.extend_from_slice(format!("[masked: {name}]").as_bytes());
            done = range.end;
        }
        if done == 0 {
            return None;
        }
        masked.extend_from_slice(bytes.get(done..)?);
        Some(masked)
    }

    pub(super) fn mask_text(&self, text: &str) -> String {
        match self.mask_bytes(text.as_bytes()) {
            Some(masked) => String::from_utf8_lossy(&masked).into_owned(),
            None => text.to_owned(),
        }
    }

    /// Replaces secrets in the text of an error.
    pub(super) fn mask_error(&self, error: Error) -> Error {
        Error {
            text: self.mask_text(&error.text),
            ..error
        }
    }
}

/// Replaces escapes such as `\u0074` of printable ASCII characters in JSON by the characters.
/// Returns `None` if there are no such escapes. Quotes and backslashes stay escaped, so that the
/// meaning of the JSON does not change.
fn unescape_ascii(bytes: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(bytes, b"\\u00")?;
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let code = rest.strip_prefix(b"\\u00").and_then(|code| code.get(..2));
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        let n_taken = match code {
            Some(byte @ b' '..=b'~') => {
                if matches!(byte, b'"' | b'\\') {
                    plain.push(b'\\');
                }
                plain.push(byte);
                6
            }
            // A backslash and the character after it are one escape, and are copied together.
            _ if *first == b'\\' => {
                plain.extend(rest.iter().take(2));
                2
            }
            _ => {
                plain.push(*first);
                rest = after;
                continue;
            }
        };
        rest = rest.get(n_taken..).unwrap_or_default();
    }
    Some(plain)
}

fn list_secret_encodings(secret: &str) -> Vec<String> {
    let percent = |is_kept: fn(u8) -> bool| {
        let mut text = String::new();
        for byte in secret.bytes() {
            if is_kept(byte) {
                text.push(char::from(byte));
            } else {
                let _ = write!(text, "%{byte:02x}");
            }
        }
        text
    };
    let mut hex = String::new();
    for byte in secret.bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    let json = serde_json::to_string(secret).unwrap_or_default();
    let json = json.trim_start_matches('"');
    let json = json.strip_suffix('"').unwrap_or(json).to_owned();
    let mut all = vec![
        secret.to_owned(),
        json.replace('/', "\\/"),
        json,
        // Percent-encodings, which differ in the characters that they leave unencoded: those of
        // `encodeURIComponent`, form encoding, RFC 3986 and `encodeURI`, and stricter ones.
        percent(|b| b.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&b)),
        percent(|b| b.is_ascii_alphanumeric() || b"-_.*".contains(&b)),
        percent(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b)),
        percent(|b| b.is_ascii_alphanumeric() || b"-_.!~*'();/?:@&=+$,#".contains(&b)),
        percent(|b| b.is_ascii_alphanumeric()),
        percent(|b| b.is_ascii_alphanumeric() || b"-_.~ ".contains(&b)).replace(' ', "+"),
        percent(|_| false),
        hex,
    ];
    for before in 0..3 {
        let plain = encode_base64_after_prefix(secret.as_bytes(), before);
        all.push(plain.replace('+', "-").replace('/', "_"));
        all.push(plain);
    }
    all.sort();
    all.dedup();
    all
}

/// Returns the truncations of a secret: every prefix and suffix of at least half its length. A
/// secret of more than [`MAX_SECRET_BYTES_FOR_ALL_TRUNCATIONS`] yields only the shortest of each,
/// because all suffixes together need memory quadratic in the length.
///
/// For example:
///
/// ```text
/// abcdefgh    ->  abcd, efgh, abcde, defgh, abcdef, cdefgh, abcdefg, bcdefgh
/// ```
fn list_truncated_secret_forms(secret: &str) -> Vec<String> {
    let half = secret.len().div_ceil(2);
    let n_cuts = if secret.len() <= MAX_SECRET_BYTES_FOR_ALL_TRUNCATIONS {
        secret.len() - half
    } else {
        1
    };
    let kept = half..half + n_cuts;
    let pieces = kept.flat_map(|length| {
        let beginning = secret.get(..length);
        let end = secret.get(secret.len() - length..);
        [beginning, end]
    });
    pieces.flatten().map(str::to_owned).collect()
}

/// Returns the part of the Base64 encoding that depends only on `bytes`, if `n_before` other bytes
/// (0 to 2) precede them in the first group of three.
fn encode_base64_after_prefix(bytes: &[u8], n_before: usize) -> String {
    let mut padded = vec![0; n_before];
    padded.extend_from_slice(bytes);
    let n_whole = padded.len() * 8 / 6;
    let first = (n_before * 8).div_ceil(6);
    let text = STANDARD_NO_PAD.encode(padded);
    text.get(first..n_whole).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::credential::Secret;
    use super::*;

    const SECRET: &str = "s3cr3t/\"p+q\"=42";

    fn used(secret: &str, is_whole: bool) -> SentSecret {
        SentSecret {
            name: "TOKEN".to_owned(),
            secret: Secret::new(secret),
            is_whole,
        }
    }

    fn mask() -> CredentialMasker {
        let mut mask = CredentialMasker::default();
        let whole = used(&format!("Bearer {SECRET}"), true);
        mask.add_secrets(vec![used(SECRET, false), whole]).unwrap();
        mask
    }

    #[test]
    fn a_secret_is_found_in_every_spelling() {
        let table = [
            ("a s3cr3t/\"p+q\"=42 b", "a [masked: TOKEN] b"),
            ("Bearer s3cr3t/\"p+q\"=42", "[masked: TOKEN]"),
            ("S3CR3T/\"P+Q\"=42", "[masked: TOKEN]"),
            (r#"{"t":"s3cr3t/\"p+q\"=42"}"#, r#"{"t":"[masked: TOKEN]"}"#),
            (
                r#"{"t":"s3cr3t\/\"p+q\"=42"}"#,
                r#"{"t":"[masked: TOKEN]"}"#,
            ),
            (
                r#"{"t":"\u00733cr3t\u002f\u0022p+q\"=\u0034\u0032"}"#,
                r#"{"t":"[masked: TOKEN]"}"#,
            ),
            (r#"{"t":"\\u0073"}"#, r#"{"t":"\\u0073"}"#),
            ("s3cr3t%2F%22p%2Bq%22%3D42", "[masked: TOKEN]"),
            ("s3cr3t%2f%22p%2bq%22%3d42", "[masked: TOKEN]"),
            ("x=s3cr3t/%22p+q%22=42&y", "x=[masked: TOKEN]&y"),
            ("7333637233742f22702b71223d3432", "[masked: TOKEN]"),
            // Secrets of which at least half remains, from either end.
            (
                "your key s3cr3t/\"… is wrong",
                "your key [masked: TOKEN]… is wrong",
            ),
            ("…/\"p+q\"=42", "…[masked: TOKEN]"),
            ("s3cr3t/\"p+q", "[masked: TOKEN]"),
            ("s3cr3t", "s3cr3t"),
            ("Bearer realm", "Bearer realm"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(mask().mask_text(text), expected, "{text}");
        }
        let both = format!("{SECRET}{SECRET}");
        assert_eq!(mask().mask_text(&both), "[masked: TOKEN][masked: TOKEN]");
        assert_eq!(mask().mask_bytes(b"\xff\x00plain"), None);
        assert_eq!(mask().first_secret_name(both.as_bytes()), Some("TOKEN"));
    }

    #[test]
    fn base64_is_found_wherever_the_secret_begins_in_it() {
        assert_eq!(encode_base64_after_prefix(b"any", 0), "YW55");
        for before in ["", "a", "ab", "abc", "user:", "{\"header\":\""] {
            for after in ["", "x", "xy", "xyz"] {
                let text = STANDARD_NO_PAD.encode(format!("{before}{SECRET}{after}"));
                let masked = mask().mask_text(&text);
                assert!(
                    masked.contains("[masked: TOKEN]"),
                    "{before} {after}: {masked}"
                );
                // At each end, at most the bits shared with neighboring bytes remain.
                let left = masked.replace("[masked: TOKEN]", "").len();
                assert!(left <= (before.len() + after.len()) * 8 / 6 + 4, "{masked}");
            }
        }
    }

    #[test]
    fn without_secrets_nothing_is_touched() {
        let mut mask = CredentialMasker::default();
        mask.add_secrets(Vec::new()).unwrap();
        assert!(mask.is_empty());
        assert_eq!(mask.mask_bytes(b"anything"), None);
    }

    #[test]
    fn long_secrets_are_found_with_little_memory() {
        let secret: String = (0..500).map(|i| format!("{:x}/+", i * i)).collect();
        let mut mask = CredentialMasker::default();
        let secrets = [secret.clone(), secret.repeat(4)];
        let all = secrets.iter().map(|secret| used(secret, false));
        mask.add_secrets(all.collect()).unwrap();
        let taken = mask.finder.as_ref().unwrap().patterns.memory_usage();
        assert!(taken < 16 << 20, "{taken} bytes");
        assert_eq!(mask.mask_text(&secret), "[masked: TOKEN]");
    }
}
