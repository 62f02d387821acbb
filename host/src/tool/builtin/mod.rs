//! Built-in tools: files and commands within one workspace.
//!
//! Each file holds one tool. The workspace limits the files that a tool can touch, and the policy
//! decides whether a call runs; a tool must not ask the user itself. Most file tools are a
//! `FileTool`, which runs their blocking functions off the async threads.
//!
//! Start from [`unconfined_built_in_tools`].

mod answer;
mod background;
mod bash;
mod cause;
mod commands;
mod edit_file;
mod edit_text;
mod in_background;
mod list_files;
mod near_miss;
mod read_file;
mod retried;
mod search;
mod stale;
mod write_file;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::known::FilesSeenByModel;
use super::subject::Subject;
use super::subject::WorkspacePath;
use super::workspace::{Workspace, WorkspaceError};
use super::{
    FileChangeTrackingMethod, ProposedFileChange, SharedTool, Tool, ToolCtx, ToolOutput, schema,
};
use crate::message::{EffectClass, ToolSpec};
use crate::point::handle::FileChangeRecorder;

pub(crate) use bash::GitControlFileSearch;
pub use bash::{BashTool, MAX_DEADLINE_SECONDS as MAX_BASH_DEADLINE_SECONDS};
pub(crate) use commands::ProcessConfinementSettings;
pub use commands::{CommandConfinementAndEnvironment, CommandConfinementMode};
pub(crate) use read_file::{read_file_from_memory, read_file_outside_workspace};
pub use retried::RetriedConfinementSetup;

/// Returns all built-in tools over one workspace, with unconfined `bash`.
#[must_use]
pub fn unconfined_built_in_tools(workspace: &Arc<Workspace>) -> Vec<SharedTool> {
    built_in_tools(workspace, CommandConfinementAndEnvironment::default())
}

/// Returns all built-in tools over one workspace, with `bash` confined as in `commands`.
#[must_use]
pub fn built_in_tools(
    workspace: &Arc<Workspace>,
    commands: impl Into<CommandConfinementAndEnvironment>,
) -> Vec<SharedTool> {
    let mut tools = file_tools(workspace);
    tools.push(Arc::new(BashTool::new(workspace.clone(), commands)));
    tools.push(background::background_tool());
    tools
}

/// Returns the built-in file tools of one workspace, without the tools that run commands.
#[must_use]
pub fn file_tools(workspace: &Arc<Workspace>) -> Vec<SharedTool> {
    vec![
        edit_file::edit_file_tool(workspace),
        list_files::list_files_tool(workspace),
        read_file::read_file_tool(workspace),
        search::search_tool(workspace),
        write_file::write_file_tool(workspace),
    ]
}

/// Builds the description of a built-in tool with arguments of type `A`.
pub(crate) fn build_tool_spec<A: JsonSchema>(
    name: &str,
    description: &str,
    effect_class: EffectClass,
) -> ToolSpec {
    let mut parameters = schemars::schema_for!(A).to_value();
    if let Some(schema) = parameters.as_object_mut() {
        // Remove two keys that the model does not need: the schema is sent with every request.
        schema.remove("$schema");
        schema.remove("title");
    }
    schema::remove_null_types(&mut parameters);
    remove_nonstandard_schema_formats(&mut parameters);
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        effect_class,
        plugin: None,
    }
}

/// Removes formats such as `uint32`: they are not standard, and Gemini refuses schemas that contain
/// them.
fn remove_nonstandard_schema_formats(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let format = keywords.get("format").and_then(Value::as_str);
            if format.is_some_and(|format| format.starts_with("uint")) {
                keywords.remove("format");
            }
            keywords
                .values_mut()
                .for_each(remove_nonstandard_schema_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nonstandard_schema_formats),
        _ => {}
    }
}

/// Runs a tool with deserialized arguments. Arguments that fit the schema but do not deserialize
/// become an error for the model.
pub(crate) fn parse_arguments_and_run_tool<'a, A: DeserializeOwned + Send + 'a, F>(
    value: Value,
    work: impl FnOnce(A) -> F + Send + 'a,
) -> BoxFuture<'a, ToolOutput>
where
    F: Future<Output = ToolOutput> + Send + 'a,
{
    async move {
        match serde_json::from_value(value) {
            Ok(asked) => work(asked).await,
            Err(error) => ToolOutput::from_error_content(format!(
                "the arguments do not fit the parameters of the tool: {error}"
            )),
        }
    }
    .boxed()
}

