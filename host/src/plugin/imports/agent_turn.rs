//! `rind:plugin/agent-turn`: the operations (primitives) with which an agent loop runs a turn.
//! Linked only if granted.

use super::super::bindings::rind::plugin::agent_turn as wit;
use super::super::convert::convert_tool_call;
use super::super::host::HostState;
use super::super::sanitize::CallSanitizer;
use crate::point::agent_loop::{
    LoopModelRequest, PrimitiveReply, TakenInput, TurnAnswer, TurnFinish, TurnPrimitive,
    check_added_size,
};
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HandleError;

/// Name of the contract's interface that this module implements.
const IMPORT: &str = "agent-turn";

/// Maximum length in bytes of the name of a model or of a preset.
const MAX_NAME_BYTES: usize = 128;

impl wit::Host for HostState {
    async fn is_resumed(&mut self) -> Result<bool, HandleError> {
        send_turn_primitive(self, TurnPrimitive::IsResumed).await
    }

    async fn take_input(&mut self) -> Result<Option<wit::TakenInput>, HandleError> {
        let taken = send_turn_primitive(self, TurnPrimitive::TakeInput).await?;
        Ok(taken.map(convert_taken_input))
    }

    async fn build_prompt(&mut self) -> Result<(), HandleError> {
        send_turn_primitive(self, TurnPrimitive::BuildPrompt).await
    }

    async fn request(&mut self, order: wit::RequestOrder) -> Result<wit::ModelAnswer, HandleError> {
        check_model_or_preset_name("model", order.model.as_deref())?;
        check_model_or_preset_name("preset", order.preset.as_deref())?;
        // Check the size first: the time of the scan for secrets grows with the length of the text.
        if let Some(note) = &order.note {
            check_added_size("note", note.len())?;
        }
        let sanitizer = CallSanitizer::for_current_call(self, IMPORT);
        let order = LoopModelRequest {
            model: order.model,
            preset: order.preset,
            note: order.note.map(|note| sanitizer.text("note", note)),
            is_aside: order.aside,
        };
        let answer = send_turn_primitive(self, |reply| TurnPrimitive::Request(order, reply));
        answer.await.map(convert_turn_answer)
    }

    async fn accept(&mut self, id: u32) -> Result<(), HandleError> {
        send_turn_primitive(self, |reply| TurnPrimitive::Accept(id, reply)).await
    }

    async fn run_calls(&mut self) -> Result<Vec<wit::CallReport>, HandleError> {
        let reports = send_turn_primitive(self, TurnPrimitive::RunCalls)
            .await?
            .into_iter();
        let reports = reports.map(|report| wit::CallReport {
            name: report.name,
            is_error: report.is_error,
        });
        Ok(reports.collect())
    }

    async fn inject(&mut self, text: String) -> Result<(), HandleError> {
        check_added_size("text", text.len())?;
        let text = CallSanitizer::for_current_call(self, IMPORT).text("text", text);
        send_turn_primitive(self, |reply| TurnPrimitive::Inject(text, reply)).await
    }

    async fn reflect(&mut self) -> Result<Option<String>, HandleError> {
        send_turn_primitive(self, TurnPrimitive::Reflect).await
    }

    async fn finish(&mut self) -> Result<wit::TurnFinish, HandleError> {
        let finish = send_turn_primitive(self, TurnPrimitive::Finish).await?;
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
async fn send_turn_primitive<T>(
    host: &mut HostState,
    primitive: impl FnOnce(PrimitiveReply<T>) -> TurnPrimitive,
) -> Result<T, HandleError> {
    let Some(turn) = host.call.turn.clone() else {
        let place = match host.call.caller.point.as_deref() {
            Some(point) => format!("its hook on `{point}`"),
            None => "another of its functions".to_owned(),
        };
        return Err(HandleError::Denied(format!(
            "only the agent loop of plugin `{}` may use `{IMPORT}`, but {place} used it",
            host.backing.plugin
        )));
    };
    wait_with_paused_deadline(turn.request_primitive(primitive)).await
}

fn check_model_or_preset_name(what: &str, name: Option<&str>) -> Result<(), HandleError> {
    let is_valid =
        |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control);
    match name {
        Some(name) if !is_valid(name) => Err(HandleError::InvalidInput(format!(
            "the name of a {what} must have 1 to {MAX_NAME_BYTES} bytes and no control characters"
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

fn convert_turn_answer(answer: TurnAnswer) -> wit::ModelAnswer {
    wit::ModelAnswer {
        id: answer.id,
        model: answer.model,
        text: answer.text,
        calls: answer.calls.iter().map(convert_tool_call).collect(),
        is_cut: answer.is_cut,
        usage: answer.usage.into(),
    }
}
