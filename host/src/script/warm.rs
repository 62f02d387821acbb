//! Runs a script that stays alive for the session: calls and answers are lines of JSON, matched by
//! id.
//!
//! The script is started at its first call. If it exits, or is stopped because a call was dropped
//! without an answer, the next call restarts it, a limited number of times. A line that is no
//! answer or has an unknown id is an error; a line with the id of an earlier call is late and is
//! dropped. Start from [`PersistentScript`].

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::json::ScriptHookCall;
use super::once::{self, MAX_SCRIPT_OUTCOME_BYTES, ScriptOutputLimiter, ScriptProgram};
use crate::json;
use crate::lock::lock_ignoring_poison;
use crate::point::deadline::wait_in_call_queue;
use crate::point::failure::Failure;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;
use crate::tool::process::{
    FinishedProcess, InputNamedPipe, MAX_UNSPLIT_OUTPUT_LINE_BYTES, OutputLineCallback,
    ProcessOutputStream,
};

/// Maximum number of starts of one script in a session. A script that exits after every call would
/// cost more time than one process per call.
const MAX_SCRIPT_STARTS_PER_SESSION: u32 = 4;

/// Timeout of the process: longer than any session, so that the process never times out.
const PERSISTENT_PROCESS_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Maximum number of lines of output that wait to be read. A script that writes more without being
/// called is stopped.
const MAX_UNREAD_OUTPUT_LINES: usize = 64;

/// Number of bytes at the end of standard error that are kept for the text of an error.
const KEPT_STDERR_TAIL_BYTES: usize = 4096;

/// A script that keeps running between calls. It answers one call at a time.
pub(super) struct PersistentScript {
    program: ScriptProgram,
    state: AsyncMutex<PersistentScriptState>,
}

#[derive(Default)]
struct PersistentScriptState {
    running: Option<RunningScriptProcess>,
    n_starts: u32,
    n_calls: u64,
}

struct RunningScriptProcess {
    stdin: Sender,
    lines: Receiver<String>,
    ended: oneshot::Receiver<Result<FinishedProcess, Failure>>,
    flood: ScriptOutputLimiter,
    errors: Arc<Mutex<String>>,
    _stop: DropGuard,
}

/// JSON line that the script writes as the answer to one call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptAnswer {
    id: u64,
    #[serde(default)]
    outcome: Option<Value>,
    #[serde(default)]
    error: Option<String>,
}

impl PersistentScript {
    pub(super) fn new(program: ScriptProgram) -> Self {
        Self {
            program,
            state: AsyncMutex::default(),
        }
    }

    /// Sends a call and returns the outcome. If this future is dropped before the answer arrives,
    /// the process is stopped.
    pub(super) async fn call_running_script<P: Serialize>(
        &self,
        call: ScriptHookCall<P>,
    ) -> Result<Value, Failure> {
        let mut state = wait_in_call_queue(self.state.lock(), None).await;
        state.n_calls += 1;
        let id = state.n_calls;
        let mut line = serde_json::to_vec(&call.with_id(id)).map_err(serialization_failure)?;
        line.push(b'\n');
        // Move the process out of the state: if this future is dropped, the process is dropped too,
        // which stops it.
        let mut running = match state.running.take().filter(RunningScriptProcess::is_alive) {
            Some(running) => running,
            None => {
                if state.n_starts == MAX_SCRIPT_STARTS_PER_SESSION {
                    return Err(Failure::Unavailable(format!(
                        "its process exited {MAX_SCRIPT_STARTS_PER_SESSION} times in this session and is not started again"
                    )));
                }
                state.n_starts += 1;
                RunningScriptProcess::start_script(&self.program).await?
            }
        };
        let answer = running.send_call_and_read_answer(id, &line).await?;
        state.running = Some(running);
        answer
    }
}

fn serialization_failure(error: serde_json::Error) -> Failure {
    Failure::Unavailable(format!("the call cannot be written as JSON: {error}"))
}

