//! `write_file`: makes a file or puts new content in its place.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::super::subject::Subject;
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{SharedTool, ToolOutput};
use super::{count, file_tool};
use crate::message::EffectClass;

/// Largest file whose lines are counted for a question.
const CAP_BYTES: u64 = 8 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace. Missing folders are made.
    path: String,
    /// The whole new content.
    content: String,
}

pub(super) fn tool(workspace: &Arc<Workspace>) -> SharedTool {
    file_tool(
        "write_file",
        "Writes a whole text file of the workspace, in one step; what was in it before is gone. To change a part of \
                 a file use edit_file.",
        EffectClass::Write,
        Subject::File,
        workspace,
        write,
        target,
    )
}

fn target(workspace: &Workspace, asked: &Arguments) -> Result<Option<String>, WorkspaceError> {
    Ok(Some(match workspace.read(&asked.path, CAP_BYTES) {
        Ok(content) => {
            let lines = count(
                content.split_inclusive(|byte| *byte == b'\n').count(),
                "line",
            );
            format!("replaces {} bytes, {lines}", content.len())
        }
        Err(WorkspaceError::Missing(_)) => "a file that is not there yet".to_owned(),
        Err(error) => return Err(error),
    }))
}

fn write(
    workspace: &Workspace,
    _: &CancellationToken,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let is_new = workspace.write(&asked.path, asked.content.as_bytes())?;
    let verb = if is_new { "created" } else { "overwrote" };
    Ok(ToolOutput::ok(format!(
        "{verb} `{}` ({} bytes)",
        asked.path,
        asked.content.len()
    )))
}
