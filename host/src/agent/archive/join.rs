//! Archives the finished turns of one agent: records them as due, prepares them, moves each to a
//! holder (a subagent that keeps the turn), and reports the outcome.
//!
//! Start from [`TurnsToArchiveQueue`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::finished::FinishedTurnTranscript;
use super::prepare::{
    ArchivePreparationTask, MAX_SUMMARY_ATTEMPTS, TurnNotArchivedReason, TurnPreparedForArchiving,
};
use super::trigger::{self, TurnArchivalFacts};
use crate::agent::compact::AgentRequestSizes;
use crate::agent::scope::SharedTurnState;
use crate::agent::spec::AgentSpec;
use crate::event::Event;
use crate::message::{Message, unanswered_calls};
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::{FailureReport, Slice, StopReason};
use crate::session::{self, Body, FramePosition, Session, SessionSpec, TurnDueForArchiving};
use crate::text::format_error_chain;

/// Task that moves a turn to its holder. Returns the id of the holder and the removed messages, or
/// the number of messages and the error.
type ArchivedTurnMoveTask = JoinHandle<Result<(String, Slice), (u32, session::Error)>>;

/// Maximum time to wait for a summary that is being written when a session closes.
const SUMMARY_WAIT_TIMEOUT_ON_CLOSE: Duration = Duration::from_secs(3);

/// Queue of an agent's turns that are to be archived: those that are prepared while the current
/// turn runs, and the one whose messages are being moved to its holder.
#[derive(Default)]
pub(in crate::agent) struct TurnsToArchiveQueue {
    /// Task that prepares earlier turns for archiving in the background, if one is running.
    preparing: Option<ArchivePreparationTask>,
    /// Task that moves the messages of a turn to the turn's holder, if one is running.
    moving: Option<ArchivedTurnMoveTask>,
    /// Positions in the session at which the due turns of this process begin, by turn number. Each
    /// turn is read from its position, because reading from the start of the session would take
    /// longer with every turn.
    begins_at: BTreeMap<u32, FramePosition>,
}

impl TurnsToArchiveQueue {
    /// Starts to prepare the turns that are due for archiving, in the background while the turn
    /// `scope` runs.
    pub(in crate::agent) fn begin_preparing_due_turns(
        &mut self,
        spec: &AgentSpec,
        scope: &Arc<SharedTurnState>,
    ) {
        if !spec.config.archival.enabled || self.preparing.is_some() {
            return;
        }
        let due = spec.session.turns_due_for_archival();
        let begins_at = std::mem::take(&mut self.begins_at);
        let begins_at = begins_at
            .into_iter()
            .filter(|(turn, _)| due.iter().any(|due| due.turn == *turn));
        self.begins_at = begins_at.collect();
        if !due.is_empty() {
            let due = due.into_iter().map(|due| {
                // If the turn has no entry in `begins_at`, an earlier process recorded it as due;
                // search the session from its start.
                let from = self.begins_at.get(&due.turn).copied();
                (due, from.unwrap_or(FramePosition::START))
            });
            self.preparing = Some(ArchivePreparationTask::begin_preparing_turns(
                scope,
                due.collect(),
            ));
        }
    }

