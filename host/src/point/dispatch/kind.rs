//! The four kinds of points.

use serde::{Deserialize, Serialize};

use crate::point::failure::OnFailure;

/// Kind of an extension point, which determines the outcomes that the point's hooks can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtensionPointKind {
    /// Hooks may refuse the value that they receive.
    Gate,
    /// Hooks may change the value that they receive.
    Mutate,
    /// Hooks contribute additional values.
    Collect,
    /// Hooks can neither refuse nor change the value.
    Observe,
}

impl ExtensionPointKind {
    /// Whether hooks run one after another, and each gets the value that the previous hook
    /// returned.
    #[must_use]
    pub fn runs_hooks_in_order(self) -> bool {
        matches!(self, Self::Gate | Self::Mutate)
    }

    /// Returns the default action when a hook at a point of this kind fails.
    #[must_use]
    pub fn default_failure_action(self) -> OnFailure {
        if self == Self::Gate {
            OnFailure::Block
        } else {
            OnFailure::Skip
        }
    }
}

display_as_in_json!(ExtensionPointKind);
