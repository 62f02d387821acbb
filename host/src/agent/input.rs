//! Adds the user's texts to a turn: the input that starts it, texts sent while it runs (steering),
//! and texts for its end (follow-ups).

use super::answer::CurrentAnswerState;
use super::assess::{apply_low_confidence_ask_first_rule, assess_how_to_handle_input};
use super::background::take_ended_background_command_notes;
use super::blobs::store_attachments;
use super::repeated::InterruptedCallRepeater;
use super::skill::fork::run_skill_in_subagent;
use super::skill::ready::SkillToRunInSubagent;
use super::steering::{QueuedSteeringText, SteeringQueueKind};
use super::stop::{EarlyTurnEndReason, fail_if_hook_blocked, hook_block_reason};
use super::turn::{RunningTurn, TurnKind};
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role};
use crate::point::catalog as at;
use crate::point::dispatch::HookDispatchResult;
use crate::point::handle::HostFunctionError;
use crate::point::outcome::Level;
use crate::point::payload::{Decision, Source, TurnInput};
use crate::session::InterruptedTurn;

impl RunningTurn<'_> {
    /// Takes the input of the turn and begins to archive earlier turns. If the turn continues an
    /// interrupted one, also runs the interrupted calls again whose tools allow it.
    pub(super) async fn begin_turn_with_input(&mut self) -> Result<Decision, EarlyTurnEndReason> {
        let decision = self.assess_and_append_input().await?;
        if let Some(before) = self.interrupted_turn_to_continue().cloned() {
            let repeater = InterruptedCallRepeater::new(&mut self.ctx, &self.calls);
            repeater.rerun_interrupted_calls(&before).await?;
        }
        let scope = self.ctx.scope.clone();
        self.agent.archive_summarized_turns(&scope).await;
        let archival = &mut self.agent.archival;
        archival.begin_preparing_due_turns(&self.agent.spec, &scope);
        Ok(decision)
    }

    /// Passes the input through `turn-start` → `pre-assess` → the built-in assessment →
    /// `post-assess`, then adds the user's message. An input that a hook refuses never becomes a
    /// message, so the model never sees it. The input of a continued turn passes the same hooks
    /// again, because the hooks may have changed since; the session stores the input as it was
    /// before any hook.
    pub(super) async fn assess_and_append_input(&mut self) -> Result<Decision, EarlyTurnEndReason> {
        let started = self
            .ctx
            .dispatch_hooks_of_point::<at::TurnStart>(self.input.clone())
            .await;
        fail_if_hook_blocked("input", hook_block_reason(&started))?;
        let taken = self
            .ctx
            .dispatch_hooks_of_point::<at::PreAssess>(started.value)
            .await;
        fail_if_hook_blocked("input", hook_block_reason(&taken))?;
        if taken.value.text.trim().is_empty() {
            return Err(EarlyTurnEndReason::Blocked(
                "[the input is empty]".to_owned(),
            ));
        }
        self.input = taken.value;
        self.reflected.record_user_text(&self.input.text);

        let assessment = assess_how_to_handle_input(&self.input.text);
        let assessment = apply_low_confidence_ask_first_rule(
            self.ctx
                .dispatch_hooks_or_end_turn::<at::PostAssess>("assessment", assessment)
                .await?,
        );
        self.ctx.emit_event(Event::Assessed {
            decision: assessment.decision,
            confidence: assessment.confidence,
            reasons: assessment.reasons,
        });

        // The conversation already contains the input of a continued turn, as changed by the hooks
        // of the interrupted turn.
        if self
            .interrupted_turn_to_continue()
            .is_some_and(|before| before.is_taken)
        {
            self.ctx.record_last_input();
        } else {
            let before = self.interrupted_turn_to_continue().into_iter();
            let before = before.flat_map(|before| before.attached.iter().cloned());
            let attached = before.map(Content::Blob).chain(self.attached.clone());
            let mut message = self.build_user_message(self.input.text.clone(), attached.collect());
            if self.input.source == Source::Agent {
                message.origin = Some(Origin::Agent);
            }
            self.ctx.append_and_emit_message(message).await?;
        }
        self.ctx.inject_texts(started.inject).await?;
        self.ctx.inject_texts(taken.inject).await?;
        if let Some(note) = take_ended_background_command_notes(self.agent) {
            let note = Message::text(Role::User, note).from(Origin::Reflection);
            self.ctx.append_and_emit_message(note).await?;
        }
        Ok(assessment.decision)
    }

    /// Adds every text that was queued for the next request to the model to the conversation.
    /// Returns whether the model has new text to read.
    pub(super) async fn take_queued_steering_texts(&mut self) -> Result<bool, EarlyTurnEndReason> {
        let mut is_new = false;
        while let Some((queued, received)) = self
            .take_queued_text_through_hooks(SteeringQueueKind::Steering)
            .await
        {
            is_new |= self
                .add_queued_text_to_conversation(queued, received)
                .await?;
        }
        Ok(is_new)
    }

    /// Takes the next text from a queue, and calls the hooks that receive it. Skips a text that its
    /// author withdrew while the hooks ran. Returns the text and the outcome of the hooks.
    async fn take_queued_text_through_hooks(
        &self,
        queue: SteeringQueueKind,
    ) -> Option<(QueuedSteeringText, HookDispatchResult<TurnInput>)> {
        let queues = &self.agent.steering;
        loop {
            let next = queues.next_queued_text(queue)?;
            let input = next.input.clone();
            let received = self
                .ctx
                .dispatch_hooks_of_point::<at::SteeringReceived>(input)
                .await;
            if queues.remove_queued_text(queue, &next) {
                return Some((next, received));
            }
        }
    }

    /// Takes the next follow-up: a queued text with which the turn continues instead of ending. The
    /// turn then gets the full number of steps again. Returns whether there was a follow-up.
    pub(super) async fn take_follow_up(&mut self) -> Result<bool, EarlyTurnEndReason> {
        while let Some((queued, received)) = self
            .take_queued_text_through_hooks(SteeringQueueKind::FollowUps)
            .await
        {
            if hook_block_reason(&received).is_none() {
                self.input = received.value.clone();
            }
            if self
                .add_queued_text_to_conversation(queued, received)
                .await?
            {
                self.last_step = self.ctx.step + self.agent.spec.config.max_steps.max(1);
                self.reflected.reset_reflection_rounds();
                self.answers.reset_repeated_answer_count();
                self.answer = CurrentAnswerState::default();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a text that arrived during the turn to the conversation, unless a hook dropped it, and
    /// the messages that hooks add to it. Returns whether the model has new text to read.
    async fn add_queued_text_to_conversation(
        &mut self,
        queued: QueuedSteeringText,
        received: HookDispatchResult<TurnInput>,
    ) -> Result<bool, EarlyTurnEndReason> {
        let dropped = hook_block_reason(&received);
        self.ctx.emit_event(Event::SteeringTaken {
            number: queued.number,
            dropped_by: dropped.map(|said| said.plugin.to_string()),
            reason: dropped.map(|said| said.text.clone()),
        });
        let is_dropped = dropped.is_some();
        let is_new = !is_dropped || !received.inject.is_empty();
        if let Some(said) = hook_block_reason(&received) {
            let text = format!("plugin {} dropped your input: {}", said.plugin, said.text);
            self.ctx.emit_notice(Level::Warn, text);
        } else {
            self.reflected.record_user_text(&received.value.text);
            let caller = self.ctx.caller();
            self.ctx
                .scope
                .activate_prepared_skills(&caller, &received.value.text)
                .await;
            let attached = store_attachments(&self.ctx.scope.family.root, queued.attached).await;
            let message = self.build_user_message(received.value.text, attached);
            self.ctx.append_and_emit_message(message).await?;
        }
        self.ctx.inject_texts(received.inject).await?;
        Ok(is_new)
    }

    /// Creates the message for a user's text and images. Emits a notice if the model will not see
    /// the images.
    fn build_user_message(&self, text: String, attached: Vec<Content>) -> Message {
        let skills = self.ctx.scope.skills.find_skills_in_input(&text);
        let mut message = Message::text(Role::User, text).with_skills(skills);
        let spec = &self.agent.spec;
        if !attached.is_empty() && !spec.provider.takes_images(&spec.model) {
            let text = format!(
                "the model {} is not known to take images, so it gets a text note instead of each image; set provider.images = true to send images",
                spec.model
            );
            self.ctx.emit_notice(Level::Warn, text);
        }
        message.content.extend(attached);
        message
    }

    /// Returns the interrupted turn that this turn continues; `None` if it continues none.
    pub(super) fn interrupted_turn_to_continue(&self) -> Option<&InterruptedTurn> {
        match &self.work {
            TurnKind::Answer { continues, .. } => continues.as_deref(),
            TurnKind::Compact => None,
        }
    }

    /// Activates the skills that were invoked for this turn. Returns the invoked skill that a
    /// subagent is to carry out, if there is one.
    pub(super) async fn activate_invoked_skills(&mut self) -> Option<SkillToRunInSubagent> {
        self.deactivate_leftover_skills().await;
        if let Some(before) = self.interrupted_turn_to_continue().cloned() {
            self.restore_interrupted_turn(&before);
        }
        let caller = self.ctx.caller();
        self.ctx
            .scope
            .activate_prepared_skills(&caller, &self.input.text)
            .await;
        let invoked = self.agent.invoked.take()?;
        let is_for_this = self.input.text.starts_with(&*invoked.input);
        is_for_this.then_some(invoked)
    }

    /// Restores the state of the interrupted turn: activates its skills, because they may limit the
    /// tools; counts the steps that it took; and reuses an answer that the model had already
    /// written.
    fn restore_interrupted_turn(&mut self, before: &InterruptedTurn) {
        for kept in &before.skills {
            self.agent
                .skills
                .restore_skill(kept, &self.agent.spec.skills);
        }
        let left = self.last_step.saturating_sub(before.n_steps);
        self.last_step = left.max(1);
        let last = self.agent.spec.session.last_messages(1).pop();
        let answer =
            last.filter(|last| last.role == Role::Assistant && last.tool_calls().next().is_none());
        let answer = answer.map(|answer| answer.joined_text());
        self.ready_answer = answer.filter(|text| before.is_taken && !text.trim().is_empty());
    }

    /// Ends the skills that an earlier turn activated but did not end, because it was dropped.
    async fn deactivate_leftover_skills(&self) {
        let caller = self.ctx.caller();
        let own = &self.ctx.scope.skills.own;
        for left in own.take_finished_skills(|skill| !skill.is_lasting) {
            self.ctx
                .scope
                .report_skill_end(&caller, &left, "dropped")
                .await;
        }
    }

    /// Runs a skill in a subagent, whose answer becomes the answer of the turn. If the input
    /// contains more than the invocation of the skill, such as piped text, the subagent gets that
    /// too, as changed by hooks.
    pub(super) async fn answer_by_skill_subagent(
        &mut self,
        invoked: SkillToRunInSubagent,
    ) -> Result<(), EarlyTurnEndReason> {
        let caller = self.ctx.caller();
        let input = self.input.text.as_str();
        let rest = input.strip_prefix(&*invoked.input).unwrap_or(input).trim();
        let answer = run_skill_in_subagent(&self.ctx.scope, caller, invoked.ready, rest).await;
        let answer = answer.map_err(|error| match error {
            HostFunctionError::Denied(text) => EarlyTurnEndReason::Blocked(text),
            other => EarlyTurnEndReason::Blocked(format!("[the skill was not run: {other}]")),
        })?;
        let message = Message::text(Role::Assistant, answer);
        let reviewed = self
            .ctx
            .dispatch_hooks_of_point::<at::PostReason>(message)
            .await;
        fail_if_hook_blocked("answer", hook_block_reason(&reviewed))?;
        let message = reviewed.value;
        let text = message.joined_text();
        self.ctx.append_and_emit_message(message).await?;
        self.ctx.inject_texts(reviewed.inject).await?;
        self.emit_output(text).await
    }
}
