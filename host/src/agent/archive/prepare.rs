//! Prepares due turns for their holders while another turn runs: calls the hooks of
//! `before-archive` and has each turn summarized.
//!
//! Preparing changes nothing in the session: the prepared turns wait until the agent
//! [takes](ArchiveBatch::take) them at a safe point. A batch can therefore be dropped at any time.
//! Start from [`ArchiveBatch::begin_batch`].

use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::finished::FinishedTurn;
use super::summary;
use crate::agent::compact::cut_middle;
use crate::agent::request::NoAnswer;
use crate::agent::scope::TurnScope;
use crate::agent::spec::agent_id;
use crate::agent::stop::blocked_by;
use crate::event::Event;
use crate::lock::lock;
use crate::message::Message;
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::Slice;
use crate::session::{self, DueTurn, Holder, Position};
use crate::text::error_chain;
use crate::text::printable_text;

/// Maximum length of the input's first line in the name of a holder, in characters.
const TASK_CHARS: usize = 80;

/// Maximum number of turns that are prepared while one turn runs, the oldest first. Each may cost a
/// request to the model.
const MAX_AT_ONCE: usize = 4;

/// Number of attempts at a summary before a turn is archived without one.
pub(super) const MAX_TRIES: u32 = 3;

/// Summary of a turn that compaction removed from the conversation before it was archived.
const COMPACTED: &str = "[a summary of compaction stands in its place]";

/// Reason why a turn is not archived.
pub(super) enum KeepReason {
    Refused(String),
    /// The summary failed; the next turn tries again.
    Later(String),
    /// The session cannot be written or read.
    Failed(session::Error),
}

/// A turn with its summary, or with the reason why it is not archived.
pub(super) struct PreparedArchive {
    pub(super) due: DueTurn,
    pub(super) finished: FinishedTurn,
    pub(super) asked: Message,
    pub(super) holder: Holder,
    /// Summary, or the reason why the turn is not archived.
    pub(super) summary: Result<String, KeepReason>,
}

/// Background task that prepares turns, and the turns that are ready.
pub(in crate::agent) struct ArchiveBatch {
    task: JoinHandle<()>,
    ready: Arc<Mutex<Vec<PreparedArchive>>>,
}

impl ArchiveBatch {
    /// Starts to prepare the due turns for the turn `scope`. Each has a position in the session at
    /// or before its beginning.
    pub(super) fn begin_batch(scope: &Arc<TurnScope>, due: Vec<(DueTurn, Position)>) -> Self {
        let ready: Arc<Mutex<Vec<PreparedArchive>>> = Arc::default();
        let (scope, put) = (scope.clone(), ready.clone());
        let task = tokio::spawn(async move {
            for (due, from) in due.into_iter().take(MAX_AT_ONCE) {
                let prepared = tokio::select! {
                    biased;
                    () = scope.cancel.cancelled() => return,
                    prepared = prepare_archive(&scope, due, from) => prepared,
                };
                if let Some(prepared) = prepared {
                    lock(&put).push(prepared);
                }
            }
        });
        Self { task, ready }
    }

    /// Takes the turns that are ready.
    pub(super) fn take(&self) -> Vec<PreparedArchive> {
        std::mem::take(&mut *lock(&self.ready))
    }

    /// Whether the task has ended, so that no further turn becomes ready.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Aborts the task and waits until it has ended, so that it no longer uses the session.
    pub(super) async fn stop_batch(&mut self) {
        self.task.abort();
        self.wait_for_batch().await;
    }

