//! Finding personal data in a text and putting placeholders in its place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::settings::{Kind, Settings};
use crate::{addresses, edge, numbers};

/// A text with placeholders, and what they stand for.
#[derive(Debug)]
pub(crate) struct Masked {
    /// The text.
    pub(crate) text: String,
    /// How often each kind was masked.
    pub(crate) counts: BTreeMap<Kind, usize>,
}

/// Masks what the settings name. None when there is nothing of it.
pub(crate) fn mask(text: &str, settings: &Settings) -> Option<Masked> {
    let finds = find(text, settings);
    if finds.is_empty() {
        return None;
    }
    let mut masked = String::with_capacity(text.len());
    let mut counts = BTreeMap::new();
    let mut kept = 0;
    for (range, kind) in finds {
        masked.push_str(&text[kept..range.start]);
        masked.push_str(kind.placeholder());
        kept = range.end;
        *counts.entry(kind).or_default() += 1;
    }
    masked.push_str(&text[kept..]);
    Some(Masked {
        text: masked,
        counts,
    })
}

/// Where data is, in order and apart from each other.
fn find(text: &str, settings: &Settings) -> Vec<(Range<usize>, Kind)> {
    let mut kinds = settings.mask.clone();
    kinds.sort_unstable();
    let bytes = text.as_bytes();
    let mut finds = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let find = kinds
            .iter()
            .find_map(|kind| Some((end(*kind, bytes, at)?, *kind)));
        let Some((end, kind)) = find else {
            at += 1;
            continue;
        };
        // All that is looked for is ASCII, so both ends are between characters.
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

/// Where data of a kind ends that begins at `at`, if it does.
fn end(kind: Kind, text: &[u8], at: usize) -> Option<usize> {
    let first = text[at];
    let may_begin = match kind {
        Kind::Card | Kind::Ssn | Kind::Ipv4 => first.is_ascii_digit(),
        Kind::Iban => first.is_ascii_uppercase(),
        Kind::Email => first.is_ascii_alphanumeric(),
        Kind::Phone => first == b'+',
    };
    if !may_begin || !edge::begins(text, at) {
        return None;
    }
    let end = match kind {
        Kind::Card => numbers::card(text, at),
        Kind::Iban => numbers::iban(text, at),
        Kind::Ssn => numbers::ssn(text, at),
        Kind::Email => addresses::email(text, at),
        Kind::Phone => addresses::phone(text, at),
        Kind::Ipv4 => addresses::ipv4(text, at),
    };
    end.filter(|end| edge::ends(text, *end))
}
