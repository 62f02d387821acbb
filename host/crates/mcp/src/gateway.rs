//! Prompts and resources of a server, passed on to clients of `rind mcp serve`.
//!
//! Each is fetched by a call of a tool that is not offered to the model. So the request passes
//! hooks, policy, approval, masking and the session file like a call of the server's own tools.
//! Start from [`material_tools`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::link::ServerLink;
use super::material::ServerMaterial;
use super::names::{MaterialKind, material_tool, origin_of};
use super::shape::{prompt_output, resource_output};
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::tool::{FileTracking, SharedTool, Tool, ToolCtx, ToolOutput};

/// Returns the two tools that fetch the prompts and the resources of a server.
pub(crate) fn material_tools(link: &Arc<ServerLink>) -> [SharedTool; 2] {
    [MaterialKind::Prompt, MaterialKind::Resource].map(|kind| {
        let tool: SharedTool = Arc::new(MaterialTool {
            spec: spec_of(&link.server.name, kind),
            may: link.server.permissions().into(),
            material: ServerMaterial::new(link.clone()),
            kind,
        });
        tool
    })
}

/// A tool that fetches prompts or resources of one server in one session.
struct MaterialTool {
    material: ServerMaterial,
    kind: MaterialKind,
    spec: ToolSpec,
    may: Arc<[String]>,
}

fn spec_of(server: &str, kind: MaterialKind) -> ToolSpec {
    let (what, properties, required) = match kind {
        MaterialKind::Prompt => (
            "Gets a prompt",
            json!({
                "name": {"type": "string"},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            }),
            ["name"],
        ),
        MaterialKind::Resource => (
            "Reads a resource",
            json!({"uri": {"type": "string"}}),
            ["uri"],
        ),
    };
    ToolSpec {
        name: material_tool(server, kind),
        description: format!("{what} of the MCP server {server}, for a client"),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        // The same class as the server's tools, because the server runs, whatever it claims about
        // effects.
        effect_class: EffectClass::Execute,
        plugin: Some(origin_of(server)),
    }
}

impl MaterialTool {
    async fn fetch(&self, mut arguments: Value) -> Result<ToolOutput, String> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        match self.kind {
            MaterialKind::Resource => {
                let uri = text("uri");
                resource_output(&uri, self.material.ask_resource(&uri).await?)
            }
            MaterialKind::Prompt => {
                let name = text("name");
                let given = match arguments["arguments"].take() {
                    Value::Object(given) => given,
                    _ => Map::new(),
                };
                prompt_output(self.material.ask_prompt(&name, given).await?)
            }
        }
    }
}

impl Tool for MaterialTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn may(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn file_tracking(&self) -> FileTracking {
        self.material.link.server.file_tracking()
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let fetched = tokio::select! {
                fetched = self.fetch(arguments) => fetched,
                () = ctx.cancel.cancelled() => return ToolOutput::error(""),
            };
            fetched.unwrap_or_else(|why| {
                let server = &self.material.link.server.name;
                ToolOutput::error(format!("MCP server `{server}`: it {why}"))
            })
        })
    }
}
