//! Questions of plugins to the person.

use super::{PluginCalls, interrupted_error};
use crate::agent::budget::HostCall;
use crate::event::Event;
use crate::point::caller::Caller;
use crate::point::handle::{HandleError, PersonAnswer, PersonQuestion};
use crate::secret::Scanner;
use crate::text::clean_line;

/// Longest answer that is handed over, in bytes.
const MAX_ANSWER_BYTES: usize = 1_000;

impl PluginCalls<'_> {
    /// Asks the person for a plugin, and waits as long as that takes or the turn runs. Where there
    /// is no person to ask, the answer is the default of the question.
    pub(in crate::agent) async fn ask_person(
        &self,
        question: PersonQuestion,
        mut caller: Caller,
    ) -> Result<PersonAnswer, HandleError> {
        let pending = self.begin_access(&caller, "question to the person");
        let asked = async {
            if self.scope.is_over() {
                return Err(HandleError::Failed(
                    "the person can be asked only in a turn or a command, and none is running"
                        .to_owned(),
                ));
            }
            self.admit_call(HostCall::Person, &mut caller)?;
            // Approvals and questions of plugins: one at a time.
            let _alone = self.scope.approvals.one_at_a_time().await;
            let given = tokio::select! {
                biased;
                () = self.scope.cancel.cancelled() => return Err(interrupted_error()),
                () = std::future::ready(()), if question.is_muted => None,
                given = self.scope.spec.approver.answer(&question) => given,
            };
            let is_default = given.is_none();
            let answer = check_answer(given.unwrap_or_else(|| question.kind.default_answer()));
            self.scope.spec.events.emit(Event::Asked {
                plugin: self.plugin.to_string(),
                question: question.text.clone(),
                answer: match &answer {
                    Ok(answer) => question.kind.shown(answer),
                    Err(_) => "[not handed over]".to_owned(),
                },
                is_default,
                call_id: caller.call.as_deref().map(str::to_owned),
            });
            answer
        };
        pending.end_access(asked.await)
    }
}

/// Withholds an answer that looks like a secret: a plugin must not ask for one.
fn check_answer(answer: PersonAnswer) -> Result<PersonAnswer, HandleError> {
    let PersonAnswer::Text(text) = answer else {
        return Ok(answer);
    };
    if let Some(finding) = Scanner::shared().scan(&text).first() {
        return Err(HandleError::Denied(format!(
            "the answer looks like a secret ({}) and was not handed over",
            finding.rule
        )));
    }
    Ok(PersonAnswer::Text(clean_line(&text, MAX_ANSWER_BYTES)))
}
