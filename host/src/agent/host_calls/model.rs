//! Lets a plugin ask a model: one request without tools, outside the conversation.

use super::{PluginHostCallExecutor, check_question_or_task_length, turn_interrupted_error};
use crate::agent::budget::LimitedHostCallKind;
use crate::agent::handle::session_error_for_plugin;
use crate::agent::request::{ModelRequestSender, NoModelAnswerReason};
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::handle::{HostFunctionError, PluginModelReply, PluginModelRequest};
use crate::point::payload::Purpose;
use crate::provider::{Finish, Request, Response, SystemPromptBlock};
use crate::session::Body;

/// Maximum number of tokens of one answer. Longer answers occur only in conversations.
const MAX_MODEL_ANSWER_TOKENS: u32 = 32_000;

/// Maximum length of a model's name, in bytes.
const MAX_MODEL_NAME_BYTES: usize = 128;

impl PluginHostCallExecutor<'_> {
    /// Asks the session's model, or the model of the same provider that the question names.
    pub(in crate::agent) async fn ask_model(
        &self,
        question: PluginModelRequest,
        caller: Caller,
    ) -> Result<PluginModelReply, HostFunctionError> {
        let model = question.model.as_deref().unwrap_or(&self.scope.spec.model);
        let target = format!("model {model}");
        let access = self.begin_plugin_access_record(&caller, &target);
        let model = model.to_owned();
        access.end_access_record(self.check_and_send_question(question, model, caller).await)
    }

    async fn check_and_send_question(
        &self,
        question: PluginModelRequest,
        model: String,
        mut caller: Caller,
    ) -> Result<PluginModelReply, HostFunctionError> {
        check_question_or_task_length("the prompt", &question.prompt)?;
        let has_system = !question.system.trim().is_empty();
        if has_system {
            check_question_or_task_length("the system prompt", &question.system)?;
        }
        if model.is_empty()
            || model.len() > MAX_MODEL_NAME_BYTES
            || model.contains(char::is_control)
        {
            return Err(HostFunctionError::InvalidInput(format!(
                "the name of a model must have 1 to {MAX_MODEL_NAME_BYTES} bytes and no control characters"
            )));
        }
        self.admit_call(LimitedHostCallKind::Model, &mut caller)?;
        let mut system = vec![SystemPromptBlock::new(question.system, false)];
        system.retain(|_| has_system);
        let request = Request {
            model,
            system,
            messages: vec![Message::text(Role::User, question.prompt)],
            max_tokens: Some(question.max_tokens.clamp(1, MAX_MODEL_ANSWER_TOKENS)),
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
            NoModelAnswerReason::Blocked(_) | NoModelAnswerReason::Spent(_) => {
                HostFunctionError::Denied(no.to_string())
            }
            NoModelAnswerReason::Cancelled => turn_interrupted_error(),
            NoModelAnswerReason::Provider(_)
            | NoModelAnswerReason::TooLong(_)
            | NoModelAnswerReason::Mended(_) => HostFunctionError::Failed(no.to_string()),
            NoModelAnswerReason::Session(error) => session_error_for_plugin(error),
        })?;
        if response.finish == Finish::Refused {
            return Err(HostFunctionError::Denied(
                "the provider held the answer back".to_owned(),
            ));
        }
        Ok(PluginModelReply {
            text: response.message.joined_text(),
            usage: response.usage,
        })
    }
}
