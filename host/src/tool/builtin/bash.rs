//! `bash`: runs a command in the workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::super::command::Command;
use super::super::process::confine::Confinement;
use super::super::process::{Ending, Finished, Process, SpawnError, Streams, base_environment};
use super::super::repository::Before;
use super::super::subject::Subject;
use super::super::workspace::Workspace;
use super::super::{Tool, ToolCtx, ToolOutput};
use super::{spec_of, with_arguments};
use crate::message::{EffectClass, ToolSpec};

/// Deadline when the call does not say.
const DEFAULT_DEADLINE_SECONDS: u64 = 120;

/// Longest deadline of a call.
pub const MAX_DEADLINE_SECONDS: u64 = 600;

/// Note when the workspace could not be examined.
const NOT_LOOKED: &str =
    "it is unknown whether the command left something in the workspace that git would run";

/// Most bytes of output that are kept, half of them from the start and half from the end.
const CAP_BYTES: usize = 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command, as for `bash -c`.
    #[schemars(length(min = 1))]
    command: String,
    /// Seconds after which it is stopped. Default: 120, at most 600.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
}

/// Confinement of commands to the workspace.
#[derive(Clone, Debug, Default)]
pub enum Commands {
    /// No confinement, as requested.
    #[default]
    Free,
    /// No confinement; Rind's own binary at this path sees to it that everything ends with the call.
    Kept(PathBuf),
    /// Confinement by the kernel.
    Confined(Confinement),
    /// No confinement, although it was requested: whoever approves a call is told the reason.
    Unconfined {
        /// Reason.
        why: String,
        /// Keeper as in `Kept`, where there is one.
        keeper: Option<PathBuf>,
    },
    /// Commands are refused, because they cannot be confined for this reason.
    Refused(String),
}

/// Surroundings of a process: [`Process::confine`] and [`Process::keeper`].
pub(crate) struct Around {
    pub(crate) confine: Option<Confinement>,
    pub(crate) keeper: Option<PathBuf>,
}

impl Commands {
    /// Returns the surroundings of a program that runs as commands do, or the reason why none may run.
    pub(crate) fn around(self) -> Result<Around, String> {
        let (confine, keeper) = match self {
            Self::Free => (None, None),
            Self::Kept(keeper) => (None, Some(keeper)),
            Self::Unconfined { keeper, .. } => (None, keeper),
            Self::Confined(confinement) => (Some(confinement), None),
            Self::Refused(why) => return Err(why),
        };
        Ok(Around { confine, keeper })
    }
}

/// Runs shell commands for the model.
pub struct Bash {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    commands: Commands,
    may: Arc<[String]>,
}

impl Bash {
    /// Runs in this workspace.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>, commands: Commands) -> Self {
        let mut description = "Runs a shell command in the workspace folder and answers with its output, standard error \
                               included, and its exit code. There is no input and no terminal. When the command ends, \
                               everything that it left running in the background is stopped."
            .to_owned();
        if let Commands::Confined(confinement) = &commands {
            description.push_str(" Commands run confined: ");
            if !confinement.network {
                description.push_str("there is no network, loopback included; ");
            }
            description.push_str(
                "they can write in the workspace and in $TMPDIR only, which is emptied after each call, and they cannot read \
                 personal files. What is refused for that is not there, or fails with `Permission denied`, `Operation not \
                 permitted` or `Read-only file system`; so do set-id modes, and changes of the settings and hooks of the \
                 workspace's repository.",
            );
            let limits = &confinement.limits;
            description.push_str(&format!(
                " A command may take {} MiB of memory, and in $TMPDIR {} MiB.",
                limits.memory_bytes >> 20,
                limits.temporary_bytes >> 20
            ));
        }
        let may = match &commands {
            Commands::Unconfined { why, .. } => {
                let words = "do everything that you can, with your keys, your files and the network: nothing confines it";
                [format!("{words} ({why})")].into()
            }
            Commands::Free | Commands::Kept(_) | Commands::Confined(_) | Commands::Refused(_) => {
                Arc::default()
            }
        };
        Self {
            spec: spec_of::<Arguments>("bash", &description, EffectClass::Execute),
            workspace,
            commands,
            may,
        }
    }

    async fn run_command(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let Around {
            mut confine,
            keeper,
        } = match self.commands.clone().around() {
            Ok(around) => around,
            Err(why) => {
                return ToolOutput::error(format!(
                    "`bash` is refused: commands must run confined (`bash = \"required\"` in [sandbox] of config.toml), and \
                     this machine cannot do it: {why}. The operator can see more with `rind doctor`. Use the other tools."
                ));
            }
        };
        if let Some(confinement) = &mut confine {
            confinement.read.extend(ctx.readable.iter().cloned());
        }
        let seconds = asked
            .timeout_seconds
            .unwrap_or(DEFAULT_DEADLINE_SECONDS)
            .clamp(1, MAX_DEADLINE_SECONDS);
        let root = self.workspace.root();
        let process = Process {
            program: "bash".into(),
            args: vec![OsString::from("-c"), asked.command.into()],
            cwd: root.to_owned(),
            env: base_environment(),
            stdin: None,
            deadline: Duration::from_secs(seconds),
            streams: Streams::Merged,
            capture_bytes: CAP_BYTES,
            on_line: None,
            confine,
            keeper,
        };
        let cancel = ctx.cancel.child_token();
        let _stop_on_drop = cancel.clone().drop_guard();
        // A task of its own: when nobody waits for the answer any more, the command is stopped, and what it left is looked at.
        let (result, refused) = match tokio::spawn(run_and_look(process, cancel)).await {
            Ok(ended) => ended,
            Err(error) => return ToolOutput::fault(format!("`bash` failed inside: {error}")),
        };
        match result {
            Ok(finished) => answer(&finished, seconds, &refused),
            Err(error) => ToolOutput::error(noted(error.to_string(), &refused)),
        }
    }
}

