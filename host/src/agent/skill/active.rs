//! Skills that are active, and the tools that they leave allowed.
//!
//! Every agent has a list of its own; the skills that are active in the agents above it count for
//! it as well. Allow lists intersect and deny lists join, so that one more skill never gives back a
//! tool. It must not know how a skill begins. Start from [`ActiveSkills`].

use std::sync::{Arc, Mutex};

use super::ready::ReadySkill;
use crate::event::Event;
use crate::grant::Trust;
use crate::lock::lock;
use crate::message::ToolSpec;
use crate::point::payload::SkillInfo;
use crate::session::{Body, LastingSkill, Session};
use crate::skill::{Interaction, Skill, Skills, ToolPattern, ToolScope, UnaskedCall};

/// Name of the tool that gives the model a skill.
pub(in crate::agent) const TOOL: &str = "skill";

pub(in crate::agent) struct ActiveSkill {
    pub(super) id: Arc<str>,
    pub(super) hash: String,
    pub(super) trust: Trust,
    /// Maker of the call: `user`, `model`, or `plugin NAME`.
    pub(super) by: String,
    /// Whether it stays until the person ends it.
    pub(in crate::agent) is_lasting: bool,
    pub(super) tools: ToolScope,
    /// Calls that its source spares a question about, in the turn in which it was invoked.
    pub(super) spares: Vec<UnaskedCall>,
    /// Turn in which it was invoked; 0 for one of an earlier run.
    pub(super) turn: u32,
    /// Text that the model was given; empty for a skill of an earlier run whose file has changed
    /// since.
    pub(super) text: Arc<str>,
    /// Model of the turn in which it was invoked, where it is not the session's.
    pub(super) model: Option<String>,
}

impl ActiveSkill {
    /// A skill that is invoked in this turn. `is_of_plugin` says that a plugin caused it, which is
    /// spared no question.
    pub(super) fn new(ready: &ReadySkill, turn: u32, is_of_plugin: bool) -> Self {
        let (skill, text) = (&ready.skill, ready.text.clone());
        Self {
            id: skill.id.as_str().into(),
            hash: skill.hash.clone(),
            trust: skill.trust,
            by: ready.by.to_string(),
            is_lasting: skill.interaction == Interaction::Conversational,
            tools: skill.tools.clone(),
            spares: match may_spare(skill.trust) && !is_of_plugin && !ready.is_repeated {
                true => skill.spares.clone(),
                false => Vec::new(),
            },
            turn,
            text,
            model: None,
        }
    }

