//! Tools that the model may call: the trait, the registry, the argument check, policy, approval, and the built-in tools.
//!
//! Start from [`Tool`]. This module decides whether a call may run and runs it; when a call is made, and what the model is
//! told of it, is the agent's.

pub mod approval;
pub mod builtin;
pub mod command;
mod encoding;
pub mod known;
pub mod policy;
pub mod preview;
#[doc(hidden)]
pub mod process;
pub mod registry;
mod repository;
#[doc(hidden)]
pub mod run;
#[cfg(feature = "cli")]
pub(crate) mod sandbox;
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

use subject::Subject;

use crate::message::{Blob, Part, Parts, ToolSpec};
use crate::point::caller::Caller;

/// The answer of a tool, before it becomes a tool result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Text that the model reads.
    pub content: Parts,
    /// The bytes of the blobs in `content`.
    pub bytes: Vec<Vec<u8>>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether the tool itself broke, which the `error` point hears of: a trap, a panic, a missed deadline. That a file is not
    /// there is no fault of the tool.
    pub is_fault: bool,
}

impl ToolOutput {
    /// An answer.
    #[must_use]
    pub fn ok(content: impl Into<Parts>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// An answer of bytes. What they are is told by themselves where they are an image, else by `media_type`.
    #[must_use]
    pub fn blob(bytes: Vec<u8>, media_type: &str) -> Self {
        Self {
            content: vec![Part::Blob(Blob::of(&bytes, media_type))].into(),
            bytes: vec![bytes],
            ..Self::default()
        }
    }

    /// A failure that the model should see.
    #[must_use]
    pub fn error(content: impl Into<Parts>) -> Self {
        Self {
            is_error: true,
            ..Self::ok(content)
        }
    }

    /// A fault of the tool itself.
    #[must_use]
    pub fn fault(content: impl Into<Parts>) -> Self {
        Self {
            is_fault: true,
            ..Self::error(content)
        }
    }
}

/// Context of a running call, besides its arguments.
#[derive(Clone, Debug)]
pub struct ToolCtx {
    /// Caller of the tool.
    pub caller: Caller,
    /// Token that is set when the call is to stop; a tool that may take long must watch it. The future may also just be dropped.
    pub cancel: CancellationToken,
    /// Folders besides the workspace that commands of this call may read: those of skills.
    pub readable: Arc<[PathBuf]>,
    /// Files that the model of the agent knows: `write_file` and `edit_file` then refuse to overwrite others. `None`: the caller
    /// is a program, which does not work from what a model was shown.
    pub known: Option<Arc<known::KnownFiles>>,
}

impl ToolCtx {
    /// A call of a program that may read nothing besides.
    #[must_use]
    pub fn new(caller: Caller, cancel: CancellationToken) -> Self {
        Self {
            caller,
            cancel,
            readable: Arc::default(),
            known: None,
        }
    }
}

/// A tool that the model may call.
pub trait Tool: Send + Sync {
    /// Returns name, description, schema and effect class. Must not change while the tool is registered.
    fn spec(&self) -> &ToolSpec;

    /// Returns the permissions of the plugin that runs its code, in plain words, for approval questions.
    fn may(&self) -> Arc<[String]> {
        Arc::default()
    }

    /// Returns the subject of a call with these arguments, for the operator's rules and for a yes that covers more than this call.
    fn subject<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Subject> {
        Box::pin(std::future::ready(Subject::Any))
    }

    /// Returns a line on what is there now where a call with these arguments would act, for approval questions: the place in a
    /// file, or what is replaced. `None` where there is nothing to say. It was looked up before the person answered, so nothing
    /// may rely on it.
    fn target<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Returns the reason why a call with these arguments would be refused now, so that nobody is asked to approve it. The run
    /// checks again. `None` where nothing is known against it.
    fn refusal<'a>(&'a self, _: &'a Value, _: &'a ToolCtx) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Runs the tool with arguments that fit its schema, after every check, hook, policy and approval. What the model
    /// should know of a failure is an output with `is_error`; there is no other kind of error.
    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput>;
}

/// A tool that is shared between the registry and running calls.
pub type SharedTool = Arc<dyn Tool>;
