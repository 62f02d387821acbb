//! Lets a plugin ask a model: one request without tools, outside the conversation.

use super::{PluginCalls, check_text, turn_interrupted_error};
use crate::agent::budget::LimitedHostCall;
use crate::agent::handle::to_handle_error;
use crate::agent::request::{ModelRequestSender, NoAnswerReason};
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::handle::{HandleError, ModelQuestion, ModelReply};
use crate::point::payload::Purpose;
use crate::provider::{Finish, Request, Response, SystemBlock};
use crate::session::Body;

/// Maximum number of tokens of one answer. Longer answers occur only in conversations.
const MAX_ANSWER_TOKENS: u32 = 32_000;

/// Maximum length of a model's name, in bytes.
const MAX_MODEL_BYTES: usize = 128;

impl PluginCalls<'_> {
    /// Asks the session's model, or the model of the same provider that the question names.
    pub(in crate::agent) async fn ask_model(
        &self,
        question: ModelQuestion,
        caller: Caller,
    ) -> Result<ModelReply, HandleError> {
        let model = question.model.as_deref().unwrap_or(&self.scope.spec.model);
        let target = format!("model {model}");
        let access = self.begin_access(&caller, &target);
        let model = model.to_owned();
        access.end_access(self.ask(question, model, caller).await)
    }

    async fn ask(
        &self,
        question: ModelQuestion,
        model: String,
        mut caller: Caller,
    ) -> Result<ModelReply, HandleError> {
        check_text("the prompt", &question.prompt)?;
        let has_system = !question.system.trim().is_empty();
        if has_system {
            check_text("the system prompt", &question.system)?;
        }
        if model.is_empty() || model.len() > MAX_MODEL_BYTES || model.contains(char::is_control) {
            return Err(HandleError::InvalidInput(format!(
                "the name of a model must have 1 to {MAX_MODEL_BYTES} bytes and no control characters"
            )));
        }
        self.admit_call(LimitedHostCall::Model, &mut caller)?;
        let mut system = vec![SystemBlock::new(question.system, false)];
        system.retain(|_| has_system);
        let request = Request {
            model,
            system,
            messages: vec![Message::text(Role::User, question.prompt)],
            max_tokens: Some(question.max_tokens.clamp(1, MAX_ANSWER_TOKENS)),
            ..Request::default()
        };
        let (turn, step) = (caller.context.turn, caller.context.step);
        let kept = |request: &Request, response: &Response| Body::Asked {
            plugin: self.plugin.to_string(),
            turn,
            step,
            model: request.model.clone(),
            usage: response.usage,
            cost_usd: response.cost_usd,
            latency_ms: response.latency_ms,
        };
        let purpose = Purpose::Plugin(self.plugin.to_string());
        let answer = ModelRequestSender::new(self.scope)
            .request_outside_conversation(purpose, &caller, request, kept)
            .await;
        let response = answer.map_err(|no| match no {
            NoAnswerReason::Blocked(_) | NoAnswerReason::Spent(_) => {
                HandleError::Denied(no.to_string())
            }
            NoAnswerReason::Cancelled => turn_interrupted_error(),
            NoAnswerReason::Provider(_)
            | NoAnswerReason::TooLong(_)
            | NoAnswerReason::Mended(_) => HandleError::Failed(no.to_string()),
            NoAnswerReason::Session(error) => to_handle_error(error),
        })?;
        if response.finish == Finish::Refused {
            return Err(HandleError::Denied(
                "the provider held the answer back".to_owned(),
            ));
        }
        Ok(ModelReply {
            text: response.message.joined_text(),
            usage: response.usage,
        })
    }
}
