//! Runs the loops of plugins concurrently, each in its own session, until all are done.
//!
//! Owns the schedule of each loop: the minimum pause, the exponential backoff after failures, the
//! limit for the session's size, and the end. A single run is the session's task
//! ([`Session::run_loop`]).
//!
//! The module must not depend on the receivers of the events, and must never ask a user. A loop
//! that fails must not affect the others. Start from [`PluginLoopsRunner`].

mod inbox;
mod pauses;
mod run;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::event::Stamped;
use crate::host::{self, Host, LoopServiceOptions, LoopTurnRunner, PluginLoopHostService, Session};
use crate::message::ToolSpec;
use crate::point::failure::panic_text;

pub use inbox::{LoopInboxError, LoopInboxes};

/// Minimum pause between two runs, even if a loop asks for less: starting runs must not keep a core
/// busy.
pub const MIN_PAUSE_BETWEEN_RUNS: Duration = Duration::from_millis(100);

/// Pause of a loop after its first failed run. Each further failure in a row doubles the pause.
pub const FIRST_FAILED_RUN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause of a loop after runs that failed, before it runs again.
pub const MAX_FAILED_RUN_PAUSE: Duration = Duration::from_secs(300);

/// Maximum size of the session file of a loop, in bytes; a loop with a larger file is not run
/// again. A run adds at least a line of some 300 bytes, so a loop that runs every minute reaches
/// the limit after six years, and a loop that writes as much as it can reaches it within an hour.
pub const MAX_LOOP_SESSION_FILE_BYTES: u64 = 1 << 30;

/// Period after which the limits of a session (for example log lines and requests) are reset.
pub const SESSION_LIMITS_RESET_PERIOD: Duration = Duration::from_secs(3600);

/// Error that prevents the loops from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No loaded plugin has a loop.
    #[error("no running plugin has a loop")]
    NoLoop,
    /// The session of a loop cannot be opened.
    #[error(transparent)]
    Host(#[from] host::Error),
}

/// Loop that has ended, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedLoop {
    /// Name of the plugin whose loop ended.
    pub plugin: String,
    /// Id of the session in which the loop ran.
    pub session: Arc<str>,
    /// Reason why the loop ended.
    pub why: LoopEndReason,
}

/// Reason why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEndReason {
    /// The loop reported that nothing is left to do.
    Done,
    /// All loops were cancelled before this loop was done.
    Interrupted,
    /// The loop cannot be run again. The text is the reason; a notice informed the receivers of
    /// events.
    Failed(String),
    /// The session could not be closed, or the host has a bug. The text is the reason.
    Broken(String),
}

/// Loops of a host, ready to run. If the future of [`run_all_loops`](Self::run_all_loops) is
/// dropped, the loops stop immediately.
#[must_use = "`run_all_loops` runs the loops"]
pub struct PluginLoopsRunner {
    loops: Vec<PluginLoopWithSession>,
    max_session_bytes: u64,
    inboxes: LoopInboxes,
    runner: Option<Arc<dyn LoopTurnRunner>>,
}

/// Loop of a plugin, with the session in which it runs.
struct PluginLoopWithSession {
    plugin: String,
    session: Session,
    watcher: Option<Sender<Stamped>>,
}

impl PluginLoopsRunner {
    /// Opens a session for each loop of the host. These sessions are marked as created by the
    /// program, so the session id `last` does not resolve to them.
    ///
    /// # Errors
    /// No plugin has a loop, or a session cannot be opened.
    pub fn open_sessions(host: &Host) -> Result<Self, Error> {
        let open = |plugin: &str| {
            let session = host.session().aside(format!("the loop of {plugin}"));
            Ok::<_, host::Error>(PluginLoopWithSession {
                plugin: plugin.to_owned(),
                session: session.create()?,
                watcher: None,
            })
        };
        let loops = host.loops().into_iter().map(open);
        let loops = loops.collect::<Result<Vec<_>, _>>()?;
        if loops.is_empty() {
            return Err(Error::NoLoop);
        }
        Ok(Self {
            inboxes: LoopInboxes::for_plugins(loops.iter().map(|own| own.plugin.clone())),
            loops,
            max_session_bytes: MAX_LOOP_SESSION_FILE_BYTES,
            runner: None,
        })
    }

