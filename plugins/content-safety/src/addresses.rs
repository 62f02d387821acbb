//! Contact data: email addresses, phone numbers, IPv4 addresses.
//!
//! Each function for a kind of data recognizes data that begins at `at` and returns its end.

/// Last labels of names that look like top-level domains but are file extensions or types of
/// systemd units.
const NON_DOMAIN_SUFFIXES: &[&str] = &[
    "gif", "ico", "jpeg", "jpg", "mount", "pdf", "png", "service", "slice", "socket", "svg",
    "target", "timer", "webp",
];

/// Maximum lengths of the local part and of the domain, in bytes.
const MAX_LOCAL_PART_AND_DOMAIN_BYTES: (usize, usize) = (64, 253);

/// Returns the end of an email address. `git@host:path` is not one.
pub(crate) fn find_email_end(text: &[u8], at: usize) -> Option<usize> {
    let local = count_bytes_while(text, at, MAX_LOCAL_PART_AND_DOMAIN_BYTES.0 + 1, |byte| {
        byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte)
    });
    let is_local = (1..=MAX_LOCAL_PART_AND_DOMAIN_BYTES.0).contains(&local)
        && text[at].is_ascii_alphanumeric()
        && text[at + local - 1] != b'.'
        && text.get(at + local) == Some(&b'@');
    if !is_local {
        return None;
    }
    let from = at + local + 1;
    let length = count_bytes_while(text, from, MAX_LOCAL_PART_AND_DOMAIN_BYTES.1 + 1, |byte| {
        byte.is_ascii_alphanumeric() || b".-".contains(&byte)
    });
    let domain = std::str::from_utf8(&text[from..from + length])
        .ok()?
        .trim_end_matches(['.', '-']);
    let labels: Vec<&str> = domain.split('.').collect();
    let last = labels.last()?;
    let end = from + domain.len();
    let is_domain = length <= MAX_LOCAL_PART_AND_DOMAIN_BYTES.1
        && labels.len() > 1
        && labels
            .iter()
            .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'))
        && last.len() > 1
        && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !NON_DOMAIN_SUFFIXES.contains(&last.to_ascii_lowercase().as_str());
    let is_remote = &text[at..at + local] == b"git" && text.get(end) == Some(&b':');
    (is_domain && !is_remote).then_some(end)
}

/// Returns the end of a phone number in international format: `+`, a calling code, 8 to 15 digits
/// in total.
pub(crate) fn find_phone_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'+') {
        return None;
    }
    let mut digits = Vec::new();
    let mut is_open = false;
    let mut gap = 0;
    let mut end = at + 1;
    for (offset, byte) in text[at + 1..].iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                digits.push(*byte);
                gap = 0;
                // An open bracket or a separator at the end is not part of the number.
                end = if is_open { end } else { at + offset + 2 };
            }
            b'(' if !digits.is_empty() && !is_open => is_open = true,
            b')' if is_open => {
                is_open = false;
                end = at + offset + 2;
            }
            b' ' | b'-' | b'.' if !digits.is_empty() && gap == 0 => gap += 1,
            _ => break,
        }
        if digits.len() > 15 {
            return None;
        }
    }
    ((8..=15).contains(&digits.len()) && has_country_calling_code(&digits)).then_some(end)
}

/// Whether a number begins with a calling code that is in use.
fn has_country_calling_code(digits: &[u8]) -> bool {
    matches!(
        digits,
        [b'1' | b'7', ..]
            | [b'2', b'0'..=b'7' | b'9', ..]
            | [b'3', _, ..]
            | [b'4', _, ..]
            | [b'5', _, ..]
            | [b'6', _, ..]
            | [b'8', b'0'..=b'2' | b'4'..=b'8', ..]
            | [b'9', _, ..]
    )
}

/// Returns the end of an IPv4 address that identifies a machine. Version numbers, and addresses
/// that mean the same on every machine (`127.0.0.1`, `0.0.0.0`, masks), do not count.
pub(crate) fn find_ipv4_end(text: &[u8], at: usize) -> Option<usize> {
    let length = count_bytes_while(text, at, 16, |byte| byte.is_ascii_digit() || byte == b'.');
    let address = std::str::from_utf8(&text[at..at + length])
        .ok()?
        .trim_end_matches('.');
    let parsed: std::net::Ipv4Addr = address.parse().ok()?;
    let is_everybodys = parsed.is_loopback() || matches!(parsed.octets(), [0 | 255, ..]);
    (!is_everybodys && !ends_in_version_word(&text[..at])).then_some(at + address.len())
}

/// Whether a text ends in a word that is usually followed by a version.
fn ends_in_version_word(before: &[u8]) -> bool {
    let tail = &before[before.len().saturating_sub(24)..];
    let tail = String::from_utf8_lossy(tail).to_ascii_lowercase();
    let operator = ["==", ">=", "<=", "~=", "^", "~"];
    let trimmed = tail.trim_end_matches([' ', ':', '=', '"', '\'', '`']);
    operator.iter().any(|it| tail.trim_end().ends_with(it))
        || ["version", "release"]
            .iter()
            .any(|word| trimmed.ends_with(word))
}

/// Counts the bytes from `at` on for which `fits` is true, at most `most`.
fn count_bytes_while(text: &[u8], at: usize, most: usize, fits: impl Fn(u8) -> bool) -> usize {
    text[at..]
        .iter()
        .take(most)
        .take_while(|byte| fits(**byte))
        .count()
}
