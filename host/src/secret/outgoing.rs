//! Requests that leave for the network: refused when they carry a secret, because nobody can take it out again behind them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scanner;

/// Size up to which parts are also scanned through base64: every URL and header, and form fields. In a large body base64 is a
/// file.
const MAX_BASE64_BYTES: usize = 64 << 10;

/// The shortest run of base64 that could hold a secret, in characters.
const MIN_RUN: usize = 24;

/// Checks the parts of a request, each with what it is: `URL`, `header x-note`, `body`. The error names the parts and the
/// rules, never the secret. Percent-encoding is seen through, and base64 in parts up to 64 KiB.
pub fn check_outgoing(parts: &[(&str, &[u8])]) -> Result<(), String> {
    let mut said = Vec::new();
    for (what, bytes) in parts {
        let rules = rules_in(bytes);
        if !rules.is_empty() {
            let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
            said.push(format!("the {what} ({})", rules.join(", ")));
        }
    }
    if said.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a secret would leave in {}; credentials are added by the host, from what the manifest lists under `network.credentials`",
        said.join(" and ")
    ))
}

fn rules_in(bytes: &[u8]) -> BTreeSet<Arc<str>> {
    let mut rules = BTreeSet::new();
    let mut scan = |bytes: &[u8]| {
        let found = Scanner::shared().scan(&String::from_utf8_lossy(bytes));
        rules.extend(found.into_iter().map(|finding| finding.rule));
    };
    scan(bytes);
    let decoded = percent_decoded(bytes);
    if let Some(decoded) = &decoded {
        scan(decoded);
    }
    let plain = decoded.as_deref().unwrap_or(bytes);
    if plain.len() <= MAX_BASE64_BYTES {
        for run in plain.split(|byte| sextet(*byte).is_none()) {
            if run.len() >= MIN_RUN {
                // What stands before it in the run (`/` divides a path and is a character of base64) shifts it.
                (0..4)
                    .for_each(|shift| scan(&base64_decoded(run.get(shift..).unwrap_or_default())));
            }
        }
    }
    rules
}

/// The bytes with `%41` as `A`; `None` when there is nothing to decode.
fn percent_decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.contains(&b'%') {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
            && let Ok(byte) = u8::try_from(high * 16 + low)
        {
            decoded.push(byte);
            rest = after;
        } else {
            decoded.push(*first);
            rest = tail;
        }
    }
    Some(decoded)
}

/// The value of a character of base64, in either alphabet.
fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

fn base64_decoded(run: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(run.len() * 3 / 4);
    for four in run.chunks(4) {
        let mut bits = 0_u32;
        for byte in four {
            bits = bits << 6 | u32::from(sextet(*byte).unwrap_or_default());
        }
        bits <<= 6 * (4 - four.len());
        let [_, bytes @ ..] = bits.to_be_bytes();
        decoded.extend_from_slice(bytes.get(..four.len() * 6 / 8).unwrap_or_default());
    }
    decoded
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
            assert_eq!(base64_decoded(base64.as_bytes()), text.as_bytes());
        }
        assert_eq!(base64_decoded(b"_-8"), base64_decoded(b"/+8"));
    }
}
