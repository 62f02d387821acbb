//! The program behind the protocol, which opens sessions by the operator's rules.
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
    /// Returns the store of the sessions.
    ///
    /// # Errors
    /// A sentence: there is no place for sessions.
    fn store(&self) -> Result<SessionStore, String>;

    /// Opens a session.
    fn open<'a>(&'a self, order: OpenOrder) -> BoxFuture<'a, Result<BackendSession, OpenError>>;
}

/// A session that a client asks for.
pub struct OpenOrder {
    /// Folder that the agent works in: absolute, without links.
    pub workspace: PathBuf,
    /// Id of the session to resume; `None` for a new one.
    pub resume: Option<String>,
    /// MCP servers that the client names.
    pub servers: Vec<ClientServer>,
    /// Asks the person behind the client about tool calls.
    pub approver: Arc<dyn Approver>,
    /// Asks the person before the session is open.
    pub confirm: Arc<dyn ConfirmPerson>,
    /// Mode of approval to begin in; `None` for the usual one.
    pub mode: Option<ApprovalMode>,
}

/// An MCP server that a client names for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientServer {
    /// Name that the client gave.
    pub name: String,
    /// Program or address.
    pub reach: ClientServerReach,
}

/// The way to an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientServerReach {
    /// A program.
    Program {
        /// Name or path of the program.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Variables and their values.
        env: Vec<(String, String)>,
    },
    /// An address over Streamable HTTP.
    Http {
        /// Address.
        url: String,
        /// Headers and their values.
        headers: Vec<(String, String)>,
    },
}

/// Asks the person behind the client a question with yes or no.
pub trait ConfirmPerson: Send + Sync {
    /// Asks. Every answer but yes counts as no, also when the client cannot ask yet.
    fn confirm(&self, text: String) -> BoxFuture<'_, bool>;

    /// Whether a no may only mean that the question is asked later, with the first prompt.
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
    /// There is no such session.
    #[error("{0}")]
    Unknown(String),
    /// A setting or the request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// A file, a plugin or another part failed.
    #[error("{0}")]
    Failed(String),
}

/// An open session with the parts that a client can use.
pub struct BackendSession {
    /// Session, whose first turn has not begun.
    pub session: Session,
    /// Mode of approval of the session.
    pub switch: ModeSwitch,
    /// Slash commands of the session.
    pub commands: Arc<dyn SessionCommands>,
    /// Notices for the person about skipped parts.
    pub notes: Vec<String>,
}

/// Slash commands of a session, and its models.
pub trait SessionCommands: Send + Sync {
    /// Lists the commands that a client can offer.
    fn offered(&self) -> Vec<OfferedCommand>;

    /// Whether a line calls a command, known or not.
    fn is_command(&self, line: &str) -> bool;

    /// Runs a line that calls a command, between two turns.
    fn run<'a>(
        &'a self,
        line: &'a str,
        session: &'a mut Session,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, String>>;

    /// Selects a model for the session: one that its provider listed, or one that a person typed.
    ///
    /// # Errors
    /// A sentence: there is no such model or provider, or its key is missing.
    fn select_model(&self, name: &str, is_listed: bool) -> Result<Selected, String>;

    /// Releases the session, which was closed and may be opened again.
    fn release_session(&self);
}

/// A command to offer.
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
    /// Input of a turn.
    Prompt {
        /// Text for the model.
        text: String,
        /// The command and its source.
        command: String,
        /// Images that belong to the text.
        images: Vec<Attachment>,
    },
    /// Continue the interrupted turn.
    Continue,
    /// Use another model from the next turn on.
    Model(String),
    /// The command did its work.
    Nothing,
}
