//! Archival: a finished turn is moved out of the conversation. A subagent without tools, the holder, keeps the whole of it on
//! disk; the conversation keeps the user's message and a summary with the holder's id.
//!
//! Owns when that happens, what stays and how the model gets at the rest; hooks of `before-archive` may refuse or bring a
//! summary of their own. A holder is data: no process, no limit of number, no model until it is asked. Nothing is lost on the
//! way: until the one entry is written that replaces the messages, the turn is as it was.
//!
//! At its end a turn is only [noted](Turn::note_archival) as due, in the session. What is due is prepared beside the next turn
//! of the conversation, in this process or another, and joined where that turn is between two steps: nobody waits for a
//! summary, and a conversation that is over costs none. When there is no summary the next turn tries again, a few times.
//! Subagents have one turn and nobody who would go on with it: theirs stay as they are.

pub(super) mod config;
mod finished;
mod live;
mod prepare;
mod query;
mod spawn;
mod summary;
mod transcript;
mod trigger;

use std::sync::Arc;
use std::time::Duration;

pub use config::{ArchivalConfig, Style, SubagentsConfig, SummaryConfig, TriggerConfig, check};

pub(super) use live::{add_tools, live_part};
pub(super) use prepare::Archiving;

/// A turn that is being moved: its holder and what was taken out, or how many messages and why not.
pub(super) type Moving = JoinHandle<Result<(String, Slice), (u32, session::Error)>>;

use tokio::task::JoinHandle;

use self::finished::Finished;
use self::prepare::Prepared;
use self::trigger::Facts;
use super::agent::Agent;
use super::outcome::chain;
use super::scope::TurnScope;
use super::turn::Turn;
use crate::event::Event;
use crate::message::{Message, Origin, Role, unanswered};
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::{FailureReport, Slice, StopReason};
use crate::session::{self, Body, DueTurn, Session, SessionSpec};

/// Failed attempts at a summary before a turn is archived without one.
const MAX_TRIES: u32 = 3;

/// Longest wait for a running summary when a session closes.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// Reason why a turn is not archived.
pub(super) enum Kept {
    Refused(String),
    /// The summary is not ready yet.
    Later(String),
    /// The session cannot be written or read.
    Failed(session::Error),
}

impl Turn<'_> {
    /// Notes that the turn, which has ended, is to be archived when one of the triggers says so.
    pub(super) async fn note_archival(&mut self, stop: StopReason) {
        let spec = self.agent.spec.clone();
        if !spec.config.archival.enabled || !self.agent.is_main() || self.cancel.is_cancelled() {
            return;
        }
        let (place, turn, from) = (spec.session.place(), self.number, self.begins_at);
        let read = tokio::task::spawn_blocking(move || Finished::read(&place, turn, from));
        let finished = match read.await {
            Ok(Ok(finished)) => finished,
            Ok(Err(error)) => return self.agent.cannot_archive(&self.scope, 0, error).await,
            Err(_) => return,
        };
        let n_calls = finished.messages.iter().flat_map(Message::tool_calls);
        let facts = Facts {
            stop,
            n_calls: n_calls.count(),
            tokens: self
                .agent
                .compaction
                .tokens_of(&self.agent.spec.model, &finished.messages),
        };
        let reason = trigger::reason(&spec.config.archival.trigger, &facts);
        // A call without a result: the turn is not really over.
        if let Some(reason) = reason
            && unanswered(&finished.messages).next().is_none()
        {
            write(&spec.session, self.number, reason, 0, false);
        }
    }
}

impl Agent {
    /// Begins to prepare the turns that are due, beside the turn `scope`.
    pub(super) fn begin_archival(&mut self, scope: &Arc<TurnScope>) {
        if !self.spec.config.archival.enabled || !self.is_main() || self.archiving.is_some() {
            return;
        }
        let due = self.spec.session.archival_due();
        if !due.is_empty() {
            self.archiving = Some(Archiving::begin(scope, due));
        }
    }

