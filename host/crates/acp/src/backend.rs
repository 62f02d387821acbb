//! Interface to the program behind the protocol, which opens sessions by the operator's rules.
//!
//! This crate knows no settings, no plugins and no slash commands; the program that serves the
//! protocol implements [`AcpBackend`] and [`SessionCommands`].

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::Session;
use rind_lib::message::Attachment;
use rind_lib::provider::Selected;
use rind_lib::session::SessionStore;
use rind_lib::tool::approval::Approver;
use rind_lib::tool::policy::{ApprovalMode, ModeSwitch};
use tokio_util::sync::CancellationToken;

/// Opens sessions for a client.
pub trait AcpBackend: Send + Sync {
    /// Returns the store in which the sessions are saved.
    ///
    /// # Errors
    /// A sentence for the user: no folder for the sessions can be determined.
    fn store(&self) -> Result<SessionStore, String>;

    /// Opens a session.
    fn open<'a>(&'a self, order: OpenOrder) -> BoxFuture<'a, Result<BackendSession, OpenError>>;
}

/// Request of a client to open a session.
pub struct OpenOrder {
    /// Folder that the agent works in: an absolute path with symlinks resolved.
    pub workspace: PathBuf,
    /// Id of the session to resume; `None` for a new one.
    pub resume: Option<String>,
    /// MCP servers that the client names.
    pub servers: Vec<ClientServer>,
    /// Asks the person behind the client about tool calls.
    pub approver: Arc<dyn Approver>,
    /// Asks the person yes-or-no questions while the session is being opened.
    pub confirm: Arc<dyn ConfirmPerson>,
    /// Mode of approval at the start of the session; `None` for the default mode.
    pub mode: Option<ApprovalMode>,
}

/// An MCP server that a client names for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientServer {
    /// Name that the client gave.
    pub name: String,
    /// Command or address of the server.
    pub reach: ClientServerReach,
}

/// Transport of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientServerReach {
    /// A program that is started and speaks MCP over standard input and output.
    Program {
        /// Name or path of the program.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Environment variables: names and values.
        env: Vec<(String, String)>,
    },
    /// A server that is reached over Streamable HTTP.
    Http {
        /// URL of the server.
        url: String,
        /// HTTP headers: names and values.
        headers: Vec<(String, String)>,
    },
}

/// Asks the person behind the client yes-or-no questions.
pub trait ConfirmPerson: Send + Sync {
    /// Asks a question. Returns `true` only for a yes: a missing answer counts as no, also when the
    /// client cannot ask before the session is open.
    fn confirm(&self, text: String) -> BoxFuture<'_, bool>;

    /// Whether a no may mean that the question was postponed until the first prompt.
    fn is_deferred(&self) -> bool {
        false
    }
}

/// Error of a session that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No model is set up.
    #[error("{0}")]
    NoModel(String),
    /// There is no session with the requested id.
    #[error("{0}")]
    Unknown(String),
    /// A setting or the request is invalid.
    #[error("{0}")]
    Wrong(String),
    /// A file, a plugin or another part failed.
    #[error("{0}")]
    Failed(String),
}

/// An open session with the parts that a client can use.
pub struct BackendSession {
    /// The session, before its first turn.
    pub session: Session,
    /// Switch for the session's mode of approval.
    pub switch: ModeSwitch,
    /// Slash commands of the session.
    pub commands: Arc<dyn SessionCommands>,
    /// Notices to show to the person, about parts such as plugins that were skipped.
    pub notes: Vec<String>,
}

/// Slash commands of a session, and its models.
pub trait SessionCommands: Send + Sync {
    /// Lists the commands that a client can offer.
    fn offered(&self) -> Vec<OfferedCommand>;

    /// Whether a line has the form of a slash command, even if no such command exists.
    fn is_command(&self, line: &str) -> bool;

    /// Runs a line for which `is_command` is true. Must not be called during a turn.
    fn run<'a>(
        &'a self,
        line: &'a str,
        session: &'a mut Session,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, String>>;

    /// Selects a model for the session. `is_listed` tells whether the provider listed the model or
    /// a person typed its name.
    ///
    /// # Errors
    /// A sentence for the user: there is no such model or provider, or the provider's key is
    /// missing.
    fn select_model(&self, name: &str, is_listed: bool) -> Result<Selected, String>;

    /// Frees what the commands hold for the session after it was closed, so that it can be opened
    /// again.
    fn release_session(&self);
}

/// A slash command that a client can offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedCommand {
    /// Name without the slash.
    pub name: String,
    /// Purpose in one line.
    pub description: String,
    /// Arguments for the help text; empty if there are none.
    pub arguments: String,
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandOutcome {
    /// Text for the person.
    Text(String),
    /// Input for a turn, which the caller runs.
    Prompt {
        /// Text for the model.
        text: String,
        /// The command and its source, for the log of the turn.
        command: String,
        /// Images that belong to the text.
        images: Vec<Attachment>,
    },
    /// The caller continues the interrupted turn.
    Continue,
    /// The caller switches to this model from the next turn on.
    Model(String),
    /// The command is done and has no output.
    Nothing,
}
