//! Skills and presets that apply in one turn, and the tools that they permit.
//!
//! Skills of the parent agents restrict an agent as well. Allow lists intersect and deny lists are
//! merged, so a further skill never restores a tool. The module must not know how a skill becomes
//! active. Start from [`TurnSkillState`].

use std::path::PathBuf;
use std::sync::Arc;

use super::active::{
    ActiveSkill, ActiveSkills, SKILL_TOOL_NAME, SkillToolRefusalReason, plugin_tools_require_skill,
};
use super::gate::unknown_skill_text;
use super::memory::SessionSkillMemory;
use super::parts::ToolResultSkillTracker;
use super::presets::{ParentAgentPresets, TurnToolPresets};
use crate::agent::spec::AgentSpec;
use crate::agent::subagent::preset::EXPLICITLY_GRANTED_TOOL_NAMES;
use crate::agent::turn_tools::UnrestrictedTurnTools;
use crate::message::{SkillPart, ToolSpec};
use crate::skill::{RequestedApprovalExemption, Skill, SkillInvocationRule};
use crate::tool::command::{CommandPart, CommandPatternMatch};
use crate::tool::registry::ToolRegistry;
use crate::tool::subject::Subject;

/// Active skills and tools of one turn. The skills restrict the tools.
pub(in crate::agent) struct TurnSkillState {
    pub(super) spec: Arc<AgentSpec>,
    /// Number of the turn in the session.
    number: u32,
    /// Skills that are active in this agent.
    pub(in crate::agent) own: Arc<ActiveSkills>,
    /// Data about skills that the session remembers; all its agents share it.
    pub(super) memory: Arc<SessionSkillMemory>,
    /// Parts of skills that the results of calls contain, until each result becomes a message.
    pub(in crate::agent) parts: ToolResultSkillTracker,
    tools: UnrestrictedTurnTools,
    /// Presets that limit which tools can be called in the turn.
    pub(in crate::agent) presets: TurnToolPresets,
    /// Skills of the turn that started this agent; `None` for the main agent.
    parent: Option<Arc<TurnSkillState>>,
}

impl TurnSkillState {
    pub(in crate::agent) fn new(
        spec: Arc<AgentSpec>,
        number: u32,
        own: Arc<ActiveSkills>,
        memory: Arc<SessionSkillMemory>,
        (parent, at_start): (Option<Arc<Self>>, ParentAgentPresets),
    ) -> Self {
        Self {
            tools: UnrestrictedTurnTools::new(spec.tools.clone()),
            presets: TurnToolPresets::new_with_parent_presets(at_start),
            spec,
            number,
            own,
            memory,
            parts: ToolResultSkillTracker::default(),
            parent,
        }
    }

    /// Returns all tools of the agent, including those that skills or presets forbid.
    pub(in crate::agent) fn tools(&self) -> Arc<ToolRegistry> {
        self.tools.all_tools()
    }

    /// Replaces all tools of the agent, which must be between two steps.
    pub(in crate::agent) fn set_tools(&self, tools: ToolRegistry) {
        self.tools.set_all_tools(tools);
    }

    /// Returns the names of the tools that may be called now: the tools of the current step (before
    /// the first step, all tools) that the active skills and presets permit.
    pub(in crate::agent) fn callable_tool_names(&self) -> Arc<[String]> {
        let Some(active) = self.tools.step_tools() else {
            return self.permitted_tool_names().into();
        };
        let left = self.permitted_tool_names();
        let active = active.iter().filter(|name| left.contains(name));
        active.cloned().collect()
    }

    /// Sets the names of the tools that the current step offers.
    pub(in crate::agent) fn set_step_tool_names(&self, names: Vec<String>) {
        self.tools.set_step_tools(names);
    }

    /// Returns the names of the tools that the active skills and presets permit, in the order of
    /// the registry.
    pub(in crate::agent) fn permitted_tool_names(&self) -> Vec<String> {
        let tools = self.tools();
        let left = tools.specs().into_iter();
        let left = left.filter(|spec| self.permits_tool(spec));
        left.map(|spec| spec.name.clone()).collect()
    }

    /// Returns the active skills that restrict this agent, beginning with those of its parent
    /// agents.
    pub(in crate::agent) fn active_skills(&self) -> Vec<Arc<ActiveSkill>> {
        let parent = self.parent.as_ref();
        let mut skills = parent.map_or_else(Vec::new, |parent| parent.active_skills());
        skills.extend(self.own.all());
        skills
    }

