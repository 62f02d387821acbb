//! `bash`: runs a command in the workspace.
//!
//! The command is confined as the settings say (see `commands`). After the command has ended, files
//! that it left and that git would run later are found and renamed (see `repository`). Start from
//! [`BashTool`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::background::MAX_COMMAND_RUN_TIME;
use super::super::command::Command;
use super::super::live::RunningToolCallOutput;
use super::super::process::confine::ConfinementPermissions;
use super::super::process::{
    FinishedProcess, OutputBytesCallback, OutputPipeMode, ProcessRunError, ProcessSpec,
};
use super::super::repository::{
    GitControlFilesBeforeCommand, RunningCommandRecordFile,
    disable_git_files_of_interrupted_commands,
};
use super::super::subject::{Subject, WorkspacePath};
use super::super::workspace::Workspace;
use super::super::{Tool, ToolCtx, ToolOutput};
use super::answer::{FinishedCommandAnswer, append_renamed_file_notes};
use super::in_background::{
    UnreportedBackgroundCommand, run_background_command, run_with_sh_fallback,
};
use super::{
    CommandConfinementAndEnvironment, CommandConfinementMode, ProcessConfinementSettings,
    build_tool_spec, parse_arguments_and_run_tool,
};
use crate::message::{EffectClass, ToolSpec};

/// Default deadline of a command, in seconds.
const DEFAULT_DEADLINE_SECONDS: u64 = 120;

/// Maximum deadline that a call can set, in seconds.
pub const MAX_DEADLINE_SECONDS: u64 = 600;

/// Note for the model if the search for files that git would run failed after a command.
const GIT_FILE_SEARCH_FAILED_NOTE: &str =
    "it is unknown whether the command left something in the workspace that git would run";

/// Maximum size of the output, in bytes. The middle of longer output is left out.
const MAX_COMMAND_OUTPUT_BYTES: usize = 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, as for `bash -c`.
    #[schemars(length(min = 1))]
    command: String,
    /// Seconds after which it is stopped. Default: 120, at most 600; 8 hours in the background.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
    /// Whether to answer at once while it continues, for servers, watchers and long builds. The
    /// tool `background` reads its output, waits for it and stops it. Default: false.
    #[serde(default)]
    background: Option<bool>,
}

/// Tool `bash`, which runs shell commands for the model.
pub struct BashTool {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    commands: CommandConfinementAndEnvironment,
    may: Arc<[String]>,
}

impl BashTool {
    /// Creates the tool for this workspace.
    #[must_use]
    pub fn new(
        workspace: Arc<Workspace>,
        commands: impl Into<CommandConfinementAndEnvironment>,
    ) -> Self {
        let commands = commands.into();
        let mut description = "Runs a shell command in the workspace folder and answers with its output, standard error \
                               included, and its exit code. There is no input and no terminal. When the command ends, \
                               every process that it left running is stopped; with `background` the command itself goes on."
            .to_owned();
        if let Some(confinement) = commands.confining.configured_confinement() {
            description.push_str(" Commands run confined: ");
            if !confinement.network {
                description.push_str(if confinement.mechanism.hides_outside_files_and_processes() {
                    "there is no network; a server on 127.0.0.1 can be reached by the command that starts it, and by no \
                     other; "
                } else {
                    "there is no network, loopback included; "
                });
            }
            description.push_str(
                "they can write in the workspace and in $TMPDIR only, which is emptied after each call, and they cannot read \
                 personal files. What is refused for that is not there, or fails with `Permission denied`, `Operation not \
                 permitted` or `Read-only file system`; so do set-id modes, and changes of the settings and hooks of the \
                 workspace's repository.",
            );
            let limits = &confinement.limits;
            description.push_str(&format!(
                " A command may take {} MiB of memory, {} processes and threads, and in $TMPDIR {} MiB.",
                limits.memory_bytes >> 20,
                limits.processes,
                limits.temporary_bytes >> 20
            ));
        }
        let may = match &commands.confining {
            CommandConfinementMode::Unconfined { why, .. } => {
                let words = "do everything that you can, with your keys, your files and the network: nothing confines it";
                [format!("{words} ({why})")].into()
            }
            CommandConfinementMode::Free
            | CommandConfinementMode::Kept(_)
            | CommandConfinementMode::Confined(_)
            | CommandConfinementMode::Refused(_)
            | CommandConfinementMode::RetryingConfinement(_) => Arc::default(),
        };
        Self {
            spec: build_tool_spec::<Arguments>("bash", &description, EffectClass::Execute),
            workspace,
            commands,
            may,
        }
    }

    /// Resolves the path of a file that a command writes. If an absolute path is outside the
    /// workspace, resolves it again with its directory canonicalized, because a symlink may lead
    /// into the workspace.
    fn resolve_path(&self, path: &str) -> WorkspacePath {
        let place = self.workspace.resolve_path(path);
        let path = Path::new(path);
        let (true, Some(folder), Some(name)) =
            (path.is_absolute(), path.parent(), path.file_name())
        else {
            return place;
        };
        match (&place, folder.canonicalize()) {
            (WorkspacePath::Unknown, Ok(folder)) => {
                let real = folder.join(name);
                self.workspace.resolve_path(&real.to_string_lossy())
            }
            _ => place,
        }
    }

