//! Lets plugins ask the user questions.

use std::sync::Arc;

use super::{PluginHostCallExecutor, turn_interrupted_error};
use crate::agent::budget::LimitedHostCallKind;
use crate::event::Event;
use crate::point::caller::Caller;
use crate::point::handle::{HostFunctionError, PluginUserQuestion, UserAnswerToPlugin};
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;
use crate::tool::approval::Approver;

/// Maximum length, in bytes, of a text with which the user answers a plugin's question.
const MAX_USER_ANSWER_BYTES: usize = 1_000;

impl PluginHostCallExecutor<'_> {
    /// Asks the user a plugin's question, and waits for the answer or the end of the turn. If no
    /// user can be asked, returns the question's default answer.
    pub(in crate::agent) async fn ask_person(
        &self,
        question: PluginUserQuestion,
        mut caller: Caller,
    ) -> Result<UserAnswerToPlugin, HostFunctionError> {
        let pending = self.begin_plugin_access_record(&caller, "question to the person");
        let asked = async {
            if self.scope.has_turn_ended() {
                return Err(HostFunctionError::Failed(
                    "the person can be asked only in a turn or a command, and none is running"
                        .to_owned(),
                ));
            }
            self.admit_call(LimitedHostCallKind::Person, &mut caller)?;
            let client = self.scope.clients.find_client_approver(&caller);
            let given = tokio::select! {
                biased;
                () = self.scope.cancel.cancelled() => return Err(turn_interrupted_error()),
                () = std::future::ready(()), if question.is_muted => None,
                given = self.ask_user_question(client, &question) => given,
            };
            let is_default = given.is_none();
            let answer =
                reject_secret_like_answer(given.unwrap_or_else(|| question.kind.default_answer()));
            self.scope.spec.events.emit(Event::Asked {
                plugin: self.plugin.to_string(),
                question: question.text.clone(),
                answer: match &answer {
                    Ok(answer) => question.kind.format_answer(answer),
                    Err(_) => "[not handed over]".to_owned(),
                },
                is_default,
                call_id: caller.call.as_deref().map(str::to_owned),
            });
            answer
        };
        pending.end_access_record(asked.await)
    }

    /// Asks the user of the session or, if a client's call caused the question, the user of that
    /// client. Returns `None` if no user could be asked.
    async fn ask_user_question(
        &self,
        client: Option<Option<Arc<dyn Approver>>>,
        question: &PluginUserQuestion,
    ) -> Option<UserAnswerToPlugin> {
        match client {
            // Each client has its own user, so questions of several clients may be open at once.
            Some(user) => {
                let _asking = self.scope.clients.register_open_client_question();
                user?.answer(question).await
            }
            None => {
                // Approvals and plugins' questions are asked one at a time.
                let _alone = self.scope.approvals.block_other_questions().await;
                self.scope.spec.approver.answer(question).await
            }
        }
    }
}

/// Checks an answer for a plugin. An answer that looks like a secret is withheld, because a plugin
/// must not ask for secrets.
fn reject_secret_like_answer(
    answer: UserAnswerToPlugin,
) -> Result<UserAnswerToPlugin, HostFunctionError> {
    let UserAnswerToPlugin::Text(text) = answer else {
        return Ok(answer);
    };
    if let Some(finding) = SecretScanner::shared().find_secrets(&text).first() {
        return Err(HostFunctionError::Denied(format!(
            "the answer looks like a secret ({}) and was not passed to the plugin",
            finding.rule
        )));
    }
    Ok(UserAnswerToPlugin::Text(escape_and_truncate_line(
        &text,
        MAX_USER_ANSWER_BYTES,
    )))
}
