//! Questions of all open sessions that wait for an answer: approvals of tool calls, and questions
//! of plugins.
//!
//! A question is pending while its turn waits for the answer. Clients of the API can only
//! answer questions; they cannot extend permissions. A call that the policy denies never becomes a
//! question, and the host decides to which later calls an answer also applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::{PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::tool::approval::ApprovalAnswer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

/// Maximum length of the text or the reason in a person's answer to a question, in bytes.
const MAX_QUESTION_ANSWER_BYTES: usize = 16 << 10;

/// Question to the user that waits for an answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenQuestion {
    /// Id of the question, with which it is answered.
    pub id: String,
    /// Id of the session whose turn waits for the answer.
    pub session: String,
    /// Time at which the question was asked, in milliseconds since 1970.
    pub asked: i64,
    /// Tool call that needs approval, or question that a plugin asks.
    #[serde(flatten)]
    pub about: QuestionKind,
}

/// Kind of a question, with its content.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum QuestionKind {
    /// Question whether this tool call may run.
    Approval {
        /// Name of the tool that would be called.
        tool: String,
        /// Class of the tool's effects: `read`, `write`, `execute` or `external`.
        effect_class: String,
        /// Plugin that provides the tool; absent for a built-in tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Plugin that makes the call; absent if the model makes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Permissions of the plugin that provides the tool, as text.
        may: Vec<String>,
        /// Arguments of the call, line by line.
        arguments: Vec<ArgumentLine>,
        /// Plugins whose hooks demand the approval, each with its reason.
        reasons: Vec<HookReason>,
        /// Later calls that the answer `always` allows, as text; absent if `always` is not offered.
        #[serde(skip_serializing_if = "Option::is_none")]
        always: Option<String>,
        /// Reason why the answer `always` is not offered; absent if it is offered.
        #[serde(skip_serializing_if = "Option::is_none")]
        no_always: Option<String>,
    },
    /// Question that a plugin asks the user.
    Plugin {
        /// Name of the plugin that asks.
        plugin: String,
        /// Text of the question, as the plugin wrote it.
        text: String,
        /// Form of the expected answer: `confirm` (yes or no), `choose` (one of `options`) or
        /// `text`.
        form: String,
        /// Answers to choose from; absent unless `form` is `choose`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
        /// Answer that the plugin gets if no user can be asked.
        default: String,
    },
}

/// One line of a tool call's arguments.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ArgumentLine {
    /// Mark before the text, such as `$ `, `+ ` or `- `.
    pub mark: String,
    /// Text of the line, exactly as the call contains it.
    pub text: String,
}

/// Reason why a plugin's hook demands that a tool call be approved.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HookReason {
    /// Name of the plugin whose hook demands the approval.
    pub plugin: String,
    /// Reason for the demand, as the plugin wrote it.
    pub reason: String,
}

/// Answer to an open question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerBody {
    /// Answer: for approvals `yes`, `no` or `always`; for questions of plugins `yes` or `no`, the
    /// index of a choice counted from 0, or the text.
    pub answer: String,
    /// Reason why the call is rejected, which the model reads; absent without a reason.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Reason why an answer to a question was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionAnswerError {
    /// No question has this id.
    #[error("no open question `{0}`: it was answered, or its turn has ended")]
    Unknown(String),
    /// The answer does not fit the question. Contains the reason, for display.
    #[error("{0}")]
    Unfit(String),
}

struct UnansweredQuestion {
    shown: OpenQuestion,
    reply: QuestionReplySender,
}

pub(crate) enum QuestionReplySender {
    Approval(oneshot::Sender<ApprovalAnswer>),
    Plugin(oneshot::Sender<UserAnswerToPlugin>, PluginUserQuestionKind),
}

/// Unanswered questions of all open sessions.
pub struct PendingQuestions {
    waiting: Mutex<BTreeMap<String, UnansweredQuestion>>,
    version: watch::Sender<u64>,
}

impl Default for PendingQuestions {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }
}

impl PendingQuestions {
    /// Returns the open questions of `session`, or of all sessions if it is `None`, oldest first.
    #[must_use]
    pub fn unanswered_questions(&self, session: Option<&str>) -> Vec<OpenQuestion> {
        let waiting = lock_ignoring_poison(&self.waiting);
        let all = waiting.values().map(|waiting| &waiting.shown);
        let of_session = all.filter(|shown| session.is_none_or(|id| shown.session == id));
        let mut open: Vec<OpenQuestion> = of_session.cloned().collect();
        open.sort_by(|a, b| (a.asked, &a.id).cmp(&(b.asked, &b.id)));
        open
    }

    /// Returns the ids of the sessions whose turns wait for an answer.
    pub(crate) fn sessions_with_open_questions(&self) -> BTreeSet<String> {
        let waiting = lock_ignoring_poison(&self.waiting);
        let sessions = waiting.values().map(|waiting| &waiting.shown.session);
        sessions.cloned().collect()
    }

