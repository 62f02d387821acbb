//! Runs the tool calls of a step: decides the order in which they are checked and run, and adds the
//! results for the model.
//!
//! Consecutive calls that only read run concurrently, up to a maximum; their results keep the order
//! of the calls. If the user sends text, the calls that have not begun are skipped, each with a
//! result that says so.
//!
//! Start from [`TurnToolCallRunner::run_calls`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;

use super::call::{AllowedToolCall, ToolCallChecker, UnreviewedToolCall};
use super::ctx::TurnContext;
use super::reflect::second::ReflectionState;
use super::skill::active::SKILL_TOOL_NAME;
use super::steering::AgentSteeringHandle;
use super::stop::EarlyTurnEndReason;
use crate::message::{Content, EffectClass, Message, Role, ToolCall};
use crate::point::dispatch::HookDispatchResult;
use crate::point::outcome::Injection;
use crate::point::payload::FinishedCall;

/// Runs the tool calls of the model in one turn. The value exists longer than the future of the
/// turn, which may be dropped at any `await`.
#[derive(Default)]
pub(super) struct TurnToolCallRunner {
    /// Calls that ran and whose results are not in the session yet.
    ran: Vec<UnreviewedToolCall>,
    /// Flag that is set while tools are running. Running tools get a moment to stop by themselves
    /// when the turn is interrupted.
    is_running: Arc<AtomicBool>,
}

impl TurnToolCallRunner {
    /// Returns the flag that is set while tools are running.
    pub(super) fn shared_running_flag(&self) -> Arc<AtomicBool> {
        self.is_running.clone()
    }

    /// Sets the flag for running tools. It is reset when the returned guard is dropped.
    pub(super) fn mark_tools_running(&self) -> RunningToolsFlagGuard {
        self.is_running.store(true, Ordering::Release);
        RunningToolsFlagGuard(self.is_running.clone())
    }

    /// Removes and returns the tool calls that ran and whose results are not in the session yet.
    pub(super) fn take_unstored_call_results(&mut self) -> Vec<UnreviewedToolCall> {
        std::mem::take(&mut self.ran)
    }

    /// Runs the tool calls in one answer of the model. Returns the messages that plugins add after
    /// the results. If the answer was truncated, no call runs, and `cut` is the result of each
    /// call.
    pub(super) async fn run_calls(
        &mut self,
        ctx: &TurnContext,
        steering: &AgentSteeringHandle,
        reflected: &mut ReflectionState,
        calls: Vec<ToolCall>,
        cut: Option<&str>,
    ) -> Result<Vec<(Arc<str>, Injection)>, EarlyTurnEndReason> {
        let mut inject = Vec::new();
        for group in group_read_only_calls(ctx, calls) {
            let ids: Vec<String> = group.iter().map(|call| call.id.clone()).collect();
            let mut allowed = Vec::new();
            for call in group {
                allowed.extend(
                    self.authorize_turn_tool_call(ctx, steering, call, cut)
                        .await,
                );
                ctx.scope.budget.count_tool_call();
            }
            self.run_allowed_calls(ctx, steering, allowed).await?;
            for id in ids {
                let Some(at) = self.ran.iter().position(|ran| ran.id() == id) else {
                    continue;
                };
                let Some(ran) = self.ran.get_mut(at) else {
                    continue;
                };
                let finished = run_post_tool_hooks(ctx, reflected, ran).await;
                // Do not await between here and the writing of the result to the session: otherwise
                // an interrupt of the turn could lose or duplicate the result.
                drop(self.ran.remove(at));
                let finished_call = Arc::unwrap_or_clone(finished.value);
                let result = Content::ToolResult(finished_call.result);
                let message = Message::new(Role::Tool, vec![result]);
                let message = ctx
                    .scope
                    .skills
                    .parts
                    .attach_skill_content_to_message(message, &id);
                ctx.append_message(&message)?;
                ctx.emit_message(message).await;
                inject.extend(finished.inject);
            }
        }
        Ok(inject)
    }

