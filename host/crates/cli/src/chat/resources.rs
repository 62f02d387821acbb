//! Stores the resources of MCP servers that a text in a chat can name, and the text that is sent
//! once its resources were fetched.

use std::collections::HashMap;

use super::super::command::InputLineCompletion;
use super::super::resource::server_names;
use super::waiting::TypedChatInputText;
use rind_lib::host::{ListedResource, SessionPromptsAndResources};

/// Maximum number of resources that are proposed for one text.
const MAX_PROPOSED_RESOURCES: usize = 50;

/// Resources of the session's MCP servers, and a typed text that is sent once the resources that it
/// mentions have been fetched.
pub(super) struct ChatMcpResources {
    pub(super) materials: SessionPromptsAndResources,
    /// Resources of each MCP server, by the server's name. The list is empty until the server has
    /// answered.
    listed: HashMap<String, Vec<ListedResource>>,
    /// The text that is sent once its resources have been fetched.
    pub(super) unsent: Option<TypedChatInputText>,
}

impl ChatMcpResources {
    pub(super) fn new(materials: SessionPromptsAndResources) -> Self {
        Self {
            materials,
            listed: HashMap::new(),
            unsent: None,
        }
    }

    /// Returns the names of the MCP servers that offer resources.
    pub(super) fn server_names(&self) -> Vec<String> {
        server_names(&self.materials)
    }

    /// Returns the MCP server that the word `begun` at the cursor names, if the server was not
    /// asked for its resources yet. Marks the server as asked.
    pub(super) fn claim_server_for_resource_listing(&mut self, begun: &str) -> Option<String> {
        let (server, _) = begun.split_once(':')?;
        let is_new = !self.listed.contains_key(server);
        let server = self.server_names().into_iter().find(|own| own == server)?;
        is_new.then(|| {
            self.listed.insert(server.clone(), Vec::new());
            server
        })
    }

    /// Records the resources that an MCP server has listed.
    pub(super) fn store_server_resources(
        &mut self,
        server: String,
        resources: Vec<ListedResource>,
    ) {
        self.listed.insert(server, resources);
    }

    /// Removes the lists of resources, so that the servers are asked again.
    pub(super) fn clear_resource_lists(&mut self) {
        self.listed.clear();
    }

    /// Proposes completions for a word that begins with `@`. `begun` is the typed part after the
    /// `@`, and begins at byte `start` of the text.
    pub(super) fn complete_resource_mention(
        &self,
        begun: &str,
        start: usize,
    ) -> Vec<InputLineCompletion> {
        let Some((server, begun)) = begun.split_once(':') else {
            let servers = self.server_names().into_iter();
            let servers = servers.filter(|server| server.starts_with(begun));
            let proposal = |server| InputLineCompletion {
                start,
                help: format!("resources of the MCP server {server}"),
                text: format!("{server}:"),
            };
            return servers.map(proposal).collect();
        };
        let all = self.listed.get(server).map(Vec::as_slice);
        let mut found: Vec<&ListedResource> = all
            .unwrap_or_default()
            .iter()
            .filter(|own| own.uri.contains(begun))
            .collect();
        found.sort_by_key(|own| !own.uri.starts_with(begun));
        let found = found.into_iter().take(MAX_PROPOSED_RESOURCES);
        let proposal = |own: &ListedResource| InputLineCompletion {
            start,
            text: format!("{server}:{}", own.uri),
            help: match &own.template {
                Some(template) => format!("{template} {}", own.description),
                None => own.description.clone(),
            },
        };
        found.map(proposal).collect()
    }
}
