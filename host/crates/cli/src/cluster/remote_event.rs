//! Parses, from JSON, those events of a session in another program that a chat shows.

use std::sync::Arc;

use rind_lib::event::{Event, Stamped};
use rind_lib::message::{EffectClass, Finish, Message, ToolCall, ToolResult, Usage};
use rind_lib::point::payload::{Source, TurnSummary};
use serde::Deserialize;
use serde_json::Value;

/// Fields that every event of a session has.
#[derive(Deserialize)]
struct EventHeader {
    session: Option<String>,
    agent: String,
    turn: u32,
    step: u32,
}

/// Declares each event once, as the type that is parsed from JSON and as a conversion to the
/// library's [`Event`].
macro_rules! remote_events {
    ($($name:ident { $($field:ident: $type:ty,)* },)*) => {
        /// An event that a chat shows. The chat skips all other events.
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all = "kebab-case")]
        enum RemoteEvent {
            $($name { $($field: $type,)* },)*
        }

        impl From<RemoteEvent> for Event {
            fn from(remote: RemoteEvent) -> Self {
                match remote {
                    $(RemoteEvent::$name { $($field,)* } => Self::$name { $($field,)* },)*
                }
            }
        }
    };
}

remote_events! {
    TurnStart {
        turn: u32,
        input: String,
        source: Source,
        command: Option<String>,
        input_id: Option<String>,
    },
    StepStart {
        step: u32,
    },
    RequestEnd {
        request: u32,
        model: Option<String>,
        usage: Usage,
        cost_usd: Option<f64>,
        latency_ms: u64,
        finish: Option<Finish>,
        error: Option<String>,
    },
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        text: String,
    },
    TextHeld {
        is_thinking: bool,
        by: Vec<String>,
    },
    Correction {
        shown: String,
        text: String,
    },
    Retry {
        attempt: u32,
        delay_ms: u64,
        reason: String,
    },
    MessageEnd {
        message: Message,
    },
    ToolCall {
        call: ToolCall,
        plugin: Option<String>,
        by: Option<String>,
        parent_id: Option<String>,
    },
    ToolStart {
        call: ToolCall,
        effect_class: EffectClass,
        plugin: Option<String>,
        by: Option<String>,
    },
    ToolEnd {
        result: ToolResult,
        duration_ms: u64,
        refused_by: Option<String>,
        by: Option<String>,
    },
    CompactStart {
        messages: u32,
        tokens: u64,
    },
    CompactEnd {
        messages: u32,
        summary: Option<String>,
        is_built_in: bool,
        refused: Option<String>,
    },
    Status {
        plugin: String,
        text: String,
    },
    TurnEnd {
        turn: u32,
        summary: TurnSummary,
        output: String,
    },
}

/// Parses an event that a chat shows; `None` for any other.
pub(crate) fn parse_remote_event(json: &Value) -> Option<Stamped> {
    let place = EventHeader::deserialize(json).ok()?;
    let event = RemoteEvent::deserialize(json).ok()?;
    Some(Stamped {
        at: jiff::Timestamp::now(),
        session: place.session.map(Arc::from),
        agent: place.agent.into(),
        turn: place.turn,
        step: place.step,
        event: event.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_comes_back_as_it_was_told() {
        let events = [
            Event::TurnStart {
                turn: 2,
                input: "go".to_owned(),
                source: Source::Terminal,
                command: None,
                input_id: Some("i-1".to_owned()),
            },
            Event::StepStart { step: 1 },
            Event::ToolEnd {
                result: ToolResult::new("c", "bash", "made", false),
                duration_ms: 3,
                refused_by: None,
                by: None,
            },
            Event::MessageEnd {
                message: Message::text(rind_lib::message::Role::User, "faster"),
            },
        ];
        for event in events {
            let told = Stamped {
                at: jiff::Timestamp::now(),
                session: Some("s".into()),
                agent: "main".into(),
                turn: 2,
                step: 1,
                event,
            };
            let json = serde_json::to_value(&told).unwrap();
            let read = parse_remote_event(&json).unwrap_or_else(|| panic!("{json}"));
            assert_eq!((read.event, read.turn), (told.event, 2));
        }
        let unknown = json!({"type": "new", "agent": "main", "turn": 1, "step": 0});
        assert!(parse_remote_event(&unknown).is_none());
    }
}
