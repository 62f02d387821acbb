//! Runs calls again that were interrupted together with their turn, when the turn is continued.
//!
//! A call runs again only if its tool declares that this is safe: always, or when a check of the
//! tool finds that the effect is absent. The call passes the same checks as any other call. Its
//! result replaces the message that says that the call may have run; every other interrupted call
//! keeps that message. Start from [`InterruptedCallRepeater`].

use std::sync::Arc;

use super::call::ToolCallChecker;
use super::calls::TurnToolCallRunner;
use super::ctx::TurnContext;
use super::deferred::extract_deferred_tool_call;
use super::stop::EarlyTurnEndReason;
use crate::message::{Content, Message, Role, ToolCall};
use crate::point::outcome::Level;
use crate::session::{Body, InterruptedToolCall, InterruptedTurn, REPEATED_CALL_REASON};
use crate::tool::registry::RegisteredTool;
use crate::tool::{
    INTERRUPTED_CALL_DONE_ANSWER, INTERRUPTED_CALL_NOT_DONE_ANSWER, InterruptedCallRepetitionRule,
};

/// Maximum number of starts of one call. A call that crashes the program each time is not repeated
/// further; the model then decides.
const MAX_ATTEMPTS_PER_TOOL_CALL: u32 = 3;

/// Result of an interrupted tool call whose effect has happened, as the check of its tool found.
const INTERRUPTED_CALL_DONE_RESULT_TEXT: &str = "[interrupted: the turn was cut off while this call ran; its tool has looked and says that the effect is \
                            there. The call was not run again, and its result is not known]";

/// Knowledge about whether an interrupted call had its effect.
enum InterruptedCallEffectState {
    /// Running the call again is safe, because the first run had no effect or another run does no
    /// harm.
    Repeatable,
    /// The first run of the call already had its effect.
    Done,
    /// The effect of the call is unknown, for this reason.
    Unknown(String),
}

/// Runs calls of an interrupted turn again in the turn that continues it.
pub(super) struct InterruptedCallRepeater<'t> {
    ctx: &'t mut TurnContext,
    calls: &'t TurnToolCallRunner,
}

impl<'t> InterruptedCallRepeater<'t> {
    /// Creates the repeater for the interrupted calls of a turn.
    pub(super) fn new(ctx: &'t mut TurnContext, calls: &'t TurnToolCallRunner) -> Self {
        Self { ctx, calls }
    }

    /// Runs the calls again that were interrupted in the turn `before`, if their tools allow it.
    pub(super) async fn rerun_interrupted_calls(
        mut self,
        before: &InterruptedTurn,
    ) -> Result<(), EarlyTurnEndReason> {
        let session = &self.ctx.scope.spec.session;
        let cut = session.inspect_all_messages(|messages| before.interrupted_calls(messages));
        for cut in cut {
            self.repeat_interrupted_call(cut).await?;
        }
        Ok(())
    }

    async fn repeat_interrupted_call(
        &mut self,
        cut: InterruptedToolCall,
    ) -> Result<(), EarlyTurnEndReason> {
        let call = extract_deferred_tool_call(cut.call);
        let tools = self.ctx.scope.skills.tools();
        let Some(entry) = tools.get(&call.name).cloned() else {
            return Ok(());
        };
        let effect = match entry.tool.interrupted_call_repetition_rule() {
            InterruptedCallRepetitionRule::Never => return Ok(()),
            _ if cut.n_begun >= MAX_ATTEMPTS_PER_TOOL_CALL => {
                InterruptedCallEffectState::Unknown(format!("it was cut off {} times", cut.n_begun))
            }
            InterruptedCallRepetitionRule::Idempotent => InterruptedCallEffectState::Repeatable,
            InterruptedCallRepetitionRule::Checked(check) => {
                self.check_if_call_had_effect(&call, &entry, &check).await?
            }
        };
        match effect {
            InterruptedCallEffectState::Repeatable => self.rerun_call(call, cut.told).await,
            InterruptedCallEffectState::Done => {
                let text = format!(
                    "the interrupted call of `{}` is not run again: it already had its effect",
                    call.name
                );
                self.ctx.emit_notice(Level::Info, text);
                let result = Message::from_tool_result(
                    call.create_result(INTERRUPTED_CALL_DONE_RESULT_TEXT, false),
                );
                self.replace_message_by_tool_result(cut.told, &result)?;
                self.ctx.emit_message(result).await;
                Ok(())
            }
            InterruptedCallEffectState::Unknown(why) => {
                let text = format!(
                    "the interrupted call of `{}` is not run again: {why}",
                    call.name
                );
                self.ctx.emit_notice(Level::Warn, text);
                Ok(())
            }
        }
    }

