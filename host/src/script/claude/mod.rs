//! Hooks of Claude Code: its settings are read, its events are mapped to points, its input and output to ours.
//!
//! Owns the mapping, which `host/README.md` documents. What a hook says there comes to an outcome of its point in JSON, and from
//! then on it is a script like any other. Two things differ on purpose: hooks are called one after the other, and one that
//! fails closes a gate. Start from [`read`].

mod file;
mod reply;
mod tools;

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::once;
use crate::lock::lock;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::tool::process::{Ending, Finished};

pub use file::{ClaudeHooks, read};

/// An event of Claude Code that has a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaudeEvent {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    UserPromptSubmit,
    SessionStart,
    SessionEnd,
    Stop,
    SubagentStart,
    SubagentStop,
    PreCompact,
    Notification,
}

/// Events with the points at which they fire.
const EVENTS: &[(ClaudeEvent, &str, &str)] = &[
    (ClaudeEvent::PreToolUse, "PreToolUse", "pre-tool"),
    (ClaudeEvent::PostToolUse, "PostToolUse", "post-tool"),
    (
        ClaudeEvent::PostToolUseFailure,
        "PostToolUseFailure",
        "post-tool",
    ),
    (
        ClaudeEvent::UserPromptSubmit,
        "UserPromptSubmit",
        "turn-start",
    ),
    (ClaudeEvent::SessionStart, "SessionStart", "turn-start"),
    (ClaudeEvent::SessionEnd, "SessionEnd", "session-end"),
    (ClaudeEvent::Stop, "Stop", "post-reflect"),
    (
        ClaudeEvent::SubagentStart,
        "SubagentStart",
        "subagent-start",
    ),
    (ClaudeEvent::SubagentStop, "SubagentStop", "post-reflect"),
    (ClaudeEvent::PreCompact, "PreCompact", "before-compact"),
    (ClaudeEvent::Notification, "Notification", "turn-end"),
];

impl ClaudeEvent {
    fn find(name: &str) -> Option<Self> {
        let row = EVENTS.iter().find(|(_, known, _)| *known == name)?;
        Some(row.0)
    }

    fn name(self) -> &'static str {
        let row = EVENTS.iter().find(|(event, ..)| *event == self);
        row.map_or("", |(_, name, _)| name)
    }

    pub(super) fn point(self) -> &'static str {
        let row = EVENTS.iter().find(|(event, ..)| *event == self);
        row.map_or("", |(.., point)| point)
    }

    /// Whether a hook of this event can refuse what it is asked about.
    fn is_gate(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PreCompact)
    }
}

/// Selection of the tools, sources or reasons that a hook is about.
#[derive(Clone, Debug)]
enum Matcher {
    All,
    /// Whole names.
    Names(Vec<String>),
    /// A regular expression that is found anywhere.
    Pattern(Regex),
}

