//! Runs a tool call that was allowed, up to a deadline. Then calls the hooks of `post-tool` and
//! reports the end of the call.

use std::sync::Arc;

use super::blobs::store_blobs;
use super::call::{AllowedToolCall, ToolCallChecker, ToolCallRefusal, UnreviewedToolCall};
use super::context::load_context_files_for_call;
use super::stop::hook_block_reason;
use super::tracked::CallFileChangeTracker;
use crate::event::Event;
use crate::message::{EffectClass, ToolResult};
use crate::point::catalog as at;
use crate::point::dispatch::{HookDispatchResult, PluginAttributedText};
use crate::point::payload::{FailureReport, FinishedCall};
use crate::session::{self, Body};
use crate::tool::run::run_tool_call;
use crate::tool::subject::{Subject, WorkspacePath};

/// Maximum length, in bytes, of the result that the session stores for a call of a plugin. Such a
/// result is stored only in the record of the call and in no message, and it may be long because
/// plugins may read large files.
const MAX_STORED_PLUGIN_CALL_RESULT_BYTES: usize = 16 << 10;

/// Result of a call whose path leads to another file than at the time when the call was checked.
const PATH_TARGET_CHANGED_REFUSAL_TEXT: &str = "refused by policy: the path leads to another file than when the call was judged, because a link on the way was \
                     changed meanwhile. The call was not run; look at the path, and call again";

