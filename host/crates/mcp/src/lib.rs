//! Tools of MCP servers in sessions of the host, and the host as an MCP server.
//!
//! This crate is the only one that names the protocol and its library. A server is a program, which
//! runs confined to the rights in its settings, or an address, whose requests leave through the
//! host's egress. The offer to which the operator said yes is pinned, and later changes are held.
//! Calls reach a server only through the host's seam for tools of an outer layer, after hooks, policy
//! and approval. The crate must not know the command line, nor where settings and secrets are kept.
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

/// Target of the log lines of the protocol's library, which repeat failures that a call reports.
pub const PROTOCOL_LOG: &str = "rmcp";

pub use compare::{OfferChange, changes_since, describe_changes};
pub use login::{
    LoginFlow, LoginRequest, Redirected, StoredLogin, TokenRevocation, login_file, remove_login,
    revoke_login,
};
pub use names::origin_of;
pub use offer::{MAX_TOOLS, OfferedTool, ServerOffer};
pub use pins::{PinError, PinnedServers, ServerPin, pins_file};
pub use probe::{ProbeFailure, probe_server};
pub use prompt::{OfferedArgument, OfferedPrompt, ServerPrompts};
pub use serve::{
    MAX_SKILL_BYTES, MAX_SKILL_FILES, McpHttp, McpServing, OpenSession, PromptArgument,
    PromptSource, ReadSkills, ServedPrompt, ServedPrompts, ServedSkill, serve_lines,
};
pub use server::{HttpServer, McpServer, ServerReach};
pub use settings::{McpConfig, McpProtocol, ServerSettings, check_server_name, fit_server_name};
pub use source::{AskServer, McpSource, ServerQuestion};
