//! Prepares due turns for archiving while another turn runs: calls the hooks of `before-archive`,
//! and has a model summarize each turn.
//!
//! Preparing changes nothing in the session: the prepared turns wait until the agent
//! [takes](ArchivePreparationTask::take_prepared_archives) them at a safe point. A batch can
//! therefore be dropped at any time. Start from [`ArchivePreparationTask::begin_preparing_turns`].

use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::finished::FinishedTurnTranscript;
use super::summary;
use crate::agent::compact::truncate_text_middle;
use crate::agent::request::NoModelAnswerReason;
use crate::agent::scope::SharedTurnState;
use crate::agent::spec::new_agent_id;
use crate::agent::stop::hook_block_reason;
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::message::Message;
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::Slice;
use crate::session::{self, FramePosition, Holder, TurnDueForArchiving};
use crate::text::format_error_chain;
use crate::text::printable_text;

/// Maximum number of characters of the user's first line of input that a holder's name contains.
const MAX_SUBAGENT_NAME_INPUT_CHARS: usize = 80;

/// Maximum number of turns that are prepared while one turn runs; the oldest turns are prepared
/// first. Each may cost a request to the model.
const MAX_ARCHIVE_PREPARATIONS_PER_RUNNING_TURN: usize = 4;

/// Number of attempts at a summary before a turn is archived without one.
pub(super) const MAX_SUMMARY_ATTEMPTS: u32 = 3;

/// Text in place of the summary, for a turn that compaction removed from the conversation before
/// the turn was archived.
const COMPACTED_TURN_SUMMARY_PLACEHOLDER: &str = "[a summary of compaction stands in its place]";

/// Reason why a turn is not archived.
pub(super) enum TurnNotArchivedReason {
    Refused(String),
    /// The summary failed. Archiving is tried again in the next turn.
    Later(String),
    /// The session cannot be written or read, for this reason.
    Failed(session::Error),
}

/// Turn that is prepared for archiving, with its summary or the reason why it is not archived.
pub(super) struct TurnPreparedForArchiving {
    pub(super) due: TurnDueForArchiving,
    pub(super) finished: FinishedTurnTranscript,
    pub(super) asked: Message,
    pub(super) holder: Holder,
    /// Summary, or the reason why the turn is not archived.
    pub(super) summary: Result<String, TurnNotArchivedReason>,
}

/// Background task that prepares turns for archiving, and the turns that it has prepared.
pub(in crate::agent) struct ArchivePreparationTask {
    task: JoinHandle<()>,
    ready: Arc<Mutex<Vec<TurnPreparedForArchiving>>>,
}

impl ArchivePreparationTask {
    /// Starts to prepare the turns `due` in the background, while the turn `scope` runs. Each turn
    /// in `due` begins at or after the position next to it.
    pub(super) fn begin_preparing_turns(
        scope: &Arc<SharedTurnState>,
        due: Vec<(TurnDueForArchiving, FramePosition)>,
    ) -> Self {
        let ready: Arc<Mutex<Vec<TurnPreparedForArchiving>>> = Arc::default();
        let (scope, put) = (scope.clone(), ready.clone());
        let task = tokio::spawn(async move {
            for (due, from) in due
                .into_iter()
                .take(MAX_ARCHIVE_PREPARATIONS_PER_RUNNING_TURN)
            {
                let prepared = tokio::select! {
                    biased;
                    () = scope.cancel.cancelled() => return,
                    prepared = prepare_archive(&scope, due, from) => prepared,
                };
                if let Some(prepared) = prepared {
                    lock_ignoring_poison(&put).push(prepared);
                }
            }
        });
        Self { task, ready }
    }

    /// Removes the prepared turns from the batch, and returns them.
    pub(super) fn take_prepared_archives(&self) -> Vec<TurnPreparedForArchiving> {
        std::mem::take(&mut *lock_ignoring_poison(&self.ready))
    }

    /// Whether the background task has ended, so that it prepares no further turns.
    pub(super) fn has_task_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Aborts the task and waits until it has ended, so that it no longer uses the session.
    pub(super) async fn stop_preparing_turns(&mut self) {
        self.task.abort();
        self.wait_for_prepared_turns().await;
    }

