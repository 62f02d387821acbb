//! `bash`: runs a command in the workspace.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::process::{Ending, Finished, Process, Streams, base_environment};
use super::super::workspace::Workspace;
use super::super::{Tool, ToolCtx, ToolOutput};
use super::{arguments, spec_of};
use crate::message::{EffectClass, ToolSpec};

/// Deadline when the call does not say.
const DEFAULT_DEADLINE_SECONDS: u64 = 120;

/// Longest deadline of a call.
pub const DEADLINE_CAP_SECONDS: u64 = 600;

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

/// The tool.
pub struct Bash {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

impl Bash {
    /// Runs in this workspace.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self {
            spec: spec_of::<Arguments>(
                "bash",
                "Runs a shell command in the workspace folder and answers with its output, standard error included, and its \
                 exit code. There is no input and no terminal. When the command ends, everything that it left running in \
                 the background is stopped.",
                EffectClass::Execute,
            ),
            workspace,
        }
    }

    async fn run_command(&self, asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
        let seconds = asked
            .timeout_seconds
            .unwrap_or(DEFAULT_DEADLINE_SECONDS)
            .clamp(1, DEADLINE_CAP_SECONDS);
        let process = |shell: &str| Process {
            program: shell.into(),
            args: vec![OsString::from("-c"), asked.command.clone().into()],
            cwd: self.workspace.root().to_owned(),
            env: base_environment(),
            deadline: Duration::from_secs(seconds),
            streams: Streams::Merged,
            capture_bytes: CAP_BYTES,
            on_line: None,
        };
        let mut result = process("bash").run(&ctx.cancel).await;
        if matches!(&result, Err(error) if error.source.kind() == std::io::ErrorKind::NotFound) {
            result = process("sh").run(&ctx.cancel).await;
        }
        match result {
            Ok(finished) => answer(&finished, seconds),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        async move {
            match arguments(value) {
                Ok(asked) => self.run_command(asked, ctx).await,
                Err(output) => output,
            }
        }
        .boxed()
    }
}

fn answer(finished: &Finished, seconds: u64) -> ToolOutput {
    let mut content = finished.stdout.text();
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
    let ending = match finished.ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signaled(signal) => format!("ended by signal {signal}"),
        Ending::Deadline => format!("stopped: it ran longer than {seconds} s"),
        Ending::Cancelled => "stopped: the call was cancelled".to_owned(),
    };
    let background = if finished.stopped_background {
        "; processes left in the background were stopped"
    } else {
        ""
    };
    content.push_str(&format!("[{ending}{background}]"));
    ToolOutput {
        content,
        is_error: finished.ending != Ending::Exited(0),
    }
}
