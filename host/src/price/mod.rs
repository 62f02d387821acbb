//! Prices of models: the operator's own prices, and as a fallback the built-in table of models.
//!
//! Owns the section `[prices]` and the calculation of costs. The module must not depend on the
//! senders of requests or on budgets.
//!
//! Start from [`Prices::cost`].
//!
//! For example:
//!
//! ```toml
//! [prices]
//! "my/model" = { input = 0.5, output = 1.5, cache_read = 0.05 }
//! ```

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use serde::Deserialize;

use crate::config::Section;
use crate::message::Usage;
use crate::model;
pub use crate::model::{LIST_DATE, Price};

/// Cost of requests to models.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Cost in US dollars of the tokens with a known price.
    pub usd: f64,
    /// Tokens that were used by models without a known price. If there are any, `usd` is a lower
    /// bound.
    pub unpriced_tokens: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.usd += other.usd;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }
}

/// Prices, keyed by the prefix of a model's name.
type ModelPriceTable = BTreeMap<String, Price>;

/// The operator's prices, from the section `[prices]`, which take precedence over the built-in
/// table. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "ModelPriceTable")]
pub struct Prices(Arc<ModelPriceTable>);

impl From<ModelPriceTable> for Prices {
    fn from(prices: ModelPriceTable) -> Self {
        Self(Arc::new(prices))
    }
}

impl Section for Prices {
    const NAME: &'static str = "prices";
}

impl Prices {
    /// Returns the cost of a request, at the price of the first model in `models` that has a known
    /// price.
    #[must_use]
    pub fn cost<'a>(&self, models: impl IntoIterator<Item = &'a str>, usage: &Usage) -> Cost {
        let mut models = models.into_iter();
        match models.find_map(|model| self.model_price(model)) {
            Some(price) => Cost {
                usd: price.cost_of(usage),
                unpriced_tokens: 0,
            },
            None => Cost {
                usd: 0.0,
                unpriced_tokens: usage.total(),
            },
        }
    }

    /// Returns the names of the models that have a price: those of the operator's settings, then
    /// those of the built-in table.
    pub fn priced_models(&self) -> Vec<String> {
        let listed = model::model_names().cloned();
        self.0.keys().cloned().chain(listed).collect()
    }

    /// Returns the price of a model; `None` if the price is unknown.
    #[must_use]
    pub fn model_price(&self, model: &str) -> Option<Price> {
        let own = model::find_longest_prefix_entry(model, &self.0).copied();
        own.or_else(|| model::find_price(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_operators_price_goes_first() {
        let own: ModelPriceTable = from_value(
            json!({"gpt-4o": {"input": 1, "output": 2}, "my/model": {"input": 0, "output": 0}}),
        )
        .unwrap();
        let own = Prices::from(own);
        let price = |model: &str| own.model_price(model).map(|price| price.input);
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
        let sonnet = Prices::default().model_price("claude-sonnet-4-5").unwrap();
        let mini = Prices::default().model_price("gpt-4").unwrap();
        for (price, used, expected) in [
            (sonnet, usage(1_000_000, 0, 0, 0), 3.0),
            (sonnet, usage(1_000_000, 1_000_000, 0, 0), 0.3),
            (sonnet, usage(1_000_000, 500_000, 500_000, 0), 2.025),
            (sonnet, usage(0, 0, 0, 1_000_000), 15.0),
            // More cached tokens than input tokens must not make the cost negative.
            (sonnet, usage(0, 1_000_000, 0, 0), 0.3),
            (mini, usage(1_000_000, 1_000_000, 0, 0), 30.0),
        ] {
            assert!((price.cost_of(&used) - expected).abs() < 1e-9, "{used:?}");
        }
    }
}
