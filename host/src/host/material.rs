//! Fetches prompts and resources for a person from sources such as MCP servers, which an outer
//! layer provides.
//!
//! Only a front end fetches them, for text that a person typed; no model and no plugin can. The
//! fetched content becomes a part of the input of a turn. Secrets in it are masked, as in results
//! of tools, and then it passes the hooks of the input. Clients outside the session fetch prompts
//! and resources by calls, which pass hooks and policy. Start from [`PromptResourceProvider`].

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::message::PromptImageAttachment;
use crate::point::handle::AgentHandle;
use crate::point::trace::{AccessOutcome, AccessRecord, Origin, Reached};
use crate::secret::{SecretScanner, run_blocking_scan};

/// Prompts and resources of a [source](super::ToolSource) in one session.
///
/// Errors are reasons for the person that continue a sentence after "it", such as "is not used in
/// this session".
pub trait PromptResourceProvider: Send + Sync {
    /// Fetches the prompt `name` with the arguments that the person entered.
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'a, Result<FetchedPromptOrResource, String>>;

    /// Lists the resources of the source that can be read.
    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<ListedResource>, String>>;

    /// Reads a resource. The implementation refuses an address that it does not list.
    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<FetchedPromptOrResource, String>>;

    /// Returns completions of a text that the person has begun to type: the value of an argument,
    /// or an address. Called when the person asks for completions.
    fn suggest_completions<'a>(
        &'a self,
        begun: &'a InputCompletionRequest,
    ) -> BoxFuture<'a, Result<Vec<String>, String>>;
}

/// A text that a person has begun, for a source to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputCompletionRequest {
    /// Completes the value of an argument of a prompt.
    Argument {
        /// Name of the prompt to which the argument belongs.
        prompt: String,
        /// Name of the argument to complete.
        name: String,
        /// Value of the argument as the user typed it so far.
        value: String,
        /// Other arguments of the prompt, which are already complete, with their values.
        others: Vec<(String, String)>,
    },
    /// Completes the URI of a resource, of which this is the part typed so far.
    Address(String),
}

/// Content of a prompt or resource. All of it comes from the source and is not verified.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchedPromptOrResource {
    /// Text of the prompt or resource; empty if there are only images.
    pub text: String,
    /// Images of the prompt or resource.
    pub images: Vec<PromptImageAttachment>,
}

/// Resource, or template of resources, that a source lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedResource {
    /// Address of the resource; for a template, the prefix of its addresses.
    pub uri: String,
    /// URI template in the syntax of RFC 6570; `None` for a single resource.
    pub template: Option<String>,
    /// Name of the resource, as given by the source.
    pub name: String,
    /// Description as given by the source, or its title or name if it gives no description.
    pub description: String,
    /// Media type of the resource, as given by the source; `None` if it gives none.
    pub media_type: Option<String>,
}

/// Prompts and resources of all sources of an open session. Dropped with the session.
pub(super) type SessionPromptResourceProviders = Arc<Vec<SessionPromptResourceProvider>>;

/// Prompts and resources of one tool source in a session.
pub(super) struct SessionPromptResourceProvider {
    /// Name of the source that provides them.
    pub(super) origin: String,
    pub(super) material: Arc<dyn PromptResourceProvider>,
    pub(super) handle: Arc<dyn AgentHandle>,
}

/// Access to the prompts and resources of a session's sources. Cheap to clone; it does not keep the
/// session open.
#[derive(Clone, Default)]
pub struct SessionPromptsAndResources {
    all: Weak<Vec<SessionPromptResourceProvider>>,
}

impl_partial_debug!(
    SessionPromptsAndResources,
    self,
    origins = self.tool_source_names()
);

impl SessionPromptsAndResources {
    pub(super) fn new(all: &SessionPromptResourceProviders) -> Self {
        Self {
            all: Arc::downgrade(all),
        }
    }

    /// Returns the names of the tool sources that provide prompts or resources.
    #[must_use]
    pub fn tool_source_names(&self) -> Vec<String> {
        let all = self.all.upgrade().unwrap_or_default();
        all.iter().map(|own| own.origin.clone()).collect()
    }

    /// Fetches a prompt of a source, with secrets in it masked.
    ///
    /// # Errors
    /// The reason, as the rest of a sentence that begins with "it".
    pub async fn fetch_prompt(
        &self,
        origin: &str,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<FetchedPromptOrResource, String> {
        let (all, at) = self.find_tool_source_index(origin)?;
        let own = all.get(at).ok_or_else(unused_tool_source_message)?;
        let fetched = own.material.fetch_prompt(name, arguments).await?;
        Ok(own.mask_secrets(fetched, "prompt"))
    }

    /// Lists the resources of a source.
    ///
    /// # Errors
    /// The session has ended, the source is unknown, or it fails. The error is the predicate of a
    /// sentence that begins with "it", the source.
    pub async fn list_resources(&self, origin: &str) -> Result<Vec<ListedResource>, String> {
        let (all, at) = self.find_tool_source_index(origin)?;
        let own = all.get(at).ok_or_else(unused_tool_source_message)?;
        own.material.list_resources().await
    }

    /// Reads a resource of a source, with secrets in it masked.
    ///
    /// # Errors
    /// The reason, as the rest of a sentence that begins with "it".
    pub async fn read_resource(
        &self,
        origin: &str,
        uri: &str,
    ) -> Result<FetchedPromptOrResource, String> {
        let (all, at) = self.find_tool_source_index(origin)?;
        let own = all.get(at).ok_or_else(unused_tool_source_message)?;
        let fetched = own.material.read_resource(uri).await?;
        Ok(own.mask_secrets(fetched, "resource"))
    }

    /// Asks a source to complete a typed text.
    ///
    /// # Errors
    /// The reason, as the rest of a sentence that begins with "it".
    pub async fn complete_user_input(
        &self,
        origin: &str,
        begun: &InputCompletionRequest,
    ) -> Result<Vec<String>, String> {
        let (all, at) = self.find_tool_source_index(origin)?;
        let own = all.get(at).ok_or_else(unused_tool_source_message)?;
        own.material.suggest_completions(begun).await
    }

    fn find_tool_source_index(
        &self,
        origin: &str,
    ) -> Result<(SessionPromptResourceProviders, usize), String> {
        let all = self.all.upgrade().ok_or("ended with the session")?;
        let at = all.iter().position(|own| own.origin == origin);
        Ok((all, at.ok_or_else(unused_tool_source_message)?))
    }
}

fn unused_tool_source_message() -> String {
    "is not used in this session".to_owned()
}

impl SessionPromptResourceProvider {
    /// Masks secrets in a text that was fetched from a tool source. If there are any, records an
    /// access.
    fn mask_secrets(
        &self,
        mut fetched: FetchedPromptOrResource,
        what: &str,
    ) -> FetchedPromptOrResource {
        let masked = run_blocking_scan(fetched.text.len(), || {
            SecretScanner::shared().mask_secrets(&fetched.text)
        });
        let Some(masked) = masked else {
            return fetched;
        };
        let rules: Vec<&str> = masked.rules.iter().map(|rule| &**rule).collect();
        self.handle.record_access(AccessRecord {
            plugin: self.origin.as_str().into(),
            reached: Reached::Secret,
            target: what.to_owned(),
            outcome: AccessOutcome::Masked,
            reason: Some(rules.join(", ")),
            origin: Origin {
                agent: "main".into(),
                turn: 0,
                step: 0,
                point: None,
                call_id: None,
            },
        });
        fetched.text = masked.text;
        fetched
    }
}