    /// Checks a call. A refused or skipped call is added to the calls that ran, with the refusal as
    /// its result.
    async fn authorize_turn_tool_call(
        &mut self,
        ctx: &TurnContext,
        steering: &AgentSteeringHandle,
        call: ToolCall,
        cut: Option<&str>,
    ) -> Option<AllowedToolCall> {
        let caller = ctx.caller();
        let checker = ToolCallChecker::for_model_calls(&ctx.scope, &caller);
        let refused = if let Some(why) = cut {
            checker.refuse_call(call, why).await
        } else if steering.has_steering() {
            checker.skip_call_after_user_text(call).await
        } else {
            match checker.authorize_tool_call(call).await {
                Ok(allowed) => return Some(allowed),
                Err(refused) => *refused,
            }
        };
        self.ran.push(refused);
        None
    }

    /// Runs allowed calls concurrently. Each is added to the calls that ran as soon as it ends.
    async fn run_allowed_calls(
        &mut self,
        ctx: &TurnContext,
        steering: &AgentSteeringHandle,
        allowed: Vec<AllowedToolCall>,
    ) -> Result<(), EarlyTurnEndReason> {
        if allowed.is_empty() {
            return Ok(());
        }
        let caller = ctx.caller();
        let checker = ToolCallChecker::for_model_calls(&ctx.scope, &caller);
        checker.record_call_starts(&allowed).await?;
        self.is_running.store(true, Ordering::Release);
        let runs = allowed.into_iter().map(|allowed| async move {
            // The user may have sent text while the call waited for a free slot or for an answer to
            // a question.
            if steering.has_steering() {
                allowed.into_skipped_call()
            } else {
                checker.run_call(allowed).await
            }
        });
        let at_once = ctx.scope.spec.config.max_parallel_calls.max(1);
        let mut runs = futures_util::stream::iter(runs).buffer_unordered(at_once);
        while let Some(ran) = runs.next().await {
            self.ran.push(ran);
        }
        self.is_running.store(false, Ordering::Release);
        if ctx.scope.cancel.is_cancelled() {
            return Err(EarlyTurnEndReason::Cancelled);
        }
        Ok(())
    }
}

/// Guard that resets the flag for running tools when it is dropped.
pub(super) struct RunningToolsFlagGuard(Arc<AtomicBool>);

impl Drop for RunningToolsFlagGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Groups consecutive calls that only read. Every other call forms a group of its own.
fn group_read_only_calls(ctx: &TurnContext, calls: Vec<ToolCall>) -> Vec<Vec<ToolCall>> {
    let tools = ctx.scope.skills.tools();
    let is_read = |call: &ToolCall| {
        let entry = tools.get(&call.name);
        // The call that invokes a skill runs alone, so that later calls are checked with the skill
        // active.
        entry.is_some_and(|entry| entry.spec.effect_class == EffectClass::Read)
            && call.name != SKILL_TOOL_NAME
    };
    let mut groups: Vec<Vec<ToolCall>> = Vec::new();
    let mut is_open = false;
    for call in calls {
        let joins = is_read(&call);
        match groups.last_mut() {
            Some(group) if is_open && joins => group.push(call),
            _ => groups.push(vec![call]),
        }
        is_open = joins;
    }
    groups
}

/// Calls the hooks of `post-tool`, and records the call for the check of the answer (reflection).
pub(super) async fn run_post_tool_hooks(
    ctx: &TurnContext,
    reflected: &mut ReflectionState,
    ran: &mut UnreviewedToolCall,
) -> HookDispatchResult<Arc<FinishedCall>> {
    let caller = ctx.caller();
    let checker = ToolCallChecker::for_model_calls(&ctx.scope, &caller);
    let finished = checker.finish_call_with_post_tool_hooks(ran).await;
    reflected.record_tool_call(&finished.value, ctx.scope.spec.config.reflect.enabled);
    finished
}
