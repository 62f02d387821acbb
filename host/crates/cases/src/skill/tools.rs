//! Test doubles of tools that a case uses and its host does not have.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::file::CannedTool;
use rind_lib::message::{EffectClass, ToolSpec};
use rind_lib::tool::{FileChangeTrackingMethod, Tool, ToolCtx, ToolOutput};

/// Tool in a test case that returns the same text for all arguments.
pub(crate) struct FixedResponseTool {
    spec: ToolSpec,
    result: String,
    is_error: bool,
}

impl FixedResponseTool {
    pub(crate) fn new(name: &str, canned: &CannedTool) -> Self {
        let (result, effect, is_error) = match canned {
            CannedTool::Result(text) => (text, None, false),
            CannedTool::Whole {
                result,
                effect,
                error,
            } => (result, *effect, *error),
        };
        Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: "a double with a canned result".to_owned(),
                parameters: json!({"type": "object"}),
                effect_class: effect.unwrap_or(EffectClass::Read),
                plugin: None,
            },
            result: result.clone(),
            is_error,
        }
    }
}

impl Tool for FixedResponseTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        FileChangeTrackingMethod::Unneeded
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async {
            match self.is_error {
                true => ToolOutput::from_error_content(self.result.clone()),
                false => ToolOutput::ok(self.result.clone()),
            }
        })
    }
}