    /// Answers a question.
    ///
    /// # Errors
    /// No open question has this id, or the answer is not valid for the question.
    pub fn answer_question(&self, id: &str, body: &AnswerBody) -> Result<(), QuestionAnswerError> {
        let mut waiting = lock_ignoring_poison(&self.waiting);
        let unknown = || QuestionAnswerError::Unknown(id.to_owned());
        let question = waiting.get(id).ok_or_else(unknown)?;
        // Parse the answer before removing the question from the board, so that the question stays
        // open if the answer is invalid.
        let parsed = question.parse_answer(body)?;
        let question = waiting.remove(id).ok_or_else(unknown)?;
        drop(waiting);
        self.version.send_modify(|version| *version += 1);
        let is_heard = match (question.reply, parsed) {
            (QuestionReplySender::Approval(sender), ParsedQuestionAnswer::Approval(answer)) => {
                sender.send(answer).is_ok()
            }
            (QuestionReplySender::Plugin(sender, _), ParsedQuestionAnswer::Plugin(answer)) => {
                sender.send(answer).is_ok()
            }
            _ => false,
        };
        if is_heard { Ok(()) } else { Err(unknown()) }
    }

    pub(crate) fn post_question(&self, shown: OpenQuestion, reply: QuestionReplySender) {
        lock_ignoring_poison(&self.waiting)
            .insert(shown.id.clone(), UnansweredQuestion { shown, reply });
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn withdraw_question(&self, id: &str) {
        if lock_ignoring_poison(&self.waiting).remove(id).is_some() {
            self.version.send_modify(|version| *version += 1);
        }
    }
}

enum ParsedQuestionAnswer {
    Approval(ApprovalAnswer),
    Plugin(UserAnswerToPlugin),
}

impl UnansweredQuestion {
    fn parse_answer(&self, body: &AnswerBody) -> Result<ParsedQuestionAnswer, QuestionAnswerError> {
        let reason = body.reason.as_deref().unwrap_or_default();
        if body.answer.len().max(reason.len()) > MAX_QUESTION_ANSWER_BYTES {
            return invalid_answer_error(format!(
                "an answer to a question may have at most {MAX_QUESTION_ANSWER_BYTES} bytes"
            ));
        }
        match &self.reply {
            QuestionReplySender::Approval(_) => self.parse_approval_answer(&body.answer, reason),
            QuestionReplySender::Plugin(_, kind) => {
                parse_plugin_question_answer(kind, &body.answer)
            }
        }
    }

    fn parse_approval_answer(
        &self,
        answer: &str,
        reason: &str,
    ) -> Result<ParsedQuestionAnswer, QuestionAnswerError> {
        let QuestionKind::Approval {
            always, no_always, ..
        } = &self.shown.about
        else {
            return invalid_answer_error("the question is not an approval");
        };
        let answer = match answer {
            "yes" => ApprovalAnswer::Yes,
            "no" if reason.is_empty() => ApprovalAnswer::No("the person said no".to_owned()),
            "no" => ApprovalAnswer::No(format!("the person said no: {reason}")),
            "always" if always.is_some() => ApprovalAnswer::Always,
            "always" => {
                let why = no_always.as_deref().unwrap_or("it covers nothing");
                return invalid_answer_error(format!(
                    "`always` cannot answer this question: {why}"
                ));
            }
            _ => return invalid_answer_error("the answer must be `yes`, `no` or `always`"),
        };
        Ok(ParsedQuestionAnswer::Approval(answer))
    }
}

fn parse_plugin_question_answer(
    kind: &PluginUserQuestionKind,
    answer: &str,
) -> Result<ParsedQuestionAnswer, QuestionAnswerError> {
    let answer = match kind {
        PluginUserQuestionKind::Confirm { .. } => match answer {
            "yes" => UserAnswerToPlugin::Yes(true),
            "no" => UserAnswerToPlugin::Yes(false),
            _ => return invalid_answer_error("the answer must be `yes` or `no`"),
        },
        PluginUserQuestionKind::Choose { options, .. } => {
            let chosen = answer.parse::<u32>().ok();
            let chosen = chosen.filter(|at| (*at as usize) < options.len());
            match chosen {
                Some(at) => UserAnswerToPlugin::Choice(at),
                None => {
                    let last = options.len().saturating_sub(1);
                    return invalid_answer_error(format!(
                        "the answer must be the number of a choice, from 0 to {last}"
                    ));
                }
            }
        }
        PluginUserQuestionKind::Text { .. } => {
            UserAnswerToPlugin::Text(rind_lib::text::escape_to_one_line(answer))
        }
    };
    Ok(ParsedQuestionAnswer::Plugin(answer))
}

fn invalid_answer_error<T>(text: impl Into<String>) -> Result<T, QuestionAnswerError> {
    Err(QuestionAnswerError::Unfit(text.into()))
}
