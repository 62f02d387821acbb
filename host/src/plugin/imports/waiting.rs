//! `rind:plugin/waiting`: lets a loop wait for events. While it waits, the deadline of the loop's
//! run is paused.
//!
//! Files are watched by polling: the kernel's notifications miss changes on network and overlay
//! file systems, and need a descriptor for each folder.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::bindings::rind::plugin::waiting;
use super::super::host::HostState;
use super::super::limits::MAX_POINT_CALLS_PER_PLUGIN_CALL;
use super::files::run_on_blocking_pool;
use super::websocket::{LoopRunWebSockets, WebSocketDataWaiter};
use crate::folder::{FolderError, GrantedFolders};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HostFunctionError;
use crate::point::loop_handle::{IncomingLoopMessage, LoopHostFunctions};

/// Maximum number of paths whose changes a loop can wait for with one call.
pub(super) const MAX_PATHS_PER_WAIT: usize = 8;

/// Minimum duration of a timed wait, so that a loop that requests waits of 0 ms does not keep a
/// core busy.
const MIN_TIMED_WAIT: Duration = Duration::from_millis(10);

/// Maximum duration of a wait for which the loop gives a time.
const MAX_TIMED_WAIT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Interval between two checks of the watched paths.
const WATCHED_PATH_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum pause after a check of the watched paths, as a multiple of the time that the check took:
/// a folder of ten thousand entries must not keep the disk busy.
const PATH_CHECK_PAUSE_TO_DURATION_RATIO: u32 = 20;

/// Maximum number of watched paths whose last observed state is stored during one run of a loop.
const MAX_WATCHED_PATHS_PER_RUN: usize = 64;

/// Interval after which a run of a loop that waits gets the full limits of a turn again.
const LOOP_TURN_LIMITS_RESET_INTERVAL: Duration = Duration::from_secs(60);

/// Interval after which a run of a loop that waits gets the full limits of a session again.
const SESSION_LIMITS_RESET_INTERVAL: Duration = Duration::from_secs(3600);

/// State of one run of a plugin's loop.
pub(in super::super) struct PluginLoopRunState {
    handle: Arc<dyn LoopHostFunctions>,
    /// Last reported state of each path that this run has waited for.
    watched: BTreeMap<String, u64>,
    /// Time at which the limits of a turn were last reset; `hour` is that of the limits of a
    /// session.
    minute: Instant,
    hour: Instant,
    /// WebSocket connections of the run. Dropping a connection closes it.
    pub(super) sockets: LoopRunWebSockets,
}

impl PluginLoopRunState {
    pub(in super::super) fn new(handle: Arc<dyn LoopHostFunctions>) -> Self {
        let now = Instant::now();
        Self {
            handle,
            watched: BTreeMap::new(),
            minute: now,
            hour: now,
            sockets: LoopRunWebSockets::default(),
        }
    }
}

/// Event that ended the wait of a loop.
enum LoopWakeEvent {
    Timer,
    Changed(Result<(String, u64), (String, FolderError)>),
    Message(IncomingLoopMessage),
    Connection(u32),
    Shutdown,
}

impl waiting::Host for HostState {
    async fn wait(
        &mut self,
        until: waiting::WakeConditions,
    ) -> Result<waiting::Wakeup, HostFunctionError> {
        let handle = self.current_loop_handle("waiting")?;
        if until.paths.len() > MAX_PATHS_PER_WAIT {
            return Err(HostFunctionError::Limit(format!(
                "a wait may watch at most {MAX_PATHS_PER_WAIT} paths, but {} were passed",
                until.paths.len()
            )));
        }
        handle.check_session_limit()?;
        let watched = self.take_watched_path_states();
        let folders = self.backing.folders.clone();
        let sockets = self.web_socket_data_waiter();
        let event = wait_for_wake_event(&*handle, until, folders, &watched, &sockets);
        let event = match self.backing.fixed {
            // In a test with a fixed clock, which does not advance, do not wait for real time.
            Some(_) => check_wake_events_once(event).await,
            None => wait_with_paused_deadline(event).await,
        };
        let wakeup = self.convert_wake_event(watched, event);
        self.reset_expired_turn_and_session_limits(Instant::now());
        wakeup
    }
}

