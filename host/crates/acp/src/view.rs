//! Turns the events of a session into updates for the client.
//!
//! Owns what was shown of the current answer and the ids of the open calls. It shows the main agent;
//! the work of subagents is a part of the calls that run them. Start from [`EventView::take_event`].

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rind_lib::agent::{partial_answer, unshown_rest};
use rind_lib::event::{Event, Stamped};
use rind_lib::message::{EffectClass, Finish, Message, Role, ToolCall, ToolSpec};
use rind_lib::point::outcome::Level;
use rind_lib::point::payload::{StopReason as TurnStop, TurnSummary};
use rind_lib::text::{clean_line, printable_prose};

use crate::calls::{CallShape, result_content, text_content};
use crate::plan::plan_of;
use crate::rpc::to_json;
use crate::wire::{
    ContentBlock, ContentChunk, NoticeSeverity, SessionUpdate, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, UsageUpdate, WireCall,
};

/// Longest notice, in bytes.
const MAX_NOTICE_BYTES: usize = 2000;

/// An update, or a line beside the conversation.
pub(crate) enum Shown {
    Update(Box<SessionUpdate>),
    Notice(NoticeSeverity, String),
}

/// The view of a session.
pub(crate) struct EventView {
    workspace: PathBuf,
    tools: HashMap<String, Arc<ToolSpec>>,
    /// Tokens of the window of the model, if they are known.
    pub(crate) window: Option<u64>,
    /// Text of the current answer that was shown.
    streamed: String,
    /// Open calls, by their ids: the id that the client knows, and whether it runs a command.
    open: HashMap<String, OpenCall>,
    n_calls: u64,
    /// Numbers of the open requests that plugins make.
    of_plugins: HashSet<u32>,
    finish: Option<Finish>,
    failure: Option<String>,
}

struct OpenCall {
    shown_id: String,
    is_command: bool,
}

impl EventView {
    /// Creates the view of a session that works in this folder with these tools.
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

    /// Records the tools of the session, which is opened again.
    pub(crate) fn set_tools(&mut self, tools: Vec<Arc<ToolSpec>>) {
        let tools = tools.into_iter();
        self.tools = tools.map(|spec| (spec.name.clone(), spec)).collect();
    }

    /// Returns how the last answer of the turn ended.
    pub(crate) fn last_finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Takes the reason for the failure of the turn.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns the id under which the client knows an open call.
    pub(crate) fn shown_id(&self, call: &str) -> Option<String> {
        self.open.get(call).map(|open| open.shown_id.clone())
    }

    /// Returns the folder of the session.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the class and the plugin of a tool. An unknown tool counts as one of a plugin: it is
    /// not built in.
    pub(crate) fn tool_origin(&self, name: &str) -> (Option<EffectClass>, Option<String>) {
        match self.tools.get(name) {
            Some(spec) => (Some(spec.effect_class), spec.plugin.clone()),
            None => (None, Some(String::new())),
        }
    }

    /// Creates an id that no call of the session has.
    pub(crate) fn next_id(&mut self, call: &str) -> String {
        self.n_calls += 1;
        format!("{}-{}", self.n_calls, clean_line(call, 80))
    }

