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

/// Opens sessions when a client requests them.
pub trait AcpSessionOpener: Send + Sync {
    /// Returns the store in which the sessions are saved.
    ///
    /// # Errors
    /// No folder for the sessions can be determined; the error is a sentence for the user.
    fn session_store(&self) -> Result<SessionStore, String>;

    /// Opens a new session, or resumes the session that the request names.
    fn open<'a>(
        &'a self,
        order: OpenSessionRequest,
    ) -> BoxFuture<'a, Result<OpenedSessionWithCommands, SessionOpenError>>;
}

/// Parameters with which a client opens or resumes a session.
pub struct OpenSessionRequest {
    /// Folder that the agent works in: an absolute path with symlinks resolved.
    pub workspace: PathBuf,
    /// Id of the session to resume; `None` for a new one.
    pub resume: Option<String>,
    /// MCP servers that the client adds to the session.
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
    /// Name that the client gave the server.
    pub name: String,
    /// Transport over which the server is reached: a command or a URL.
    pub reach: ClientMcpServerTransport,
}

/// Way in which an MCP server is reached: as a started program, or by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMcpServerTransport {
    /// A program that is started and speaks MCP over standard input and output.
    Program {
        /// Name or path of the program.
        command: String,
        /// Command-line arguments of the program.
        args: Vec<String>,
        /// Environment variables of the program: names and values.
        env: Vec<(String, String)>,
    },
    /// Server that is reached at a URL, over MCP's Streamable HTTP.
    Http {
        /// URL at which the server is reached.
        url: String,
        /// HTTP headers to send with each request to the server: names and values.
        headers: Vec<(String, String)>,
    },
}

/// Asks the person who uses the client questions with the answers yes and no.
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
    /// No model is configured, so that no session can run.
    #[error("{0}")]
    NoModel(String),
    /// There is no session with the requested id.
    #[error("{0}")]
    Unknown(String),
    /// A setting, or a value in the client's request, is invalid.
    #[error("{0}")]
    Wrong(String),
    /// A file, a plugin or another part that the session needs failed.
    #[error("{0}")]
    Failed(String),
}

/// An open session with its approval mode, slash commands and notices.
pub struct OpenedSessionWithCommands {
    /// The session, before its first turn.
    pub session: Session,
    /// Approval mode of the session, which can be switched while the session is open.
    pub switch: SharedApprovalMode,
    /// Slash commands that the client can run in the session.
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
    /// Name of the command, without the slash.
    pub name: String,
    /// Description of the command in one line.
    pub description: String,
    /// Arguments for the help text; empty if there are none.
    pub arguments: String,
}

/// Result of a slash command, with what the caller does next.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpSlashCommandOutcome {
    /// Text to show to the person; no turn runs.
    Text(String),
    /// Input for a turn, which the caller runs.
    Prompt {
        /// Text that is sent to the model.
        text: String,
        /// The command that created the text, and the command's source, to be logged with the turn.
        command: String,
        /// Images that are sent to the model together with the text.
        images: Vec<PromptImageAttachment>,
    },
    /// Request that the caller continues the interrupted turn.
    Continue,
    /// The caller switches to this model from the next turn on.
    Model(String),
    /// No output; the command is done.
    Nothing,
}
