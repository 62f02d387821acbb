//! Tests of the nesting of lines. The events are synthetic, because a real turn does not repeat
//! their order.

use tokio::sync::mpsc::UnboundedReceiver;

use super::super::strip_styles;
use super::*;
use rind_lib::event::EventSender;
use rind_lib::message::{EffectClass, ToolResult, Usage};
use rind_lib::point::payload::{Source, StopReason, TurnSummary};
use rind_lib::point::trace::{AccessOutcome, Origin, Reached, TraceOutcome, TraceRecord};

fn turn_start(turn: u32) -> Event {
    Event::TurnStart {
        turn,
        input: "go".to_owned(),
        source: Source::Terminal,
        command: None,
        input_id: None,
    }
}

fn turn_end(turn: u32) -> Event {
    Event::TurnEnd {
        turn,
        summary: TurnSummary {
            stop: StopReason::Done,
            steps: 1,
            tool_calls: 0,
            usage: Usage::default(),
            cost_usd: 0.0,
            unpriced_tokens: 0,
            duration_ms: 1,
            output: String::new(),
        },
        output: String::new(),
    }
}

struct Turn {
    events: EventSender,
    receiver: UnboundedReceiver<Stamped>,
    trace: TraceRenderer,
    shown: Vec<String>,
}

impl Turn {
    fn new(detail: TraceDetail) -> Self {
        let (events, receiver) = EventSender::new_with_receiver();
        let mut turn = Self {
            events,
            receiver,
            trace: TraceRenderer::new(detail, false),
            shown: Vec::new(),
        };
        turn.emit(turn_start(1));
        turn.emit(Event::StepStart { step: 1 });
        turn
    }

    fn emit(&mut self, event: Event) {
        self.events.emit(event);
        let stamped = self.receiver.try_recv().unwrap();
        self.shown.extend(self.trace.show(&stamped));
    }

    fn call(&mut self, id: &str, name: &str) {
        self.emit(Event::ToolCall {
            call: call(id, name),
            plugin: None,
            by: None,
            parent_id: None,
        });
    }

    fn end_call(&mut self, id: &str) {
        self.emit(Event::ToolEnd {
            result: ToolResult {
                call_id: id.to_owned(),
                name: String::new(),
                content: "x".into(),
                is_error: false,
            },
            duration_ms: 5,
            refused_by: None,
            by: None,
        });
    }

    fn hook(&mut self, point: &'static str, outcome: TraceOutcome, call: Option<&str>) {
        self.emit(Event::Hook {
            record: TraceRecord {
                point: point.into(),
                plugin: "guard".into(),
                outcome,
                changed: Vec::new(),
                reason: None,
                micros: 12.0,
                turn: 1,
                step: 1,
                call_id: call.map(Into::into),
            },
        });
    }

    fn access(&mut self, target: &str, point: Option<&'static str>, call: Option<&str>) {
        self.emit(Event::Access {
            record: AccessRecord {
                plugin: "guard".into(),
                reached: Reached::Network,
                target: target.to_owned(),
                outcome: AccessOutcome::Done,
                reason: None,
                origin: Origin {
                    agent: "main".into(),
                    turn: 1,
                    step: 1,
                    point: point.map(Into::into),
                    call_id: call.map(Into::into),
                },
            },
        });
    }

    /// Returns the lines printed since the last call, without colors and with runs of spaces
    /// collapsed.
    fn shown(&mut self) -> Vec<String> {
        let squeezed = self.shown.drain(..).map(|line| {
            let line = strip_styles(&line);
            let indent = line.len() - line.trim_start().len();
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{}{}", &line[..indent], words.join(" "))
        });
        squeezed.collect()
    }
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, serde_json::json!({"path": "a"}))
}

#[test]
fn accesses_are_listed_below_the_hook_or_tool_that_made_them() {
    let mut turn = Turn::new(TraceDetail::Short);
    turn.access("GET https://one", Some("pre-reason"), None);
    turn.hook("context", TraceOutcome::Pass, None);
    turn.hook("pre-reason", TraceOutcome::Pass, None);
    turn.call("1", "look");
    turn.access("GET https://two", None, Some("1"));
    turn.access("GET https://three", Some("post-tool"), Some("1"));
    turn.hook("post-tool", TraceOutcome::Pass, Some("1"));
    turn.end_call("1");
    turn.access("GET https://four", Some("pre-output"), None);
    turn.emit(turn_end(1));
    assert_eq!(
        turn.shown(),
        [
            "turn 1 go",
            "  step 1",
            "    pre-reason guard 12.0 µs pass",
            "      → network GET https://one",
            "    context 12.0 µs 1 hook passed",
            "    ● look a",
            "      → guard network GET https://two",
            "      post-tool guard 12.0 µs pass",
            "        → network GET https://three",
            "      └ 1 B in 1 line, 5 ms",
            // This hook was cancelled, so the trace shows its network access but no line for the
            // hook.
            "    → guard network GET https://four",
        ]
    );
}

#[test]
fn a_parallel_call_is_named_again_where_its_line_follows_a_line_of_another_call() {
    let mut turn = Turn::new(TraceDetail::Short);
    turn.call("1", "look");
    turn.call("2", "listen");
    turn.shown();
    turn.hook("post-tool", TraceOutcome::Changed, Some("1"));
    turn.end_call("1");
    turn.end_call("2");
    assert_eq!(
        turn.shown(),
        [
            "    … look a",
            "      post-tool guard 12.0 µs changed",
            "      └ 1 B in 1 line, 5 ms",
            "      └ listen a: 1 B in 1 line, 5 ms",
        ]
    );
}

#[test]
fn arguments_that_a_hook_changed_are_shown() {
    let mut turn = Turn::new(TraceDetail::Short);
    turn.call("1", "look");
    turn.shown();
    let mut changed = call("1", "look");
    changed.arguments = serde_json::json!({"path": "b"});
    turn.emit(Event::ToolStart {
        call: changed,
        effect_class: EffectClass::Read,
        plugin: None,
        by: None,
    });
    assert_eq!(turn.shown(), ["      now with b"]);
}

#[test]
fn hooks_whose_outcome_was_dropped_are_counted_and_refusing_hooks_are_named() {
    let mut turn = Turn::new(TraceDetail::Short);
    turn.shown();
    turn.hook("pre-reason", TraceOutcome::Pass, None);
    turn.hook("context", TraceOutcome::Dropped, None);
    turn.hook("pre-tool", TraceOutcome::DroppedBlocking, None);
    turn.emit(Event::StepEnd {
        step: 1,
        tool_calls: 0,
        goes_on: false,
    });
    assert_eq!(
        turn.shown(),
        [
            "    pre-tool guard – out this turn, refusing",
            "    pre-reason, context 12.0 µs 1 hook passed, 1 out this turn",
        ]
    );
    let mut full = Turn::new(TraceDetail::Full);
    full.shown();
    full.hook("pre-reason", TraceOutcome::Pass, None);
    full.hook("context", TraceOutcome::Dropped, None);
    assert_eq!(
        full.shown(),
        [
            "    pre-reason guard 12.0 µs pass",
            "    context guard – out this turn",
        ]
    );
}
