//! Client for MCP servers, whose tools are offered in sessions of the host, and a server that
//! offers the host over MCP.
//!
//! Only this crate depends on the protocol and its library. A server is either a program, which
//! runs sandboxed with the rights in its settings, or a URL, whose requests go through the host's
//! egress. The offer that the operator approved is pinned; later changes are withheld. Calls reach
//! a server only through the host's interface for outside tools, after hooks, policy and approval.
//! The crate must not know the command line, nor where settings and secrets are stored.
//!
//! Start from [`McpToolSource`] for the client, and from [`OwnMcpServerConfig`] for the server.

mod client;
mod compare;
mod completion;
mod elicit;
mod end;
mod form;
mod gateway;
mod http;
mod link;
mod listing;
mod login;
mod material;
mod names;
mod offer;
mod piece;
mod pins;
mod pipe;
mod probe;
mod prompt;
mod proposal;
mod resource;
mod result;
mod secret_words;
mod serve;
mod server;
mod settings;
mod shape;
mod source;
mod streams;
mod tool;
mod tool_list;

/// Log target of the protocol's library. Its log lines repeat failures that Rind reports itself.
pub const PROTOCOL_LIBRARY_LOG_TARGET: &str = "rmcp";

pub use compare::{
    ChangeSinceServerApproval, describe_pinned_server_changes, list_changes_since_approval,
};
pub use login::{
    LoginOutcome, McpLoginParameters, PendingBrowserLogin, StoredLogin, TokenRevocationOutcome,
    login_file_path, remove_login, revoke_login_tokens,
};
pub use names::mcp_tool_source_name;
pub use offer::{MAX_TOOLS_PER_SERVER, OfferedTool, ServerToolsAndPrompts};
pub use pins::{ServerApprovalRecord, ServerPinsFileError, ServerPinsStore, pins_file_path};
pub use probe::{ServerProbeError, fetch_server_offer};
pub use prompt::{ApprovedServerPrompts, OfferedArgument, OfferedPrompt};
pub use serve::{
    ForwardedPromptSource, MAX_SKILL_BYTES, MAX_SKILL_FILES, McpHttpServer, OpenSessionFn,
    OwnMcpServerConfig, ReadSkillsFn, ServedPrompt, ServedPromptArgument, ServedPromptSource,
    ServedSkill, serve_stdio_client,
};
pub use server::{McpServerConnectionSpec, McpServerProgramOrUrl, McpServerUrlAndEgress};
pub use settings::{
    McpConfig, McpProtocol, ServerSettings, check_server_name, to_valid_server_name,
};
pub use source::{McpServerApprovalQuestion, McpToolSource, ServerApprovalAsker};