/// Search for files that a program leaves in its folders and git would run.
pub(crate) struct Look(Option<Result<Before, JoinError>>);

impl Look {
    /// Looks at the folders that a program in `root` may change; at none where nothing confines it.
    pub(crate) async fn before(root: &Path, confine: Option<&Confinement>) -> Self {
        let Some(confinement) = confine else {
            return Self(None);
        };
        let others = confinement.write.iter().filter(|path| *path != root);
        let folders = std::iter::once(root).chain(others.map(PathBuf::as_path));
        let folders: Vec<PathBuf> = folders.map(Path::to_owned).collect();
        Self(Some(
            tokio::task::spawn_blocking(move || Before::look(&folders)).await,
        ))
    }

    /// Takes what the program left out of git's way. Returns a line for each.
    pub(crate) async fn refuse(self) -> Vec<String> {
        match self.0 {
            Some(before) => what_was_refused(before).await,
            None => Vec::new(),
        }
    }
}

/// Runs the command, and takes what it left for git to run out of git's way.
async fn run_and_look(
    process: Process,
    cancel: CancellationToken,
) -> (Result<Finished, SpawnError>, Vec<String>) {
    let look = Look::before(&process.cwd, process.confine.as_ref()).await;
    let mut result = process.clone().run(&cancel).await;
    if matches!(&result, Err(error) if error.source.kind() == std::io::ErrorKind::NotFound) {
        let program = "sh".into();
        result = Process { program, ..process }.run(&cancel).await;
    }
    (result, look.refuse().await)
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn may(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        let command = arguments.get("command").and_then(Value::as_str);
        let subject = Subject::Command(Command::read(command.unwrap_or_default()));
        Box::pin(std::future::ready(subject))
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        with_arguments(value, |asked| self.run_command(asked, ctx))
    }
}

/// Programs that git would have run of what a command left.
async fn what_was_refused(before: Result<Before, JoinError>) -> Vec<String> {
    let looked = match before {
        Ok(before) => tokio::task::spawn_blocking(move || before.refuse_what_git_would_run()).await,
        Err(error) => Err(error),
    };
    looked.unwrap_or_else(|_| vec![NOT_LOOKED.to_owned()])
}

/// The text with a line for each thing that was refused.
fn noted(mut text: String, refused: &[String]) -> String {
    for line in refused {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[refused: {line}]\n"));
    }
    text
}

fn answer(finished: &Finished, seconds: u64, refused: &[String]) -> ToolOutput {
    let mut content = finished.stdout.text();
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    let ending = match finished.ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signaled(signal) => format!("ended by signal {signal}"),
        Ending::Deadline => format!("stopped: it ran longer than {seconds} s"),
        Ending::Cancelled => "stopped: the call was cancelled".to_owned(),
        Ending::Exceeded(limit) => format!("stopped: {limit}"),
    };
    let background = if finished.stopped_background {
        "; processes left in the background were stopped"
    } else {
        ""
    };
    let mut content = noted(content, refused);
    content.push_str(&format!("[{ending}{background}]"));
    ToolOutput {
        content: content.into(),
        is_error: finished.ending != Ending::Exited(0) || !refused.is_empty(),
        ..ToolOutput::default()
    }
}
