//! Boundaries of data, so that parts of hashes, versions, paths and identifiers are not mistaken
//! for personal data.

/// Whether data may begin at `at`: not within a word, a path, a version or a number with a
/// fraction.
pub(crate) fn begins_word(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| text.get(before)) else {
        return true;
    };
    !(is_word(*before) || b".-/\\+#%".contains(before))
}

/// Whether data may end before `at`: no word continues there, directly or after a dash or dot.
pub(crate) fn ends_word(text: &[u8], at: usize) -> bool {
    let goes_on = |at: usize| text.get(at).is_some_and(|byte| is_word(*byte));
    match text.get(at) {
        Some(b'-' | b'.') => !goes_on(at + 1),
        _ => !goes_on(at),
    }
}

/// Whether a byte is an ASCII letter, a digit or an underscore. Letters of other scripts do not
/// count: in Chinese a number follows a word without a space.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
