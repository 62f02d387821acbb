//! Active skills, and the tools that they permit.
//!
//! Every agent has its own list; the active skills of its parent agents restrict it as well. Allow
//! lists intersect and deny lists are merged, so a further skill never restores a tool. The module
//! must not know how a skill becomes active. Start from [`ActiveSkills`].

use std::sync::{Arc, Mutex};

use super::ready::PreparedSkillInvocation;
use crate::event::Event;
use crate::grant::Trust;
use crate::lock::lock_ignoring_poison;
use crate::message::ToolSpec;
use crate::point::payload::SkillInfo;
use crate::session::{ActivatedSkill, Body, Session};
use crate::skill::{
    RequestedApprovalExemption, SessionSkills, Skill, SkillLifetime, SkillToolNamePattern,
    ToolScope,
};

/// Name of the tool with which the model invokes a skill.
pub(in crate::agent) const SKILL_TOOL_NAME: &str = "skill";

pub(in crate::agent) struct ActiveSkill {
    pub(super) id: Arc<str>,
    pub(super) hash: String,
    pub(super) trust: Trust,
    /// Name of the invoker of the skill: `user`, `model`, or `plugin NAME`.
    pub(super) by: String,
    /// Whether the skill stays active across turns until the user ends it.
    pub(in crate::agent) is_lasting: bool,
    pub(super) tools: ToolScope,
    /// Calls that need no approval by the user in the turn in which the skill was invoked.
    pub(super) spares: Vec<RequestedApprovalExemption>,
    /// Number of the turn in which the skill was invoked; 0 if it was restored from an earlier run.
    pub(super) turn: u32,
    /// Text of the skill as the model received it; empty for a skill of an earlier run whose file
    /// has changed since.
    pub(super) text: Arc<str>,
    /// Model for the turn in which the skill was invoked, if it differs from the session's model.
    pub(super) model: Option<String>,
}

impl ActiveSkill {
    /// Creates an active skill that was invoked in this turn. If `is_of_plugin` is true, a plugin
    /// caused the invocation, and the skill exempts no call from approval.
    pub(super) fn new(ready: &PreparedSkillInvocation, turn: u32, is_of_plugin: bool) -> Self {
        let (skill, text) = (&ready.skill, ready.text.clone());
        Self {
            id: skill.id.as_str().into(),
            hash: skill.hash.clone(),
            trust: skill.trust,
            by: ready.by.to_string(),
            is_lasting: skill.interaction == SkillLifetime::Conversational,
            tools: skill.tools.clone(),
            spares: match may_exempt_calls_from_approval(skill.trust)
                && !is_of_plugin
                && !ready.is_repeated
            {
                true => skill.spares.clone(),
                false => Vec::new(),
            },
            turn,
            text,
            model: None,
        }
    }

    /// Restores a skill that was active when its session was closed. Its limits on calls are the
    /// recorded ones, even if its file was changed or removed since.
    pub(super) fn restore_from_earlier_run(kept: &ActivatedSkill, skills: &SessionSkills) -> Self {
        // Fail closed if this version cannot parse a pattern: in `allow` the pattern permits
        // nothing, and in `deny` it forbids all tools.
        let pattern = |text: &String| SkillToolNamePattern::new(text).ok();
        let deny: Option<Vec<SkillToolNamePattern>> = kept.deny.iter().map(pattern).collect();
        let allow = kept.allow.as_ref();
        let mut allow = allow.map(|texts| texts.iter().filter_map(pattern).collect());
        if deny.is_none() {
            allow = Some(Vec::new());
        }
        // Restore the text of the skill if it has not changed, but without arguments, which are
        // only in the conversation.
        let same = skills.find(&kept.skill);
        let same = same.filter(|skill| skill.id == kept.skill && skill.hash == kept.hash);
        let text = same.map(|skill| SessionSkills::tag_text_with_origin(skill, &skill.body).into());
        Self {
            id: kept.skill.as_str().into(),
            hash: kept.hash.clone(),
            trust: serde_json::from_value(kept.trust.as_str().into()).unwrap_or(Trust::Local),
            by: kept.by.clone(),
            is_lasting: true,
            tools: ToolScope {
                allow,
                deny: deny.unwrap_or_default(),
            },
            spares: Vec::new(),
            turn: 0,
            text: text.unwrap_or_default(),
            model: None,
        }
    }

    /// Returns the way in which the skill forbids calls of this tool; `None` if it permits them.
    /// Only a deny list that contains its name forbids the tool `skill`: that tool runs nothing,
    /// and another skill can only remove further tools.
    pub(super) fn find_prohibition(&self, spec: &ToolSpec) -> Option<SkillToolRefusalReason> {
        let (name, plugin) = (spec.name.as_str(), spec.plugin.as_deref());
        let matches = |pattern: &SkillToolNamePattern| pattern.matches(name, plugin);
        if self.tools.deny.iter().any(matches) {
            return Some(SkillToolRefusalReason::Denied);
        }
        let is_reading = name == SKILL_TOOL_NAME && plugin.is_none();
        match &self.tools.allow {
            Some(allow) if !is_reading && !allow.iter().any(matches) => {
                Some(SkillToolRefusalReason::NotAllowed)
            }
            _ => None,
        }
    }

