//! Skills that a person invokes: between two turns, and part of the next one.
//!
//! What may be asked or refused is so before the turn begins; the skill itself becomes active within the turn whose input is its
//! text, and in no other.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{ActiveSkill, Gate, Invoker, Ready};
use crate::agent::Agent;
use crate::agent::emit::blocked;
use crate::agent::host_calls::agent_id;
use crate::agent::scope::TurnScope;
use crate::agent::turn::{Stop, Turn};
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::handle::{AgentTask, HandleError};
use crate::session;
use crate::skill::Context;

/// A skill that the next turn begins with.
pub(in crate::agent) struct Invoked {
    pub(in crate::agent) ready: Ready,
    /// Beginning of the input of that turn.
    pub(in crate::agent) input: Arc<str>,
    /// Whether a subagent does the work.
    pub(in crate::agent) is_fork: bool,
}

impl Agent {
    /// Has the next turn run a skill, if its input is the one that is returned. `line` is what the person typed.
    ///
    /// # Errors
    /// The reason why the skill cannot be used.
    pub(crate) async fn invoke_skill(
        &mut self,
        name: &str,
        arguments: &Value,
        line: &str,
    ) -> Result<String, String> {
        self.invoked = None;
        let gate = Gate {
            spec: &self.spec,
            tools: &self.spec.tools,
            approvals: &self.approvals,
            memory: &self.family.skills,
        };
        let ready = gate.invoke(name, arguments, Invoker::User).await?;
        let is_fork = ready.skill.context == Context::Fork;
        let input: Arc<str> = match is_fork {
            true => line.into(),
            false => ready.text.clone(),
        };
        let text = input.to_string();
        self.invoked = Some(Invoked {
            ready,
            input,
            is_fork,
        });
        Ok(text)
    }

    /// Has the first turn of a subagent begin with a skill.
    pub(in crate::agent) fn begin_with(&mut self, ready: Ready) {
        self.invoked = Some(Invoked {
            input: ready.text.clone(),
            ready,
            is_fork: false,
        });
    }

    /// Ids of the skills that are active between two turns.
    pub(crate) fn active_skills(&self) -> Vec<Arc<str>> {
        let active = self.skills.all();
        active.iter().map(|skill| skill.id.clone()).collect()
    }

    /// Ends the skills that stay active from turn to turn, and returns their ids.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn end_skills(&mut self) -> Result<Vec<Arc<str>>, session::Error> {
        self.announce();
        let ended = self.skills.take(|_| true);
        let caller = self.caller();
        for skill in &ended {
            self.tell_skill_ended(&caller, skill, "done").await;
        }
        self.report_failures().await;
        self.spec.session.synced().await?;
        Ok(ended.iter().map(|skill| skill.id.clone()).collect())
    }

    async fn tell_skill_ended(&self, caller: &Caller, skill: &ActiveSkill, reason: &str) {
        self.spec.tell_ended(skill, reason);
        let info = skill.info(reason);
        self.dispatcher
            .dispatch::<at::SkillEnded>(caller, info)
            .await;
    }
}

impl Turn<'_> {
    /// Begins the skill that was invoked for this turn. Returns it when a subagent is to do its work.
    pub(in crate::agent) async fn begin_skill(&mut self) -> Option<Ready> {
        let caller = self.caller();
        // Of a turn that was dropped and so never ended.
        for left in self.scope.skills.take(|skill| !skill.is_lasting) {
            self.scope.tell_ended(&caller, &left, "dropped").await;
        }
        let invoked = self.agent.invoked.take()?;
        if !self.input.text.starts_with(&*invoked.input) {
            return None;
        }
        if invoked.is_fork {
            return Some(invoked.ready);
        }
        self.scope.enter_skill(&caller, &invoked.ready).await;
        None
    }

    /// Has a subagent do the work of a skill; its answer is that of the turn.
    pub(in crate::agent) async fn answer_by_fork(&mut self, ready: Ready) -> Result<(), Stop> {
        let caller = self.caller();
        let answer = self.scope.fork_skill(caller, ready).await;
        let answer = answer.map_err(|error| match error {
            HandleError::Denied(text) => Stop::Blocked(text),
            other => Stop::Blocked(format!("[the skill was not run: {other}]")),
        })?;
        let message = Message::text(Role::Assistant, answer);
        let reviewed = self.dispatch::<at::PostReason>(message).await;
        crate::agent::input::refused("answer", blocked(&reviewed))?;
        let message = reviewed.value;
        let text = message.joined_text();
        self.push(message).await?;
        self.inject(reviewed.inject).await?;
        self.give_output(text).await
    }
}

impl TurnScope {
    /// Runs a skill in a subagent, which has the tools that the skill leaves. Boxed: the turn of the subagent is one as well.
    pub(in crate::agent) fn fork_skill(
        self: &Arc<Self>,
        caller: Caller,
        ready: Ready,
    ) -> BoxFuture<'_, Result<String, HandleError>> {
        let task = AgentTask {
            prompt: ready.text.to_string(),
            tools: self.tools_left_by(&ready.skill),
            max_steps: u32::MAX,
        };
        let plugin = match &ready.by {
            Invoker::Plugin(name) => Some(name.clone()),
            Invoker::User | Invoker::Model => None,
        };
        Box::pin(async move {
            let id = agent_id("skill");
            self.run_agent_with(&id, plugin.as_ref(), task, caller, Some(ready))
                .await
        })
    }
}
