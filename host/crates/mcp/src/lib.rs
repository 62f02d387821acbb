//! Client for MCP servers, whose tools are offered in sessions of the host, and a server that
//! offers the host over MCP.
//!
//! Only this crate depends on the protocol and its library. A server is either a program, which
//! runs sandboxed with the rights in its settings, or a URL, whose requests go through the host's
//! egress. The offer that the operator approved is pinned; later changes are withheld. Calls reach
//! a server only through the host's interface for outside tools, after hooks, policy and approval.
//! The crate must not know the command line, nor where settings and secrets are stored.
//!
//! Start from [`McpSource`] for the client, and from [`McpServing`] for the server.

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
pub const PROTOCOL_LOG: &str = "rmcp";

pub use compare::{ServerOfferChange, describe_changes, find_offer_changes};
pub use login::{
    LoginFlow, LoginOutcome, LoginRequest, StoredLogin, TokenRevocation, login_file_path,
    remove_login, revoke_login,
};
pub use names::mcp_server_origin;
pub use offer::{MAX_TOOLS, OfferedTool, ServerOffer};
pub use pins::{PinError, PinnedServers, ServerPin, pins_file};
pub use probe::{ProbeFailure, probe_server};
pub use prompt::{OfferedArgument, OfferedPrompt, ServerPrompts};
pub use serve::{
    ForwardedPromptSource, MAX_SKILL_BYTES, MAX_SKILL_FILES, McpHttp, McpServing, OpenSession,
    PromptArgument, ReadSkills, ServedPrompt, ServedPrompts, ServedSkill, serve_lines,
};
pub use server::{HttpServer, McpServer, ServerProgramOrUrl};
pub use settings::{
    McpConfig, McpProtocol, ServerSettings, check_server_name, to_valid_server_name,
};
pub use source::{AskServerApproval, McpSource, ServerApprovalQuestion};