    /// Whether the skill was restored from an earlier run of the session.
    pub(super) fn is_restored_from_earlier_run(&self) -> bool {
        self.turn == 0
    }

    pub(super) fn permits_tool(&self, spec: &ToolSpec) -> bool {
        self.find_prohibition(spec).is_none()
    }

    pub(in crate::agent) fn activation_event(&self) -> Event {
        let kept = self.to_activation_record();
        Event::SkillActivated {
            skill: kept.skill,
            trust: kept.trust,
            hash: kept.hash,
            by: kept.by,
            is_conversational: self.is_lasting,
            allow: kept.allow,
            deny: kept.deny,
        }
    }

    /// Returns the session entry that records the activation of this skill.
    pub(super) fn activation_entry(&self) -> Body {
        let kept = self.to_activation_record();
        Body::SkillActivated {
            skill: kept.skill,
            trust: kept.trust,
            hash: kept.hash,
            by: kept.by,
            is_conversational: self.is_lasting,
            allow: kept.allow,
            deny: kept.deny,
        }
    }

    /// Returns the payload that hooks get about the skill. `reason` is the reason for the skill's
    /// end; empty when the skill begins.
    pub(super) fn create_skill_info(&self, reason: &str) -> SkillInfo {
        let kept = self.to_activation_record();
        SkillInfo {
            id: kept.skill,
            trust: kept.trust,
            hash: kept.hash,
            by: kept.by,
            allow: kept.allow,
            deny: kept.deny,
            reason: reason.to_owned(),
        }
    }

    /// Returns the form of the skill that the session file, events and hooks use.
    fn to_activation_record(&self) -> ActivatedSkill {
        let texts = |patterns: &Vec<SkillToolNamePattern>| {
            patterns.iter().map(|p| p.text().to_owned()).collect()
        };
        ActivatedSkill {
            skill: self.id.to_string(),
            trust: self.trust.to_string(),
            hash: self.hash.clone(),
            by: self.by.clone(),
            allow: self.tools.allow.as_ref().map(texts),
            deny: texts(&self.tools.deny),
        }
    }

    /// Returns when the skill ends, as a phrase for the model.
    pub(super) fn describe_skill_end(&self) -> &'static str {
        match self.is_lasting {
            true => "when the user types /done",
            false => "with this turn",
        }
    }
}

/// Whether a skill from this source can exempt calls from approval: only if the user or an
/// administrator installed it.
fn may_exempt_calls_from_approval(trust: Trust) -> bool {
    matches!(trust, Trust::Managed | Trust::Package | Trust::User)
}

pub(super) enum SkillToolRefusalReason {
    Denied,
    NotAllowed,
}

#[derive(Default)]
pub(in crate::agent) struct ActiveSkills(Mutex<Vec<Arc<ActiveSkill>>>);

impl ActiveSkills {
    /// Restores the skills that were active when the session was closed.
    pub(in crate::agent) fn restore_for_session(session: &Session, skills: &SessionSkills) -> Self {
        let kept = session.skills_active_across_turns();
        let active = kept
            .iter()
            .map(|kept| Arc::new(ActiveSkill::restore_from_earlier_run(kept, skills)));
        Self(Mutex::new(active.collect()))
    }

    /// Restores a skill that was active in the interrupted turn, with its limits on calls, until
    /// the end of the turn that continues it.
    pub(in crate::agent) fn restore_skill(&self, kept: &ActivatedSkill, skills: &SessionSkills) {
        let skill = ActiveSkill {
            is_lasting: false,
            ..ActiveSkill::restore_from_earlier_run(kept, skills)
        };
        self.add_skill(Arc::new(skill));
    }

    pub(super) fn add_skill(&self, skill: Arc<ActiveSkill>) {
        lock_ignoring_poison(&self.0).push(skill);
    }

    pub(in crate::agent) fn all(&self) -> Vec<Arc<ActiveSkill>> {
        lock_ignoring_poison(&self.0).clone()
    }

    pub(in crate::agent) fn last_skill_id(&self) -> Option<Arc<str>> {
        lock_ignoring_poison(&self.0)
            .last()
            .map(|skill| skill.id.clone())
    }

    /// Removes and returns the skills for which `is_over` is true.
    pub(in crate::agent) fn take_finished_skills(
        &self,
        is_over: impl Fn(&ActiveSkill) -> bool,
    ) -> Vec<Arc<ActiveSkill>> {
        let mut own = lock_ignoring_poison(&self.0);
        let (over, left) = own.drain(..).partition(|skill| is_over(skill));
        *own = left;
        over
    }
}

/// Whether the skill reserves the tools of this plugin, so that they are unavailable until such a
/// skill is used. Only a skill that the user or an administrator installed can reserve tools: a
/// skill of a project must neither remove tools that the user has otherwise, nor make tools
/// available that another skill reserves.
pub(super) fn plugin_tools_require_skill(skill: &Skill, plugin: &str) -> bool {
    may_exempt_calls_from_approval(skill.trust)
        && skill.library_depends.iter().any(|own| own == plugin)
}
