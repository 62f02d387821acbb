//! Skills that a person invokes: between two turns, and part of the next one.
//!
//! Whether it may be used is decided, and asked, before the turn begins. It becomes active within the turn whose input has its
//! text: the text never reaches the model without it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{ActiveSkill, Gate, Invoker, Ready};
use crate::agent::agent::Agent;
use crate::agent::scope::TurnScope;
use crate::agent::spec::agent_id;
use crate::agent::stop::{Stop, blocked, refused};
use crate::agent::turn::Turn;
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::handle::{AgentTask, HandleError};
use crate::session::{self, DONE};
use crate::skill::Context;

/// A skill whose work a subagent does, as the next turn.
pub(in crate::agent) struct Invoked {
    pub(in crate::agent) ready: Ready,
    /// Beginning of the input of that turn.
    pub(in crate::agent) input: Arc<str>,
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
        let gate = Gate {
            spec: &self.spec,
            tools: &self.spec.tools,
            approvals: &self.approvals,
            memory: &self.family.skills,
        };
        let ready = gate.invoke(name, arguments, Invoker::User).await?;
        if ready.skill.context != Context::Fork {
            let text = ready.text.to_string();
            self.invoked = None;
            self.family.skills.prepare(Arc::new(ready));
            return Ok(text);
        }
        let input: Arc<str> = match line.trim().is_empty() {
            true => format!("/{}", ready.skill.id).into(),
            false => line.into(),
        };
        let text = input.to_string();
        self.invoked = Some(Invoked { ready, input });
        Ok(text)
    }

    /// Has the first turn of a subagent begin with a skill.
    pub(in crate::agent) fn begin_with(&mut self, ready: Ready) {
        self.family.skills.prepare(Arc::new(ready));
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
            self.tell_skill_ended(&caller, skill, DONE).await;
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
    /// Begins the skills that were invoked for this turn. Returns the one whose work a subagent is to do.
    pub(in crate::agent) async fn begin_skill(&mut self) -> Option<Invoked> {
        let caller = self.caller();
        // Of a turn that was dropped and so never ended.
        for left in self.scope.skills.take(|skill| !skill.is_lasting) {
            self.scope.tell_ended(&caller, &left, "dropped").await;
        }
        self.scope.enter_prepared(&caller, &self.input.text).await;
        let invoked = self.agent.invoked.take()?;
        let is_for_this = self.input.text.starts_with(&*invoked.input);
        is_for_this.then_some(invoked)
    }

    /// Has a subagent do the work of a skill; its answer is that of the turn. What the input has besides, such as piped text, is
    /// given to it as well, as hooks left it.
    pub(in crate::agent) async fn answer_by_fork(&mut self, invoked: Invoked) -> Result<(), Stop> {
        let caller = self.caller();
        let input = self.input.text.as_str();
        let rest = input.strip_prefix(&*invoked.input).unwrap_or(input).trim();
        let answer = self.scope.fork_skill(caller, invoked.ready, rest).await;
        let answer = answer.map_err(|error| match error {
            HandleError::Denied(text) => Stop::Blocked(text),
            other => Stop::Blocked(format!("[the skill was not run: {other}]")),
        })?;
        let message = Message::text(Role::Assistant, answer);
        let reviewed = self.dispatch::<at::PostReason>(message).await;
        refused("answer", blocked(&reviewed))?;
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
        rest: &str,
    ) -> BoxFuture<'_, Result<String, HandleError>> {
        let task = AgentTask {
            prompt: match rest {
                "" => ready.text.to_string(),
                rest => format!("{}\n\n{rest}", ready.text),
            },
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