    /// Returns the id of the skill that became active last in this agent; if this agent has none,
    /// that of a parent agent.
    pub(in crate::agent) fn latest_skill_id(&self) -> Option<Arc<str>> {
        let of_parent = || self.parent.as_ref()?.latest_skill_id();
        self.own.last_skill_id().or_else(of_parent)
    }

    /// Returns the model of this turn: the model of the last skill that was invoked in this turn
    /// and requests one, or else the session's model.
    pub(in crate::agent) fn turn_model(&self) -> String {
        let own = self.own.all();
        let mut of_turn = own.iter().rev().filter(|skill| skill.turn == self.number);
        let wanted = of_turn.find_map(|skill| skill.model.clone());
        wanted.unwrap_or_else(|| self.spec.model.clone())
    }

    pub(in crate::agent) fn permits_tool(&self, spec: &ToolSpec) -> bool {
        let active = self.active_skills();
        active
            .iter()
            .all(|skill| skill.find_prohibition(spec).is_none())
            && self
                .reason_tool_is_unavailable_without_skill(spec)
                .is_none()
            && self.presets.is_tool_selected(spec)
    }

    /// Returns the active skill that forbids calls of a tool, and the message for the caller of the
    /// tool.
    pub(in crate::agent) fn find_forbidding_skill(
        &self,
        spec: &ToolSpec,
    ) -> Option<(Arc<str>, String)> {
        let skills = self.active_skills();
        let (skill, forbidden) = skills
            .iter()
            .find_map(|skill| Some((skill, skill.find_prohibition(spec)?)))?;
        let why = match forbidden {
            SkillToolRefusalReason::Denied => format!("which is active and denies `{}`", spec.name),
            SkillToolRefusalReason::NotAllowed => {
                format!("which is active and does not allow `{}`", spec.name)
            }
        };
        let left = match &self.permitted_tool_names()[..] {
            [] => "no tools are left".to_owned(),
            names => format!("the tools that can still be called: {}", names.join(", ")),
        };
        let id = &skill.id;
        let text = format!(
            "refused by skill {id}, {why}; {left}. The call was not run. The skill ends {}; another skill or a subagent gives no tool \
             back. Go on with what is left, and say what you could not do.",
            skill.describe_skill_end()
        );
        Some((id.clone(), text))
    }

    /// Whether a skill of this turn exempts a call of this agent's model from approval. Calls of
    /// subagents are not exempt.
    pub(in crate::agent) fn exempts_from_approval(
        &self,
        spec: &ToolSpec,
        subject: &Subject,
    ) -> bool {
        let own = self.own.all();
        let of_turn = own.iter().filter(|skill| skill.turn == self.number);
        let spares: Vec<&RequestedApprovalExemption> = of_turn
            .flat_map(|skill| &skill.spares)
            .filter(|spare| is_exemption_for_tool(spare, spec))
            .collect();
        exemptions_cover_call(&spares, subject)
    }

    /// Returns the folders of the skills that were used. Commands may read them in addition to
    /// other folders.
    pub(in crate::agent) fn readable_folders(&self) -> Arc<[PathBuf]> {
        self.memory.readable_skill_folders()
    }

    /// Returns the reason why a tool of a plugin is currently unavailable: skills reserve the tools
    /// of that plugin, and none of these skills is active.
    pub(in crate::agent) fn reason_tool_is_unavailable_without_skill(
        &self,
        spec: &ToolSpec,
    ) -> Option<String> {
        let plugin = spec.plugin.as_deref()?;
        let of_plugin: Vec<&Arc<Skill>> = self
            .spec
            .skills
            .iter()
            .filter(|skill| plugin_tools_require_skill(skill, plugin))
            .filter(|skill| {
                skill.invocation != SkillInvocationRule::Disabled && skill.missing.is_empty()
            })
            .collect();
        if of_plugin.is_empty() || self.memory.has_attached_plugin_tools(plugin) {
            return None;
        }
        let active = self.active_skills();
        let is_active = |skill: &&Arc<Skill>| active.iter().any(|own| *own.id == *skill.id);
        if of_plugin.iter().any(is_active) {
            return None;
        }
        let ids: Vec<&str> = of_plugin.iter().map(|skill| skill.id.as_str()).collect();
        Some(format!(
            "`{}` of plugin {plugin} is available only while one of these skills is active: {}",
            spec.name,
            ids.join(", ")
        ))
    }