    /// Records the ended turn `scope` as due for archiving, if one of the triggers applies. The
    /// turn begins at the position `begins_at` of the session.
    pub(in crate::agent) async fn record_turn_due_for_archive(
        &mut self,
        scope: &Arc<SharedTurnState>,
        compaction: &AgentRequestSizes,
        begins_at: FramePosition,
        stop: StopReason,
    ) {
        let spec = &scope.spec;
        if !spec.config.archival.enabled || scope.cancel.is_cancelled() {
            return;
        }
        let (place, turn, from) = (spec.session.session_location(), scope.number, begins_at);
        let read = tokio::task::spawn_blocking(move || {
            FinishedTurnTranscript::read_turn(&place, turn, from)
        });
        let finished = match read.await {
            Ok(Ok(finished)) => finished,
            Ok(Err(error)) => return report_archive_session_error(spec, scope, 0, error).await,
            Err(_) => return,
        };
        let n_calls = finished.messages.iter().flat_map(Message::tool_calls);
        let facts = TurnArchivalFacts {
            depth: spec.depth,
            stop,
            n_calls: n_calls.count(),
            tokens: compaction.estimate_messages_tokens(&spec.model, &finished.messages),
        };
        let reason = trigger::reason_to_archive_turn(&spec.config.archival.trigger, &facts);
        // Do not archive a turn with an unanswered call, because the call has not ended yet. Do not
        // archive a turn that continues an interrupted turn, because it has no input after which
        // the summary could be inserted.
        if let Some(reason) = reason
            && finished.first_input().is_some()
            && unanswered_calls(&finished.messages).next().is_none()
        {
            self.begins_at.insert(turn, begins_at);
            record_archive_attempt(&spec.session, turn, reason, 0, false);
        }
    }

    /// Archives the turns whose summaries are prepared. Must be called only while the turn `scope`
    /// has no unanswered call and no running request.
    pub(in crate::agent) async fn archive_prepared_turns(
        &mut self,
        spec: &AgentSpec,
        scope: &Arc<SharedTurnState>,
        compaction: &mut AgentRequestSizes,
    ) {
        // Finish the move of a turn to its holder that an interrupted turn left incomplete.
        self.finish_moving_turn_to_archive(spec, scope, compaction)
            .await;
        let Some(archiving) = &self.preparing else {
            return;
        };
        // Read `is_over` before taking the prepared turns, so that turns that become ready in
        // between are handled at the next call.
        let is_over = archiving.has_task_ended();
        let ready = archiving.take_prepared_archives();
        if is_over {
            self.preparing = None;
        }
        for prepared in ready {
            self.move_prepared_turn_to_archive(spec, scope, compaction, prepared)
                .await;
        }
    }

    /// Waits until the turns that are being prepared for archiving in the background are prepared.
    pub(in crate::agent) async fn wait_for_preparation(&mut self) {
        if let Some(preparing) = &mut self.preparing {
            preparing.wait_for_prepared_turns().await;
        }
    }

    /// Waits, when the session is closed, until the turns are prepared for archiving, at most for
    /// [`SUMMARY_WAIT_TIMEOUT_ON_CLOSE`]. Returns whether any turn was being prepared.
    pub(in crate::agent) async fn wait_for_archival_preparation_before_close(
        &mut self,
        scope: &SharedTurnState,
    ) -> bool {
        let Some(preparing) = &mut self.preparing else {
            return false;
        };
        tokio::select! {
            () = preparing.wait_for_prepared_turns() => {}
            () = scope.cancel.cancelled() => {}
            () = tokio::time::sleep(SUMMARY_WAIT_TIMEOUT_ON_CLOSE) => {}
        }
        true
    }

    /// Cancels the background preparation of turns for archiving. The turns remain to be archived.
    pub(in crate::agent) async fn cancel_archival_preparation(&mut self) {
        if let Some(mut archiving) = self.preparing.take() {
            archiving.stop_preparing_turns().await;
        }
    }

