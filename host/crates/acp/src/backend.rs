//! Interface to the program that serves the protocol. The program opens the sessions and applies
//! the operator's rules.
//!
//! This crate knows no settings, no plugins and no slash commands: the program implements
//! [`AcpSessionOpener`] and [`SessionCommandRunner`].

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::Session;
use rind_lib::message::PromptImageAttachment;
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::session::SessionStore;
use rind_lib::tool::approval::Approver;
use rind_lib::tool::policy::{ApprovalMode, SharedApprovalMode};
use tokio_util::sync::CancellationToken;

/// Opens sessions for a client.
pub trait AcpSessionOpener: Send + Sync {
    /// Returns the store in which the sessions are saved.
    ///
    /// # Errors
    /// No folder for the sessions can be determined; the error is a sentence for the user.
    fn session_store(&self) -> Result<SessionStore, String>;

    /// Opens a session.
    fn open<'a>(
        &'a self,
        order: OpenSessionRequest,
    ) -> BoxFuture<'a, Result<OpenedSessionWithCommands, SessionOpenError>>;
}

/// Request of a client to open a session.
pub struct OpenSessionRequest {
    /// Folder that the agent works in: an absolute path with symlinks resolved.
    pub workspace: PathBuf,
    /// Id of the session to resume; `None` for a new one.
    pub resume: Option<String>,
    /// MCP servers that the client names.
    pub servers: Vec<ClientMcpServer>,
    /// Asks the person behind the client about tool calls.
    pub approver: Arc<dyn Approver>,
    /// Asks the person yes-or-no questions while the session is being opened.
    pub confirm: Arc<dyn YesNoQuestionAsker>,
    /// Approval mode at the start of the session; `None` for the default mode.
    pub mode: Option<ApprovalMode>,
}

/// An MCP server that a client names for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMcpServer {
    /// Name that the client gave.
    pub name: String,
    /// Transport over which the server is reached: a command or a URL.
    pub reach: ClientMcpServerTransport,
}

/// Transport of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMcpServerTransport {
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
pub trait YesNoQuestionAsker: Send + Sync {
    /// Asks a question. Returns `true` only if the person answered yes. Returns `false` without an
    /// answer, and also if the client cannot ask before the session is open.
    fn confirm(&self, text: String) -> BoxFuture<'_, bool>;

    /// Whether [`confirm`](Self::confirm) postpones questions until the first prompt and returns
    /// `false` for them until then.
    fn is_postponing_until_prompt(&self) -> bool {
        false
    }
}

/// Reason why a session cannot be opened, with a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionOpenError {
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

/// An open session with its approval mode, slash commands and notices.
pub struct OpenedSessionWithCommands {
    /// The session, before its first turn.
    pub session: Session,
    /// Switches the session's approval mode.
    pub switch: SharedApprovalMode,
    /// Slash commands of the session.
    pub commands: Arc<dyn SessionCommandRunner>,
    /// Notices to show to the person, for example about plugins that were skipped.
    pub notes: Vec<String>,
}

/// Slash commands and model selection of one session.
pub trait SessionCommandRunner: Send + Sync {
    /// Lists the commands that a client can offer.
    fn list_commands(&self) -> Vec<OfferedSlashCommand>;

    /// Whether a line has the form of a slash command, even if no such command exists.
    fn is_command(&self, line: &str) -> bool;

    /// Runs a line that is a command, for which `is_command` is true. Must not be called during a
    /// turn.
    fn run_line<'a>(
        &'a self,
        line: &'a str,
        session: &'a mut Session,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<AcpSlashCommandOutcome, String>>;

    /// Selects a model for the session. `is_listed` tells whether the provider listed the model or
    /// a person typed its name.
    ///
    /// # Errors
    /// There is no such model or provider, or the provider's key is missing; the error is a
    /// sentence for the user.
    fn select_model(&self, name: &str, is_listed: bool)
    -> Result<SelectedProviderAndModel, String>;

    /// Frees the resources that the commands keep for the session. Called after the session was
    /// closed, so that it can be opened again.
    fn free_session_resources(&self);
}

/// A slash command that a client can offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedSlashCommand {
    /// Name without the slash.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Arguments for the help text; empty if there are none.
    pub arguments: String,
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpSlashCommandOutcome {
    /// Text for the person.
    Text(String),
    /// Input for a turn, which the caller runs.
    Prompt {
        /// Text for the model.
        text: String,
        /// The command that created the text, and the command's source, to be logged with the turn.
        command: String,
        /// Images that belong to the text.
        images: Vec<PromptImageAttachment>,
    },
    /// The caller continues the interrupted turn.
    Continue,
    /// The caller switches to this model from the next turn on.
    Model(String),
    /// The command is done and has no output.
    Nothing,
}
