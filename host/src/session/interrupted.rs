//! Tracks the last turn of a session while it has not ended, so that it can be continued after an
//! interruption.
//!
//! Owns the facts about that turn and the texts that report its interrupted tool calls to the
//! model. It must not know how a turn is continued (`agent` does). Start from
//! [`InterruptedTurn::update_last_turn`].

use std::collections::BTreeMap;

use super::entry::{ActivatedSkill, Body};
use super::undo;
use crate::message::{Blob, EffectClass, Message, Role, ToolCall};
use crate::point::payload::{Source, TurnSummary};

/// A turn that started and has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptedTurn {
    /// Number of the turn.
    pub turn: u32,
    /// Input of the turn, as it arrived.
    pub input: String,
    /// Source of the input.
    pub source: Source,
    /// Slash command that produced the input, with its source.
    pub command: Option<String>,
    /// Id that the caller gave the input; `None` if it gave none.
    pub input_id: Option<String>,
    /// Images of the input.
    pub attached: Vec<Blob>,
    /// Digest of the set of plugins with which the turn began or was last continued.
    pub plugins: Option<String>,
    /// Whether hooks accepted the input, so that it is part of the conversation.
    pub is_taken: bool,
    /// Number of times that the turn was continued after an interruption.
    pub n_continued: u32,
    /// Number of answers of the model in the turn.
    pub n_steps: u32,
    /// Skills that are active until the end of this turn, oldest first.
    pub(crate) skills: Vec<ActivatedSkill>,
    /// Progress of the tool calls that began after the model's last answer, by call id.
    calls: BTreeMap<String, InterruptedToolCallProgress>,
}

/// Turn that a session ran for an input with an id. A session accepts only one input with the same
/// id.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnForInputId {
    /// Number of the turn that began with the input, or of the last turn that continued that turn.
    pub turn: u32,
    /// Summary and output of the turn, once it has ended.
    pub ended: Option<Box<(TurnSummary, String)>>,
}

/// A tool call of the model's last answer that was running when the turn was interrupted, and that
/// may have had side effects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InterruptedToolCall {
    /// Tool call, as the model made it.
    pub(crate) call: ToolCall,
    /// Id of the message that gave the model the result "the call may have run".
    pub(crate) told: String,
    /// Number of times that the call began to run.
    pub(crate) n_begun: u32,
}

/// Reason of the entry that replaces the message "the call may have run" with the result of the
/// repeated call.
pub(crate) const REPEATED_CALL_REASON: &str = "run again";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptedToolCallProgress {
    /// The call has begun and not ended. Contains its effect class and the number of times that it
    /// began.
    Running(EffectClass, u32),
    Ended,
}

impl InterruptedTurn {
    /// Updates the last turn with the next entry of the session. `last` becomes `None` when the
    /// turn ends or is undone.
    pub(super) fn update_last_turn(last: &mut Option<Self>, body: &Body) {
        match body {
            Body::TurnStart {
                turn,
                input,
                source,
                command,
                input_id,
                continues,
                attached,
                plugins,
            } => {
                let continued = last.take().filter(|_| continues.is_some());
                *last = Some(match continued {
                    Some(continued) => Self {
                        turn: *turn,
                        n_continued: continued.n_continued.saturating_add(1),
                        plugins: plugins.clone(),
                        ..continued
                    },
                    None => Self {
                        turn: *turn,
                        input: input.clone(),
                        source: *source,
                        command: command.clone(),
                        input_id: input_id.clone(),
                        attached: attached.clone(),
                        plugins: plugins.clone(),
                        is_taken: false,
                        n_continued: 0,
                        n_steps: 0,
                        skills: Vec::new(),
                        calls: BTreeMap::new(),
                    },
                });
            }
            Body::TurnEnd { .. } => *last = None,
            Body::Replaced { reason, .. } if reason == undo::UNDONE_TURN_REASON => *last = None,
            _ => {
                if let Some(last) = last {
                    last.update_from_entry(body);
                }
            }
        }
    }