/// Runs a tool as [`parse_arguments_and_run_tool`] does, and stops it when the call is cancelled.
pub(crate) fn run_until_cancelled<'a, A: DeserializeOwned + Send + 'a, F>(
    value: Value,
    ctx: &'a ToolCtx,
    work: impl FnOnce(A) -> F + Send + 'a,
) -> BoxFuture<'a, ToolOutput>
where
    F: Future<Output = ToolOutput> + Send + 'a,
{
    parse_arguments_and_run_tool(value, move |asked| async move {
        tokio::select! {
            output = work(asked) => output,
            () = ctx.cancel.cancelled() => ToolOutput::from_error_content(""),
        }
    })
}

/// Timeout for work that only reads the workspace.
const WORKSPACE_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for each read of the workspace that is needed to show an approval question.
const APPROVAL_PREVIEW_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Function that runs a call of a file tool. May block.
type FileToolRunner<A> = fn(&Workspace, &FileToolCall, &A) -> Result<ToolOutput, WorkspaceError>;

/// Function that returns the reason why a call would be refused, if it would be. May block.
type FileToolRefusalPredictor<A> =
    fn(&Workspace, &FileToolCall, &A) -> Result<Option<String>, WorkspaceError>;

/// Function that describes the file that a call would change, for approval questions. May block.
type FileTargetDescriber<A> = fn(&Workspace, &A) -> Result<Option<String>, WorkspaceError>;

/// Function that returns the change that a tool call would make to a file. May block.
type FileChangePreviewer<A> =
    fn(&Workspace, &A) -> Result<Option<ProposedFileChange>, WorkspaceError>;

/// Maximum size of a file change that an approval question shows, in bytes: the texts before and
/// after the change together.
const MAX_APPROVAL_PREVIEW_CHANGE_BYTES: usize = 2 << 20;

/// Context of one call of a file tool.
struct FileToolCall {
    /// Token whose cancellation ends the work of the call.
    cancel: CancellationToken,
    /// Id of the tool call.
    id: Arc<str>,
    /// Numbers of the turn and of the step in which the call is made.
    step: (u32, u32),
    /// Files that the model knows; `None` if a program makes the call.
    known: Option<Arc<FilesSeenByModel>>,
    recorder: Option<Arc<dyn FileChangeRecorder>>,
}

impl FileToolCall {
    fn new(ctx: &ToolCtx) -> Self {
        let context = &ctx.caller.context;
        let id = ctx.caller.call.clone();
        Self {
            cancel: ctx.cancel.clone(),
            // Without a call id, the result could not be found in the conversation later, so do not
            // record that the model has seen the file.
            known: ctx.known.clone().filter(|_| id.is_some()),
            id: id.unwrap_or_else(|| "".into()),
            step: (context.turn, context.step),
            recorder: ctx.recorder.clone(),
        }
    }

    fn with_cancel(mut self, cancel: &CancellationToken) -> Self {
        self.cancel = cancel.clone();
        self
    }
}

/// A tool on files of the workspace, with arguments of type `A`.
struct FileTool<A> {
    spec: ToolSpec,
    subject: fn(WorkspacePath) -> Subject,
    workspace: Arc<Workspace>,
    work: FileToolRunner<A>,
    target: FileTargetDescriber<A>,
    change: FileChangePreviewer<A>,
    check: FileToolRefusalPredictor<A>,
}

fn build_file_tool<A: JsonSchema + DeserializeOwned + Send + 'static>(
    name: &str,
    description: &str,
    effect_class: EffectClass,
    subject: fn(WorkspacePath) -> Subject,
    workspace: &Arc<Workspace>,
    work: FileToolRunner<A>,
    target: FileTargetDescriber<A>,
) -> FileTool<A> {
    FileTool {
        spec: build_tool_spec::<A>(name, description, effect_class),
        subject,
        workspace: workspace.clone(),
        work,
        target,
        change: |_, _| Ok(None),
        check: |_, _, _| Ok(None),
    }
}

/// [`FileTargetDescriber`] of tools that change no file: returns no description.
fn omit_changed_file_description<A>(
    _: &Workspace,
    _: &A,
) -> Result<Option<String>, WorkspaceError> {
    Ok(None)
}

