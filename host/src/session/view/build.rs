//! Creates the view of a session, entry by entry.
//!
//! An entry about a result, a decision or an end is added to the event of its call, subagent or
//! turn. An entry that belongs to none of them becomes a separate event.

use std::collections::HashMap;

use serde_json::Value;

use super::described::{describe_entry_as_note, message_to_view_item, to_json_text_without_quotes};
use super::{CallView, Decision, SessionView, TurnEventContent, TurnEventView, TurnView};
use crate::event::SubagentState;
use crate::message::{Message, Role, Usage};
use crate::point::payload::StopReason;
use crate::session::entry::Body;
use crate::session::head::title_from_plugin_entry;
use crate::session::interrupted::REPEATED_CALL_REASON;

/// Trace outcome of a hook that had no objection. The view does not show such hook calls.
const NO_OBJECTION_HOOK_OUTCOME: &str = "pass";

/// Value of `reason` in a replacement entry that undid a turn.
const UNDONE_TURN_REASON: &str = crate::session::undo::UNDONE_TURN_REASON;

pub(super) struct SessionViewBuilder {
    pub(super) view: SessionView,
    /// Index of each tool call in the list of events of the last turn, by the id of the call.
    calls: HashMap<String, usize>,
    /// Position of the event of each subagent, by subagent id: index of the turn, and index of the
    /// event in the turn.
    agents: HashMap<String, (usize, usize)>,
    /// Index of the turn of each message, by message id.
    messages: HashMap<String, usize>,
    /// Whether a person gave the session its title. A plugin's title then has no effect.
    is_named: bool,
}

impl SessionViewBuilder {
    pub(super) fn new(id: &str) -> Self {
        let view = SessionView {
            id: id.to_owned(),
            ..SessionView::default()
        };
        Self {
            view,
            calls: HashMap::new(),
            agents: HashMap::new(),
            messages: HashMap::new(),
            is_named: false,
        }
    }

    /// Adds the entry on line number `line` to the view.
    pub(super) fn apply_entry_line(&mut self, line: u64, entry: &str, time: i64, body: &Body) {
        let add = |item| TurnEventView {
            line,
            entry: entry.to_owned(),
            time,
            item,
        };
        match body {
            Body::Session { .. } | Body::Resumed { .. } | Body::Forked { .. } => {
                self.apply_header(time, body);
            }
            Body::Title { title } => {
                self.view.title = Some(title.clone());
                self.is_named = true;
            }
            Body::TurnStart {
                turn,
                input,
                source,
                command,
                plugins,
                ..
            } => {
                self.calls.clear();
                self.view.turns.push(TurnView {
                    turn: *turn,
                    input: input.clone(),
                    source: to_json_text_without_quotes(source),
                    command: command.clone(),
                    plugins: plugins.clone(),
                    started: time,
                    ..TurnView::default()
                });
            }
            Body::TurnEnd {
                summary, output, ..
            } => {
                if summary.stop == StopReason::Failed && !output.is_empty() {
                    self.push(add(create_note_event_content(format!(
                        "the turn failed: {output}"
                    ))));
                }
                let turn = self.last_turn_mut();
                turn.stop = Some(to_json_text_without_quotes(&summary.stop));
                turn.cost_usd = summary.cost_usd;
                turn.unpriced_tokens = summary.unpriced_tokens;
                turn.usage = summary.usage;
            }
            Body::Cut { reason, .. } => {
                self.last_turn_mut().stop = Some("cut".to_owned());
                self.push(add(create_note_event_content(format!(
                    "the turn was cut short: {reason}"
                ))));
            }
            Body::Message { message } => self.add_message(message, &add),
            Body::Step {
                step,
                model,
                usage,
                cost_usd,
                aside,
                ..
            } => {
                let turn = self.last_turn_mut();
                turn.steps += 1;
                if turn.stop.is_none() {
                    turn.usage += *usage;
                    turn.cost_usd += cost_usd.unwrap_or_default();
                }
                self.push(add(TurnEventContent::Step {
                    step: *step,
                    model: model.clone(),
                    usage: *usage,
                    cost_usd: *cost_usd,
                    aside: aside.clone(),
                }));
            }
            Body::ToolStart { .. } | Body::ToolEnd { .. } => self.apply_call_entry(body, &add),
            Body::Trace { record } => self.add_hook_decision(record, &add),
            Body::SubagentStart {
                agent,
                plugin,
                task,
                preset,
                is_continued,
                ..
            } => {
                let at = self.push(add(TurnEventContent::Subagent {
                    agent: agent.clone(),
                    plugin: plugin.clone(),
                    task: task.clone(),
                    answer: None,
                    is_error: false,
                    preset: preset.clone(),
                    is_continued: *is_continued,
                    state: None,
                    steps: 0,
                    cost_usd: 0.0,
                    usage: Usage::default(),
                }));
                self.agents.insert(agent.clone(), at);
            }
            Body::SubagentEnd { agent, .. } => self.end_subagent(agent, body),
            Body::Replaced {
                reason, messages, ..
            } if reason == REPEATED_CALL_REASON => {
                self.push(add(create_note_event_content(format!(
                    "the result of a call that was {reason}"
                ))));
                messages
                    .iter()
                    .for_each(|message| self.add_message(message, &add));
            }
            Body::Replaced {
                reason,
                removed,
                messages,
                holder,
            } => {
                let holder = holder.as_ref().map(|holder| holder.agent.clone());
                self.mark_undone_or_archived_turns(reason, removed, holder.as_ref());
                let texts: Vec<String> = messages.iter().map(Message::joined_text).collect();
                self.push(add(TurnEventContent::Replaced {
                    reason: reason.clone(),
                    removed: removed.len(),
                    summary: texts.join("\n"),
                    holder,
                }));
            }
            Body::Prompt { parts, .. } => {
                let parts = parts.clone();
                self.push(add(TurnEventContent::Prompt { parts }));
            }
            other => {
                if let Some(title) = title_from_plugin_entry(other).filter(|_| !self.is_named) {
                    self.view.title = Some(title.to_owned());
                }
                if let Some(text) = describe_entry_as_note(other) {
                    self.push(add(create_note_event_content(text)));
                }
            }
        }
    }

