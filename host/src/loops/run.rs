//! Runs one loop repeatedly, from its first run to its end.
//!
//! Owns the decision after each run: run again after a pause, or end, for example because the
//! session is too large. A failed run leads to a longer pause, but a loop that does not exist ends
//! at once. The module must not depend on other loops. Start from [`run_loop_until_end`].

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::pauses::LoopRunBackoff;
use super::{LoopEndReason, PluginLoopWithSession, SESSION_LIMITS_RESET_PERIOD};
use crate::event::Event;
use crate::event::pump::SessionEventForwarder;
use crate::host::{LoopRunError, PluginLoopHostService, Session};
use crate::plugin::loops::LoopRunResult;
use crate::point::outcome::Level;

/// Runs a plugin's loop again and again until the loop ends, and then closes the loop's session.
pub(super) async fn run_loop_until_end(
    own: PluginLoopWithSession,
    desk: Option<Arc<PluginLoopHostService>>,
    max_session_bytes: u64,
    cancel: &CancellationToken,
) -> LoopEndReason {
    let mut session = own.session;
    let mut pump = SessionEventForwarder::new(session.events(), own.watcher);
    let mut runs = LoopRepeatState {
        plugin: &own.plugin,
        max_session_bytes,
        pauses: LoopRunBackoff::default(),
        renewed: Instant::now(),
    };
    let why = match desk {
        Some(desk) => {
            runs.run_loop_repeatedly(&mut session, &desk, &mut pump, cancel)
                .await
        }
        None => LoopEndReason::Failed(format!("plugin `{}` has no loop", own.plugin)),
    };
    if let LoopEndReason::Failed(why) = &why {
        let text = format!(
            "the loop of plugin `{}` is not run again: {why}",
            own.plugin
        );
        session.emit_loop_event(Event::create_host_notice(Level::Error, text));
    }
    let closed = pump.forward_events_during(session.close()).await;
    pump.flush_events(cancel).await;
    match (why, closed) {
        (LoopEndReason::Failed(why), _) => LoopEndReason::Failed(why),
        (_, Err(error)) => {
            LoopEndReason::Broken(format!("the session of the loop cannot be closed: {error}"))
        }
        (why, Ok(())) => why,
    }
}

/// State of a loop that is kept from one run to the next.
struct LoopRepeatState<'a> {
    plugin: &'a str,
    max_session_bytes: u64,
    pauses: LoopRunBackoff,
    /// Time of the last reset of the usage limits of the loop's session.
    renewed: Instant,
}

impl LoopRepeatState<'_> {
    async fn run_loop_repeatedly(
        &mut self,
        session: &mut Session,
        desk: &Arc<PluginLoopHostService>,
        pump: &mut SessionEventForwarder,
        cancel: &CancellationToken,
    ) -> LoopEndReason {
        loop {
            if cancel.is_cancelled() {
                return LoopEndReason::Interrupted;
            }
            let bytes = session.session_file_size();
            if bytes > self.max_session_bytes {
                return LoopEndReason::Failed(format!(
                    "the session of the loop has {bytes} bytes, more than the maximum of {}; restart `rind serve` to begin a new session",
                    self.max_session_bytes
                ));
            }
            if self.renewed.elapsed() >= SESSION_LIMITS_RESET_PERIOD {
                session.reset_plugin_usage_counts();
                self.renewed = Instant::now();
            }
            let ran = pump
                .forward_events_during(session.run_loop_with_messages(self.plugin, desk, cancel))
                .await;
            let (delay, reason) = match ran {
                Ok(LoopRunResult::Done) => return LoopEndReason::Done,
                Ok(LoopRunResult::Again { .. }) if cancel.is_cancelled() => {
                    return LoopEndReason::Interrupted;
                }
                Ok(LoopRunResult::Again { after, reason }) => {
                    (self.pauses.next_success_pause(after), reason)
                }
                // Only the error `Interrupted` ends the loop without a report; any other failure is
                // reported, even if the loop was cancelled meanwhile.
                Err(LoopRunError::Interrupted { .. }) => return LoopEndReason::Interrupted,
                Err(error @ LoopRunError::Unknown { .. }) => {
                    return LoopEndReason::Failed(error.to_string());
                }
                Err(LoopRunError::Failed { why, .. }) => (self.pauses.next_failure_pause(), why),
                // Retry after errors of the host too: for example, a full disk may have room later.
                Err(error) => (self.pauses.next_failure_pause(), error.to_string()),
            };
            session.emit_loop_event(Event::LoopWait {
                plugin: self.plugin.to_owned(),
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                failures: self.pauses.consecutive_failures(),
                reason,
            });
            pump.flush_events(cancel).await;
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = pump.forward_events_during(sleep(delay)) => {}
            }
        }
    }
}
