//! Asks the users of the API questions on behalf of one session, and waits for the answers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::tool::approval::{ApprovalAnswer, Approver, Question};
use tokio::sync::oneshot;

use crate::event_log::SessionEventLog;
use crate::questions::{
    ArgumentLine, HookReason, OpenQuestion, PendingQuestions, QuestionKind, QuestionReplySender,
};

/// Approver of one session. It asks the users of the API its questions.
pub struct ApiApprover {
    board: Arc<PendingQuestions>,
    events: Arc<SessionEventLog>,
    /// Id of the session. It is set when the session is opened.
    session: Arc<OnceLock<Arc<str>>>,
    /// Maximum time that a question waits for an answer; `None` means no limit.
    answer_time: Option<Duration>,
}

impl ApiApprover {
    /// Creates an approver that posts its questions on `board` and emits events about them.
    #[must_use]
    pub fn new(
        board: Arc<PendingQuestions>,
        events: Arc<SessionEventLog>,
        session: Arc<OnceLock<Arc<str>>>,
    ) -> Self {
        Self {
            board,
            events,
            session,
            answer_time: None,
        }
    }

    /// Sets the maximum time that a question waits for an answer. After that time, the answer is no
    /// or, for a question of a plugin, the plugin's default.
    #[must_use]
    pub fn with_question_timeout(mut self, time: Option<Duration>) -> Self {
        self.answer_time = time;
        self
    }

    /// Waits for an answer; `None` if no answer arrived in time or the question was withdrawn.
    async fn wait_for_answer<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        let Some(time) = self.answer_time else {
            return answer.await.ok();
        };
        match tokio::time::timeout(time, &mut answer).await {
            Ok(given) => given.ok(),
            // Accept an answer that arrives after the timeout but before the receiver is closed.
            Err(_) => {
                answer.close();
                answer.try_recv().ok()
            }
        }
    }

    /// Returns the reason that is reported if a question got no answer.
    fn no_answer_reason(&self) -> String {
        match self.answer_time {
            None => "the question was withdrawn".to_owned(),
            Some(time) => format!("nobody answered within {} s", time.as_secs()),
        }
    }

    /// Posts a question on the board. Dropping the returned value removes the question from the
    /// board.
    fn add_pending_question(
        &self,
        about: QuestionKind,
        reply: QuestionReplySender,
    ) -> PostedQuestionGuard<'_> {
        let shown = OpenQuestion {
            id: rind_lib::clock::new_uuid_v7(),
            session: self
                .session
                .get()
                .map(|id| id.to_string())
                .unwrap_or_default(),
            asked: rind_lib::clock::now_ms(),
            about,
        };
        let id = shown.id.clone();
        let event = serde_json::json!({"type": "question", "question": shown});
        self.board.post_question(shown, reply);
        self.events.push_event("question", event.to_string());
        PostedQuestionGuard { approver: self, id }
    }
}

struct PostedQuestionGuard<'a> {
    approver: &'a ApiApprover,
    id: String,
}

impl Drop for PostedQuestionGuard<'_> {
    fn drop(&mut self) {
        self.approver.board.withdraw_question(&self.id);
        let event = serde_json::json!({"type": "question-closed", "id": self.id});
        self.approver
            .events
            .push_event("question-closed", event.to_string());
    }
}

impl Approver for ApiApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        async move {
            let (sender, answer) = oneshot::channel();
            let _posted = self.add_pending_question(
                describe_approval_question(question),
                QuestionReplySender::Approval(sender),
            );
            let no_answer = || ApprovalAnswer::No(self.no_answer_reason());
            self.wait_for_answer(answer).await.unwrap_or_else(no_answer)
        }
        .boxed()
    }

    fn answer<'a>(
        &'a self,
        question: &'a PluginUserQuestion,
    ) -> BoxFuture<'a, Option<UserAnswerToPlugin>> {
        async move {
            if question.is_muted {
                return None;
            }
            let (sender, answer) = oneshot::channel();
            let reply = QuestionReplySender::Plugin(sender, question.kind.clone());
            let _posted = self.add_pending_question(describe_plugin_question(question), reply);
            self.wait_for_answer(answer).await
        }
        .boxed()
    }
}

fn describe_approval_question(question: &Question) -> QuestionKind {
    QuestionKind::Approval {
        tool: question.tool.clone(),
        effect_class: question.effect_class.to_string(),
        plugin: question.plugin.clone(),
        by: question.by.clone(),
        may: question.may.clone(),
        arguments: question
            .arguments
            .iter()
            .map(|line| ArgumentLine {
                mark: line.mark.to_owned(),
                text: line.text.clone(),
            })
            .collect(),
        reasons: question
            .reasons
            .iter()
            .map(|(plugin, reason)| HookReason {
                plugin: plugin.clone(),
                reason: reason.clone(),
            })
            .collect(),
        always: question.covers.as_ref().ok().cloned(),
        no_always: question.covers.as_ref().err().cloned(),
    }
}

fn describe_plugin_question(question: &PluginUserQuestion) -> QuestionKind {
    let (form, options) = match &question.kind {
        PluginUserQuestionKind::Confirm { .. } => ("confirm", Vec::new()),
        PluginUserQuestionKind::Choose { options, .. } => ("choose", options.clone()),
        PluginUserQuestionKind::Text { .. } => ("text", Vec::new()),
    };
    QuestionKind::Plugin {
        plugin: question.plugin.clone(),
        text: question.text.clone(),
        form: form.to_owned(),
        options,
        default: question.kind.format_answer(&question.kind.default_answer()),
    }
}
