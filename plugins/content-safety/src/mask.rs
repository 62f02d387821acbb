//! Finds personal data in a text and replaces it with placeholders.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::settings::{PersonalDataKind, SafetySettings};
use crate::{addresses, edge, numbers, open};

/// Text in which personal data is masked, and the number of replacements.
#[derive(Debug)]
pub(crate) struct MaskedText {
    /// Text in which placeholders replace personal data.
    pub(crate) text: String,
    /// Number of replacements by kind.
    pub(crate) counts: BTreeMap<PersonalDataKind, usize>,
}

/// Masks the kinds of data that the settings name. Returns `None` if the text contains none of
/// them.
///
/// For example:
///
/// ```text
/// Card 4111 1111 1111 1111, SSN 219-45-6789    ->  Card [card masked], SSN [ssn masked]
/// Order 1234 is on its way.                    ->  none
/// ```
pub(crate) fn mask_text(text: &str, settings: &SafetySettings) -> Option<MaskedText> {
    let finds = find_personal_data(text, 0, settings);
    if finds.is_empty() {
        return None;
    }
    let mut counts = BTreeMap::new();
    for (_, kind) in &finds {
        *counts.entry(*kind).or_default() += 1;
    }
    Some(MaskedText {
        text: replace_found_data(text, 0, &finds),
        counts,
    })
}

/// An incomplete text with masked data. The end of the text is not shown yet if the text that
/// follows may decide whether it is masked.
#[derive(Debug)]
pub(crate) struct PartlyMaskedText {
    /// The masked text, including the end that is not shown yet; `None` if nothing was masked.
    pub(crate) text: Option<String>,
    /// Number of bytes at the end that are not shown yet, because they may become personal data
    /// together with the text that follows.
    pub(crate) kept: usize,
}

/// Masks data in `whole` that begins at or after `from`; the text before `from` was shown already.
/// `is_last` means that no text follows.
pub(crate) fn mask_streamed_text(
    whole: &str,
    from: usize,
    is_last: bool,
    settings: &SafetySettings,
) -> PartlyMaskedText {
    let mut finds = find_personal_data(whole, from, settings);
    let mut open = whole.len();
    if !is_last {
        open = open::find_unfinished_personal_data_start(whole.as_bytes(), from, &settings.mask);
        // If data begins before the end of the shown text and ends after it, show no part of it.
        let across = |(range, _): &&(Range<usize>, PersonalDataKind)| range.end > open;
        open = finds
            .iter()
            .find(across)
            .map_or(open, |(range, _)| open.min(range.start));
        finds.retain(|(range, _)| range.end <= open);
    }
    PartlyMaskedText {
        text: (!finds.is_empty()).then(|| replace_found_data(whole, from, &finds)),
        kept: whole.len() - open,
    }
}

/// Returns the text from `from` on, with a placeholder instead of each match in `finds`.
fn replace_found_data(
    text: &str,
    from: usize,
    finds: &[(Range<usize>, PersonalDataKind)],
) -> String {
    let mut masked = String::with_capacity(text.len() - from);
    let mut kept = from;
    for (range, kind) in finds {
        masked.push_str(&text[kept..range.start]);
        masked.push_str(kind.placeholder());
        kept = range.end;
    }
    masked.push_str(&text[kept..]);
    masked
}

/// Finds data that begins at or after `from`, in order and without overlaps.
fn find_personal_data(
    text: &str,
    from: usize,
    settings: &SafetySettings,
) -> Vec<(Range<usize>, PersonalDataKind)> {
    let mut kinds = settings.mask.clone();
    kinds.sort_unstable();
    let bytes = text.as_bytes();
    let mut finds = Vec::new();
    let mut at = from;
    while at < bytes.len() {
        let find = kinds
            .iter()
            .find_map(|kind| Some((find_personal_data_end(*kind, bytes, at)?, *kind)));
        let Some((end, kind)) = find else {
            at += 1;
            continue;
        };
        // Every pattern is ASCII, so both ends are character boundaries.
        if !settings
            .allow
            .iter()
            .any(|allowed| *allowed == text[at..end])
        {
            finds.push((at..end, kind));
        }
        at = end;
    }
    finds
}

/// Returns the end of the personal data of a kind that begins at `at`, if there is any.
fn find_personal_data_end(kind: PersonalDataKind, text: &[u8], at: usize) -> Option<usize> {
    if !kind.may_begin_with(text[at]) || !edge::can_personal_data_begin_at(text, at) {
        return None;
    }
    let end = match kind {
        PersonalDataKind::Card => numbers::find_card_end(text, at),
        PersonalDataKind::Iban => numbers::find_iban_end(text, at),
        PersonalDataKind::Ssn => numbers::find_ssn_end(text, at),
        PersonalDataKind::Email => addresses::find_email_end(text, at),
        PersonalDataKind::Phone => addresses::find_phone_end(text, at),
        PersonalDataKind::Ipv4 => addresses::find_ipv4_end(text, at),
    };
    end.filter(|end| edge::can_personal_data_end_at(text, *end))
}