impl ToolCallChecker<'_> {
    /// Writes to the session that these calls are about to run. Waits until the entry is on disk
    /// unless all calls only read: after a power failure, the session must show that a tool may
    /// have changed something.
    pub(super) async fn record_call_starts(
        &self,
        allowed: &[AllowedToolCall],
    ) -> Result<(), session::Error> {
        let session = &self.scope.spec.session;
        for allowed in allowed {
            let AllowedToolCall { call, entry, .. } = allowed;
            let is_told = self.maker.is_none() && !allowed.is_changed;
            session.append(Body::ToolStart {
                call: call.id.clone(),
                name: call.name.clone(),
                effect_class: entry.spec.effect_class,
                arguments: (!is_told).then(|| call.arguments.clone()),
                by: self.calling_party_name(),
            })?;
        }
        let is_read =
            |allowed: &AllowedToolCall| allowed.entry.spec.effect_class == EffectClass::Read;
        if allowed.iter().all(is_read) {
            return Ok(());
        }
        session.sync_on_blocking_thread().await
    }

    /// Runs an allowed tool call until it ends or its deadline is reached.
    pub(super) async fn run_call(&self, allowed: AllowedToolCall) -> UnreviewedToolCall {
        let AllowedToolCall {
            call,
            entry,
            subject,
            notes,
            is_changed,
        } = allowed;
        self.scope.spec.events.emit(Event::ToolStart {
            call: self
                .scope
                .emitter
                .build_call_for_observers(self.caller, &call)
                .await,
            effect_class: entry.spec.effect_class,
            plugin: entry.spec.plugin.clone(),
            by: self.calling_party_name(),
        });
        self.scope.progress.record_last_tool(&call.name);
        // Check the file or other subject of the call again: approval may have taken minutes, and a
        // symlink may lead elsewhere by now.
        if entry.tool.resolve_call_subject(&call.arguments).await != subject {
            return ToolCallRefusal::new("policy", PATH_TARGET_CHANGED_REFUSAL_TEXT)
                .into_refused_call(call, notes);
        }
        // Check the skills again: a skill may have become active while the user was asked, or in a
        // parallel call.
        if let Some(refusal) = self.refusal_because_of_skills(&entry) {
            return refusal.into_refused_call(call, notes);
        }
        let tracked = CallFileChangeTracker::begin_call(self.scope, &entry, &call).await;
        let mut ctx = self.create_tool_context(&call);
        ctx.recorder = tracked.file_change_recorder();
        let config = &self.scope.spec.config;
        let (output, duration) = run_tool_call(
            &*entry.tool,
            call.arguments.clone(),
            &ctx,
            config.tool_timeout(),
            config.tool_output_bytes,
        )
        .await;
        tracked.end_call(self.scope).await;
        let fault = output.is_fault.then(|| FailureReport {
            where_: call.name.clone(),
            message: output.content.to_string(),
            plugin: entry.spec.plugin.clone(),
        });
        let is_error = output.is_error;
        let file = match subject {
            Subject::File(WorkspacePath::Known(path)) if !is_error => Some(path),
            _ => None,
        };
        UnreviewedToolCall {
            finished: Arc::new(FinishedCall {
                plugin: None,
                result: call
                    .create_result(store_blobs(&self.scope.family.root, output).await, is_error),
                call,
                is_refused: false,
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            }),
            refused_by: None,
            notes,
            file,
            is_changed,
            fault,
        }
    }

    /// Calls the hooks of `post-tool` and reports the result. The notes of `pre-tool` hooks are
    /// appended before, because a hook that removes secrets must see everything that the caller
    /// will read. If the future is dropped before its end, the method may be called again.
    pub(super) async fn finish_call_with_post_tool_hooks(
        &self,
        ran: &mut UnreviewedToolCall,
    ) -> HookDispatchResult<Arc<FinishedCall>> {
        if let Some(report) = ran.fault.clone() {
            self.scope
                .emitter
                .dispatch_hooks::<at::Error>(self.caller, report)
                .await;
            ran.fault = None;
        }
        let (mut about, mut context) = (None, None);
        if let Some(path) = ran.file.as_deref().filter(|_| self.maker.is_none()) {
            let id = &ran.finished.call.id;
            about = self.scope.skills.skill_note_for_file(id, path);
            context = load_context_files_for_call(self.scope, id, path).await;
            ran.file = None;
        }
        let finished = Arc::make_mut(&mut ran.finished);
        finished.plugin = self.plugin_of_tool(&finished.call);
        for PluginAttributedText { plugin, text } in ran.notes.drain(..) {
            let note = format!("\n[note from {plugin}: {text}]");
            finished.result.content.push_text(&note);
        }
        for text in about.into_iter().chain(context) {
            finished.result.content.push_text(&text);
        }
        let caller = self.caller.for_tool_call(&ran.finished.call.id);
        let mut finished = self
            .scope
            .emitter
            .dispatch_hooks::<at::PostTool>(&caller, ran.finished.clone())
            .await;
        if let Some(PluginAttributedText { plugin, text }) = hook_block_reason(&finished).cloned() {
            // A hook that must see every result has failed, so the caller does not get the result.
            let result = &mut Arc::make_mut(&mut finished.value).result;
            let why = format!("[the result was withheld by plugin {plugin}: {text}]");
            result.content = why.into();
            result.is_error = true;
        }
        let context = &self.caller.context;
        let result = &finished.value.result;
        self.scope.spec.known.record_call_end(
            &result.call_id,
            (context.turn, context.step),
            &result.content.text(),
            ran.is_changed,
        );
        let duration_ms = ran.finished.duration_ms;
        let refused_by = ran.refused_by.clone();
        self.report_call_end(&finished.value.result, duration_ms, refused_by);
        finished
    }

    /// Records in the session that a call has ended, and emits the event about it.
    pub(super) fn report_call_end(
        &self,
        result: &ToolResult,
        duration_ms: u64,
        refused_by: Option<String>,
    ) {
        let kept = self.maker.map(|_| {
            let mut kept = result.clone();
            kept.content
                .truncate_to(MAX_STORED_PLUGIN_CALL_RESULT_BYTES);
            kept
        });
        // If this write fails, the caller still gets the result, and the next write to the session
        // reports the error.
        self.scope
            .spec
            .session
            .append_or_defer_error(Body::ToolEnd {
                call: result.call_id.clone(),
                duration_ms,
                refused_by: refused_by.clone(),
                result: kept,
            });
        self.scope.spec.events.emit(Event::ToolEnd {
            result: result.clone(),
            duration_ms,
            refused_by,
            by: self.calling_party_name(),
        });
    }
}
