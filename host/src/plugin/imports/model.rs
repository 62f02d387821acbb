//! `rind:plugin/model`: requests to a model. Linked only if granted.

use super::super::bindings::rind::plugin::model;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::handle::{HostFunctionError, PluginModelRequest};

impl model::Host for HostState {
    async fn ask(&mut self, question: model::Question) -> Result<model::Reply, HostFunctionError> {
        let backing = self.backing.clone();
        let caller = self.call.caller.with_calling_plugin(&backing.plugin);
        let sanitizer = GuestTextSanitizer::for_current_guest_call(self, "model");
        let question = PluginModelRequest {
            system: sanitizer.text("system prompt", question.system),
            prompt: sanitizer.text("prompt", question.prompt),
            model: question.model,
            max_tokens: question.max_tokens,
        };
        let handle = &backing.handle;
        let reply = handle.ask_model(&backing.plugin, question, caller).await?;
        Ok(model::Reply {
            text: reply.text,
            usage: reply.usage.into(),
        })
    }
}
