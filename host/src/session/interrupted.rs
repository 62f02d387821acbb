//! The last turn of a session as long as it has not ended: what an interruption leaves to continue.
//!
//! Owns the facts about that turn and the words in which the model is told of its calls. It must
//! not know how a turn is continued (`agent` does). Start from [`InterruptedTurn::follow_entry`].

use std::collections::BTreeMap;

use super::entry::{Body, LastingSkill};
use super::undo;
use crate::message::EffectClass;
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
    /// Slash command that made the input, and its source.
    pub command: Option<String>,
    /// Id that the caller gave the input.
    pub input_id: Option<String>,
    /// Whether hooks let the input in, so that it is part of the conversation.
    pub is_taken: bool,
    /// Number of answers of the model in the turn.
    pub n_steps: u32,
    /// Skills that were active for the time of the turn, oldest first.
    pub(crate) skills: Vec<LastingSkill>,
    /// Calls that began, by id.
    calls: BTreeMap<String, CallProgress>,
}

/// An input with an id, which the session takes once.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenInput {
    /// Number of the turn that took it, or of the last one that continued that turn.
    pub turn: u32,
    /// Summary and output of the turn, once it has ended.
    pub ended: Option<Box<(TurnSummary, String)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    Running(EffectClass),
    Ended,
}

impl InterruptedTurn {
    /// Applies one entry to the last turn.
    pub(super) fn follow_entry(last: &mut Option<Self>, body: &Body) {
        match body {
            Body::TurnStart {
                turn,
                input,
                source,
                command,
                input_id,
                continues,
            } => {
                let continued = last.take().filter(|_| continues.is_some());
                *last = Some(match continued {
                    Some(continued) => Self {
                        turn: *turn,
                        ..continued
                    },
                    None => Self {
                        turn: *turn,
                        input: input.clone(),
                        source: *source,
                        command: command.clone(),
                        input_id: input_id.clone(),
                        is_taken: false,
                        n_steps: 0,
                        skills: Vec::new(),
                        calls: BTreeMap::new(),
                    },
                });
            }
            Body::TurnEnd { .. } => *last = None,
            Body::Replaced { reason, .. } if reason == undo::REASON => *last = None,
            _ => {
                if let Some(last) = last {
                    last.follow_part(body);
                }
            }
        }
    }

    /// Applies an entry of the turn itself.
    fn follow_part(&mut self, body: &Body) {
        match body {
            Body::Message { .. } => self.is_taken = true,
            Body::Step { .. } => self.n_steps = self.n_steps.saturating_add(1),
            Body::ToolStart {
                call,
                effect_class,
                by: None,
                ..
            } => {
                let running = CallProgress::Running(*effect_class);
                self.calls.insert(call.clone(), running);
            }
            Body::ToolEnd { call, .. } => {
                self.calls.insert(call.clone(), CallProgress::Ended);
            }
            Body::SkillActivated { .. } => {
                self.skills.extend(LastingSkill::of_entry(body, false));
            }
            Body::SkillEnded { skill, .. } => self.skills.retain(|own| own.skill != *skill),
            _ => {}
        }
    }

    /// Returns the result that the model gets for a call without one: what is known of it.
    pub(super) fn call_result(last: Option<&Self>, call: &str) -> &'static str {
        match last.and_then(|last| last.calls.get(call)) {
            None => NOT_BEGUN,
            Some(CallProgress::Running(EffectClass::Read)) => READING,
            Some(CallProgress::Running(_)) => MAY_HAVE_RUN,
            Some(CallProgress::Ended) => RESULT_LOST,
        }
    }
}

const NOT_BEGUN: &str =
    "[interrupted: the turn was cut off before this call began; it did nothing]";

const READING: &str = "[interrupted: the turn was cut off while this call ran; it only reads, so it can be called again]";

const MAY_HAVE_RUN: &str = "[interrupted: the turn was cut off while this call ran; it may have run, wholly or in part, or run \
                            still. Look at what it did before you call it again]";

const RESULT_LOST: &str = "[interrupted: this call ran to its end, and the turn was cut off before its result was kept. Look at \
                           what it did; do not call it again for the same purpose]";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Message, Role};

    fn start(turn: u32, continues: Option<u32>) -> Body {
        Body::TurnStart {
            turn,
            input: "fix it".to_owned(),
            source: Source::Terminal,
            command: None,
            input_id: Some("a".to_owned()),
            continues,
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
            InterruptedTurn::follow_entry(&mut last, body);
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
        assert_eq!(last.input_id.as_deref(), Some("a"));
        // Another input begins anew.
        assert!(
            !follow(&[start(1, None), said.clone(), start(2, None)])
                .unwrap()
                .is_taken
        );
        let undone = Body::Replaced {
            reason: undo::REASON.to_owned(),
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
            ("1", READING),
            ("2", MAY_HAVE_RUN),
            ("3", RESULT_LOST),
            ("4", NOT_BEGUN),
        ] {
            assert_eq!(InterruptedTurn::call_result(last.as_ref(), call), expected);
        }
        assert_eq!(InterruptedTurn::call_result(None, "1"), NOT_BEGUN);
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
