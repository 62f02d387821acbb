//! Forwards the prompts and resources of MCP servers to clients.
//!
//! Lists are forwarded without policy checks. A request for a prompt or resource is a call in the
//! client's session, subject to hooks, policy and approval. Start from
//! [`McpServerRequestHandler::read_upstream_resource`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rmcp::ErrorData;
use rmcp::model::{
    ErrorCode, GetPromptRequestParams, GetPromptResponse, JsonObject, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;

use super::calls::{ClientToolCallOutcome, ClientToolCallRequest};
use super::handler::McpServerRequestHandler;
use super::prompts::ForwardedPromptSource;
use super::upstream_list::{
    ResourceUriServerLookupError, UpstreamResourceLists, UpstreamServerResourceList,
};
use crate::names::{PromptOrResourceKind, mcp_tool_source_name, prompt_or_resource_tool_name};
use crate::resource::check_resource_uri;
use crate::shape::{into_mcp_prompt_result, to_read_resource_result};
use rind_lib::host::{ClientToolCallResult, ListedResource};
use rind_lib::secret::SecretScanner;
use rind_lib::text::escape_and_truncate_line;

/// Maximum age of the cached resource lists. Older lists are requested again, also from servers
/// that failed.
const MAX_RESOURCE_LIST_CACHE_AGE: Duration = Duration::from_secs(60);

/// Maximum age of the cached resource lists if they do not contain a requested URI. Older lists are
/// requested again, because the resource may be new.
const MAX_LIST_CACHE_AGE_FOR_UNKNOWN_URI: Duration = Duration::from_secs(2);

/// Maximum length of a URI that an error message quotes, in bytes.
const MAX_QUOTED_URI_BYTES: usize = 200;

/// Cache of the resource lists of a session's MCP servers. Clones share the cache.
#[derive(Clone, Default)]
pub(super) struct UpstreamResourceListCache(
    Arc<AsyncMutex<Option<TimestampedUpstreamResourceLists>>>,
);

/// Lists of the resources and templates of all servers, with the time at which they were read.
type TimestampedUpstreamResourceLists = (Instant, Arc<UpstreamResourceLists>);

impl McpServerRequestHandler {
    /// Lists the resources and templates of all servers concurrently, unless the last lists are
    /// younger than `max_age`. If a server fails, only its own list is missing.
    async fn list_upstream_resources_and_templates(
        &self,
        max_age: Duration,
    ) -> Result<Arc<UpstreamResourceLists>, ErrorData> {
        let upstream = self.forwarded_server_names();
        if upstream.is_empty() {
            return Ok(Arc::default());
        }
        let session = self.first_or_new_session().await?;
        let mut last = session.resources.0.lock().await;
        if let Some((at, lists)) = &*last
            && at.elapsed() < max_age
        {
            return Ok(lists.clone());
        }
        let listed = upstream.iter().map(async |server| {
            let listed = session
                .materials
                .list_resources(&mcp_tool_source_name(server))
                .await;
            if let Err(why) = &listed {
                tracing::warn!(
                    "the resources of the MCP server `{server}` are not listed: it {why}"
                );
            }
            UpstreamServerResourceList {
                server: server.clone(),
                listed,
            }
        });
        let lists = Arc::new(UpstreamResourceLists::new(join_all(listed).await));
        *last = Some((Instant::now(), lists.clone()));
        Ok(lists)
    }

    /// Returns the resources of all servers, for the answer to a client that lists resources.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_resources(&self) -> Result<Vec<Resource>, ErrorData> {
        let lists = self
            .list_upstream_resources_and_templates(MAX_RESOURCE_LIST_CACHE_AGE)
            .await?;
        let shown = lists.resources_for_clients().into_iter();
        Ok(shown.map(to_mcp_resource).collect())
    }

    /// Returns the templates of all servers, for the answer to a client that lists templates.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_resource_templates(
        &self,
    ) -> Result<Vec<ResourceTemplate>, ErrorData> {
        let lists = self
            .list_upstream_resources_and_templates(MAX_RESOURCE_LIST_CACHE_AGE)
            .await?;
        let shown = lists.templates_for_clients().into_iter();
        Ok(shown.filter_map(to_mcp_resource_template).collect())
    }

    /// Reads a resource from the server that lists it, with a call in the client's session.
    ///
    /// # Errors
    /// No server or more than one lists it, or the call is refused or fails.
    pub(super) async fn read_upstream_resource(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let server = self.find_server_of_resource_uri(&uri).await?;
        let call = ClientToolCallRequest {
            tool: prompt_or_resource_tool_name(&server, PromptOrResourceKind::Resource),
            arguments: into_json_object(json!({"uri": uri.clone()})),
            state: request.request_state,
            responses: request.input_responses.unwrap_or_default(),
        };
        match self.start_or_resume_call(call, context).await? {
            ClientToolCallOutcome::Asked(asked) => Ok(asked.into()),
            ClientToolCallOutcome::Ended(result) => {
                Ok(to_read_resource_result(&uri, require_successful_call(result)?).into())
            }
        }
    }

    /// Fetches a prompt from an MCP server for the client. The fetch is a call in the client's
    /// session, with hooks and approval.
    ///
    /// # Errors
    /// The call is refused or fails.
    pub(super) async fn get_upstream_prompt(
        &self,
        source: &ForwardedPromptSource,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let call = ClientToolCallRequest {
            tool: prompt_or_resource_tool_name(&source.server, PromptOrResourceKind::Prompt),
            arguments: into_json_object(json!({"name": source.prompt, "arguments": given})),
            state: request.request_state,
            responses: request.input_responses.unwrap_or_default(),
        };
        match self.start_or_resume_call(call, context).await? {
            ClientToolCallOutcome::Asked(asked) => Ok(asked.into()),
            ClientToolCallOutcome::Ended(result) => {
                Ok(into_mcp_prompt_result(require_successful_call(result)?).into())
            }
        }
    }

    /// Returns the name of the only MCP server that lists a URI, or a template that matches the
    /// URI.
    async fn find_server_of_resource_uri(&self, uri: &str) -> Result<String, ErrorData> {
        if let Err(why) = check_resource_uri(uri) {
            let text = format!("there is no such resource: the address {why}");
            return Err(ErrorData::resource_not_found(
                text,
                Some(json!({"uri": uri})),
            ));
        }
        let mut lists = self
            .list_upstream_resources_and_templates(MAX_RESOURCE_LIST_CACHE_AGE)
            .await?;
        if lists.server_that_lists_uri(uri) == Err(ResourceUriServerLookupError::Nobody) {
            lists = self
                .list_upstream_resources_and_templates(MAX_LIST_CACHE_AGE_FOR_UNKNOWN_URI)
                .await?;
        }
        let quoted = || escape_and_truncate_line(uri, MAX_QUOTED_URI_BYTES);
        match lists.server_that_lists_uri(uri) {
            Ok(server) => Ok(server.to_owned()),
            Err(ResourceUriServerLookupError::Nobody) => Err(missing_resource_error(uri)),
            Err(ResourceUriServerLookupError::Several(first, second)) => {
                let text = format!(
                    "the MCP servers `{first}` and `{second}` both have the resource `{}`; forward only one of these servers",
                    quoted()
                );
                Err(ErrorData::invalid_params(text, None))
            }
            Err(ResourceUriServerLookupError::Unknown(server, why)) => {
                let text = format!(
                    "the resource `{}` was not requested, because it may belong to the MCP server `{server}`, whose resources are not known: the server {why}; try again in {} s, or stop forwarding that server",
                    quoted(),
                    MAX_RESOURCE_LIST_CACHE_AGE.as_secs()
                );
                Err(ErrorData::new(ErrorCode::INVALID_REQUEST, text, None))
            }
        }
    }
}