    fn apply_header(&mut self, time: i64, body: &Body) {
        let view = &mut self.view;
        match body {
            Body::Session {
                workspace,
                provider,
                model,
                ..
            } => {
                view.created = time;
                view.workspace.clone_from(workspace);
                (view.provider, view.model) = (provider.clone(), model.clone());
            }
            Body::Resumed {
                provider, model, ..
            } => {
                (view.provider, view.model) = (provider.clone(), model.clone());
            }
            Body::Forked { from } => view.forked_from.push(from.clone()),
            _ => {}
        }
    }

    /// Returns the last turn of the view. If there is none yet, adds a turn with the number 0.
    fn last_turn_mut(&mut self) -> &mut TurnView {
        if self.view.turns.is_empty() {
            self.view.turns.push(TurnView::default());
        }
        let last = self.view.turns.len() - 1;
        &mut self.view.turns[last]
    }

    /// Adds an event to the last turn. Returns the index of the turn, and of the event in the turn.
    fn push(&mut self, item: TurnEventView) -> (usize, usize) {
        let turn = self.last_turn_mut();
        turn.items.push(item);
        let at = turn.items.len() - 1;
        (self.view.turns.len() - 1, at)
    }

    fn add_message(&mut self, message: &Message, add: &dyn Fn(TurnEventContent) -> TurnEventView) {
        self.last_turn_mut();
        let at = self.view.turns.len() - 1;
        self.messages.insert(message.id.clone(), at);
        if message.role != Role::Tool {
            let item = message_to_view_item(message);
            if let TurnEventContent::Said {
                text,
                reasoning,
                blobs,
                ..
            } = &item
                && !(text.is_empty() && reasoning.is_empty() && blobs.is_empty())
            {
                self.push(add(item));
            }
        }
        for call in message.tool_calls() {
            self.add_call(
                CallView {
                    id: call.id.clone(),
                    tool: call.name.clone(),
                    arguments: call.arguments.clone(),
                    ..CallView::default()
                },
                add,
            );
        }
        for result in message.tool_results() {
            let call = self.find_or_add_call(&result.call_id, &result.name, add);
            call.result = Some(result.content.text().into_owned());
            call.attachments = result.content.blobs().cloned().collect();
            call.is_error = result.is_error;
        }
    }

    fn add_call(&mut self, call: CallView, add: &dyn Fn(TurnEventContent) -> TurnEventView) {
        let id = call.id.clone();
        let (_, at) = self.push(add(TurnEventContent::Call(Box::new(call))));
        self.calls.insert(id, at);
    }

