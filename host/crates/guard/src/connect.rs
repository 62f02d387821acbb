//! Implements the program that agents run as their hook. It asks the daemon, starts a daemon if
//! none runs, and refuses the call after any failure.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::agent::{AgentHookPoint, GuardedAgent};
use super::answer::HookAnswer;
use super::error::GuardFileOrDaemonError;
use super::event::parse_hook_payload;
use super::folder::GuardDaemonFolder;
use super::frame::{DaemonReply, RequestHead, read_reply, write_request};

/// Timeout for the complete request. It must be shorter than the agents' own timeouts, because an
/// agent runs the call if its timeout expires.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);

/// Interval between two attempts to connect to the daemon of the guard.
const DAEMON_CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Timeout for a started daemon to listen. The daemon may first have to wait until the previous
/// daemon has ended.
const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of daemons that one request is sent to. A daemon that is shutting down answers
/// that it is retired, and the request goes to its successor.
const MAX_DAEMON_ATTEMPTS_PER_REQUEST: u32 = 4;

/// Request that an agent sends to the hook that it runs.
#[derive(Debug)]
pub struct AgentHookRequest {
    /// Agent that runs the hook.
    pub agent: GuardedAgent,
    /// Point of Rind to which the agent's hook corresponds.
    pub point: AgentHookPoint,
    /// Bytes that the agent wrote to the hook's standard input.
    pub payload: Vec<u8>,
    /// Folder in which the agent runs the hook.
    pub folder: PathBuf,
    /// Build id of this program, which the daemon compares with its own.
    pub build: String,
}

/// Starts a daemon that listens in a guard folder.
///
/// An implementation must not wait for the daemon to end.
pub trait GuardDaemonStarter {
    /// Starts the daemon.
    ///
    /// # Errors
    /// Reason why no daemon was started, as a sentence.
    fn start_daemon(&self, folder: &GuardDaemonFolder) -> Result<(), String>;
}

/// Asks the daemon for the answer to a hook. Returns a refusal if the payload is invalid, or if the
/// daemon cannot be reached or does not answer.
pub fn ask_daemon_for_hook_answer(
    request: &AgentHookRequest,
    folder: Result<GuardDaemonFolder, GuardFileOrDaemonError>,
    start: &dyn GuardDaemonStarter,
) -> HookAnswer {
    let (agent, point) = (request.agent, request.point);
    let refuse = |payload, why: &str| agent.hook_format().write_refusal(point, payload, why);
    // Parse the payload here too: an invalid one needs no daemon, and the form of a refusal may
    // depend on the payload.
    let (payload, _) = match parse_hook_payload(agent, point, &request.payload) {
        Ok(read) => read,
        Err(unread) => return refuse(unread.payload.as_ref(), &unread.why),
    };
    let until = Instant::now() + REQUEST_TIMEOUT;
    let answer =
        folder.and_then(|folder| request_answer_from_daemons(request, &folder, start, until));
    match answer {
        Ok(answer) => answer,
        Err(error) => refuse(Some(&payload), &error.to_string()),
    }
}

/// Requests the answer from the daemon, and from the daemon that replaces it if the first replies
/// that it is retired.
fn request_answer_from_daemons(
    request: &AgentHookRequest,
    folder: &GuardDaemonFolder,
    start: &dyn GuardDaemonStarter,
    until: Instant,
) -> Result<HookAnswer, GuardFileOrDaemonError> {
    let head = RequestHead {
        build: request.build.clone(),
        agent: request.agent,
        point: request.point,
        folder: request.folder.clone(),
    };
    let mut last = String::new();
    for _ in 0..MAX_DAEMON_ATTEMPTS_PER_REQUEST {
        let stream = match folder.connect_to_daemon()? {
            Some(stream) => stream,
            None => start_daemon_and_connect(folder, start, until)?,
        };
        match send_request_and_read_reply(stream, &head, &request.payload, until) {
            Ok(DaemonReply::Answer(answer)) => return Ok(answer),
            Ok(DaemonReply::Retired(why)) => last = why,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(GuardFileOrDaemonError::Daemon(format!(
                    "no answer in {} s",
                    REQUEST_TIMEOUT.as_secs()
                )));
            }
            // Do not send the request again, because the daemon may already have judged it.
            Err(error) => {
                return Err(GuardFileOrDaemonError::daemon_error(
                    "the daemon did not answer",
                    &error,
                ));
            }
        }
        sleep(DAEMON_CONNECT_RETRY_INTERVAL);
    }
    Err(GuardFileOrDaemonError::Daemon(format!(
        "the daemon was replaced repeatedly: {last}"
    )))
}

/// Sends a request and reads its reply. A system call that exceeds the remaining time fails with an
/// error of the kind `WouldBlock`.
fn send_request_and_read_reply(
    mut stream: UnixStream,
    head: &RequestHead,
    payload: &[u8],
    until: Instant,
) -> io::Result<DaemonReply> {
    // Never pass zero, which would mean no timeout.
    let rest = || {
        let rest = until.saturating_duration_since(Instant::now());
        Some(rest.max(DAEMON_CONNECT_RETRY_INTERVAL))
    };
    stream.set_write_timeout(rest())?;
    write_request(&mut stream, head, payload)?;
    stream.set_read_timeout(rest())?;
    read_reply(&mut stream)
}