    /// Waits until the task that prepares turns for archival has ended.
    pub(super) async fn wait_for_prepared_turns(&mut self) {
        // Ignore the error: it was reported where it occurred, and the turn stays due.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ArchivePreparationTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a turn, which begins at or after `from`, and has a model summarize it. Returns `None` if
/// the turn cannot be read or the current turn was interrupted; the turn `due` then remains to be
/// archived.
async fn prepare_archive(
    scope: &SharedTurnState,
    due: TurnDueForArchiving,
    from: FramePosition,
) -> Option<TurnPreparedForArchiving> {
    let (place, turn) = (scope.spec.session.session_location(), due.turn);
    let read =
        tokio::task::spawn_blocking(move || FinishedTurnTranscript::read_turn(&place, turn, from));
    let finished = match read.await {
        Ok(Ok(finished)) => finished,
        Ok(Err(error)) => {
            let why = format_error_chain(&error);
            let text = format!("turn {turn} cannot be archived, because it cannot be read: {why}");
            scope
                .spec
                .events
                .emit(Event::create_host_notice(Level::Warn, text));
            return None;
        }
        Err(_) => return None,
    };
    let asked = finished.first_input().cloned()?;
    let holder = Holder {
        agent: new_agent_id("held").to_string(),
        task: archival_subagent_name(&asked.joined_text()),
    };
    let summary = summarize_finished_turn(scope, &due, &finished, &holder.agent).await?;
    Some(TurnPreparedForArchiving {
        due,
        finished,
        asked,
        holder,
        summary,
    })
}

/// Calls the hooks of `before-archive`. If no hook provides a summary, has a model write one.
/// Returns `None` if the current turn was interrupted.
async fn summarize_finished_turn(
    scope: &SharedTurnState,
    due: &TurnDueForArchiving,
    finished: &FinishedTurnTranscript,
    agent: &str,
) -> Option<Result<String, TurnNotArchivedReason>> {
    if finished.is_settled {
        return Some(Ok(String::new()));
    }
    let mut slice = Slice {
        reason: due.reason.clone(),
        messages: finished.messages_still_in_conversation(&scope.spec.session),
        summary: String::new(),
    };
    let is_compacted = slice.messages.is_empty();
    if is_compacted {
        slice.messages.clone_from(&finished.messages);
    }
    let caller = scope.caller_info_for_step(0);
    let judged = scope
        .emitter
        .dispatch_hooks::<at::BeforeArchive>(&caller, slice)
        .await;
    if let Some(said) = hook_block_reason(&judged) {
        let why = format!("refused by plugin {}: {}", said.plugin, said.text);
        return Some(Err(TurnNotArchivedReason::Refused(why)));
    }
    let own = judged.value.summary.trim();
    if !own.is_empty() {
        return Some(Ok(truncate_text_middle(own, summary::MAX_SUMMARY_BYTES)));
    }
    if is_compacted {
        return Some(Ok(COMPACTED_TURN_SUMMARY_PLACEHOLDER.to_owned()));
    }
    let summary =
        match summary::ask_model_for_summary(scope, &caller, &finished.messages, agent).await {
            Ok(summary) => summary,
            Err(NoModelAnswerReason::Session(error)) => {
                return Some(Err(TurnNotArchivedReason::Failed(error)));
            }
            Err(NoModelAnswerReason::Cancelled) => return None,
            // A hook refused the request for the summary, so do not archive the turn.
            Err(no) => return Some(Err(TurnNotArchivedReason::Refused(no.to_string()))),
        };
    let why = match summary {
        Ok(text) => return Some(Ok(text)),
        Err(why) => why,
    };
    if due.tries + 1 < MAX_SUMMARY_ATTEMPTS {
        return Some(Err(TurnNotArchivedReason::Later(why)));
    }
    let text = format!(
        "no summary of the archived turn could be written in {MAX_SUMMARY_ATTEMPTS} tries: {why}; the turn can still be read with `query_subagent`"
    );
    scope
        .spec
        .events
        .emit(Event::create_host_notice(Level::Warn, text));
    Some(Ok(summary::SUMMARY_UNAVAILABLE_PLACEHOLDER.to_owned()))
}

/// Returns the name of a holder: `Archive:` and the first line of the user's message.
fn archival_subagent_name(asked: &str) -> String {
    let line = asked.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = printable_text(line.unwrap_or_default())
        .replace('\t', " ")
        .chars()
        .take(MAX_SUBAGENT_NAME_INPUT_CHARS)
        .collect();
    format!("Archive: {}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_called_by_the_first_line_of_what_was_asked() {
        assert_eq!(
            archival_subagent_name("\n  Find the\tauth handler \nplease"),
            "Archive: Find the auth handler"
        );
        assert_eq!(archival_subagent_name(" \n"), "Archive: ");
        assert_eq!(
            archival_subagent_name(&"é".repeat(200)).chars().count(),
            9 + MAX_SUBAGENT_NAME_INPUT_CHARS
        );
        assert_eq!(
            archival_subagent_name("a\u{1b}[2Kb"),
            "Archive: a\\u{1b}[2Kb"
        );
    }
}
