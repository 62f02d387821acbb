//! Tools that the model may call: the trait, the registry, the argument check, policy, approval,
//! and the built-in tools.
//!
//! This module decides whether a call may run, and runs it. When a call is made, and how its result
//! reaches the model, is up to the agent. Start from [`Tool`].

pub mod approval;
pub mod background;
pub mod builtin;
pub mod command;
mod encoding;
pub mod known;
pub mod live;
#[doc(hidden)]
pub mod outer;
#[doc(hidden)]
pub mod peer;
pub mod policy;
pub mod preview;
pub mod registry;
#[doc(hidden)]
pub mod repository;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod sandbox;
#[doc(hidden)]
pub mod schema;
pub mod subject;
pub(crate) mod walk;
pub mod workspace;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

#[doc(hidden)]
pub use rind_process as process;
use subject::Subject;

use crate::message::{Blob, Part, Parts, ToolSpec};
use crate::point::caller::Caller;
use crate::point::handle::FileChangeRecorder;

/// Output of a tool, before it becomes a tool result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Content of the result, which the model reads.
    pub content: Parts,
    /// Bytes of the blobs in `content`, in order.
    pub bytes: Vec<Vec<u8>>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether the tool itself failed (trap, panic, timeout), which is reported at the `error`
    /// point. A missing file, for example, is an error but not a fault.
    pub is_fault: bool,
}

impl ToolOutput {
    /// Creates the output of a successful call.
    #[must_use]
    pub fn ok(content: impl Into<Parts>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Creates an output from bytes. The media type is detected for images; otherwise it is
    /// `media_type`.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, media_type: &str) -> Self {
        Self {
            content: vec![Part::Blob(Blob::from_bytes(&bytes, media_type))].into(),
            bytes: vec![bytes],
            ..Self::default()
        }
    }

    /// Creates the result of a failed call. Its content is shown to the model.
    #[must_use]
    pub fn from_error_content(content: impl Into<Parts>) -> Self {
        Self {
            is_error: true,
            ..Self::ok(content)
        }
    }

    /// Creates the output of a call in which the tool itself failed, for example by a panic.
    #[must_use]
    pub fn from_fault_content(content: impl Into<Parts>) -> Self {
        Self {
            is_fault: true,
            ..Self::from_error_content(content)
        }
    }
}

/// Context that a tool receives for one call.
#[derive(Clone, Debug)]
pub struct ToolCtx {
    /// Caller of the tool, with the session, turn and agent of the call.
    pub caller: Caller,
    /// Token that is cancelled with the call. A long-running tool must watch it, and must expect
    /// that the host drops the tool's future.
    pub cancel: CancellationToken,
    /// Directories in addition to the workspace that commands of this call may read, such as those
    /// of skills.
    pub readable: Arc<[PathBuf]>,
    /// Files that the model of this agent knows: `write_file` and `edit_file` refuse to overwrite
    /// unknown files. `None` if the caller is a program, to which this check does not apply.
    pub known: Option<Arc<known::FilesSeenByModel>>,
    /// Recorder that receives the writes of a tool whose changes are
    /// [recorded](FileChangeTrackingMethod::Recorded).
    pub recorder: Option<Arc<dyn FileChangeRecorder>>,
    /// Outputs of running calls, to which a tool may [add an output](Self::open_live_output).
    /// `None` if the user cannot watch the call.
    pub live: Option<live::RunningToolCallOutputs>,
    /// Background commands of the session. `None` if the call belongs to no session.
    pub background: Option<background::BackgroundCommands>,
}

impl ToolCtx {
    /// Creates the context of a tool call that a program makes outside a session, without further
    /// readable directories.
    #[must_use]
    pub fn new(caller: Caller, cancel: CancellationToken) -> Self {
        Self {
            caller,
            cancel,
            readable: Arc::default(),
            known: None,
            recorder: None,
            live: None,
            background: None,
        }
    }

    /// Opens the output that the user can watch during the call. `None` if the user cannot watch
    /// the call.
    #[must_use]
    pub fn open_live_output(&self) -> Option<Arc<live::RunningToolCallOutput>> {
        let call = self.caller.call.as_deref().unwrap_or_default();
        let outputs = self.live.as_ref()?;
        Some(outputs.open_call_output(&self.caller.context.agent, call))
    }
}