/// Returns the error for a URI that no server lists.
pub(super) fn missing_resource_error(uri: &str) -> ErrorData {
    let text = "there is no such resource; `resources/list` lists the available resources";
    ErrorData::resource_not_found(text, Some(json!({"uri": uri})))
}

fn to_mcp_resource(own: &ListedResource) -> Resource {
    let mut described = Resource::new(own.uri.clone(), mask_secrets(&own.name))
        .with_description(mask_secrets(&own.description));
    described.mime_type.clone_from(&own.media_type);
    described
}

fn to_mcp_resource_template(own: &ListedResource) -> Option<ResourceTemplate> {
    let mut described = ResourceTemplate::new(own.template.clone()?, mask_secrets(&own.name))
        .with_description(mask_secrets(&own.description));
    described.mime_type.clone_from(&own.media_type);
    Some(described)
}

/// Returns the result of a successful call. Converts a failed call to an error with the result's
/// text.
fn require_successful_call(
    result: ClientToolCallResult,
) -> Result<ClientToolCallResult, ErrorData> {
    match result.is_error {
        false => Ok(result),
        true => {
            let why = result.content.text().into_owned();
            Err(ErrorData::new(ErrorCode::INVALID_REQUEST, why, None))
        }
    }
}

fn into_json_object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn mask_secrets(text: &str) -> String {
    SecretScanner::shared().to_masked_text(text).into_owned()
}
