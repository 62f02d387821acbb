//! Converts the events of a session into updates for the client.
//!
//! Owns the part of the current answer that was already sent to the client, and the ids of the open
//! tool calls. Only events of the main agent are shown; the work of a subagent appears only as the
//! tool call that runs the subagent. Start from [`SessionEventConverter::convert_event`].

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rind_lib::agent::{extract_unfinished_answer, find_unshown_output};
use rind_lib::event::{Event, Stamped};
use rind_lib::message::{EffectClass, Finish, Message, Role, ToolCall, ToolSpec};
use rind_lib::point::outcome::Level;
use rind_lib::point::payload::{StopReason as TurnStop, TurnSummary};
use rind_lib::text::{escape_and_truncate_line, escape_prose_for_display};

use crate::calls::{DisplayedToolCall, result_content, text_content};
use crate::plan::parse_plan;
use crate::rpc::to_json_or_null;
use crate::wire::{
    ContentBlock, ContentChunk, NoticeSeverity, SessionUpdate, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, UsageUpdate, WireCall,
};

/// Maximum length of a notice to the client, in bytes.
const MAX_NOTICE_BYTES: usize = 2000;

/// An update of the conversation, or a notice that is shown outside the conversation.
pub(crate) enum ClientUpdateOrNotice {
    Update(Box<SessionUpdate>),
    Notice(NoticeSeverity, String),
}

/// Converts the events of one session and keeps the state that this needs.
pub(crate) struct SessionEventConverter {
    workspace: PathBuf,
    tools: HashMap<String, Arc<ToolSpec>>,
    /// Size of the model's context window in tokens, if known.
    pub(crate) window: Option<u64>,
    /// Part of the model's current answer that was already sent to the client.
    streamed: String,
    /// Unfinished tool calls, by the ids that the model gave them.
    open: HashMap<String, UnfinishedToolCall>,
    n_calls: u64,
    /// Numbers of the unfinished model requests that plugins make; their answers are not shown.
    of_plugins: HashSet<u32>,
    finish: Option<Finish>,
    failure: Option<String>,
}

struct UnfinishedToolCall {
    shown_id: String,
    is_command: bool,
}

impl SessionEventConverter {
    /// Creates the converter for a session that works in `workspace` and has these tools.
    pub(crate) fn new(workspace: &Path, tools: Vec<Arc<ToolSpec>>) -> Self {
        let tools = tools.into_iter();
        Self {
            workspace: workspace.to_owned(),
            tools: tools.map(|spec| (spec.name.clone(), spec)).collect(),
            window: None,
            streamed: String::new(),
            open: HashMap::new(),
            n_calls: 0,
            of_plugins: HashSet::new(),
            finish: None,
            failure: None,
        }
    }

    /// Replaces the tools of the session, after the session was opened again.
    pub(crate) fn set_session_tools(&mut self, tools: Vec<Arc<ToolSpec>>) {
        let tools = tools.into_iter();
        self.tools = tools.map(|spec| (spec.name.clone(), spec)).collect();
    }

    /// Returns why the model ended its last answer of the turn.
    pub(crate) fn last_finish_reason(&self) -> Option<Finish> {
        self.finish
    }

