//! Wraps tools that do not come from the host or a plugin, such as those of MCP servers. The host
//! trusts them no more than tools of plugins.
//!
//! Secrets in the output of these tools are masked as in the output of a plugin. Start from
//! [`SecretMaskingExternalTool`].

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::subject::Subject;
use super::{
    FileChangeTrackingMethod, InterruptedCallRepetitionRule, ProposedFileChange, SharedTool, Tool,
    ToolCtx, ToolOutput,
};
use crate::json;
use crate::message::{Part, ToolSpec};
use crate::point::handle::AgentHandle;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::secret::{SecretScanner, mask_secrets_in_json, run_blocking_scan};

/// Tool from a layer outside of this library, such as a tool of an MCP server, in one session.
/// Masks secrets in the tool's output.
pub struct SecretMaskingExternalTool {
    tool: SharedTool,
    handle: Arc<dyn AgentHandle>,
}

impl SecretMaskingExternalTool {
    /// Wraps a tool. Each result in which secrets are masked is reported to `handle`.
    #[must_use]
    pub fn wrap(tool: SharedTool, handle: Arc<dyn AgentHandle>) -> SharedTool {
        Arc::new(Self { tool, handle })
    }

    /// Masks secrets in the texts of a tool's result.
    fn mask_output(&self, output: &mut ToolOutput, ctx: &ToolCtx) {
        let mut rules: BTreeSet<Arc<str>> = BTreeSet::new();
        for part in output.content.iter_mut() {
            match part {
                Part::Text { text } => {
                    let masked = run_blocking_scan(text.len(), || {
                        SecretScanner::shared().mask_secrets(text)
                    });
                    if let Some(masked) = masked {
                        *text = masked.text;
                        rules.extend(masked.rules);
                    }
                }
                Part::Json { value } => {
                    let bytes = json::iter_all_values(value)
                        .filter_map(Value::as_str)
                        .map(str::len);
                    run_blocking_scan(bytes.sum(), || mask_secrets_in_json(value, &mut rules));
                }
                Part::Blob(_) => {}
            }
        }
        if rules.is_empty() {
            return;
        }
        let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
        let plugin = self.tool.spec().plugin.as_deref().unwrap_or_default();
        self.handle.record_access(AccessRecord {
            plugin: plugin.into(),
            reached: Reached::Secret,
            target: "tool result".to_owned(),
            outcome: AccessOutcome::Masked,
            reason: Some(rules.join(", ")),
            origin: ctx.caller.action_origin(),
        });
    }
}

impl Tool for SecretMaskingExternalTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.tool.plugin_permission_texts()
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        self.tool.file_change_tracking_method()
    }

    fn interrupted_call_repetition_rule(&self) -> InterruptedCallRepetitionRule {
        self.tool.interrupted_call_repetition_rule()
    }

    fn resolve_call_subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        self.tool.resolve_call_subject(arguments)
    }

    fn describe_call_target<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Option<String>> {
        self.tool.describe_call_target(arguments)
    }

    fn preview_file_change<'a>(
        &'a self,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Option<ProposedFileChange>> {
        self.tool.preview_file_change(arguments)
    }

    fn predict_refusal_reason<'a>(
        &'a self,
        arguments: &'a Value,
        ctx: &'a ToolCtx,
    ) -> BoxFuture<'a, Option<String>> {
        self.tool.predict_refusal_reason(arguments, ctx)
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let mut output = self.tool.run(arguments, ctx).await;
            self.mask_output(&mut output, ctx);
            output
        })
    }
}