    async fn run_command(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let ProcessConfinementSettings {
            mut confine,
            keeper,
        } = match self.commands.resolve_process_confinement().await {
            Ok(around) => around,
            Err(why) => {
                return ToolOutput::from_error_content(format!(
                    "`bash` is refused: commands {why}. The operator can see more with `rind doctor`. Use the other tools."
                ));
            }
        };
        if let Some(confinement) = &mut confine {
            confinement.read.extend(ctx.readable.iter().cloned());
        }
        if asked.background == Some(true) {
            return self
                .start_background_command(asked, confine, keeper, ctx)
                .await;
        }
        let seconds = asked
            .timeout_seconds
            .unwrap_or(DEFAULT_DEADLINE_SECONDS)
            .clamp(1, MAX_DEADLINE_SECONDS);
        let secrets = self.commands.env.secret_variables();
        let process = ProcessSpec {
            deadline: Duration::from_secs(seconds),
            on_bytes: ctx
                .open_live_output()
                .map(|live| output_forwarding_callback(live, &secrets)),
            ..self.build_command_process(asked.command, confine, keeper)
        };
        let confine = process.confine.clone();
        let cancel = ctx.cancel.child_token();
        let _stop_on_drop = cancel.clone().drop_guard();
        // Spawn a separate task: if this future is dropped, the task still stops the command and
        // checks the files that the command left.
        let (result, refused) =
            match tokio::spawn(run_command_and_rename_git_control_files(process, cancel)).await {
                Ok(Ok(ended)) => ended,
                Ok(Err(why)) => {
                    return ToolOutput::from_error_content(format!("`bash` is refused: {why}"));
                }
                Err(error) => {
                    return ToolOutput::from_fault_content(format!(
                        "`bash` failed because of an internal error: {error}"
                    ));
                }
            };
        match result {
            Ok(finished) => FinishedCommandAnswer {
                finished: &finished,
                seconds,
                refused: &refused,
                confine: confine.as_ref(),
                secrets,
            }
            .format_output(),
            Err(error) => ToolOutput::from_error_content(append_renamed_file_notes(
                error.to_string(),
                &refused,
            )),
        }
    }
}

impl BashTool {
    /// Builds the process of a command, without deadline and callbacks.
    fn build_command_process(
        &self,
        command: String,
        confine: Option<ConfinementPermissions>,
        keeper: Option<PathBuf>,
    ) -> ProcessSpec {
        let shell = self.commands.shell.clone();
        ProcessSpec {
            args: vec![OsString::from("-c"), command.into()],
            env: self.commands.env.command_environment(),
            streams: OutputPipeMode::Merged,
            capture_bytes: MAX_COMMAND_OUTPUT_BYTES,
            confine,
            keeper,
            ..ProcessSpec::new_unconfined(
                shell.unwrap_or_else(|| "bash".into()),
                self.workspace.root(),
            )
        }
    }

    /// Starts a command that continues after this call.
    async fn start_background_command(
        &self,
        asked: Arguments,
        confine: Option<ConfinementPermissions>,
        keeper: Option<PathBuf>,
        ctx: &ToolCtx,
    ) -> ToolOutput {
        let Some(commands) = &ctx.background else {
            return ToolOutput::from_error_content(
                "`background` is refused: this call belongs to no session that could end the command; run it without",
            );
        };
        let secrets = self.commands.env.secret_variables();
        let agent = &ctx.caller.context.agent;
        let command = match commands.register_command(agent, &asked.command, &secrets) {
            Ok(command) => command,
            Err(why) => {
                return ToolOutput::from_error_content(format!(
                    "the command was not started: {why}"
                ));
            }
        };
        let limit = asked.timeout_seconds.map(Duration::from_secs);
        let process = ProcessSpec {
            deadline: limit
                .unwrap_or(MAX_COMMAND_RUN_TIME)
                .min(MAX_COMMAND_RUN_TIME),
            on_bytes: Some(command.output_callback()),
            // Capture nothing here, because the callback `on_bytes` collects the output.
            capture_bytes: 0,
            ..self.build_command_process(asked.command, confine, keeper)
        };
        let started = UnreportedBackgroundCommand::new(command.clone(), commands.clone());
        tokio::spawn(run_background_command(process, command));
        started.wait_briefly_for_output(&ctx.cancel).await
    }
}

/// Returns a callback that passes the output of a running command to `live`, which masks `secrets`.
fn output_forwarding_callback(
    live: Arc<RunningToolCallOutput>,
    secrets: &[(String, String)],
) -> OutputBytesCallback {
    live.set_secrets_to_mask(secrets.to_vec());
    Arc::new(move |_, bytes| live.push(bytes))
}

/// Search for files that a program leaves in its writable directories and that git would run.
/// `None` if the program is not confined.
pub(crate) struct GitControlFileSearch(Option<RecordedGitFilesBeforeCommand>);

