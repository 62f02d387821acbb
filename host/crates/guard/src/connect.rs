//! The program at a hook: asks the daemon, starts one where none runs, and refuses on every doubt.

use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::agent::{GuardPoint, GuardedAgent};
use super::answer::HookAnswer;
use super::error::GuardError;
use super::event::read_payload;
use super::folder::GuardFolder;
use super::frame::{DaemonReply, RequestHead, read_reply, write_request};

/// Timeout for the whole request. The agents' own timeouts are longer: if one of them expired, the
/// agent would run the call.
const DEADLINE: Duration = Duration::from_secs(45);

/// Pause between two looks for the daemon.
const PAUSE: Duration = Duration::from_millis(5);

/// Time in which a daemon that was started must listen. Its predecessor may have to end first.
const START_TIME: Duration = Duration::from_secs(30);

/// Maximum number of daemons that one request waits for: one that is shutting down, and its
/// successor.
const MAX_ROUNDS: u32 = 4;

/// Request of an agent at its hook.
#[derive(Debug)]
pub struct HookRequest {
    /// Agent that runs the hook.
    pub agent: GuardedAgent,
    /// Point of Rind to which the hook corresponds.
    pub point: GuardPoint,
    /// The bytes on standard input.
    pub payload: Vec<u8>,
    /// Folder in which the agent started the program.
    pub folder: PathBuf,
    /// Build of this program.
    pub build: String,
}

/// Starts a daemon, which then listens in the folder.
///
/// An implementation must not wait for the daemon to end.
pub trait DaemonStart {
    /// Starts it.
    ///
    /// # Errors
    /// Reason why no daemon was started, as a sentence.
    fn start_daemon(&self, folder: &GuardFolder) -> Result<(), String>;
}

/// Asks the daemon for the answer at a hook. There is always an answer: without a daemon it is the
/// refusal.
pub async fn ask_daemon(
    request: &HookRequest,
    folder: Result<GuardFolder, GuardError>,
    start: &dyn DaemonStart,
) -> HookAnswer {
    let (agent, point) = (request.agent, request.point);
    let refuse = |payload, why: &str| agent.format().refuse(point, payload, why);
    // Read here too: a payload that cannot be read needs no daemon, and the refusal may need its shape.
    let (payload, _) = match read_payload(agent, point, &request.payload) {
        Ok(read) => read,
        Err(unread) => return refuse(unread.payload.as_ref(), &unread.why),
    };
    let until = Instant::now() + DEADLINE;
    let asked = async {
        let folder = folder?;
        request_answer(request, &folder, start, until).await
    };
    let answer = match timeout_at(until, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(GuardError::Daemon(format!(
            "no answer in {} s",
            DEADLINE.as_secs()
        ))),
    };
    match answer {
        Ok(answer) => answer,
        Err(error) => refuse(Some(&payload), &error.to_string()),
    }
}

/// Asks the daemon, and asks again if it is replaced by another one.
async fn request_answer(
    request: &HookRequest,
    folder: &GuardFolder,
    start: &dyn DaemonStart,
    until: Instant,
) -> Result<HookAnswer, GuardError> {
    let head = RequestHead {
        build: request.build.clone(),
        agent: request.agent,
        point: request.point,
        folder: request.folder.clone(),
    };
    let mut last = String::new();
    for _ in 0..MAX_ROUNDS {
        let mut stream = match folder.connect().await? {
            Some(stream) => stream,
            None => connect_started(folder, start, until).await?,
        };
        let asked = async {
            write_request(&mut stream, &head, &request.payload).await?;
            read_reply(&mut stream).await
        };
        match asked.await {
            Ok(DaemonReply::Answer(answer)) => return Ok(answer),
            Ok(DaemonReply::Retired(why)) => last = why,
            // The daemon may have judged the request already, so the request is not sent twice.
            Err(error) => return Err(GuardError::daemon("the daemon did not answer", &error)),
        }
        sleep(PAUSE).await;
    }
    Err(GuardError::Daemon(format!(
        "the daemon was replaced repeatedly: {last}"
    )))
}

