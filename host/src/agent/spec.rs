//! The parts that an agent is made of: its model, tools, policy, session, and settings.
//!
//! Owns no state of a turn. Start from [`AgentSpec`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::answer_schema::AnswerSchema;
use super::config::AgentConfig;
use super::sink::KeepInStore;
use super::subagent::preset::{SubagentPreset, SubagentPresets};
use crate::event::{Event, Events};
use crate::message::Attachment;
use crate::point::agent_loop::AgentLoop;
use crate::point::caller::CallContext;
use crate::point::outcome::Level;
use crate::point::payload::{PromptPart, Source};
use crate::point::registry::Registry;
use crate::provider::Provider;
use crate::session::{InterruptedTurn, Session};
use crate::skill::Skills;
use crate::tool::SharedTool;
use crate::tool::approval::Approver;
use crate::tool::background::BackgroundCommands;
use crate::tool::known::KnownFiles;
use crate::tool::live::LiveOutputs;
use crate::tool::policy::Policy;
use crate::tool::registry::ToolRegistry;

/// Name of the tool that reads archived turns and the work of subagents.
pub(super) const QUERY: &str = "query_subagent";

/// Command of a turn that continues an interrupted one.
const CONTINUE_COMMAND: &str = "/continue";

/// Digits of an agent's id. A session has few of them, and people read it.
const ID_DIGITS: usize = 8;

/// Input of a turn, and its limits.
#[derive(Debug)]
pub(crate) struct TurnSpec {
    /// Text that starts the turn.
    pub(crate) text: String,
    /// Source of the text.
    pub(crate) source: Source,
    /// Slash command that made the text, and its source.
    pub(crate) command: Option<String>,
    /// Images that belong to the text.
    pub(crate) attached: Vec<Attachment>,
    /// Schema that the final answer must match.
    pub(crate) answer_schema: Option<AnswerSchema>,
    /// Maximum cost of the turn, its subagents included, in US dollars.
    pub(crate) max_cost_usd: Option<f64>,
    /// Id that the caller gave the text.
    pub(crate) input_id: Option<String>,
    /// Preset that selects the tools of the turn.
    pub(crate) preset: Option<Arc<SubagentPreset>>,
    /// Interrupted turn that this one continues.
    pub(crate) continues: Option<InterruptedTurn>,
}

impl TurnSpec {
    /// A turn that continues an interrupted one.
    pub(crate) fn of_interrupted(interrupted: InterruptedTurn) -> Self {
        Self {
            command: Some(CONTINUE_COMMAND.to_owned()),
            input_id: interrupted.input_id.clone(),
            continues: Some(interrupted.clone()),
            ..Self::new(interrupted.input, interrupted.source)
        }
    }

    /// A turn with this text and nothing else.
    pub(crate) fn new(text: impl Into<String>, source: Source) -> Self {
        Self {
            text: text.into(),
            source,
            command: None,
            attached: Vec::new(),
            answer_schema: None,
            max_cost_usd: None,
            input_id: None,
            preset: None,
            continues: None,
        }
    }
}

#[derive(Clone)]
pub(crate) struct AgentSpec {
    /// Client of the model API.
    pub provider: Arc<dyn Provider>,
    /// Name of the model.
    pub model: String,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of one answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Tools that the model may call.
    pub tools: ToolRegistry,
    /// Origins of tools that the model finds with a search.
    pub deferred: Arc<BTreeSet<String>>,
    /// Hooks of the loaded plugins.
    pub hooks: Arc<Registry>,
    /// Policy for tool calls.
    pub policy: Arc<dyn Policy>,
    /// Approver for calls that the policy asks about.
    pub approver: Arc<dyn Approver>,
    /// Session that the agent writes to.
    pub session: Arc<Session>,
    /// Destination of events.
    pub events: Events,
    /// Keeps the values that hooks put into their plugin's store.
    pub keep_in_store: KeepInStore,
    /// Limits of a turn.
    pub config: AgentConfig,
    /// Folder the agent works in.
    pub workspace: PathBuf,
    /// Further parts of the system prompt: skills, the task of a subagent.
    pub parts: Vec<PromptPart>,
    /// Skills of the session.
    pub skills: Arc<Skills>,
    /// Presets of subagents.
    pub presets: Arc<SubagentPresets>,
    /// Names of the plugins that run.
    pub plugins: Arc<[String]>,
    /// Rind's own folders: a skill whose folder contains one of them gets no access to its files.
    pub own_folders: Arc<[PathBuf]>,
    /// `main`, or the id of a subagent.
    pub name: Arc<str>,
    /// 0 for the main agent, one more for each level of subagent.
    pub depth: u32,
    /// Plugins whose code made this agent run; their hooks do not fire on it.
    pub call_chain: Vec<Arc<str>>,
    /// Loop of a plugin that orders the turns; `None` is the built-in order.
    pub agent_loop: Option<Arc<dyn AgentLoop>>,
    /// Files that the agent's model knows. Each agent has its own.
    pub known: Arc<KnownFiles>,
    /// Outputs of the running calls, of the agent and of its subagents.
    pub live: LiveOutputs,
    /// Background commands of the agent and of its subagents.
    pub background: BackgroundCommands,
    /// Warnings that are shown once.
    pub told: Arc<Mutex<BTreeSet<String>>>,
}

impl AgentSpec {
    /// The agent as a caller of hooks and tools, outside a turn. `session` is the id of the main
    /// agent's.
    pub(super) fn call_context(&self, session: Arc<str>) -> CallContext {
        CallContext {
            session,
            agent: self.name.clone(),
            depth: self.depth,
            workspace: self.workspace.to_string_lossy().into(),
            model: self.model.as_str().into(),
            ..CallContext::default()
        }
    }

    /// Adds a built-in tool. As with all built-in tools, no plugin may have its name.
    pub(super) fn add_built_in(&mut self, tool: SharedTool) {
        let name = tool.spec().name.clone();
        let taken = self.tools.remove(&name);
        if let Some(plugin) = taken.and_then(|entry| entry.spec.plugin.clone()) {
            let text = format!(
                "tool `{name}` of plugin `{plugin}` is refused: the name is already taken by the built-in tools"
            );
            self.events.emit(Event::notice(Level::Warn, text));
        }
        if let Err(error) = self.tools.add(tool) {
            let text = error.to_string();
            self.events.emit(Event::notice(Level::Warn, text));
        }
    }
}

/// A fresh id for a subagent: its kind, and some digits.
pub(super) fn agent_id(kind: &str) -> Arc<str> {
    let id = crate::clock::new_id();
    // Take the end of the id, which is random; its beginning is the time.
    let digits = id.get(id.len().saturating_sub(ID_DIGITS)..);
    format!("{kind}-{}", digits.unwrap_or(&id)).into()
}
