//! `write_file`: makes a file or puts new content in its place.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::subject::Subject;
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{Tool, ToolCtx, ToolOutput};
use super::{in_workspace, place, spec_of};
use crate::message::{EffectClass, ToolSpec};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace. Missing folders are made.
    path: String,
    /// The whole new content.
    content: String,
}

/// The tool.
pub struct WriteFile {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
}

impl WriteFile {
    /// Writes in this workspace.
    #[must_use]
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self {
            spec: spec_of::<Arguments>(
                "write_file",
                "Writes a whole text file of the workspace, in one step; what was in it before is gone. To change a part of \
                 a file use edit_file.",
                EffectClass::Write,
            ),
            workspace,
        }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn subject(&self, arguments: &Value) -> Subject {
        Subject::File(place(&self.workspace, arguments))
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        in_workspace(&self.workspace, value, ctx, write)
    }
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
