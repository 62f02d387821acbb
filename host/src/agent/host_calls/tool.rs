//! Lets a plugin call a tool: with the same checks as a call of the model, but without a message in
//! the conversation.

use std::sync::Arc;

use serde_json::Value;

use super::PluginHostCallExecutor;
use crate::agent::budget::LimitedHostCallKind;
use crate::agent::call::ToolCallChecker;
use crate::agent::handle::session_error_for_plugin;
use crate::message::{Parts, ToolCall, ToolResult};
use crate::point::caller::Caller;
use crate::point::handle::HostFunctionError;

/// Recorded result of a call that was dropped because the plugin that made the call was stopped.
const DROPPED_CALL_RESULT: &str =
    "[dropped: the plugin that made the call was stopped before it ended]";

impl PluginHostCallExecutor<'_> {
    /// Calls a tool for a plugin. `Ok` contains the result after the `post-tool` hooks, followed by
    /// the notes of `pre-tool` and `post-tool` hooks.
    pub(in crate::agent) async fn call_tool(
        &self,
        name: String,
        arguments: Value,
        caller: Caller,
    ) -> Result<Parts, HostFunctionError> {
        let access = self.begin_plugin_access_record(&caller, &format!("tool {name}"));
        access.end_access_record(self.check_and_run_tool_call(name, arguments, caller).await)
    }

    async fn check_and_run_tool_call(
        &self,
        name: String,
        arguments: Value,
        mut caller: Caller,
    ) -> Result<Parts, HostFunctionError> {
        let tools = self.scope.skills.tools();
        let entry = tools.get(&name);
        if entry.is_some_and(|entry| entry.spec.plugin.as_deref() == Some(&**self.plugin)) {
            return Err(HostFunctionError::Denied(format!(
                "`{name}` is a tool of plugin `{}` itself, which can call its own code",
                self.plugin
            )));
        }
        self.admit_call(LimitedHostCallKind::Tool, &mut caller)?;
        self.scope.budget.count_tool_call();
        let checker = ToolCallChecker::for_plugin(self.scope, &caller, self.plugin);
        let id = format!("plugin_{}", crate::clock::new_uuid_v7());
        let call = ToolCall::new(id, name, arguments);
        let mut open = ToolCallEndGuard {
            checker,
            dropped: call.create_result(DROPPED_CALL_RESULT, true),
            has_started: false,
        };
        let mut ran = match checker.authorize_tool_call(call).await {
            Err(refused) => *refused,
            Ok(allowed) => {
                let kept = checker
                    .record_call_starts(std::slice::from_ref(&allowed))
                    .await;
                kept.map_err(session_error_for_plugin)?;
                open.has_started = true;
                checker.run_call(allowed).await
            }
        };
        let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
        let refused_by = ran.refused_by.take();
        drop(ran);
        open.has_started = false;
        let result = Arc::unwrap_or_clone(finished.value).result;
        let mut content = result.content;
        // Append the notes of hooks to the result, because they are meant for the plugin that reads
        // it.
        for (plugin, injection) in finished.inject {
            content.push_text(&format!("\n[note from {plugin}: {}]", injection.text));
        }
        if !result.is_error {
            return Ok(content);
        }
        let content = content.to_string();
        match refused_by.as_deref() {
            None => Err(HostFunctionError::Failed(content)),
            Some("host") => Err(HostFunctionError::InvalidInput(content)),
            Some(_) => Err(HostFunctionError::Denied(content)),
        }
    }
}

/// Guard of a call that may be dropped when its plugin is stopped. The guard then reports the end
/// of the call.
struct ToolCallEndGuard<'a> {
    checker: ToolCallChecker<'a>,
    /// Result that is reported if the future of the call is dropped.
    dropped: ToolResult,
    has_started: bool,
}

impl Drop for ToolCallEndGuard<'_> {
    fn drop(&mut self) {
        if self.has_started {
            self.checker.report_call_end(&self.dropped, 0, None);
        }
    }
}