    /// Updates this interrupted turn with one of its entries, other than those at its start and
    /// end.
    fn update_from_entry(&mut self, body: &Body) {
        match body {
            Body::Message { message } => {
                self.is_taken = true;
                // Forget earlier calls: a later answer may use their ids again.
                if message.role == Role::Assistant {
                    self.calls.clear();
                }
            }
            Body::Step { .. } => self.n_steps = self.n_steps.saturating_add(1),
            Body::ToolStart {
                call,
                effect_class,
                by: None,
                ..
            } => {
                let n_begun = match self.calls.get(call) {
                    Some(InterruptedToolCallProgress::Running(_, before)) => {
                        before.saturating_add(1)
                    }
                    _ => 1,
                };
                let running = InterruptedToolCallProgress::Running(*effect_class, n_begun);
                self.calls.insert(call.clone(), running);
            }
            Body::ToolEnd { call, .. } => {
                self.calls
                    .insert(call.clone(), InterruptedToolCallProgress::Ended);
            }
            Body::SkillActivated { .. } => {
                self.skills.extend(ActivatedSkill::from_entry(body, false));
            }
            Body::SkillEnded { skill, .. } => self.skills.retain(|own| own.skill != *skill),
            _ => {}
        }
    }

    /// Returns the text that the model gets as the result of an interrupted call. The text says
    /// whether the call began and whether it ended.
    pub(super) fn interrupted_call_result_text(last: Option<&Self>, call: &str) -> &'static str {
        match last.and_then(|last| last.calls.get(call)) {
            None => NOT_BEGUN_CALL_RESULT_TEXT,
            Some(InterruptedToolCallProgress::Running(EffectClass::Read, _)) => {
                INTERRUPTED_READ_RESULT_TEXT
            }
            Some(InterruptedToolCallProgress::Running(..)) => POSSIBLY_EXECUTED_CALL_RESULT_TEXT,
            Some(InterruptedToolCallProgress::Ended) => LOST_CALL_RESULT_TEXT,
        }
    }

    /// Returns the calls of the last answer that were reported to the model as "may have run", in
    /// order. `messages` is the conversation.
    pub(crate) fn interrupted_calls(&self, messages: &[Message]) -> Vec<InterruptedToolCall> {
        let Some(at) = messages.iter().rposition(|one| one.role == Role::Assistant) else {
            return Vec::new();
        };
        let (answer, results) = messages.split_at(at + 1);
        let mut cut = Vec::new();
        for call in answer
            .iter()
            .last()
            .into_iter()
            .flat_map(Message::tool_calls)
        {
            let Some(InterruptedToolCallProgress::Running(_, n_begun)) = self.calls.get(&call.id)
            else {
                continue;
            };
            let told = results.iter().find(|message| {
                let mut own = message.tool_results();
                own.any(|own| {
                    own.call_id == call.id
                        && own.content.text() == POSSIBLY_EXECUTED_CALL_RESULT_TEXT
                })
            });
            cut.extend(told.map(|told| InterruptedToolCall {
                call: call.clone(),
                told: told.id.clone(),
                n_begun: *n_begun,
            }));
        }
        cut
    }
}

const NOT_BEGUN_CALL_RESULT_TEXT: &str =
    "[interrupted: the turn was cut off before this call began; it did nothing]";

const INTERRUPTED_READ_RESULT_TEXT: &str = "[interrupted: the turn was cut off while this call ran; it only reads, so it can be called again]";

const POSSIBLY_EXECUTED_CALL_RESULT_TEXT: &str = "[interrupted: the turn was cut off while this call ran; it may have run, wholly or in part, or run \
                            still. Look at what it did before you call it again]";

