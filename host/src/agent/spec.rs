//! The parts that an agent is made of: its model, tools, policy, session, and settings.
//!
//! Owns no state of a turn. Start from [`AgentSpec`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::answer_schema::AnswerSchema;
use super::config::AgentConfig;
use super::sink::PluginKeyValueWriter;
use super::subagent::preset::{SubagentPreset, SubagentPresets};
use crate::event::{Event, EventSender};
use crate::message::PromptImageAttachment;
use crate::point::agent_loop::AgentLoop;
use crate::point::caller::PluginCallContext;
use crate::point::outcome::Level;
use crate::point::payload::{PromptPart, Source};
use crate::point::registry::HookRegistry;
use crate::provider::Provider;
use crate::session::{InterruptedTurn, Session};
use crate::skill::SessionSkills;
use crate::tool::SharedTool;
use crate::tool::approval::Approver;
use crate::tool::background::BackgroundCommands;
use crate::tool::known::FilesSeenByModel;
use crate::tool::live::RunningToolCallOutputs;
use crate::tool::policy::Policy;
use crate::tool::registry::ToolRegistry;

/// Name of the tool that reads archived turns and the work of subagents.
pub(super) const QUERY_SUBAGENT_TOOL_NAME: &str = "query_subagent";

/// Slash command that the session records for a turn that continues an interrupted one.
const CONTINUE_TURN_SLASH_COMMAND: &str = "/continue";

/// Number of random characters in an agent's id. Few suffice, because a session has few agents, and
/// people read the ids.
const AGENT_ID_RANDOM_CHARS: usize = 8;

/// Input of a turn, and the limits of the turn.
#[derive(Debug)]
pub(crate) struct TurnSpec {
    /// Text of the input that starts the turn.
    pub(crate) text: String,
    /// Source of the input's text.
    pub(crate) source: Source,
    /// Slash command that produced the text, with the command's source.
    pub(crate) command: Option<String>,
    /// Images that belong to the input.
    pub(crate) attached: Vec<PromptImageAttachment>,
    /// JSON Schema that the final answer must match; `None` if any text is allowed.
    pub(crate) answer_schema: Option<AnswerSchema>,
    /// Maximum cost of the turn, its subagents included, in US dollars.
    pub(crate) max_cost_usd: Option<f64>,
    /// Id that the caller assigned to the input; see `known_input`.
    pub(crate) input_id: Option<String>,
    /// Preset that selects the tools of the turn; `None` if no preset does.
    pub(crate) preset: Option<Arc<SubagentPreset>>,
    /// Interrupted turn that this turn continues; `None` for a new turn.
    pub(crate) continues: Option<InterruptedTurn>,
}

impl TurnSpec {
    /// Creates the spec of a turn that continues an interrupted one.
    pub(crate) fn from_interrupted(interrupted: InterruptedTurn) -> Self {
        Self {
            command: Some(CONTINUE_TURN_SLASH_COMMAND.to_owned()),
            input_id: interrupted.input_id.clone(),
            continues: Some(interrupted.clone()),
            ..Self::new(interrupted.input, interrupted.source)
        }
    }

    /// Creates the spec of a turn with this text and defaults for everything else.
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
    /// Client of the API through which the model is asked.
    pub provider: Arc<dyn Provider>,
    /// Name of the model.
    pub model: String,
    /// Sampling temperature; `None` uses the provider's default.
    pub temperature: Option<f64>,
    /// Maximum number of tokens of one answer; `None` uses the provider's default.
    pub max_tokens: Option<u32>,
    /// Tools that the model may call.
    pub tools: ToolRegistry,
    /// Plugins and tool servers whose tools are deferred: requests omit the descriptions, and the
    /// model finds the tools with a search.
    pub deferred: Arc<BTreeSet<String>>,
    /// Hooks that are called in the turns of the agent.
    pub hooks: Arc<HookRegistry>,
    /// Policy that decides which tool calls are allowed, denied or need approval.
    pub policy: Arc<dyn Policy>,
    /// Asks the user about calls for which the policy requires approval.
    pub approver: Arc<dyn Approver>,
    /// Session to which the agent writes its messages.
    pub session: Arc<Session>,
    /// Sender through which the agent emits its events.
    pub events: EventSender,
    /// Callback that stores a value for a hook in its plugin's key-value store.
    pub keep_in_store: PluginKeyValueWriter,
    /// Limits and other settings of the agent's turns.
    pub config: AgentConfig,
    /// Folder in which the agent works.
    pub workspace: PathBuf,
    /// Further parts of the system prompt, such as the list of skills or the task of a subagent.
    pub parts: Vec<PromptPart>,
    /// Skills that the agent can use.
    pub skills: Arc<SessionSkills>,
    /// Presets with which subagents can be started.
    pub presets: Arc<SubagentPresets>,
    /// Names of the loaded plugins.
    pub plugins: Arc<[String]>,
    /// Rind's own folders. If a skill's folder contains one of them, the agent may not read the
    /// skill's files.
    pub own_folders: Arc<[PathBuf]>,
    /// Name of the agent: `main`, or the id of a subagent.
    pub name: Arc<str>,
    /// 0 for the main agent, one more for each level of subagent.
    pub depth: u32,
    /// Plugins whose code caused this agent to be started; their hooks are not called for it.
    pub call_chain: Vec<Arc<str>>,
    /// Loop of a plugin that runs the turns in its own order; `None` selects the built-in order.
    pub agent_loop: Option<Arc<dyn AgentLoop>>,
    /// Files that the agent's model has read or written. Each agent has its own.
    pub known: Arc<FilesSeenByModel>,
    /// Outputs of the running tool calls of the agent and of its subagents.
    pub live: RunningToolCallOutputs,
    /// Background commands of the agent and of its subagents.
    pub background: BackgroundCommands,
    /// Texts of the warnings that the user has already been shown; each is shown only once.
    pub told: Arc<Mutex<BTreeSet<String>>>,
}

impl AgentSpec {
    /// Returns the context of calls of hooks and tools outside a turn. `session` is the id of the
    /// main agent's session.
    pub(super) fn plugin_call_context(&self, session: Arc<str>) -> PluginCallContext {
        PluginCallContext {
            session,
            agent: self.name.clone(),
            depth: self.depth,
            workspace: self.workspace.to_string_lossy().into(),
            model: self.model.as_str().into(),
            ..PluginCallContext::default()
        }
    }

    /// Adds a built-in tool. It replaces a plugin's tool of the same name, with a warning.
    pub(super) fn add_built_in_tool(&mut self, tool: SharedTool) {
        let name = tool.spec().name.clone();
        let taken = self.tools.remove(&name);
        if let Some(plugin) = taken.and_then(|entry| entry.spec.plugin.clone()) {
            let text = format!(
                "tool `{name}` of plugin `{plugin}` is refused: the name is already taken by the built-in tools"
            );
            self.events
                .emit(Event::create_host_notice(Level::Warn, text));
        }
        if let Err(error) = self.tools.add(tool) {
            let text = error.to_string();
            self.events
                .emit(Event::create_host_notice(Level::Warn, text));
        }
    }
}

/// Returns a new id for an agent: its kind, and some random characters.
pub(super) fn new_agent_id(kind: &str) -> Arc<str> {
    let id = crate::clock::new_uuid_v7();
    // Use the end of the id, which is random; the beginning is a timestamp.
    let digits = id.get(id.len().saturating_sub(AGENT_ID_RANDOM_CHARS)..);
    format!("{kind}-{}", digits.unwrap_or(&id)).into()
}