    /// Uses `runner` to run the turns that loops request. By default a session is opened for each
    /// turn and closed after it, with the host's own policy and approver.
    pub fn with_turn_runner(mut self, runner: Arc<dyn LoopTurnRunner>) -> Self {
        self.runner = Some(runner);
        self
    }

    /// Returns the inboxes of the loops, to send them messages while they run.
    #[must_use]
    pub fn inboxes(&self) -> LoopInboxes {
        self.inboxes.clone()
    }

    /// Sends every event through this channel. A loop starts its next run only after the events of
    /// its last run were received, so that a loop with many events cannot fill the memory. A run
    /// that has started does not wait for the receiver.
    pub fn with_event_sender(mut self, watcher: Sender<Stamped>) -> Self {
        for own in &mut self.loops {
            own.watcher = Some(watcher.clone());
        }
        self
    }

    /// Sets the maximum size of a loop's session file in bytes; beyond it the loop is not run
    /// again. The default is [`MAX_LOOP_SESSION_FILE_BYTES`].
    pub fn with_max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// Returns the plugin and the session id of each loop.
    pub fn plugins_with_session_ids(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let loops = self.loops.iter();
        loops.map(|own| (own.plugin.as_str(), own.session.id()))
    }

    /// Returns the tools that can be given to subagents of the loops.
    #[must_use]
    pub fn subagent_tools(&self) -> Vec<Arc<ToolSpec>> {
        let first = self.loops.first();
        first.map(|own| own.session.tools()).unwrap_or_default()
    }

    /// Runs the loops until all are done or `cancel` is cancelled, then closes their sessions. A
    /// loop that fails runs again after a growing pause and does not affect the others. Returns the
    /// end of each loop, in the order of their ends.
    pub async fn run_all_loops(self, cancel: &CancellationToken) -> Vec<EndedLoop> {
        let mut tasks = JoinSet::new();
        for own in self.loops {
            let cancel = cancel.clone();
            let parts = LoopServiceOptions {
                runner: self.runner.clone(),
                watcher: own.watcher.clone(),
                max_session_bytes: self.max_session_bytes,
                shutdown: cancel.clone(),
            };
            let max_session_bytes = self.max_session_bytes;
            // A plugin without a loop has no `PluginLoopHostService`; its first run reports the
            // error.
            let desk = PluginLoopHostService::new(&own.session, &own.plugin, parts).map(
                |(desk, inbox)| {
                    self.inboxes.open_inbox(&own.plugin, inbox);
                    desk
                },
            );
            tasks.spawn(async move {
                let (plugin, session) = (own.plugin.clone(), own.session.id().clone());
                let ran = AssertUnwindSafe(run::run_loop_until_end(
                    own,
                    desk,
                    max_session_bytes,
                    &cancel,
                ));
                let why = ran.catch_unwind().await.unwrap_or_else(|panic| {
                    let what = panic_text(&*panic);
                    LoopEndReason::Broken(format!("an internal error of the host occurred: {what}"))
                });
                EndedLoop {
                    plugin,
                    session,
                    why,
                }
            });
        }
        let mut ends = Vec::with_capacity(tasks.len());
        while let Some(ended) = tasks.join_next().await {
            // `join_next` returns no error: a task catches its panics and is never aborted.
            ends.extend(ended);
        }
        ends
    }
}

impl fmt::Debug for PluginLoopsRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<&str> = self
            .plugins_with_session_ids()
            .map(|(plugin, _)| plugin)
            .collect();
        f.debug_struct("PluginLoopsRunner")
            .field("plugins", &plugins)
            .finish()
    }
}
