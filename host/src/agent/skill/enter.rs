//! Activates and ends skills in a turn, and emits the events about it.

use std::sync::Arc;

use super::active::ActiveSkill;
use super::ready::{PreparedSkillInvocation, SkillInvoker};
use crate::agent::scope::SharedTurnState;
use crate::agent::spec::AgentSpec;
use crate::event::Event;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::session::Body;

impl SharedTurnState {
    /// Activates a skill and emits its events. From now on, calls are limited to the tools that the
    /// skill permits.
    pub(in crate::agent) async fn activate_skill(
        &self,
        caller: &Caller,
        ready: &PreparedSkillInvocation,
    ) {
        let is_of_plugin =
            matches!(ready.by, SkillInvoker::Plugin(_)) || !self.spec.call_chain.is_empty();
        let mut active = ActiveSkill::new(ready, self.number, is_of_plugin);
        active.model = self
            .skills
            .resolve_skill_model(&ready.skill, &self.cancel)
            .await;
        self.family
            .skills
            .record_skill_use(&ready.skill, &self.spec);
        let active = Arc::new(active);
        self.skills.own.add_skill(active.clone());
        self.announce_active_skill(caller, &active).await;
    }

    async fn announce_active_skill(&self, caller: &Caller, active: &ActiveSkill) {
        self.spec
            .session
            .append_or_defer_error(active.activation_entry());
        self.spec.events.emit(active.activation_event());
        let mut caller = caller.clone();
        self.refresh_caller_context(&mut caller);
        self.emitter
            .dispatch_hooks::<at::SkillActivated>(&caller, active.create_skill_info(""))
            .await;
    }

    /// Ends the skills of the agent that last for one turn; in a subagent it ends all skills,
    /// because a subagent has only one turn.
    pub(in crate::agent) async fn end_skills(&self, caller: &Caller) {
        let is_over = |skill: &ActiveSkill| !skill.is_lasting || self.spec.depth > 0;
        for ended in self.skills.own.take_finished_skills(is_over) {
            self.report_skill_end(caller, &ended, "turn").await;
        }
    }

    pub(in crate::agent) async fn report_skill_end(
        &self,
        caller: &Caller,
        ended: &ActiveSkill,
        reason: &str,
    ) {
        self.spec.record_skill_deactivation(ended, reason);
        self.emitter
            .dispatch_hooks::<at::SkillEnded>(caller, ended.create_skill_info(reason))
            .await;
    }

    /// Activates the skills whose prepared text is in the user's input, so that the limits of a
    /// skill on calls apply however its text got into the input.
    pub(in crate::agent) async fn activate_prepared_skills(&self, caller: &Caller, input: &str) {
        for ready in self.family.skills.find_prepared_skills(input) {
            let own = self.skills.own.all();
            if !own.iter().any(|skill| skill.text == ready.text) {
                self.activate_skill(caller, &ready).await;
            }
        }
        self.family
            .skills
            .mark_skill_texts_as_in_conversation(input);
    }
}

impl AgentSpec {
    /// Records in the session that a skill has ended, and notifies observers.
    pub(super) fn record_skill_deactivation(&self, ended: &ActiveSkill, reason: &str) {
        self.session.append_or_defer_error(Body::SkillEnded {
            skill: ended.id.to_string(),
            reason: reason.to_owned(),
        });
        self.events.emit(Event::SkillEnded {
            skill: ended.id.to_string(),
            reason: reason.to_owned(),
        });
    }
}
