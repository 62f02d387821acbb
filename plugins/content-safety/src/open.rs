//! Finds the part at the end of a text that may become personal data together with the text that
//! follows: a number may arrive in several pieces.

use crate::edge;
use crate::numbers;
use crate::settings::DataKind;

/// Number of bytes after a piece of personal data that decide whether it ends there.
const BEHIND: usize = 2;

/// Maximum number of bytes at the end of a text that are examined: those of the longest email
/// address and of the bytes after it.
const LONGEST: usize = 64 + 1 + 253 + BEHIND;

/// Returns the offset of the first possible beginning of personal data, at or after `from`, that
/// may continue after the end of `text`; the length of `text` if there is none.
pub(crate) fn unfinished_data_start(text: &[u8], from: usize, kinds: &[DataKind]) -> usize {
    let first = from.max(text.len().saturating_sub(LONGEST));
    (first..text.len())
        .find(|at| kinds.iter().any(|kind| may_data_continue(*kind, text, *at)))
        .unwrap_or(text.len())
}

/// Whether data of a kind may begin at `at`, and the text that follows `text` may continue it or
/// decide where it ends.
fn may_data_continue(kind: DataKind, text: &[u8], at: usize) -> bool {
    let rest = &text[at..];
    let is_short = rest.len() < max_data_length(kind) + BEHIND;
    is_short
        && kind.may_begin_with(rest[0])
        && edge::may_data_begin_at(text, at)
        && rest.iter().all(|byte| may_be_data_byte(kind, *byte))
        && (kind != DataKind::Iban || numbers::may_be_iban(rest))
}

/// Returns the maximum length of personal data of a kind, in bytes, with separators.
fn max_data_length(kind: DataKind) -> usize {
    match kind {
        DataKind::Card => 19 + 4,
        DataKind::Iban => 34 + 8,
        DataKind::Ssn => 11,
        // 15 digits, each with a separator or in parentheses.
        DataKind::Phone => 1 + 15 * 4,
        DataKind::Email => LONGEST - BEHIND,
        DataKind::Ipv4 => 16,
    }
}

/// Whether a byte may occur in data of a kind, or among the [`BEHIND`] bytes after the data that
/// are examined with it.
fn may_be_data_byte(kind: DataKind, byte: u8) -> bool {
    let separators: &[u8] = match kind {
        DataKind::Card | DataKind::Ssn | DataKind::Iban | DataKind::Ipv4 => b" -.",
        DataKind::Phone => b" -.()+",
        DataKind::Email => b"._%+-@:",
    };
    let is_letter = match kind {
        DataKind::Iban => byte.is_ascii_uppercase(),
        DataKind::Email => byte.is_ascii_alphabetic(),
        _ => false,
    };
    byte.is_ascii_digit() || is_letter || separators.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_become_data_is_kept_back() {
        use DataKind::{Card, Email, Iban, Ipv4, Phone, Ssn};
        let usual: &[DataKind] = &[Card, Iban, Ssn];
        let table: &[(&[DataKind], &str, &str)] = &[
            (usual, "Hello", ""),
            (usual, "see line 42", "42"),
            (usual, "see line 42,", ""),
            (usual, "it is 4111 1111 11", "4111 1111 11"),
            (usual, "it is 4111 1111 1111 1111.", "4111 1111 1111 1111."),
            (
                usual,
                "it is 4111 1111 1111 1111. ",
                "4111 1111 1111 1111. ",
            ),
            (usual, "it is 4111 1111 1111 1111. b", ""),
            (usual, "a hash 9f4111", ""),
            (usual, "to DE", "DE"),
            (usual, "to DE89 37", "DE89 37"),
            (usual, "an API", ""),
            (usual, "DEAR", ""),
            (usual, "number 123456789012345678901234567890", ""),
            (&[Email], "write to joe", "joe"),
            (&[Email], "write to joe@exam", "joe@exam"),
            (&[Email], "write to ", ""),
            (&[Phone], "call +1 (650", "+1 (650"),
            (&[Ipv4], "at 10.1.2", "10.1.2"),
            (&[], "4111 1111", ""),
        ];
        for (kinds, text, kept) in table {
            let at = unfinished_data_start(text.as_bytes(), 0, kinds);
            assert_eq!(&text[at..], *kept, "{text:?}");
        }
    }
}
