//! Finds the part at the end of a text that may become personal data together with the text that
//! follows: a number may arrive in several pieces.

use crate::edge;
use crate::numbers;
use crate::settings::PersonalDataKind;

/// Number of bytes after a piece of personal data that decide whether it ends there.
const LOOKAHEAD_BYTES: usize = 2;

/// Maximum number of bytes at the end of a text that are examined: those of the longest email
/// address and of the bytes after it.
const MAX_EXAMINED_TAIL_BYTES: usize = 64 + 1 + 253 + LOOKAHEAD_BYTES;

/// Returns the offset of the first possible beginning of personal data, at or after `from`, that
/// may continue after the end of `text`; the length of `text` if there is none.
pub(crate) fn find_unfinished_personal_data_start(
    text: &[u8],
    from: usize,
    kinds: &[PersonalDataKind],
) -> usize {
    let first = from.max(text.len().saturating_sub(MAX_EXAMINED_TAIL_BYTES));
    (first..text.len())
        .find(|at| {
            kinds
                .iter()
                .any(|kind| can_personal_data_continue_after_text(*kind, text, *at))
        })
        .unwrap_or(text.len())
}

/// Whether data of a kind may begin at `at`, and the text that follows `text` may continue it or
/// decide where it ends.
fn can_personal_data_continue_after_text(kind: PersonalDataKind, text: &[u8], at: usize) -> bool {
    let rest = &text[at..];
    let is_short = rest.len() < max_personal_data_bytes(kind) + LOOKAHEAD_BYTES;
    is_short
        && kind.may_begin_with(rest[0])
        && edge::can_personal_data_begin_at(text, at)
        && rest
            .iter()
            .all(|byte| can_personal_data_contain_byte(kind, *byte))
        && (kind != PersonalDataKind::Iban || numbers::can_be_iban_prefix(rest))
}

/// Returns the maximum length of personal data of a kind, in bytes, with separators.
fn max_personal_data_bytes(kind: PersonalDataKind) -> usize {
    match kind {
        PersonalDataKind::Card => 19 + 4,
        PersonalDataKind::Iban => 34 + 8,
        PersonalDataKind::Ssn => 11,
        // 15 digits, each with a separator or in parentheses.
        PersonalDataKind::Phone => 1 + 15 * 4,
        PersonalDataKind::Email => MAX_EXAMINED_TAIL_BYTES - LOOKAHEAD_BYTES,
        PersonalDataKind::Ipv4 => 16,
    }
}

/// Whether a byte may occur in data of a kind, or among the [`LOOKAHEAD_BYTES`] bytes after the
/// data that are examined with it.
fn can_personal_data_contain_byte(kind: PersonalDataKind, byte: u8) -> bool {
    let separators: &[u8] = match kind {
        PersonalDataKind::Card
        | PersonalDataKind::Ssn
        | PersonalDataKind::Iban
        | PersonalDataKind::Ipv4 => b" -.",
        PersonalDataKind::Phone => b" -.()+",
        PersonalDataKind::Email => b"._%+-@:",
    };
    let is_letter = match kind {
        PersonalDataKind::Iban => byte.is_ascii_uppercase(),
        PersonalDataKind::Email => byte.is_ascii_alphabetic(),
        _ => false,
    };
    byte.is_ascii_digit() || is_letter || separators.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_become_data_is_kept_back() {
        use PersonalDataKind::{Card, Email, Iban, Ipv4, Phone, Ssn};
        let usual: &[PersonalDataKind] = &[Card, Iban, Ssn];
        let table: &[(&[PersonalDataKind], &str, &str)] = &[
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
            let at = find_unfinished_personal_data_start(text.as_bytes(), 0, kinds);
            assert_eq!(&text[at..], *kept, "{text:?}");
        }
    }
}
