//! Implements tools of the host that call exported functions of a component.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use wasmtime::component::Val;

use super::super::instance::ReusableInstanceSlot;
use super::super::sanitize::GuestTextSanitizer;
use super::super::tools::run_guest_tool;
use super::functions::ComponentFunction;
use super::results::convert_call_results;
use crate::message::ToolSpec;
use crate::point::failure::Failure;
use crate::tool::{FileChangeTrackingMethod, Tool, ToolCtx, ToolOutput};

/// Tool that calls an exported function of a component in a session.
pub(in super::super) struct ComponentFunctionTool {
    pub(in super::super) spec: ToolSpec,
    pub(in super::super) function: Arc<ComponentFunction>,
    pub(in super::super) slot: Arc<ReusableInstanceSlot>,
    pub(in super::super) deadline: Duration,
    /// Permissions of the component, as text for display.
    pub(in super::super) may: Arc<[String]>,
    /// Method by which the host detects the files that the component changes.
    pub(in super::super) tracking: FileChangeTrackingMethod,
}

impl Tool for ComponentFunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plugin_permission_texts(&self) -> Arc<[String]> {
        self.may.clone()
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        self.tracking
    }

    fn run<'a>(&'a self, arguments: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        let name = format!("`{}`", self.spec.name);
        Box::pin(async move {
            run_guest_tool(&name, self.deadline, ctx, self.call_guest(&arguments, ctx)).await
        })
    }
}

impl ComponentFunctionTool {
    async fn call_guest(&self, arguments: &Value, ctx: &ToolCtx) -> Result<ToolOutput, Failure> {
        let parameters = match self.function.convert_arguments(arguments) {
            Ok(parameters) => parameters,
            Err(why) => return Ok(ToolOutput::from_error_content(why)),
        };
        let mut busy = self.slot.acquire_instance(&ctx.caller).await?;
        let instance = &mut busy.instance;
        let found = instance
            .whole
            .get_func(&mut instance.store, &self.function.index);
        let Some(function) = found else {
            return Err(Failure::Unavailable(
                "the instance lacks the function".to_owned(),
            ));
        };
        let mut results = vec![Val::Bool(false); self.function.results.len()];
        let called = function
            .call_async(&mut instance.store, &parameters, &mut results)
            .await;
        busy.finish_guest_call(called)?;
        let sanitizer =
            GuestTextSanitizer::new(self.slot.shared_plugin_state(), &ctx.caller, "tool");
        Ok(convert_call_results(results, sanitizer))
    }
}
