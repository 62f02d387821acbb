//! Calls the hooks of all points, built-in and plugin-defined. No other module calls hooks.
//!
//! It implements the rules of dispatch: the order of hooks, and whether they run in a chain or
//! concurrently; deadlines; the merge of outcomes, in which `block` wins over `ask`, and `ask` over
//! `pass`; calling gates again after a later hook changed the value; failure policy and quarantine;
//! and trace records. A plugin's hooks are not called for calls that the plugin itself causes. The
//! module knows neither WebAssembly nor the meaning of any point. Start from
//! [`HookDispatcher::dispatch`].

mod kind;
mod report;
mod run;

use std::borrow::Cow;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio_util::task::TaskTracker;
use tracing::instrument::WithSubscriber;

use super::ExtensionPoint;
use super::caller::{Caller, MAX_PLUGIN_CALL_DEPTH};
use super::deadline::run_call_with_deadline;
use super::failure::Failure;
use super::merge::MergedOutcome;
use super::quarantine::QuarantinedHooks;
use super::registry::{HookRegistry, HookSpec, HookWithSpec};
use super::trace::DispatchReportSink;
use crate::lock::lock_ignoring_poison;
use report::HookAnswerHandler;
use run::HookDispatchInProgress;

pub use kind::ExtensionPointKind;
pub use run::{CombinedHookVerdict, HookDispatchResult, PluginAttributedText};

/// Calls the hooks of a registry.
///
/// There is one dispatcher per agent and session; a subagent has a separate one with the same
/// hooks. The host calls [`HookDispatcher::reset_quarantine_at_turn_start`] at the start of a turn,
/// [`HookDispatcher::dispatch`] at each point, and [`HookDispatcher::wait_for_background_hooks`]
/// before the session ends, so that background hooks can finish.
pub struct HookDispatcher {
    /// Hooks of all points. The registry is replaced completely and never mutated, so a dispatch in
    /// progress keeps the hooks with which it started.
    registry: ArcSwap<HookRegistry>,
    quarantine: Arc<QuarantinedHooks>,
    sink: Arc<dyn DispatchReportSink>,
    background: TaskTracker,
    running: RunningBackgroundHooks,
}

/// Background hooks that are still running, each with the point at which the hook was called.
type RunningBackgroundHooks = Arc<Mutex<Vec<(Arc<HookSpec>, String)>>>;

impl HookDispatcher {
    /// Creates a dispatcher that calls the hooks in `registry` and reports the calls to `sink`.
    #[must_use]
    pub fn new(registry: Arc<HookRegistry>, sink: Arc<dyn DispatchReportSink>) -> Self {
        let quarantine = Arc::new(QuarantinedHooks::default());
        quarantine.clear_quarantine();
        Self {
            registry: ArcSwap::new(registry),
            quarantine,
            sink,
            background: TaskTracker::new(),
            running: RunningBackgroundHooks::default(),
        }
    }

    /// Creates a dispatcher for a subagent: with the same hooks and a separate quarantine. It
    /// reports to `sink`. Background hooks are shared, so
    /// [`HookDispatcher::wait_for_background_hooks`] of this dispatcher also waits for the
    /// background hooks of the subagent.
    #[must_use]
    pub fn for_subagent(&self, sink: Arc<dyn DispatchReportSink>) -> Self {
        Self {
            background: self.background.clone(),
            running: self.running.clone(),
            ..Self::new(self.registry(), sink)
        }
    }

    /// Returns the hooks that this dispatcher calls.
    #[must_use]
    pub fn registry(&self) -> Arc<HookRegistry> {
        self.registry.load_full()
    }

    /// Replaces the hooks of a plugin from the next dispatch on. If hooks of the plugin were
    /// quarantined after failures, the new hooks are called again.
    pub(crate) fn replace_plugin_hooks(&self, plugin: &str, with: HookRegistry) {
        let replaced = self
            .registry
            .load()
            .with_replaced_plugin_hooks(plugin, with);
        self.registry.store(Arc::new(replaced));
        self.quarantine.release_plugin_hooks(plugin);
    }

    /// Ends the quarantine of all hooks at the start of a turn.
    pub fn reset_quarantine_at_turn_start(&self) {
        self.quarantine.clear_quarantine();
    }