impl<A: DeserializeOwned + Send + 'static> Tool for FileTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        FileChangeTrackingMethod::Recorded
    }

    fn resolve_call_subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        let (workspace, path) = (self.workspace.clone(), arguments.get("path").cloned());
        let place = tokio::task::spawn_blocking(move || resolve_argument_path(&workspace, path));
        place
            .map(|place| (self.subject)(place.unwrap_or(WorkspacePath::Unknown)))
            .boxed()
    }

    fn describe_call_target<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Option<String>> {
        let (target, asked) = (self.target, A::deserialize(arguments));
        async move {
            let asked = asked.ok()?;
            let look =
                move |workspace: &Workspace, _: &CancellationToken| target(workspace, &asked);
            let never = CancellationToken::new();
            // Ignore an error: if the target cannot be read, the call itself reports the error.
            let found = self
                .workspace
                .run_blocking_read_only(&never, APPROVAL_PREVIEW_READ_TIMEOUT, look)
                .await;
            found.ok().flatten()
        }
        .boxed()
    }

    fn preview_file_change<'a>(
        &'a self,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Option<ProposedFileChange>> {
        let (change, asked) = (self.change, A::deserialize(arguments));
        async move {
            let asked = asked.ok()?;
            let look =
                move |workspace: &Workspace, _: &CancellationToken| change(workspace, &asked);
            let never = CancellationToken::new();
            let found = self
                .workspace
                .run_blocking_read_only(&never, APPROVAL_PREVIEW_READ_TIMEOUT, look)
                .await;
            let found = found.ok().flatten();
            found.filter(|change| {
                change.before.len() + change.after.len() <= MAX_APPROVAL_PREVIEW_CHANGE_BYTES
            })
        }
        .boxed()
    }

    fn predict_refusal_reason<'a>(
        &'a self,
        arguments: &'a Value,
        ctx: &'a ToolCtx,
    ) -> BoxFuture<'a, Option<String>> {
        let (check, asked, call) = (
            self.check,
            A::deserialize(arguments),
            FileToolCall::new(ctx),
        );
        async move {
            let asked = asked.ok()?;
            let look = move |workspace: &Workspace, cancel: &CancellationToken| {
                check(workspace, &call.with_cancel(cancel), &asked)
            };
            let found = self
                .workspace
                .run_blocking_read_only(&ctx.cancel, APPROVAL_PREVIEW_READ_TIMEOUT, look)
                .await;
            match found {
                Ok(found) => found,
                // After a timeout, do not predict a refusal: the call itself has a longer timeout,
                // and reports the error.
                Err(WorkspaceError::TooLong { .. } | WorkspaceError::Cancelled) => None,
                Err(error) => Some(error.to_string()),
            }
        }
        .boxed()
    }

    /// Runs the tool on a thread on which it may block. Read-only work is abandoned on timeout or
    /// cancellation.
    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        parse_arguments_and_run_tool(value, move |asked: A| async move {
            let (work, call) = (self.work, FileToolCall::new(ctx));
            let work = move |workspace: &Workspace, cancel: &CancellationToken| {
                work(workspace, &call.with_cancel(cancel), &asked)
            };
            let done = match self.spec.effect_class {
                EffectClass::Read => {
                    self.workspace
                        .run_blocking_read_only(&ctx.cancel, WORKSPACE_READ_TIMEOUT, work)
                        .await
                }
                _ => self.workspace.run_blocking(&ctx.cancel, work).await,
            };
            done.unwrap_or_else(|error| ToolOutput::from_error_content(error.to_string()))
        })
    }
}

/// Resolves the `path` of a call. Without one, returns the workspace itself.
fn resolve_argument_path(workspace: &Workspace, path: Option<Value>) -> WorkspacePath {
    match path {
        None | Some(Value::Null) => WorkspacePath::Known(String::new()),
        Some(Value::String(path)) => workspace.resolve_path(&path),
        Some(_) => WorkspacePath::Unknown,
    }
}

/// Formats a count and its noun, such as `1 line` and `2 lines`, from the singular `word`.
fn format_count_with_noun(n: usize, word: &str) -> String {
    let plural = if n == 1 {
        ""
    } else if word.ends_with("ch") {
        "es"
    } else {
        "s"
    };
    format!("{n} {word}{plural}")
}
