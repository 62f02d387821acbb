//! `rind:plugin/turns`: turns that a loop runs. Linked only if granted.

use std::time::Duration;

use super::super::bindings::rind::plugin::turns;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::HostFunctionError;
use crate::point::loop_handle::{
    LoopHostFunctions, LoopTurnReport, LoopTurnRequest, TurnSessionSelector,
};
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::escape_and_truncate_line;

/// Maximum length in bytes of the target and of the reason of an access record.
const MAX_ACCESS_RECORD_TEXT_BYTES: usize = 256;

impl turns::Host for HostState {
    async fn run(
        &mut self,
        order: turns::TurnOrder,
    ) -> Result<turns::TurnReport, HostFunctionError> {
        let handle = self.current_loop_handle("turns")?;
        let session = start_loop_turn(self, &*handle, order).await?;
        let ended = wait_with_paused_deadline(handle.finish_turn(&session, None)).await?;
        let report =
            ended.ok_or_else(|| HostFunctionError::Failed("the turn has no report".to_owned()));
        report.map(convert_turn_report)
    }

    async fn start(&mut self, order: turns::TurnOrder) -> Result<String, HostFunctionError> {
        let handle = self.current_loop_handle("turns")?;
        start_loop_turn(self, &*handle, order).await
    }

    async fn finish(
        &mut self,
        session: String,
        timeout_ms: u64,
    ) -> Result<Option<turns::TurnReport>, HostFunctionError> {
        let handle = self.current_loop_handle("turns")?;
        let limit = Duration::from_millis(timeout_ms);
        let ended = wait_with_paused_deadline(handle.finish_turn(&session, Some(limit))).await?;
        Ok(ended.map(convert_turn_report))
    }

    async fn steer(&mut self, session: String, text: String) -> Result<(), HostFunctionError> {
        let handle = self.current_loop_handle("turns")?;
        let text = GuestTextSanitizer::for_current_guest_call(self, "turns").text("text", text);
        handle.steer_turn(&session, text).await
    }

    async fn stop(&mut self, session: String) -> Result<bool, HostFunctionError> {
        Ok(self.current_loop_handle("turns")?.stop_turn(&session))
    }

    async fn running(&mut self) -> Result<Vec<String>, HostFunctionError> {
        Ok(self.current_loop_handle("turns")?.running_turns())
    }
}

/// Starts a turn, and records the start or the reason why the turn was refused or failed.
async fn start_loop_turn(
    host: &mut HostState,
    handle: &dyn LoopHostFunctions,
    order: turns::TurnOrder,
) -> Result<String, HostFunctionError> {
    let order = LoopTurnRequest {
        input: GuestTextSanitizer::for_current_guest_call(host, "turns").text("input", order.input),
        session: match order.session {
            turns::TurnSession::Fresh => TurnSessionSelector::Fresh,
            turns::TurnSession::Named(name) => TurnSessionSelector::Named(name),
            turns::TurnSession::Existing(id) => TurnSessionSelector::Existing(id),
        },
        model: order.model,
        preset: order.preset,
        input_id: order.input_id,
        max_cost_usd: order.max_cost_usd,
    };
    let named = match &order.session {
        TurnSessionSelector::Fresh => "a new session".to_owned(),
        TurnSessionSelector::Named(name) => format!("its session {name}"),
        TurnSessionSelector::Existing(id) => format!("session {id}"),
    };
    let started = wait_with_paused_deadline(handle.start_turn(order)).await;
    let (outcome, reason) = match &started {
        Ok(_) => (AccessOutcome::Done, None),
        Err(error @ (HostFunctionError::Denied(_) | HostFunctionError::Limit(_))) => {
            (AccessOutcome::Denied, Some(error.to_string()))
        }
        Err(error) => (AccessOutcome::Failed, Some(error.to_string())),
    };
    host.backing.handle.record_access(AccessRecord {
        plugin: host.backing.plugin.clone(),
        reached: Reached::External,
        target: escape_and_truncate_line(&format!("turn in {named}"), MAX_ACCESS_RECORD_TEXT_BYTES),
        outcome,
        reason: reason
            .map(|reason| escape_and_truncate_line(&reason, MAX_ACCESS_RECORD_TEXT_BYTES)),
        origin: host.call.caller.action_origin(),
    });
    started
}

fn convert_turn_report(report: LoopTurnReport) -> turns::TurnReport {
    turns::TurnReport {
        session: report.session,
        turn: report.turn,
        state: report.state.to_owned(),
        answer: report.answer,
        steps: report.steps,
        tool_calls: report.tool_calls,
        cost_usd: report.cost_usd,
        unpriced_tokens: report.unpriced_tokens,
    }
}