    /// Waits up to `limit` for `async` hooks that still run. Returns the hooks that have not ended
    /// after this time, as `NAME (POINT)`.
    pub async fn wait_for_background_hooks(&self, limit: Duration) -> Vec<String> {
        self.background.close();
        let settled = tokio::time::timeout(limit, self.background.wait()).await;
        self.background.reopen();
        match settled {
            Ok(()) => Vec::new(),
            Err(_) => {
                let running = lock_ignoring_poison(&self.running);
                let named = running
                    .iter()
                    .map(|(spec, point)| format!("{} ({point})", spec.plugin));
                named.collect()
            }
        }
    }

    /// Returns the longest deadline among the `async` hooks that still run.
    #[must_use]
    pub fn longest_background_deadline(&self) -> Option<Duration> {
        let running = lock_ignoring_poison(&self.running);
        running.iter().map(|(spec, _)| spec.deadline).max()
    }

    /// Calls the hooks of the built-in point `P` with a payload, and combines their outcomes.
    pub fn dispatch<P: ExtensionPoint>(
        &self,
        caller: &Caller,
        payload: impl Into<P::Payload>,
    ) -> impl Future<Output = HookDispatchResult<P::Payload>> {
        self.dispatch_extension_point_by_name::<P>(
            Cow::Borrowed(P::NAME),
            P::KIND,
            caller,
            payload.into(),
        )
    }

    /// Calls the hooks of the point `name`. Like [`HookDispatcher::dispatch`], but the caller
    /// passes name and kind, for plugin-defined points.
    pub async fn dispatch_extension_point_by_name<P: ExtensionPoint>(
        &self,
        name: Cow<'static, str>,
        kind: ExtensionPointKind,
        caller: &Caller,
        payload: P::Payload,
    ) -> HookDispatchResult<P::Payload> {
        let mut run = HookDispatchInProgress::<P> {
            report: HookAnswerHandler {
                quarantine: &self.quarantine,
                sink: &*self.sink,
                point: &name,
                caller,
            },
            out: HookDispatchResult {
                value: payload,
                verdict: CombinedHookVerdict::Pass,
                inject: Vec::new(),
                notes: Vec::new(),
            },
        };
        let registry = self.registry.load();
        let hooks = registry.hooks::<P>(&name);
        if hooks.is_empty() {
            return run.out;
        }
        let is_too_deep = caller.call_chain.len() > MAX_PLUGIN_CALL_DEPTH;
        let mut side_by_side = Vec::new();
        // Gates must judge the final value, so the gates that ran before the last change are called
        // again.
        let is_gate = kind == ExtensionPointKind::Gate;
        let (mut judged, mut judged_before) = (Vec::new(), 0);
        for bound in hooks
            .iter()
            .filter(|bound| !caller.should_skip_hooks_of(&bound.spec.plugin, is_gate))
        {
            if !bound.spec.applies_to::<P>(&run.out.value) {
                continue;
            }
            if is_too_deep {
                let failure = Failure::Unavailable(format!(
                    "calls between plugins are nested deeper than {MAX_PLUGIN_CALL_DEPTH} levels"
                ));
                run.handle_hook_answer(&bound.spec, Duration::ZERO, Err(failure));
            } else if let Some(why) = self.quarantine.quarantine_reason(&bound.spec.plugin, &name) {
                run.handle_quarantined_hook(&bound.spec, why);
            } else if bound.spec.is_async {
                self.spawn_background_hook(bound.clone(), name.clone(), caller, &run.out.value);
            } else if kind.runs_hooks_in_order() {
                let (took, result) = call_hook(bound, caller, &run.out.value).await;
                if run.handle_hook_answer(&bound.spec, took, result) {
                    judged_before = judged.len();
                }
                if is_gate {
                    judged.push(bound);
                }
            } else {
                side_by_side.push(bound);
            }
            // Stop at the first refusal: the value stays refused, whatever later hooks return.
            if kind.runs_hooks_in_order() && run.has_hook_refused_value() {
                return run.out;
            }
        }
        for bound in &judged[..judged_before] {
            // Skip a hook that was quarantined meanwhile; its failure policy was applied when it
            // failed.
            if self
                .quarantine
                .quarantine_reason(&bound.spec.plugin, &name)
                .is_some()
            {
                continue;
            }
            let (took, result) = call_hook(bound, caller, &run.out.value).await;
            run.merge_repeated_gate_verdict(&bound.spec, took, result);
            if run.has_hook_refused_value() {
                return run.out;
            }
        }
        if let [bound] = side_by_side[..] {
            let (took, result) = call_hook(bound, caller, &run.out.value).await;
            run.handle_hook_answer(&bound.spec, took, result);
        } else if !side_by_side.is_empty() {
            let value = &run.out.value;
            let calls = side_by_side
                .iter()
                .map(|bound| call_hook(bound, caller, value));
            // Box this large future, so that it does not enlarge the future of a dispatch with a
            // single hook.
            let results = Box::pin(join_all(calls)).await;
            for (bound, (took, result)) in side_by_side.iter().zip(results) {
                run.handle_hook_answer(&bound.spec, took, result);
            }
        }
        run.out
    }

