//! Describes each agent's hooks in a table: the events, the effects that a hook can have at an
//! event, and the agent's reaction to a hook that fails.

use serde::Serialize;

use super::agent::{AgentHookPoint, GuardedAgent};

/// Effect that the answer of a hook can have on an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentHookEffect {
    /// Refuse the tool call or the prompt.
    Block,
    /// Make the agent ask its user about the tool call.
    Ask,
    /// Change the arguments of a tool call.
    ChangeArguments,
    /// Change the result of a tool call that the model reads.
    ChangeResult,
    /// Change the text of the user's prompt.
    ChangePrompt,
    /// Add a text that the model reads.
    Note,
}

impl AgentHookEffect {
    /// Returns a short name of the effect, for tables.
    #[must_use]
    pub fn short_label(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Ask => "ask",
            Self::ChangeArguments => "change arguments",
            Self::ChangeResult => "change the result",
            Self::ChangePrompt => "change the prompt",
            Self::Note => "notes",
        }
    }
}

/// Point of Rind, the agent's events that correspond to it, and the effects of a hook there.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HookPointRow {
    /// Point of Rind to which the agent's events correspond.
    pub point: AgentHookPoint,
    /// Names of the agent's events at which the hook runs.
    pub events: &'static [&'static str],
    /// Abilities of a hook at these events. Any other effect that a plugin requests becomes a
    /// refusal if `can` has [`AgentHookEffect::Block`], and otherwise is ignored.
    pub can: &'static [AgentHookEffect],
}

/// Description of an agent's hooks: events, abilities, behavior on failure and known gaps.
#[derive(Debug, Serialize)]
pub struct AgentHookCapabilities {
    /// Agent that has the hooks.
    pub agent: GuardedAgent,
    /// Name of the agent as its makers write it.
    pub title: &'static str,
    /// Version of the agent for which this table was written.
    pub version: &'static str,
    /// Points at which the agent can run hooks, each with the possible effects.
    pub points: &'static [HookPointRow],
    /// Text that describes what happens to a call if its hook fails.
    pub on_failure: &'static str,
    /// Text that describes how `install` keeps a call from running when its hook fails.
    pub remedy: &'static str,
    /// Descriptions of the cases that no guard of this agent can catch.
    pub gaps: &'static [&'static str],
}

use AgentHookEffect::{Ask, Block, ChangeArguments, ChangePrompt, ChangeResult, Note};

const CLAUDE_CODE_HOOK_TABLE: AgentHookCapabilities = AgentHookCapabilities {
    agent: GuardedAgent::ClaudeCode,
    title: "Claude Code",
    version: "2.1.330",
    points: &[
        HookPointRow {
            point: AgentHookPoint::PreTool,
            events: &["PreToolUse"],
            can: &[Block, Ask, ChangeArguments, Note],
        },
        HookPointRow {
            point: AgentHookPoint::PostTool,
            events: &["PostToolUse", "PostToolUseFailure"],
            can: &[ChangeResult, Note],
        },
        HookPointRow {
            point: AgentHookPoint::TurnStart,
            events: &["UserPromptSubmit"],
            can: &[Block, Note],
        },
    ],
    on_failure: "Claude Code runs the call when a hook crashes, is missing, or takes longer than its timeout",
    remedy: "the hook ends with `|| exit 2`, which blocks, and has `onFailure: \"block\"`, which versions from 2.1.295 on know",
    gaps: &[
        "versions before 2.1.295 run the call when the hook takes longer than its timeout; Rind's own deadline is shorter",
        "`disableAllHooks` and managed settings can switch the hook off",
        "hooks run concurrently on the original arguments: changes by other hooks are not seen",
        "the text of a failed call cannot be changed",
    ],
};

const CODEX_HOOK_TABLE: AgentHookCapabilities = AgentHookCapabilities {
    agent: GuardedAgent::Codex,
    title: "Codex",
    version: "0.171.0",
    points: &[
        HookPointRow {
            point: AgentHookPoint::PreTool,
            events: &["PreToolUse"],
            can: &[Block, ChangeArguments, Note],
        },
        HookPointRow {
            point: AgentHookPoint::PostTool,
            events: &["PostToolUse"],
            can: &[ChangeResult, Note],
        },
        HookPointRow {
            point: AgentHookPoint::TurnStart,
            events: &["UserPromptSubmit"],
            can: &[Block, Note],
        },
    ],
    on_failure: "Codex runs the call when a hook crashes, is missing, takes longer than its timeout, or answers `ask`",
    remedy: "the hook ends with `|| exit 2`, which blocks, and `[features] unified_exec_tty = false` keeps commands from a terminal; Codex has no setting for the rest",
    gaps: &[
        "Codex runs the call when the hook takes longer than its timeout; Rind's own deadline is shorter",
        "a hook that is not trusted is skipped silently: `install` writes the entry of `/hooks`, which a change of the hook invalidates",
        "`[features] hooks = false` switches all hooks off",
        "settings of a trusted project, or a flag, can give commands a terminal again: what is typed into it is neither judged nor masked",
        "a patch within a command is judged as that command; tools without an event are not judged",
    ],
};

const OPENCODE_HOOK_TABLE: AgentHookCapabilities = AgentHookCapabilities {
    agent: GuardedAgent::OpenCode,
    title: "OpenCode",
    version: "1.18.33",
    points: &[
        HookPointRow {
            point: AgentHookPoint::PreTool,
            events: &["tool.execute.before"],
            can: &[Block, ChangeArguments, Note],
        },
        HookPointRow {
            point: AgentHookPoint::PostTool,
            events: &["tool.execute.after"],
            can: &[ChangeResult, Note],
        },
        HookPointRow {
            point: AgentHookPoint::TurnStart,
            events: &["chat.message"],
            can: &[Block, ChangePrompt, Note],
        },
    ],
    on_failure: "OpenCode refuses the call when the module throws, and continues without the module when it cannot be loaded",
    remedy: "the module throws when in doubt",
    gaps: &[
        "`--pure` and `OPENCODE_PURE` leave the module out",
        "tools that run other tools may do so without an event",
        "the user sees the output of a running command before it is judged",
    ],
};

