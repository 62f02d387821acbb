//! The conversation that the entries of a session add up to.
//!
//! Owns the rule that every tool call has a result and every result a call, which providers insist on. It touches no
//! file. Start from [`Transcript::apply`].

use std::collections::{BTreeMap, HashSet};

use super::children::{self, Child};
use super::entry::{Body, DueTurn};
use crate::message::{Content, Message, Role, ToolCall, ToolResult};

/// Conversation, and the position of its last turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    /// Messages in order.
    pub(super) messages: Vec<Message>,
    /// Number of the last turn that started.
    pub(super) turn: u32,
    /// Whether that turn has not ended.
    pub(super) is_turn_open: bool,
    /// Whether there was a header.
    pub(super) has_header: bool,
    /// Subagents that have a session below this one, oldest first.
    pub(super) children: Vec<Child>,
    /// Finished turns that are to be archived, by their number.
    pub(super) due: BTreeMap<u32, DueTurn>,
}

impl Transcript {
    /// Applies one entry.
    pub(super) fn apply(&mut self, body: &Body) {
        self.children.extend(children::named_in(body));
        match body {
            Body::Session { .. } => self.has_header = true,
            Body::Message { message } => self.messages.push(message.clone()),
            Body::TurnStart { turn, .. } => {
                self.turn = *turn;
                self.is_turn_open = true;
            }
            Body::TurnEnd { .. } | Body::Cut { .. } => self.is_turn_open = false,
            Body::Archival { turn, is_over, .. } if *is_over => {
                self.due.remove(turn);
            }
            Body::Archival {
                turn,
                reason,
                tries,
                ..
            } => {
                let due = DueTurn {
                    turn: *turn,
                    reason: reason.clone(),
                    tries: *tries,
                };
                self.due.insert(*turn, due);
            }
            Body::Replaced {
                removed, messages, ..
            } => self.replace(removed, messages),
            _ => {}
        }
    }

    fn replace(&mut self, removed: &[String], messages: &[Message]) {
        let removed: HashSet<&str> = removed.iter().map(String::as_str).collect();
        let is_removed = |message: &Message| removed.contains(message.id.as_str());
        let at = self.messages.iter().position(is_removed);
        self.messages.retain(|message| !is_removed(message));
        let at = at.unwrap_or(self.messages.len()).min(self.messages.len());
        self.messages.splice(at..at, messages.iter().cloned());
    }

    /// Calls of the last assistant message that have no result yet.
    pub(super) fn open_calls(&self) -> Vec<ToolCall> {
        let Some(at) = self
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant)
        else {
            return Vec::new();
        };
        let (head, tail) = self.messages.split_at(at + 1);
        let answered: HashSet<&str> = tail
            .iter()
            .flat_map(Message::tool_results)
            .map(|result| result.call_id.as_str())
            .collect();
        head.last()
            .into_iter()
            .flat_map(Message::tool_calls)
            .filter(|call| !answered.contains(call.id.as_str()))
            .cloned()
            .collect()
    }

    /// Mends what bad lines tore apart: a result without its call is left out, and a call that lost its result gets one.
    /// Calls still open at the end are left to [`Transcript::open_calls`]. Returns what was done, in words.
    pub(super) fn mend(&mut self) -> Vec<String> {
        let mut notices = Vec::new();
        let mut mended = Vec::with_capacity(self.messages.len());
        let mut open: Vec<ToolCall> = Vec::new();
        for message in std::mem::take(&mut self.messages) {
            if message.role == Role::Tool {
                let is_open = |id: &str| open.iter().any(|call| call.id == id);
                if !message
                    .tool_results()
                    .all(|result| is_open(&result.call_id))
                {
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
                    mended.push(closing(&call, LOST));
                }
                open.extend(message.tool_calls().cloned());
            }
            mended.push(message);
        }
        self.messages = mended;
        notices
    }
}

/// Result that the model sees when the line with a result could not be read.
const LOST: &str = "[lost: the session file has no readable result of this call]";

/// The message that closes a call whose result never came.
pub(super) fn closing(call: &ToolCall, why: &str) -> Message {
    tool_message(ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: why.into(),
        is_error: true,
    })
}

/// The message that carries one result.
pub(super) fn tool_message(result: ToolResult) -> Message {
    Message::new(Role::Tool, vec![Content::ToolResult(result)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assistant(calls: &[&str]) -> Message {
        let call = |id: &&str| {
            Content::ToolCall(ToolCall {
                id: (*id).to_owned(),
                name: "read_file".to_owned(),
                arguments: serde_json::json!({}),
            })
        };
        Message::new(Role::Assistant, calls.iter().map(call).collect())
    }

    fn result(id: &str) -> Message {
        tool_message(ToolResult {
            call_id: id.to_owned(),
            name: "read_file".to_owned(),
            content: "ok".into(),
            is_error: false,
        })
    }

    fn user() -> Message {
        Message::text(Role::User, "hi")
    }

    /// A transcript in short: `u`, `a`, `id` for a result, `id!` for a failed one.
    fn shape(messages: &[Message]) -> String {
        let word = |message: &Message| match message.role {
            Role::User => "u".to_owned(),
            Role::Assistant => "a".to_owned(),
            Role::Tool => message
                .tool_results()
                .map(|r| format!("{}{}", r.call_id, if r.is_error { "!" } else { "" }))
                .collect(),
        };
        messages.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn check_mend(messages: Vec<Message>, expected: &str, n_notices: usize) {
        let mut transcript = Transcript {
            messages,
            ..Transcript::default()
        };
        let notices = transcript.mend();
        assert_eq!(shape(&transcript.messages), expected);
        assert_eq!(notices.len(), n_notices, "{notices:?}");
        assert!(transcript.mend().is_empty());
    }

    #[test]
    fn a_whole_transcript_is_left_as_it_is() {
        check_mend(
            vec![
                user(),
                assistant(&["1", "2"]),
                result("1"),
                result("2"),
                assistant(&[]),
            ],
            "u a 1 2 a",
            0,
        );
    }

    #[test]
    fn call_ids_may_come_again_in_a_later_step() {
        check_mend(
            vec![
                assistant(&["1"]),
                result("1"),
                assistant(&["1"]),
                result("1"),
            ],
            "a 1 a 1",
            0,
        );
    }

    #[test]
    fn a_call_that_lost_its_result_gets_one() {
        check_mend(
            vec![assistant(&["1", "2"]), result("2"), user()],
            "a 2 1! u",
            1,
        );
    }

    #[test]
    fn a_result_without_its_call_is_left_out() {
        check_mend(vec![user(), result("1"), user()], "u u", 1);
    }

    #[test]
    fn calls_at_the_end_stay_open() {
        let messages = vec![assistant(&["1", "2"]), result("1")];
        check_mend(messages.clone(), "a 1", 0);
        let transcript = Transcript {
            messages,
            ..Transcript::default()
        };
        let open: Vec<String> = transcript.open_calls().into_iter().map(|c| c.id).collect();
        assert_eq!(open, ["2"]);
    }

    #[test]
    fn replaced_messages_leave_their_stand_in_where_the_first_of_them_was() {
        let messages = vec![user(), user(), assistant(&[]), user()];
        let removed = vec![messages[1].id.clone(), messages[2].id.clone()];
        let mut transcript = Transcript {
            messages,
            ..Transcript::default()
        };
        transcript.apply(&Body::Replaced {
            reason: "archived".into(),
            removed,
            messages: vec![assistant(&[])],
            holder: None,
        });
        assert_eq!(shape(&transcript.messages), "u a u");
    }
}