/// Starts a daemon and connects to it. If several hook programs try at once, one of them starts the
/// daemon and the others wait for it.
fn start_daemon_and_connect(
    folder: &GuardDaemonFolder,
    start: &dyn GuardDaemonStarter,
    until: Instant,
) -> Result<UnixStream, GuardFileOrDaemonError> {
    let until = until.min(Instant::now() + DAEMON_START_TIMEOUT);
    let lock = folder.open_start_lock_file()?;
    while !folder.try_lock_file(&lock)? {
        if let Some(stream) = folder.connect_to_daemon()? {
            return Ok(stream);
        }
        wait_before_reconnect(until)?;
    }
    if let Some(stream) = folder.connect_to_daemon()? {
        return Ok(stream);
    }
    start
        .start_daemon(folder)
        .map_err(GuardFileOrDaemonError::Daemon)?;
    loop {
        if let Some(stream) = folder.connect_to_daemon()? {
            return Ok(stream);
        }
        wait_before_reconnect(until)?;
    }
}

fn wait_before_reconnect(until: Instant) -> Result<(), GuardFileOrDaemonError> {
    if Instant::now() >= until {
        return Err(GuardFileOrDaemonError::Daemon(format!(
            "no guard daemon listened within {} s; `rind guard status` shows the path of the daemon's log",
            DAEMON_START_TIMEOUT.as_secs()
        )));
    }
    sleep(DAEMON_CONNECT_RETRY_INTERVAL);
    Ok(())
}

/// Whether a daemon listens in the folder.
///
/// # Errors
/// The path is not a usable socket.
pub fn is_daemon_listening(folder: &GuardDaemonFolder) -> Result<bool, GuardFileOrDaemonError> {
    Ok(folder.connect_to_daemon()?.is_some())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::super::frame::{encode_frames, read_request};
    use super::*;

    struct NoDaemon;

    impl GuardDaemonStarter for NoDaemon {
        fn start_daemon(&self, _: &GuardDaemonFolder) -> Result<(), String> {
            Err("no daemon is started".to_owned())
        }
    }

    fn request(payload: &[u8]) -> AgentHookRequest {
        AgentHookRequest {
            agent: GuardedAgent::Codex,
            point: AgentHookPoint::PreTool,
            payload: payload.to_vec(),
            folder: "/".into(),
            build: "a".to_owned(),
        }
    }

    const CALL: &[u8] = br#"{"session_id":"s","cwd":"/","tool_name":"Bash","tool_use_id":"c","tool_input":{"command":"ls"}}"#;

    #[test]
    fn without_a_daemon_and_with_a_payload_that_cannot_be_read_the_answer_is_a_refusal() {
        let data = tempfile::tempdir().unwrap();
        for (payload, why) in [
            (CALL, "no daemon is started"),
            (b"".as_slice(), "not valid JSON"),
            (b"[]", "not a JSON object"),
            (b"{}", "`session_id` is missing"),
            (b"\xff\xfe{", "not valid JSON"),
            (b"{\"session_id\":\"s\0", "not valid JSON"),
        ] {
            let folder = GuardDaemonFolder::open(data.path());
            let answer = ask_daemon_for_hook_answer(&request(payload), folder, &NoDaemon);
            assert_eq!(answer.code, 2);
            assert!(answer.stderr.contains(why), "{}", answer.stderr);
        }
        let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let folder = GuardDaemonFolder::open(data.path());
        let answer = ask_daemon_for_hook_answer(&request(deep.as_bytes()), folder, &NoDaemon);
        assert_eq!(answer.code, 2);
    }

    #[tokio::test]
    async fn garbage_of_a_daemon_and_one_that_hangs_up_are_refusals() {
        let data = tempfile::tempdir().unwrap();
        let folder = GuardDaemonFolder::open(data.path()).unwrap();
        let listener = folder.create_listener().unwrap();
        let serve = async move {
            for reply in [b"garbage".as_slice(), b"{\"answer\":7}", b""] {
                let (mut stream, _) = listener.accept().await.unwrap();
                read_request(&mut stream).await.unwrap();
                if !reply.is_empty() {
                    let bytes = encode_frames(&[reply]).unwrap();
                    stream.write_all(&bytes).await.unwrap();
                }
            }
        };
        let ask = tokio::task::spawn_blocking(move || {
            for _ in 0..3 {
                let answer =
                    ask_daemon_for_hook_answer(&request(CALL), Ok(folder.clone()), &NoDaemon);
                assert_eq!(answer.code, 2, "{answer:?}");
                assert!(answer.stderr.contains("did not answer"), "{answer:?}");
            }
        });
        tokio::join!(serve, ask).1.unwrap();
    }
}