/// Files of git repositories before a command, and the record of them on disk, which remains if
/// Rind is killed.
struct RecordedGitFilesBeforeCommand {
    before: GitControlFilesBeforeCommand,
    record: Option<RunningCommandRecordFile>,
    /// Notes about files that earlier, interrupted commands had left, one line per file.
    earlier: Vec<String>,
}

impl GitControlFileSearch {
    /// Records the state of the directories that a program in `root` may change, and first searches
    /// for files of commands that were interrupted earlier. Does nothing if the program is not
    /// confined. Before `deadline` has passed, the program must have ended or
    /// [`Self::rename_files_during_command`] must have been called.
    ///
    /// # Errors
    /// The record cannot be written. The program must not be started: if Rind were killed, no later
    /// process would search for the program's files.
    pub(crate) async fn scan_before_command(
        root: &Path,
        confine: Option<&ConfinementPermissions>,
        deadline: Duration,
    ) -> Result<Self, String> {
        let Some(confinement) = confine else {
            return Ok(Self(None));
        };
        let others = confinement.write.iter().filter(|path| *path != root);
        let folders = std::iter::once(root).chain(others.map(PathBuf::as_path));
        let folders: Vec<PathBuf> = folders.map(Path::to_owned).collect();
        let records = confinement.records.clone();
        let started = tokio::task::spawn_blocking(move || {
            let Some(records) = records else {
                return Ok(RecordedGitFilesBeforeCommand {
                    before: GitControlFilesBeforeCommand::scan_before_command(&folders),
                    record: None,
                    earlier: Vec::new(),
                });
            };
            let earlier = disable_git_files_of_interrupted_commands(&records);
            let before = GitControlFilesBeforeCommand::scan_before_command(&folders);
            let record = RunningCommandRecordFile::create(&records, &before, deadline).map_err(|error| {
                let why = format!(
                    "the state of the repositories in the workspace cannot be recorded in {} ({error}), and without the \
                     record nothing would look for git hooks that the command leaves if Rind were killed; make room \
                     there, or make the folder writable",
                    records.display()
                );
                // Report the renamed files of earlier commands, although this command does not run.
                append_renamed_file_notes(why, &earlier)
            })?;
            Ok(RecordedGitFilesBeforeCommand {
                before,
                record: Some(record),
                earlier,
            })
        });
        match started.await {
            Ok(started) => started.map(|started| Self(Some(started))),
            Err(error) => Err(format!("the search of the workspace failed: {error}")),
        }
    }

    /// Renames the files that the running program has created so far and that git would run, such
    /// as hooks. Replaces the command's record on disk by one that is valid for another `period`.
    /// Returns a line for each renamed file.
    pub(super) async fn rename_files_during_command(
        self,
        confine: &ConfinementPermissions,
        period: Duration,
    ) -> (Self, Vec<String>) {
        let Some(mut started) = self.0 else {
            return (Self(None), Vec::new());
        };
        let records = confine.records.clone();
        let judged = tokio::task::spawn_blocking(move || {
            let lines = started.before.rename_files_git_would_run(None);
            let renewed = records
                .map(|records| RunningCommandRecordFile::create(&records, &started.before, period));
            // If the new record cannot be written, keep the old one.
            if let Some(Ok(renewed)) = renewed
                && let Some(old) = started.record.replace(renewed)
            {
                old.remove();
            }
            (started, lines)
        });
        match judged.await {
            Ok((started, lines)) => (Self(Some(started)), lines),
            Err(_) => (Self(None), vec![GIT_FILE_SEARCH_FAILED_NOTE.to_owned()]),
        }
    }

    /// Renames the files that the program left and that git would run, and removes the record.
    /// Returns a line for each file.
    pub(crate) async fn rename_files_after_command(self) -> Vec<String> {
        let Some(started) = self.0 else {
            return Vec::new();
        };
        let judged = tokio::task::spawn_blocking(move || {
            let mut lines = started.earlier;
            lines.extend(started.before.rename_files_git_would_run(None));
            // Remove the record only after the check: if Rind is killed before, the next start
            // finds the record and checks the files.
            if let Some(record) = started.record {
                record.remove();
            }
            lines
        });
        judged
            .await
            .unwrap_or_else(|_| vec![GIT_FILE_SEARCH_FAILED_NOTE.to_owned()])
    }
}

/// Runs the command, then renames the files that the command left and that git would run. The error
/// is the reason why the command was not started.
async fn run_command_and_rename_git_control_files(
    process: ProcessSpec,
    cancel: CancellationToken,
) -> Result<(Result<FinishedProcess, ProcessRunError>, Vec<String>), String> {
    let look = GitControlFileSearch::scan_before_command(
        &process.cwd,
        process.confine.as_ref(),
        process.deadline,
    )
    .await?;
    let result = run_with_sh_fallback(process, &cancel).await;
    Ok((result, look.rename_files_after_command().await))
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn resolve_call_subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        let command = arguments.get("command").and_then(Value::as_str);
        let command = Command::parse(command.unwrap_or_default());
        let command = command.resolve_redirections(|path| self.resolve_path(path));
        Box::pin(std::future::ready(Subject::Command(command)))
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        parse_arguments_and_run_tool(value, |asked| self.run_command(asked, ctx))
    }
}