impl RunningScriptProcess {
    async fn start_script(program: &ScriptProgram) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Unavailable(format!(
                "the pipe for its standard input cannot be made: {error}"
            ))
        };
        let (pipe, stdin) = InputNamedPipe::create(once::SCRIPT_INPUT_FOLDER_PREFIX)
            .await
            .map_err(failed)?;
        let cancel = CancellationToken::new();
        let flood = ScriptOutputLimiter::new(&cancel);
        let errors: Arc<Mutex<String>> = Arc::default();
        let (sender, lines) = mpsc::channel(MAX_UNREAD_OUTPUT_LINES);
        let on_line: OutputLineCallback = {
            let (flood, errors, cancel) = (flood.clone(), errors.clone(), cancel.clone());
            Arc::new(move |stream, line| {
                flood.count_output_line(stream, line);
                match stream {
                    ProcessOutputStream::Stdout if sender.try_send(line.to_owned()).is_err() => {
                        cancel.cancel()
                    }
                    ProcessOutputStream::Stdout => {}
                    ProcessOutputStream::Stderr => append_stderr_line(&errors, line),
                }
            })
        };
        let process = program
            .build_process(pipe.path().to_owned(), PERSISTENT_PROCESS_TIMEOUT, on_line)
            .await?;
        let (sender, ended) = oneshot::channel();
        let until = cancel.clone();
        tokio::spawn(async move {
            let finished = process.run(&until).await;
            let finished = finished.map_err(|error| Failure::Unavailable(error.to_string()));
            // The receiver is gone if the script was stopped.
            drop(sender.send(finished));
            drop(pipe);
        });
        Ok(Self {
            stdin,
            lines,
            ended,
            flood,
            errors,
            _stop: cancel.drop_guard(),
        })
    }

    fn is_alive(&self) -> bool {
        !self.lines.is_closed()
    }

    /// Sends one call and waits for the answer. After an error of the outer `Result` the process
    /// must not be used again; after an error of the inner `Result` it can be.
    async fn send_call_and_read_answer(
        &mut self,
        id: u64,
        line: &[u8],
    ) -> Result<Result<Value, Failure>, Failure> {
        self.flood.reset_counters();
        let writing = async {
            let written = self.stdin.write_all(line).await;
            match written {
                Ok(()) => std::future::pending().await,
                Err(error) => Failure::Unavailable(format!(
                    "the call cannot be written to its standard input: {error}"
                )),
            }
        };
        tokio::select! {
            // Poll the output before the write: lines that the script wrote before it exited still
            // count.
            biased;
            answer = read_script_answer(&mut self.lines, id) => match answer {
                Ok(answer) => Ok(answer),
                Err(ScriptAnswerError::Ended) => Err(self.wait_for_premature_exit().await),
                // The process cannot be used again: the rest of the line would be read as the
                // answer to the next call.
                Err(ScriptAnswerError::TooLong) => Err(Failure::Error(format!(
                    "it wrote a line of more than {MAX_UNSPLIT_OUTPUT_LINE_BYTES} bytes, so it was stopped; its next call starts it again"
                ))),
            },
            failure = writing => Err(failure),
        }
    }

    /// Waits until the script's process has ended, and returns the failure of the current call.
    async fn wait_for_premature_exit(&mut self) -> Failure {
        if let Some(why) = self.flood.exceeded_limit_message() {
            return Failure::Limit(why);
        }
        let errors = once::masked_error_line(&lock_ignoring_poison(&self.errors));
        match (&mut self.ended).await {
            Ok(Ok(finished)) => match once::missing_outcome_failure(finished.ending, &errors) {
                // The next call restarts the script, so this is an error of one call and not a
                // crash.
                Failure::Crash(why) | Failure::Error(why) => {
                    Failure::Error(format!("it ended before it answered: {why}"))
                }
                other => other,
            },
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Unavailable("it was stopped".to_owned()),
        }
    }
}

/// Reason why a script that keeps running gave no answer to a call.
enum ScriptAnswerError {
    Ended,
    /// The script wrote a line that is too long, of which the host received only a part.
    TooLong,
}

/// Waits for the answer to the call with this id.
async fn read_script_answer(
    lines: &mut Receiver<String>,
    id: u64,
) -> Result<Result<Value, Failure>, ScriptAnswerError> {
    loop {
        let line = lines.recv().await.ok_or(ScriptAnswerError::Ended)?;
        if line.trim().is_empty() {
            continue;
        }
        let read = json::parse_json(&line, MAX_SCRIPT_OUTCOME_BYTES);
        let read = read.and_then(|value| {
            serde_json::from_value::<ScriptAnswer>(value).map_err(|error| {
                format!("is not an answer, which has the form `{{\"id\": …, \"outcome\": {{…}}}}`: {error}")
            })
        });
        let answer = match read {
            Ok(answer) => answer,
            Err(_) if line.len() >= MAX_UNSPLIT_OUTPUT_LINE_BYTES => {
                return Err(ScriptAnswerError::TooLong);
            }
            Err(why) => {
                // Mask secrets before the line is truncated: half a secret would not be recognized.
                let (line, why) = (
                    escape_and_truncate_line(&SecretScanner::shared().to_masked_text(&line), 80),
                    once::masked_error_line(&why),
                );
                return Ok(Err(Failure::Malformed(format!("the line `{line}` {why}"))));
            }
        };
        if answer.id < id {
            continue;
        }
        return Ok(match answer {
            ScriptAnswer { id: other, .. } if other != id => Err(Failure::Malformed(format!(
                "it answered the unknown call {other}"
            ))),
            ScriptAnswer {
                error: Some(error), ..
            } => Err(Failure::Error(once::masked_error_line(&error))),
            ScriptAnswer {
                outcome: Some(Value::Object(outcome)),
                ..
            } => Ok(Value::Object(outcome)),
            ScriptAnswer { outcome: None, .. } => Ok(Value::Object(serde_json::Map::new())),
            ScriptAnswer { .. } => Err(Failure::Malformed(
                "its `outcome` is not a JSON object".to_owned(),
            )),
        });
    }
}

/// Appends a line to the stored standard error. Drops the beginning of the stored text if it is too
/// long.
fn append_stderr_line(errors: &Mutex<String>, line: &str) {
    let mut errors = lock_ignoring_poison(errors);
    errors.push_str(line);
    errors.push('\n');
    let excess = errors.len().saturating_sub(KEPT_STDERR_TAIL_BYTES);
    let excess = errors.ceil_char_boundary(excess);
    errors.drain(..excess);
}
