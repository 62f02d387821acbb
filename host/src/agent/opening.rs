//! Creates the agent of a session, with the host's own tools and the list of skills.

use std::sync::Arc;

use super::archive::live::add_query_tool as add_query;
use super::deferred::defer_tools;
use super::lifecycle::LiveAgent;
use super::scope::{ActiveTurns, SharedAgentTreeState};
use super::skill::catalogue;
use super::skill::memory::SessionSkillMemory;
use super::skill::tool::add_skill_tool;
use super::spec::AgentSpec;
use super::subagent::registry::SubagentRegistry;
use super::subagent::tools::add_subagent_tools as add_subagents;
use crate::checkpoint::{SessionCheckpointSpec, SessionCheckpoints};
use crate::event::Event;
use crate::point::outcome::Level;
use crate::text::escape_and_truncate_line;
use crate::tool::SharedTool;
use crate::tool::background::BackgroundCommandsStopGuard;

impl LiveAgent {
    /// Creates the main agent of a session, which has not run a turn yet.
    #[must_use]
    pub(crate) fn new(mut spec: AgentSpec) -> Self {
        let family = SharedAgentTreeState {
            session: spec.session.id().clone(),
            active_turns: ActiveTurns::default(),
            halt: Arc::default(),
            root: spec.session.clone(),
            parent: None,
            presets: Arc::default(),
            skills: Arc::new(SessionSkillMemory::restore_for_session(&spec)),
            checkpoints: Arc::new(SessionCheckpoints::new(SessionCheckpointSpec {
                config: spec.config.checkpoint.clone(),
                session: spec.session.local_folder().unwrap_or_default(),
                workspace: spec.workspace.clone(),
                own_folders: spec.own_folders.to_vec(),
            })),
            subagents: Arc::new(SubagentRegistry::for_session(&spec.session)),
        };
        add_query(&mut spec, &family.active_turns);
        add_subagents(&mut spec, &family.active_turns);
        let notice = offer_skills_to_model(&mut spec, &family.active_turns);
        let background = spec.background.clone();
        let mut agent = Self::new_with_shared_state(spec, family);
        agent.background_guard = Some(BackgroundCommandsStopGuard(background));
        let lasting = agent.skills.all();
        let forgotten = SessionSkillMemory::list_changed_skill_warnings(&agent.spec);
        let forgotten = forgotten
            .into_iter()
            .map(|text| Event::create_host_notice(Level::Warn, text));
        let lasting = lasting.iter().map(|skill| skill.activation_event());
        agent.queue_opening_events(lasting.chain(forgotten).chain(notice));
        let before = create_resume_events(&agent.spec);
        agent.queue_opening_events(before);
        agent
    }

    /// Adds tools that are known only once the session is open, such as those of external tool
    /// servers. If the descriptions of all tools take too much of the model's window, the model
    /// gets a tool to search for them instead. Returns the error of each tool that was rejected.
    pub(crate) fn add_external_tools(&mut self, tools: Vec<SharedTool>) -> Vec<String> {
        let active_turns = self.family.active_turns.clone();
        let spec = self.spec_mut();
        let added = tools.into_iter().map(|tool| spec.tools.add(tool));
        let refused = added.filter_map(|added| added.err().map(|error| error.to_string()));
        let refused: Vec<String> = refused.collect();
        defer_tools(spec, &active_turns);
        refused
    }
}

/// Maximum length of the list of approvals or plugins in a notice, in bytes.
const MAX_NOTICE_LIST_BYTES: usize = 300;

/// Returns the events about the previous run of a resumed session: the status lines of plugins that
/// are still loaded, the names of plugins that are not, and the approvals that no longer apply.
fn create_resume_events(spec: &AgentSpec) -> Vec<Event> {
    let (kept, gone): (Vec<_>, Vec<_>) = spec
        .session
        .plugin_status_lines()
        .into_iter()
        .partition(|(plugin, _)| spec.plugins.contains(plugin));
    let kept = kept.into_iter();
    let mut events: Vec<Event> = kept
        .map(|(plugin, text)| Event::Status { plugin, text })
        .collect();
    if !gone.is_empty() {
        let names: Vec<String> = gone.into_iter().map(|(plugin, _)| plugin).collect();
        // Clear the recorded status lines of these plugins, so that this notice does not appear
        // again at the next start.
        let session = &spec.session;
        names
            .iter()
            .for_each(|plugin| session.set_plugin_status_line(plugin, ""));
        events.push(create_truncated_notice_event(
            "status lines of plugins that no longer run are gone: ",
            &names.join(", "),
        ));
    }
    let ended = spec.session.approvals_of_previous_run();
    if !ended.is_empty() {
        events.push(create_truncated_notice_event(
            "calls that you allowed for the previous run are asked about again: ",
            &ended.join("; "),
        ));
    }
    events
}

fn create_truncated_notice_event(what: &str, list: &str) -> Event {
    let text = escape_and_truncate_line(&format!("{what}{list}"), MAX_NOTICE_LIST_BYTES);
    Event::create_host_notice(Level::Info, text)
}

/// Adds the tool `skill` and, if there are skills, the list of them to the system prompt. Returns a
/// notice about the list for the user.
fn offer_skills_to_model(spec: &mut AgentSpec, active_turns: &ActiveTurns) -> Option<Event> {
    add_skill_tool(spec, active_turns);
    let (part, notice) = catalogue::skill_list_prompt_part(&spec.skills)?;
    spec.parts.push(part);
    notice.map(|text| Event::create_host_notice(Level::Warn, text))
}
