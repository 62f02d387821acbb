//! `background`: reads the output of background commands, waits for them, and stops them.
//!
//! `bash` starts these commands. An agent sees only the commands that it started itself. Start from
//! [`background_tool`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::super::background::{BackgroundCommand, BackgroundCommands};
use super::super::{SharedTool, Tool, ToolCtx, ToolOutput};
use super::answer::append_renamed_file_notes;
use super::{build_tool_spec, run_until_cancelled};
use crate::message::{EffectClass, ToolSpec};
use crate::text::escape_and_truncate_line;

/// Maximum time that a call may wait for a background command, in seconds.
const MAX_COMMAND_WAIT_SECONDS: u64 = 600;

/// Maximum time that a call waits for the end of a command that it stops: a little longer than the
/// time between SIGTERM and SIGKILL.
const COMMAND_STOP_WAIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum length of an id that an error quotes, in bytes.
const MAX_QUOTED_COMMAND_ID_BYTES: usize = 64;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Id of the command, such as `bg-1`. Without it, commands are listed and nothing is read.
    #[serde(default)]
    id: Option<String>,
    /// Seconds to wait for its end before the answer. Default: 0, at most 600.
    #[serde(default)]
    #[schemars(range(max = 600))]
    wait_seconds: Option<u64>,
    /// Text in its new output that ends the wait.
    #[serde(default)]
    until: Option<String>,
    /// Whether to stop it. Default: false.
    #[serde(default)]
    stop: Option<bool>,
}

struct BackgroundCommandsTool {
    spec: ToolSpec,
}

/// Creates the `background` tool.
pub(super) fn background_tool() -> SharedTool {
    Arc::new(BackgroundCommandsTool {
        spec: build_tool_spec::<Arguments>(
            "background",
            "Answers with the new output of a command that `bash` started in the background, and says whether it still \
             runs. It can wait for the command, and stop it.",
            EffectClass::Read,
        ),
    })
}

async fn run_background_tool_call(asked: Arguments, ctx: &ToolCtx) -> ToolOutput {
    let agent = &*ctx.caller.context.agent;
    let Some(commands) = &ctx.background else {
        return ToolOutput::from_error_content(
            "this call belongs to no session, so no command runs in its background",
        );
    };
    let Some(id) = &asked.id else {
        return ToolOutput::ok(list_background_commands(commands, agent));
    };
    let own = commands.commands_of_agent(agent);
    let Some(command) = own.into_iter().find(|one| one.id() == id) else {
        return ToolOutput::from_error_content(format!(
            "there is no command `{}` in the background: commands end with the program, and ended ones are forgotten \
                 after some time. {}",
            escape_and_truncate_line(id, MAX_QUOTED_COMMAND_ID_BYTES),
            list_background_commands(commands, agent)
        ));
    };
    if asked.stop == Some(true) {
        command.stop("by you");
        let _ = tokio::time::timeout(COMMAND_STOP_WAIT_TIMEOUT, command.wait_until_ended()).await;
    } else {
        let seconds = asked
            .wait_seconds
            .unwrap_or(0)
            .min(MAX_COMMAND_WAIT_SECONDS);
        wait_for_end_or_text(&command, seconds, asked.until.as_deref()).await;
    }
    ToolOutput::ok(format_background_command_answer(&command, false))
}

/// Waits, at most for `seconds`, until the command has ended or, if `until` is given, until the
/// command's new output contains that text.
async fn wait_for_end_or_text(command: &BackgroundCommand, seconds: u64, until: Option<&str>) {
    let awaited = async {
        match until.filter(|text| !text.is_empty()) {
            Some(text) => command.wait_for_text(text).await,
            None => drop(command.wait_until_ended().await),
        }
    };
    // Ignore a timeout: the answer says that the command still runs.
    let _ = tokio::time::timeout(Duration::from_secs(seconds), awaited).await;
}

/// Returns the new output of a command, followed by a line about its state. `is_start` is set for
/// the answer to the call that started the command.
pub(super) fn format_background_command_answer(
    command: &BackgroundCommand,
    is_start: bool,
) -> String {
    let id = command.id();
    // Read the outcome of the command before its output. If the command ends in between, the next
    // answer reports the end.
    let end = command.outcome();
    let mut text = command.take_unread_output();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let seconds = command.running_time().as_secs();
    let state = match end {
        Some(end) => {
            command.mark_end_reported();
            text = append_renamed_file_notes(text, &end.refused);
            if let Some(cause) = &end.cause {
                text.push_str(cause);
                text.push('\n');
            }
            format!("[{id} ended after {seconds} s: {}]", end.words)
        }
        None if is_start => {
            format!("[started in the background as {id}; it ends with the session]")
        }
        None => format!("[{id} still runs, for {seconds} s so far]"),
    };
    text + &state
}

fn list_background_commands(commands: &BackgroundCommands, agent: &str) -> String {
    let line = |command: &Arc<BackgroundCommand>| {
        let seconds = command.running_time().as_secs();
        let state = match command.outcome() {
            None => format!("runs since {seconds} s"),
            Some(end) => format!("ended after {seconds} s: {}", end.words),
        };
        let n_unread = command.n_unread_output_lines();
        format!(
            "{} {state}; {n_unread} unread lines: {}",
            command.id(),
            command.masked_command_line()
        )
    };
    let lines: Vec<String> = commands.commands_of_agent(agent).iter().map(line).collect();
    match lines.is_empty() {
        true => "no command runs in the background".to_owned(),
        false => lines.join("\n"),
    }
}

impl Tool for BackgroundCommandsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        run_until_cancelled(value, ctx, |asked| run_background_tool_call(asked, ctx))
    }
}
