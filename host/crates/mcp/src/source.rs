//! Makes an approved MCP server a source of tools for sessions, and defines how the user is asked
//! to approve a server.
//!
//! Start from [`McpToolSource`].

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::compare::ChangeSinceServerApproval;
use super::link::SessionServerConnection;
use super::material::ServerPromptAndResourceFetcher;
use super::names::mcp_tool_source_name;
use super::offer::ServerToolsAndPrompts;
use super::server::McpServerConnectionSpec;
use rind_lib::host::{OpenedToolSource, ToolSource, ToolSourceSessionHandle};

/// Source of the tools of a server that the operator approved.
pub struct McpToolSource {
    server: Arc<McpServerConnectionSpec>,
    pinned: ServerToolsAndPrompts,
    origin: String,
    is_passed_on: bool,
}

impl McpToolSource {
    /// Creates a source with the tools of a server that the operator approved. The server is
    /// started at the first call.
    #[must_use]
    pub fn new(server: McpServerConnectionSpec, pinned: ServerToolsAndPrompts) -> Self {
        Self {
            origin: mcp_tool_source_name(&server.name),
            server: Arc::new(server),
            pinned,
            is_passed_on: false,
        }
    }

    /// Adds two internal tools, through which clients of `rind mcp serve` fetch the server's
    /// prompts and resources.
    pub fn add_prompt_and_resource_tools(&mut self) {
        self.is_passed_on = true;
    }
}

impl ToolSource for McpToolSource {
    fn name(&self) -> &str {
        &self.origin
    }

    fn open(&self, session: ToolSourceSessionHandle) -> OpenedToolSource {
        let link = SessionServerConnection::new(
            self.server.clone(),
            self.pinned.clone(),
            self.is_passed_on,
            session,
        );
        OpenedToolSource {
            tools: link.usable_tools(),
            warnings: Vec::new(),
            material: Some(Arc::new(ServerPromptAndResourceFetcher::new(link))),
        }
    }
}

/// Question to the user whether to approve the tools and prompts of a server.
#[derive(Clone, Copy, Debug)]
pub struct McpServerApprovalQuestion<'a> {
    /// Server whose tools and prompts are to be approved.
    pub server: &'a McpServerConnectionSpec,
    /// Tools and prompts that the server offers now.
    pub offer: &'a ServerToolsAndPrompts,
    /// Differences between the tools and prompts that the operator approved and those of `offer`;
    /// `None` if none were approved.
    pub changes: Option<&'a [ChangeSinceServerApproval]>,
}

/// Asks the user whether MCP servers may be started and used.
pub trait ServerApprovalAsker: Send + Sync {
    /// Asks whether a server that was not approved with its current settings may be started to list
    /// its tools. `place` is the file that defines the server, such as `.mcp.json` or
    /// `config.toml`.
    fn ask_before_starting<'a>(
        &'a self,
        server: &'a McpServerConnectionSpec,
        place: &'a str,
    ) -> BoxFuture<'a, bool>;

    /// Asks whether the tools and prompts that a server offers now may be used.
    fn ask<'a>(&'a self, question: McpServerApprovalQuestion<'a>) -> BoxFuture<'a, bool>;
}