    /// Returns the updates of an event.
    pub(crate) fn take_event(&mut self, stamped: &Stamped) -> Vec<Shown> {
        if !stamped.is_main() {
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
                vec![said(text)]
            }
            Event::ThinkingDelta { text } => vec![thought(text)],
            Event::Correction { text, .. } => self.correct(text),
            Event::MessageEnd { message } => self.end_message(message),
            Event::ToolCall { call, plugin, .. } => self.begin_call(call, plugin.as_deref()),
            Event::ToolStart {
                call,
                effect_class,
                plugin,
                ..
            } => self.start_call(call, *effect_class, plugin.as_deref()),
            Event::ToolEnd {
                result, refused_by, ..
            } => {
                let refused = refused_by.as_deref().map(|by| format!("refused by {by}"));
                let Some(open) = self.open.remove(&result.call_id) else {
                    return Vec::new();
                };
                vec![end_call(&open, result, refused)]
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
                used.map(|used| shown(SessionUpdate::UsageUpdate(used)))
                    .into_iter()
                    .collect()
            }
            Event::Notice {
                level,
                plugin,
                text,
            } => vec![notice(*level, plugin.as_deref(), text)],
            Event::Error { message, .. } => {
                self.failure = Some(message.clone());
                Vec::new()
            }
            Event::TurnEnd {
                summary, output, ..
            } => self.end_turn(summary, output),
            _ => Vec::new(),
        }
    }

    /// Tells the client that the shown text no longer holds, because sent text cannot be withdrawn.
    fn correct(&mut self, text: &str) -> Vec<Shown> {
        if self.streamed.is_empty() {
            return Vec::new();
        }
        self.streamed.clear();
        let words = match text.is_empty() {
            true => "the request is sent again; ignore what was shown of this answer",
            false => "the answer was changed after it was shown; ignore what was shown of it",
        };
        vec![said(&format!("\n\n*[{words}]*\n\n"))]
    }

    /// Shows the text of a message with tool calls, if it was not streamed. The final answer is
    /// shown at the end of the turn.
    fn end_message(&self, message: &Message) -> Vec<Shown> {
        let text = message.joined_text();
        let is_new = message.role == Role::Assistant
            && self.streamed.is_empty()
            && message.tool_calls().next().is_some()
            && !text.trim().is_empty();
        is_new.then(|| said(text.trim())).into_iter().collect()
    }

    fn begin_call(&mut self, call: &ToolCall, plugin: Option<&str>) -> Vec<Shown> {
        let class = self.tools.get(&call.name).map(|spec| spec.effect_class);
        let shape = CallShape::of(call, class, plugin, &self.workspace);
        let shown_id = self.next_id(&call.id);
        let open = OpenCall {
            shown_id: shown_id.clone(),
            is_command: shape.kind == ToolKind::Execute,
        };
        // A second call with the same id replaces the first: a result could no longer be assigned
        // to it.
        self.open.insert(call.id.clone(), open);
        let told = WireCall::new(shown_id, shape.title)
            .kind(shape.kind)
            .status(ToolCallStatus::Pending)
            .content(shape.content)
            .locations(shape.locations)
            .raw_input(call.arguments.clone());
        vec![shown(SessionUpdate::ToolCall(told))]
    }

    fn start_call(
        &mut self,
        call: &ToolCall,
        class: EffectClass,
        plugin: Option<&str>,
    ) -> Vec<Shown> {
        let Some(open) = self.open.get(&call.id) else {
            return Vec::new();
        };
        // Send the call again: hooks may have changed its arguments, and the approval question has
        // replaced its content in the client.
        let shape = CallShape::of(call, Some(class), plugin, &self.workspace);
        let fields = ToolCallUpdateFields::new()
            .title(shape.title)
            .kind(shape.kind)
            .status(ToolCallStatus::InProgress)
            .content(shape.content)
            .locations(shape.locations)
            .raw_input(call.arguments.clone());
        let mut updates = vec![call_update(&open.shown_id, fields)];
        updates.extend(plan_of(call).map(|plan| shown(SessionUpdate::Plan(plan))));
        updates
    }

    fn end_turn(&mut self, summary: &TurnSummary, output: &str) -> Vec<Shown> {
        // An interruption ends open calls without an event of their own.
        let cut = std::mem::take(&mut self.open);
        let mut updates: Vec<Shown> = cut
            .into_values()
            .map(|open| {
                let fields = ToolCallUpdateFields::new()
                    .status(ToolCallStatus::Failed)
                    .content(vec![text_content("the turn ended before the call did")]);
                call_update(&open.shown_id, fields)
            })
            .collect();
        let output = output.trim_end();
        let rest = match summary.stop {
            TurnStop::Done => unshown_rest(output, &self.streamed),
            TurnStop::Blocked | TurnStop::MaxSteps => output,
            TurnStop::Failed if self.streamed.is_empty() => partial_answer(output),
            TurnStop::Failed | TurnStop::Cancelled => "",
        };
        if !rest.trim().is_empty() {
            let gap = if self.streamed.is_empty() { "" } else { "\n\n" };
            updates.push(said(&format!("{gap}{rest}")));
        }
        self.streamed.clear();
        updates
    }
}

fn end_call(
    open: &OpenCall,
    result: &rind_lib::message::ToolResult,
    refused: Option<String>,
) -> Shown {
    let has_failed = result.is_error || refused.is_some();
    let status = match has_failed {
        true => ToolCallStatus::Failed,
        false => ToolCallStatus::Completed,
    };
    let mut fields = ToolCallUpdateFields::new()
        .status(status)
        .raw_output(to_json(&result.content));
    let mut content: Vec<_> = refused.iter().map(|words| text_content(words)).collect();
    content.extend(result_content(&result.content, open.is_command));
    // Keep the diff that the client shows: the result only says that the file was changed.
    let is_change = !has_failed && matches!(result.name.as_str(), "edit_file" | "write_file");
    if !is_change {
        fields = fields.content(content);
    }
    call_update(&open.shown_id, fields)
}

fn call_update(id: &str, fields: ToolCallUpdateFields) -> Shown {
    let update = ToolCallUpdate::new(id.to_owned(), fields);
    shown(SessionUpdate::ToolCallUpdate(update))
}

fn notice(level: Level, plugin: Option<&str>, text: &str) -> Shown {
    let by = plugin.map_or_else(String::new, |plugin| format!("{plugin}: "));
    let severity = match level {
        Level::Error => NoticeSeverity::Error,
        Level::Warn => NoticeSeverity::Warning,
        Level::Info | Level::Debug => NoticeSeverity::Info,
    };
    Shown::Notice(
        severity,
        clean_line(&format!("{by}{text}"), MAX_NOTICE_BYTES),
    )
}

/// Text of the model.
pub(crate) fn said(text: &str) -> Shown {
    shown(SessionUpdate::AgentMessageChunk(chunk(text)))
}

/// Reasoning of the model.
pub(crate) fn thought(text: &str) -> Shown {
    shown(SessionUpdate::AgentThoughtChunk(chunk(text)))
}

/// Creates a chunk of a text.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(printable_prose(text)))
}

fn shown(update: SessionUpdate) -> Shown {
    Shown::Update(Box::new(update))
}
