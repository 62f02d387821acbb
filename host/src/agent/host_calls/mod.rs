//! Metered calls of plugins into the running turn: to a model, a tool, a subagent.
//!
//! Whether a plugin may at all was decided before: without the grant it has no import to call. Owns
//! that every use is counted and leaves a record; how much a plugin may use is `budget`'s. Start
//! from [`PluginCalls`].

mod model;
mod person;
mod subagent;
mod tool;

use std::sync::Arc;

use super::budget::HostCall;
use super::scope::TurnScope;
use crate::point::caller::{Caller, MAX_NESTING};
use crate::point::handle::HandleError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::clean_line;

/// Longest question or task, in bytes: more than a model reads at once.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Longest target of an access record, in bytes.
const MAX_TARGET_BYTES: usize = 200;

/// Calls of one plugin into a running turn.
pub(super) struct PluginCalls<'a> {
    scope: &'a Arc<TurnScope>,
    plugin: &'a Arc<str>,
}

impl<'a> PluginCalls<'a> {
    pub(super) fn new(scope: &'a Arc<TurnScope>, plugin: &'a Arc<str>) -> Self {
        Self { scope, plugin }
    }

    /// Checks the conditions of every call: the turn is running, plugins are not nested too deep,
    /// and some calls are left.
    pub(in crate::agent) fn admit_call(
        &self,
        host_call: HostCall,
        caller: &mut Caller,
    ) -> Result<(), HandleError> {
        if self.scope.cancel.is_cancelled() {
            return Err(interrupted_error());
        }
        if caller.call_chain.len() > MAX_NESTING {
            return Err(HandleError::Limit(format!(
                "plugins calling plugins are nested deeper than {MAX_NESTING}"
            )));
        }
        self.scope.budget.spend_call(self.plugin, host_call)?;
        self.scope.update_caller(caller);
        Ok(())
    }

    /// Begins the record of a use, which is kept when the use ends.
    fn begin_access(&self, caller: &Caller, target: &str) -> PendingAccess<'a> {
        PendingAccess::new(self.scope, self.plugin, caller, target)
    }
}

pub(super) fn interrupted_error() -> HandleError {
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

/// A use of the host in progress. Dropping it writes its record, even if the future that waited for
/// it was dropped.
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
