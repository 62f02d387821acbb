//! Built-in extension points, from the table `wit/points.in` that host and SDK share.
//!
//! All code that enumerates the points is generated from that table with `for_each_point!`: the
//! marker types below, the host's component bindings, `rind plugin inspect`, and the docs. Tests
//! compare the table with the interfaces in `wit/`. Start from [`find_builtin_extension_point`].

use std::sync::Arc;

use super::ExtensionPoint;
use super::contract::payloads::*;
use super::dispatch::ExtensionPointKind;
use super::failure::OnFailure;
use super::merge::{MergeEnv, MergeIntoPayload, MergedOutcome};
use super::outcome::*;
use super::payload::{
    FinishedCall, PromptContext, ProposedCall, Reflection, Slice, TextDelta, TurnSummary,
    WireRequest, WireResponse,
};
use crate::message::Message;

/// Type of a payload that can be large: the payload is shared, and copied only when it is changed.
/// Guests read parts of it through a handle (`wit/handles.wit`).
type Lent<T> = Arc<T>;

/// Messages of a request to the model.
type Conversation = Vec<Message>;

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/points.in"));
pub(crate) use for_each_point;

/// Row of the table of built-in extension points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinExtensionPoint {
    /// Name of the point, equal to the name of its WIT interface.
    pub name: &'static str,
    /// Kind of the point, which determines the outcomes that its hooks may return.
    pub kind: ExtensionPointKind,
    /// Names that other systems use for the point, accepted in `plugin.toml` only.
    pub aliases: &'static [&'static str],
    /// Short description of the outcomes that hooks of the point can return.
    pub returns: &'static str,
    /// Names of the rights that hooks of the point have. A manifest can limit a hook to some of
    /// them with `may`.
    pub rights: &'static [&'static str],
}

impl BuiltinExtensionPoint {
    /// Returns the default of `on_failure`, usually that of the point's kind. `output-delta` blocks
    /// by default: displayed text cannot be withdrawn, so text must not be displayed if the hook
    /// fails.
    #[must_use]
    pub fn default_failure_action(&self) -> OnFailure {
        if self.name == OutputDelta::NAME {
            OnFailure::Block
        } else {
            self.kind.default_failure_action()
        }
    }
}

macro_rules! table {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        /// All built-in points, in the order in which a session reaches them.
        pub const CATALOG: &[BuiltinExtensionPoint] = &[
            $(BuiltinExtensionPoint {
                name: $name,
                kind: ExtensionPointKind::$kind,
                aliases: &[$($alias),*],
                returns: $returns,
                rights: <$outcome as MergeIntoPayload<$payload>>::RIGHTS,
            },)*
        ];

        $(
            #[doc = concat!("The point `", $name, "`.")]
            #[derive(Debug)]
            pub struct $marker;

            impl ExtensionPoint for $marker {
                const NAME: &'static str = $name;
                const KIND: ExtensionPointKind = ExtensionPointKind::$kind;
                type Payload = $payload;
                type Outcome = $outcome;

                fn merge_outcome(
                    payload: &mut $payload,
                    outcome: $outcome,
                    merged: &mut MergedOutcome,
                    env: &MergeEnv<'_>,
                ) -> Result<(), String> {
                    outcome.merge(payload, merged, env)
                }
            }
        )*
    };
}
for_each_point!(table);

/// Finds a built-in point by its name or one of its aliases.
#[must_use]
pub fn find_builtin_extension_point(name: &str) -> Option<&'static BuiltinExtensionPoint> {
    CATALOG
        .iter()
        .find(|row| row.name == name || row.aliases.contains(&name))
}
