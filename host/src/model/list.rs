//! The built-in table of models, and the lookup by name.
//!
//! The values are those that the vendors published. They were compared with the model table of
//! litellm 1.110.2 in the month of [`LIST_DATE`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{ModelProfile, Price, Table};

/// Month in which the built-in table of models was compiled.
pub const LIST_DATE: &str = "2026-11";

/// Table of models in JSON. Prices are list prices, without batch discounts and long-context
/// surcharges, and with the cheaper of two cache write prices, so the reported cost is never higher
/// than the real one.
const MODEL_LIST_JSON: &str = include_str!("list.json");

#[derive(Debug, Default, Deserialize)]
struct ModelList {
    /// Profiles of models by the prefix of their names.
    models: Table,
    /// Families of models, each with a lower-case substring of its models' names; the first match
    /// applies.
    families: Vec<ModelFamily>,
}

#[derive(Debug, Deserialize)]
struct ModelFamily {
    contains: String,
    /// Whether the models of the family accept images; `None` if it is not known.
    images: Option<bool>,
}

fn built_in_model_list() -> &'static ModelList {
    static PARSED_MODEL_LIST: LazyLock<ModelList> =
        LazyLock::new(|| serde_json::from_str(MODEL_LIST_JSON).unwrap_or_default());
    &PARSED_MODEL_LIST
}

/// Returns the profile of a model from the table; values that the table lacks are unknown.
pub(super) fn find_profile(model: &str) -> ModelProfile {
    let plain = normalize_model_name(model);
    let known = find_longest_prefix_entry(&plain, &built_in_model_list().models)
        .cloned()
        .unwrap_or_default();
    let lower = plain.to_ascii_lowercase();
    let families = &mut built_in_model_list().families.iter();
    let family = families.find(|family| lower.contains(&family.contains));
    known.or(ModelProfile {
        images: family.and_then(|family| family.images),
        ..ModelProfile::default()
    })
}

/// Returns the list price of a model; `None` if the built-in table has none.
pub(crate) fn find_price(model: &str) -> Option<Price> {
    find_longest_prefix_entry(&normalize_model_name(model), &built_in_model_list().models)?.price
}

/// Returns the names of the models in the built-in table.
pub(crate) fn model_names() -> impl Iterator<Item = &'static String> {
    built_in_model_list().models.keys()
}

/// Returns the table entry for a model: the entry with the longest name that the model name begins
/// with, if only a version follows. A longer name without a version may be a model with another
/// price, and an unknown price is better than a wrong one.
///
/// For example:
///
/// ```text
/// gpt-5-2025-08-07        ->  the entry gpt-5
/// gpt-5-mini              ->  the entry gpt-5-mini
/// gpt-4o-audio-preview    ->  none: `-audio-preview` is no version
/// ```
pub(crate) fn find_longest_prefix_entry<'a, T>(
    model: &str,
    table: &'a BTreeMap<String, T>,
) -> Option<&'a T> {
    let fitting = table.iter().filter(|(name, _)| {
        model
            .strip_prefix(name.as_str())
            .is_some_and(is_version_suffix)
    });
    fitting
        .max_by_key(|(name, _)| name.len())
        .map(|(_, value)| value)
}

/// Whether the rest of a model name after the prefix is empty, or a separator and a version: a
/// date, `latest` or `preview`.
fn is_version_suffix(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@', ':']) else {
        return rest.is_empty();
    };
    // `claude-opus-4-7` is not a version of `claude-opus-4`: dates have eight digits.
    let n_digits = version.bytes().filter(u8::is_ascii_digit).count();
    let is_date = n_digits == 8 && version.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    is_date || matches!(version, "latest" | "preview")
}

