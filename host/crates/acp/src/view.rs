//! Converts the events of a session into updates for the client.
//!
//! Owns the text of the current answer that the client has received, and the ids of the open calls.
//! Only events of the main agent are shown; the work of a subagent appears only as the tool call
//! that runs the subagent. Start from [`EventView::take_event`].

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

/// Maximum length of a notice, in bytes.
const MAX_NOTICE_BYTES: usize = 2000;

/// An update of the conversation, or a notice outside of it.
pub(crate) enum Shown {
    Update(Box<SessionUpdate>),
    Notice(NoticeSeverity, String),
}

/// Converts the events of one session.
pub(crate) struct EventView {
    workspace: PathBuf,
    tools: HashMap<String, Arc<ToolSpec>>,
    /// Size of the model's context window in tokens, if known.
    pub(crate) window: Option<u64>,
    /// Text of the current answer that was sent to the client as it streamed in.
    streamed: String,
    /// Open tool calls, by the ids that the model gave them.
    open: HashMap<String, OpenCall>,
    n_calls: u64,
    /// Numbers of the open model requests that plugins make; these requests are not shown.
    of_plugins: HashSet<u32>,
    finish: Option<Finish>,
    failure: Option<String>,
}

struct OpenCall {
    shown_id: String,
    is_command: bool,
}

impl EventView {
    /// Creates the view of a session that works in `workspace` and has these tools.
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

    /// Replaces the tools, after the session was opened again.
    pub(crate) fn set_tools(&mut self, tools: Vec<Arc<ToolSpec>>) {
        let tools = tools.into_iter();
        self.tools = tools.map(|spec| (spec.name.clone(), spec)).collect();
    }

    /// Returns how the last answer of the turn ended, as reported by the model.
    pub(crate) fn last_finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Removes the error message of the turn, and returns it.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns the id by which the client knows an open call.
    pub(crate) fn shown_id(&self, call: &str) -> Option<String> {
        self.open.get(call).map(|open| open.shown_id.clone())
    }

    /// Returns the folder of the session.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the effect class and the plugin of a tool. An unknown tool gets an empty plugin
    /// name, because it is not built in.
    pub(crate) fn tool_origin(&self, name: &str) -> (Option<EffectClass>, Option<String>) {
        match self.tools.get(name) {
            Some(spec) => (Some(spec.effect_class), spec.plugin.clone()),
            None => (None, Some(String::new())),
        }
    }

    /// Creates an id that is unique among the calls of the session.
    pub(crate) fn next_id(&mut self, call: &str) -> String {
        self.n_calls += 1;
        format!("{}-{}", self.n_calls, clean_line(call, 80))
    }

    /// Converts an event into updates and notices.
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

    /// Tells the client to ignore the text sent so far, because an update cannot be withdrawn.
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

    /// Sends the text of a message with tool calls, if it was not streamed. The final answer of a
    /// turn is sent at the end of the turn.
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
        // A second call with the same id replaces the first, because a result could not be assigned
        // to one of the two.
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
        // replaced the call's content in the client.
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
        // An interruption ends open calls without a `ToolEnd` event.
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
    // Keep the diff that the client already shows: the result says only that the file was changed.
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

/// Creates an update with text of the model.
pub(crate) fn said(text: &str) -> Shown {
    shown(SessionUpdate::AgentMessageChunk(chunk(text)))
}

/// Creates an update with reasoning of the model.
pub(crate) fn thought(text: &str) -> Shown {
    shown(SessionUpdate::AgentThoughtChunk(chunk(text)))
}

/// Creates a chunk of sanitized text.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(printable_prose(text)))
}

fn shown(update: SessionUpdate) -> Shown {
    Shown::Update(Box::new(update))
}
