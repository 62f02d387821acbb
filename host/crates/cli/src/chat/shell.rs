//! Runs shell commands that the person types. The model gets the output of `!COMMAND` with the next
//! input, and never gets the output of `!!COMMAND`.
//!
//! Commands run in the shell that the variable `SHELL` names, or confined like those of the tool
//! `bash` if the settings say so. Stopping a command stops all its processes. No policy and no hook
//! is applied to these commands, because only the person can type one.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::input::fence_input;
use rind_lib::point::caller::Caller;
use rind_lib::tool::builtin::{
    BashTool, CommandConfinementAndEnvironment, MAX_BASH_DEADLINE_SECONDS,
};
use rind_lib::tool::live::RunningToolCallOutputs;
use rind_lib::tool::workspace::Workspace;
use rind_lib::tool::{Tool, ToolCtx};

/// Maximum size of the part of a command's output that is sent to the model, in bytes.
const MAX_OUTPUT_BYTES_FOR_MODEL: usize = 32 << 10;

/// Id under which the output of the running shell command is kept, in place of the id of a tool
/// call.
const RUNNING_SHELL_COMMAND_CALL_ID: &str = "!";

/// Result of a shell command of the chat that has ended.
pub(super) struct ShellCommandResult {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) is_error: bool,
    is_told: bool,
}

pub(super) struct ChatShellCommandRunner {
    bash: Result<Arc<BashTool>, String>,
    running: Option<RunningShellCommand>,
    ended: UnboundedSender<ShellCommandResult>,
    ran: UnboundedReceiver<ShellCommandResult>,
    /// Output so far of the command that is running.
    live: RunningToolCallOutputs,
    /// Outputs of ended commands, which are sent to the model with the user's next text.
    untold: Vec<String>,
}

/// A running shell command. Dropping the value stops the command, so that no command outlives its
/// chat.
struct RunningShellCommand {
    command: String,
    cancel: CancellationToken,
    _ends: DropGuard,
}

impl ChatShellCommandRunner {
    pub(super) fn new(
        workspace: &std::path::Path,
        commands: CommandConfinementAndEnvironment,
    ) -> Self {
        let (ended, ran) = mpsc::unbounded_channel();
        let workspace = Workspace::open_root_folder(workspace).map_err(|error| error.to_string());
        Self {
            bash: workspace.map(|folder| Arc::new(BashTool::new(Arc::new(folder), commands))),
            running: None,
            ended,
            ran,
            live: RunningToolCallOutputs::default(),
            untold: Vec::new(),
        }
    }

    /// Runs the shell command in a typed line that begins with `!`, or with `!!` to withhold the
    /// output from the model.
    ///
    /// # Errors
    /// The command cannot be run; the error is the reason.
    pub(super) fn run_shell_line(&mut self, line: &str) -> Result<(), String> {
        let line = line.strip_prefix('!').unwrap_or(line);
        let (command, is_told) = match line.strip_prefix('!') {
            Some(command) => (command.trim(), false),
            None => (line.trim(), true),
        };
        if command.is_empty() {
            return Err("type a command after `!`, as in `!git status`".to_owned());
        }
        if let Some(RunningShellCommand { command, .. }) = &self.running {
            return Err(format!(
                "`{command}` is still running; wait until it ends, or stop it with Ctrl-C while no turn runs"
            ));
        }
        let bash = self.bash.clone()?;
        let (cancel, ended) = (CancellationToken::new(), self.ended.clone());
        self.running = Some(RunningShellCommand {
            command: command.to_owned(),
            cancel: cancel.clone(),
            _ends: cancel.clone().drop_guard(),
        });
        let command = command.to_owned();
        let ctx = ToolCtx {
            live: Some(self.live.clone()),
            ..ToolCtx::new(
                Caller::default().for_tool_call(RUNNING_SHELL_COMMAND_CALL_ID),
                cancel,
            )
        };
        tokio::spawn(async move {
            let arguments = serde_json::json!({
                "command": command,
                "timeout_seconds": MAX_BASH_DEADLINE_SECONDS,
            });
            let output = bash.run(arguments, &ctx).await;
            // Ignore a closed channel: the chat may have ended.
            let _ = ended.send(ShellCommandResult {
                command,
                output: output.content.text().into_owned(),
                is_error: output.is_error,
                is_told,
            });
        });
        Ok(())
    }

    /// Returns the shell command that is running; `None` if none is.
    pub(super) fn running_command(&self) -> Option<&str> {
        self.running.as_ref().map(|running| &*running.command)
    }

    /// Returns the last lines of the running command's output.
    pub(super) fn last_output_lines(&self, n_lines: usize) -> Vec<String> {
        let own = Caller::default().context.agent;
        self.live
            .last_lines(&own, RUNNING_SHELL_COMMAND_CALL_ID, n_lines)
    }

    /// Stops the shell command that is running. Returns whether there was one.
    pub(super) fn interrupt_running_command(&self) -> bool {
        let running = self.running.as_ref();
        running.map(|running| running.cancel.cancel()).is_some()
    }

    /// Waits until the running shell command ends. Queues its output, which is sent to the model
    /// with the user's next text, unless the command was typed with `!!`.
    pub(super) async fn wait_for_command_result(&mut self) -> ShellCommandResult {
        let Some(ran) = self.ran.recv().await else {
            return std::future::pending().await;
        };
        self.running = None;
        if ran.is_told {
            let end = ran.output.floor_char_boundary(MAX_OUTPUT_BYTES_FOR_MODEL);
            let (told, more) = ran.output.split_at(end);
            let more = if more.is_empty() {
                ""
            } else {
                "\n[the rest is left out]"
            };
            let output = fence_input(&format!("{told}{more}"));
            let command = fence_input(&ran.command);
            self.untold.push(format!(
                "I ran this command:\n\n{command}\n\nIts output:\n\n{output}"
            ));
        }
        ran
    }

    /// Removes the output that the model has not seen yet, and returns it.
    pub(super) fn take_output_unseen_by_model(&mut self) -> Vec<String> {
        std::mem::take(&mut self.untold)
    }

    /// Puts output that was taken from the queue, but did not reach the model, back to its front.
    pub(super) fn requeue_command_outputs_for_model(&mut self, untold: Vec<String>) {
        self.untold.splice(0..0, untold);
    }
}
