//! Archival: a finished turn is moved out of the conversation. A subagent without tools, the holder, keeps the whole of it on
//! disk; the conversation keeps the user's message and a summary with the holder's id.
//!
//! Owns when that happens, what stays and how the model gets at the rest; hooks of `before-archive` may refuse or bring a
//! summary of their own. A holder is data: no process, no limit of number, no model until it is asked. Nothing is lost on the
//! way: until the one entry is written that replaces the messages, the turn is as it was.
//!
//! It comes after everything else of a turn, `turn-end` included. The answer is with the user by then and the turn is whole on
//! disk, so the summary delays nobody's answer and an interrupted one leaves a turn that is merely not archived. The next turn
//! of the agent cannot start before it is over, so no request ever sees half of it.
//!
//! Start from [`Turn::archive`].

mod config;
mod live;
mod query;
mod spawn;
mod summary;
mod transcript;
mod trigger;

use std::collections::HashSet;

pub use config::{ArchivalConfig, Style, SubagentsConfig, SummaryConfig, TriggerConfig, check};

pub(super) use live::{add_tools, live_part};

use self::trigger::Facts;
use super::Agent;
use super::compact::cut_middle;
use super::power::agent_id;
use super::request::NoAnswer;
use super::tell::{blocked, chain};
use super::turn::Turn;
use crate::event::Event;
use crate::message::{Message, Origin, Role};
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::{FailureReport, Slice, StopReason};
use crate::session::{self, Body, Entry, Holder, Session, SessionSpec};
use crate::text::printable;

/// Longest first line of an input in the name of a holder, in characters.
const TASK_CHARS: usize = 80;

/// A turn that has ended, as the session keeps it.
struct Finished {
    /// What a holder keeps.
    entries: Vec<Entry>,
    /// All of its messages, those that compaction took out included.
    messages: Vec<Message>,
    /// Those that are in the conversation.
    slice: Vec<Message>,
}

/// Why a turn stays as it is.
enum Kept {
    /// Somebody refused, or the user interrupted.
    Refused(String),
    /// The session cannot be written or read.
    Failed(session::Error),
}

impl From<session::Error> for Kept {
    fn from(error: session::Error) -> Self {
        Self::Failed(error)
    }
}

impl Turn<'_> {
    /// Archives the turn, which has ended, when one of the triggers says so.
    pub(super) async fn archive(&mut self, stop: StopReason) {
        let spec = self.agent.spec.clone();
        if !spec.config.archival.enabled || self.cancel.is_cancelled() {
            return;
        }
        let finished = match Finished::read(&spec.session, self.begins_at) {
            Ok(finished) => finished,
            Err(error) => return self.stays(0, Kept::Failed(error)).await,
        };
        let n_calls = finished.messages.iter().flat_map(Message::tool_calls);
        let facts = Facts {
            depth: spec.depth,
            stop,
            n_calls: n_calls.count(),
            tokens: self.agent.compaction.tokens_of(&finished.messages),
        };
        let reason = trigger::reason(&spec.config.archival.trigger, &facts);
        let Some((reason, asked)) = reason.zip(finished.asked().cloned()) else {
            return;
        };
        let n_messages = u32::try_from(finished.slice.len()).unwrap_or(u32::MAX);
        if let Some(tool) = trigger::unfinished(&finished.messages) {
            let why = format!("a call of `{tool}` has no result");
            return self.stays(n_messages, Kept::Refused(why)).await;
        }
        self.emit(Event::ArchiveStart {
            messages: n_messages,
            tokens: facts.tokens,
            reason: reason.to_owned(),
        });
        let holder = Holder {
            agent: agent_id("held").to_string(),
            task: task(&asked.joined_text()),
        };
        let slice = Slice {
            reason: reason.to_owned(),
            messages: finished.slice.clone(),
            summary: String::new(),
        };
        let summed_up = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Kept::Refused(INTERRUPTED.to_owned())),
            summed_up = self.summed_up(slice, &finished.messages, &holder.agent) => summed_up,
        };
        // From here on there is no await until it is done: it cannot be interrupted halfway.
        let moved = summed_up.and_then(|slice| {
            self.move_out(finished.entries, asked, &slice, &holder)?;
            Ok(slice)
        });
        match moved {
            Ok(slice) => {
                self.agent.compaction.try_again();
                let summary = slice.summary.clone();
                let shown = self.scope.for_watchers(&self.caller(), summary).await;
                self.emit(Event::ArchiveEnd {
                    messages: n_messages,
                    holder: Some(holder.agent),
                    summary: Some(shown),
                    refused: None,
                });
                self.dispatch::<at::AfterArchive>(slice).await;
            }
            Err(kept) => self.stays(n_messages, kept).await,
        }
    }

    /// `before-archive`, then the summary, unless a hook brought one.
    async fn summed_up(
        &self,
        slice: Slice,
        messages: &[Message],
        agent: &str,
    ) -> Result<Slice, Kept> {
        let judged = self.dispatch::<at::BeforeArchive>(slice).await;
        if let Some(said) = blocked(&judged) {
            let why = format!("plugin {} held it back: {}", said.plugin, said.text);
            return Err(Kept::Refused(why));
        }
        let mut slice = judged.value;
        let own = slice.summary.trim();
        if !own.is_empty() {
            slice.summary = cut_middle(own, summary::MAX_BYTES);
            return Ok(slice);
        }
        let caller = self.caller();
        let summary = self.scope.sum_up(&caller, messages, agent).await;
        let summary = summary.map_err(|no| match no {
            NoAnswer::Session(error) => Kept::Failed(error),
            no => Kept::Refused(no.to_string()),
        })?;
        if let Some(why) = summary.missing {
            let text = format!("there is no summary of the archived turn: {why}");
            self.agent.notice(Level::Warn, text);
        }
        slice.summary = summary.text;
        Ok(slice)
    }

    /// The turn on disk for its holder, then the summary in its place.
    fn move_out(
        &self,
        entries: Vec<Entry>,
        asked: Message,
        slice: &Slice,
        Holder { agent, task }: &Holder,
    ) -> Result<(), session::Error> {
        let spec = &self.agent.spec;
        let of_holder = SessionSpec {
            workspace: spec.workspace.clone(),
            provider: spec.provider.name().to_owned(),
            model: spec.model.clone(),
        };
        spec.session.create_holder(agent, &of_holder, entries)?;
        let text = format!("[archived turn]\nsubagent_id: {agent}\n\n{}", slice.summary);
        let replaced = spec.session.append(Body::Replaced {
            reason: slice.reason.clone(),
            removed: slice.messages.iter().map(|m| m.id.clone()).collect(),
            messages: vec![
                asked,
                Message::text(Role::Assistant, text).from(Origin::Summary),
            ],
            holder: Some(Holder {
                agent: agent.clone(),
                task: task.clone(),
            }),
        });
        // A second copy of the turn that nobody can ask for would only fill the disk further.
        replaced.inspect_err(|_| spec.session.remove_holder(agent))?;
        spec.session.sync()
    }

    /// Says that the turn stays as it was, and why.
    async fn stays(&self, messages: u32, kept: Kept) {
        let (why, is_failure) = match kept {
            Kept::Refused(why) => (why, false),
            Kept::Failed(error) => (chain(&error), true),
        };
        self.emit(Event::ArchiveEnd {
            messages,
            holder: None,
            summary: None,
            refused: Some(why.clone()),
        });
        if is_failure {
            self.dispatch::<at::Error>(FailureReport {
                place: "session".to_owned(),
                message: why,
                plugin: None,
            })
            .await;
        }
    }
}

