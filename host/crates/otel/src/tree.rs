//! Builds spans from events: one span for each part of a turn.
//!
//! Tracks which spans are open, and how they nest. Events name the parts ([`TurnPartId`]);
//! `attributes` provides the attributes. A part without an end event ends together with the agent
//! that contains it. This module must not depend on how spans are sent. Start from [`SpanTree`].

use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

use super::attributes::{
    hook_attributes, plugin_access_attributes, serialized_variant_name, set_span_end_attributes,
    span_name_and_attributes, to_saturated_i64,
};
use super::names as n;
use super::open::UnfinishedSpan;
use rind_lib::event::{Event, Stamped, TurnPartId};
use rind_lib::point::trace::TraceOutcome;

#[derive(Debug)]
pub(super) struct SpanTree {
    tracer: SdkTracer,
    provider: String,
    open: HashMap<TurnPartId, UnfinishedSpan>,
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

    /// Ends all spans that are still open, because no further event can end them.
    pub(super) fn end_all_spans(&mut self) {
        self.end_unfinished_spans(|_| true);
    }

    /// Ends the open spans of all parts for which `is_over` returns true.
    fn end_unfinished_spans(&mut self, is_over: impl Fn(&TurnPartId) -> bool) {
        for (_, open) in self.open.extract_if(|part, _| is_over(part)) {
            open.end_unfinished_span(self.last);
        }
    }

    pub(super) fn handle_event(&mut self, stamped: &Stamped) {
        self.last = SystemTime::from(stamped.at);
        if let Event::SessionOpened { provider, .. } = &stamped.event {
            self.provider.clone_from(provider);
        }
        if let Some(part) = TurnPartId::part_begun_by_event(stamped) {
            self.begin_operation_span(part, stamped);
        } else if let Some(part) = TurnPartId::part_ended_by_event(stamped) {
            self.end_operation_span(&part, stamped);
        } else if let Some(part) = self.find_enclosing_open_span(stamped) {
            self.update_operation_span(part, stamped);
        }
    }

    fn find_enclosing_open_span(&self, stamped: &Stamped) -> Option<TurnPartId> {
        TurnPartId::enclosing_part(stamped, |part| self.open.contains_key(part))
    }

    fn begin_operation_span(&mut self, part: TurnPartId, stamped: &Stamped) {
        let above = self
            .find_enclosing_open_span(stamped)
            .and_then(|above| self.open.get(&above));
        let context = above.map(|above| above.context.clone());
        let (context, is_turn) = match &stamped.event {
            // The span of this subagent was started by `subagent-start`.
            Event::TurnStart { .. } if !stamped.is_from_main_agent() && context.is_some() => return,
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
        if let TurnPartId::Agent(agent) = &part {
            self.end_unfinished_spans(|part| part.owning_agent() == agent);
        }
        let open = self.start_span(stamped, &context, is_turn);
        self.open.insert(part, open);
    }

    fn start_span(&self, stamped: &Stamped, parent: &Context, is_turn: bool) -> UnfinishedSpan {
        let (name, mut attributes) = span_name_and_attributes(stamped, &self.provider);
        if let Some(session) = &stamped.session {
            attributes.push(KeyValue::new(n::GEN_AI_CONVERSATION_ID, session.clone()));
        }
        attributes.push(KeyValue::new(
            n::TURN_NUMBER_ATTRIBUTE,
            i64::from(stamped.turn),
        ));
        if stamped.step > 0 {
            attributes.push(KeyValue::new(
                n::STEP_NUMBER_ATTRIBUTE,
                i64::from(stamped.step),
            ));
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

    fn end_operation_span(&mut self, part: &TurnPartId, stamped: &Stamped) {
        let Some(mut open) = self.open.remove(part) else {
            return;
        };
        set_span_end_attributes(&mut open, &stamped.event);
        if let Event::TurnEnd { .. } = stamped.event {
            self.ended = open.context.clone();
            // End the spans of subagents that are still open, because subagents end with the turn.
            self.end_all_spans();
        } else if open.hooks.is_some() {
            self.end_unfinished_spans(|below| below.owning_agent() == part.owning_agent());
        }
        open.end_span(self.last);
    }

    fn update_operation_span(&mut self, above: TurnPartId, stamped: &Stamped) {
        let agent = &stamped.agent;
        let turn = match TurnPartId::Agent(agent.clone()) {
            turn if self.open.contains_key(&turn) => turn,
            // The turn has already ended, so the event belongs to an archival that continues after
            // the turn.
            _ => TurnPartId::Aside(agent.clone()),
        };
        let part = match &stamped.event {
            Event::Assessed { .. } | Event::TurnEnd { .. } | Event::Error { .. } => turn,
            Event::Retry { .. } => {
                let is_own =
                    |part: &&TurnPartId| matches!(part, TurnPartId::Request(of, _) if of == agent);
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
            Event::Assessed { decision, .. } => open.set_attribute(
                n::TURN_ASSESSMENT_DECISION_ATTRIBUTE,
                serialized_variant_name(decision),
            ),
            Event::TurnEnd { .. } => set_span_end_attributes(open, &stamped.event),
            Event::Error { place, .. } => open.mark_failed(place.clone()),
            Event::ToolStart { effect_class, .. } if matches!(part, TurnPartId::Call(..)) => {
                open.set_attribute(n::TOOL_EFFECT_CLASS_ATTRIBUTE, effect_class.to_string());
                open.add_event(n::TOOL_START_EVENT_NAME, at, Vec::new());
            }
            Event::Retry {
                attempt, delay_ms, ..
            } => {
                let attempt = KeyValue::new(n::ATTEMPT_NUMBER_ATTRIBUTE, i64::from(*attempt));
                let delay = KeyValue::new(n::RETRY_DELAY_MS_ATTRIBUTE, to_saturated_i64(*delay_ms));
                open.add_event(n::RETRY_EVENT_NAME, at, vec![attempt, delay]);
            }
            Event::Hook { record } if record.outcome != TraceOutcome::Pass => {
                open.add_event(n::HOOK_EVENT_NAME, at, hook_attributes(record));
            }
            Event::Access { record } if record.has_no_separate_event() => {
                open.add_event(
                    n::PLUGIN_ACCESS_EVENT_NAME,
                    at,
                    plugin_access_attributes(record),
                );
            }
            _ => {}
        }
    }
}