    /// Moves the turns out of the conversation whose summaries are there. For a safe point of the turn `scope`: no call is open,
    /// and no request is being made.
    pub(super) async fn join_archived(&mut self, scope: &Arc<TurnScope>) {
        // One whose turn was interrupted while it was moved.
        self.moved(scope).await;
        let Some(archiving) = &self.archiving else {
            return;
        };
        // Asked first: what is put there after that is for the next time.
        let is_over = archiving.is_over();
        let ready = archiving.take();
        if is_over {
            self.archiving = None;
        }
        for prepared in ready {
            self.join(scope, prepared).await;
        }
    }

    /// Archives the turns that are due, and waits for it. For whoever embeds an agent and has the time: without it they are
    /// archived beside the next turn.
    pub(crate) async fn finish_archival(&mut self) {
        let Some(scope) = self.scope.clone() else {
            return;
        };
        self.join_archived(&scope).await;
        self.begin_archival(&scope);
        if let Some(archiving) = &mut self.archiving {
            archiving.wait().await;
        }
        self.join_archived(&scope).await;
    }

    /// Joins what is about to be ready when the session is closed. What is not stays due.
    pub(super) async fn close_archival(&mut self) {
        let (Some(scope), Some(archiving)) = (self.scope.clone(), &mut self.archiving) else {
            return;
        };
        tokio::select! {
            () = archiving.wait() => {}
            () = scope.cancel.cancelled() => {}
            () = tokio::time::sleep(CLOSE_GRACE) => {}
        }
        self.join_archived(&scope).await;
        self.stop_archival().await;
    }

    /// Ends what is being prepared; it stays due.
    pub(super) async fn stop_archival(&mut self) {
        if let Some(mut archiving) = self.archiving.take() {
            archiving.stop().await;
        }
    }

    async fn join(&mut self, scope: &Arc<TurnScope>, prepared: Prepared) {
        let session = self.spec.session.clone();
        let due = prepared.due.clone();
        let slice = prepared.finished.slice(&session);
        if slice.is_empty() {
            // Compaction or an earlier archival took it out.
            return note(&session, &due, true);
        }
        let n_messages = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        self.spec.events.emit(Event::ArchiveStart {
            messages: n_messages,
            tokens: self.compaction.tokens_of(&self.spec.model, &slice),
            reason: due.reason.clone(),
        });
        let summary = match &prepared.summary {
            Ok(summary) => summary.clone(),
            Err(_) => return self.stays(scope, n_messages, prepared).await,
        };
        // A skill that is still active goes on: the model needs its text, which the summary does not have.
        let asked = prepared.asked.id.clone();
        let leaving = slice.iter().filter(|message| message.id != asked);
        let again = scope
            .skills
            .texts_again(&leaving.cloned().collect::<Vec<_>>());
        let slice = Slice {
            reason: due.reason.clone(),
            messages: slice,
            summary,
        };
        let of_holder = SessionSpec {
            workspace: self.spec.workspace.clone(),
            provider: self.spec.provider.name().to_owned(),
            model: self.spec.model.clone(),
        };
        // In one piece on a thread of its own: it cannot be interrupted halfway.
        self.moving = Some(tokio::task::spawn_blocking(move || {
            let holder = prepared.holder.agent.clone();
            let result = move_out(&session, &of_holder, prepared, &slice, again);
            if result.is_err() {
                note(&session, &due, due.tries + 1 >= MAX_TRIES);
            }
            result
                .map(|()| (holder, slice))
                .map_err(|error| (n_messages, error))
        }));
        self.moved(scope).await;
    }

    /// Waits for a turn that is being archived, and emits the outcome.
    async fn moved(&mut self, scope: &Arc<TurnScope>) {
        let Some(moving) = &mut self.moving else {
            return;
        };
        let moved = moving.await;
        self.moving = None;
        match moved {
            Ok(Ok((holder, slice))) => {
                self.compaction.try_again();
                let caller = scope.caller(0);
                let shown = scope
                    .emitter
                    .for_watchers(&caller, slice.summary.clone())
                    .await;
                self.spec.events.emit(Event::ArchiveEnd {
                    messages: u32::try_from(slice.messages.len()).unwrap_or(u32::MAX),
                    holder: Some(holder),
                    summary: Some(shown),
                    refused: None,
                });
                scope
                    .emitter
                    .dispatch::<at::AfterArchive>(&caller, slice)
                    .await;
            }
            Ok(Err((n_messages, error))) => self.cannot_archive(scope, n_messages, error).await,
            Err(_) => {}
        }
    }

