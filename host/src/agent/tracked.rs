//! Tracks the files that a tool call changes, so that they can be brought back.
//!
//! Start from [`TrackedCall`].

use std::sync::Arc;

use super::scope::TurnScope;
use crate::checkpoint::{CallOrigin, CallWrites, StartedCall};
use crate::event::Event;
use crate::message::{EffectClass, ToolCall};
use crate::point::handle::ChangeRecorder;
use crate::point::outcome::Level;
use crate::tool::FileTracking;
use crate::tool::registry::ToolEntry;

/// A call whose changes of files are tracked.
pub(super) enum TrackedCall {
    /// The call changes no file.
    Unneeded,
    /// The tool passes each write to this recorder.
    Recorded(Arc<CallWrites>),
    /// The workspace is compared after the call.
    Compared(StartedCall),
}

impl TrackedCall {
    /// Keeps what files are before the call, as its tool needs it. Ends at once for a tool that only
    /// reads.
    pub(super) async fn begin_call(scope: &TurnScope, entry: &ToolEntry, call: &ToolCall) -> Self {
        let is_read = entry.spec.effect_class == EffectClass::Read;
        let tracking = entry.tool.file_tracking();
        if is_read || tracking == FileTracking::Unneeded {
            return Self::Unneeded;
        }
        let origin = CallOrigin {
            // Subagents work in a turn of the main agent, which is the one to be undone.
            turn: scope.family.root.turn(),
            call: call.id.clone(),
            tool: call.name.clone(),
        };
        let checkpoints = scope.family.checkpoints.clone();
        if tracking == FileTracking::Recorded {
            let writes = CallWrites {
                checkpoints,
                origin,
            };
            return Self::Recorded(Arc::new(writes));
        }
        let begun = tokio::task::spawn_blocking(move || checkpoints.begin_call(&origin));
        match begun.await {
            Ok(started) => Self::Compared(started),
            Err(error) => {
                let text = format!(
                    "the changes of {} cannot be undone later: {error}",
                    call.name
                );
                scope.spec.events.emit(Event::notice(Level::Warn, text));
                Self::Unneeded
            }
        }
    }

    /// Returns the receiver of the call's writes.
    pub(super) fn recorder(&self) -> Option<Arc<dyn ChangeRecorder>> {
        match self {
            Self::Recorded(writes) => Some(writes.clone()),
            _ => None,
        }
    }

    /// Records the changes of the call, and notifies the person of changes that cannot be undone.
    pub(super) async fn end_call(self, scope: &TurnScope) {
        let checkpoints = scope.family.checkpoints.clone();
        match self {
            Self::Unneeded => return,
            Self::Recorded(_) => {}
            Self::Compared(started) => {
                let checkpoints = checkpoints.clone();
                let ended = tokio::task::spawn_blocking(move || checkpoints.end_call(started));
                // A panic leaves the record without its end: the call counts as interrupted.
                let _ = ended.await;
            }
        }
        for notice in checkpoints.take_notices() {
            scope.spec.events.emit(Event::notice(Level::Warn, notice));
        }
    }
}
