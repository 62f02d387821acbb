//! Extension points, at which plugins take part in a turn: their table, the registry of hooks, and
//! the dispatcher.
//!
//! A point is a named place in a turn where plugins act. [`catalog`] lists the built-in points;
//! plugins define more ([`AnyPluginDefinedPoint`]). [`registry`] stores which hooks are bound to
//! which point, [`dispatch`] calls them, and [`merge`] applies their outcomes. This module knows
//! nothing of WebAssembly: a hook is any implementation of [`Hook`].
//!
//! Start from [`dispatch::HookDispatcher::dispatch`].

#[doc(hidden)]
pub mod agent_loop;
pub mod caller;
pub mod catalog;
pub mod contract;
pub(crate) mod deadline;
#[doc(hidden)]
pub mod defined;
pub mod dispatch;
pub mod failure;
#[doc(hidden)]
pub mod handle;
#[doc(hidden)]
pub mod loop_handle;
#[doc(hidden)]
pub mod merge;
pub mod outcome;
pub mod payload;
pub(crate) mod quarantine;
pub mod registry;
#[doc(hidden)]
pub mod streaming;
pub mod trace;

use futures_util::future::BoxFuture;

use caller::Caller;
use dispatch::ExtensionPointKind;
use failure::Failure;
use merge::{MergeEnv, MergeIntoPayload, MergedOutcome};

/// An extension point, with the types of its payload and its outcome.
///
/// The built-in points are marker types, generated from `wit/points.in`; all plugin-defined points
/// share [`AnyPluginDefinedPoint`]. An implementation must have no side effects:
/// [`ExtensionPoint::merge_outcome`] only decides how an outcome changes the payload.
pub trait ExtensionPoint: Send + Sync + 'static {
    /// Name of the extension point, such as `pre-tool`.
    const NAME: &'static str;
    /// Kind of the point, which determines the possible outcomes.
    const KIND: ExtensionPointKind;
    /// Payload that hooks receive and, at gate and mutate points, change.
    type Payload: Clone + Send + Sync + 'static;
    /// Outcome that one hook of this point returns.
    type Outcome: Send + 'static;

    /// Checks `outcome` and applies it to `payload`. `merged` must be empty, and receives the
    /// result. After an error the payload is unchanged, and the hook counts as failed.
    fn merge_outcome(
        payload: &mut Self::Payload,
        outcome: Self::Outcome,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String>;
}

/// Function that is bound to a point: the hook of a plugin, a script of the operator, or native
/// code.
///
/// Only the dispatcher calls it. A hook does not change the payload itself; it returns an outcome,
/// which the dispatcher checks and merges. Calls can overlap, for example for parallel tool calls
/// or from subagents, so an implementation that can run only one call at a time must wait inside
/// [`Hook::call`].
pub trait Hook<P: ExtensionPoint>: Send + Sync {
    /// Runs the hook. The future may be dropped at any await, because the dispatcher handles
    /// deadlines and cancellation; when the future of a call is dropped, the call must stop all its
    /// work.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        payload: &'a P::Payload,
    ) -> BoxFuture<'a, Result<P::Outcome, Failure>>;
}

/// A point that a plugin defines. The owner chooses its name, kind and schemas; its values are
/// JSON.
#[derive(Debug)]
pub struct AnyPluginDefinedPoint;

impl ExtensionPoint for AnyPluginDefinedPoint {
    const NAME: &'static str = "plugin-defined";
    const KIND: ExtensionPointKind = ExtensionPointKind::Mutate;
    type Payload = payload::PluginDefinedPointPayload;
    type Outcome = outcome::PluginDefinedPointOutcome;

    fn merge_outcome(
        payload: &mut Self::Payload,
        outcome: Self::Outcome,
        merged: &mut MergedOutcome,
        env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        outcome.merge(payload, merged, env)
    }
}
