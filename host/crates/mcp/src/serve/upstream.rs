//! Prompts and resources of MCP servers that are passed on to clients.
//!
//! A list shows what the servers list, without judging it. Getting a prompt or reading a resource is a
//! call in the session of the client, with hooks, policy and approval. Start from
//! [`ServerEnd::read_upstream`].

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::model::{
    ErrorCode, GetPromptRequestParams, GetPromptResponse, JsonObject, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use super::calls::{ClientAnswer, ClientCall};
use super::handler::ServerEnd;
use super::prompts::PromptSource;
use crate::names::{MaterialKind, material_tool, origin_of};
use crate::resource::fits_template;
use crate::shape::{prompt_result, resource_result};
use rind_lib::host::{ListedResource, OutsideResult};
use rind_lib::secret::Scanner;
use rind_lib::text::clean_line;

/// Maximum size of the texts of all listed resources, in bytes.
const MAX_LISTED_BYTES: usize = 4 << 20;

/// Longest quoted address, in bytes.
const MAX_QUOTED_BYTES: usize = 200;

/// A resource or template, and the server that lists it.
struct UpstreamResource {
    server: String,
    listed: ListedResource,
}

impl ServerEnd {
    /// Lists the resources and templates of all servers. One that does not answer costs only its own.
    async fn list_upstream(&self) -> Result<Vec<UpstreamResource>, ErrorData> {
        let upstream = self.upstream();
        if upstream.is_empty() {
            return Ok(Vec::new());
        }
        let materials = self.session().await?.materials;
        let (mut all, mut n_bytes) = (Vec::new(), 0_usize);
        for server in upstream {
            let listed = match materials.list_resources(&origin_of(server)).await {
                Ok(listed) => listed,
                Err(why) => {
                    tracing::warn!(
                        "the resources of the MCP server `{server}` are not listed: it {why}"
                    );
                    continue;
                }
            };
            for own in listed {
                let template = own.template.as_ref().map_or(0, String::len);
                n_bytes += own.uri.len() + own.name.len() + own.description.len() + template;
                if n_bytes > MAX_LISTED_BYTES {
                    tracing::warn!(
                        "the resources of MCP servers take more than {} MiB in a list; those of `{server}` are not all listed",
                        MAX_LISTED_BYTES >> 20
                    );
                    return Ok(all);
                }
                all.push(UpstreamResource {
                    server: server.clone(),
                    listed: own,
                });
            }
        }
        Ok(all)
    }

    /// Returns the resources of servers, for a list. An address of two servers is nobody's.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_resources(&self) -> Result<Vec<Resource>, ErrorData> {
        let mut n_by_uri: BTreeMap<String, u32> = BTreeMap::new();
        let all = self.list_upstream().await?.into_iter();
        let all: Vec<ListedResource> = all
            .map(|own| own.listed)
            .filter(|own| own.template.is_none() && is_clean(&own.uri))
            .collect();
        for own in &all {
            *n_by_uri.entry(own.uri.clone()).or_default() += 1;
        }
        let own = all
            .into_iter()
            .filter(|own| n_by_uri.get(&own.uri) == Some(&1));
        Ok(own.map(describe_resource).collect())
    }

    /// Returns the templates of servers, for a list.
    ///
    /// # Errors
    /// No session can be opened.
    pub(super) async fn upstream_templates(&self) -> Result<Vec<ResourceTemplate>, ErrorData> {
        let all = self.list_upstream().await?.into_iter();
        let templates = all.filter_map(|own| {
            let template = own.listed.template.filter(|own| is_clean(own))?;
            let mut described = ResourceTemplate::new(template, masked(&own.listed.name))
                .with_description(masked(&own.listed.description));
            described.mime_type = own.listed.media_type;
            Some(described)
        });
        Ok(templates.collect())
    }

    /// Reads a resource of the server that lists it, by a call in the session of the client.
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

    /// Gets a prompt of a server, by a call in the session of the client.
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

    /// Returns the one server that lists an address, or else a template that it fits.
    async fn server_of(&self, uri: &str) -> Result<String, ErrorData> {
        let all = self.list_upstream().await?;
        let lists = |own: &&UpstreamResource| match &own.listed.template {
            None => own.listed.uri == uri,
            Some(_) => false,
        };
        let fits = |own: &&UpstreamResource| {
            let template = own.listed.template.as_ref();
            template.is_some_and(|template| fits_template(template, uri))
        };
        let mut servers: Vec<&String> = all.iter().filter(lists).map(|own| &own.server).collect();
        if servers.is_empty() {
            servers = all.iter().filter(fits).map(|own| &own.server).collect();
        }
        servers.dedup();
        match servers.as_slice() {
            [server] => Ok((*server).clone()),
            [] => Err(missing_resource(uri)),
            [first, second, ..] => {
                let uri = clean_line(uri, MAX_QUOTED_BYTES);
                let text = format!(
                    "the MCP servers `{first}` and `{second}` both have `{uri}`; pass on one of them only"
                );
                Err(ErrorData::invalid_params(text, None))
            }
        }
    }
}

/// Returns the error about an address that nobody lists.
pub(super) fn missing_resource(uri: &str) -> ErrorData {
    let text = "there is no such resource; `resources/list` lists those that there are";
    ErrorData::resource_not_found(text, Some(json!({"uri": uri})))
}

fn describe_resource(own: ListedResource) -> Resource {
    let mut described =
        Resource::new(own.uri, masked(&own.name)).with_description(masked(&own.description));
    described.mime_type = own.media_type;
    described
}

/// Returns the result of a call that ran.
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

/// Whether an address holds no secret. One that does could not be asked for masked.
fn is_clean(address: &str) -> bool {
    Scanner::shared().scan(address).is_empty()
}