/// Starts a daemon and connects to it. If several programs try, one starts it and the others wait.
async fn connect_started(
    folder: &GuardFolder,
    start: &dyn DaemonStart,
    until: Instant,
) -> Result<UnixStream, GuardError> {
    let until = until.min(Instant::now() + START_TIME);
    let lock = folder.start_lock()?;
    while !folder.has_lock(&lock)? {
        if let Some(stream) = folder.connect().await? {
            return Ok(stream);
        }
        wait_until(until).await?;
    }
    if let Some(stream) = folder.connect().await? {
        return Ok(stream);
    }
    start.start_daemon(folder).map_err(GuardError::Daemon)?;
    loop {
        if let Some(stream) = folder.connect().await? {
            return Ok(stream);
        }
        wait_until(until).await?;
    }
}

async fn wait_until(until: Instant) -> Result<(), GuardError> {
    if Instant::now() >= until {
        return Err(GuardError::Daemon(format!(
            "no daemon listened within {} s; `rind guard status` names its log",
            START_TIME.as_secs()
        )));
    }
    sleep(PAUSE).await;
    Ok(())
}

/// Whether a daemon listens.
///
/// # Errors The path is not a usable socket.
pub async fn daemon_answers(folder: &GuardFolder) -> Result<bool, GuardError> {
    Ok(folder.connect().await?.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::frame::{read_request, write_frames};
    use super::*;

    struct NoDaemon;

    impl DaemonStart for NoDaemon {
        fn start_daemon(&self, _: &GuardFolder) -> Result<(), String> {
            Err("no daemon is started".to_owned())
        }
    }

    fn request(payload: &[u8]) -> HookRequest {
        HookRequest {
            agent: GuardedAgent::Codex,
            point: GuardPoint::PreTool,
            payload: payload.to_vec(),
            folder: "/".into(),
            build: "a".to_owned(),
        }
    }

    const CALL: &[u8] = br#"{"session_id":"s","cwd":"/","tool_name":"Bash","tool_use_id":"c","tool_input":{"command":"ls"}}"#;

    #[tokio::test]
    async fn without_a_daemon_and_with_a_payload_that_cannot_be_read_the_answer_is_a_refusal() {
        let data = tempfile::tempdir().unwrap();
        for (payload, why) in [
            (CALL, "no daemon is started"),
            (b"".as_slice(), "not valid JSON"),
            (b"[]", "not a JSON object"),
            (b"{}", "`session_id` is missing"),
            (b"\xff\xfe{", "not valid JSON"),
            (b"{\"session_id\":\"s\0", "not valid JSON"),
        ] {
            let folder = GuardFolder::open(data.path());
            let answer = ask_daemon(&request(payload), folder, &NoDaemon).await;
            assert_eq!(answer.code, 2);
            assert!(answer.stderr.contains(why), "{}", answer.stderr);
        }
        let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let folder = GuardFolder::open(data.path());
        let answer = ask_daemon(&request(deep.as_bytes()), folder, &NoDaemon).await;
        assert_eq!(answer.code, 2);
    }

    #[tokio::test]
    async fn garbage_of_a_daemon_and_one_that_hangs_up_are_refusals() {
        let data = tempfile::tempdir().unwrap();
        let folder = GuardFolder::open(data.path()).unwrap();
        let listener = folder.listen().unwrap();
        let serve = async move {
            for reply in [b"garbage".as_slice(), b"{\"answer\":7}", b""] {
                let (mut stream, _) = listener.accept().await.unwrap();
                read_request(&mut stream).await.unwrap();
                if !reply.is_empty() {
                    write_frames(&mut stream, &[reply]).await.unwrap();
                }
            }
        };
        let ask = async {
            for _ in 0..3 {
                let answer = ask_daemon(&request(CALL), Ok(folder.clone()), &NoDaemon).await;
                assert_eq!(answer.code, 2, "{answer:?}");
                assert!(answer.stderr.contains("did not answer"), "{answer:?}");
            }
        };
        tokio::join!(serve, ask);
    }
}
