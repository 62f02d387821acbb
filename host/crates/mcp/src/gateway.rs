//! Forwards the prompts and resources of a server to clients of `rind mcp serve`.
//!
//! A call of an internal tool, which the model does not see, fetches a prompt or resource. The
//! request is therefore subject to hooks, policy, approval and masking and is recorded in the
//! session file, like a call of the server's own tools. Start from
//! [`create_prompt_and_resource_tools`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::link::SessionServerConnection;
use super::material::ServerPromptAndResourceFetcher;
use super::names::{PromptOrResourceKind, mcp_tool_source_name, prompt_or_resource_tool_name};
use super::shape::{prompt_to_tool_output, resource_to_tool_output};
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::tool::{FileChangeTrackingMethod, SharedTool, Tool, ToolCtx, ToolOutput};

/// Returns the two tools that fetch the prompts and the resources of a server.
pub(crate) fn create_prompt_and_resource_tools(
    link: &Arc<SessionServerConnection>,
) -> [SharedTool; 2] {
    [PromptOrResourceKind::Prompt, PromptOrResourceKind::Resource].map(|kind| {
        let tool: SharedTool = Arc::new(FetchServerContentTool {
            spec: prompt_or_resource_tool_spec(&link.server.name, kind),
            may: link.server.describe_permissions().into(),
            material: ServerPromptAndResourceFetcher::new(link.clone()),
            kind,
        });
        tool
    })
}

/// Internal tool that fetches prompts or resources of one server in one session.
struct FetchServerContentTool {
    material: ServerPromptAndResourceFetcher,
    kind: PromptOrResourceKind,
    spec: ToolSpec,
    may: Arc<[String]>,
}

fn prompt_or_resource_tool_spec(server: &str, kind: PromptOrResourceKind) -> ToolSpec {
    let (what, properties, required) = match kind {
        PromptOrResourceKind::Prompt => (
            "Gets a prompt",
            json!({
                "name": {"type": "string"},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            }),
            ["name"],
        ),
        PromptOrResourceKind::Resource => (
            "Reads a resource",
            json!({"uri": {"type": "string"}}),
            ["uri"],
        ),
    };
    ToolSpec {
        name: prompt_or_resource_tool_name(server, kind),
        description: format!("{what} of the MCP server {server} at the request of a client"),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        // Use the effect class of the server's tools, because the request runs code of the server.
        effect_class: EffectClass::Execute,
        plugin: Some(mcp_tool_source_name(server)),
    }
}

impl FetchServerContentTool {
    async fn fetch_server_content(&self, mut arguments: Value) -> Result<ToolOutput, String> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        match self.kind {
            PromptOrResourceKind::Resource => {
                let uri = text("uri");
                resource_to_tool_output(&uri, self.material.request_listed_resource(&uri).await?)
            }
            PromptOrResourceKind::Prompt => {
                let name = text("name");
                let given = match arguments["arguments"].take() {
                    Value::Object(given) => given,
                    _ => Map::new(),
                };
                prompt_to_tool_output(self.material.request_approved_prompt(&name, given).await?)
            }
        }
    }
}

impl Tool for FetchServerContentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        self.material.link.server.file_change_tracking_method()
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let fetched = tokio::select! {
                fetched = self.fetch_server_content(arguments) => fetched,
                () = ctx.cancel.cancelled() => return ToolOutput::from_error_content(""),
            };
            fetched.unwrap_or_else(|why| {
                let server = &self.material.link.server.name;
                ToolOutput::from_error_content(format!("MCP server `{server}`: it {why}"))
            })
        })
    }
}