    async fn move_prepared_turn_to_archive(
        &mut self,
        spec: &AgentSpec,
        scope: &Arc<SharedTurnState>,
        compaction: &mut AgentRequestSizes,
        prepared: TurnPreparedForArchiving,
    ) {
        let session = spec.session.clone();
        let due = prepared.due.clone();
        if prepared.finished.is_settled {
            return record_next_archive_attempt(&session, &due, true);
        }
        let mut slice = prepared.finished.messages_still_in_conversation(&session);
        // Compaction has removed the turn from the conversation, but the session file still has the
        // turn for the holder.
        let is_compacted = slice.is_empty();
        if is_compacted {
            slice.clone_from(&prepared.finished.messages);
        }
        let n_messages = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        spec.events.emit(Event::ArchiveStart {
            messages: n_messages,
            tokens: compaction.estimate_messages_tokens(&spec.model, &slice),
            reason: due.reason.clone(),
        });
        let summary = match &prepared.summary {
            Ok(summary) => summary.clone(),
            Err(_) => return report_turn_not_archived(spec, scope, n_messages, prepared).await,
        };
        // Keep the text of a skill that is still active, because the model needs it and the summary
        // does not contain it.
        let asked = prepared.asked.id.clone();
        let leaving = slice.iter().filter(|message| message.id != asked);
        let leaving: Vec<Message> = leaving.cloned().collect();
        let stays = (!is_compacted).then(|| MessagesKeptWithSummary {
            asked: prepared.asked.clone(),
            again: scope.skills.skill_texts_to_repeat(&leaving),
        });
        let slice = Slice {
            reason: due.reason.clone(),
            messages: slice,
            summary,
        };
        let of_holder = SessionSpec {
            workspace: spec.workspace.clone(),
            provider: spec.provider.name().to_owned(),
            model: spec.model.clone(),
        };
        // Use a blocking thread, because it continues to the end even if the turn is dropped.
        self.moving = Some(tokio::task::spawn_blocking(move || {
            let holder = prepared.holder.agent.clone();
            let result = move_turn_to_subagent(&session, &of_holder, prepared, &slice, stays);
            if result.is_err() {
                record_next_archive_attempt(&session, &due, due.tries + 1 >= MAX_SUMMARY_ATTEMPTS);
            }
            result
                .map(|()| (holder, slice))
                .map_err(|error| (n_messages, error))
        }));
        self.finish_moving_turn_to_archive(spec, scope, compaction)
            .await;
    }

    /// Waits until the turn that is being moved to its holder was moved, if there is such a turn.
    /// Reports the outcome.
    async fn finish_moving_turn_to_archive(
        &mut self,
        spec: &AgentSpec,
        scope: &Arc<SharedTurnState>,
        compaction: &mut AgentRequestSizes,
    ) {
        let Some(moving) = &mut self.moving else {
            return;
        };
        let moved = moving.await;
        self.moving = None;
        match moved {
            Ok(Ok((holder, slice))) => {
                compaction.reset_compaction_backoffs();
                let caller = scope.caller_info_for_step(0);
                let shown = scope
                    .emitter
                    .text_for_observers(&caller, slice.summary.clone())
                    .await;
                spec.events.emit(Event::ArchiveEnd {
                    messages: u32::try_from(slice.messages.len()).unwrap_or(u32::MAX),
                    holder: Some(holder),
                    summary: Some(shown),
                    refused: None,
                });
                scope
                    .emitter
                    .dispatch_hooks::<at::AfterArchive>(&caller, slice)
                    .await;
            }
            Ok(Err((n_messages, error))) => {
                report_archive_session_error(spec, scope, n_messages, error).await
            }
            Err(_) => {}
        }
    }
}

/// Reports that a turn was not archived, with the reason, and records whether archiving is tried
/// again.
async fn report_turn_not_archived(
    spec: &AgentSpec,
    scope: &Arc<SharedTurnState>,
    messages: u32,
    prepared: TurnPreparedForArchiving,
) {
    let TurnPreparedForArchiving { due, summary, .. } = prepared;
    let session = &spec.session;
    let why = match summary {
        Err(TurnNotArchivedReason::Refused(why)) => {
            record_next_archive_attempt(session, &due, true);
            why
        }
        Err(TurnNotArchivedReason::Later(why)) => {
            record_next_archive_attempt(session, &due, false);
            format!("its summary is not written yet: {why}; the next turn tries again")
        }
        Err(TurnNotArchivedReason::Failed(error)) => {
            record_next_archive_attempt(session, &due, due.tries + 1 >= MAX_SUMMARY_ATTEMPTS);
            return report_archive_session_error(spec, scope, messages, error).await;
        }
        Ok(_) => return,
    };
    emit_turn_not_archived(spec, messages, why);
}

