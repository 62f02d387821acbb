//! An MCP server as a source of tools for sessions, and the question whether to approve its offer.
//!
//! Start from [`McpSource`].

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::compare::OfferChange;
use super::link::ServerLink;
use super::material::ServerMaterial;
use super::names::origin_of;
use super::offer::ServerOffer;
use super::server::McpServer;
use rind_lib::host::{OpenedSource, SourceSession, ToolSource};

/// A server that the operator approved, as a source of tools.
pub struct McpSource {
    server: Arc<McpServer>,
    pinned: ServerOffer,
    origin: String,
    is_passed_on: bool,
}

impl McpSource {
    /// Creates a source with the pinned tools of a server. The server is started at the first call.
    #[must_use]
    pub fn new(server: McpServer, pinned: ServerOffer) -> Self {
        Self {
            origin: origin_of(&server.name),
            server: Arc::new(server),
            pinned,
            is_passed_on: false,
        }
    }

    /// Lets clients of `rind mcp serve` fetch the server's prompts and resources, by adding two
    /// tools for this.
    pub fn pass_on(&mut self) {
        self.is_passed_on = true;
    }
}

impl ToolSource for McpSource {
    fn name(&self) -> &str {
        &self.origin
    }

    fn open(&self, session: SourceSession) -> OpenedSource {
        let link = ServerLink::new(
            self.server.clone(),
            self.pinned.clone(),
            self.is_passed_on,
            session,
        );
        OpenedSource {
            tools: link.tools(),
            warnings: Vec::new(),
            material: Some(Arc::new(ServerMaterial::new(link))),
        }
    }
}

/// A question whether to approve the offer of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerQuestion<'a> {
    /// Server whose offer is to be approved.
    pub server: &'a McpServer,
    /// Current offer of the server.
    pub offer: &'a ServerOffer,
    /// Differences from the pinned offer; `None` if there is no pin.
    pub changes: Option<&'a [OfferChange]>,
}

/// Asks the user to approve servers.
pub trait AskServer: Send + Sync {
    /// Asks whether a server that was not approved with its current settings may be started to list
    /// its tools. `place` is the file that defines the server, such as `.mcp.json` or
    /// `config.toml`.
    fn ask_start<'a>(&'a self, server: &'a McpServer, place: &'a str) -> BoxFuture<'a, bool>;

    /// Asks whether the current offer of a server may be used.
    fn ask<'a>(&'a self, question: ServerQuestion<'a>) -> BoxFuture<'a, bool>;
}
