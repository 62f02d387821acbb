//! Profiles of models: size of the context window, maximum length of an answer, support of images,
//! reasoning and tools, and prices.
//!
//! Owns the built-in table, the profiles of the operator (section `[models]`), and the lookup by
//! name. It must not depend on servers or on callers of a model. Start from
//! [`Models::model_profile`].

mod list;
mod price;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use list::LIST_DATE;
pub(crate) use list::model_names;
pub(crate) use list::{find_longest_prefix_entry, find_price};
pub use price::Price;

use crate::config::{Section, number};

/// Known abilities of one model; a missing value is unknown.
///
/// The values come from four sources, in order of precedence: the settings of the operator, the
/// server that runs the model, the built-in table by full name, and families in that table, which
/// match by substring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelProfile {
    /// Size of the context window, which holds the prompt and the answer, in tokens.
    #[serde(deserialize_with = "number::within_if_set::<256, 1_000_000_000, _, _>")]
    pub window_tokens: Option<u64>,
    /// Maximum number of tokens of one answer, including the model's reasoning.
    #[serde(deserialize_with = "number::within_if_set::<1, 1_000_000_000, _, _>")]
    pub answer_tokens: Option<u32>,
    /// Whether the model accepts images; `None` if it is not known.
    pub images: Option<bool>,
    /// Whether the model reasons before it answers; `None` if it is not known.
    pub reasoning: Option<bool>,
    /// Reasoning effort levels that the model accepts, lowest first.
    pub efforts: Option<Vec<String>>,
    /// Whether the model can call tools; `None` if it is not known.
    pub tools: Option<bool>,
    /// Whether the model accepts a sampling temperature. Newer models refuse every request with
    /// one.
    pub temperature: Option<bool>,
    /// Whether the model's servers cache the beginnings of prompts; `None` if it is not known.
    pub caching: Option<bool>,
    /// US dollars per million tokens. The section `[prices]` takes precedence.
    pub price: Option<Price>,
}

impl ModelProfile {
    /// Fills the unknown values of this profile with those of `weaker`, a profile of lower
    /// precedence.
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

/// Profiles of models by the prefix of their names.
type Table = BTreeMap<String, ModelProfile>;

/// Profiles of the operator: the section `[models]`, one table for each name. Cheap to clone.
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
    /// Returns the profile of a model. The operator's values take precedence over the values that
    /// the server `reported`, and the server's values over the built-in table.
    #[must_use]
    pub fn model_profile(&self, model: &str, reported: ModelProfile) -> ModelProfile {
        let own = find_longest_prefix_entry(model, &self.0)
            .cloned()
            .unwrap_or_default();
        own.or(reported).or(list::find_profile(model))
    }
}