    /// Calls the check of a tool to find out whether the call had an effect. The plugin counts as
    /// the caller of the check: it passes hooks, policy and approval, and is not part of the
    /// conversation.
    async fn check_if_call_had_effect(
        &self,
        call: &ToolCall,
        entry: &RegisteredTool,
        check: &str,
    ) -> Result<InterruptedCallEffectState, EarlyTurnEndReason> {
        let caller = self.ctx.caller();
        let maker: Arc<str> = entry.spec.plugin.as_deref().unwrap_or("host").into();
        let checker = ToolCallChecker::for_plugin(&self.ctx.scope, &caller, &maker);
        let asked = ToolCall::new(crate::clock::new_uuid_v7(), check, call.arguments.clone());
        let mut ran = match checker.authorize_tool_call(asked).await {
            Ok(allowed) => {
                checker
                    .record_call_starts(std::slice::from_ref(&allowed))
                    .await?;
                checker.run_call(allowed).await
            }
            Err(refused) => *refused,
        };
        let is_refused = ran.refused_by.is_some();
        let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
        let result = &finished.value.result;
        let text = result.content.text();
        Ok(match text.trim() {
            _ if is_refused => InterruptedCallEffectState::Unknown(format!(
                "the tool `{check}`, which checks its effect, was refused"
            )),
            _ if result.is_error => InterruptedCallEffectState::Unknown(format!(
                "the tool `{check}`, which checks its effect, failed"
            )),
            INTERRUPTED_CALL_NOT_DONE_ANSWER => InterruptedCallEffectState::Repeatable,
            INTERRUPTED_CALL_DONE_ANSWER => InterruptedCallEffectState::Done,
            _ => InterruptedCallEffectState::Unknown(format!(
                "the tool `{check}`, which checks its effect, answered neither `{INTERRUPTED_CALL_DONE_ANSWER}` nor `{INTERRUPTED_CALL_NOT_DONE_ANSWER}`"
            )),
        })
    }

    /// Runs an interrupted call again, and puts the result in place of the message with the id
    /// `told`. The message stays if the call is now refused, because the first run may have had an
    /// effect.
    async fn rerun_call(&mut self, call: ToolCall, told: String) -> Result<(), EarlyTurnEndReason> {
        let text = format!(
            "the interrupted call of `{}` runs again, as its tool allows",
            call.name
        );
        self.ctx.emit_notice(Level::Info, text);
        let caller = self.ctx.caller();
        let checker = ToolCallChecker::for_model_calls(&self.ctx.scope, &caller);
        let id = call.id.clone();
        let mut ran = match checker.authorize_tool_call(call).await {
            Ok(mut allowed) => {
                // Store the arguments with this start too: the message that contains them may be
                // far back in the session.
                allowed.is_changed = true;
                checker
                    .record_call_starts(std::slice::from_ref(&allowed))
                    .await?;
                let _running = self.calls.mark_tools_running();
                checker.run_call(allowed).await
            }
            Err(refused) => *refused,
        };
        let is_refused = ran.refused_by.is_some();
        let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
        if is_refused {
            return Ok(());
        }
        let result = Arc::unwrap_or_clone(finished.value).result;
        let message = Message::new(Role::Tool, vec![Content::ToolResult(result)]);
        let message = self
            .ctx
            .scope
            .skills
            .parts
            .attach_skill_content_to_message(message, &id);
        self.replace_message_by_tool_result(told, &message)?;
        self.ctx.emit_message(message).await;
        self.ctx.inject_texts(finished.inject).await
    }

    /// Replaces the message with the id `told` in the session by a tool result.
    fn replace_message_by_tool_result(
        &self,
        told: String,
        result: &Message,
    ) -> Result<(), EarlyTurnEndReason> {
        Ok(self.ctx.scope.spec.session.append(Body::Replaced {
            reason: REPEATED_CALL_REASON.to_owned(),
            removed: vec![told],
            messages: vec![result.clone()],
            holder: None,
        })?)
    }
}