    /// Says that a turn stays as it was, and why.
    async fn stays(&self, scope: &Arc<TurnScope>, messages: u32, prepared: Prepared) {
        let Prepared { due, summary, .. } = prepared;
        let session = &self.spec.session;
        let why = match summary {
            Err(Kept::Refused(why)) => {
                note(session, &due, true);
                why
            }
            Err(Kept::Later(why)) => {
                note(session, &due, false);
                format!("there is no summary yet: {why}; the next turn tries again")
            }
            Err(Kept::Failed(error)) => {
                note(session, &due, due.tries + 1 >= MAX_TRIES);
                return self.cannot_archive(scope, messages, error).await;
            }
            Ok(_) => return,
        };
        self.not_archived(messages, why);
    }

    fn not_archived(&self, messages: u32, why: String) {
        self.spec.events.emit(Event::ArchiveEnd {
            messages,
            holder: None,
            summary: None,
            refused: Some(why),
        });
    }

    /// Says that the session failed; a turn that is due stays so.
    async fn cannot_archive(&self, scope: &Arc<TurnScope>, messages: u32, error: session::Error) {
        let why = chain(&error);
        self.not_archived(messages, why.clone());
        let report = FailureReport {
            where_: "session".to_owned(),
            message: why,
            plugin: None,
        };
        let caller = scope.caller(0);
        scope.emitter.dispatch::<at::Error>(&caller, report).await;
    }
    /// Says which of the settings for archival do not hold here. For the beginning of a session.
    pub(super) fn warn_archival(&self) {
        let config = &self.spec.config.archival;
        let provider = self.spec.provider.name();
        if config.enabled && config.summary.style != config.summary.style_for(provider) {
            self.notice(
                Level::Warn,
                format!(
                    "archival.summary.style = \"structured\" does not work well with {provider}: summaries are paragraphs"
                ),
            );
        }
    }
}

/// Records the outcome for a turn that is due: none, or another try.
fn note(session: &Session, due: &DueTurn, is_over: bool) {
    write(session, due.turn, &due.reason, due.tries + 1, is_over);
}

fn write(session: &Session, turn: u32, reason: &str, tries: u32, is_over: bool) {
    let written = session.append(Body::Archival {
        turn,
        reason: reason.to_owned(),
        tries,
        is_over,
    });
    // The turn is on disk and stays as it was; that the disk is full is told by what needs it.
    if let Err(error) = written {
        tracing::warn!(turn, %error, "cannot record the archival of a turn");
    }
}

/// The turn on disk for its holder, then the summary in its place, with the texts in `again` behind it.
fn move_out(
    session: &Session,
    of_holder: &SessionSpec,
    prepared: Prepared,
    slice: &Slice,
    again: Vec<Message>,
) -> Result<(), session::Error> {
    let Prepared {
        due,
        finished,
        asked,
        holder,
        ..
    } = prepared;
    let agent = holder.agent.clone();
    session.create_holder(&agent, of_holder, finished.entries)?;
    let text = format!("[archived turn]\nsubagent_id: {agent}\n\n{}", slice.summary);
    let stays = Message::text(Role::Assistant, text).from(Origin::Summary);
    let replaced = session.append(Body::Replaced {
        reason: slice.reason.clone(),
        removed: slice.messages.iter().map(|m| m.id.clone()).collect(),
        messages: [asked, stays].into_iter().chain(again).collect(),
        holder: Some(holder),
    });
    // A second copy of the turn that nobody can ask for would only fill the disk further.
    replaced.inspect_err(|_| session.remove_holder(&agent))?;
    note(session, &due, true);
    session.sync()
}
