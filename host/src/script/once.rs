//! A script that is started for each call: input on its standard input, outcome on its standard output.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Script;
use crate::disk::TemporaryFolder;
use crate::json;
use crate::paths::Paths;
use crate::point::deadline::paused;
use crate::point::failure::Failure;
use crate::secret::Scanner;
use crate::text::clean;
use crate::tool::builtin::{Around, Commands, Look};
use crate::tool::process::{Ending, Finished, OnLine, Process, Stream, Streams};

/// Most bytes of an outcome: the largest body of a request that a hook may put in place.
pub(super) const MAX_OUTCOME_BYTES: usize = 8 << 20;

/// Most bytes of errors that a script may write; of what is less, the end is shown.
const MAX_ERRORS_BYTES: usize = 1 << 20;

/// Bytes of errors that are shown.
const SHOWN_ERRORS_BYTES: usize = 500;

/// Begins the names of temporary folders for the input of scripts.
pub(super) const TEMPORARY_PREFIX: &str = "rind-hook-";

/// Name of the file with the input.
const INPUT: &str = "input.json";

/// Longest time for looking at the workspace before or after a script. Neither is the script's work, nor anybody's to wait for.
const MAX_LOOK: Duration = Duration::from_secs(60);

/// Time that a process has beyond the deadline of its call, which the dispatcher keeps.
const GRACE: Duration = Duration::from_secs(5);

/// A script's process before it is started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    command: Vec<OsString>,
    /// Files and folders that it may read besides what commands may.
    readable: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
    workspace: PathBuf,
    commands: Commands,
}

impl Program {
    /// The process of a script that runs in the workspace of `paths` as `commands` say. A folder that holds one of Rind's own,
    /// where secrets and sessions are, does not become readable.
    pub(crate) fn new(script: &Script, paths: &Paths, commands: Commands) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let own = [&paths.config, &paths.data, &paths.cache].map(real);
        let is_apart = |folder: &&PathBuf| {
            let folder = real(folder);
            !own.iter().any(|own| own.starts_with(&folder))
        };
        let folders = script.folders.iter().filter(is_apart);
        Self {
            command: script.command.clone(),
            readable: script.files.iter().chain(folders).cloned().collect(),
            env: commands
                .env
                .environment()
                .into_iter()
                .chain(script.env.iter().cloned())
                .collect(),
            workspace: paths.workspace.clone(),
            commands,
        }
    }

    async fn around(&self) -> Result<Around, Failure> {
        self.commands.around().await.map_err(|why| {
            Failure::Unavailable(format!("scripts run as commands of bash, which {why}"))
        })
    }

    /// Looks at what the process may change.
    async fn look(&self) -> Result<Look, Failure> {
        let confine = self.around().await?.confine;
        Ok(Look::before(&self.workspace, confine.as_ref()).await)
    }

    /// Makes the process, which reads from this file or named pipe.
    pub(super) async fn process(
        &self,
        stdin: PathBuf,
        deadline: Duration,
        on_line: OnLine,
    ) -> Result<Process, Failure> {
        let Around {
            mut confine,
            keeper,
        } = self.around().await?;
        if let Some(confinement) = &mut confine {
            confinement.read.extend(self.readable.iter().cloned());
        }
        let mut words = self.command.iter().cloned();
        Ok(Process {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            cwd: self.workspace.clone(),
            env: self.env.clone(),
            stdin: Some(stdin),
            deadline,
            streams: Streams::Separate,
            capture_bytes: MAX_OUTCOME_BYTES,
            on_line: Some(on_line),
            confine,
            keeper,
        })
    }
}

/// Receiver of what a script left for git to run, in words, also when nobody waits for the script any more.
pub(super) type OnPlanted = Box<dyn Fn(String) + Send>;

/// Calls a script once. When this future is dropped, the process and what it started end.
pub(super) async fn ask(
    program: &Program,
    input: Vec<u8>,
    script: &Script,
    on_planted: OnPlanted,
) -> Result<Value, Failure> {
    let finished = run(program, input, script.deadline, on_planted).await?;
    let errors = errors(&finished);
    match finished.ending {
        Ending::Exited(0) => outcome(&finished.stdout.text()),
        ending => Err(ended(ending, &errors)),
    }
}

/// Runs the program with this input to the end of everything that it starts.
pub(super) async fn run(
    program: &Program,
    input: Vec<u8>,
    deadline: Duration,
    on_planted: OnPlanted,
) -> Result<Finished, Failure> {
    let cancel = CancellationToken::new();
    let _stop_on_drop = cancel.clone().drop_guard();
    let flood = Flood::new(&cancel);
    let program = program.clone();
    let on_line = flood.on_line();
    // Looking at the workspace is not the script's work, and takes none of its time.
    let look = looked(program.look(), MAX_LOOK).await??;
    let (ended, has_ended) = oneshot::channel::<()>();
    // A task of its own: when nobody waits any more, the process is stopped, what it left is looked at, and its input goes.
    let running = tokio::spawn(async move {
        let input = tokio::task::spawn_blocking(move || written(&input)).await;
        let input = input.map_err(failed)?.map_err(failed)?;
        let process = program
            .process(input.path().join(INPUT), deadline + GRACE, on_line)
            .await?;
        let finished = process.run(&cancel).await;
        drop(ended);
        look.refuse().await.into_iter().for_each(on_planted);
        finished.map_err(|error| Failure::Unavailable(error.to_string()))
    });
    // Nothing is ever sent: it is dropped when the process has ended, or could not be started.
    let _ = has_ended.await;
    let finished = looked(running, MAX_LOOK).await?.map_err(failed)??;
    match flood.exceeded() {
        Some(why) => Err(Failure::Limit(why)),
        None => Ok(finished),
    }
}