impl Matcher {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let is_list = |c: char| c.is_ascii_alphanumeric() || "_-| ,".contains(c);
        if text.chars().all(is_list) {
            let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
            return Ok(Self::Names(names.collect()));
        }
        let pattern = Regex::new(text).map_err(|error| {
            format!(
                "the matcher `{text}` cannot be used: {}",
                error.to_string().replace('\n', " ")
            )
        })?;
        Ok(Self::Pattern(pattern))
    }

    fn is_match(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// A hook of Claude Code.
#[derive(Clone, Debug)]
pub(super) struct ClaudeHook {
    pub(super) event: ClaudeEvent,
    matcher: Matcher,
}

/// Facts of a session that its hooks are told.
#[derive(Debug, Default)]
pub(super) struct ClaudeState {
    is_started: OnceLock<()>,
    /// Agent and turn in which a hook of `Stop` asked for another step last.
    went_on: Mutex<Option<(String, u32)>>,
}

impl ClaudeHook {
    /// Writes the input of a call; `None` when the hook is not about it.
    pub(super) fn input(
        &self,
        caller: &Caller,
        payload: &Value,
        state: &ClaudeState,
    ) -> Option<Value> {
        let context = &caller.context;
        let is_main = context.depth == 0;
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
        let workspace = Path::new(&*context.workspace);
        let (selected, specific) = match self.event {
            ClaudeEvent::PreToolUse
            | ClaudeEvent::PostToolUse
            | ClaudeEvent::PostToolUseFailure => {
                let failed = payload["is_error"].as_bool().unwrap_or(false);
                let is_other = match self.event {
                    ClaudeEvent::PostToolUse => failed,
                    ClaudeEvent::PostToolUseFailure => !failed,
                    _ => false,
                };
                if is_other {
                    return None;
                }
                let (tool, plugin) = (text("/call/name")?, text("/plugin"));
                let name = tools::name(tool, plugin);
                let input = tools::input(tool, &payload["call"]["arguments"], workspace);
                let response = response(&payload["content"], &input, failed);
                let mut specific = json!({
                    "tool_name": name, "tool_input": input, "tool_use_id": payload["call"]["id"],
                });
                match self.event {
                    ClaudeEvent::PostToolUse => specific["tool_response"] = response,
                    ClaudeEvent::PostToolUseFailure => {
                        specific["error"] = response["stdout"].clone()
                    }
                    _ => {}
                }
                (name, specific)
            }
            ClaudeEvent::UserPromptSubmit if is_main => {
                (String::new(), json!({"prompt": text("/text")?}))
            }
            ClaudeEvent::SessionStart if is_main => {
                state.is_started.set(()).ok()?;
                let source = if context.turn > 1 {
                    "resume"
                } else {
                    "startup"
                };
                (
                    source.to_owned(),
                    json!({"source": source, "model": &*context.model}),
                )
            }
            ClaudeEvent::SessionEnd => ("other".to_owned(), json!({"reason": "other"})),
            ClaudeEvent::Stop if is_main => (String::new(), self.stop(caller, payload, state)),
            ClaudeEvent::SubagentStop if !is_main => {
                let mut specific = self.stop(caller, payload, state);
                specific["agent_id"] = json!(&*context.agent);
                specific["agent_type"] = json!(AGENT_TYPE);
                (AGENT_TYPE.to_owned(), specific)
            }
            ClaudeEvent::SubagentStart => {
                let id = text("/id")?;
                (
                    AGENT_TYPE.to_owned(),
                    json!({"agent_id": id, "agent_type": AGENT_TYPE}),
                )
            }
            ClaudeEvent::PreCompact => {
                let is_asked = text("/reason") == Some("asked");
                let trigger = if is_asked { "manual" } else { "auto" };
                let specific = json!({"trigger": trigger, "custom_instructions": ""});
                (trigger.to_owned(), specific)
            }
            ClaudeEvent::Notification if is_main => (
                IDLE.to_owned(),
                json!({"message": "Rind is waiting for your input", "notification_type": IDLE}),
            ),
            _ => return None,
        };
        // There is nothing to select among prompts and answers, whatever the matcher says.
        let is_selected = selected.is_empty() || self.matcher.is_match(&selected);
        if !is_selected {
            return None;
        }
        let mut input = json!({
            "session_id": &*context.session,
            "transcript_path": "",
            "cwd": &*context.workspace,
            "permission_mode": "default",
            "hook_event_name": self.event.name(),
        });
        if let (Some(input), Value::Object(specific)) = (input.as_object_mut(), specific) {
            input.extend(specific);
        }
        Some(input)
    }

    fn stop(&self, caller: &Caller, payload: &Value, state: &ClaudeState) -> Value {
        let context = &caller.context;
        let went_on = lock(&state.went_on);
        let is_again = went_on
            .as_ref()
            .is_some_and(|(agent, turn)| **agent == *context.agent && *turn == context.turn);
        json!({"stop_hook_active": is_again, "last_assistant_message": payload["draft"]})
    }

    /// Makes an outcome of the point of what the hook wrote, in JSON.
    pub(super) fn outcome(
        &self,
        caller: &Caller,
        payload: &Value,
        finished: &Finished,
        state: &ClaudeState,
    ) -> Result<Value, Failure> {
        let errors = once::errors(finished);
        let outcome = match finished.ending {
            Ending::Exited(0) => {
                let text = finished.stdout.text();
                let text = text.trim();
                if text.starts_with('{') {
                    self.said(caller, payload, &once::outcome(text)?)?
                } else {
                    reply::check_text(text, self.event.is_gate())?;
                    self.wrote(text)
                }
            }
            Ending::Exited(2) => {
                let why = if errors.is_empty() {
                    "exit code 2".to_owned()
                } else {
                    errors
                };
                self.blocked(&why)
            }
            ending => return Err(once::ended(ending, &errors)),
        };
        if outcome.pointer("/verdict/again").is_some() {
            let context = &caller.context;
            *lock(&state.went_on) = Some((context.agent.to_string(), context.turn));
        }
        Ok(outcome)
    }

    /// Text that is no JSON: context for the model where there is a place for it.
    fn wrote(&self, text: &str) -> Value {
        let is_context = matches!(
            self.event,
            ClaudeEvent::UserPromptSubmit | ClaudeEvent::SessionStart
        );
        if is_context && !text.is_empty() {
            json!({"inject": [{"text": text}]})
        } else {
            json!({})
        }
    }

    /// A refusal, as far as the point has one.
    fn blocked(&self, why: &str) -> Value {
        match self.event {
            ClaudeEvent::PreToolUse => json!({"verdict": {"block": why}}),
            ClaudeEvent::PostToolUse | ClaudeEvent::PostToolUseFailure => {
                json!({"inject": [{"text": why}]})
            }
            ClaudeEvent::UserPromptSubmit => json!({"block": why}),
            ClaudeEvent::Stop | ClaudeEvent::SubagentStop => json!({"verdict": {"again": why}}),
            ClaudeEvent::PreCompact => json!({"verdict": {"cancel": why}}),
            _ => json!({"effects": [notify("warn", why)]}),
        }
    }

    /// Reads the JSON that the hook wrote. A refusal counts whatever stands beside it; anything else must be as documented, so that
    /// a refusal by another word is none that passes.
    fn said(&self, caller: &Caller, payload: &Value, said: &Value) -> Result<Value, Failure> {
        let text = |value: &Value| {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let specific = &said["hookSpecificOutput"];
        let mut outcome = if said["continue"] == false {
            let why =
                text(&said["stopReason"]).unwrap_or_else(|| "a hook stopped the turn".to_owned());
            self.stopped(&why)
        } else if said["decision"] == "block" {
            let why = text(&said["reason"]).unwrap_or_else(|| "a hook refused it".to_owned());
            self.blocked(&why)
        } else {
            let is_judged = self.event == ClaudeEvent::PreToolUse;
            reply::check(said, is_judged)?;
            if is_judged {
                judged(caller, payload, specific)?
            } else {
                json!({})
            }
        };
        if let (Some(context), Some(outcome)) = (
            text(&specific["additionalContext"]),
            outcome.as_object_mut(),
        ) {
            self.add_context(outcome, &context);
        }
        if let Some(message) = text(&said["systemMessage"]) {
            push(&mut outcome, "effects", notify("info", &message));
        }
        Ok(outcome)
    }

    /// The end of the turn, as far as the point can end it.
    fn stopped(&self, why: &str) -> Value {
        match self.event {
            ClaudeEvent::Stop | ClaudeEvent::SubagentStop => json!({"verdict": "done"}),
            ClaudeEvent::PostToolUse | ClaudeEvent::PostToolUseFailure => {
                let mut outcome = self.blocked(why);
                let told = "`continue: false` after a tool cannot end the turn here; the model was told the reason";
                push(&mut outcome, "effects", notify("warn", told));
                outcome
            }
            _ => self.blocked(why),
        }
    }

    fn add_context(&self, outcome: &mut Map<String, Value>, context: &str) {
        match self.event {
            ClaudeEvent::PreToolUse => {
                outcome.insert("note".to_owned(), json!(context));
            }
            ClaudeEvent::PostToolUse
            | ClaudeEvent::PostToolUseFailure
            | ClaudeEvent::UserPromptSubmit
            | ClaudeEvent::SessionStart => {
                let inject = outcome.entry("inject").or_insert_with(|| json!([]));
                if let Some(inject) = inject.as_array_mut() {
                    inject.push(json!({"text": context}));
                }
            }
            _ => {}
        }
    }
}

/// The only type that subagents have.
const AGENT_TYPE: &str = "general-purpose";

/// The only type that notifications have.
const IDLE: &str = "idle_prompt";

/// The verdict on a tool call. Nothing can allow what the policy denies or asks about, so `allow` is no objection.
fn judged(caller: &Caller, payload: &Value, specific: &Value) -> Result<Value, Failure> {
    let reason = specific["permissionDecisionReason"].as_str();
    let reason = reason.filter(|reason| !reason.is_empty());
    let decision = &specific["permissionDecision"];
    if decision == "deny" {
        return Ok(json!({"verdict": {"block": reason.unwrap_or("a hook refused it")}}));
    }
    reply::check_verdict(specific)?;
    let changed = specific["updatedInput"].as_object();
    match (decision == "ask", changed) {
        (true, Some(_)) => Err(Failure::Malformed(
            "it asks about a call and changes it at once, which is not supported".to_owned(),
        )),
        (true, None) => {
            Ok(json!({"verdict": {"ask": reason.unwrap_or("a hook wants you to be asked")}}))
        }
        (false, None) => Ok(json!({})),
        (false, Some(changed)) => {
            let tool = payload.pointer("/call/name").and_then(Value::as_str);
            let workspace = Path::new(&*caller.context.workspace);
            let arguments = tools::arguments(tool.unwrap_or_default(), changed, workspace);
            Ok(json!({"verdict": {"change": arguments}}))
        }
    }
}

/// The answer of a tool as hooks expect it: enough for those that look at the file, or at the output of a command.
fn response(content: &Value, input: &Value, failed: bool) -> Value {
    let text = match content {
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    };
    let mut response =
        json!({"success": !failed, "stdout": text, "stderr": "", "interrupted": false});
    if let Some(path) = input.get("file_path") {
        response["filePath"] = path.clone();
    }
    response
}

fn notify(level: &str, text: &str) -> Value {
    json!({"notify": {"level": level, "text": text}})
}

fn push(outcome: &mut Value, list: &str, value: Value) {
    if !outcome[list].is_array() {
        outcome[list] = json!([]);
    }
    if let Some(list) = outcome[list].as_array_mut() {
        list.push(value);
    }
}
