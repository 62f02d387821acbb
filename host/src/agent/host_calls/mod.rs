//! Calls that plugins make to a model, a tool, a subagent or the user during a turn. Each call is
//! counted and recorded.
//!
//! This module does not check permissions: a plugin without the permission has no function to call.
//! `budget` has the limits on calls. Start from [`PluginCalls`].

mod model;
mod person;
mod subagent;
mod tool;

use std::sync::Arc;

use super::budget::LimitedHostCall;
use super::scope::TurnScope;
use crate::point::caller::{Caller, MAX_NESTING};
use crate::point::handle::HandleError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::clean_line;

/// Maximum length of a question or task, in bytes: more than the context window of a model.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Maximum length of the target in an access record, in bytes.
const MAX_TARGET_BYTES: usize = 200;

/// Carries out the host functions that a plugin calls during a turn, such as running a tool.
pub(super) struct PluginCalls<'a> {
    scope: &'a Arc<TurnScope>,
    plugin: &'a Arc<str>,
}

impl<'a> PluginCalls<'a> {
    pub(super) fn new(scope: &'a Arc<TurnScope>, plugin: &'a Arc<str>) -> Self {
        Self { scope, plugin }
    }

    /// Checks the conditions of every call: the turn has not been cancelled, calls of plugins by
    /// plugins are not nested too deeply, and the plugin's limit is not reached. Counts the call.
    pub(in crate::agent) fn admit_call(
        &self,
        host_call: LimitedHostCall,
        caller: &mut Caller,
    ) -> Result<(), HandleError> {
        if self.scope.cancel.is_cancelled() {
            return Err(turn_interrupted_error());
        }
        if caller.call_chain.len() > MAX_NESTING {
            return Err(HandleError::Limit(format!(
                "calls between plugins are nested deeper than {MAX_NESTING} levels"
            )));
        }
        self.scope.budget.count_host_call(self.plugin, host_call)?;
        self.scope.update_caller(caller);
        Ok(())
    }

    /// Begins the access record of a call, which is written when the call ends.
    fn begin_access(&self, caller: &Caller, target: &str) -> PendingAccess<'a> {
        PendingAccess::new(self.scope, self.plugin, caller, target)
    }
}

pub(super) fn turn_interrupted_error() -> HandleError {
    HandleError::Failed("the turn was interrupted".to_owned())
}

pub(super) fn check_text(what: &str, text: &str) -> Result<(), HandleError> {
    if text.trim().is_empty() {
        return Err(HandleError::InvalidInput(format!("{what} is empty")));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(HandleError::Limit(format!(
            "{what} has {} bytes, at most {MAX_TEXT_BYTES} are accepted",
            text.len()
        )));
    }
    Ok(())
}

/// Access record of a running call. Dropping it writes the record, even if the future of the call
/// was dropped.
struct PendingAccess<'a> {
    scope: &'a TurnScope,
    record: Option<AccessRecord>,
}

impl<'a> PendingAccess<'a> {
    fn new(scope: &'a TurnScope, plugin: &Arc<str>, caller: &Caller, target: &str) -> Self {
        let record = AccessRecord {
            plugin: plugin.clone(),
            reached: Reached::External,
            target: clean_line(target, MAX_TARGET_BYTES),
            outcome: AccessOutcome::Failed,
            reason: Some("the call was cancelled before it ended".to_owned()),
            origin: caller.origin(),
        };
        Self {
            scope,
            record: Some(record),
        }
    }

    fn end_access<T>(mut self, result: Result<T, HandleError>) -> Result<T, HandleError> {
        if let Some(record) = &mut self.record {
            let (outcome, reason) = match &result {
                Ok(_) => (AccessOutcome::Done, None),
                Err(error @ (HandleError::Denied(_) | HandleError::Limit(_))) => {
                    (AccessOutcome::Denied, Some(error.to_string()))
                }
                Err(error) => (AccessOutcome::Failed, Some(error.to_string())),
            };
            record.outcome = outcome;
            record.reason = reason.map(|reason| clean_line(&reason, MAX_TARGET_BYTES));
        }
        result
    }
}

impl Drop for PendingAccess<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.scope.emitter.sink.access(record);
        }
    }
}
