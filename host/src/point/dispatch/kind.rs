//! The four kinds of points.

use serde::{Deserialize, Serialize};

use crate::point::failure::OnFailure;

/// What hooks may do at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// May refuse.
    Gate,
    /// May change.
    Mutate,
    /// Contributes.
    Collect,
    /// Only looks.
    Observe,
}

impl PointKind {
    /// Whether hooks run one after another, each on what the one before it left.
    #[must_use]
    pub fn is_chain(self) -> bool {
        matches!(self, Self::Gate | Self::Mutate)
    }

    /// What a failing hook does when nobody said otherwise.
    #[must_use]
    pub fn default_on_failure(self) -> OnFailure {
        if self == Self::Gate {
            OnFailure::Block
        } else {
            OnFailure::Skip
        }
    }
}

impl std::fmt::Display for PointKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gate => "gate",
            Self::Mutate => "mutate",
            Self::Collect => "collect",
            Self::Observe => "observe",
        })
    }
}
