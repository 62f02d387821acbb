//! Calls that plugins make to a model, a tool, a subagent or the user during a turn. Each call is
//! counted and recorded.
//!
//! This module does not check permissions: a plugin without the permission has no function to call.
//! `budget` has the limits on calls. Start from [`PluginHostCallExecutor`].

mod model;
mod person;
mod subagent;
mod tool;

use std::sync::Arc;

use super::budget::LimitedHostCallKind;
use super::scope::SharedTurnState;
use crate::point::caller::{Caller, MAX_PLUGIN_CALL_DEPTH};
use crate::point::handle::HostFunctionError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::text::escape_and_truncate_line;

/// Maximum length of a question or task, in bytes: more than the context window of a model.
const MAX_QUESTION_OR_TASK_BYTES: usize = 1 << 20;

/// Maximum length of the target in an access record, in bytes.
const MAX_ACCESS_RECORD_FIELD_BYTES: usize = 200;

/// Carries out the host functions that a plugin calls during a turn, such as running a tool.
pub(super) struct PluginHostCallExecutor<'a> {
    scope: &'a Arc<SharedTurnState>,
    plugin: &'a Arc<str>,
}

impl<'a> PluginHostCallExecutor<'a> {
    pub(super) fn new(scope: &'a Arc<SharedTurnState>, plugin: &'a Arc<str>) -> Self {
        Self { scope, plugin }
    }

    /// Checks the conditions of every call: the turn has not been cancelled, calls of plugins by
    /// plugins are not nested too deeply, and the plugin's limit is not reached. Counts the call.
    pub(in crate::agent) fn admit_call(
        &self,
        host_call: LimitedHostCallKind,
        caller: &mut Caller,
    ) -> Result<(), HostFunctionError> {
        if self.scope.cancel.is_cancelled() {
            return Err(turn_interrupted_error());
        }
        if caller.call_chain.len() > MAX_PLUGIN_CALL_DEPTH {
            return Err(HostFunctionError::Limit(format!(
                "calls between plugins are nested deeper than {MAX_PLUGIN_CALL_DEPTH} levels"
            )));
        }
        self.scope.budget.count_host_call(self.plugin, host_call)?;
        self.scope.refresh_caller_context(caller);
        Ok(())
    }

    /// Begins the access record of a call, which is written when the call ends.
    fn begin_plugin_access_record(
        &self,
        caller: &Caller,
        target: &str,
    ) -> PendingPluginAccessRecord<'a> {
        PendingPluginAccessRecord::new(self.scope, self.plugin, caller, target)
    }
}

pub(super) fn turn_interrupted_error() -> HostFunctionError {
    HostFunctionError::Failed("the turn was interrupted".to_owned())
}

pub(super) fn check_question_or_task_length(
    what: &str,
    text: &str,
) -> Result<(), HostFunctionError> {
    if text.trim().is_empty() {
        return Err(HostFunctionError::InvalidInput(format!("{what} is empty")));
    }
    if text.len() > MAX_QUESTION_OR_TASK_BYTES {
        return Err(HostFunctionError::Limit(format!(
            "{what} has {} bytes, at most {MAX_QUESTION_OR_TASK_BYTES} are accepted",
            text.len()
        )));
    }
    Ok(())
}

/// Access record of a running call. Dropping it writes the record, even if the future of the call
/// was dropped.
struct PendingPluginAccessRecord<'a> {
    scope: &'a SharedTurnState,
    record: Option<AccessRecord>,
}

impl<'a> PendingPluginAccessRecord<'a> {
    fn new(scope: &'a SharedTurnState, plugin: &Arc<str>, caller: &Caller, target: &str) -> Self {
        let record = AccessRecord {
            plugin: plugin.clone(),
            reached: Reached::External,
            target: escape_and_truncate_line(target, MAX_ACCESS_RECORD_FIELD_BYTES),
            outcome: AccessOutcome::Failed,
            reason: Some("the call was cancelled before it ended".to_owned()),
            origin: caller.action_origin(),
        };
        Self {
            scope,
            record: Some(record),
        }
    }

    fn end_access_record<T>(
        mut self,
        result: Result<T, HostFunctionError>,
    ) -> Result<T, HostFunctionError> {
        if let Some(record) = &mut self.record {
            let (outcome, reason) = match &result {
                Ok(_) => (AccessOutcome::Done, None),
                Err(error @ (HostFunctionError::Denied(_) | HostFunctionError::Limit(_))) => {
                    (AccessOutcome::Denied, Some(error.to_string()))
                }
                Err(error) => (AccessOutcome::Failed, Some(error.to_string())),
            };
            record.outcome = outcome;
            record.reason = reason
                .map(|reason| escape_and_truncate_line(&reason, MAX_ACCESS_RECORD_FIELD_BYTES));
        }
        result
    }
}

impl Drop for PendingPluginAccessRecord<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.scope.emitter.sink.record_plugin_access(record);
        }
    }
}