    /// Restores a skill that was active when its session was left. Its limits on calls are those of
    /// that time, even if its file was changed or removed since.
    pub(super) fn of_earlier_run(kept: &LastingSkill, skills: &Skills) -> Self {
        // A pattern that this version cannot read fails closed: in `allow` it allows nothing, and
        // in `deny` it closes the whole list.
        let pattern = |text: &String| ToolPattern::new(text).ok();
        let deny: Option<Vec<ToolPattern>> = kept.deny.iter().map(pattern).collect();
        let allow = kept.allow.as_ref();
        let mut allow = allow.map(|texts| texts.iter().filter_map(pattern).collect());
        if deny.is_none() {
            allow = Some(Vec::new());
        }
        // Restore the text of the skill if it has not changed, without arguments: those are in the
        // conversation.
        let same = skills.find(&kept.skill);
        let same = same.filter(|skill| skill.id == kept.skill && skill.hash == kept.hash);
        let text = same.map(|skill| Skills::wrapped(skill, &skill.body).into());
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

    /// Whether the active skill forbids a call of this tool. Reading skills stays possible unless
    /// it is denied by name: it runs nothing, and another skill only removes tools.
    pub(super) fn forbids_tool(&self, spec: &ToolSpec) -> Option<ForbiddenCall> {
        let (name, plugin) = (spec.name.as_str(), spec.plugin.as_deref());
        let matches = |pattern: &ToolPattern| pattern.matches(name, plugin);
        if self.tools.deny.iter().any(matches) {
            return Some(ForbiddenCall::Denied);
        }
        let is_reading = name == TOOL && plugin.is_none();
        match &self.tools.allow {
            Some(allow) if !is_reading && !allow.iter().any(matches) => {
                Some(ForbiddenCall::NotAllowed)
            }
            _ => None,
        }
    }

    /// Whether the skill was restored from an earlier run of the session.
    pub(super) fn is_of_earlier_run(&self) -> bool {
        self.turn == 0
    }

    pub(super) fn permits_tool(&self, spec: &ToolSpec) -> bool {
        self.forbids_tool(spec).is_none()
    }

    pub(in crate::agent) fn event(&self) -> Event {
        let kept = self.kept();
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

    /// Entry that the session keeps of its beginning.
    pub(super) fn entry(&self) -> Body {
        let kept = self.kept();
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

    /// Payload for the hooks about the skill; `reason` is the reason for its end.
    pub(super) fn skill_info(&self, reason: &str) -> SkillInfo {
        let kept = self.kept();
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

    /// Returns the record of the skill for the session file and for messages.
    fn kept(&self) -> LastingSkill {
        let texts =
            |patterns: &Vec<ToolPattern>| patterns.iter().map(|p| p.text().to_owned()).collect();
        LastingSkill {
            skill: self.id.to_string(),
            trust: self.trust.to_string(),
            hash: self.hash.clone(),
            by: self.by.clone(),
            allow: self.tools.allow.as_ref().map(texts),
            deny: texts(&self.tools.deny),
        }
    }

    /// Returns when the skill ends, as text for the model.
    pub(super) fn ends(&self) -> &'static str {
        match self.is_lasting {
            true => "when the user types /done",
            false => "with this turn",
        }
    }
}

/// Whether the exemptions of a skill from this source count: only if the user or an administrator
/// installed it.
fn may_spare(trust: Trust) -> bool {
    matches!(trust, Trust::Managed | Trust::Package | Trust::User)
}

pub(super) enum ForbiddenCall {
    Denied,
    NotAllowed,
}

#[derive(Default)]
pub(in crate::agent) struct ActiveSkills(Mutex<Vec<Arc<ActiveSkill>>>);

impl ActiveSkills {
    /// Skills that were active when the session was left.
    pub(in crate::agent) fn of_session(session: &Session, skills: &Skills) -> Self {
        let kept = session.lasting_skills();
        let active = kept
            .iter()
            .map(|kept| Arc::new(ActiveSkill::of_earlier_run(kept, skills)));
        Self(Mutex::new(active.collect()))
    }

    /// Takes up a skill that was active in the interrupted turn, with its limits on calls.
    pub(in crate::agent) fn take_up(&self, kept: &LastingSkill, skills: &Skills) {
        let skill = ActiveSkill {
            is_lasting: false,
            ..ActiveSkill::of_earlier_run(kept, skills)
        };
        self.add_skill(Arc::new(skill));
    }

    pub(super) fn add_skill(&self, skill: Arc<ActiveSkill>) {
        lock(&self.0).push(skill);
    }

    pub(in crate::agent) fn all(&self) -> Vec<Arc<ActiveSkill>> {
        lock(&self.0).clone()
    }

    pub(in crate::agent) fn last(&self) -> Option<Arc<str>> {
        lock(&self.0).last().map(|skill| skill.id.clone())
    }

    /// Removes and returns the skills for which `is_over` is true.
    pub(in crate::agent) fn take_finished(
        &self,
        is_over: impl Fn(&ActiveSkill) -> bool,
    ) -> Vec<Arc<ActiveSkill>> {
        let mut own = lock(&self.0);
        let (over, left) = own.drain(..).partition(|skill| is_over(skill));
        *own = left;
        over
    }
}

/// Whether the skill makes the tools of this plugin available while it is active. A project must
/// neither remove tools that the user has without it, nor make tools available that a skill of the
/// user reserves for itself.
pub(super) fn decides_on(skill: &Skill, plugin: &str) -> bool {
    may_spare(skill.trust) && skill.library_depends.iter().any(|own| own == plugin)
}
