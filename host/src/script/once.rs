//! Runs a script once per call: input on standard input, outcome on standard output.
//!
//! The workspace is searched before and after the script for files that git would run, as for
//! `bash`. The size of the output is checked while it is written, so that a script cannot exhaust
//! memory. Start from [`call_script_once`].

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::HookScript;
use crate::disk::TemporaryFolder;
use crate::json;
use crate::paths::RindPaths;
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::failure::Failure;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;
use crate::tool::builtin::{
    CommandConfinementAndEnvironment, GitControlFileSearch, ProcessConfinementSettings,
};
use crate::tool::process::{
    FinishedProcess, OutputLineCallback, OutputPipeMode, ProcessEndReason, ProcessOutputStream,
    ProcessSpec,
};

/// Maximum size of an outcome, in bytes: that of the largest request body that a hook may return.
pub(super) const MAX_SCRIPT_OUTCOME_BYTES: usize = 8 << 20;

/// Maximum size of the standard error of a script, in bytes. Only the end of it is shown.
const MAX_SCRIPT_STDERR_BYTES: usize = 1 << 20;

/// Maximum number of bytes of a script's standard error that a message shows.
const DISPLAYED_STDERR_BYTES: usize = 500;

/// Prefix of the temporary directories for the input of scripts.
pub(super) const SCRIPT_INPUT_FOLDER_PREFIX: &str = "rind-hook-";

/// Name of the file with the input of the script.
const SCRIPT_INPUT_FILE_NAME: &str = "input.json";

/// Timeout of one search of the workspace, before or after a script runs. A search does not count
/// towards the script's timeout, but must not block the turn for long.
const WORKSPACE_SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between the timeout of the call, which the dispatcher enforces, and the stop of the
/// process.
const PROCESS_STOP_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Program of a script, with the settings to start it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptProgram {
    command: Vec<OsString>,
    /// Files and directories that the script may read in addition to those that commands of the
    /// agent may read.
    readable: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
    workspace: PathBuf,
    commands: CommandConfinementAndEnvironment,
}

impl ScriptProgram {
    /// Creates the program of a script that runs in the workspace of `paths` with the confinement
    /// and environment of `commands`. A directory that contains one of Rind's own directories,
    /// which contain secrets and sessions, is not made readable.
    pub(crate) fn new(
        script: &HookScript,
        paths: &RindPaths,
        commands: CommandConfinementAndEnvironment,
    ) -> Self {
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
                .command_environment()
                .into_iter()
                .chain(script.env.iter().cloned())
                .collect(),
            workspace: paths.workspace.clone(),
            commands,
        }
    }

    async fn confinement_for_script_process(&self) -> Result<ProcessConfinementSettings, Failure> {
        self.commands
            .resolve_process_confinement()
            .await
            .map_err(|why| {
                Failure::Unavailable(format!(
                    "scripts run like the commands of bash, and these {why}"
                ))
            })
    }

    /// Records the state of the directories that the process may change, so that a search after the
    /// process finds new files that git would run. `deadline` is the timeout of the process.
    async fn begin_git_control_file_search(
        &self,
        deadline: Duration,
    ) -> Result<GitControlFileSearch, Failure> {
        let confine = self.confinement_for_script_process().await?.confine;
        let look =
            GitControlFileSearch::scan_before_command(&self.workspace, confine.as_ref(), deadline)
                .await;
        look.map_err(Failure::Unavailable)
    }

    /// Builds the process of the script. Its standard input is the file or named pipe `stdin`.
    pub(super) async fn build_process(
        &self,
        stdin: PathBuf,
        deadline: Duration,
        on_line: OutputLineCallback,
    ) -> Result<ProcessSpec, Failure> {
        let ProcessConfinementSettings {
            mut confine,
            keeper,
        } = self.confinement_for_script_process().await?;
        if let Some(confinement) = &mut confine {
            confinement.read.extend(self.readable.iter().cloned());
        }
        let mut words = self.command.iter().cloned();
        Ok(ProcessSpec {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            cwd: self.workspace.clone(),
            env: self.env.clone(),
            stdin: Some(stdin),
            deadline,
            streams: OutputPipeMode::Separate,
            capture_bytes: MAX_SCRIPT_OUTCOME_BYTES,
            on_line: Some(on_line),
            on_bytes: None,
            confine,
            keeper,
        })
    }
}

/// Callback that receives the description of each file that a script created and that git would
/// run. It is called even if the caller dropped the call of the script.
pub(super) type GitControlFileCallback = Box<dyn Fn(String) + Send>;

