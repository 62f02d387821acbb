//! Implements the daemon: it decides on the requests that the agents' hook programs send over the
//! socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::Session;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent::GuardedAgent;
use super::answer::HookAnswer;
use super::error::GuardFileOrDaemonError;
use super::event::parse_hook_payload;
use super::folder::{GuardDaemonFolder, require_same_user_peer};
use super::frame::{DaemonReply, RequestHead, read_request, write_reply};
use super::sessions::OpenGuardSessions;

/// Time without a request after which the daemon ends.
const DAEMON_IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Interval at which the daemon closes idle sessions and checks whether it should end.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout for reading a request from a connection, and for writing the reply.
const REQUEST_TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for deciding on the request of a hook. The hook program waits a little longer.
const HOOK_DECISION_TIMEOUT: Duration = Duration::from_secs(40);

/// Maximum number of concurrent requests. Further connections wait in the backlog of the socket.
const MAX_CONCURRENT_REQUESTS: usize = 128;

/// Maximum time for which the daemon waits for requests in progress before it ends.
const SHUTDOWN_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the daemon accepts pending connections after it removed the socket file. Each
/// accepted connection restarts the time.
const PENDING_CONNECTION_ACCEPT_TIMEOUT: Duration = Duration::from_millis(5);

/// Time that a daemon waits for the previous daemon to end. It is longer than the previous daemon
/// needs to finish its requests and close its sessions.
const PREVIOUS_DAEMON_EXIT_TIMEOUT: Duration = Duration::from_secs(22);

/// Request to a [`GuardSessionOpener`] to open or resume a session.
#[derive(Clone, Debug)]
pub struct GuardSessionRequest {
    /// Agent to which the session belongs.
    pub agent: GuardedAgent,
    /// Id of the session; a session with this id may already exist.
    pub id: String,
    /// Folder in which the agent works.
    pub folder: PathBuf,
}

/// Opens sessions for the daemon. The program implements it, because it knows the settings and
/// plugins.
pub trait GuardSessionOpener: Send + Sync {
    /// Opens or resumes a session. Also returns the folder in which the session began, because
    /// paths in the session's calls are relative to that folder.
    fn open<'a>(
        &'a self,
        order: &'a GuardSessionRequest,
    ) -> BoxFuture<'a, Result<(Session, PathBuf), String>>;

    /// Returns a text that changes whenever settings or plugins change. The daemon compares it at
    /// each request.
    fn configuration_fingerprint(&self) -> String;
}

/// State of the daemon that the tasks of all connections share.
struct GuardDaemonState {
    sessions: OpenGuardSessions,
    backend: Arc<dyn GuardSessionOpener>,
    build: String,
    stamp: String,
    retire: mpsc::Sender<()>,
}

