//! Builds the conversation and other state of a session from its entries.
//!
//! Owns the invariant that providers require: every tool call has a result, and every result has a
//! call. The module does no I/O and must not know where entries come from: the session passes it
//! entries in order, both when it opens a file and when it appends to one. Start from
//! [`SessionTranscript::apply_entry_body`].

use std::collections::{BTreeMap, HashSet};

use super::children::{self, SubagentSession};
use super::entry::{
    ActivatedSkill, AllowedPart, Body, TurnDueForArchiving, USER_ENDED_SKILL_REASON,
    UsedOrApprovedSkill,
};
use super::interrupted::{InterruptedTurn, TurnForInputId};
use crate::message::{Message, Role, ToolCall, unanswered_calls};

/// Conversation and other state that results from the entries of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTranscript {
    pub(super) messages: Vec<Message>,
    /// Number of the last turn that started.
    pub(super) turn: u32,
    /// Whether the last turn was started, and has neither ended nor been cut off.
    pub(super) is_turn_open: bool,
    /// Last turn, if it has not ended.
    pub(super) interrupted: Option<InterruptedTurn>,
    /// Accepted inputs that have an id, by this id.
    pub(super) inputs: BTreeMap<String, TurnForInputId>,
    pub(super) has_header: bool,
    /// Subagents of this session that have a session of their own, oldest first.
    pub(super) children: Vec<SubagentSession>,
    /// Finished turns that are due to be archived, keyed by turn number.
    pub(super) due: BTreeMap<u32, TurnDueForArchiving>,
    /// Skills that stay active from turn to turn, oldest first.
    pub(super) skills: Vec<ActivatedSkill>,
    /// Facts about skills that stay true for the rest of the session, oldest first.
    pub(super) remembered: Vec<UsedOrApprovedSkill>,
    /// Status line of each plugin that shows one, by the plugin's name.
    pub(super) statuses: BTreeMap<String, String>,
    /// Calls that a person allowed for the current run only, as text.
    allowed: Vec<String>,
    /// Calls that a person allowed for the rest of the session, in any run, each with the name of
    /// its tool.
    pub(super) kept_answers: Vec<(String, AllowedPart)>,
    /// Descriptions of the calls that a person had allowed only for the run before the session was
    /// last resumed.
    pub(super) ended_answers: Vec<String>,
    /// Cost in US dollars of the turns, commands and loops, as far as it is known.
    pub(super) cost_usd: f64,
    /// Title that a person gave the session.
    pub(super) title: Option<String>,
}

impl SessionTranscript {
    /// Updates the conversation and the rest of the session's state with the next entry.
    pub(super) fn apply_entry_body(&mut self, body: &Body) {
        children::apply_entry_to_subagents(&mut self.children, body);
        InterruptedTurn::update_last_turn(&mut self.interrupted, body);
        self.cost_usd += match body {
            Body::TurnEnd { summary, .. } => summary.cost_usd,
            Body::Command { cost_usd, .. } | Body::LoopRun { cost_usd, .. } => *cost_usd,
            _ => 0.0,
        };
        match body {
            Body::Session { .. } => self.has_header = true,
            Body::Resumed {
                is_switch: true, ..
            } => {}
            Body::Resumed { .. } => self.ended_answers = std::mem::take(&mut self.allowed),
            Body::Allowed {
                tool,
                covers,
                parts,
            } if parts.is_empty() => self.allowed.push(format!("{tool}: {covers}")),
            Body::Allowed { tool, parts, .. } => {
                let parts = parts.iter().map(|part| (tool.clone(), part.clone()));
                self.kept_answers.extend(parts);
            }
            Body::Status { plugin, text } if text.is_empty() => {
                self.statuses.remove(plugin);
            }
            Body::Status { plugin, text } => {
                self.statuses.insert(plugin.clone(), text.clone());
            }
            Body::Message { message } => self.messages.push(message.clone()),
            Body::Title { title } => self.title = Some(title.clone()),
            Body::TurnStart { turn, input_id, .. } => {
                self.turn = *turn;
                self.is_turn_open = true;
                let taken = TurnForInputId {
                    turn: *turn,
                    ended: None,
                };
                self.inputs.extend(input_id.clone().map(|id| (id, taken)));
            }
            Body::TurnEnd {
                turn,
                summary,
                output,
            } => {
                self.is_turn_open = false;
                if let Some(taken) = self.inputs.values_mut().find(|taken| taken.turn == *turn) {
                    taken.ended = Some(Box::new((summary.clone(), output.clone())));
                }
            }
            Body::Cut { .. } => self.is_turn_open = false,
            Body::Archival { turn, is_over, .. } if *is_over => {
                self.due.remove(turn);
            }
            Body::Archival {
                turn,
                reason,
                tries,
                ..
            } => {
                let due = TurnDueForArchiving {
                    turn: *turn,
                    reason: reason.clone(),
                    tries: *tries,
                };
                self.due.insert(*turn, due);
            }
            Body::Replaced {
                removed, messages, ..
            } => self.replace_messages(removed, messages),
            Body::SkillActivated { .. } => {
                self.skills.extend(ActivatedSkill::from_entry(body, true));
            }
            Body::SkillRemembered {
                skill,
                trust,
                hash,
                is_confirmed,
            } => self.remembered.push(UsedOrApprovedSkill {
                skill: skill.clone(),
                trust: trust.clone(),
                hash: hash.clone(),
                is_confirmed: *is_confirmed,
            }),
            // Only `/done` ends a skill that stays active from turn to turn. A skill of the same
            // name that was active for one turn ends with another reason.
            Body::SkillEnded { skill, reason } if reason == USER_ENDED_SKILL_REASON => {
                self.skills.retain(|own| own.skill != *skill);
            }
            _ => {}
        }
    }

