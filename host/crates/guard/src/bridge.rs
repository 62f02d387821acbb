//! Generates JavaScript modules for agents whose hooks are functions in the agent's process. A
//! module runs the guard program for each event, and refuses the call unless the program's answer
//! lets it pass.

use std::path::Path;

use serde_json::json;

use super::agent::GuardedAgent;
use super::install::GuardCommand;

/// Beginning of the first line of each module that Rind installs in an agent. `rind guard remove`
/// recognizes Rind's modules by this line.
pub(crate) const MARK: &str = "// Written by `rind guard install";

/// Time that the module in an agent waits for the guard program, in milliseconds: a little longer
/// than the program itself waits for the daemon.
const DEADLINE_MS: u64 = 50_000;

/// JavaScript that runs the guard program; included in the module of each agent.
const ASK: &str = include_str!("bridges/ask.js");

const OPENCODE: &str = include_str!("bridges/opencode.js");

const PI: &str = include_str!("bridges/pi.ts");

/// Returns the source of the module for an agent; `None` if the agent's hooks are commands.
pub(crate) fn bridge_module_source(agent: GuardedAgent, command: &GuardCommand) -> Option<String> {
    let own = match agent {
        GuardedAgent::OpenCode => OPENCODE,
        GuardedAgent::Pi => PI,
        GuardedAgent::ClaudeCode | GuardedAgent::Codex | GuardedAgent::Goose => return None,
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let home = command.home.as_deref().map(text);
    Some(format!(
        "{MARK} {}`, which also replaces it; `rind guard remove {0}` removes it.\n// It asks the guard before and after each tool call, and refuses on every doubt.\nimport {{ spawn }} from \"node:child_process\";\n\nconst PROGRAM = {};\nconst COMMAND = {};\nconst HOME = {};\nconst AGENT = {};\nconst DEADLINE_MS = {DEADLINE_MS};\n\n{ASK}\n{own}",
        agent.name(),
        json!(text(&command.program)),
        json!(if command.is_small {
            &[][..]
        } else {
            &["guard", "hook"]
        }),
        json!(home),
        json!(agent.name()),
    ))
}
