//! Loop that a plugin exports (`wit/loop.wit`), and the call that runs the loop once.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bindings::exports::rind::plugin::loop_ as wit;
use super::convert;
use super::imports::PluginLoopRunState;
use super::instance::ReusableInstanceSlot;
use super::sanitize::GuestTextSanitizer;
use crate::grant::Capability;
use crate::point::caller::Caller;
use crate::point::deadline::run_call_with_deadline;
use crate::point::failure::Failure;
use crate::point::loop_handle::LoopHostFunctions;

/// Name of the interface that a plugin with a loop exports.
pub(super) const LOOP_INTERFACE_NAME: &str = "loop";

/// Maximum length in bytes of the reason for another run: a few words for the operator, which the
/// session stores at every run.
pub const MAX_RERUN_REASON_BYTES: usize = 200;

/// Result of one run of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopRunResult {
    /// The loop is done: nothing is left to do.
    Done,
    /// The loop requests another run after a delay.
    Again {
        /// Delay before the next run, as requested by the loop.
        after: Duration,
        /// Reason for the next run, for the operator: one line, at most [`MAX_RERUN_REASON_BYTES`].
        reason: String,
    },
}

/// Loop of a plugin in a session.
pub struct PluginLoop {
    pub(super) plugin: String,
    pub(super) slot: Arc<ReusableInstanceSlot>,
    pub(super) deadline: Duration,
}

impl PluginLoop {
    /// Returns the name of the plugin.
    #[must_use]
    pub fn plugin_name(&self) -> &str {
        &self.plugin
    }

    /// Returns the deadline of one run: 60 s, or `[limits] timeout` of the manifest up to 600 s.
    #[must_use]
    pub fn deadline_per_run(&self) -> Duration {
        self.deadline
    }

    /// Returns the key under which the session stores the plugin's state. Plugins of the same name
    /// from other locations have other keys.
    pub(crate) fn plugin_state_key(&self) -> &str {
        &self.slot.shared_plugin_state().keeper
    }

    /// Whether the plugin was granted the permission to read conversations.
    pub(crate) fn may_read_conversations(&self) -> bool {
        self.slot
            .shared_plugin_state()
            .granted
            .has_capability(&Capability::Session)
    }

    /// Runs the loop once, within its deadline. The loop waits and runs turns through `handle`.
    pub(crate) async fn run(
        &self,
        caller: &Caller,
        handle: Arc<dyn LoopHostFunctions>,
    ) -> Result<LoopRunResult, Failure> {
        let call = pin!(self.call_guest(caller, handle));
        run_call_with_deadline(self.deadline, Instant::now(), call).await
    }

    async fn call_guest(
        &self,
        caller: &Caller,
        handle: Arc<dyn LoopHostFunctions>,
    ) -> Result<LoopRunResult, Failure> {
        let mut busy = self.slot.acquire_instance(caller).await?;
        let instance = &mut busy.instance;
        let run = instance.functions.run_loop;
        let run = run.ok_or_else(|| {
            Failure::Unavailable(format!(
                "the plugin's instance exports no interface `{LOOP_INTERFACE_NAME}`"
            ))
        })?;
        instance.store.data_mut().call.run = Some(Box::new(PluginLoopRunState::new(handle)));
        let result = run.call_async(&mut instance.store, ()).await;
        let (answer,) = busy.finish_guest_call(result)?;
        let sanitizer =
            GuestTextSanitizer::new(self.slot.shared_plugin_state(), caller, LOOP_INTERFACE_NAME);
        match answer {
            Ok(wit::LoopOutcome::Done) => Ok(LoopRunResult::Done),
            Ok(wit::LoopOutcome::Again(next)) => Ok(LoopRunResult::Again {
                after: Duration::from_millis(next.after_ms),
                reason: sanitizer.sanitize_line("reason", &next.reason, MAX_RERUN_REASON_BYTES),
            }),
            Err(error) => Err(Failure::Error(convert::describe_guest_error(
                error, sanitizer,
            ))),
        }
    }
}

impl std::fmt::Debug for PluginLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginLoop")
            .field("plugin", &self.plugin)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
