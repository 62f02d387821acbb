//! `rind:plugin/agent-turn`: the operations (primitives) with which an agent loop runs a turn.
//! Linked only if granted.

use super::super::bindings::rind::plugin::agent_turn as wit;
use super::super::convert::tool_call_to_wit;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::agent_loop::{
    AgentLoopModelAnswer, AgentLoopModelRequest, ProcessedTurnInput, TurnFinishResult,
    TurnOperationReplySender, TurnOperationRequest, check_added_text_size,
};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HostFunctionError;

/// Name of the contract's interface that this module implements.
const AGENT_TURN_INTERFACE_NAME: &str = "agent-turn";

/// Maximum length in bytes of the name of a model or of a preset.
const MAX_MODEL_OR_PRESET_NAME_BYTES: usize = 128;

impl wit::Host for HostState {
    async fn is_resumed(&mut self) -> Result<bool, HostFunctionError> {
        request_turn_operation(self, TurnOperationRequest::IsResumed).await
    }

    async fn take_input(&mut self) -> Result<Option<wit::TakenInput>, HostFunctionError> {
        let taken = request_turn_operation(self, TurnOperationRequest::TakeInput).await?;
        Ok(taken.map(taken_input_to_wit))
    }

    async fn build_prompt(&mut self) -> Result<(), HostFunctionError> {
        request_turn_operation(self, TurnOperationRequest::BuildPrompt).await
    }

    async fn request(
        &mut self,
        order: wit::RequestOrder,
    ) -> Result<wit::ModelAnswer, HostFunctionError> {
        check_model_or_preset_name("model", order.model.as_deref())?;
        check_model_or_preset_name("preset", order.preset.as_deref())?;
        // Check the size first: the time of the scan for secrets grows with the length of the text.
        if let Some(note) = &order.note {
            check_added_text_size("note", note.len())?;
        }
        let sanitizer = GuestTextSanitizer::for_current_guest_call(self, AGENT_TURN_INTERFACE_NAME);
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

    async fn accept(&mut self, id: u32) -> Result<(), HostFunctionError> {
        request_turn_operation(self, |reply| TurnOperationRequest::Accept(id, reply)).await
    }

    async fn run_calls(&mut self) -> Result<Vec<wit::CallReport>, HostFunctionError> {
        let reports = request_turn_operation(self, TurnOperationRequest::RunCalls)
            .await?
            .into_iter();
        let reports = reports.map(|report| wit::CallReport {
            name: report.name,
            is_error: report.is_error,
        });
        Ok(reports.collect())
    }

    async fn inject(&mut self, text: String) -> Result<(), HostFunctionError> {
        check_added_text_size("text", text.len())?;
        let text = GuestTextSanitizer::for_current_guest_call(self, AGENT_TURN_INTERFACE_NAME)
            .text("text", text);
        request_turn_operation(self, |reply| TurnOperationRequest::Inject(text, reply)).await
    }

    async fn reflect(&mut self) -> Result<Option<String>, HostFunctionError> {
        request_turn_operation(self, TurnOperationRequest::Reflect).await
    }

    async fn finish(&mut self) -> Result<wit::TurnFinish, HostFunctionError> {
        let finish = request_turn_operation(self, TurnOperationRequest::Finish).await?;
        Ok(match finish {
            TurnFinishResult::Done => wit::TurnFinish::Done,
            TurnFinishResult::Again(why) => wit::TurnFinish::Again(why),
            TurnFinishResult::FollowUp(taken) => {
                wit::TurnFinish::FollowUp(taken_input_to_wit(taken))
            }
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
) -> Result<T, HostFunctionError> {
    let Some(turn) = host.call.turn.clone() else {
        let place = match host.call.caller.point.as_deref() {
            Some(point) => format!("its hook on `{point}`"),
            None => "another of its functions".to_owned(),
        };
        return Err(HostFunctionError::Denied(format!(
            "only the agent loop of plugin `{}` may use `{AGENT_TURN_INTERFACE_NAME}`, but {place} used it",
            host.backing.plugin
        )));
    };
    wait_with_paused_deadline(turn.request_turn_operation(primitive)).await
}

fn check_model_or_preset_name(what: &str, name: Option<&str>) -> Result<(), HostFunctionError> {
    let is_valid = |name: &str| {
        (1..=MAX_MODEL_OR_PRESET_NAME_BYTES).contains(&name.len())
            && !name.contains(char::is_control)
    };
    match name {
        Some(name) if !is_valid(name) => Err(HostFunctionError::InvalidInput(format!(
            "the name of a {what} must have 1 to {MAX_MODEL_OR_PRESET_NAME_BYTES} bytes and no control characters"
        ))),
        _ => Ok(()),
    }
}

fn taken_input_to_wit(taken: ProcessedTurnInput) -> wit::TakenInput {
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
