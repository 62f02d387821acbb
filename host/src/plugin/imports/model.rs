//! `rind:plugin/model`: asking a model. Linked only where it was granted.

use super::super::bindings::rind::plugin::{model, types};
use super::super::convert;
use super::super::host::HostState;
use super::super::sanitize::Sanitizer;
use crate::point::handle::ModelQuestion;

impl model::Host for HostState {
    async fn ask(
        &mut self,
        question: model::Question,
    ) -> wasmtime::Result<Result<model::Reply, types::Error>> {
        let backing = self.backing.clone();
        let caller = self.call.caller.caused_by(&backing.plugin);
        let sanitizer = Sanitizer::of(self, "model");
        let question = ModelQuestion {
            system: sanitizer.text("system prompt", question.system),
            prompt: sanitizer.text("prompt", question.prompt),
            model: question.model,
            max_tokens: question.max_tokens,
        };
        let reply = backing
            .handle
            .ask_model(&backing.plugin, question, caller)
            .await;
        let reply = reply.map(|reply| model::Reply {
            text: reply.text,
            usage: convert::usage(reply.usage),
        });
        Ok(reply.map_err(Into::into))
    }
}