const GOOSE_HOOK_TABLE: AgentHookCapabilities = AgentHookCapabilities {
    agent: GuardedAgent::Goose,
    title: "goose",
    version: "1.51",
    points: &[
        HookPointRow {
            point: AgentHookPoint::PreTool,
            events: &["PreToolUse"],
            can: &[Block],
        },
        HookPointRow {
            point: AgentHookPoint::PostTool,
            events: &["PostToolUse", "PostToolUseFailure"],
            can: &[],
        },
    ],
    on_failure: "goose runs the call when a hook crashes, is missing, takes longer than its timeout, or writes no decision",
    remedy: "the hook has `on_failure: \"block\"`, which versions from 1.48 on know, and ends with `|| exit 2`, which blocks",
    gaps: &[
        "versions before 1.48 run the call when the hook takes longer than its timeout; Rind's own deadline is shorter",
        "results and prompts cannot be changed or held back",
    ],
};

const PI_HOOK_TABLE: AgentHookCapabilities = AgentHookCapabilities {
    agent: GuardedAgent::Pi,
    title: "pi",
    version: "1.5.2",
    points: &[
        HookPointRow {
            point: AgentHookPoint::PreTool,
            events: &["tool_call"],
            can: &[Block, Ask, ChangeArguments],
        },
        HookPointRow {
            point: AgentHookPoint::PostTool,
            events: &["tool_result"],
            can: &[ChangeResult, Note],
        },
        HookPointRow {
            point: AgentHookPoint::TurnStart,
            events: &["input"],
            can: &[Block, ChangePrompt],
        },
    ],
    on_failure: "pi refuses the call when the extension throws, and goes on without the extension when it cannot be loaded",
    remedy: "the extension blocks when in doubt; without a terminal, a question is a refusal",
    gaps: &[
        "`--no-extensions` leaves the extension out",
        "a command of the user (`!command`) is not judged",
    ],
};

/// Returns the table that describes the agent's hooks.
pub(crate) fn agent_hook_capabilities(agent: GuardedAgent) -> &'static AgentHookCapabilities {
    match agent {
        GuardedAgent::ClaudeCode => &CLAUDE_CODE_HOOK_TABLE,
        GuardedAgent::Codex => &CODEX_HOOK_TABLE,
        GuardedAgent::OpenCode => &OPENCODE_HOOK_TABLE,
        GuardedAgent::Goose => &GOOSE_HOOK_TABLE,
        GuardedAgent::Pi => &PI_HOOK_TABLE,
    }
}

impl AgentHookCapabilities {
    /// Returns the table's row for a point; `None` if the agent has no event for the point.
    #[must_use]
    pub fn find_hook_point_row(&self, point: AgentHookPoint) -> Option<&'static HookPointRow> {
        self.points.iter().find(|row| row.point == point)
    }

    /// Whether hooks of the agent have this ability at a point.
    #[must_use]
    pub fn supports_effect_at_point(
        &self,
        point: AgentHookPoint,
        ability: AgentHookEffect,
    ) -> bool {
        self.find_hook_point_row(point)
            .is_some_and(|row| row.can.contains(&ability))
    }

    /// Returns the reason why a hook cannot make the agent ask its user; `None` if it can.
    #[must_use]
    pub fn cannot_ask_user_reason(&self) -> Option<String> {
        let can = self.supports_effect_at_point(AgentHookPoint::PreTool, Ask);
        (!can).then(|| format!("{} gives a hook no way to ask the user", self.title))
    }
}

/// Extension point whose hooks the guard calls together with those of `turn-start`.
const PRE_ASSESS_HOOK_POINT_NAME: &str = "pre-assess";

/// Selects from the points of a plugin's hooks those for which the agent has no event.
#[must_use]
pub fn hook_points_without_event<'a>(agent: GuardedAgent, points: &[&'a str]) -> Vec<&'a str> {
    let table = agent.hook_table();
    let is_reached = |name: &str| {
        let name = if name == PRE_ASSESS_HOOK_POINT_NAME {
            "turn-start"
        } else {
            name
        };
        AgentHookPoint::from_name(name).is_some_and(|point| {
            // Accept a row without abilities: the plugin still sees the call.
            table.find_hook_point_row(point).is_some()
        })
    };
    let inert = points.iter().filter(|name| !is_reached(name));
    inert.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_blocks_calls_and_says_what_happens_when_its_hook_fails() {
        for agent in GuardedAgent::ALL {
            let table = agent.hook_table();
            assert_eq!(table.agent, agent);
            assert!(
                table.supports_effect_at_point(AgentHookPoint::PreTool, Block),
                "{}",
                table.title
            );
            assert!(table.on_failure.contains(table.title));
            assert!(!table.remedy.is_empty() && !table.gaps.is_empty());
            assert_eq!(GuardedAgent::from_name(agent.name()), Some(agent));
        }
    }

    #[test]
    fn points_without_an_event_are_inert() {
        let points = ["pre-tool", "pre-assess", "system-prompt"];
        assert_eq!(
            hook_points_without_event(GuardedAgent::Codex, &points),
            ["system-prompt"]
        );
        assert_eq!(
            hook_points_without_event(GuardedAgent::Goose, &points),
            ["pre-assess", "system-prompt"]
        );
    }
}
