//! The keys of a front matter, and what an unknown one was probably meant to be.

/// Weight of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// A key that restricts or grants: one that is misspelt is a fault.
    Rights,
    /// A key that describes.
    Text,
    /// A known key without effect here, with the reason.
    Ignored(&'static str),
}

use Weight::{Ignored, Rights, Text};

pub(super) const KEYS: &[(&str, Weight)] = &[
    ("agent", Text),
    ("allowed-tools", Rights),
    ("argument-hint", Text),
    ("arguments", Rights),
    ("attach", Rights),
    (
        "background",
        Ignored("a forked skill is waited for; work beside the conversation is not part of skills"),
    ),
    ("compatibility", Text),
    ("context", Rights),
    ("description", Text),
    ("disable-model-invocation", Rights),
    ("disallowed-tools", Rights),
    ("effort", Text),
    ("generated_from", Text),
    (
        "hooks",
        Ignored(
            "hooks of skills are never run; a plugin or the operator's settings can have hooks",
        ),
    ),
    ("interaction", Text),
    ("library_depends", Text),
    ("license", Text),
    ("metadata", Text),
    ("model", Text),
    ("model_invocation", Rights),
    ("name", Text),
    ("paths", Rights),
    ("requires", Text),
    (
        "shell",
        Ignored("commands in the text of a skill are never run"),
    ),
    ("side_effects", Rights),
    ("skill_format", Rights),
    ("tools", Rights),
    ("trust", Rights),
    ("user-invocable", Rights),
    ("version", Text),
    ("when_to_use", Text),
];

/// Returns the keys that a front matter may have and that have an effect.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    let honoured = KEYS
        .iter()
        .filter(|(_, weight)| !matches!(weight, Ignored(_)));
    honoured.map(|(key, _)| *key)
}

pub(super) fn weight(key: &str) -> Option<Weight> {
    KEYS.iter()
        .find(|(known, _)| *known == key)
        .map(|(_, weight)| *weight)
}

/// The known key that an unknown one looks like, the weightier one first.
pub(super) fn meant(key: &str) -> Option<(&'static str, Weight)> {
    // Far longer than any key, and comparing takes the product of the lengths.
    if key.len() > 80 {
        return None;
    }
    let plain = plain(key);
    let mut near: Vec<(usize, bool, &'static str, Weight)> = KEYS
        .iter()
        .filter_map(|(known, weight)| {
            let known_plain = self::plain(known);
            let distance = strsim::damerau_levenshtein(&plain, &known_plain);
            let most = match known_plain.len() {
                ..=4 => 0,
                5..=7 => 1,
                _ => 2,
            };
            (distance <= most).then_some((distance, *weight != Rights, *known, *weight))
        })
        .collect();
    near.sort_by_key(|(distance, is_text, ..)| (*is_text, *distance));
    near.first().map(|(.., key, weight)| (*key, *weight))
}

/// A key without case, separators and what cannot be seen: `allowedTools`, `Allowed_Tools` and `allowed-tools` are one.
fn plain(key: &str) -> String {
    let key = super::super::name::key(key);
    key.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' ' | '.'))
        .collect()
}
