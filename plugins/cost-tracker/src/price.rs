//! What tokens of a model cost: the table that comes with the plugin, the operator's own, and how a name is looked up.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rind_sdk::data;
use rind_sdk::types::Usage;

/// List prices of the vendors in November 2026, without discounts for batches, without surcharges for long contexts, and with
/// the cheaper of two ways to write a cache: a cost is never said to be more than it was.
const LIST: &str = include_str!("prices.json");

/// Tokens that a price is for.
const PER: f64 = 1_000_000.0;

/// Dollars for a million tokens.
#[data]
#[derive(Copy, PartialEq)]
pub(crate) struct Price {
    input: f64,
    output: f64,
    /// Absent: as other input.
    #[serde(default)]
    cache_read: Option<f64>,
    /// Absent: as other input.
    #[serde(default)]
    cache_write: Option<f64>,
}

impl Price {
    /// Dollars for what one request used. Cached tokens are part of the input and have prices of their own.
    pub(crate) fn of(&self, usage: &Usage) -> f64 {
        let (read, written) = (usage.cache_read_tokens, usage.cache_write_tokens);
        let plain = usage
            .input_tokens
            .saturating_sub(read.saturating_add(written));
        let cost = |tokens: u64, price: f64| tokens as f64 * price / PER;
        cost(plain, self.input)
            + cost(read, self.cache_read.unwrap_or(self.input))
            + cost(written, self.cache_write.unwrap_or(self.input))
            + cost(usage.output_tokens, self.output)
    }

    /// Dollars for so many tokens of input.
    pub(crate) fn of_input(&self, tokens: u64) -> f64 {
        tokens as f64 * self.input / PER
    }
}

/// Prices by the beginning of a model's name.
pub(crate) type Prices = BTreeMap<String, Price>;

/// The table that comes with the plugin. Read once by each instance.
pub(crate) fn list() -> &'static Prices {
    static READ: LazyLock<Prices> =
        LazyLock::new(|| rind_sdk::serde_json::from_str(LIST).unwrap_or_default());
    &READ
}

/// The price of a model: the operator's, or that of the list. `None` when neither has one.
pub(crate) fn find(model: &str, own: &Prices, list: &Prices) -> Option<Price> {
    longest(model, own).or_else(|| longest(&plain(model), list))
}

/// The entry with the longest name that the model's begins with, where nothing but a version follows. A model of another
/// name may be of another price: it is better known to have none.
fn longest(model: &str, prices: &Prices) -> Option<Price> {
    let fitting = prices.iter().filter(|(name, _)| {
        model
            .strip_prefix(name.as_str())
            .is_some_and(is_version_or_nothing)
    });
    fitting
        .max_by_key(|(name, _)| name.len())
        .map(|(_, price)| *price)
}

/// Whether what follows a name is a date, `latest`, or nothing.
fn is_version_or_nothing(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@', ':']) else {
        return rest.is_empty();
    };
    // `claude-opus-4-7` is no version of `claude-opus-4`: dates have eight digits.
    let n_digits = version.bytes().filter(u8::is_ascii_digit).count();
    let is_date = n_digits == 8 && version.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    is_date || matches!(version, "latest" | "preview")
}

/// A name without the vendor that resellers put before it, Anthropic's with `-` for their `.`.
fn plain(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    if name.starts_with("claude") {
        name.replace('.', "-")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rind_sdk::serde_json::{from_value, json};

    fn input_price(model: &str) -> Option<f64> {
        find(model, &Prices::new(), &list()).map(|price| price.input)
    }

    #[test]
    fn models_are_found_with_their_date_and_with_a_vendor_before_them() {
        for (model, expected) in [
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-sonnet-4-5", Some(3.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-5@20251101", Some(5.0)),
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
            assert_eq!(input_price(model), expected, "{model}");
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
            assert_eq!(input_price(model), None, "{model}");
        }
    }

    #[test]
    fn the_operators_price_goes_first() {
        let own: Prices = from_value(
            json!({"gpt-4o": {"input": 1, "output": 2}, "my/model": {"input": 0, "output": 0}}),
        )
        .unwrap();
        let price = |model: &str| find(model, &own, &list()).map(|price| price.input);
        assert_eq!(price("gpt-4o-2024-11-20"), Some(1.0));
        assert_eq!(price("my/model"), Some(0.0));
        assert_eq!(price("gpt-5"), Some(1.25));
    }

    #[test]
    fn cached_input_has_a_price_of_its_own() {
        let usage = |input, read, written, output| Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: written,
        };
        let sonnet = find("claude-sonnet-4-5", &Prices::new(), &list()).unwrap();
        let mini = find("gpt-4", &Prices::new(), &list()).unwrap();
        for (price, used, expected) in [
            (sonnet, usage(1_000_000, 0, 0, 0), 3.0),
            (sonnet, usage(1_000_000, 1_000_000, 0, 0), 0.3),
            (sonnet, usage(1_000_000, 500_000, 500_000, 0), 2.025),
            (sonnet, usage(0, 0, 0, 1_000_000), 15.0),
            // More cached than there is: nothing below zero.
            (sonnet, usage(0, 1_000_000, 0, 0), 0.3),
            (mini, usage(1_000_000, 1_000_000, 0, 0), 30.0),
        ] {
            assert!((price.of(&used) - expected).abs() < 1e-9, "{used:?}");
        }
    }

    #[test]
    fn the_list_can_be_read_and_no_cached_read_costs_more_than_input() {
        assert!(list().len() > 30);
        for (name, price) in list() {
            assert!(price.input > 0.0 && price.output > price.input, "{name}");
            assert!(price.cache_read.unwrap_or(0.0) <= price.input, "{name}");
        }
    }
}
