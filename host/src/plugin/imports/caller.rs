//! `rind:plugin/caller`: answers about the caller of the call that runs, each from [`CurrentCall`](super::super::host::CurrentCall).

use super::super::bindings::rind::plugin::{caller, types};
use super::super::convert;
use super::super::host::HostState;
use crate::point::caller::CallContext;

impl HostState {
    fn context(&self) -> &CallContext {
        &self.call.caller.context
    }
}

impl caller::Host for HostState {
    fn session(&mut self) -> String {
        self.context().session.to_string()
    }

    fn turn(&mut self) -> u32 {
        self.context().turn
    }

    fn step(&mut self) -> u32 {
        self.context().step
    }

    fn agent(&mut self) -> String {
        self.context().agent.to_string()
    }

    fn depth(&mut self) -> u32 {
        self.context().depth
    }

    fn workspace(&mut self) -> String {
        self.context().workspace.to_string()
    }

    fn model(&mut self) -> String {
        self.context().model.to_string()
    }

    fn skill(&mut self) -> Option<String> {
        None
    }

    fn usage(&mut self) -> types::Usage {
        convert::usage(self.context().usage)
    }

    fn tokens_used(&mut self) -> u64 {
        self.context().usage.total()
    }

    fn cost_usd(&mut self) -> f64 {
        self.context().cost_usd
    }

    fn unpriced_tokens(&mut self) -> u64 {
        self.context().unpriced_tokens
    }

    fn tool_calls(&mut self) -> u32 {
        self.context().tool_calls
    }
}
