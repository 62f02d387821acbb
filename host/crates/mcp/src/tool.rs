//! Makes a tool of an MCP server a tool of the host.
//!
//! The effect class is always `execute`, whatever the server claims. Hooks, policy and approval
//! apply to the calls as for any other tool. Start from [`McpServerTool`].

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::client::McpRequestError;
use super::link::SessionServerConnection;
use super::names::{mcp_tool_source_name, qualified_tool_name};
use super::offer::OfferedTool;
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::point::caller::Caller;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::registry::MAX_TOOL_DESCRIPTION_BYTES;
use rind_lib::tool::{FileChangeTrackingMethod, Tool, ToolCtx, ToolOutput};

/// Maximum length, in bytes, of the server's claims about a tool (its MCP annotations) in an
/// approval question.
const MAX_SHOWN_TOOL_ANNOTATIONS_BYTES: usize = 160;

/// Minimum interval at which a call checks whether its timeout was extended by a question to the
/// user.
const MIN_TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Tool of an MCP server, as one session uses it.
pub(crate) struct McpServerTool {
    link: Arc<SessionServerConnection>,
    /// Name of the tool on its server.
    name: String,
    spec: ToolSpec,
    may: Arc<[String]>,
}

impl McpServerTool {
    pub(crate) fn new(link: Arc<SessionServerConnection>, tool: &OfferedTool) -> Self {
        let mut may = link.server.describe_permissions();
        if let Some(claims) = &tool.annotations {
            let claims =
                escape_and_truncate_line(&claims.to_string(), MAX_SHOWN_TOOL_ANNOTATIONS_BYTES);
            may.push(format!(
                "the server claims about this tool, unchecked by Rind: {claims}"
            ));
        }
        Self {
            spec: mcp_tool_spec(&link.server.name, tool),
            link,
            name: tool.name.clone(),
            may: may.into(),
        }
    }

    async fn call(&self, arguments: Value, caller: &Caller) -> ToolOutput {
        let server = &self.link.server.name;
        let failed = |why: String| {
            ToolOutput::from_fault_content(format!("MCP server `{server}`: it {why}"))
        };
        let connection = self.link.connect_and_check_approval().await;
        // Check after `connect_and_check_approval`, whose comparison with the approved offer
        // may have withheld this tool.
        if let Some(why) = self.link.tool_withheld_reason(&self.name) {
            return ToolOutput::from_error_content(format!(
                "not called: the tool differs from the version that the user approved ({why}). Do not try it again; tell the user"
            ));
        }
        let connection = match connection {
            Ok(connection) => connection,
            Err(why) => return failed(why),
        };
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => return ToolOutput::from_error_content("the arguments must be one JSON object"),
        };
        let called = connection.call_tool(&self.name, arguments);
        let output = match self.await_call_within_timeout(called, caller).await {
            Some(Ok(output)) => output,
            Some(Err(McpRequestError::Refused(why))) => {
                ToolOutput::from_error_content(format!("MCP server `{server}`: it {why}"))
            }
            Some(Err(McpRequestError::Ended(why))) => {
                failed(format!("{why}. The next call starts it again"))
            }
            None => failed(format!(
                "did not answer in {} s (`timeout_seconds` of its settings){}",
                self.link.server.call_timeout().as_secs(),
                connection.describe_non_message_lines()
            )),
        };
        self.link.session.show_progress("");
        output
    }

    /// Waits for a call until its timeout, which excludes time spent waiting for answers of the
    /// user. Returns `None` after the timeout.
    async fn await_call_within_timeout<T>(
        &self,
        called: impl Future<Output = T>,
        caller: &Caller,
    ) -> Option<T> {
        let questions = &self.link.questions;
        let _running = questions.register_running_tool_call(caller);
        let (begun, asked) = (Instant::now(), questions.total_user_wait_time());
        let mut called = pin!(called);
        loop {
            let asked = questions.total_user_wait_time().saturating_sub(asked);
            let spent = begun.elapsed().saturating_sub(asked);
            let left = self.link.server.call_timeout().checked_sub(spent)?;
            match tokio::time::timeout(left.max(MIN_TIMEOUT_CHECK_INTERVAL), &mut called).await {
                Ok(answered) => return Some(answered),
                Err(_) if left <= MIN_TIMEOUT_CHECK_INTERVAL => return None,
                Err(_) => {}
            }
        }
    }
}

/// Creates the host's definition of a server's tool, and truncates a long description.
fn mcp_tool_spec(server: &str, tool: &OfferedTool) -> ToolSpec {
    let mut description = tool.description.clone();
    if description.len() > MAX_TOOL_DESCRIPTION_BYTES {
        let end = description.floor_char_boundary(MAX_TOOL_DESCRIPTION_BYTES - '…'.len_utf8());
        description.truncate(end);
        description.push('…');
    }
    ToolSpec {
        name: qualified_tool_name(server, &tool.name),
        description,
        parameters: tool.input_schema.clone(),
        effect_class: EffectClass::Execute,
        plugin: Some(mcp_tool_source_name(server)),
    }
}

impl Tool for McpServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        self.link.server.file_change_tracking_method()
    }

    fn predict_refusal_reason<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolCtx,
    ) -> BoxFuture<'a, Option<String>> {
        let held = self.link.tool_withheld_reason(&self.name);
        let held = held.map(|why| format!("not called: the tool is withheld, because {why}"));
        Box::pin(std::future::ready(held))
    }

    /// Runs the tool. If the call is cancelled, dropping its future notifies the server.
    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            tokio::select! {
                output = self.call(arguments, &ctx.caller) => output,
                () = ctx.cancel.cancelled() => {
                    self.link.session.show_progress("");
                    ToolOutput::from_error_content("")
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::offer::offered_tool_for_tests;

    #[test]
    fn claims_lower_nothing_and_a_long_description_is_cut() {
        let mut tool = offered_tool_for_tests("t", &"é".repeat(MAX_TOOL_DESCRIPTION_BYTES));
        tool.annotations = Some(json!({"readOnlyHint": true}));
        let spec = mcp_tool_spec("docs", &tool);
        assert_eq!(spec.effect_class, EffectClass::Execute);
        assert_eq!(spec.plugin.as_deref(), Some("mcp:docs"));
        assert!(spec.description.len() <= MAX_TOOL_DESCRIPTION_BYTES);
        assert!(spec.description.ends_with('…'));
    }
}
