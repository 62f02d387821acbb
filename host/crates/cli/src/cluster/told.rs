//! Events of a session that runs elsewhere, read from their JSON: those that a chat shows.

use std::sync::Arc;

use rind_lib::event::{Event, Stamped};
use rind_lib::message::{EffectClass, Finish, Message, ToolCall, ToolResult, Usage};
use rind_lib::point::payload::{Source, TurnSummary};
use serde::Deserialize;
use serde_json::Value;

/// Fields that every event has.
#[derive(Deserialize)]
struct ToldPlace {
    session: Option<String>,
    agent: String,
    turn: u32,
    step: u32,
}

/// An event that a chat shows. Others are left out, as all readers of the stream leave out what they
/// do not know.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum ToldEvent {
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

/// Returns an event that a chat shows; `None` for any other.
pub(crate) fn told_event(json: &Value) -> Option<Stamped> {
    let place = ToldPlace::deserialize(json).ok()?;
    let event = ToldEvent::deserialize(json).ok()?;
    Some(Stamped {
        at: jiff::Timestamp::now(),
        session: place.session.map(Arc::from),
        agent: place.agent.into(),
        turn: place.turn,
        step: place.step,
        event: event.into(),
    })
}

impl From<ToldEvent> for Event {
    fn from(told: ToldEvent) -> Self {
        match told {
            ToldEvent::TurnStart {
                turn,
                input,
                source,
                command,
                input_id,
            } => Self::TurnStart {
                turn,
                input,
                source,
                command,
                input_id,
            },
            ToldEvent::StepStart { step } => Self::StepStart { step },
            ToldEvent::RequestEnd {
                request,
                model,
                usage,
                cost_usd,
                latency_ms,
                finish,
                error,
            } => Self::RequestEnd {
                request,
                model,
                usage,
                cost_usd,
                latency_ms,
                finish,
                error,
            },
            ToldEvent::TextDelta { text } => Self::TextDelta { text },
            ToldEvent::ThinkingDelta { text } => Self::ThinkingDelta { text },
            ToldEvent::TextHeld { is_thinking, by } => Self::TextHeld { is_thinking, by },
            ToldEvent::Correction { shown, text } => Self::Correction { shown, text },
            ToldEvent::Retry {
                attempt,
                delay_ms,
                reason,
            } => Self::Retry {
                attempt,
                delay_ms,
                reason,
            },
            ToldEvent::MessageEnd { message } => Self::MessageEnd { message },
            ToldEvent::ToolCall {
                call,
                plugin,
                by,
                parent_id,
            } => Self::ToolCall {
                call,
                plugin,
                by,
                parent_id,
            },
            ToldEvent::ToolStart {
                call,
                effect_class,
                plugin,
                by,
            } => Self::ToolStart {
                call,
                effect_class,
                plugin,
                by,
            },
            ToldEvent::ToolEnd {
                result,
                duration_ms,
                refused_by,
                by,
            } => Self::ToolEnd {
                result,
                duration_ms,
                refused_by,
                by,
            },
            ToldEvent::CompactStart { messages, tokens } => Self::CompactStart { messages, tokens },
            ToldEvent::CompactEnd {
                messages,
                summary,
                is_built_in,
                refused,
            } => Self::CompactEnd {
                messages,
                summary,
                is_built_in,
                refused,
            },
            ToldEvent::Status { plugin, text } => Self::Status { plugin, text },
            ToldEvent::TurnEnd {
                turn,
                summary,
                output,
            } => Self::TurnEnd {
                turn,
                summary,
                output,
            },
        }
    }
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
            let read = told_event(&json).unwrap_or_else(|| panic!("{json}"));
            assert_eq!((read.event, read.turn), (told.event, 2));
        }
        let unknown = json!({"type": "new", "agent": "main", "turn": 1, "step": 0});
        assert!(told_event(&unknown).is_none());
    }
}
