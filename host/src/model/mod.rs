//! Profiles of models: window, longest answer, images, reasoning, tools, and prices.
//!
//! Owns the table that comes with Rind, the operator's own profiles (the section `[models]`), and
//! the lookup by name. It must not know servers, and not who asks a model. Start from
//! [`Models::of`].

mod list;
mod price;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use list::LIST_DATE;
#[cfg(feature = "cli")]
pub(crate) use list::names;
pub(crate) use list::{longest, price};
pub use price::Price;

use crate::config::{Section, number};

/// Abilities of one model, as far as they are known: an absent value is unknown.
///
/// The values come from four places, the strongest first: the operator's settings, the server that
/// runs the model, the table of Rind by the whole name, and families of that table, which are parts
/// of names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelProfile {
    /// Tokens of the context window, in which the prompt and the answer stand together.
    #[serde(deserialize_with = "number::within_if_set::<256, 1_000_000_000, _, _>")]
    pub window_tokens: Option<u64>,
    /// Most tokens of one answer, reasoning included.
    #[serde(deserialize_with = "number::within_if_set::<1, 1_000_000_000, _, _>")]
    pub answer_tokens: Option<u32>,
    /// Whether the model takes images.
    pub images: Option<bool>,
    /// Whether the model reasons before it answers.
    pub reasoning: Option<bool>,
    /// Levels of reasoning effort that the model takes, the lowest first.
    pub efforts: Option<Vec<String>>,
    /// Whether the model calls tools.
    pub tools: Option<bool>,
    /// Whether the model takes a sampling temperature. Newer ones refuse every request that has
    /// one.
    pub temperature: Option<bool>,
    /// Whether its servers cache the beginning of a prompt.
    pub caching: Option<bool>,
    /// US dollars for a million tokens. The section `[prices]` goes before it.
    pub price: Option<Price>,
}

impl ModelProfile {
    /// Fills the unknown values from a weaker profile.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        Self {
            window_tokens: self.window_tokens.or(weaker.window_tokens),
            answer_tokens: self.answer_tokens.or(weaker.answer_tokens),
            images: self.images.or(weaker.images),
            reasoning: self.reasoning.or(weaker.reasoning),
            efforts: self.efforts.or(weaker.efforts),
            tools: self.tools.or(weaker.tools),
            temperature: self.temperature.or(weaker.temperature),
            caching: self.caching.or(weaker.caching),
            price: self.price.or(weaker.price),
        }
    }
}

/// Profiles by the beginning of a model's name.
type Table = BTreeMap<String, ModelProfile>;

/// The operator's profiles of models: the section `[models]`, a table for each name. Cheap to
/// clone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Table")]
pub struct Models(Arc<Table>);

impl From<Table> for Models {
    fn from(profiles: Table) -> Self {
        Self(Arc::new(profiles))
    }
}

impl Section for Models {
    const NAME: &'static str = "models";
}

impl Models {
    /// Returns the profile of a model: the operator's values, then those that its server `told`,
    /// then those of the table.
    #[must_use]
    pub fn of(&self, model: &str, told: ModelProfile) -> ModelProfile {
        let own = longest(model, &self.0).cloned().unwrap_or_default();
        own.or(told).or(list::profile(model))
    }
}
