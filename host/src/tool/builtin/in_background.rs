//! Runs a command of `bash` in the background: the answer at its start, and its supervision to the
//! end.
//!
//! Start from [`run_in_background`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::ToolOutput;
use super::super::background::{BackgroundCommand, BackgroundCommands, BackgroundOutcome};
use super::super::process::{Finished, Process, ProcessEnding, SpawnError};
use super::LeftoverFilesSearch;
use super::answer::describe_ending;
use super::background::format_background_answer;
use super::cause::find_failure_cause;

/// Time that a call waits after starting the command, before it answers. If the command fails
/// within this time, the answer reports the failure.
const START_WATCH: Duration = Duration::from_millis(1000);

/// Interval at which the files that a running command leaves are checked. The user may run git at
/// any time, and git would run programs that such files name.
const LOOK_PERIOD: Duration = Duration::from_secs(300);

/// Number of lines at the end of the output that are searched for the cause of a failure.
const LAST_LINES: usize = 40;

/// A command that was started and whose id the model does not know yet. If this value is dropped
/// before the call is answered, the command is stopped, because the model could not refer to it.
pub(super) struct StartedCommand {
    command: Arc<BackgroundCommand>,
    commands: BackgroundCommands,
    is_answered: bool,
}

impl StartedCommand {
    pub(super) fn new(command: Arc<BackgroundCommand>, commands: BackgroundCommands) -> Self {
        Self {
            command,
            commands,
            is_answered: false,
        }
    }

    /// Waits at most `START_WATCH` for the end of the command, then returns its output and state as
    /// the result of the call.
    pub(super) async fn answer_after_start(mut self, cancel: &CancellationToken) -> ToolOutput {
        tokio::select! {
            _ = self.command.wait_ended() => {}
            () = tokio::time::sleep(START_WATCH) => {}
            () = cancel.cancelled() => return ToolOutput::error(""),
        }
        self.is_answered = true;
        let end = self.command.end();
        if let Some(end) = end.as_ref().filter(|end| !end.is_started) {
            self.commands.remove_unstarted_command(self.command.id());
            return ToolOutput::error(end.words.clone());
        }
        let is_error = end.is_some_and(|end| !end.is_success);
        ToolOutput {
            is_error,
            ..ToolOutput::ok(format_background_answer(&self.command, true))
        }
    }
}

impl Drop for StartedCommand {
    fn drop(&mut self) {
        if !self.is_answered {
            self.command.stop("the call that started it was cancelled");
        }
    }
}

/// Runs the command to its end, and checks the files that it leaves.
pub(super) async fn run_in_background(process: Process, command: Arc<BackgroundCommand>) {
    let _lost = CommandEndGuard(&command);
    let seconds = process.deadline.as_secs();
    let confine = process.confine.clone();
    let (result, refused) =
        match run_and_check_leftovers(process, command.cancellation_token()).await {
            Ok(ended) => ended,
            Err(why) => return command.record_end(BackgroundOutcome::start_failure(&why)),
        };
    let after = command.started().elapsed();
    command.record_end(match result {
        Ok(finished) => {
            let why = command.stop_reason().unwrap_or_default();
            let is_failure = matches!(finished.ending, ProcessEnding::Exited(code) if code != 0);
            let cause = confine.filter(|_| is_failure).and_then(|confinement| {
                find_failure_cause(&command.last_lines(LAST_LINES).join("\n"), &confinement)
            });
            BackgroundOutcome {
                cause,
                words: describe_ending(finished.ending, seconds, &why),
                is_success: finished.ending == ProcessEnding::Exited(0) && refused.is_empty(),
                after,
                refused,
                is_started: true,
            }
        }
        Err(error) => BackgroundOutcome::start_failure(&error.to_string()),
    });
}

/// Guard that records the end of the command when it is dropped, so that a command whose task is
/// dropped or panics does not count as running forever.
struct CommandEndGuard<'a>(&'a BackgroundCommand);

impl Drop for CommandEndGuard<'_> {
    fn drop(&mut self) {
        self.0.record_end(BackgroundOutcome {
            cause: None,
            words: "ended by a fault of the host, without an exit code".to_owned(),
            is_success: false,
            after: self.0.started().elapsed(),
            refused: Vec::new(),
            is_started: true,
        });
    }
}

/// Runs the process. Every `LOOK_PERIOD` and after the end, renames the files that the process left
/// and that git would run.
async fn run_and_check_leftovers(
    process: Process,
    cancel: &CancellationToken,
) -> Result<(Result<Finished, SpawnError>, Vec<String>), String> {
    let confine = process.confine.clone();
    let mut look =
        LeftoverFilesSearch::scan_before(&process.cwd, confine.as_ref(), 2 * LOOK_PERIOD).await?;
    let mut refused = Vec::new();
    let mut running = pin!(run_with_shell(process, cancel));
    let result = loop {
        tokio::select! {
            result = &mut running => break result,
            () = tokio::time::sleep(LOOK_PERIOD) => {}
        }
        let Some(confine) = &confine else {
            continue;
        };
        // Poll the command during the check too; otherwise its pipe would fill up and block it.
        let mut again = pin!(look.rescan(confine, 2 * LOOK_PERIOD));
        let mut ended = None;
        let (next, lines) = loop {
            tokio::select! {
                looked = &mut again => break looked,
                result = &mut running, if ended.is_none() => ended = Some(result),
            }
        };
        look = next;
        refused.extend(lines);
        if let Some(result) = ended {
            break result;
        }
    };
    refused.extend(look.rename_dangerous_files().await);
    Ok((result, refused))
}

/// Runs the process. If its program, the shell, does not exist, runs it with `sh` instead.
pub(super) async fn run_with_shell(
    process: Process,
    cancel: &CancellationToken,
) -> Result<Finished, SpawnError> {
    let result = process.clone().run(cancel).await;
    if matches!(&result, Err(error) if error.source.kind() == std::io::ErrorKind::NotFound) {
        let program = "sh".into();
        return Process { program, ..process }.run(cancel).await;
    }
    result
}