/// Method by which the host finds the files of the workspace that a call changes, so that it can
/// restore them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileChangeTrackingMethod {
    /// The host compares snapshots of the workspace from before and after the call.
    #[default]
    Snapshot,
    /// The tool passes each write to [`ToolCtx::recorder`].
    Recorded,
    /// The tool itself changes no file of the workspace.
    Unneeded,
}

/// Whether the host may run a call again that did not finish, because the host was killed or the
/// power failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InterruptedCallRepetitionRule {
    /// Never: the model learns that the call may have run.
    #[default]
    Never,
    /// Always: a second run with the same arguments has no further effect.
    Idempotent,
    /// After a check: the call runs again only if the tool with this name, called with the same
    /// arguments, answers [`INTERRUPTED_CALL_NOT_DONE_ANSWER`].
    Checked(String),
}

/// Answer with which the tool in [`InterruptedCallRepetitionRule::Checked`] reports that the effect
/// of the interrupted call has happened, so that the call is not run again.
pub const INTERRUPTED_CALL_DONE_ANSWER: &str = "done";

/// Answer of the tool in [`InterruptedCallRepetitionRule::Checked`]: the effect of the call has not
/// happened, so the call is run again.
pub const INTERRUPTED_CALL_NOT_DONE_ANSWER: &str = "absent";

/// Change that a call would make to a file, as text: the content before it and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedFileChange {
    /// Path of the file, as the call names it.
    pub path: String,
    /// Content of the file before the call.
    pub before: String,
    /// Content of the file after the call.
    pub after: String,
}

/// A tool that the model may call.
///
/// For each call, the host asks for [`Tool::resolve_call_subject`] before the policy decides. If
/// the user must approve the call, [`Tool::predict_refusal_reason`], [`Tool::describe_call_target`]
/// and [`Tool::preview_file_change`] come next. The subject is read again right before
/// [`Tool::run`], the only method that may have effects.
pub trait Tool: Send + Sync {
    /// Returns name, description, schema and effect class. The value must not change while the tool
    /// is registered.
    fn spec(&self) -> &ToolSpec;

    /// Returns the permissions of the plugin that provides the tool, in plain words, for approval
    /// questions.
    fn plugin_permission_texts(&self) -> Arc<[String]> {
        Arc::default()
    }

    /// Returns the method by which the host finds the files that a call changes. Not called for a
    /// tool that only reads.
    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        FileChangeTrackingMethod::Snapshot
    }

    /// Returns whether a call that did not finish may run again when its turn is resumed. Not
    /// called for a tool that only reads.
    fn interrupted_call_repetition_rule(&self) -> InterruptedCallRepetitionRule {
        InterruptedCallRepetitionRule::Never
    }

    /// Returns the subject of a call with these arguments, such as a command or file. The
    /// operator's rules match it, and it limits the calls to which an "always" answer of the user
    /// applies.
    fn resolve_call_subject<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Subject> {
        Box::pin(std::future::ready(Subject::Any))
    }

    /// Describes the current state of the target of a call, for approval questions, such as the
    /// lines to be replaced. `None` if there is none. The state may change before the user answers,
    /// so no check may rely on it.
    fn describe_call_target<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the change that a call would make to a file that exists, for approval questions.
    /// `None` if it makes none, or one that cannot be shown as text. The file may change before the
    /// user answers, so no check may rely on it.
    fn preview_file_change<'a>(
        &'a self,
        _: &'a Value,
    ) -> BoxFuture<'a, Option<ProposedFileChange>> {
        Box::pin(std::future::ready(None))
    }

    /// Predicts the reason why a call with these arguments would be refused, so that the user is
    /// not asked in vain. `run` checks again. `None` if no reason is known.
    fn predict_refusal_reason<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolCtx,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Runs the tool, after all checks, hooks, policy and approval. The arguments fit its schema. A
    /// failure is returned as an output with `is_error`, which the model sees.
    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput>;
}

/// A tool that is shared between the registry and running calls.
pub type SharedTool = Arc<dyn Tool>;
