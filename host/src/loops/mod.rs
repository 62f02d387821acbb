//! Runs the loops of plugins side by side, each in a session of its own, until all are done.
//!
//! Owns when a loop runs: the shortest pause, the growing pauses after failures, how long a session may become, and the end. A run
//! itself is the session's ([`Session::run_loop`]). It must not know who watches, and asks nobody. Start from [`Loops`].

mod pauses;
mod pump;
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
use crate::host::{self, Host, Session};
use crate::message::ToolSpec;
use crate::point::failure::panic_text;

/// Shortest pause between two runs, also of a loop that asks for none: it must not keep a core busy with beginning runs.
pub const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Pause after the first failure. Each further one in a row doubles it.
pub const FIRST_FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause after a failure.
pub const MAX_FAILURE_PAUSE: Duration = Duration::from_secs(300);

/// Most bytes of the file of one loop's session; then the loop is not run again. Every run leaves a line of some 300 bytes there,
/// so a loop that runs every minute gets that far in six years, and one that writes as much as it can within the hour.
pub const MAX_SESSION_BYTES: u64 = 1 << 30;

/// Time after which the limits of a session (lines of log, requests and the like) are counted from the beginning again.
pub const LIMITS_PERIOD: Duration = Duration::from_secs(3600);

/// Error that keeps loops from being run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No plugin has a loop.
    #[error("no plugin that runs has a loop")]
    NoLoop,
    /// A session cannot be opened.
    #[error(transparent)]
    Host(#[from] host::Error),
}

/// End of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopEnd {
    /// Name of the plugin.
    pub plugin: String,
    /// Id of its session.
    pub session: Arc<str>,
    /// Reason.
    pub why: EndReason,
}

/// Reason for the end of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The loop said that nothing is left to do.
    Done,
    /// The loops were cancelled.
    Interrupted,
    /// The loop cannot be run again, for this reason; a notice told those who watch.
    Failed(String),
    /// The session could not be closed, or the host's own code failed; the reason in words.
    Broken(String),
}

/// The loops of a host. Dropped before they have ended, they stop where they are.
#[must_use = "`run` runs the loops"]
pub struct Loops {
    loops: Vec<OneLoop>,
    max_session_bytes: u64,
}

/// A loop with its session.
struct OneLoop {
    plugin: String,
    session: Session,
    watcher: Option<Sender<Stamped>>,
}

impl Loops {
    /// Opens a session for each loop of the host. `last` goes on meaning the conversation before.
    ///
    /// # Errors
    /// No plugin has a loop, or a session cannot be opened.
    pub fn open(host: &Host) -> Result<Self, Error> {
        let open = |plugin: &str| {
            let session = host.session().aside(format!("the loop of {plugin}"));
            Ok::<_, host::Error>(OneLoop {
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
            loops,
            max_session_bytes: MAX_SESSION_BYTES,
        })
    }

    /// Sends every event through this channel. A loop runs again only when the events of its last run were taken, so that one that
    /// says much cannot fill the memory; a run that has begun does not wait.
    pub fn watch(mut self, watcher: Sender<Stamped>) -> Self {
        for own in &mut self.loops {
            own.watcher = Some(watcher.clone());
        }
        self
    }

    /// Sets how many bytes the file of a loop's session may have before the loop is not run again. The default is
    /// [`MAX_SESSION_BYTES`].
    pub fn max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// Returns the plugin of each loop with the id of its session.
    pub fn sessions(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let loops = self.loops.iter();
        loops.map(|own| (own.plugin.as_str(), own.session.id()))
    }

    /// Returns the tools that subagents of the loops can be given.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let first = self.loops.first();
        first.map(|own| own.session.tools()).unwrap_or_default()
    }

    /// Runs the loops until all are done or `cancel` is set. A loop that fails runs again after a pause that grows, and stops no
    /// other. At the end the sessions are closed. Returns the end of each loop, in the order of their ends.
    pub async fn run(self, cancel: &CancellationToken) -> Vec<LoopEnd> {
        let mut tasks = JoinSet::new();
        for own in self.loops {
            let (cancel, max_session_bytes) = (cancel.clone(), self.max_session_bytes);
            tasks.spawn(async move {
                let (plugin, session) = (own.plugin.clone(), own.session.id().clone());
                let ran = AssertUnwindSafe(run::until_end(own, max_session_bytes, &cancel));
                let why = ran.catch_unwind().await.unwrap_or_else(|panic| {
                    let what = panic_text(&*panic);
                    EndReason::Broken(format!("an internal error of the host occurred: {what}"))
                });
                LoopEnd {
                    plugin,
                    session,
                    why,
                }
            });
        }
        let mut ends = Vec::with_capacity(tasks.len());
        while let Some(ended) = tasks.join_next().await {
            // A task catches its panics, and nobody aborts it.
            ends.extend(ended);
        }
        ends
    }
}

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<&str> = self.sessions().map(|(plugin, _)| plugin).collect();
        f.debug_struct("Loops").field("plugins", &plugins).finish()
    }
}