    /// Finds a skill that was already used in this session, so that its files may be read.
    pub(in crate::agent) fn find_used_skill(&self, name: &str) -> Result<Arc<Skill>, String> {
        let skills = &self.spec.skills;
        let skill = skills
            .find(name)
            .ok_or_else(|| unknown_skill_text(skills, name))?;
        self.memory.find_used_skill(&skill.id).ok_or_else(|| {
            format!("the skill {} was not used in this session yet: invoke it first, without `file` and `offset`", skill.id)
        })
    }

    pub(in crate::agent) fn main_agent_tools(&self) -> Arc<ToolRegistry> {
        match &self.parent {
            Some(parent) => parent.main_agent_tools(),
            None => self.tools(),
        }
    }

    /// Whether a tool is unavailable only because skills reserve it, and becomes available when
    /// this skill is activated.
    pub(in crate::agent) fn can_skill_unlock_tool(&self, skill: &Skill, tool: &str) -> bool {
        let tools = self.tools();
        tools.get(tool).is_some_and(|entry| {
            let spec = &entry.spec;
            let above = self.active_skills();
            plugin_tools_require_skill(skill, spec.plugin.as_deref().unwrap_or_default())
                && self
                    .reason_tool_is_unavailable_without_skill(spec)
                    .is_some()
                && self.presets.is_tool_selected(spec)
                && above.iter().all(|skill| skill.permits_tool(spec))
        })
    }

    /// Returns the names of the tools for a subagent that runs this skill: the tools of this agent
    /// that the skill permits.
    pub(in crate::agent) fn tools_permitted_by_skill(&self, skill: &Skill) -> Vec<String> {
        let tools = self.tools();
        let (active, mut left) = (self.callable_tool_names(), Vec::new());
        let names = tools.specs().into_iter();
        let names = names.filter(|spec| {
            active.contains(&spec.name) || self.can_skill_unlock_tool(skill, &spec.name)
        });
        let names: Vec<String> = names.map(|spec| spec.name.clone()).collect();
        // A subagent that runs a skill must do the work itself, so it gets tools that delegate only
        // if the skill names them explicitly.
        let hands_on = |name: &str| {
            skill.tools.allow.is_none() && EXPLICITLY_GRANTED_TOOL_NAMES.contains(&name)
        };
        for name in names.iter().filter(|name| !hands_on(name)) {
            let entry = tools.get(name);
            let is_left = entry.is_some_and(|entry| {
                let plugin = entry.spec.plugin.as_deref();
                let is_for_skill =
                    entry.spec.name == SKILL_TOOL_NAME || skill.tools.permits(name, plugin);
                is_for_skill
                    && !skill
                        .tools
                        .deny
                        .iter()
                        .any(|deny| deny.matches(name, plugin))
            });
            left.extend(is_left.then(|| name.clone()));
        }
        left
    }

    /// Returns a part for each prepared skill whose text occurs in `text`, which the user or
    /// another agent gives to an agent as input.
    pub(in crate::agent) fn find_skills_in_input(&self, text: &str) -> Vec<SkillPart> {
        let prepared = self.memory.find_prepared_skills(text).into_iter();
        prepared
            .map(|ready| SkillPart::Text(ready.skill.id.clone()))
            .collect()
    }
}

fn is_exemption_for_tool(spare: &RequestedApprovalExemption, spec: &ToolSpec) -> bool {
    match &spec.plugin {
        None => spec.name == spare.tool,
        Some(plugin) => spare.tool.split_once(':') == Some((plugin, &spec.name)),
    }
}

/// Whether the exemptions cover a call with this subject. For a shell command, every part of the
/// command must be covered; an exemption for a shell that names no command covers nothing.
fn exemptions_cover_call(spares: &[&RequestedApprovalExemption], subject: &Subject) -> bool {
    let Subject::Command(command) = subject else {
        return spares.iter().any(|spare| spare.command.is_none());
    };
    let is_covered = |part: &CommandPart| {
        let mut patterns = spares.iter().filter_map(|spare| spare.command.as_ref());
        !part.has_variable_assignments()
            && patterns.any(|pattern| pattern.match_part_exactly(part) == CommandPatternMatch::Yes)
    };
    command.reason_to_ask_user().is_none()
        && !command.parts.is_empty()
        && command.parts.iter().all(is_covered)
}