    /// Waits until the task has ended.
    pub(super) async fn wait_for_batch(&mut self) {
        // An error was reported where it occurred, and the turn stays due.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ArchiveBatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a turn, which begins at or after `from`, and has it summarized. Returns `None` if the turn
/// cannot be read or the current turn was interrupted; the turn then stays due.
async fn prepare_archive(
    scope: &TurnScope,
    due: DueTurn,
    from: Position,
) -> Option<PreparedArchive> {
    let (place, turn) = (scope.spec.session.place(), due.turn);
    let read = tokio::task::spawn_blocking(move || FinishedTurn::read_turn(&place, turn, from));
    let finished = match read.await {
        Ok(Ok(finished)) => finished,
        Ok(Err(error)) => {
            let why = error_chain(&error);
            let text = format!("turn {turn} cannot be archived, because it cannot be read: {why}");
            scope.spec.events.emit(Event::notice(Level::Warn, text));
            return None;
        }
        Err(_) => return None,
    };
    let asked = finished.asked().cloned()?;
    let holder = Holder {
        agent: agent_id("held").to_string(),
        task: summary_task(&asked.joined_text()),
    };
    let summary = summed_up(scope, &due, &finished, &holder.agent).await?;
    Some(PreparedArchive {
        due,
        finished,
        asked,
        holder,
        summary,
    })
}

/// Calls the hooks of `before-archive`, then has the turn summarized unless a hook provided a
/// summary. Returns `None` if the current turn was interrupted.
async fn summed_up(
    scope: &TurnScope,
    due: &DueTurn,
    finished: &FinishedTurn,
    agent: &str,
) -> Option<Result<String, KeepReason>> {
    if finished.is_settled {
        return Some(Ok(String::new()));
    }
    let mut slice = Slice {
        reason: due.reason.clone(),
        messages: finished.build_slice(&scope.spec.session),
        summary: String::new(),
    };
    let is_compacted = slice.messages.is_empty();
    if is_compacted {
        slice.messages.clone_from(&finished.messages);
    }
    let caller = scope.scope_caller(0);
    let judged = scope
        .emitter
        .dispatch_hooks::<at::BeforeArchive>(&caller, slice)
        .await;
    if let Some(said) = blocked_by(&judged) {
        let why = format!("plugin {} held it back: {}", said.plugin, said.text);
        return Some(Err(KeepReason::Refused(why)));
    }
    let own = judged.value.summary.trim();
    if !own.is_empty() {
        return Some(Ok(cut_middle(own, summary::MAX_BYTES)));
    }
    if is_compacted {
        return Some(Ok(COMPACTED.to_owned()));
    }
    let summary = match summary::sum_up(scope, &caller, &finished.messages, agent).await {
        Ok(summary) => summary,
        Err(NoAnswer::Session(error)) => return Some(Err(KeepReason::Failed(error))),
        Err(NoAnswer::Cancelled) => return None,
        // A hook refused the request for the summary, so the turn is not archived.
        Err(no) => return Some(Err(KeepReason::Refused(no.to_string()))),
    };
    let why = match summary {
        Ok(text) => return Some(Ok(text)),
        Err(why) => why,
    };
    if due.tries + 1 < MAX_TRIES {
        return Some(Err(KeepReason::Later(why)));
    }
    let text = format!(
        "no summary of the archived turn could be written in {MAX_TRIES} tries: {why}; `query_subagent` finds its content"
    );
    scope.spec.events.emit(Event::notice(Level::Warn, text));
    Some(Ok(summary::UNAVAILABLE.to_owned()))
}

/// Returns the name of a holder: `Archive:` and the first line of the user's message.
fn summary_task(asked: &str) -> String {
    let line = asked.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = printable_text(line.unwrap_or_default())
        .replace('\t', " ")
        .chars()
        .take(TASK_CHARS)
        .collect();
    format!("Archive: {}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_called_by_the_first_line_of_what_was_asked() {
        assert_eq!(
            summary_task("\n  Find the\tauth handler \nplease"),
            "Archive: Find the auth handler"
        );
        assert_eq!(summary_task(" \n"), "Archive: ");
        assert_eq!(
            summary_task(&"é".repeat(200)).chars().count(),
            9 + TASK_CHARS
        );
        assert_eq!(summary_task("a\u{1b}[2Kb"), "Archive: a\\u{1b}[2Kb");
    }
}
