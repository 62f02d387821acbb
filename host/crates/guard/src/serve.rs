//! The daemon: judges the requests that hook programs send over the socket.

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
use super::error::GuardError;
use super::event::read_payload;
use super::folder::{GuardFolder, check_peer};
use super::frame::{DaemonReply, RequestHead, read_request, write_reply};
use super::sessions::GuardSessions;

/// Time without a request after which the daemon ends.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// Interval at which the daemon closes idle sessions and checks whether it should end.
const LOOK: Duration = Duration::from_secs(10);

/// Timeout for the arrival of a request, and for the delivery of a reply.
const TRANSFER: Duration = Duration::from_secs(10);

/// Timeout for judging a request. The hook program waits a little longer.
const JUDGE: Duration = Duration::from_secs(40);

/// Maximum number of concurrent requests. Further connections wait in the backlog of the socket.
const MAX_RUNNING: usize = 128;

/// Timeout for running requests when the daemon ends.
const DRAIN: Duration = Duration::from_secs(10);

/// Wait for a last connection after the socket file was removed; each further connection restarts
/// it.
const LAST_ACCEPT: Duration = Duration::from_millis(5);

/// Time that a daemon waits for its predecessor to end; longer than the predecessor needs to finish
/// its requests and close its sessions.
const TAKE_OVER: Duration = Duration::from_secs(22);

/// Session to open or resume.
#[derive(Clone, Debug)]
pub struct GuardOrder {
    /// Agent that the session belongs to.
    pub agent: GuardedAgent,
    /// Id of the session; a session with this id may already exist.
    pub id: String,
    /// Folder that the agent works in.
    pub folder: PathBuf,
}

/// Part of the program that knows the settings and plugins.
pub trait GuardBackend: Send + Sync {
    /// Opens or resumes a session. Also returns the folder in which the session began, because
    /// paths in the session's calls are relative to that folder.
    fn open<'a>(
        &'a self,
        order: &'a GuardOrder,
    ) -> BoxFuture<'a, Result<(Session, PathBuf), String>>;

    /// Returns a text that changes when settings or plugins change. Called for each request.
    fn stamp(&self) -> String;
}

/// State shared by all connections.
struct DaemonState {
    sessions: GuardSessions,
    backend: Arc<dyn GuardBackend>,
    build: String,
    stamp: String,
    retire: mpsc::Sender<()>,
}

/// Serves until the daemon is idle, `cancel` is set, a request needs a new daemon, or the socket
/// file is gone. Returns immediately if another daemon already serves.
///
/// # Errors
/// The socket cannot be created.
pub async fn serve_guard(
    folder: &GuardFolder,
    backend: Arc<dyn GuardBackend>,
    build: String,
    cancel: &CancellationToken,
) -> Result<(), GuardError> {
    let mut lock = folder.daemon_lock()?;
    let until = Instant::now() + TAKE_OVER;
    while !folder.has_lock(&lock)? {
        // Another daemon holds the lock. If the socket accepts a connection, that daemon serves; a
        // retiring daemon has already removed its socket, so wait for the lock.
        if folder.connect()?.is_some() {
            return Ok(());
        }
        if Instant::now() >= until {
            let seconds = TAKE_OVER.as_secs();
            tracing::error!("the previous daemon did not end within {seconds} s");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let listener = folder.listen()?;
    folder.note_process(&mut lock);
    let (retire, mut retired) = mpsc::channel(1);
    let state = Arc::new(DaemonState {
        sessions: GuardSessions::new(backend.clone()),
        stamp: backend.stamp(),
        backend,
        build,
        retire,
    });
    let (running, room) = (TaskTracker::new(), Arc::new(Semaphore::new(MAX_RUNNING)));
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
            () = tokio::time::sleep(LOOK) => {
                let has_sessions = state.sessions.close_idle();
                if !folder.has_socket() {
                    break;
                }
                if !has_sessions && running.is_empty() && used.elapsed() >= IDLE {
                    break;
                }
            }
        }
    }
    folder.forget_socket();
    // Connections that are already in the backlog still get an answer, or the reply that this
    // daemon is retired.
    while let Ok(Ok((stream, _))) = timeout(LAST_ACCEPT, listener.accept()).await {
        let state = state.clone();
        running.spawn(async move { serve_request(&state, stream).await });
    }
    drop(listener);
    running.close();
    if timeout(DRAIN, running.wait()).await.is_err() {
        tracing::warn!("requests did not end in time");
    }
    state.sessions.close_all().await;
    drop(lock);
    Ok(())
}

/// Serves one connection: a request and its reply.
async fn serve_request(state: &DaemonState, mut stream: UnixStream) {
    if let Err(why) = check_peer(&stream) {
        tracing::warn!(why, "a connection was refused");
        return;
    }
    let (head, payload) = match timeout(TRANSFER, read_request(&mut stream)).await {
        Ok(Ok(request)) => request,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a request could not be read");
            return;
        }
        Err(_) => return,
    };
    let reply = match retirement(state, &head) {
        Some(why) => DaemonReply::Retired(why.to_owned()),
        None => DaemonReply::Answer(judge_request(state, head, &payload).await),
    };
    let is_retired = matches!(reply, DaemonReply::Retired(_));
    if is_retired {
        // Sent before the reply, because the program that reads the reply starts the next daemon.
        let _ = state.retire.try_send(());
    }
    match timeout(TRANSFER, write_reply(&mut stream, &reply)).await {
        Ok(Ok(())) => {}
        _ => tracing::debug!("a reply was not taken"),
    }
}

/// Returns the reason why a new daemon must answer the request; `None` if this daemon can answer.
fn retirement(state: &DaemonState, head: &RequestHead) -> Option<&'static str> {
    if head.build != state.build {
        Some("the program is another build")
    } else if state.backend.stamp() != state.stamp {
        Some("settings or plugins have changed")
    } else {
        None
    }
}

async fn judge_request(state: &DaemonState, head: RequestHead, bytes: &[u8]) -> HookAnswer {
    let RequestHead {
        agent,
        point,
        folder,
        ..
    } = head;
    let format = agent.format();
    let (payload, event) = match read_payload(agent, point, bytes) {
        Ok(read) => read,
        Err(unread) => return format.refuse(point, unread.payload.as_ref(), &unread.why),
    };
    let judged = timeout(JUDGE, state.sessions.judge_event(agent, folder, &event)).await;
    match judged {
        Ok(Ok(verdict)) => format.answer(point, &payload, &event, &verdict),
        Ok(Err(why)) => format.refuse(point, Some(&payload), &why),
        Err(_) => {
            let why = format!("no verdict in {} s", JUDGE.as_secs());
            format.refuse(point, Some(&payload), &why)
        }
    }
}