/// Calls a script once. Dropping the future stops the process and its descendants.
pub(super) async fn call_script_once(
    program: &ScriptProgram,
    input: Vec<u8>,
    script: &HookScript,
    on_planted: GitControlFileCallback,
) -> Result<Value, Failure> {
    let finished = run_program_once(program, input, script.deadline, on_planted).await?;
    let errors = stderr_excerpt(&finished);
    match finished.ending {
        ProcessEndReason::Exited(0) => parse_script_outcome(&finished.stdout.text()),
        ending => Err(missing_outcome_failure(ending, &errors)),
    }
}

/// Runs the script's program with `input`, and returns after the program and all its descendants
/// have ended.
pub(super) async fn run_program_once(
    program: &ScriptProgram,
    input: Vec<u8>,
    deadline: Duration,
    on_planted: GitControlFileCallback,
) -> Result<FinishedProcess, Failure> {
    let cancel = CancellationToken::new();
    let _stop_on_drop = cancel.clone().drop_guard();
    let flood = ScriptOutputLimiter::new(&cancel);
    let program = program.clone();
    let on_line = flood.output_line_callback();
    // Scan the workspace before the script's timeout starts. A search after the script compares
    // with this scan to find new files that git would run.
    let look = await_git_control_file_search(
        program.begin_git_control_file_search(deadline + PROCESS_STOP_GRACE_PERIOD),
        WORKSPACE_SEARCH_TIMEOUT,
    )
    .await??;
    let (ended, has_ended) = oneshot::channel::<()>();
    // Run this as a separate task: even if the caller drops the call, the process is stopped, the
    // workspace is searched for files that git would run, and the input file is removed.
    let running = tokio::spawn(async move {
        let input = tokio::task::spawn_blocking(move || write_script_input(&input)).await;
        let input = input
            .map_err(input_write_failure)?
            .map_err(input_write_failure)?;
        let process = program
            .build_process(
                input.path().join(SCRIPT_INPUT_FILE_NAME),
                deadline + PROCESS_STOP_GRACE_PERIOD,
                on_line,
            )
            .await?;
        let finished = process.run(&cancel).await;
        drop(ended);
        look.rename_files_after_command()
            .await
            .into_iter()
            .for_each(on_planted);
        finished.map_err(|error| Failure::Unavailable(error.to_string()))
    });
    // The receiver resolves when the task drops the sender: the process has ended or could not be
    // started.
    let _ = has_ended.await;
    let finished = await_git_control_file_search(running, WORKSPACE_SEARCH_TIMEOUT)
        .await?
        .map_err(input_write_failure)??;
    match flood.exceeded_limit_message() {
        Some(why) => Err(Failure::Limit(why)),
        None => Ok(finished),
    }
}

/// Waits for a search of the workspace, at most for the time `most`. Meanwhile the timeout of the
/// script's call is suspended.
async fn await_git_control_file_search<T>(
    look: impl Future<Output = T>,
    most: Duration,
) -> Result<T, Failure> {
    let look = tokio::time::timeout(most, look);
    wait_with_paused_deadline(look).await.map_err(|_| {
        Failure::Unavailable(format!(
            "the search of the workspace for files that git would run takes more than {} s; work in a smaller folder",
            most.as_secs()
        ))
    })
}

fn input_write_failure(error: impl std::fmt::Display) -> Failure {
    Failure::Unavailable(format!("cannot write the input of the script: {error}"))
}

/// Writes the input to a file in a private temporary folder. A pipe is not used, because a program
/// that does not read its input would block the writer.
fn write_script_input(input: &[u8]) -> std::io::Result<TemporaryFolder> {
    let folder = TemporaryFolder::new(SCRIPT_INPUT_FOLDER_PREFIX)?;
    std::fs::write(folder.path().join(SCRIPT_INPUT_FILE_NAME), input)?;
    Ok(folder)
}

/// Parses an outcome. Empty output is an outcome that changes nothing.
pub(super) fn parse_script_outcome(text: &str) -> Result<Value, Failure> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = json::parse_json(text.trim(), MAX_SCRIPT_OUTCOME_BYTES)
        .map_err(|error| Failure::Malformed(format!("its output {error}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Failure::Malformed(
            "its output is not a JSON object".to_owned(),
        ))
    }
}

/// Returns the failure of a script that ended without writing an outcome. `errors` is its standard
/// error output.
pub(super) fn missing_outcome_failure(ending: ProcessEndReason, errors: &str) -> Failure {
    let with_errors = |what: String| {
        let errors = add_confinement_advice(errors);
        if errors.is_empty() {
            what
        } else {
            format!("{what}: {errors}")
        }
    };
    match ending {
        ProcessEndReason::Exited(code) => Failure::Error(with_errors(format!("exit code {code}"))),
        ProcessEndReason::Signaled(signal) => {
            Failure::Crash(with_errors(format!("ended by signal {signal}")))
        }
        ProcessEndReason::Exceeded(limit) => Failure::Limit(limit.to_string()),
        ProcessEndReason::Deadline => {
            Failure::Error("it did not end before its deadline".to_owned())
        }
        ProcessEndReason::Cancelled => Failure::Unavailable("it was stopped".to_owned()),
    }
}

