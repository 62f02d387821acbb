//! Generates JavaScript modules for agents whose hooks are functions in the agent's process. A
//! module runs the guard program for each event, and refuses the call unless the program's answer
//! lets it pass.

use std::path::Path;

use serde_json::json;

use super::agent::GuardedAgent;
use super::install::GuardHookProgram;

/// Beginning of the first line of each module that Rind installs in an agent. `rind guard remove`
/// recognizes Rind's modules by this line.
pub(crate) const INSTALLED_MODULE_FIRST_LINE_PREFIX: &str = "// Written by `rind guard install";

/// Time that the module in an agent waits for the guard program, in milliseconds: a little longer
/// than the program itself waits for the daemon.
const GUARD_PROGRAM_TIMEOUT_MS: u64 = 50_000;

/// JavaScript that runs the guard program; included in the module of each agent.
const ASK_GUARD_JS_SOURCE: &str = include_str!("bridges/ask.js");

const OPENCODE_AGENT_MODULE_SOURCE: &str = include_str!("bridges/opencode.js");

const PI_AGENT_MODULE_SOURCE: &str = include_str!("bridges/pi.ts");

/// Returns the source of the module for an agent; `None` if the agent's hooks are commands.
pub(crate) fn agent_module_source(
    agent: GuardedAgent,
    command: &GuardHookProgram,
) -> Option<String> {
    let own = match agent {
        GuardedAgent::OpenCode => OPENCODE_AGENT_MODULE_SOURCE,
        GuardedAgent::Pi => PI_AGENT_MODULE_SOURCE,
        GuardedAgent::ClaudeCode | GuardedAgent::Codex | GuardedAgent::Goose => return None,
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let home = command.home.as_deref().map(text);
    Some(format!(
        "{INSTALLED_MODULE_FIRST_LINE_PREFIX} {}`, which also replaces it; `rind guard remove {0}` removes it.\n// It asks the guard before and after each tool call, and refuses on every doubt.\nimport {{ spawn }} from \"node:child_process\";\n\nconst PROGRAM = {};\nconst COMMAND = {};\nconst HOME = {};\nconst AGENT = {};\nconst DEADLINE_MS = {GUARD_PROGRAM_TIMEOUT_MS};\n\n{ASK_GUARD_JS_SOURCE}\n{own}",
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
