//! Runs a command of `bash` in the background: the answer at its start, and its supervision to the
//! end.
//!
//! Start from [`run_background_command`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::ToolOutput;
use super::super::background::{BackgroundCommand, BackgroundCommandOutcome, BackgroundCommands};
use super::super::process::{FinishedProcess, ProcessEndReason, ProcessRunError, ProcessSpec};
use super::GitControlFileSearch;
use super::answer::describe_process_ending;
use super::background::format_background_command_answer;
use super::cause::find_failure_cause;

/// Time that a call waits after starting the command, before it answers. If the command fails
/// within this time, the answer reports the failure.
const START_FAILURE_WATCH_DURATION: Duration = Duration::from_millis(1000);

/// Interval at which the files that a running command leaves are checked. The user may run git at
/// any time, and git would run programs that such files name.
const GIT_CONTROL_FILES_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Number of lines at the end of the output that are searched for the cause of a failure.
const FAILURE_CAUSE_SEARCH_LINES: usize = 40;

/// A command that was started and whose id the model does not know yet. If this value is dropped
/// before the call is answered, the command is stopped, because the model could not refer to it.
pub(super) struct UnreportedBackgroundCommand {
    command: Arc<BackgroundCommand>,
    commands: BackgroundCommands,
    is_answered: bool,
}

impl UnreportedBackgroundCommand {
    pub(super) fn new(command: Arc<BackgroundCommand>, commands: BackgroundCommands) -> Self {
        Self {
            command,
            commands,
            is_answered: false,
        }
    }

    /// Waits at most `START_FAILURE_WATCH_DURATION` for the end of the command, then returns its
    /// output and state as the result of the call.
    pub(super) async fn wait_briefly_for_output(
        mut self,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        tokio::select! {
            _ = self.command.wait_until_ended() => {}
            () = tokio::time::sleep(START_FAILURE_WATCH_DURATION) => {}
            () = cancel.cancelled() => return ToolOutput::from_error_content(""),
        }
        self.is_answered = true;
        let end = self.command.outcome();
        if let Some(end) = end.as_ref().filter(|end| !end.is_started) {
            self.commands.remove_unstarted_command(self.command.id());
            return ToolOutput::from_error_content(end.words.clone());
        }
        let is_error = end.is_some_and(|end| !end.is_success);
        ToolOutput {
            is_error,
            ..ToolOutput::ok(format_background_command_answer(&self.command, true))
        }
    }
}

impl Drop for UnreportedBackgroundCommand {
    fn drop(&mut self) {
        if !self.is_answered {
            self.command.stop("the call that started it was cancelled");
        }
    }
}

/// Runs the command to its end, and checks the files that it leaves.
pub(super) async fn run_background_command(process: ProcessSpec, command: Arc<BackgroundCommand>) {
    let _lost = BackgroundCommandEndGuard(&command);
    let seconds = process.deadline.as_secs();
    let confine = process.confine.clone();
    let (result, refused) =
        match run_command_and_rename_git_control_files(process, command.cancellation_token()).await
        {
            Ok(ended) => ended,
            Err(why) => {
                return command.record_outcome(BackgroundCommandOutcome::from_start_failure(&why));
            }
        };
    let after = command.start_time().elapsed();
    command.record_outcome(match result {
        Ok(finished) => {
            let why = command.stop_reason().unwrap_or_default();
            let is_failure = matches!(finished.ending, ProcessEndReason::Exited(code) if code != 0);
            let cause = confine.filter(|_| is_failure).and_then(|confinement| {
                find_failure_cause(
                    &command.last_lines(FAILURE_CAUSE_SEARCH_LINES).join("\n"),
                    &confinement,
                )
            });
            BackgroundCommandOutcome {
                cause,
                words: describe_process_ending(finished.ending, seconds, &why),
                is_success: finished.ending == ProcessEndReason::Exited(0) && refused.is_empty(),
                after,
                refused,
                is_started: true,
            }
        }
        Err(error) => BackgroundCommandOutcome::from_start_failure(&error.to_string()),
    });
}

/// Guard that records the end of the command when it is dropped, so that a command whose task is
/// dropped or panics does not count as running forever.
struct BackgroundCommandEndGuard<'a>(&'a BackgroundCommand);

impl Drop for BackgroundCommandEndGuard<'_> {
    fn drop(&mut self) {
        self.0.record_outcome(BackgroundCommandOutcome {
            cause: None,
            words: "ended by a fault of the host, without an exit code".to_owned(),
            is_success: false,
            after: self.0.start_time().elapsed(),
            refused: Vec::new(),
            is_started: true,
        });
    }
}

/// Runs the process. Every `GIT_CONTROL_FILES_CHECK_INTERVAL` and after the end, renames the files
/// that the process left and that git would run.
async fn run_command_and_rename_git_control_files(
    process: ProcessSpec,
    cancel: &CancellationToken,
) -> Result<(Result<FinishedProcess, ProcessRunError>, Vec<String>), String> {
    let confine = process.confine.clone();
    let mut look = GitControlFileSearch::scan_before_command(
        &process.cwd,
        confine.as_ref(),
        2 * GIT_CONTROL_FILES_CHECK_INTERVAL,
    )
    .await?;
    let mut refused = Vec::new();
    let mut running = pin!(run_with_sh_fallback(process, cancel));
    let result = loop {
        tokio::select! {
            result = &mut running => break result,
            () = tokio::time::sleep(GIT_CONTROL_FILES_CHECK_INTERVAL) => {}
        }
        let Some(confine) = &confine else {
            continue;
        };
        // Poll the command during the check too; otherwise its pipe would fill up and block it.
        let mut again =
            pin!(look.rename_files_during_command(confine, 2 * GIT_CONTROL_FILES_CHECK_INTERVAL));
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
    refused.extend(look.rename_files_after_command().await);
    Ok((result, refused))
}

/// Runs the process. If its program, the shell, does not exist, runs it with `sh` instead.
pub(super) async fn run_with_sh_fallback(
    process: ProcessSpec,
    cancel: &CancellationToken,
) -> Result<FinishedProcess, ProcessRunError> {
    let result = process.clone().run(cancel).await;
    if matches!(&result, Err(error) if error.source.kind() == std::io::ErrorKind::NotFound) {
        let program = "sh".into();
        return ProcessSpec { program, ..process }.run(cancel).await;
    }
    result
}
