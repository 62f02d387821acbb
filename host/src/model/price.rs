//! The price of a model's tokens.

use serde::{Deserialize, Deserializer, Serialize};

use crate::message::Usage;

/// Number of tokens that one unit of a price pays for.
const TOKENS_PER_PRICE_UNIT: f64 = 1_000_000.0;

/// Prices of a model's tokens, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of input tokens that are not cached, in US dollars per million.
    #[serde(deserialize_with = "deserialize_dollars")]
    pub input: f64,
    /// Price of output tokens, in US dollars per million.
    #[serde(deserialize_with = "deserialize_dollars")]
    pub output: f64,
    /// Price of input read from the cache; default: the price of other input.
    #[serde(default, deserialize_with = "deserialize_optional_dollars")]
    pub cache_read: Option<f64>,
    /// Price of input written to the cache; default: the price of other input.
    #[serde(default, deserialize_with = "deserialize_optional_dollars")]
    pub cache_write: Option<f64>,
}

fn deserialize_dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let price = f64::deserialize(deserializer)?;
    if price.is_finite() && price >= 0.0 {
        return Ok(price);
    }
    Err(serde::de::Error::custom(
        "a price is a number of dollars that is not below 0",
    ))
}

fn deserialize_optional_dollars<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    deserialize_dollars(deserializer).map(Some)
}

impl Price {
    /// Returns the cost in dollars of the tokens of one request. Cached tokens are part of the
    /// input and have their own prices.
    #[must_use]
    pub fn cost_of(&self, usage: &Usage) -> f64 {
        let (read, written) = (usage.cache_read_tokens, usage.cache_write_tokens);
        let plain = usage
            .input_tokens
            .saturating_sub(read.saturating_add(written));
        let cost = |tokens: u64, price: f64| tokens as f64 * price / TOKENS_PER_PRICE_UNIT;
        cost(plain, self.input)
            + cost(read, self.cache_read.unwrap_or(self.input))
            + cost(written, self.cache_write.unwrap_or(self.input))
            + cost(usage.output_tokens, self.output)
    }
}