/// Waits until one of the events in `until` or a shutdown happens, and returns the first.
async fn wait_for_wake_event(
    handle: &dyn LoopHostFunctions,
    until: waiting::WakeConditions,
    folders: Arc<GrantedFolders>,
    watched: &BTreeMap<String, u64>,
    sockets: &WebSocketDataWaiter,
) -> LoopWakeEvent {
    let shutdown = handle.shutdown_token();
    let timer = async {
        match until.timeout_ms {
            Some(ms) => {
                let time = Duration::from_millis(ms);
                tokio::time::sleep(time.clamp(MIN_TIMED_WAIT, MAX_TIMED_WAIT)).await;
            }
            None => pending().await,
        }
    };
    let message = async {
        match until.messages {
            true => handle.receive_message().await,
            false => pending().await,
        }
    };
    let connection = async {
        match until.messages {
            true => sockets.wait_for_ready_socket().await,
            false => pending().await,
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => LoopWakeEvent::Shutdown,
        message = message => LoopWakeEvent::Message(message),
        number = connection => LoopWakeEvent::Connection(number),
        changed = poll_paths_for_change(folders, until.paths, watched) => LoopWakeEvent::Changed(changed),
        () = timer => LoopWakeEvent::Timer,
    }
}

/// Checks the events and the watched paths once instead of waiting. If no event has happened, or
/// only a timer has ended, reports that the host shuts down, so that the loop ends.
async fn check_wake_events_once(event: impl Future<Output = LoopWakeEvent>) -> LoopWakeEvent {
    let looked = tokio::time::timeout(WATCHED_PATH_CHECK_INTERVAL / 2, event).await;
    match looked {
        Ok(LoopWakeEvent::Timer) | Err(_) => LoopWakeEvent::Shutdown,
        Ok(event) => event,
    }
}

/// Polls the paths until the state of one differs from its known state. Returns that path with its
/// state, or the path that cannot be read with the error.
async fn poll_paths_for_change(
    folders: Arc<GrantedFolders>,
    paths: Vec<String>,
    watched: &BTreeMap<String, u64>,
) -> Result<(String, u64), (String, FolderError)> {
    if paths.is_empty() {
        return pending().await;
    }
    loop {
        let started = Instant::now();
        for path in &paths {
            let (folders, named) = (folders.clone(), path.clone());
            let state = run_on_blocking_pool(move || folders.path_change_marker(&named)).await;
            let state = state.map_err(|error| (path.clone(), error))?;
            if watched.get(path) != Some(&state) {
                return Ok((path.clone(), state));
            }
        }
        let took = started.elapsed();
        tokio::time::sleep(
            WATCHED_PATH_CHECK_INTERVAL
                .max(took.saturating_mul(PATH_CHECK_PAUSE_TO_DURATION_RATIO)),
        )
        .await;
    }
}

impl HostState {
    /// Returns the handle of the loop's run that is the current call.
    ///
    /// # Errors
    /// The current call is not a run of a loop but of a hook, a tool or a command.
    pub(super) fn current_loop_handle(
        &self,
        import: &str,
    ) -> Result<Arc<dyn LoopHostFunctions>, HostFunctionError> {
        if let Some(run) = &self.call.run {
            return Ok(run.handle.clone());
        }
        let place = match self.call.caller.point.as_deref() {
            Some(point) => format!("its hook on `{point}`"),
            None => "one of its tools or commands".to_owned(),
        };
        Err(HostFunctionError::Denied(format!(
            "only the loop of plugin `{}` may use `{import}`, but {place} used it",
            self.backing.plugin
        )))
    }

    /// Returns signals that become ready when a WebSocket connection of the run has received data.
    fn web_socket_data_waiter(&self) -> WebSocketDataWaiter {
        let run = self.call.run.as_ref();
        run.map_or_else(WebSocketDataWaiter::default, |run| {
            run.sockets.data_waiter()
        })
    }

    fn take_watched_path_states(&mut self) -> BTreeMap<String, u64> {
        let run = self.call.run.as_mut();
        let mut watched = run.map_or_else(BTreeMap::new, |run| std::mem::take(&mut run.watched));
        if watched.len() > MAX_WATCHED_PATHS_PER_RUN {
            watched.clear();
        }
        watched
    }

    /// Converts the event that ended a wait into the guest's type. If a watched path changed,
    /// stores its new state.
    fn convert_wake_event(
        &mut self,
        mut watched: BTreeMap<String, u64>,
        event: LoopWakeEvent,
    ) -> Result<waiting::Wakeup, HostFunctionError> {
        let wakeup = match event {
            LoopWakeEvent::Timer => Ok(waiting::Wakeup::Timer),
            LoopWakeEvent::Shutdown => Ok(waiting::Wakeup::Shutdown),
            LoopWakeEvent::Message(message) => Ok(waiting::Wakeup::Message(waiting::LoopMessage {
                sender: message.sender,
                text: message.text,
            })),
            LoopWakeEvent::Connection(number) => Ok(waiting::Wakeup::Connection(number)),
            LoopWakeEvent::Changed(Ok((path, state))) => {
                watched.insert(path.clone(), state);
                Ok(waiting::Wakeup::Changed(path))
            }
            LoopWakeEvent::Changed(Err((path, error))) => {
                self.record_and_convert_error("watch", &path, Err(error))
            }
        };
        if let Some(run) = &mut self.call.run {
            run.watched = watched;
        }
        wakeup
    }

    /// Resets the limits of a turn if a minute has passed since their last reset, and the limits of
    /// a session if an hour has passed.
    fn reset_expired_turn_and_session_limits(&mut self, now: Instant) {
        let Some(run) = &mut self.call.run else {
            return;
        };
        if now.saturating_duration_since(run.hour) >= SESSION_LIMITS_RESET_INTERVAL {
            run.hour = now;
            self.backing.reset_session_limits();
        }
        if now.saturating_duration_since(run.minute) >= LOOP_TURN_LIMITS_RESET_INTERVAL {
            run.minute = now;
            self.call.point_calls_left = MAX_POINT_CALLS_PER_PLUGIN_CALL;
            self.backing.handle.reset_call_limits(&self.call.caller);
        }
    }
}