    /// Removes the error message of the turn, and returns it.
    pub(crate) fn take_turn_error(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns the client's id of an open tool call, given the model's id of it.
    pub(crate) fn client_call_id(&self, call: &str) -> Option<String> {
        self.open.get(call).map(|open| open.shown_id.clone())
    }

    /// Returns the folder that the session works in.
    pub(crate) fn workspace_folder(&self) -> &Path {
        &self.workspace
    }

    /// Returns the effect class and the plugin of a tool. An unknown tool gets an empty plugin
    /// name, because it is not built in.
    pub(crate) fn tool_effect_and_plugin(
        &self,
        name: &str,
    ) -> (Option<EffectClass>, Option<String>) {
        match self.tools.get(name) {
            Some(spec) => (Some(spec.effect_class), spec.plugin.clone()),
            None => (None, Some(String::new())),
        }
    }

    /// Creates an id that is unique among the calls of the session.
    pub(crate) fn next_call_id(&mut self, call: &str) -> String {
        self.n_calls += 1;
        format!("{}-{}", self.n_calls, escape_and_truncate_line(call, 80))
    }

    /// Converts an event of the session into updates and notices for the client.
    pub(crate) fn convert_event(&mut self, stamped: &Stamped) -> Vec<ClientUpdateOrNotice> {
        if !stamped.is_from_main_agent() {
            return Vec::new();
        }
        match &stamped.event {
            Event::TurnStart { .. } => {
                (self.finish, self.failure) = (None, None);
                self.of_plugins.clear();
                self.streamed.clear();
                Vec::new()
            }
            Event::StepStart { .. } | Event::Retry { .. } => {
                self.streamed.clear();
                Vec::new()
            }
            Event::TextDelta { text } => {
                self.streamed.push_str(text);
                vec![answer_text_chunk(text)]
            }
            Event::ThinkingDelta { text } => vec![thought_text_chunk(text)],
            Event::Correction { text, .. } => self.retract_streamed_text(text),
            Event::MessageEnd { message } => self.message_text_update(message),
            Event::ToolCall { call, plugin, .. } => {
                self.register_call_and_build_updates(call, plugin.as_deref())
            }
            Event::ToolStart {
                call,
                effect_class,
                plugin,
                ..
            } => self.running_tool_call_updates(call, *effect_class, plugin.as_deref()),
            Event::ToolEnd {
                result, refused_by, ..
            } => {
                let refused = refused_by.as_deref().map(|by| format!("refused by {by}"));
                let Some(open) = self.open.remove(&result.call_id) else {
                    return Vec::new();
                };
                vec![ended_tool_call_update(&open, result, refused)]
            }
            Event::RequestStart {
                request,
                by: Some(_),
                ..
            } => {
                self.of_plugins.insert(*request);
                Vec::new()
            }
            Event::RequestEnd { request, .. } if self.of_plugins.remove(request) => Vec::new(),
            Event::RequestEnd { usage, finish, .. } => {
                self.finish = *finish;
                let used = self
                    .window
                    .map(|window| UsageUpdate::new(usage.total(), window));
                let used = used.filter(|_| usage.total() > 0);
                used.map(|used| wrap_session_update(SessionUpdate::UsageUpdate(used)))
                    .into_iter()
                    .collect()
            }
            Event::Notice {
                level,
                plugin,
                text,
            } => vec![create_client_notice(*level, plugin.as_deref(), text)],
            Event::Error { message, .. } => {
                self.failure = Some(message.clone());
                Vec::new()
            }
            Event::TurnEnd {
                summary, output, ..
            } => self.turn_end_updates(summary, output),
            _ => Vec::new(),
        }
    }

    /// Tells the client to ignore the text of the answer that was sent so far, because a sent
    /// update cannot be withdrawn.
    fn retract_streamed_text(&mut self, text: &str) -> Vec<ClientUpdateOrNotice> {
        if self.streamed.is_empty() {
            return Vec::new();
        }
        self.streamed.clear();
        let words = match text.is_empty() {
            true => "the request is sent again; ignore what was shown of this answer",
            false => "the answer was changed after it was shown; ignore what was shown of it",
        };
        vec![answer_text_chunk(&format!("\n\n*[{words}]*\n\n"))]
    }

    /// Returns an update with the text of a message that has tool calls, if the text was not
    /// streamed. The final answer of a turn is sent at the end of the turn.
    fn message_text_update(&self, message: &Message) -> Vec<ClientUpdateOrNotice> {
        let text = message.joined_text();
        let is_new = message.role == Role::Assistant
            && self.streamed.is_empty()
            && message.tool_calls().next().is_some()
            && !text.trim().is_empty();
        is_new
            .then(|| answer_text_chunk(text.trim()))
            .into_iter()
            .collect()
    }

    fn register_call_and_build_updates(
        &mut self,
        call: &ToolCall,
        plugin: Option<&str>,
    ) -> Vec<ClientUpdateOrNotice> {
        let class = self.tools.get(&call.name).map(|spec| spec.effect_class);
        let shape = DisplayedToolCall::from_call(call, class, plugin, &self.workspace);
        let shown_id = self.next_call_id(&call.id);
        let open = UnfinishedToolCall {
            shown_id: shown_id.clone(),
            is_command: shape.kind == ToolKind::Execute,
        };
        // A second call with the same id replaces the first, because a result could not be assigned
        // to one of the two.
        self.open.insert(call.id.clone(), open);
        let told = WireCall::new(shown_id, shape.title)
            .kind(shape.kind)
            .status(ToolCallStatus::Pending)
            .content(shape.content)
            .locations(shape.locations)
            .raw_input(call.arguments.clone());
        vec![wrap_session_update(SessionUpdate::ToolCall(told))]
    }

    fn running_tool_call_updates(
        &mut self,
        call: &ToolCall,
        class: EffectClass,
        plugin: Option<&str>,
    ) -> Vec<ClientUpdateOrNotice> {
        let Some(open) = self.open.get(&call.id) else {
            return Vec::new();
        };
        // Send the call again: hooks may have changed its arguments, and the approval question has
        // replaced the call's content in the client.
        let shape = DisplayedToolCall::from_call(call, Some(class), plugin, &self.workspace);
        let fields = ToolCallUpdateFields::new()
            .title(shape.title)
            .kind(shape.kind)
            .status(ToolCallStatus::InProgress)
            .content(shape.content)
            .locations(shape.locations)
            .raw_input(call.arguments.clone());
        let mut updates = vec![create_call_update(&open.shown_id, fields)];
        updates.extend(parse_plan(call).map(|plan| wrap_session_update(SessionUpdate::Plan(plan))));
        updates
    }

    fn turn_end_updates(
        &mut self,
        summary: &TurnSummary,
        output: &str,
    ) -> Vec<ClientUpdateOrNotice> {
        // An interruption of the turn ends open calls without a `ToolEnd` event.
        let cut = std::mem::take(&mut self.open);
        let mut updates: Vec<ClientUpdateOrNotice> = cut
            .into_values()
            .map(|open| {
                let fields = ToolCallUpdateFields::new()
                    .status(ToolCallStatus::Failed)
                    .content(vec![text_content("the turn ended before the call did")]);
                create_call_update(&open.shown_id, fields)
            })
            .collect();
        let output = output.trim_end();
        let rest = match summary.stop {
            TurnStop::Done => find_unshown_output(output, &self.streamed),
            TurnStop::Blocked | TurnStop::MaxSteps => output,
            TurnStop::Failed if self.streamed.is_empty() => extract_unfinished_answer(output),
            TurnStop::Failed | TurnStop::Cancelled => "",
        };
        if !rest.trim().is_empty() {
            let gap = if self.streamed.is_empty() { "" } else { "\n\n" };
            updates.push(answer_text_chunk(&format!("{gap}{rest}")));
        }
        self.streamed.clear();
        updates
    }
}

fn ended_tool_call_update(
    open: &UnfinishedToolCall,
    result: &rind_lib::message::ToolResult,
    refused: Option<String>,
) -> ClientUpdateOrNotice {
    let has_failed = result.is_error || refused.is_some();
    let status = match has_failed {
        true => ToolCallStatus::Failed,
        false => ToolCallStatus::Completed,
    };
    let mut fields = ToolCallUpdateFields::new()
        .status(status)
        .raw_output(to_json_or_null(&result.content));
    let mut content: Vec<_> = refused.iter().map(|words| text_content(words)).collect();
    content.extend(result_content(&result.content, open.is_command));
    // Keep the diff that the client already shows instead of the result, which says only that the
    // file was changed.
    let is_change = !has_failed && matches!(result.name.as_str(), "edit_file" | "write_file");
    if !is_change {
        fields = fields.content(content);
    }
    create_call_update(&open.shown_id, fields)
}

fn create_call_update(id: &str, fields: ToolCallUpdateFields) -> ClientUpdateOrNotice {
    let update = ToolCallUpdate::new(id.to_owned(), fields);
    wrap_session_update(SessionUpdate::ToolCallUpdate(update))
}

fn create_client_notice(level: Level, plugin: Option<&str>, text: &str) -> ClientUpdateOrNotice {
    let by = plugin.map_or_else(String::new, |plugin| format!("{plugin}: "));
    let severity = match level {
        Level::Error => NoticeSeverity::Error,
        Level::Warn => NoticeSeverity::Warning,
        Level::Info | Level::Debug => NoticeSeverity::Info,
    };
    ClientUpdateOrNotice::Notice(
        severity,
        escape_and_truncate_line(&format!("{by}{text}"), MAX_NOTICE_BYTES),
    )
}

/// Creates an update that adds text to the model's answer.
pub(crate) fn answer_text_chunk(text: &str) -> ClientUpdateOrNotice {
    wrap_session_update(SessionUpdate::AgentMessageChunk(text_chunk(text)))
}

/// Creates an update that adds text to the model's reasoning.
pub(crate) fn thought_text_chunk(text: &str) -> ClientUpdateOrNotice {
    wrap_session_update(SessionUpdate::AgentThoughtChunk(text_chunk(text)))
}

/// Creates a chunk of text whose control characters are escaped.
pub(crate) fn text_chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(escape_prose_for_display(text)))
}

fn wrap_session_update(update: SessionUpdate) -> ClientUpdateOrNotice {
    ClientUpdateOrNotice::Update(Box::new(update))
}