    /// Starts a background hook. Its effects and its trace record are reported when it ends.
    fn spawn_background_hook<P: ExtensionPoint>(
        &self,
        bound: HookWithSpec<P>,
        point: Cow<'static, str>,
        caller: &Caller,
        payload: &P::Payload,
    ) {
        let (caller, mut payload) = (caller.clone(), payload.clone());
        let (quarantine, sink) = (self.quarantine.clone(), self.sink.clone());
        let open =
            RunningBackgroundHookGuard::register_running_hook(&self.running, &bound.spec, &point);
        // Log lines of the hook go to the `tracing` subscriber of the turn.
        self.background.spawn(
            async move {
                let (took, result) = call_hook(&bound, &caller, &payload).await;
                let report = HookAnswerHandler {
                    quarantine: &quarantine,
                    sink: &*sink,
                    point: &point,
                    caller: &caller,
                };
                let (spec, mut merged) = (&bound.spec, MergedOutcome::default());
                report.handle_hook_answer::<P>(spec, took, result, &mut payload, &mut merged);
                drop(open);
            }
            .with_current_subscriber(),
        );
    }
}

/// Guard of a hook's entry in the list of running background hooks. Dropping the guard removes the
/// entry.
struct RunningBackgroundHookGuard {
    running: RunningBackgroundHooks,
    spec: Arc<HookSpec>,
}

impl RunningBackgroundHookGuard {
    fn register_running_hook(
        running: &RunningBackgroundHooks,
        spec: &Arc<HookSpec>,
        point: &str,
    ) -> Self {
        lock_ignoring_poison(running).push((spec.clone(), point.to_owned()));
        Self {
            running: running.clone(),
            spec: spec.clone(),
        }
    }
}

impl Drop for RunningBackgroundHookGuard {
    fn drop(&mut self) {
        let mut running = lock_ignoring_poison(&self.running);
        let own = running
            .iter()
            .position(|(spec, _)| Arc::ptr_eq(spec, &self.spec));
        if let Some(at) = own {
            running.swap_remove(at);
        }
    }
}

/// Calls one hook within its deadline. Returns the elapsed time and the result.
async fn call_hook<P: ExtensionPoint>(
    bound: &HookWithSpec<P>,
    caller: &Caller,
    payload: &P::Payload,
) -> (Duration, Result<P::Outcome, Failure>) {
    let started = Instant::now();
    // A panic in the host's own code counts as a failure of the hook. Creating the future may panic
    // too.
    let made = catch_unwind(AssertUnwindSafe(|| bound.hook.call(caller, payload)));
    let result = match made {
        Ok(mut call) => {
            let call = poll_fn(|context| {
                let polled = catch_unwind(AssertUnwindSafe(|| call.poll_unpin(context)));
                polled.unwrap_or_else(|panic| Poll::Ready(Err(Failure::from_panic(&*panic))))
            });
            run_call_with_deadline(bound.spec.deadline, started, call).await
        }
        Err(panic) => Err(Failure::from_panic(&*panic)),
    };
    (started.elapsed(), result)
}

impl_partial_debug!(HookDispatcher, self, registry = self.registry());
