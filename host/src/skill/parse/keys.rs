//! Lists the keys of a front matter, and guesses the intended key of a misspelled one.
//!
//! A misspelled key that resembles a restricting one is a fault, because ignoring the key would
//! loosen the restriction.

use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontMatterKeyKind {
    /// Key that restricts the skill or grants it rights. A misspelling of it is a fault.
    Rights,
    /// Key that only describes the skill. A misspelling of it causes a warning.
    Text,
    /// Known key that has no effect in this program, with the reason.
    Ignored(&'static str),
}

use FrontMatterKeyKind::{Ignored, Rights, Text};

pub(super) const KNOWN_SKILL_KEYS: &[(&str, FrontMatterKeyKind)] = &[
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

/// Returns the known keys of a front matter that have an effect.
pub fn list_known_keys() -> impl Iterator<Item = &'static str> {
    let honoured = KNOWN_SKILL_KEYS
        .iter()
        .filter(|(_, weight)| !matches!(weight, Ignored(_)));
    honoured.map(|(key, _)| *key)
}

/// Alternative spellings, in normal form, of the keys that restrict tools, with the key that is
/// meant. The specification writes two of them as `tools.allow` and `tools.deny`.
const ALTERNATIVE_TOOL_KEY_SPELLINGS: &[(&str, &str)] = &[
    ("allow", "tools"),
    ("allowed", "tools"),
    ("allowtools", "tools"),
    ("blockedtools", "disallowed-tools"),
    ("denied", "disallowed-tools"),
    ("deniedtools", "disallowed-tools"),
    ("deny", "disallowed-tools"),
    ("denytools", "disallowed-tools"),
    ("disabledtools", "disallowed-tools"),
    ("disallow", "disallowed-tools"),
    ("disallowed", "disallowed-tools"),
    ("excludedtools", "disallowed-tools"),
    ("forbiddentools", "disallowed-tools"),
    ("toolsallow", "tools"),
    ("toolsdeny", "disallowed-tools"),
];

pub(super) fn find_key_kind(key: &str) -> Option<FrontMatterKeyKind> {
    KNOWN_SKILL_KEYS
        .iter()
        .find(|(known, _)| *known == key)
        .map(|(_, weight)| *weight)
}

/// Known keys, each as normal form, key and kind.
static NORMALIZED_KNOWN_KEYS: LazyLock<Vec<(String, &'static str, FrontMatterKeyKind)>> =
    LazyLock::new(|| {
        let keys = KNOWN_SKILL_KEYS
            .iter()
            .map(|(key, weight)| (normalize_key(key), *key, *weight));
        keys.collect()
    });

/// Returns the known key that an unknown one resembles; keys that restrict take precedence.
pub(super) fn find_similar_key(key: &str) -> Option<(&'static str, FrontMatterKeyKind)> {
    let plain = normalize_key(key);
    if let Some((_, known)) = ALTERNATIVE_TOOL_KEY_SPELLINGS
        .iter()
        .find(|(other, _)| *other == plain)
    {
        return Some((known, Rights));
    }
    let mut near: Vec<(usize, bool, &'static str, FrontMatterKeyKind)> = NORMALIZED_KNOWN_KEYS
        .iter()
        // The time to compute the distance grows with the product of the lengths, so skip keys of
        // very different length.
        .filter(|(known, ..)| known.len().abs_diff(plain.len()) <= 2)
        .filter_map(|(known_plain, known, weight)| {
            let distance = strsim::damerau_levenshtein(&plain, known_plain);
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

/// Returns the normal form of a key, without case, separators and invisible characters:
/// `allowedTools`, `Allowed_Tools` and `allowed-tools` are equal.
fn normalize_key(key: &str) -> String {
    let key = super::super::name::normalize_skill_name(key);
    key.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' ' | '.'))
        .collect()
}
