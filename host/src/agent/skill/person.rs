//! Skills that the user invokes between two turns, for the next turn.
//!
//! Before the turn begins, the permission to use the skill is checked and, if needed, the user is
//! asked. The skill becomes active within the turn whose input contains its text, so the model
//! never gets the text of an inactive skill.

use std::sync::Arc;

use serde_json::Value;

use super::active::ActiveSkill;
use super::gate::SkillInvocationChecker;
use super::ready::{PreparedSkillInvocation, SkillInvoker, SkillToRunInSubagent};
use crate::agent::lifecycle::LiveAgent;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::session::{self, USER_ENDED_SKILL_REASON};
use crate::skill::SkillExecutionContext;

impl LiveAgent {
    /// Prepares a skill for the next turn, and returns the text that must be the input of that
    /// turn. `line` is the text that the user typed.
    ///
    /// # Errors
    /// The reason why the skill cannot be used.
    pub(crate) async fn invoke_skill(
        &mut self,
        name: &str,
        arguments: &Value,
        line: &str,
    ) -> Result<String, String> {
        let gate = SkillInvocationChecker {
            spec: &self.spec,
            tools: &self.spec.tools,
            approvals: &self.approvals,
            memory: &self.family.skills,
        };
        let ready = gate
            .check_and_prepare_skill(name, arguments, SkillInvoker::User)
            .await?;
        if ready.skill.context != SkillExecutionContext::Fork {
            let text = ready.text.to_string();
            self.invoked = None;
            self.family.skills.record_prepared_skill(Arc::new(ready));
            return Ok(text);
        }
        let input: Arc<str> = match line.trim().is_empty() {
            true => format!("/{}", ready.skill.id).into(),
            false => line.into(),
        };
        let text = input.to_string();
        self.invoked = Some(SkillToRunInSubagent { ready, input });
        Ok(text)
    }

    /// Lets the first turn of a subagent begin with a skill.
    pub(in crate::agent) fn set_skill_for_first_turn(&mut self, ready: PreparedSkillInvocation) {
        self.family.skills.record_prepared_skill(Arc::new(ready));
    }

    /// Returns the ids of the skills that are active between two turns.
    pub(crate) fn active_skills(&self) -> Vec<Arc<str>> {
        let active = self.skills.all();
        active.iter().map(|skill| skill.id.clone()).collect()
    }

    /// Ends the skills that stay active across turns, and returns their ids.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn deactivate_all_skills(&mut self) -> Result<Vec<Arc<str>>, session::Error> {
        self.emit_session_opened();
        let ended = self.skills.take_finished_skills(|_| true);
        let caller = self.caller_info_outside_turn();
        for skill in &ended {
            self.report_skill_ended(&caller, skill, USER_ENDED_SKILL_REASON)
                .await;
        }
        self.report_hook_failures().await;
        self.spec.session.sync_on_blocking_thread().await?;
        Ok(ended.iter().map(|skill| skill.id.clone()).collect())
    }

    async fn report_skill_ended(&self, caller: &Caller, skill: &ActiveSkill, reason: &str) {
        self.spec.record_skill_deactivation(skill, reason);
        let info = skill.create_skill_info(reason);
        self.dispatcher
            .dispatch::<at::SkillEnded>(caller, info)
            .await;
    }
}
