//! Runs hooks of Claude Code: reads its settings, maps its events to extension points, and converts
//! the input and output of hooks.
//!
//! This module owns the mapping, which `host/docs/scripts-as-hooks.md` documents. The reply of a
//! hook becomes a JSON outcome of its extension point, and from there on the hook is a script like
//! any other. Two differences to Claude Code are intended: hooks are called one after the other,
//! and an action that hooks can refuse is refused if such a hook fails. Start from
//! [`read_operator_hooks`].

mod event;
mod exec;
mod file;
mod outcome;
mod reply;
mod tools;

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use regex::Regex;
use serde_json::{Value, json};

use crate::lock::lock_ignoring_poison;
use crate::point::caller::Caller;

pub(super) use event::ClaudeHookEvent;
pub use file::{ClaudeHooks, parse_project_hooks, read_operator_hooks};
pub(super) use tools::{claude_tool_name as tool_name, rind_tool_name as own_tool};

/// Matcher of a Claude Code hook: selects the tools, session sources or compaction triggers for
/// which the hook is called.
///
/// For example:
///
/// ```text
/// (empty) or *    every tool
/// Edit|Write      these two tools
/// mcp__.*         a regular expression
/// ```
#[derive(Clone, Debug)]
enum ClaudeHookMatcher {
    All,
    /// Names of which one must be equal to the tested name.
    Names(Vec<String>),
    /// A regular expression that may match anywhere in the name.
    Pattern(Regex),
}

impl ClaudeHookMatcher {
    fn parse_matcher(text: &str) -> Result<Self, String> {
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

    /// Whether the matcher matches none of these tool names.
    fn matches_no_tool(&self, names: &[String]) -> bool {
        !names.iter().any(|name| self.is_match(name))
    }

    fn is_match(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ClaudeHook {
    pub(super) event: ClaudeHookEvent,
    matcher: ClaudeHookMatcher,
    /// Text of the matcher, as written in the file.
    matcher_text: String,
}

/// State that the Claude Code hooks of one session share.
#[derive(Debug, Default)]
pub(super) struct ClaudeHooksSessionState {
    is_started: OnceLock<()>,
    /// Turn in which a `Stop` or `SubagentStop` hook last asked for another step: the id of the
    /// agent, and the number of the turn.
    went_on: Mutex<Option<(String, u32)>>,
}

impl ClaudeHook {
    pub(super) fn event_name(&self) -> &'static str {
        self.event.name()
    }

    pub(super) fn matcher_text(&self) -> &str {
        &self.matcher_text
    }

    /// Returns the text of the matcher if the hook is about tools and matches none of the `known`
    /// ones, which are pairs of plugin and tool name.
    pub(super) fn matcher_matching_no_tool(&self, known: &[(Option<&str>, &str)]) -> Option<&str> {
        if !self.event.is_tool_event() {
            return None;
        }
        let names = known.iter();
        let names = names.map(|(plugin, name)| tools::claude_tool_name(name, *plugin));
        let names: Vec<String> = names.collect();
        self.matcher
            .matches_no_tool(&names)
            .then_some(&*self.matcher_text)
    }

    /// Builds the JSON input of a hook call; `None` if the hook is not to be called for this
    /// payload.
    pub(super) fn build_hook_input(
        &self,
        caller: &Caller,
        payload: &Value,
        state: &ClaudeHooksSessionState,
    ) -> Option<Value> {
        let context = &caller.context;
        let is_main = context.depth == 0;
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
        let workspace = Path::new(&*context.workspace);
        let (selected, specific) = match self.event {
            ClaudeHookEvent::PreToolUse
            | ClaudeHookEvent::PostToolUse
            | ClaudeHookEvent::PostToolUseFailure => {
                let failed = payload["is_error"].as_bool().unwrap_or(false);
                let is_other = match self.event {
                    ClaudeHookEvent::PostToolUse => failed,
                    ClaudeHookEvent::PostToolUseFailure => !failed,
                    _ => false,
                };
                if is_other {
                    return None;
                }
                let (tool, plugin) = (text("/call/name")?, text("/plugin"));
                let name = tools::claude_tool_name(tool, plugin);
                let input =
                    tools::to_claude_arguments(tool, &payload["call"]["arguments"], workspace);
                let response = build_tool_response(&payload["content"], &input, failed);
                let mut specific = json!({
                    "tool_name": name, "tool_input": input, "tool_use_id": payload["call"]["id"],
                });
                match self.event {
                    ClaudeHookEvent::PostToolUse => specific["tool_response"] = response,
                    ClaudeHookEvent::PostToolUseFailure => {
                        specific["error"] = response["stdout"].clone()
                    }
                    _ => {}
                }
                (name, specific)
            }
            ClaudeHookEvent::UserPromptSubmit if is_main => {
                (String::new(), json!({"prompt": text("/text")?}))
            }
            ClaudeHookEvent::SessionStart if is_main => {
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
            ClaudeHookEvent::SessionEnd => ("other".to_owned(), json!({"reason": "other"})),
            ClaudeHookEvent::Stop if is_main => (
                String::new(),
                self.build_stop_hook_input(caller, payload, state),
            ),
            ClaudeHookEvent::SubagentStop if !is_main => {
                let mut specific = self.build_stop_hook_input(caller, payload, state);
                specific["agent_id"] = json!(&*context.agent);
                specific["agent_type"] = json!(CLAUDE_SUBAGENT_TYPE_NAME);
                (CLAUDE_SUBAGENT_TYPE_NAME.to_owned(), specific)
            }
            ClaudeHookEvent::SubagentStart => {
                let id = text("/id")?;
                (
                    CLAUDE_SUBAGENT_TYPE_NAME.to_owned(),
                    json!({"agent_id": id, "agent_type": CLAUDE_SUBAGENT_TYPE_NAME}),
                )
            }
            ClaudeHookEvent::PreCompact => {
                let is_asked = text("/reason") == Some("asked");
                let trigger = if is_asked { "manual" } else { "auto" };
                let specific = json!({"trigger": trigger, "custom_instructions": ""});
                (trigger.to_owned(), specific)
            }
            ClaudeHookEvent::Notification if is_main => (
                IDLE_NOTIFICATION_TYPE.to_owned(),
                json!({"message": "Rind is waiting for your input", "notification_type": IDLE_NOTIFICATION_TYPE}),
            ),
            _ => return None,
        };
        // Events without a name to match, such as the end of an answer, ignore the matcher.
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

    fn build_stop_hook_input(
        &self,
        caller: &Caller,
        payload: &Value,
        state: &ClaudeHooksSessionState,
    ) -> Value {
        let context = &caller.context;
        let went_on = lock_ignoring_poison(&state.went_on);
        let matches_next_run = went_on
            .as_ref()
            .is_some_and(|(agent, turn)| **agent == *context.agent && *turn == context.turn);
        json!({"stop_hook_active": matches_next_run, "last_assistant_message": payload["draft"]})
    }
}

/// Type of a subagent in the input of hooks, as Claude Code names it. All subagents get this type.
const CLAUDE_SUBAGENT_TYPE_NAME: &str = "general-purpose";

/// Type of a notification in the input of hooks, as Claude Code names it. Rind sends no other type.
const IDLE_NOTIFICATION_TYPE: &str = "idle_prompt";

/// Builds the tool response in the format of Claude Code, complete enough for hooks that read a
/// file path or the output of a command.
fn build_tool_response(content: &Value, input: &Value, failed: bool) -> Value {
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