const INTERRUPTED: &str = "it was interrupted";

impl Finished {
    /// Reads the turn whose entries begin at `start` of the session's file.
    fn read(session: &Session, start: u64) -> Result<Self, session::Error> {
        let mut entries = session.entries_since(start)?;
        let mut own = HashSet::new();
        for entry in &entries {
            match &entry.body {
                Body::Message { message } => {
                    own.insert(message.id.clone());
                }
                // A summary that compaction made of nothing but messages of this turn goes with them.
                Body::Replaced {
                    removed, messages, ..
                } if removed.iter().all(|id| own.contains(id)) => {
                    own.extend(messages.iter().map(|message| message.id.clone()));
                }
                _ => {}
            }
        }
        let messages = entries.iter().filter_map(|entry| match &entry.body {
            Body::Message { message } => Some(message.clone()),
            _ => None,
        });
        let messages = messages.collect();
        let mut slice = session.messages();
        slice.retain(|message| own.contains(&message.id));
        entries.retain(|entry| is_of_holder(&entry.body));
        Ok(Self {
            entries,
            messages,
            slice,
        })
    }

    /// The message that the turn began with; it stays in the conversation.
    fn asked(&self) -> Option<&Message> {
        let is_asked =
            |message: &&Message| message.is_users() || message.origin == Some(Origin::Agent);
        self.messages.iter().find(is_asked)
    }
}

/// Whether an entry is part of what a holder keeps: what was said and done, all of it. What plugins keep for themselves and what
/// their hooks did stays with the session, and what compaction replaced is there in the first place.
fn is_of_holder(body: &Body) -> bool {
    !matches!(
        body,
        Body::Session { .. }
            | Body::Resumed { .. }
            | Body::Forked { .. }
            | Body::State { .. }
            | Body::Custom { .. }
            | Body::Trace { .. }
            | Body::Access { .. }
            | Body::Replaced { .. }
    )
}

/// What a holder is called: `Archive:` and the first line of what was asked.
fn task(asked: &str) -> String {
    let line = asked.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = printable(line.unwrap_or_default())
        .replace('\t', " ")
        .chars()
        .take(TASK_CHARS)
        .collect();
    format!("Archive: {}", line.trim_end())
}

impl Agent {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_called_by_the_first_line_of_what_was_asked() {
        assert_eq!(
            task("\n  Find the\tauth handler \nplease"),
            "Archive: Find the auth handler"
        );
        assert_eq!(task(" \n"), "Archive: ");
        assert_eq!(task(&"é".repeat(200)).chars().count(), 9 + TASK_CHARS);
        assert_eq!(task("a\u{1b}[2Kb"), "Archive: a\\u{1b}[2Kb");
    }
}
