//! Checks the characters before and after possible personal data, so that parts of hashes,
//! versions, paths and identifiers are not mistaken for such data.

/// Whether data may begin at `at`: not within a word, a path, a version or a number with a
/// fraction.
pub(crate) fn can_personal_data_begin_at(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| text.get(before)) else {
        return true;
    };
    !(is_word_byte(*before) || b".-/\\+#%".contains(before))
}

/// Whether personal data may end right before the offset `at`: no word character follows, neither
/// directly nor after a dash or a dot.
pub(crate) fn can_personal_data_end_at(text: &[u8], at: usize) -> bool {
    let goes_on = |at: usize| text.get(at).is_some_and(|byte| is_word_byte(*byte));
    match text.get(at) {
        Some(b'-' | b'.') => !goes_on(at + 1),
        _ => !goes_on(at),
    }
}

/// Whether a byte is an ASCII letter, a digit or an underscore. Letters of other scripts do not
/// count: in Chinese a number follows a word without a space.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
