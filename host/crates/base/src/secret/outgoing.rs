//! Checks requests before they are sent to the network. A request that contains a secret is
//! refused, because a sent secret cannot be recalled.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{Engine as _, alphabet};
use percent_encoding::percent_decode;

use super::SecretScanner;

/// Maximum size of a part in which base64 is decoded before the scan, in bytes. It is enough for
/// URLs, headers and form fields; base64 in a larger part is usually a file.
const MAX_BASE64_DECODED_PART_BYTES: usize = 64 << 10;

/// Minimum length of a run of base64 characters that can encode a secret.
const MIN_SECRET_BASE64_RUN: usize = 24;

/// Checks the parts of a request. Each part has a label such as `URL`, `header x-note` or `body`.
/// The error names parts and rules, never the secret. Percent-encoding is decoded before the scan,
/// and in parts of at most 64 KiB also base64.
pub fn check_request_for_secrets(parts: &[(&str, &[u8])]) -> Result<(), String> {
    let mut said = Vec::new();
    for (what, bytes) in parts {
        let rules = matching_secret_rules(bytes);
        if !rules.is_empty() {
            let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
            said.push(format!("the {what} ({})", rules.join(", ")));
        }
    }
    if said.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} contains a secret; let the host add credentials: list them under `network.credentials` in the manifest",
        said.join(" and ")
    ))
}

fn matching_secret_rules(bytes: &[u8]) -> BTreeSet<Arc<str>> {
    let mut rules = BTreeSet::new();
    let mut scan = |bytes: &[u8]| {
        let found = SecretScanner::shared().find_secrets(&String::from_utf8_lossy(bytes));
        rules.extend(found.into_iter().map(|finding| finding.rule));
    };
    scan(bytes);
    let decoded = decode_percent_encoding(bytes);
    if let Some(decoded) = &decoded {
        scan(decoded);
    }
    let plain = decoded.as_deref().unwrap_or(bytes);
    if plain.len() <= MAX_BASE64_DECODED_PART_BYTES {
        for run in plain.split(|byte| !is_base64_byte(*byte)) {
            if run.len() >= MIN_SECRET_BASE64_RUN {
                // Try all four alignments, because characters before the encoded text can be part
                // of the run, for example a `/` between path segments.
                (0..4).for_each(|shift| scan(&decode_base64(run.get(shift..).unwrap_or_default())));
            }
        }
    }
    rules
}

/// Decodes percent-encoding, such as `%41` to `A`; `None` if there is nothing to decode.
fn decode_percent_encoding(bytes: &[u8]) -> Option<Vec<u8>> {
    match Cow::from(percent_decode(bytes)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(decoded) => Some(decoded),
    }
}

/// Decoder for base64 text that may be truncated after any character.
const TRUNCATED_BASE64_DECODER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    NO_PAD.with_decode_allow_trailing_bits(true),
);

/// Whether a byte is a character of standard or URL-safe base64.
fn is_base64_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-/_".contains(&byte)
}

fn decode_base64(run: &[u8]) -> Vec<u8> {
    // If a single character follows the last group of four, drop it: one character encodes less
    // than a byte.
    let run = run.get(..run.len() - usize::from(run.len() % 4 == 1));
    let standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => *byte,
    };
    let run: Vec<u8> = run.unwrap_or_default().iter().map(standard).collect();
    TRUNCATED_BASE64_DECODER.decode(run).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_both_alphabets() {
        let table = [
            ("YW55", "any"),
            ("YW55IA", "any "),
            ("YW55IGM", "any c"),
            ("", ""),
        ];
        for (base64, text) in table {
            assert_eq!(decode_base64(base64.as_bytes()), text.as_bytes());
        }
        assert_eq!(decode_base64(b"_-8"), decode_base64(b"/+8"));
    }
}
