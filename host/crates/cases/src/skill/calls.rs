//! Records how each call of the model was decided: allowed, allowed by the skill without an
//! approval question, allowed by the person, or refused.
//!
//! The policy and the approver are the real ones, each in a wrapper that records. The agent checks
//! one call at a time, so a question that arrives before a call starts is about that call.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use crate::doubles::ScriptedUser;
use rind_lib::event::{Event, Stamped};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::{PluginUserQuestion, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use rind_lib::tool::policy::{Decision, Policy, PolicyCall, ToolPolicy};

/// Records the tool calls and approval questions of a run. The wrappers of the policy and of the
/// approver and the observer of the session, which record them, share this value.
#[derive(Clone, Default)]
pub(super) struct SkillCallRecorder(Arc<Mutex<RecordedCallsAndApprovalQuestions>>);

#[derive(Default)]
struct RecordedCallsAndApprovalQuestions {
    calls: Vec<RecordedSkillToolCall>,
    asked: Vec<String>,
}

struct RecordedSkillToolCall {
    agent: Arc<str>,
    id: String,
    name: String,
    how: RecordedToolCallDecision,
    /// Whether the decision about the call is still open, because the call has neither started nor
    /// ended.
    is_open: bool,
}

enum RecordedToolCallDecision {
    Allowed,
    Spared,
    Asked,
    Refused(String),
}

impl RecordedCallsAndApprovalQuestions {
    /// Returns the newest call that has no decision yet, if it is a call of `tool`.
    fn find_last_pending_call(&mut self, tool: &str) -> Option<&mut RecordedSkillToolCall> {
        let last = self.calls.iter_mut().rev().find(|call| call.is_open);
        last.filter(|call| call.name == tool)
    }
}

impl SkillCallRecorder {
    /// Records a new tool call of the model or, when a call starts or ends, the decision about it.
    pub(super) fn record_call_event(&self, stamped: &Stamped) {
        let mut noted = lock_ignoring_poison(&self.0);
        let agent = stamped.agent.clone();
        let mut end = |id: &str, refused_by: Option<&String>| {
            let mut calls = noted.calls.iter_mut().rev();
            let Some(call) = calls.find(|call| call.id == id && call.agent == agent) else {
                return;
            };
            call.is_open = false;
            if let Some(by) = refused_by {
                call.how = RecordedToolCallDecision::Refused(by.clone());
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
            Event::ToolCall { call, by: None, .. } => noted.calls.push(RecordedSkillToolCall {
                agent: stamped.agent.clone(),
                id: call.id.clone(),
                name: call.name.clone(),
                how: RecordedToolCallDecision::Allowed,
                is_open: true,
            }),
            _ => {}
        }
    }

    /// Returns the calls in order, each with its decision, and the tools about which the person was
    /// asked.
    pub(super) fn take_calls_and_questions(&self) -> (Vec<String>, Vec<String>) {
        let noted = std::mem::take(&mut *lock_ignoring_poison(&self.0));
        let told = |call: &RecordedSkillToolCall| match &call.how {
            RecordedToolCallDecision::Allowed => format!("{} allowed", call.name),
            RecordedToolCallDecision::Spared => format!("{} spared", call.name),
            RecordedToolCallDecision::Asked => format!("{} asked", call.name),
            RecordedToolCallDecision::Refused(by) => format!("{} refused by {by}", call.name),
        };
        (noted.calls.iter().map(told).collect(), noted.asked)
    }
}

/// Wraps the policy. Records each call that the policy lets run without an approval question
/// because of a skill.
pub(super) struct CallRecordingToolPolicy {
    pub(super) policy: ToolPolicy,
    pub(super) calls: SkillCallRecorder,
}

impl Policy for CallRecordingToolPolicy {
    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        self.policy.decide(call)
    }

    fn can_skill_approve_call(&self, call: &PolicyCall<'_>) -> bool {
        let may = self.policy.can_skill_approve_call(call);
        if may
            && let Some(judged) =
                lock_ignoring_poison(&self.calls.0).find_last_pending_call(&call.spec.name)
        {
            judged.how = RecordedToolCallDecision::Spared;
        }
        may
    }
}

/// Wraps the scripted person, and records each call about which the person is asked. If the case
/// lists no answers, there is no person, and every call is approved.
pub(super) struct SkillQuestionRecordingApprover {
    pub(super) person: Option<ScriptedUser>,
    pub(super) calls: SkillCallRecorder,
}

impl Approver for SkillQuestionRecordingApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        let mut noted = lock_ignoring_poison(&self.calls.0);
        noted.asked.push(question.tool.clone());
        if let Some(judged) = noted.find_last_pending_call(&question.tool) {
            judged.how = RecordedToolCallDecision::Asked;
        }
        drop(noted);
        match &self.person {
            Some(person) => person.ask(question),
            None => Box::pin(async { ApprovalAnswer::Yes }),
        }
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        match &self.person {
            Some(person) => person.answer(question),
            None => Box::pin(async { None }),
        }
    }
}