/// Serves requests of hooks until the daemon is idle, `cancel` is set, a request needs a new
/// daemon, or the socket file is gone. Returns immediately if another daemon already serves.
///
/// # Errors
/// The socket cannot be created.
pub async fn run_guard_daemon(
    folder: &GuardDaemonFolder,
    backend: Arc<dyn GuardSessionOpener>,
    build: String,
    cancel: &CancellationToken,
) -> Result<(), GuardFileOrDaemonError> {
    let mut lock = folder.open_daemon_lock_file()?;
    let until = Instant::now() + PREVIOUS_DAEMON_EXIT_TIMEOUT;
    while !folder.try_lock_file(&lock)? {
        // Another daemon holds the lock. If its socket accepts a connection, it still serves.
        // Otherwise it is retiring and has removed the socket, so wait for the lock.
        if folder.connect_to_daemon()?.is_some() {
            return Ok(());
        }
        if Instant::now() >= until {
            let seconds = PREVIOUS_DAEMON_EXIT_TIMEOUT.as_secs();
            tracing::error!("the previous daemon did not end within {seconds} s");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let listener = folder.create_listener()?;
    folder.write_process_id(&mut lock);
    let (retire, mut retired) = mpsc::channel(1);
    let state = Arc::new(GuardDaemonState {
        sessions: OpenGuardSessions::new(backend.clone()),
        stamp: backend.configuration_fingerprint(),
        backend,
        build,
        retire,
    });
    let (running, room) = (
        TaskTracker::new(),
        Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
    );
    let mut used = Instant::now();
    loop {
        let permit = room.clone().acquire_owned().await;
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            _ = retired.recv() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    used = Instant::now();
                    let state = state.clone();
                    running.spawn(async move {
                        serve_request(&state, stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection was taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            () = tokio::time::sleep(IDLE_CHECK_INTERVAL) => {
                let has_sessions = state.sessions.close_idle_sessions();
                if !folder.has_socket() {
                    break;
                }
                if !has_sessions && running.is_empty() && used.elapsed() >= DAEMON_IDLE_TIMEOUT {
                    break;
                }
            }
        }
    }
    folder.remove_socket();
    // Accept the connections that are already in the backlog. They get an answer, or the reply that
    // this daemon is retired.
    while let Ok(Ok((stream, _))) =
        timeout(PENDING_CONNECTION_ACCEPT_TIMEOUT, listener.accept()).await
    {
        let state = state.clone();
        running.spawn(async move { serve_request(&state, stream).await });
    }
    drop(listener);
    running.close();
    if timeout(SHUTDOWN_DRAIN_TIMEOUT, running.wait())
        .await
        .is_err()
    {
        tracing::warn!("requests did not end in time");
    }
    state.sessions.close_all_sessions().await;
    drop(lock);
    Ok(())
}

/// Reads the request of one connection to the daemon, and sends the reply.
async fn serve_request(state: &GuardDaemonState, mut stream: UnixStream) {
    if let Err(why) = require_same_user_peer(&stream) {
        tracing::warn!(why, "a connection was refused");
        return;
    }
    let (head, payload) = match timeout(REQUEST_TRANSFER_TIMEOUT, read_request(&mut stream)).await {
        Ok(Ok(request)) => request,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a request could not be read");
            return;
        }
        Err(_) => return,
    };
    let reply = match daemon_retire_reason(state, &head) {
        Some(why) => DaemonReply::Retired(why.to_owned()),
        None => DaemonReply::Answer(judge_hook_request(state, head, &payload).await),
    };
    let is_retired = matches!(reply, DaemonReply::Retired(_));
    if is_retired {
        // Stop this daemon before the reply is sent, because the program that reads the reply
        // starts the next daemon.
        let _ = state.retire.try_send(());
    }
    match timeout(REQUEST_TRANSFER_TIMEOUT, write_reply(&mut stream, &reply)).await {
        Ok(Ok(())) => {}
        _ => tracing::debug!("a reply was not taken"),
    }
}

/// Returns the reason why a new daemon must answer the request; `None` if this daemon can answer.
fn daemon_retire_reason(state: &GuardDaemonState, head: &RequestHead) -> Option<&'static str> {
    if head.build != state.build {
        Some("the program is another build")
    } else if state.backend.configuration_fingerprint() != state.stamp {
        Some("settings or plugins have changed")
    } else {
        None
    }
}

async fn judge_hook_request(
    state: &GuardDaemonState,
    head: RequestHead,
    bytes: &[u8],
) -> HookAnswer {
    let RequestHead {
        agent,
        point,
        folder,
        ..
    } = head;
    let format = agent.hook_format();
    let (payload, event) = match parse_hook_payload(agent, point, bytes) {
        Ok(read) => read,
        Err(unread) => return format.write_refusal(point, unread.payload.as_ref(), &unread.why),
    };
    let judged = timeout(
        HOOK_DECISION_TIMEOUT,
        state.sessions.judge_event(agent, folder, &event),
    )
    .await;
    match judged {
        Ok(Ok(verdict)) => format.answer(point, &payload, &event, &verdict),
        Ok(Err(why)) => format.write_refusal(point, Some(&payload), &why),
        Err(_) => {
            let why = format!("no verdict in {} s", HOOK_DECISION_TIMEOUT.as_secs());
            format.write_refusal(point, Some(&payload), &why)
        }
    }
}