/// Waits for a look at the workspace while the deadline of the call stands still.
async fn looked<T>(look: impl Future<Output = T>, most: Duration) -> Result<T, Failure> {
    let look = tokio::time::timeout(most, look);
    paused(look).await.map_err(|_| {
        Failure::Unavailable(format!(
            "looking for what it could leave in the workspace for git to run takes more than {} s; work in a smaller folder",
            most.as_secs()
        ))
    })
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Unavailable(format!("its input cannot be handed over: {error}"))
}

/// A file of the input that nobody else can read: a program that reads none of it must not be able to stop us.
fn written(input: &[u8]) -> std::io::Result<TemporaryFolder> {
    let folder = TemporaryFolder::new(TEMPORARY_PREFIX)?;
    std::fs::write(folder.path().join(INPUT), input)?;
    Ok(folder)
}

/// Reads an outcome. One that says nothing changes nothing.
pub(super) fn outcome(text: &str) -> Result<Value, Failure> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = json::parse(text.trim(), MAX_OUTCOME_BYTES)
        .map_err(|error| Failure::Malformed(format!("what it wrote {error}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Failure::Malformed(
            "what it wrote is no JSON object".to_owned(),
        ))
    }
}

/// Describes the end of a script that gave no outcome.
pub(super) fn ended(ending: Ending, errors: &str) -> Failure {
    let with_errors = |what: String| {
        let errors = with_advice(errors);
        if errors.is_empty() {
            what
        } else {
            format!("{what}: {errors}")
        }
    };
    match ending {
        Ending::Exited(code) => Failure::Error(with_errors(format!("exit code {code}"))),
        Ending::Signaled(signal) => {
            Failure::Crash(with_errors(format!("ended by signal {signal}")))
        }
        Ending::Exceeded(limit) => Failure::Limit(limit.to_string()),
        Ending::Deadline => Failure::Error("it did not end in time".to_owned()),
        Ending::Cancelled => Failure::Unavailable("it was stopped".to_owned()),
    }
}

/// Words of programs that did not find or could not read a file.
const NOT_READ: &[&str] = &[
    "No such file",
    "Permission denied",
    "No module named",
    "Cannot find module",
    "ENOENT",
    "EACCES",
];

/// Errors of a script with advice, where they look as if the confinement kept a file from it.
pub(super) fn with_advice(errors: &str) -> Cow<'_, str> {
    if !NOT_READ.iter().any(|words| errors.contains(words)) {
        return errors.into();
    }
    format!(
        "{errors} (hooks run confined, as commands do; if it needs files outside the workspace and its own folder, name their \
         folder in `read` of [sandbox] in config.toml)"
    )
    .into()
}

/// The end of what a script wrote to standard error, as one line without secrets.
pub(super) fn errors(finished: &Finished) -> String {
    line(&finished.stderr.text())
}

/// The end of a text as one line without secrets.
pub(super) fn line(text: &str) -> String {
    let text = masked(text.trim());
    let start = text.ceil_char_boundary(text.len().saturating_sub(SHOWN_ERRORS_BYTES));
    clean(&text[start..], SHOWN_ERRORS_BYTES)
}

/// A text without its secrets.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    match Scanner::shared().mask(text) {
        Some(masked) => masked.text.into(),
        None => text.into(),
    }
}

/// Stops a script that writes without end.
#[derive(Clone)]
pub(super) struct Flood {
    cancel: CancellationToken,
    written: Arc<[AtomicU64; 2]>,
}

impl Flood {
    pub(super) fn new(cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            written: Arc::default(),
        }
    }

    pub(super) fn count(&self, stream: Stream, line: &str) {
        let [out, errors] = &*self.written;
        let (written, most) = match stream {
            Stream::Stdout => (out, MAX_OUTCOME_BYTES),
            Stream::Stderr => (errors, MAX_ERRORS_BYTES),
        };
        let bytes = line.len() as u64 + 1;
        if written.fetch_add(bytes, Ordering::Relaxed) + bytes > most as u64 {
            self.cancel.cancel();
        }
    }

    fn on_line(&self) -> OnLine {
        let flood = self.clone();
        Arc::new(move |stream, line| flood.count(stream, line))
    }

    /// Begins to count the outcome of another call.
    pub(super) fn begin(&self) {
        self.written
            .iter()
            .for_each(|written| written.store(0, Ordering::Relaxed));
    }

    /// Returns the bound that was passed, if one was.
    pub(super) fn exceeded(&self) -> Option<String> {
        let [out, errors] = &*self.written;
        // A last line without its break counts as one byte more than it has.
        if out.load(Ordering::Relaxed) > MAX_OUTCOME_BYTES as u64 {
            return Some(format!("it wrote more than {MAX_OUTCOME_BYTES} bytes"));
        }
        (errors.load(Ordering::Relaxed) > MAX_ERRORS_BYTES as u64)
            .then(|| format!("it wrote more than {MAX_ERRORS_BYTES} bytes to standard error"))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use super::*;
    use crate::point::deadline::within;

    #[tokio::test]
    async fn a_look_takes_none_of_the_time_of_a_script_and_has_a_bound() {
        let short = Duration::from_millis(20);
        let look = |takes| async move { looked(tokio::time::sleep(takes), short * 20).await };
        let call = pin!(look(short * 5));
        assert_eq!(within(short, Instant::now(), call).await, Ok(()));
        let call = pin!(look(Duration::from_secs(600)));
        let failure = within(short, Instant::now(), call).await.unwrap_err();
        assert!(failure.to_string().contains("work in a smaller folder"));
    }
}
