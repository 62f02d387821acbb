//! Built-in extension points, from the table `wit/points.in` that host and SDK share.
//!
//! Everything that must know every point is generated from it with `for_each_point!`: the marker types below, the host's
//! bindings to components, `rind plugin inspect`, the docs. Tests hold it equal to the interfaces of `wit/`.

use std::sync::Arc;

use super::Point;
use super::contract::payloads::*;
use super::dispatch::PointKind;
use super::failure::OnFailure;
use super::merge::{Merge, MergeEnv, Merged};
use super::outcome::*;
use super::payload::{
    FinishedCall, PromptContext, ProposedCall, Reflection, Slice, TextDelta, TurnSummary,
    WireRequest, WireResponse,
};
use crate::message::Message;

/// A payload that can be large. It is shared: guests read it in parts through a handle (`wit/handles.wit`), and only a change
/// copies it.
type Lent<T> = Arc<T>;

/// The messages of a request.
type Conversation = Vec<Message>;

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/points.in"));
pub(crate) use for_each_point;

/// One built-in point, for tables and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointRow {
    /// Name, that of its WIT interface.
    pub name: &'static str,
    /// Kind of the point.
    pub kind: PointKind,
    /// Names that other systems use; accepted in `plugin.toml`, nowhere else.
    pub aliases: &'static [&'static str],
    /// Description of what a hook may return.
    pub returns: &'static str,
    /// Names of what a hook may do, which `may` in a manifest can narrow.
    pub rights: &'static [&'static str],
}

impl PointRow {
    /// Default of `on_failure`: that of the kind of the point. Text that `output-delta` lets through is shown and
    /// cannot be taken back, so a hook that failed there must not have let it through.
    #[must_use]
    pub fn default_on_failure(&self) -> OnFailure {
        if self.name == OutputDelta::NAME {
            OnFailure::Block
        } else {
            self.kind.default_on_failure()
        }
    }
}

macro_rules! table {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        /// Every built-in point in the order of a session.
        pub const CATALOG: &[PointRow] = &[
            $(PointRow {
                name: $name,
                kind: PointKind::$kind,
                aliases: &[$($alias),*],
                returns: $returns,
                rights: <$outcome as Merge<$payload>>::RIGHTS,
            },)*
        ];

        $(
            #[doc = concat!("The point `", $name, "`.")]
            #[derive(Debug)]
            pub struct $marker;

            impl Point for $marker {
                const NAME: &'static str = $name;
                const KIND: PointKind = PointKind::$kind;
                type Payload = $payload;
                type Outcome = $outcome;

                fn merge(
                    payload: &mut $payload,
                    outcome: $outcome,
                    merged: &mut Merged,
                    env: &MergeEnv<'_>,
                ) -> Result<(), String> {
                    outcome.merge(payload, merged, env)
                }
            }
        )*
    };
}
for_each_point!(table);

/// The row of a built-in point, by its name or one of its aliases.
#[must_use]
pub fn find(name: &str) -> Option<&'static PointRow> {
    CATALOG
        .iter()
        .find(|row| row.name == name || row.aliases.contains(&name))
}
