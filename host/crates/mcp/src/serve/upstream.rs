//! Prompts and resources of MCP servers, passed on to clients.
//!
//! Lists are passed on without policy checks. Getting a prompt or reading a resource is a call in
//! the client's session, with hooks, policy and approval. Start from [`ServerEnd::read_upstream`].

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

use super::calls::{ClientAnswer, ClientCall};
use super::handler::ServerEnd;
use super::prompts::PromptSource;
use super::upstream_list::{NoOwner, ServerList, UpstreamLists};
use crate::names::{MaterialKind, material_tool, origin_of};
use crate::resource::check_uri;
use crate::shape::{prompt_result, resource_result};
use rind_lib::host::{ListedResource, OutsideResult};
use rind_lib::secret::Scanner;
use rind_lib::text::clean_line;

/// Age of the lists after which the servers list their resources again. Until then, a server that
/// failed is not asked again either.
const MAX_LISTED_AGE: Duration = Duration::from_secs(60);

/// Age of the lists after which the servers list their resources again if no server lists a
/// requested URI, because the resource may be new.
const MIN_LISTED_AGE: Duration = Duration::from_secs(2);

/// Maximum length of a quoted URI, in bytes.
const MAX_QUOTED_BYTES: usize = 200;

/// Last lists of the resources of a session's MCP servers. Clones share the data.
#[derive(Clone, Default)]
pub(super) struct ListedUpstream(Arc<AsyncMutex<Option<DatedLists>>>);

/// Lists of all servers, with the time at which they were read.
type DatedLists = (Instant, Arc<UpstreamLists>);

impl ServerEnd {
    /// Lists the resources and templates of all servers concurrently, unless the last lists are
    /// younger than `max_age`. If a server fails, only its own list is missing.
    async fn list_upstream(&self, max_age: Duration) -> Result<Arc<UpstreamLists>, ErrorData> {
        let upstream = self.upstream();
        if upstream.is_empty() {
            return Ok(Arc::default());
        }
        let session = self.session().await?;
        let mut last = session.resources.0.lock().await;
        if let Some((at, lists)) = &*last
            && at.elapsed() < max_age
        {
            return Ok(lists.clone());
        }
        let listed = upstream.iter().map(async |server| {
            let listed = session.materials.list_resources(&origin_of(server)).await;
            if let Err(why) = &listed {
                tracing::warn!(
                    "the resources of the MCP server `{server}` are not listed: it {why}"
                );
            }
            ServerList {
                server: server.clone(),
                listed,
            }
        });
        let lists = Arc::new(UpstreamLists::new(join_all(listed).await));
        *last = Some((Instant::now(), lists.clone()));
        Ok(lists)
    }

    /// Returns the servers' resources for a list of resources.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_resources(&self) -> Result<Vec<Resource>, ErrorData> {
        let lists = self.list_upstream(MAX_LISTED_AGE).await?;
        let shown = lists.shown_resources().into_iter();
        Ok(shown.map(describe_resource).collect())
    }

    /// Returns the servers' templates for a list of templates.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_templates(&self) -> Result<Vec<ResourceTemplate>, ErrorData> {
        let lists = self.list_upstream(MAX_LISTED_AGE).await?;
        let shown = lists.shown_templates().into_iter();
        Ok(shown.filter_map(describe_template).collect())
    }

    /// Reads a resource from the server that lists it, with a call in the client's session.
    ///
    /// # Errors
    /// No server or more than one lists it, or the call is refused or fails.
    pub(super) async fn read_upstream(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let server = self.server_of(&uri).await?;
        let call = ClientCall {
            tool: material_tool(&server, MaterialKind::Resource),
            arguments: object(json!({"uri": uri.clone()})),
            state: request.request_state,
            responses: request.input_responses.unwrap_or_default(),
        };
        match self.answer_call(call, context).await? {
            ClientAnswer::Asked(asked) => Ok(asked.into()),
            ClientAnswer::Ended(result) => Ok(resource_result(&uri, succeeded(result)?).into()),
        }
    }

    /// Gets a prompt from a server, with a call in the client's session.
    ///
    /// # Errors
    /// The call is refused or fails.
    pub(super) async fn get_upstream_prompt(
        &self,
        source: &PromptSource,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let call = ClientCall {
            tool: material_tool(&source.server, MaterialKind::Prompt),
            arguments: object(json!({"name": source.prompt, "arguments": given})),
            state: request.request_state,
            responses: request.input_responses.unwrap_or_default(),
        };
        match self.answer_call(call, context).await? {
            ClientAnswer::Asked(asked) => Ok(asked.into()),
            ClientAnswer::Ended(result) => Ok(prompt_result(succeeded(result)?).into()),
        }
    }

    /// Returns the only server that lists a URI or a template that the URI matches.
    async fn server_of(&self, uri: &str) -> Result<String, ErrorData> {
        if let Err(why) = check_uri(uri) {
            let text = format!("there is no such resource: the address {why}");
            return Err(ErrorData::resource_not_found(
                text,
                Some(json!({"uri": uri})),
            ));
        }
        let mut lists = self.list_upstream(MAX_LISTED_AGE).await?;
        if lists.owner_of(uri) == Err(NoOwner::Nobody) {
            lists = self.list_upstream(MIN_LISTED_AGE).await?;
        }
        let quoted = || clean_line(uri, MAX_QUOTED_BYTES);
        match lists.owner_of(uri) {
            Ok(server) => Ok(server.to_owned()),
            Err(NoOwner::Nobody) => Err(missing_resource(uri)),
            Err(NoOwner::Several(first, second)) => {
                let text = format!(
                    "the MCP servers `{first}` and `{second}` both have `{}`; pass on one of them only",
                    quoted()
                );
                Err(ErrorData::invalid_params(text, None))
            }
            Err(NoOwner::Unknown(server, why)) => {
                let text = format!(
                    "no server is asked for `{}`, because it may be of the MCP server `{server}`, which does not list its resources: it {why}; try again in {} s, or pass that server on no more",
                    quoted(),
                    MAX_LISTED_AGE.as_secs()
                );
                Err(ErrorData::new(ErrorCode::INVALID_REQUEST, text, None))
            }
        }
    }
}

/// Returns the error for a URI that no server lists.
pub(super) fn missing_resource(uri: &str) -> ErrorData {
    let text = "there is no such resource; `resources/list` lists those that there are";
    ErrorData::resource_not_found(text, Some(json!({"uri": uri})))
}

fn describe_resource(own: &ListedResource) -> Resource {
    let mut described = Resource::new(own.uri.clone(), masked(&own.name))
        .with_description(masked(&own.description));
    described.mime_type.clone_from(&own.media_type);
    described
}

fn describe_template(own: &ListedResource) -> Option<ResourceTemplate> {
    let mut described = ResourceTemplate::new(own.template.clone()?, masked(&own.name))
        .with_description(masked(&own.description));
    described.mime_type.clone_from(&own.media_type);
    Some(described)
}

/// Returns the result of a successful call; a failed call becomes an error with the result's text.
fn succeeded(result: OutsideResult) -> Result<OutsideResult, ErrorData> {
    match result.is_error {
        false => Ok(result),
        true => {
            let why = result.content.text().into_owned();
            Err(ErrorData::new(ErrorCode::INVALID_REQUEST, why, None))
        }
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn masked(text: &str) -> String {
    Scanner::shared().masked(text).into_owned()
}
