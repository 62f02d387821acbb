//! The tools that come with Rind: files and commands within one workspace.
//!
//! Each file is one tool. They rely on the workspace for what they may touch and on the policy for whether they may run; they
//! must not ask anybody anything themselves. Start from [`all`].

mod bash;
mod edit_file;
mod list_files;
mod read_file;
mod search;
mod write_file;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::subject::WorkspacePath;
use super::workspace::{Workspace, WorkspaceError};
use super::{SharedTool, ToolCtx, ToolOutput};
use crate::message::{EffectClass, ToolSpec};

pub use bash::{Bash, Commands, MAX_DEADLINE_SECONDS as MAX_BASH_DEADLINE_SECONDS};
pub use edit_file::EditFile;
pub use list_files::ListFiles;
pub use read_file::ReadFile;
pub use search::Search;
pub use write_file::WriteFile;

/// All built-in tools over one workspace; nothing confines the commands of `bash`.
#[must_use]
pub fn all(workspace: &Arc<Workspace>) -> Vec<SharedTool> {
    all_with(workspace, Commands::Free)
}

/// All built-in tools over one workspace, the commands of `bash` kept to it as `commands` says.
#[must_use]
pub fn all_with(workspace: &Arc<Workspace>, commands: Commands) -> Vec<SharedTool> {
    let mut tools = files(workspace);
    tools.push(Arc::new(Bash::new(workspace.clone(), commands)));
    tools
}

/// The built-in tools that work on files of one workspace and start nothing.
#[must_use]
pub fn files(workspace: &Arc<Workspace>) -> Vec<SharedTool> {
    vec![
        Arc::new(EditFile::new(workspace.clone())),
        Arc::new(ListFiles::new(workspace.clone())),
        Arc::new(ReadFile::new(workspace.clone())),
        Arc::new(Search::new(workspace.clone())),
        Arc::new(WriteFile::new(workspace.clone())),
    ]
}

/// The description of a built-in tool whose arguments are `A`.
pub(crate) fn spec_of<A: JsonSchema>(
    name: &str,
    description: &str,
    effect_class: EffectClass,
) -> ToolSpec {
    let mut parameters = schemars::schema_for!(A).to_value();
    if let Some(schema) = parameters.as_object_mut() {
        // Every request carries the schema; these two tell the model nothing.
        schema.remove("$schema");
        schema.remove("title");
    }
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        effect_class,
        plugin: None,
    }
}

/// Reads arguments that fit the schema. What still does not fit is told to the model.
pub(crate) fn arguments<A: DeserializeOwned>(value: Value) -> Result<A, ToolOutput> {
    serde_json::from_value(value)
        .map_err(|error| ToolOutput::error(format!("the arguments do not fit: {error}")))
}

/// Runs a tool's work until it is called off: reads the arguments, and tells the model what does not fit.
pub(crate) fn until_cancelled<'a, A: DeserializeOwned + Send + 'a, F>(
    value: Value,
    ctx: &'a ToolCtx,
    work: impl FnOnce(A) -> F + Send + 'a,
) -> BoxFuture<'a, ToolOutput>
where
    F: Future<Output = ToolOutput> + Send + 'a,
{
    async move {
        let asked: A = match arguments(value) {
            Ok(asked) => asked,
            Err(output) => return output,
        };
        tokio::select! {
            output = work(asked) => output,
            () = ctx.cancel.cancelled() => ToolOutput::error(""),
        }
    }
    .boxed()
}

/// Longest time that a tool looks through the workspace.
const MAX_LOOK: Duration = Duration::from_secs(30);

/// Runs a tool's read-only work on files, where it may block: as [`in_workspace`], and the work is abandoned when it takes too
/// long or is cancelled.
fn looking<'a, A: DeserializeOwned + Send + 'static>(
    workspace: &'a Arc<Workspace>,
    value: Value,
    ctx: &'a ToolCtx,
    work: impl FnOnce(&Workspace, &CancellationToken, &A) -> Result<ToolOutput, WorkspaceError>
    + Send
    + 'static,
) -> BoxFuture<'a, ToolOutput> {
    async move {
        let asked: A = match arguments(value) {
            Ok(asked) => asked,
            Err(output) => return output,
        };
        let work = move |workspace: &Workspace, cancel: &CancellationToken| {
            work(workspace, cancel, &asked)
        };
        let looked = workspace.looking(&ctx.cancel, MAX_LOOK, work).await;
        looked.unwrap_or_else(|error| ToolOutput::error(error.to_string()))
    }
    .boxed()
}

/// Runs a tool's work on files where it may block: reads the arguments, and tells the model what went wrong.
fn in_workspace<'a, A: DeserializeOwned + Send + 'static>(
    workspace: &'a Arc<Workspace>,
    value: Value,
    ctx: &'a ToolCtx,
    work: impl FnOnce(&Workspace, &CancellationToken, &A) -> Result<ToolOutput, WorkspaceError>
    + Send
    + 'static,
) -> BoxFuture<'a, ToolOutput> {
    async move {
        let asked: A = match arguments(value) {
            Ok(asked) => asked,
            Err(output) => return output,
        };
        workspace
            .blocking(&ctx.cancel, move |workspace, cancel| {
                work(workspace, cancel, &asked)
            })
            .await
            .unwrap_or_else(|error| ToolOutput::error(error.to_string()))
    }
    .boxed()
}

/// Returns the place of the `path` of a call; the workspace itself without one.
fn place(workspace: &Workspace, arguments: &Value) -> WorkspacePath {
    match arguments.get("path") {
        None | Some(Value::Null) => WorkspacePath::Known(String::new()),
        Some(Value::String(path)) => workspace.place(path),
        Some(_) => WorkspacePath::Unknown,
    }
}

/// `word` or its plural, with the number before it.
fn count(n: usize, word: &str) -> String {
    let plural = if n == 1 {
        ""
    } else if word.ends_with("ch") {
        "es"
    } else {
        "s"
    };
    format!("{n} {word}{plural}")
}