/// Normalizes a model name: removes the vendor prefix of resellers and, in names of Anthropic,
/// replaces `.` with `-`. Bedrock writes `us.anthropic.claude-opus-4-5-20251101-v1:0`.
///
/// For example:
///
/// ```text
/// anthropic/claude-3.5-sonnet                    ->  claude-3-5-sonnet
/// us.anthropic.claude-opus-4-5-20251101-v1:0     ->  claude-opus-4-5-20251101
/// openai/o3-pro                                  ->  o3-pro
/// ```
fn normalize_model_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name
        .split_once("anthropic.")
        .map_or(name, |(_, name)| name.split("-v1").next().unwrap_or(name));
    if name.starts_with("claude") {
        name.replace('.', "-")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Models;

    fn default_model_profile(model: &str) -> ModelProfile {
        Models::default().model_profile(model, ModelProfile::default())
    }

    #[test]
    fn models_are_found_with_their_date_and_with_a_vendor_before_them() {
        for (model, expected) in [
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-sonnet-4-5", Some(3.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-5@20251101", Some(5.0)),
            ("us.anthropic.claude-opus-4-5-20251101-v1:0", Some(5.0)),
            ("claude-3-5-haiku-latest", Some(0.8)),
            ("anthropic/claude-3.5-sonnet", Some(3.0)),
            ("gpt-5-2025-08-07", Some(1.25)),
            ("claude-opus-5-5", Some(4.0)),
            ("claude-opus-5", Some(5.0)),
            ("gpt-5-mini", Some(0.25)),
            ("gpt-4o-2024-05-13", Some(5.0)),
            ("gpt-4o-2024-11-20", Some(2.5)),
            ("openai/o3-pro", Some(20.0)),
        ] {
            let price = find_price(model).map(|price| price.input);
            assert_eq!(price, expected, "{model}");
        }
    }

    #[test]
    fn a_model_of_another_name_has_no_price() {
        for model in [
            "gpt-4o-audio-preview",
            "gpt-oss:20b",
            "claude-opus-4-99",
            "claude",
            "o33",
            "scripted",
            "",
        ] {
            assert_eq!(find_price(model), None, "{model}");
        }
    }

    #[test]
    fn windows_and_answers_are_known_of_current_models_only_by_their_whole_name() {
        let known = |model: &str| {
            (
                default_model_profile(model).window_tokens,
                default_model_profile(model).answer_tokens,
            )
        };
        assert_eq!(known("claude-haiku-4-5"), (Some(200_000), Some(64_000)));
        let routed = "openrouter/anthropic/claude-sonnet-5.5";
        assert_eq!(known(routed), (Some(1_000_000), Some(128_000)));
        assert_eq!(
            known("openai/gpt-4o-2024-11-20"),
            (Some(128_000), Some(16_384))
        );
        assert_eq!(known("claude-opus-9"), (None, None));
        assert_eq!(known("test-model"), (None, None));
    }

    #[test]
    fn images_follow_the_table_and_else_the_family() {
        let seeing = "claude-sonnet-4-5 anthropic/claude-3.5-sonnet gpt-4o gpt-4.1-mini gpt-5-mini o1 o3 o3-2025-04-16 \
                      openai/o3 o4-mini qwen2.5vl:7b Qwen/Qwen2.5-VL-7B-Instruct llava llama3.2-vision google/gemini-2.5-pro \
                      gpt-6.1-sol claude-opus-9";
        for model in seeing.split_whitespace() {
            assert_eq!(default_model_profile(model).images, Some(true), "{model}");
        }
        let blind =
            "claude-2.1 gpt-3.5-turbo gpt-4 o1-mini o3-mini deepseek-v4-pro gpt-4o-audio-preview";
        for model in blind.split(' ') {
            assert_eq!(default_model_profile(model).images, Some(false), "{model}");
        }
        for model in "llama3.2 deepseek-chat test-model scripted gpt-4-0613".split(' ') {
            assert_eq!(default_model_profile(model).images, None, "{model}");
        }
    }

    #[test]
    fn the_operators_profile_goes_first_and_the_servers_before_the_table() {
        let own: Table = toml::from_str(
            "\"gpt-4o\" = {window_tokens = 9_000}\n\"my/model\" = {images = true, tools = false}",
        )
        .unwrap();
        let own = Models::from(own);
        let told = ModelProfile {
            window_tokens: Some(10_000),
            answer_tokens: Some(1_000),
            ..ModelProfile::default()
        };
        let profile = own.model_profile("gpt-4o-2024-11-20", told.clone());
        let found = (profile.window_tokens, profile.answer_tokens, profile.images);
        assert_eq!(found, (Some(9_000), Some(1_000), Some(true)));
        assert_eq!(
            own.model_profile("gpt-4o", told).price.map(|p| p.input),
            Some(2.5)
        );
        let profile = own.model_profile("my/model", ModelProfile::default());
        assert_eq!((profile.images, profile.tools), (Some(true), Some(false)));
        for bad in [
            "m = {window = 1}",
            "m = {window_tokens = 0}",
            "m = {price = {input = -1, output = 1}}",
        ] {
            assert!(toml::from_str::<Table>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_list_can_be_read_and_its_values_are_possible() {
        assert!(
            built_in_model_list().models.len() > 30 && built_in_model_list().families.len() > 10
        );
        for (name, profile) in &built_in_model_list().models {
            let price = profile.price.unwrap();
            assert!(price.input > 0.0 && price.output > price.input, "{name}");
            assert!(price.cache_read.unwrap_or(0.0) <= price.input, "{name}");
            let window = profile.window_tokens.unwrap();
            let answer = profile.answer_tokens.unwrap_or(1);
            assert!(u64::from(answer) < window, "{name}");
        }
    }
}
