//! Builds spans from events: one span for each part of a turn.
//!
//! Tracks which spans are open, and how they nest. Events name the parts ([`TurnPart`]);
//! `attributes` provides the attributes. A part without an end event ends together with the agent
//! that contains it. This module must not depend on how spans are sent. Start from [`SpanTree`].

use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

use super::attributes::{
    access_attributes, end_attributes, hook_attributes, serialized_variant_name, signed_number,
    start_attributes,
};
use super::names as n;
use super::open::UnfinishedSpan;
use rind_lib::event::{Event, Stamped, TurnPart};
use rind_lib::point::trace::TraceOutcome;

#[derive(Debug)]
pub(super) struct SpanTree {
    tracer: SdkTracer,
    provider: String,
    open: HashMap<TurnPart, UnfinishedSpan>,
    /// Context of the last turn of the main agent that has ended. It is the parent of the spans of
    /// the turn's archival, and of requests that start after the turn.
    ended: Context,
    last: SystemTime,
}

impl SpanTree {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self {
            tracer,
            provider: String::new(),
            open: HashMap::new(),
            ended: Context::new(),
            last: SystemTime::now(),
        }
    }

    /// Ends all open spans.
    pub(super) fn end_all_spans(&mut self) {
        self.end_unfinished_spans(|_| true);
    }

    /// Ends the open spans of all parts for which `is_over` returns true.
    fn end_unfinished_spans(&mut self, is_over: impl Fn(&TurnPart) -> bool) {
        for (_, open) in self.open.extract_if(|part, _| is_over(part)) {
            open.end_unfinished_span(self.last);
        }
    }

    pub(super) fn handle_event(&mut self, stamped: &Stamped) {
        self.last = SystemTime::from(stamped.at);
        if let Event::SessionOpened { provider, .. } = &stamped.event {
            self.provider.clone_from(provider);
        }
        if let Some(part) = TurnPart::part_begun_by_event(stamped) {
            self.begin_turn_part_span(part, stamped);
        } else if let Some(part) = TurnPart::part_ended_by_event(stamped) {
            self.end_turn_part_span(&part, stamped);
        } else if let Some(part) = self.open_enclosing_part(stamped) {
            self.add_event_to_part(part, stamped);
        }
    }

    fn open_enclosing_part(&self, stamped: &Stamped) -> Option<TurnPart> {
        TurnPart::enclosing_part(stamped, |part| self.open.contains_key(part))
    }

    fn begin_turn_part_span(&mut self, part: TurnPart, stamped: &Stamped) {
        let above = self
            .open_enclosing_part(stamped)
            .and_then(|above| self.open.get(&above));
        let context = above.map(|above| above.context.clone());
        let (context, is_turn) = match &stamped.event {
            // The span of this subagent was started by `subagent-start`.
            Event::TurnStart { .. } if !stamped.is_main() && context.is_some() => return,
            Event::TurnStart { .. } => (Context::new(), true),
            Event::SubagentStart { .. } => (context.unwrap_or_default(), true),
            Event::ArchiveStart { .. } => {
                let is_after = context.is_none();
                (context.unwrap_or_else(|| self.ended.clone()), is_after)
            }
            // A request for a summary is prepared during a turn, but may start after the turn has
            // ended.
            Event::RequestStart { .. } => (context.unwrap_or_else(|| self.ended.clone()), false),
            _ => match context {
                Some(context) => (context, false),
                None => return,
            },
        };
        if let TurnPart::Agent(agent) = &part {
            self.end_unfinished_spans(|part| part.agent() == agent);
        }
        let open = self.start_span(stamped, &context, is_turn);
        self.open.insert(part, open);
    }

    fn start_span(&self, stamped: &Stamped, parent: &Context, is_turn: bool) -> UnfinishedSpan {
        let (name, mut attributes) = start_attributes(stamped, &self.provider);
        if let Some(session) = &stamped.session {
            attributes.push(KeyValue::new(n::GEN_AI_CONVERSATION_ID, session.clone()));
        }
        attributes.push(KeyValue::new(n::TURN, i64::from(stamped.turn)));
        if stamped.step > 0 {
            attributes.push(KeyValue::new(n::STEP, i64::from(stamped.step)));
        }
        let kind = match &stamped.event {
            Event::RequestStart { .. } => SpanKind::Client,
            _ => SpanKind::Internal,
        };
        let builder = self.tracer.span_builder(name);
        let builder = builder
            .with_kind(kind)
            .with_start_time(stamped.at)
            .with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, parent);
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        UnfinishedSpan::new(span, context, is_turn)
    }

    fn end_turn_part_span(&mut self, part: &TurnPart, stamped: &Stamped) {
        let Some(mut open) = self.open.remove(part) else {
            return;
        };
        end_attributes(&mut open, &stamped.event);
        if let Event::TurnEnd { .. } = stamped.event {
            self.ended = open.context.clone();
            // End the spans of subagents that are still open, because subagents end with the turn.
            self.end_all_spans();
        } else if open.hooks.is_some() {
            self.end_unfinished_spans(|below| below.agent() == part.agent());
        }
        open.end_span(self.last);
    }

    fn add_event_to_part(&mut self, above: TurnPart, stamped: &Stamped) {
        let agent = &stamped.agent;
        let turn = match TurnPart::Agent(agent.clone()) {
            turn if self.open.contains_key(&turn) => turn,
            // The turn has already ended, so the event belongs to an archival that continues after
            // the turn.
            _ => TurnPart::Aside(agent.clone()),
        };
        let part = match &stamped.event {
            Event::Assessed { .. } | Event::TurnEnd { .. } | Event::Error { .. } => turn,
            Event::Retry { .. } => {
                let is_own =
                    |part: &&TurnPart| matches!(part, TurnPart::Request(of, _) if of == agent);
                let mut requests = self.open.keys().filter(is_own);
                match (requests.next(), requests.next()) {
                    (Some(only), None) => only.clone(),
                    _ => turn,
                }
            }
            Event::Hook { record } if record.was_hook_called() => {
                let hooks = self
                    .open
                    .get_mut(&turn)
                    .and_then(|turn| turn.hooks.as_mut());
                if let Some((n_hooks, micros)) = hooks {
                    *n_hooks += 1;
                    *micros += record.micros;
                }
                above
            }
            _ => above,
        };
        let at = self.last;
        let Some(open) = self.open.get_mut(&part) else {
            return;
        };
        match &stamped.event {
            Event::Assessed { decision, .. } => {
                open.set_attribute(n::DECISION, serialized_variant_name(decision))
            }
            Event::TurnEnd { .. } => end_attributes(open, &stamped.event),
            Event::Error { place, .. } => open.mark_failed(place.clone()),
            Event::ToolStart { effect_class, .. } if matches!(part, TurnPart::Call(..)) => {
                open.set_attribute(n::EFFECT_CLASS, effect_class.to_string());
                open.add_event(n::TOOL_START, at, Vec::new());
            }
            Event::Retry {
                attempt, delay_ms, ..
            } => {
                let attempt = KeyValue::new(n::ATTEMPT, i64::from(*attempt));
                let delay = KeyValue::new(n::DELAY_MS, signed_number(*delay_ms));
                open.add_event(n::RETRY, at, vec![attempt, delay]);
            }
            Event::Hook { record } if record.outcome != TraceOutcome::Pass => {
                open.add_event(n::HOOK, at, hook_attributes(record));
            }
            Event::Access { record } if record.is_only_report_of_access() => {
                open.add_event(n::ACCESS, at, access_attributes(record));
            }
            _ => {}
        }
    }
}