    /// Returns a tool call of the last turn. If no earlier entry mentioned the call, adds it.
    fn find_or_add_call(
        &mut self,
        id: &str,
        tool: &str,
        add: &dyn Fn(TurnEventContent) -> TurnEventView,
    ) -> &mut CallView {
        if !self.calls.contains_key(id) {
            self.add_call(
                CallView {
                    id: id.to_owned(),
                    tool: tool.to_owned(),
                    ..CallView::default()
                },
                add,
            );
        }
        let at = self.calls.get(id).copied().unwrap_or_default();
        match &mut self.last_turn_mut().items[at].item {
            TurnEventContent::Call(call) => call,
            _ => unreachable!("`calls` has only places of calls"),
        }
    }

    fn apply_call_entry(&mut self, body: &Body, add: &dyn Fn(TurnEventContent) -> TurnEventView) {
        match body {
            Body::ToolStart {
                call: id,
                name,
                arguments,
                by,
                ..
            } => {
                let call = self.find_or_add_call(id, name, add);
                call.has_begun = true;
                call.by.clone_from(by);
                match (arguments, by) {
                    (Some(arguments), Some(_)) => call.arguments = arguments.clone(),
                    (Some(arguments), None) => call.ran_with = Some(arguments.clone()),
                    (None, _) => {}
                }
            }
            Body::ToolEnd {
                call: id,
                duration_ms,
                refused_by,
                result,
            } => {
                let tool = result.as_ref().map_or("", |result| &result.name);
                let call = self.find_or_add_call(id, tool, add);
                call.duration_ms = Some(*duration_ms);
                call.refused_by.clone_from(refused_by);
                call.is_error |= refused_by.is_some();
                if let Some(result) = result {
                    call.result = Some(result.content.text().into_owned());
                    call.attachments = result.content.blobs().cloned().collect();
                    call.is_error |= result.is_error;
                }
            }
            _ => {}
        }
    }

    /// Adds the decision of a hook to the tool call that it concerns, or else as a separate event.
    fn add_hook_decision(
        &mut self,
        record: &Value,
        add: &dyn Fn(TurnEventContent) -> TurnEventView,
    ) {
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        let outcome = text("outcome").unwrap_or_default();
        if outcome == NO_OBJECTION_HOOK_OUTCOME || outcome.is_empty() {
            return;
        }
        let changed = record["changed"].as_array().into_iter().flatten();
        let decision = Decision {
            plugin: text("plugin").unwrap_or_default(),
            point: text("point").unwrap_or_default(),
            outcome,
            changed: changed.map(crate::json::format_value_for_display).collect(),
            reason: text("reason"),
            step: u32::try_from(record["step"].as_u64().unwrap_or_default()).unwrap_or_default(),
            micros: record["micros"].as_f64().unwrap_or_default(),
        };
        let call = text("call_id").filter(|id| self.calls.contains_key(id));
        match call {
            Some(id) => self.find_or_add_call(&id, "", add).decisions.push(decision),
            None => {
                self.push(add(TurnEventContent::Decision(decision)));
            }
        }
    }

    fn end_subagent(&mut self, agent: &str, end: &Body) {
        let at = self.agents.get(agent);
        let item = at.and_then(|(turn, item)| self.view.turns.get_mut(*turn)?.items.get_mut(*item));
        if let Some(TurnEventView {
            item:
                TurnEventContent::Subagent {
                    answer,
                    is_error,
                    state,
                    steps,
                    cost_usd,
                    usage,
                    ..
                },
            ..
        }) = item
            && let Body::SubagentEnd {
                answer: said,
                is_error: failed,
                state: ended,
                steps: n_steps,
                cost_usd: cost,
                usage: used,
                ..
            } = end
        {
            let of_error = match failed {
                true => SubagentState::Failed,
                false => SubagentState::Answered,
            };
            *answer = Some(said.clone());
            *is_error = *failed;
            *state = Some(ended.unwrap_or(of_error));
            (*steps, *cost_usd, *usage) = (*n_steps, *cost, *used);
        }
    }

    /// Marks the turns whose messages were removed from the conversation because the turn was
    /// undone, or archived in a subagent (the holder).
    fn mark_undone_or_archived_turns(
        &mut self,
        reason: &str,
        removed: &[String],
        holder: Option<&String>,
    ) {
        if holder.is_none() && reason != UNDONE_TURN_REASON {
            return;
        }
        for id in removed {
            let turn = self.messages.get(id);
            if let Some(turn) = turn.and_then(|at| self.view.turns.get_mut(*at)) {
                turn.is_undone |= reason == UNDONE_TURN_REASON;
                if let Some(holder) = holder {
                    turn.archived_in = Some(holder.clone());
                }
            }
        }
    }
}

fn create_note_event_content(text: String) -> TurnEventContent {
    TurnEventContent::Note { text }
}
