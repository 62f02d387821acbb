//! The server: the tools of a host's plugins, its skills and templates, for agents that speak MCP.
//!
//! Every call runs in a session of the host, so it passes hooks, policy, approval and the session
//! file as a call of the model does. A client has a session of its own; requests of clients that the
//! newer protocol knows without a connection share one. Questions are asked of the user of the client,
//! by elicitation.
//!
//! Start from [`McpServing`].

mod asked;
mod bytes;
mod calls;
mod convert;
mod forms;
mod handler;
mod http;
mod progress;
mod prompts;
mod session;
mod skills;
mod stdio;
mod upstream;
mod upstream_list;

use std::sync::Arc;

use rind_lib::Session;
use rind_lib::message::ToolSpec;

pub use http::McpHttp;
pub use prompts::{PromptArgument, PromptSource, ServedPrompt, ServedPrompts};
pub use skills::{MAX_SKILL_BYTES, MAX_SKILL_FILES, ServedSkill};
pub use stdio::serve_lines;

/// Opens a session of the host for a client. It may block.
pub type OpenSession = Arc<dyn Fn() -> Result<Session, String> + Send + Sync>;

/// Reads the skills one after another, with their files, and hands each over. It may block.
pub type ReadSkills = Arc<dyn Fn(&mut dyn FnMut(ServedSkill)) + Send + Sync>;

/// Parts of a server.
#[derive(Clone)]
pub struct McpServing {
    /// Opens sessions. Their policy may ask: the user of the client answers, and where the client has
    /// no way to ask, the call is refused.
    pub open: OpenSession,
    /// Decides which tools are offered.
    pub is_offered: Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>,
    /// Names of MCP servers whose prompts and resources are passed on. Their sources must be
    /// [told so](crate::McpSource::pass_on).
    pub upstream: Arc<[String]>,
    /// Skills and templates, which are offered as prompts, and prompts of servers.
    pub prompts: Arc<dyn ServedPrompts>,
    /// Reads the skills, which are offered as files, too. It is called once.
    pub skills: ReadSkills,
}
