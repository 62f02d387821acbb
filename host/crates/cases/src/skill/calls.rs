//! Records how each call of the model was decided: allowed, spared an approval question by the
//! skill, asked about, or refused (and by whom).
//!
//! The policy and the approver are the real ones, wrapped by a listener. The agent judges calls one
//! at a time, so a question that arrives before a call starts is about that call.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use crate::doubles::ScriptedPerson;
use rind_lib::event::{Event, Stamped};
use rind_lib::lock::lock;
use rind_lib::point::handle::{PersonAnswer, PersonQuestion};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rind_lib::tool::policy::{Decision, Policy, PolicyCall, ToolPolicy};

/// Calls of a run, shared between the listeners.
#[derive(Clone, Default)]
pub(super) struct RunCalls(Arc<Mutex<NotedCall>>);

#[derive(Default)]
struct NotedCall {
    calls: Vec<SkillCall>,
    asked: Vec<String>,
}

struct SkillCall {
    agent: Arc<str>,
    id: String,
    name: String,
    how: CallDecision,
    /// Whether policy and approver may still be asked about the call: it has neither started nor
    /// ended.
    is_open: bool,
}

enum CallDecision {
    Allowed,
    Spared,
    Asked,
    Refused(String),
}

impl NotedCall {
    /// Returns the newest call that is still being judged, if it is a call of this tool.
    fn judged_call(&mut self, tool: &str) -> Option<&mut SkillCall> {
        let last = self.calls.iter_mut().rev().find(|call| call.is_open);
        last.filter(|call| call.name == tool)
    }
}

impl RunCalls {
    /// Records a new call of the model, or the decision about a call that starts or ends.
    pub(super) fn hear_event(&self, stamped: &Stamped) {
        let mut noted = lock(&self.0);
        let agent = stamped.agent.clone();
        let mut end = |id: &str, refused_by: Option<&String>| {
            let mut calls = noted.calls.iter_mut().rev();
            let Some(call) = calls.find(|call| call.id == id && call.agent == agent) else {
                return;
            };
            call.is_open = false;
            if let Some(by) = refused_by {
                call.how = CallDecision::Refused(by.clone());
            }
        };
        match &stamped.event {
            Event::ToolStart { call, by: None, .. } => end(&call.id, None),
            Event::ToolEnd {
                result,
                refused_by,
                by: None,
                ..
            } => end(&result.call_id, refused_by.as_ref()),
            Event::ToolCall { call, by: None, .. } => noted.calls.push(SkillCall {
                agent: stamped.agent.clone(),
                id: call.id.clone(),
                name: call.name.clone(),
                how: CallDecision::Allowed,
                is_open: true,
            }),
            _ => {}
        }
    }

    /// Returns the calls in order, each with its decision, and the tools that the person was asked
    /// about.
    pub(super) fn take(&self) -> (Vec<String>, Vec<String>) {
        let noted = std::mem::take(&mut *lock(&self.0));
        let told = |call: &SkillCall| match &call.how {
            CallDecision::Allowed => format!("{} allowed", call.name),
            CallDecision::Spared => format!("{} spared", call.name),
            CallDecision::Asked => format!("{} asked", call.name),
            CallDecision::Refused(by) => format!("{} refused by {by}", call.name),
        };
        (noted.calls.iter().map(told).collect(), noted.asked)
    }
}

/// Wraps the policy, and records each call for which it lets a skill spare the approval question.
pub(super) struct HeardPolicy {
    pub(super) policy: ToolPolicy,
    pub(super) calls: RunCalls,
}

impl Policy for HeardPolicy {
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        self.policy.decide(call)
    }

    fn may_spare(&self, call: &PolicyCall<'_>) -> bool {
        let may = self.policy.may_spare(call);
        if may && let Some(judged) = lock(&self.calls.0).judged_call(&call.spec.name) {
            judged.how = CallDecision::Spared;
        }
        may
    }
}

/// Wraps the scripted person, and records each call that is asked about. Without a person, because
/// the case lists no answers, every call is approved.
pub(super) struct HeardPerson {
    pub(super) person: Option<ScriptedPerson>,
    pub(super) calls: RunCalls,
}

impl Approver for HeardPerson {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        let mut noted = lock(&self.calls.0);
        noted.asked.push(question.tool.clone());
        if let Some(judged) = noted.judged_call(&question.tool) {
            judged.how = CallDecision::Asked;
        }
        drop(noted);
        match &self.person {
            Some(person) => person.ask(question),
            None => Box::pin(async { ApprovalAnswer::Yes }),
        }
    }

    fn answer<'a>(&'a self, question: &'a PersonQuestion) -> BoxFuture<'a, Option<PersonAnswer>> {
        match &self.person {
            Some(person) => person.answer(question),
            None => Box::pin(async { None }),
        }
    }
}
