//! `rind:plugin/caller`: information about the caller of the current call, from
//! [`GuestCallState`](super::super::host::GuestCallState).

use super::super::bindings::rind::plugin::{caller, types};
use super::super::host::HostState;

macro_rules! answers {
    ($($name:ident() -> $answer:ty: |$context:ident| $value:expr;)*) => {
        impl caller::Host for HostState {
            $(fn $name(&mut self) -> $answer {
                let $context = &self.call.caller.context;
                $value
            })*
        }
    };
}
answers! {
    session() -> String: |context| context.session.to_string();
    turn() -> u32: |context| context.turn;
    step() -> u32: |context| context.step;
    agent() -> String: |context| context.agent.to_string();
    depth() -> u32: |context| context.depth;
    workspace() -> String: |context| context.workspace.to_string();
    model() -> String: |context| context.model.to_string();
    skill() -> Option<String>: |context| context.skill.as_deref().map(str::to_owned);
    usage() -> types::Usage: |context| context.usage.into();
    tokens_used() -> u64: |context| context.usage.total();
    cost_usd() -> f64: |context| context.cost_usd;
    unpriced_tokens() -> u64: |context| context.unpriced_tokens;
    tool_calls() -> u32: |context| context.tool_calls;
}
