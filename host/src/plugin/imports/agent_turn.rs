//! `rind:plugin/agent-turn`: the operations (primitives) with which an agent loop runs a turn.
//! Linked only if granted.

use super::super::bindings::rind::plugin::agent_turn as wit;
use super::super::convert::tool_call_to_wit;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use crate::point::agent_loop::{
    AgentLoopModelAnswer, AgentLoopModelRequest, TakenInput, TurnFinish, TurnOperationReplySender,
    TurnOperationRequest, check_added_text_size,
};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HandleError;

/// Name of the contract's interface that this module implements.
const AGENT_TURN_INTERFACE_NAME: &str = "agent-turn";

/// Maximum length in bytes of the name of a model or of a preset.
const MAX_MODEL_OR_PRESET_NAME_BYTES: usize = 128;

impl wit::Host for HostState {
    async fn is_resumed(&mut self) -> Result<bool, HandleError> {
        request_turn_operation(self, TurnOperationRequest::IsResumed).await
    }

    async fn take_input(&mut self) -> Result<Option<wit::TakenInput>, HandleError> {
        let taken = request_turn_operation(self, TurnOperationRequest::TakeInput).await?;
        Ok(taken.map(convert_taken_input))
    }

    async fn build_prompt(&mut self) -> Result<(), HandleError> {
        request_turn_operation(self, TurnOperationRequest::BuildPrompt).await
    }

    async fn request(&mut self, order: wit::RequestOrder) -> Result<wit::ModelAnswer, HandleError> {
        check_model_or_preset_name("model", order.model.as_deref())?;
        check_model_or_preset_name("preset", order.preset.as_deref())?;
        // Check the size first: the time of the scan for secrets grows with the length of the text.
        if let Some(note) = &order.note {
            check_added_text_size("note", note.len())?;
        }
        let sanitizer = CallSanitizer::for_current_call(self, AGENT_TURN_INTERFACE_NAME);
        let order = AgentLoopModelRequest {
            model: order.model,
            preset: order.preset,
            note: order.note.map(|note| sanitizer.text("note", note)),
            is_aside: order.aside,
        };
        let answer =
            request_turn_operation(self, |reply| TurnOperationRequest::Request(order, reply));
        answer.await.map(convert_model_answer)
    }

    async fn accept(&mut self, id: u32) -> Result<(), HandleError> {
        request_turn_operation(self, |reply| TurnOperationRequest::Accept(id, reply)).await
    }

    async fn run_calls(&mut self) -> Result<Vec<wit::CallReport>, HandleError> {
        let reports = request_turn_operation(self, TurnOperationRequest::RunCalls)
            .await?
            .into_iter();
        let reports = reports.map(|report| wit::CallReport {
            name: report.name,
            is_error: report.is_error,
        });
        Ok(reports.collect())
    }

    async fn inject(&mut self, text: String) -> Result<(), HandleError> {
        check_added_text_size("text", text.len())?;
        let text =
            CallSanitizer::for_current_call(self, AGENT_TURN_INTERFACE_NAME).text("text", text);
        request_turn_operation(self, |reply| TurnOperationRequest::Inject(text, reply)).await
    }

    async fn reflect(&mut self) -> Result<Option<String>, HandleError> {
        request_turn_operation(self, TurnOperationRequest::Reflect).await
    }

    async fn finish(&mut self) -> Result<wit::TurnFinish, HandleError> {
        let finish = request_turn_operation(self, TurnOperationRequest::Finish).await?;
        Ok(match finish {
            TurnFinish::Done => wit::TurnFinish::Done,
            TurnFinish::Again(why) => wit::TurnFinish::Again(why),
            TurnFinish::FollowUp(taken) => wit::TurnFinish::FollowUp(convert_taken_input(taken)),
        })
    }
}

/// Sends a primitive of the agent loop, such as a request to the model, to the running turn, which
/// executes it, and returns the reply. Meanwhile the deadline of the call is paused.
///
/// # Errors
/// The current call runs no turn, because a hook, a tool, a command or another loop used the
/// import.
async fn request_turn_operation<T>(
    host: &mut HostState,
    primitive: impl FnOnce(TurnOperationReplySender<T>) -> TurnOperationRequest,
) -> Result<T, HandleError> {
    let Some(turn) = host.call.turn.clone() else {
        let place = match host.call.caller.point.as_deref() {
            Some(point) => format!("its hook on `{point}`"),
            None => "another of its functions".to_owned(),
        };
        return Err(HandleError::Denied(format!(
            "only the agent loop of plugin `{}` may use `{AGENT_TURN_INTERFACE_NAME}`, but {place} used it",
            host.backing.plugin
        )));
    };
    wait_with_paused_deadline(turn.request_turn_operation(primitive)).await
}

fn check_model_or_preset_name(what: &str, name: Option<&str>) -> Result<(), HandleError> {
    let is_valid = |name: &str| {
        (1..=MAX_MODEL_OR_PRESET_NAME_BYTES).contains(&name.len())
            && !name.contains(char::is_control)
    };
    match name {
        Some(name) if !is_valid(name) => Err(HandleError::InvalidInput(format!(
            "the name of a {what} must have 1 to {MAX_MODEL_OR_PRESET_NAME_BYTES} bytes and no control characters"
        ))),
        _ => Ok(()),
    }
}

fn convert_taken_input(taken: TakenInput) -> wit::TakenInput {
    wit::TakenInput {
        text: taken.text,
        decision: taken.decision,
    }
}

fn convert_model_answer(answer: AgentLoopModelAnswer) -> wit::ModelAnswer {
    wit::ModelAnswer {
        id: answer.id,
        model: answer.model,
        text: answer.text,
        calls: answer.calls.iter().map(tool_call_to_wit).collect(),
        is_cut: answer.is_cut,
        usage: answer.usage.into(),
    }
}
