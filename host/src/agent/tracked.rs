//! Tracks the files that a tool call changes, so that they can be restored.
//!
//! Start from [`CallFileChangeTracker`].

use std::sync::Arc;

use super::scope::SharedTurnState;
use crate::checkpoint::{CallFileChangeRecorder, FileChangeOrigin, SnapshotTrackedToolCall};
use crate::event::Event;
use crate::message::{EffectClass, ToolCall};
use crate::point::handle::FileChangeRecorder;
use crate::point::outcome::Level;
use crate::tool::FileChangeTrackingMethod;
use crate::tool::registry::RegisteredTool;

/// A tool call, with the method by which its file changes are tracked.
pub(super) enum CallFileChangeTracker {
    /// The call changes no file, so nothing is tracked.
    Unneeded,
    /// The tool itself reports each write to this recorder.
    Recorded(Arc<CallFileChangeRecorder>),
    /// The workspace is compared with a snapshot from before the call.
    Compared(SnapshotTrackedToolCall),
}

impl CallFileChangeTracker {
    /// Begins to track a call with the method that its tool declares; for some tools this takes a
    /// snapshot of the workspace. Returns at once for a tool that only reads.
    pub(super) async fn begin_call(
        scope: &SharedTurnState,
        entry: &RegisteredTool,
        call: &ToolCall,
    ) -> Self {
        let is_read = entry.spec.effect_class == EffectClass::Read;
        let tracking = entry.tool.file_change_tracking_method();
        if is_read || tracking == FileChangeTrackingMethod::Unneeded {
            return Self::Unneeded;
        }
        let origin = FileChangeOrigin {
            // Record the turn of the main agent, even for a call of a subagent, because users undo
            // turns of the main agent.
            turn: scope.family.root.last_turn_number(),
            call: call.id.clone(),
            tool: call.name.clone(),
        };
        let checkpoints = scope.family.checkpoints.clone();
        if tracking == FileChangeTrackingMethod::Recorded {
            let writes = CallFileChangeRecorder {
                checkpoints,
                origin,
            };
            return Self::Recorded(Arc::new(writes));
        }
        let begun = tokio::task::spawn_blocking(move || checkpoints.begin_tool_call(&origin));
        match begun.await {
            Ok(started) => Self::Compared(started),
            Err(error) => {
                let text = format!(
                    "the changes that {} makes to files cannot be undone later: {error}",
                    call.name
                );
                scope
                    .spec
                    .events
                    .emit(Event::create_host_notice(Level::Warn, text));
                Self::Unneeded
            }
        }
    }

    /// Returns the recorder to which the call's tool reports the files that it writes; `None` if
    /// the tool does not report them.
    pub(super) fn file_change_recorder(&self) -> Option<Arc<dyn FileChangeRecorder>> {
        match self {
            Self::Recorded(writes) => Some(writes.clone()),
            _ => None,
        }
    }

    /// Records the changes of the call, and notifies the user of changes that cannot be undone.
    pub(super) async fn end_call(self, scope: &SharedTurnState) {
        let checkpoints = scope.family.checkpoints.clone();
        match self {
            Self::Unneeded => return,
            Self::Recorded(_) => {}
            Self::Compared(started) => {
                let checkpoints = checkpoints.clone();
                let ended = tokio::task::spawn_blocking(move || checkpoints.end_tool_call(started));
                // If the task panics, the record has no end, so the call counts as interrupted.
                let _ = ended.await;
            }
        }
        for notice in checkpoints.take_notices() {
            scope
                .spec
                .events
                .emit(Event::create_host_notice(Level::Warn, notice));
        }
    }
}
