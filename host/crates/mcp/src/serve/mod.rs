//! MCP server that offers a host's plugin tools, skills and templates to other agents.
//!
//! Every call runs in a session of the host, so hooks, policy and approval apply and the session
//! file records it, as for a call of the model. Each connection has sessions of its own; requests
//! without a connection, as in the newer protocol, share sessions. Elicitation requests send
//! questions to the client's user.
//!
//! Start from [`OwnMcpServerConfig`].

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

pub use http::McpHttpServer;
pub use prompts::{ForwardedPromptSource, ServedPrompt, ServedPromptArgument, ServedPromptSource};
pub use skills::{MAX_SKILL_BYTES, MAX_SKILL_FILES, ServedSkill};
pub use stdio::serve_stdio_client;

/// Function that opens a session of the host for a client. May block.
pub type OpenSessionFn = Arc<dyn Fn() -> Result<Session, String> + Send + Sync>;

/// Reads the skills with their files, and passes each to the callback. May block.
pub type ReadSkillsFn = Arc<dyn Fn(&mut dyn FnMut(ServedSkill)) + Send + Sync>;

/// Configuration of the MCP server that Rind runs for clients.
#[derive(Clone)]
pub struct OwnMcpServerConfig {
    /// Opens sessions. If a session's policy asks for approval, the client's user answers; if the
    /// client cannot ask, the call is refused.
    pub open: OpenSessionFn,
    /// Function that returns whether clients may call a tool.
    pub is_offered: Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>,
    /// Names of MCP servers whose prompts and resources are forwarded to clients. The caller must
    /// call [`add_prompt_and_resource_tools`](crate::McpToolSource::add_prompt_and_resource_tools)
    /// on the source of each server.
    pub upstream: Arc<[String]>,
    /// Prompts that clients are offered: skills, templates, and prompts of MCP servers.
    pub prompts: Arc<dyn ServedPromptSource>,
    /// Reads the skills, which are also offered as files. Called once, at the first request for
    /// them.
    pub skills: ReadSkillsFn,
}