/// Phrases in error messages of programs that did not find a file or could not read it.
const UNREADABLE_FILE_ERROR_PHRASES: &[&str] = &[
    "No such file",
    "Permission denied",
    "No module named",
    "Cannot find module",
    "ENOENT",
    "EACCES",
];

/// Adds advice to the error output of a script if it looks as if the confinement blocked a file.
pub(super) fn add_confinement_advice(errors: &str) -> Cow<'_, str> {
    if !UNREADABLE_FILE_ERROR_PHRASES
        .iter()
        .any(|words| errors.contains(words))
    {
        return errors.into();
    }
    format!(
        "{errors} (hooks run confined, as commands do; if it needs files outside the workspace and its own folder, name their \
         folder in `read` of [sandbox] in config.toml)"
    )
    .into()
}

/// Returns the end of the standard error as one line, with secrets masked.
pub(super) fn stderr_excerpt(finished: &FinishedProcess) -> String {
    masked_error_line(&finished.stderr.text())
}

/// Returns the last [`DISPLAYED_STDERR_BYTES`] of a text as one line, with secrets masked.
pub(super) fn masked_error_line(text: &str) -> String {
    let text = SecretScanner::shared().to_masked_text(text.trim());
    let start = text.ceil_char_boundary(text.len().saturating_sub(DISPLAYED_STDERR_BYTES));
    escape_and_truncate_line(&text[start..], DISPLAYED_STDERR_BYTES)
}

/// Limit of a script's output: counts the written bytes, and stops a script that writes too much.
#[derive(Clone)]
pub(super) struct ScriptOutputLimiter {
    cancel: CancellationToken,
    written: Arc<[AtomicU64; 2]>,
}

impl ScriptOutputLimiter {
    pub(super) fn new(cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            written: Arc::default(),
        }
    }

    pub(super) fn count_output_line(&self, stream: ProcessOutputStream, line: &str) {
        let [out, errors] = &*self.written;
        let (written, most) = match stream {
            ProcessOutputStream::Stdout => (out, MAX_SCRIPT_OUTCOME_BYTES),
            ProcessOutputStream::Stderr => (errors, MAX_SCRIPT_STDERR_BYTES),
        };
        let bytes = line.len() as u64 + 1;
        if written.fetch_add(bytes, Ordering::Relaxed) + bytes > most as u64 {
            self.cancel.cancel();
        }
    }

    fn output_line_callback(&self) -> OutputLineCallback {
        let flood = self.clone();
        Arc::new(move |stream, line| flood.count_output_line(stream, line))
    }

    /// Resets the counters of written bytes before the next call of the script.
    pub(super) fn reset_counters(&self) {
        self.written
            .iter()
            .for_each(|written| written.store(0, Ordering::Relaxed));
    }

    /// Returns a message about the output limit that the script exceeded; `None` if it exceeded
    /// none.
    pub(super) fn exceeded_limit_message(&self) -> Option<String> {
        let [out, errors] = &*self.written;
        // The count includes a line break for every line, so it is one byte too high if the last
        // line has no line break.
        if out.load(Ordering::Relaxed) > MAX_SCRIPT_OUTCOME_BYTES as u64 {
            return Some(format!(
                "it wrote more than {MAX_SCRIPT_OUTCOME_BYTES} bytes to standard output"
            ));
        }
        (errors.load(Ordering::Relaxed) > MAX_SCRIPT_STDERR_BYTES as u64).then(|| {
            format!("it wrote more than {MAX_SCRIPT_STDERR_BYTES} bytes to standard error")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use super::*;
    use crate::point::deadline::run_call_with_deadline;

    #[tokio::test]
    async fn a_look_takes_none_of_the_time_of_a_script_and_has_a_bound() {
        let short = Duration::from_millis(20);
        let look = |takes| async move {
            await_git_control_file_search(tokio::time::sleep(takes), short * 20).await
        };
        let call = pin!(look(short * 5));
        assert_eq!(
            run_call_with_deadline(short, Instant::now(), call).await,
            Ok(())
        );
        let call = pin!(look(Duration::from_secs(600)));
        let failure = run_call_with_deadline(short, Instant::now(), call)
            .await
            .unwrap_err();
        assert!(failure.to_string().contains("work in a smaller folder"));
    }
}
