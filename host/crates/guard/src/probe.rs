//! Creates sample calls in the agents' formats, to test installed hooks.

use std::path::Path;

use serde_json::{Value, json};

use super::agent::GuardedAgent;

/// Sample tool call that a test sends to an installed hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleHookCall {
    /// Call of a command that can destroy other people's work.
    Dangerous,
    /// Call of a shell command that only reads.
    Harmless,
}

impl SampleHookCall {
    /// Returns the shell command of the sample call.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Dangerous => "git push --force origin main",
            Self::Harmless => "ls",
        }
    }
}

/// Returns the payload that an agent sends before it runs the command.
#[must_use]
pub fn hook_payload_for_probe(agent: GuardedAgent, call: SampleHookCall, folder: &Path) -> Value {
    let (command, folder) = (call.command(), folder.to_string_lossy());
    match agent {
        GuardedAgent::ClaudeCode => json!({
            "session_id": "rind-guard-test",
            "transcript_path": "",
            "cwd": folder,
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command, "description": "Try the guard"},
            "tool_use_id": "toolu_test",
        }),
        GuardedAgent::Codex => json!({
            "session_id": "rind-guard-test",
            "turn_id": "test",
            "transcript_path": null,
            "cwd": folder,
            "hook_event_name": "PreToolUse",
            "model": "test",
            "permission_mode": "default",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": "call_test",
        }),
        GuardedAgent::Goose => json!({
            "event": "PreToolUse",
            "session_id": "rind-guard-test",
            "matcher_context": "developer__shell",
            "tool_name": "developer__shell",
            "tool_input": {"command": command},
            "working_dir": folder,
            "tool_call_id": "call_test",
        }),
        GuardedAgent::OpenCode | GuardedAgent::Pi => json!({
            "session": "rind-guard-test",
            "folder": folder,
            "id": "call_test",
            "tool": "bash",
            "args": {"command": command},
        }),
    }
}

/// Reaction of an agent to an answer of its hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReactionToHookAnswer {
    /// The agent would refuse the tool call, for this reason.
    Refused(String),
    /// The agent would ask its user this question.
    Asked(String),
    /// The hook neither refuses nor asks, and the agent continues.
    Passed,
    /// The hook failed, for this reason, and the agent runs the call although nothing checked it.
    Open(String),
}

/// Interprets a hook's output as the agent would. `code` is the exit code of the hook; `None` for a
/// program that was killed.
#[must_use]
pub fn interpret_hook_output(
    agent: GuardedAgent,
    code: Option<i32>,
    stdout: &str,
    stderr: &str,
) -> AgentReactionToHookAnswer {
    let said: Value = serde_json::from_str(stdout).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match agent {
        GuardedAgent::OpenCode | GuardedAgent::Pi => {
            let is_known = code == Some(0) && said["v"] == 1;
            match (&said["refuse"], &said["ask"]) {
                (Value::String(why), _) if is_known => {
                    AgentReactionToHookAnswer::Refused(why.clone())
                }
                (_, Value::String(question)) if is_known => {
                    AgentReactionToHookAnswer::Asked(question.clone())
                }
                _ if is_known && said["pass"] == true => AgentReactionToHookAnswer::Passed,
                // The agent's module throws an error for any other output, which refuses the call.
                _ => AgentReactionToHookAnswer::Refused(stderr.trim().to_owned()),
            }
        }
        GuardedAgent::ClaudeCode | GuardedAgent::Codex | GuardedAgent::Goose => {
            let specific = &said["hookSpecificOutput"];
            let reason = text(&specific["permissionDecisionReason"]);
            match (code, specific["permissionDecision"].as_str()) {
                (Some(2), _) => AgentReactionToHookAnswer::Refused(stderr.trim().to_owned()),
                (Some(0), Some("deny")) => AgentReactionToHookAnswer::Refused(reason),
                (Some(0), Some("ask")) if agent == GuardedAgent::ClaudeCode => {
                    AgentReactionToHookAnswer::Asked(reason)
                }
                (Some(0), _) => AgentReactionToHookAnswer::Passed,
                (code, _) => AgentReactionToHookAnswer::Open(match code {
                    Some(code) => format!("the hook ended with {code}: {}", stderr.trim()),
                    None => "the hook was killed".to_owned(),
                }),
            }
        }
    }
}
