//! Prices of models: the table that comes with Rind, the operator's own, and how a name is looked up.
//!
//! Owns the table and the arithmetic. It must not know who asks a model, nor what is done when money is spent. Start from
//! [`Prices::cost`].

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer};

use crate::config::Section;
use crate::message::Usage;

/// Month that the table is of.
pub const LIST_DATE: &str = "2026-11";

/// List prices of the vendors in the month of [`LIST_DATE`], without discounts for batches, without surcharges for long contexts, and with
/// the cheaper of two ways to write a cache: a cost is never said to be more than it was.
const LIST: &str = include_str!("list.json");

/// Tokens that a price is for.
const PER: f64 = 1_000_000.0;

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of input that is not cached.
    #[serde(deserialize_with = "dollars")]
    pub input: f64,
    /// Price of output.
    #[serde(deserialize_with = "dollars")]
    pub output: f64,
    /// Price of input that was read from the cache; absent: as other input.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_read: Option<f64>,
    /// Price of input that was written to the cache; absent: as other input.
    #[serde(default, deserialize_with = "some_dollars")]
    pub cache_write: Option<f64>,
}

fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let price = f64::deserialize(deserializer)?;
    if price.is_finite() && price >= 0.0 {
        return Ok(price);
    }
    Err(serde::de::Error::custom(
        "a price is a number of dollars that is not below 0",
    ))
}

fn some_dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    dollars(deserializer).map(Some)
}

/// Cost of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Dollars, as far as prices are known.
    pub usd: f64,
    /// Tokens of models without a price. With any, `usd` is the least that it was.
    pub unpriced_tokens: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.usd += other.usd;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }
}

impl Price {
    /// Dollars for what one request used. Cached tokens are part of the input and have prices of their own.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> f64 {
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
}

/// Prices by the beginning of a model's name.
type Table = BTreeMap<String, Price>;

/// The operator's prices, which go before those of the table: the section `[prices]`. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Table")]
pub struct Prices(Arc<Table>);

impl From<Table> for Prices {
    fn from(prices: Table) -> Self {
        Self(Arc::new(prices))
    }
}

impl Section for Prices {
    const NAME: &'static str = "prices";
}

impl Prices {
    /// The cost of a request: the price is that of the first of `models` which has one.
    #[must_use]
    pub fn cost<'a>(&self, models: impl IntoIterator<Item = &'a str>, usage: &Usage) -> Cost {
        let mut models = models.into_iter();
        match models.find_map(|model| self.of(model)) {
            Some(price) => Cost {
                usd: price.of(usage),
                unpriced_tokens: 0,
            },
            None => Cost {
                usd: 0.0,
                unpriced_tokens: usage.total(),
            },
        }
    }

    /// Names of models that have a price, the operator's first.
    #[cfg(feature = "cli")]
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().chain(list().keys()).cloned()
    }

    /// The price of a model; `None` when none is known.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<Price> {
        find(model, &self.0, list())
    }
}

/// The table that comes with Rind.
fn list() -> &'static Table {
    static READ: LazyLock<Table> = LazyLock::new(|| serde_json::from_str(LIST).unwrap_or_default());
    &READ
}

/// The price of a model: the operator's, or that of the list. `None` when neither has one.
fn find(model: &str, own: &Table, list: &Table) -> Option<Price> {
    longest(model, own).or_else(|| longest(&plain(model), list))
}

/// The entry with the longest name that the model's begins with, where nothing but a version follows. A model of another
/// name may be of another price: it is better known to have none.
fn longest(model: &str, prices: &Table) -> Option<Price> {
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
    use serde_json::{from_value, json};

    fn input_price(model: &str) -> Option<f64> {
        find(model, &Table::new(), list()).map(|price| price.input)
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
        let own: Table = from_value(
            json!({"gpt-4o": {"input": 1, "output": 2}, "my/model": {"input": 0, "output": 0}}),
        )
        .unwrap();
        let price = |model: &str| find(model, &own, list()).map(|price| price.input);
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
            estimated: false,
        };
        let sonnet = find("claude-sonnet-4-5", &Table::new(), list()).unwrap();
        let mini = find("gpt-4", &Table::new(), list()).unwrap();
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
