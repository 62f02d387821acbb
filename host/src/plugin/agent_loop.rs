//! Agent loop of a plugin: a guest that decides on the steps of the agent's turns in place of the
//! host's loop.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::convert;
use super::instance::ReusableInstanceSlot;
use super::sanitize::GuestTextSanitizer;
use crate::point::agent_loop::{AgentLoop, TurnOperationRequestSender};
use crate::point::caller::Caller;
use crate::point::deadline::run_call_with_deadline;
use crate::point::failure::Failure;

/// Name of the contract's interface that a component with an agent loop exports.
pub(super) const AGENT_LOOP_INTERFACE_NAME: &str = "agent-loop";

/// Loop of a plugin that orders the turns of the agent in a session.
pub(super) struct PluginAgentLoop {
    pub(super) plugin: String,
    /// Slot of the separate plugin instance that runs only the agent loop.
    pub(super) slot: Arc<ReusableInstanceSlot>,
    /// Time for which the guest may compute during one turn.
    pub(super) deadline: Duration,
}

impl AgentLoop for PluginAgentLoop {
    fn plugin(&self) -> &str {
        &self.plugin
    }

    fn run_turn(
        &self,
        caller: Caller,
        turn: TurnOperationRequestSender,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        let (slot, deadline) = (self.slot.clone(), self.deadline);
        Box::pin(async move {
            let call = pin!(call_guest_agent_loop(&slot, &caller, turn));
            run_call_with_deadline(deadline, Instant::now(), call).await
        })
    }
}

async fn call_guest_agent_loop(
    slot: &ReusableInstanceSlot,
    caller: &Caller,
    turn: TurnOperationRequestSender,
) -> Result<(), Failure> {
    let mut busy = slot.acquire_instance(caller).await?;
    let instance = &mut busy.instance;
    let run = instance.functions.run_agent_loop;
    let run = run.ok_or_else(|| {
        Failure::Unavailable(format!(
            "the plugin's instance exports no interface `{AGENT_LOOP_INTERFACE_NAME}`"
        ))
    })?;
    instance.store.data_mut().call.turn = Some(turn);
    let result = run.call_async(&mut instance.store, ()).await;
    let (answer,) = busy.finish_guest_call(result)?;
    let sanitizer = GuestTextSanitizer::new(
        slot.shared_plugin_state(),
        caller,
        AGENT_LOOP_INTERFACE_NAME,
    );
    answer.map_err(|error| Failure::Error(convert::describe_guest_error(error, sanitizer)))
}