fn emit_turn_not_archived(spec: &AgentSpec, messages: u32, why: String) {
    spec.events.emit(Event::ArchiveEnd {
        messages,
        holder: None,
        summary: None,
        refused: Some(why),
    });
}

/// Reports an error of the session as the reason why a turn was not archived. A turn that was due
/// to be archived stays due.
async fn report_archive_session_error(
    spec: &AgentSpec,
    scope: &Arc<SharedTurnState>,
    messages: u32,
    error: session::Error,
) {
    let why = format_error_chain(&error);
    emit_turn_not_archived(spec, messages, why.clone());
    let report = FailureReport {
        where_: "session".to_owned(),
        message: why,
        plugin: None,
    };
    let caller = scope.caller_info_for_step(0);
    scope
        .emitter
        .dispatch_hooks::<at::Error>(&caller, report)
        .await;
}

/// Warns at the beginning of a session if the configured style of summaries does not suit the
/// provider.
pub(in crate::agent) fn warn_unsuitable_summary_style(spec: &AgentSpec) {
    let config = &spec.config.archival;
    let provider = spec.provider.name();
    if config.enabled && config.summary.style != config.summary.summary_style_for_provider(provider)
    {
        spec.events.emit(Event::create_host_notice(
            Level::Warn,
            format!(
                "archival.summary.style = \"structured\" does not work well with {provider}, so summaries are written as paragraphs"
            ),
        ));
    }
}

/// Records an attempt to archive a due turn. `is_over` is whether this is the last attempt.
fn record_next_archive_attempt(session: &Session, due: &TurnDueForArchiving, is_over: bool) {
    record_archive_attempt(session, due.turn, &due.reason, due.tries + 1, is_over);
}

fn record_archive_attempt(session: &Session, turn: u32, reason: &str, tries: u32, is_over: bool) {
    let written = session.append(Body::Archival {
        turn,
        reason: reason.to_owned(),
        tries,
        is_over,
    });
    // Ignore the error: the turn on disk is complete and unchanged, and a later write will report a
    // full disk.
    if let Err(error) = written {
        tracing::warn!(turn, %error, "cannot record that a turn was archived");
    }
}

/// Messages of an archived turn that stay in the conversation next to its summary.
struct MessagesKeptWithSummary {
    /// Message with the input that began the archived turn.
    asked: Message,
    /// Messages with the texts of skills that are still active.
    again: Vec<Message>,
}

/// Writes a turn to the session file of its holder (the subagent that will contain the turn), then
/// replaces the turn's messages in the conversation by `stays` and the summary. `stays` is `None`
/// if compaction has already removed the messages.
fn move_turn_to_subagent(
    session: &Session,
    of_holder: &SessionSpec,
    prepared: TurnPreparedForArchiving,
    slice: &Slice,
    stays: Option<MessagesKeptWithSummary>,
) -> Result<(), session::Error> {
    let TurnPreparedForArchiving {
        due,
        finished,
        holder,
        ..
    } = prepared;
    let agent = holder.agent.clone();
    // Remove incomplete holders (subagents for archived turns), which an earlier process may have
    // left when it was killed.
    session::remove_unfinished_archived_turn_holders(session);
    session.create_archive_holder_session(&agent, of_holder, finished.entries)?;
    let messages = match stays {
        Some(MessagesKeptWithSummary { asked, again }) => {
            let summary = Message::for_archived_turn(&agent, &slice.summary);
            [asked, summary].into_iter().chain(again).collect()
        }
        None => Vec::new(),
    };
    let replaced = session.append(Body::Replaced {
        reason: slice.reason.clone(),
        removed: slice.messages.iter().map(|m| m.id.clone()).collect(),
        messages,
        holder: Some(holder),
    });
    // Remove the holder's file: no tool can query it, so it would only use disk space.
    replaced.inspect_err(|_| session.remove_archive_holder_session(&agent))?;
    record_next_archive_attempt(session, &due, true);
    session.sync()
}