const LOST_CALL_RESULT_TEXT: &str = "[interrupted: this call ran to its end, and the turn was cut off before its result was kept. Look at \
                           what it did; do not call it again for the same purpose]";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Content, ToolResult};

    fn start(turn: u32, continues: Option<u32>) -> Body {
        Body::TurnStart {
            turn,
            input: "fix it".to_owned(),
            source: Source::Terminal,
            command: None,
            input_id: Some("a".to_owned()),
            continues,
            attached: Vec::new(),
            plugins: None,
        }
    }

    fn begun(call: &str, effect_class: EffectClass) -> Body {
        Body::ToolStart {
            call: call.to_owned(),
            name: "bash".to_owned(),
            effect_class,
            arguments: None,
            by: None,
        }
    }

    fn follow(bodies: &[Body]) -> Option<InterruptedTurn> {
        let mut last = None;
        for body in bodies {
            InterruptedTurn::update_last_turn(&mut last, body);
        }
        last
    }

    #[test]
    fn a_turn_is_interrupted_until_it_ends_or_is_undone() {
        let said = Body::Message {
            message: Message::text(Role::User, "fix it"),
        };
        let last = follow(&[start(1, None)]).unwrap();
        assert!(!last.is_taken && last.turn == 1);
        let last = follow(&[start(1, None), said.clone(), start(2, Some(1))]).unwrap();
        assert!(last.is_taken && last.turn == 2, "{last:?}");
        assert_eq!(last.n_continued, 1);
        assert_eq!(last.input_id.as_deref(), Some("a"));
        // A turn with an input of its own does not continue the interrupted turn.
        assert!(
            !follow(&[start(1, None), said.clone(), start(2, None)])
                .unwrap()
                .is_taken
        );
        let undone = Body::Replaced {
            reason: undo::UNDONE_TURN_REASON.to_owned(),
            removed: Vec::new(),
            messages: Vec::new(),
            holder: None,
        };
        assert_eq!(follow(&[start(1, None), said, undone]), None);
        assert_eq!(follow(&[]), None);
    }

    #[test]
    fn the_model_is_told_what_is_known_of_each_call() {
        let ended = Body::ToolEnd {
            call: "3".to_owned(),
            duration_ms: 1,
            refused_by: None,
            result: None,
        };
        let last = follow(&[
            start(1, None),
            begun("1", EffectClass::Read),
            begun("2", EffectClass::Execute),
            begun("3", EffectClass::Execute),
            ended,
        ]);
        for (call, expected) in [
            ("1", INTERRUPTED_READ_RESULT_TEXT),
            ("2", POSSIBLY_EXECUTED_CALL_RESULT_TEXT),
            ("3", LOST_CALL_RESULT_TEXT),
            ("4", NOT_BEGUN_CALL_RESULT_TEXT),
        ] {
            assert_eq!(
                InterruptedTurn::interrupted_call_result_text(last.as_ref(), call),
                expected
            );
        }
        assert_eq!(
            InterruptedTurn::interrupted_call_result_text(None, "1"),
            NOT_BEGUN_CALL_RESULT_TEXT
        );
    }

    #[test]
    fn only_running_calls_of_the_last_answer_are_cut_and_a_call_that_ran_again_is_counted() {
        let answer = |id: &str| {
            let call = ToolCall::new(id, "send", json!({}));
            Message::new(Role::Assistant, vec![Content::ToolCall(call)])
        };
        let told = |id: &str| {
            Message::from_tool_result(ToolResult::new(
                id,
                "send",
                POSSIBLY_EXECUTED_CALL_RESULT_TEXT,
                true,
            ))
        };
        let said = |message: &Message| Body::Message {
            message: message.clone(),
        };
        let (first, result) = (answer("1"), told("1"));
        let bodies = [
            start(1, None),
            said(&first),
            begun("1", EffectClass::External),
            start(2, Some(1)),
            begun("1", EffectClass::External),
        ];
        let last = follow(&bodies).unwrap();
        let cut = last.interrupted_calls(&[first.clone(), result.clone()]);
        assert_eq!(cut.len(), 1);
        assert_eq!((&*cut[0].told, cut[0].n_begun), (&*result.id, 2));
        // Without a message that reports "the call may have run", the call is not returned.
        assert!(
            last.interrupted_calls(std::slice::from_ref(&first))
                .is_empty()
        );
        // A later answer has a call with the same id, and that call has not begun.
        let later = answer("1");
        let last = follow(&[&bodies[..], &[said(&later)]].concat()).unwrap();
        assert!(
            last.interrupted_calls(&[first, result, later, told("1")])
                .is_empty()
        );
    }

    #[test]
    fn entries_of_earlier_versions_are_read() {
        let old = json!({"type": "turn-start", "turn": 1, "input": "x", "source": "terminal"});
        let body: Body = serde_json::from_value(old).unwrap();
        assert!(matches!(
            body,
            Body::TurnStart {
                input_id: None,
                continues: None,
                ..
            }
        ));
    }
}