    fn replace_messages(&mut self, removed: &[String], messages: &[Message]) {
        let removed: HashSet<&str> = removed.iter().map(String::as_str).collect();
        let is_removed = |message: &Message| removed.contains(message.id.as_str());
        let at = self.messages.iter().position(is_removed);
        self.messages.retain(|message| !is_removed(message));
        let at = at.unwrap_or(self.messages.len()).min(self.messages.len());
        self.messages.splice(at..at, messages.iter().cloned());
    }

    /// Returns the calls of the last assistant message that have no result yet.
    pub(super) fn calls_without_result(&self) -> Vec<ToolCall> {
        let is_last = |message: &Message| message.role == Role::Assistant;
        let Some(at) = self.messages.iter().rposition(is_last) else {
            return Vec::new();
        };
        unanswered_calls(&self.messages[at..]).cloned().collect()
    }

    /// Restores the pairing of calls and results after unreadable lines: drops a result without its
    /// call, and inserts an error result for a call that lost its result. Calls without a result at
    /// the end of the conversation stay open, see [`SessionTranscript::calls_without_result`].
    /// Returns notices about the changes.
    pub(super) fn repair_call_pairing(&mut self) -> Vec<String> {
        let mut notices = Vec::new();
        let mut mended = Vec::with_capacity(self.messages.len());
        let mut open: Vec<ToolCall> = Vec::new();
        for message in std::mem::take(&mut self.messages) {
            if message.role == Role::Tool {
                let is_open = |id: &str| open.iter().any(|call| call.id == id);
                let mut results = message.tool_results();
                if !results.all(|result| is_open(&result.call_id)) {
                    notices.push(format!(
                        "the message {} answers a call that does not exist; it is skipped",
                        message.id
                    ));
                    continue;
                }
                for result in message.tool_results() {
                    open.retain(|call| call.id != result.call_id);
                }
            } else {
                for call in open.drain(..) {
                    notices.push(format!("the result of the call {} is lost", call.id));
                    mended.push(Message::from_tool_result(
                        call.create_result(UNREADABLE_CALL_RESULT_TEXT, true),
                    ));
                }
                open.extend(message.tool_calls().cloned());
            }
            mended.push(message);
        }
        self.messages = mended;
        notices
    }
}

/// Result that the model sees if the line with the real result could not be read.
const UNREADABLE_CALL_RESULT_TEXT: &str =
    "[lost: the session file has no readable result of this call]";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, ToolResult};

    /// Builds a transcript from a shape: `u` is a user message, `a` with digits an assistant
    /// message with these calls, a digit a result.
    fn transcript(short: &str) -> SessionTranscript {
        let call = |id: char| ToolCall::new(id, "read_file", serde_json::json!({}));
        let message = |word: &str| match word.strip_prefix('a') {
            Some(ids) => {
                let calls = ids.chars().map(|id| Content::ToolCall(call(id)));
                Message::new(Role::Assistant, calls.collect())
            }
            None if word == "u" => Message::text(Role::User, "hi"),
            None => Message::from_tool_result(ToolResult::new(word, "read_file", "ok", false)),
        };
        SessionTranscript {
            messages: short.split(' ').map(message).collect(),
            ..SessionTranscript::default()
        }
    }

    /// Formats a transcript as a shape; a failed result is followed by `!`.
    fn shape(transcript: &SessionTranscript) -> String {
        let word = |message: &Message| {
            let results = message.tool_results();
            let results: String = results
                .map(|r| format!("{}{}", r.call_id, if r.is_error { "!" } else { "" }))
                .collect();
            let calls: String = message.tool_calls().map(|call| &*call.id).collect();
            match message.role {
                Role::User => "u".to_owned(),
                Role::Assistant => format!("a{calls}"),
                Role::Tool => results,
            }
        };
        let words: Vec<String> = transcript.messages.iter().map(word).collect();
        words.join(" ")
    }

    #[test]
    fn a_call_that_lost_its_result_gets_one_and_a_result_without_its_call_is_left_out() {
        for (before, after, n_notices) in [
            ("u a12 1 2 a", "u a12 1 2 a", 0),
            // A later step may use the same call ids again. Calls at the end of the conversation
            // stay open.
            ("a1 1 a1 1", "a1 1 a1 1", 0),
            ("a12 1", "a12 1", 0),
            ("a12 2 u", "a12 2 1! u", 1),
            ("u 1 u", "u u", 1),
        ] {
            let mut transcript = transcript(before);
            let notices = transcript.repair_call_pairing();
            assert_eq!(shape(&transcript), after);
            assert_eq!(notices.len(), n_notices, "{notices:?}");
            assert!(transcript.repair_call_pairing().is_empty());
        }
        let open = transcript("a12 1")
            .calls_without_result()
            .into_iter()
            .map(|c| c.id);
        assert!(open.eq(["2"]));
        assert_eq!(transcript("a12 1 2").calls_without_result(), []);
    }

    #[test]
    fn replaced_messages_leave_their_stand_in_where_the_first_of_them_was() {
        let mut transcript = transcript("u u a u");
        let removed = &transcript.messages[1..3];
        transcript.apply_entry_body(&Body::Replaced {
            reason: "archived".into(),
            removed: removed.iter().map(|message| message.id.clone()).collect(),
            messages: vec![Message::new(Role::Assistant, Vec::new())],
            holder: None,
        });
        assert_eq!(shape(&transcript), "u a u");
    }
}
