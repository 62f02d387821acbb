//! Builds spans from events: which begin, which end, and how they nest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

use super::attributes::{access, finish_reasons, hook, is_news, named, number, tool, used, word};
use super::names as n;
use super::open::{Open, Running};
use crate::event::{Event, Stamped};
use crate::point::payload::{StopReason, TurnSummary};
use crate::point::trace::TraceOutcome;

/// Spans that are open.
#[derive(Debug)]
pub(super) struct Tree {
    tracer: SdkTracer,
    provider: String,
    agents: HashMap<Arc<str>, Running>,
    /// The last turn of the main agent: it is archived after its end.
    ended: Context,
    /// Time of the last event.
    last: SystemTime,
}

impl Tree {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self {
            tracer,
            provider: String::new(),
            agents: HashMap::new(),
            ended: Context::new(),
            last: SystemTime::now(),
        }
    }

    /// Ends what is open: nothing more comes.
    pub(super) fn close(&mut self) {
        for (_, agent) in self.agents.drain() {
            agent.end(self.last);
        }
    }

    pub(super) fn take(&mut self, stamped: &Stamped) {
        let at = SystemTime::from(stamped.at);
        self.last = at;
        match &stamped.event {
            Event::SessionOpened { provider, .. } => self.provider.clone_from(provider),
            Event::TurnStart { .. } => self.turn_start(stamped, at),
            Event::SubagentStart {
                subagent, call_id, ..
            } => self.subagent_start(stamped, at, subagent, call_id.as_deref()),
            Event::SubagentEnd {
                subagent, is_error, ..
            } => {
                if let Some(mut agent) = self.agents.remove(&**subagent) {
                    if *is_error {
                        agent.turn.fail(n::FAILED.into());
                    }
                    agent.end(at);
                }
            }
            Event::TurnEnd { summary, .. } => self.turn_end(stamped, summary),
            Event::ArchiveStart {
                messages, tokens, ..
            } => {
                let parent = match self.agents.get(&stamped.agent) {
                    Some(agent) => &agent.turn.context,
                    None => &self.ended,
                };
                let open = self.aside(stamped, n::ARCHIVE, parent, (*messages, *tokens));
                match self.agents.get_mut(&stamped.agent) {
                    Some(agent) => agent.aside = Some(open),
                    None => {
                        let running = Running::new(open);
                        self.agents.insert(stamped.agent.clone(), running);
                    }
                }
            }
            Event::ArchiveEnd { holder, .. } => {
                let done = KeyValue::new(n::ARCHIVED, holder.is_some());
                let agent = self.agents.get_mut(&stamped.agent);
                if let Some(mut open) = agent.and_then(|agent| agent.aside.take()) {
                    open.span.set_attribute(done);
                    open.end(at);
                } else if stamped.is_main()
                    && let Some(mut agent) = self.agents.remove(&stamped.agent)
                {
                    agent.turn.span.set_attribute(done);
                    agent.end(at);
                }
            }
            _ => self.within(stamped, at),
        }
    }

    /// Opens or ends the span of compaction or archival.
    fn aside(
        &self,
        stamped: &Stamped,
        name: &str,
        parent: &Context,
        (messages, tokens): (u32, u64),
    ) -> Open {
        let attributes = vec![
            KeyValue::new(n::MESSAGES, i64::from(messages)),
            KeyValue::new(n::TOKENS, number(tokens)),
        ];
        let name = (name.to_owned(), SpanKind::Internal);
        self.start(stamped, name, parent, attributes)
    }

    fn start(
        &self,
        stamped: &Stamped,
        (name, kind): (String, SpanKind),
        parent: &Context,
        mut attributes: Vec<KeyValue>,
    ) -> Open {
        if let Some(session) = &stamped.session {
            attributes.push(KeyValue::new(n::GEN_AI_CONVERSATION_ID, session.clone()));
        }
        attributes.push(KeyValue::new(n::TURN, i64::from(stamped.turn)));
        if stamped.step > 0 {
            attributes.push(KeyValue::new(n::STEP, i64::from(stamped.step)));
        }
        let builder = self.tracer.span_builder(name);
        let builder = builder
            .with_kind(kind)
            .with_start_time(stamped.at)
            .with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, parent);
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        Open::new(span, context)
    }

    fn agent(&self, stamped: &Stamped, parent: &Context, name: &str, id: Option<&str>) -> Open {
        let mut attributes = vec![
            KeyValue::new(n::GEN_AI_OPERATION_NAME, n::INVOKE_AGENT),
            KeyValue::new(n::GEN_AI_AGENT_NAME, name.to_owned()),
            KeyValue::new(n::GEN_AI_PROVIDER_NAME, self.provider.clone()),
        ];
        attributes.extend(id.map(|id| KeyValue::new(n::GEN_AI_AGENT_ID, id.to_owned())));
        let span = format!("{} {name}", n::INVOKE_AGENT);
        self.start(stamped, (span, SpanKind::Internal), parent, attributes)
    }

    fn turn_start(&mut self, stamped: &Stamped, at: SystemTime) {
        // A subagent's span began with the subagent.
        if self.agents.contains_key(&stamped.agent) && !stamped.is_main() {
            return;
        }
        if let Some(left) = self.agents.remove(&stamped.agent) {
            left.end(at);
        }
        let (name, id) = match stamped.is_main() {
            true => (n::MAIN, None),
            false => (n::SUBAGENT, Some(&*stamped.agent)),
        };
        let turn = self.agent(stamped, &Context::new(), name, id);
        self.agents
            .insert(stamped.agent.clone(), Running::new(turn));
    }

    fn subagent_start(&mut self, stamped: &Stamped, at: SystemTime, id: &str, call: Option<&str>) {
        let parent = match self.agents.get_mut(&stamped.agent) {
            Some(agent) => agent.above(call).context.clone(),
            None => Context::new(),
        };
        let turn = self.agent(stamped, &parent, n::SUBAGENT, Some(id));
        let known = self.agents.insert(id.into(), Running::new(turn));
        if let Some(known) = known {
            known.end(at);
        }
    }

    fn turn_end(&mut self, stamped: &Stamped, summary: &TurnSummary) {
        let Some(agent) = self.agents.get_mut(&stamped.agent) else {
            return;
        };
        agent.turn.span.set_attributes(used(summary.usage));
        agent.turn.span.set_attributes([
            KeyValue::new(n::STOP, word(&summary.stop)),
            KeyValue::new(n::STEPS, i64::from(summary.steps)),
            KeyValue::new(n::TOOL_CALLS, i64::from(summary.tool_calls)),
        ]);
        if summary.stop == StopReason::Failed {
            agent.turn.fail(n::FAILED.into());
        }
        if stamped.is_main() {
            self.ended = agent.turn.context.clone();
            // Subagents end with the turn.
            self.close();
        }
    }

    /// Handles an event within a turn.
    fn within(&mut self, stamped: &Stamped, at: SystemTime) {
        let Some(mut agent) = self.agents.remove(&stamped.agent) else {
            return;
        };
        self.on(&mut agent, stamped, at);
        self.agents.insert(stamped.agent.clone(), agent);
    }

    fn on(&self, agent: &mut Running, stamped: &Stamped, at: SystemTime) {
        match &stamped.event {
            Event::Assessed { decision, .. } => {
                let decision = KeyValue::new(n::DECISION, word(decision));
                agent.turn.span.set_attribute(decision);
            }
            Event::RequestStart {
                request,
                provider,
                model,
                by,
                call_id,
            } => {
                let mut attributes = vec![
                    KeyValue::new(n::GEN_AI_OPERATION_NAME, n::CHAT),
                    KeyValue::new(n::GEN_AI_PROVIDER_NAME, provider.clone()),
                    KeyValue::new(n::GEN_AI_REQUEST_MODEL, model.clone()),
                ];
                attributes.extend(named(n::PLUGIN, by));
                let above = agent.above(call_id.as_deref());
                let name = (format!("{} {model}", n::CHAT), SpanKind::Client);
                let open = self.start(stamped, name, &above.context, attributes);
                agent.requests.insert(*request, open);
            }
            Event::RequestEnd { request, .. } => {
                if let Some(open) = agent.requests.remove(request) {
                    request_end(open, &stamped.event, at);
                }
            }
            Event::Retry {
                attempt, delay_ms, ..
            } => {
                let mut open: Vec<&mut Open> = agent.requests.values_mut().collect();
                let attributes = vec![
                    KeyValue::new(n::ATTEMPT, i64::from(*attempt)),
                    KeyValue::new(n::DELAY_MS, number(*delay_ms)),
                ];
                match &mut open[..] {
                    [only] => only.note(n::RETRY, at, attributes),
                    _ => agent.turn.note(n::RETRY, at, attributes),
                }
            }
            Event::CompactStart { messages, tokens } => {
                let size = (*messages, *tokens);
                agent.aside = Some(self.aside(stamped, n::COMPACT, &agent.turn.context, size));
            }
            Event::CompactEnd { is_built_in, .. } => {
                if let Some(mut open) = agent.aside.take() {
                    let built_in = KeyValue::new(n::COMPACT_BUILT_IN, *is_built_in);
                    open.span.set_attribute(built_in);
                    open.end(at);
                }
            }
            Event::ToolCall {
                call,
                plugin,
                by,
                parent_id,
            } => {
                let mut attributes = vec![
                    KeyValue::new(n::GEN_AI_OPERATION_NAME, n::EXECUTE_TOOL),
                    KeyValue::new(n::GEN_AI_TOOL_NAME, tool(&call.name).to_owned()),
                    KeyValue::new(n::GEN_AI_TOOL_CALL_ID, call.id.clone()),
                    KeyValue::new(n::GEN_AI_TOOL_TYPE, n::FUNCTION),
                ];
                attributes.extend(named(n::PLUGIN, plugin));
                attributes.extend(named(n::BY, by));
                let context = &agent.above(parent_id.as_deref()).context;
                let name = format!("{} {}", n::EXECUTE_TOOL, tool(&call.name));
                let name = (name, SpanKind::Internal);
                let open = self.start(stamped, name, context, attributes);
                agent.calls.insert(call.id.clone(), open);
            }
            Event::ToolStart {
                call, effect_class, ..
            } => {
                if let Some(open) = agent.calls.get_mut(&call.id) {
                    let class = KeyValue::new(n::EFFECT_CLASS, effect_class.to_string());
                    open.span.set_attribute(class);
                    open.note(n::TOOL_START, at, Vec::new());
                }
            }
            Event::ToolEnd {
                result, refused_by, ..
            } => {
                if let Some(mut open) = agent.calls.remove(&result.call_id) {
                    open.span.set_attributes(named(n::REFUSED_BY, refused_by));
                    match (result.is_error, refused_by) {
                        (true, Some(_)) => open.fail(n::DENIED.into()),
                        (true, None) => open.fail(n::TOOL_ERROR.into()),
                        (false, _) => {}
                    }
                    open.end(at);
                }
            }
            Event::Hook { record } => {
                if record.was_called() {
                    agent.n_hooks += 1;
                    agent.hook_micros += record.micros;
                }
                if record.outcome != TraceOutcome::Pass {
                    let above = agent.above(record.call_id.as_deref());
                    above.note(n::HOOK, at, hook(record));
                }
            }
            Event::Access { record } if is_news(record) => {
                let above = agent.above(record.origin.call_id.as_deref());
                above.note(n::ACCESS, at, access(record));
            }
            Event::Error { place, .. } => agent.turn.fail(place.clone().into()),
            _ => {}
        }
    }
}

fn request_end(mut open: Open, event: &Event, at: SystemTime) {
    let Event::RequestEnd {
        model,
        usage,
        finish,
        error,
        ..
    } = event
    else {
        return;
    };
    open.span
        .set_attributes(named(n::GEN_AI_RESPONSE_MODEL, model));
    if let Some(finish) = finish {
        open.span.set_attribute(finish_reasons(*finish));
        open.span.set_attributes(used(*usage));
    }
    if error.is_some() {
        open.fail(n::NO_ANSWER.into());
    }
    open.end(at);
}
