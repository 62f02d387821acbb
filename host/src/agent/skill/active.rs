//! Skills that are active, and what they leave of the tools.
//!
//! Every agent has a list of its own; what is active in the agents above it counts for it as well. Allow lists intersect and deny
//! lists join, so that one more skill never gives back a tool. It must not know how a skill begins. Start from [`ActiveSkills`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::agent::scope::TurnScope;
use crate::event::Event;
use crate::grant::Trust;
use crate::lock::lock;
use crate::message::ToolSpec;
use crate::point::payload::SkillInfo;
use crate::session::{Body, LastingSkill, Session};
use crate::skill::{Interaction, Invocation, Skill, Skills, Spare, ToolPattern, ToolScope};
use crate::tool::command::{Matched, Part};
use crate::tool::subject::Subject;

use super::{Ready, TOOL};

pub(in crate::agent) struct ActiveSkill {
    pub(super) id: Arc<str>,
    pub(super) hash: String,
    pub(super) trust: Trust,
    /// Maker of the call: `user`, `model`, or `plugin NAME`.
    pub(super) by: String,
    /// Whether it stays until the person ends it.
    pub(super) is_lasting: bool,
    pub(super) tools: ToolScope,
    /// Calls that its source spares a question about, in the turn in which it was invoked.
    spares: Vec<Spare>,
    /// Turn in which it was invoked; 0 for one of an earlier run.
    turn: u32,
    /// Text that the model was given; empty for one of an earlier run whose file is another now.
    pub(super) text: Arc<str>,
    /// Model of the turn in which it was invoked, where it is not the session's.
    pub(super) model: Option<String>,
}

impl ActiveSkill {
    /// A skill that is invoked in this turn. `is_of_plugin` says that a plugin caused it, which is spared no question.
    pub(super) fn new(ready: &Ready, turn: u32, is_of_plugin: bool) -> Self {
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

    /// One that was active when its session was left. What it kept calls to counts as it was then, whatever became of its file.
    pub(super) fn of_earlier_run(kept: &LastingSkill, skills: &Skills) -> Self {
        // A pattern that this version does not read leaves nothing, and does not deny nothing.
        let pattern = |text: &String| ToolPattern::new(text).ok();
        let deny: Option<Vec<ToolPattern>> = kept.deny.iter().map(pattern).collect();
        let allow = kept.allow.as_ref();
        let mut allow = allow.map(|texts| texts.iter().filter_map(pattern).collect());
        if deny.is_none() {
            allow = Some(Vec::new());
        }
        // Its text if it is still the same, with no arguments: those are in the conversation.
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

    /// Whether a call of this tool is kept from running. Reading skills stays possible unless it is denied by name: it runs
    /// nothing, and a further skill only takes tools away.
    fn forbids(&self, spec: &ToolSpec) -> Option<Forbidden> {
        let (name, plugin) = (spec.name.as_str(), spec.plugin.as_deref());
        let matches = |pattern: &ToolPattern| pattern.matches(name, plugin);
        if self.tools.deny.iter().any(matches) {
            return Some(Forbidden::Denied);
        }
        let is_reading = name == TOOL && plugin.is_none();
        match &self.tools.allow {
            Some(allow) if !is_reading && !allow.iter().any(matches) => Some(Forbidden::NotAllowed),
            _ => None,
        }
    }

    /// Whether it was active when its session was left, and is since.
    pub(super) fn is_of_earlier_run(&self) -> bool {
        self.turn == 0
    }

    pub(super) fn permits_tool(&self, spec: &ToolSpec) -> bool {
        self.forbids(spec).is_none()
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

    /// Payload of hooks about it; `reason` is that of its end.
    pub(super) fn info(&self, reason: &str) -> SkillInfo {
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

    /// The skill in words, as it is kept and told.
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

    /// End of the skill, in words for the model.
    fn ends(&self) -> &'static str {
        match self.is_lasting {
            true => "when the user types /done",
            false => "with this turn",
        }
    }
}

/// Whether what a skill of this source spares counts: somebody who may decide that put it there.
fn may_spare(trust: Trust) -> bool {
    matches!(trust, Trust::Managed | Trust::Package | Trust::User)
}

enum Forbidden {
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

    pub(super) fn add(&self, skill: Arc<ActiveSkill>) {
        lock(&self.0).push(skill);
    }

    pub(in crate::agent) fn all(&self) -> Vec<Arc<ActiveSkill>> {
        lock(&self.0).clone()
    }

    pub(in crate::agent) fn last(&self) -> Option<Arc<str>> {
        lock(&self.0).last().map(|skill| skill.id.clone())
    }

    /// Takes out those that `is_over` says it of.
    pub(super) fn take(&self, is_over: impl Fn(&ActiveSkill) -> bool) -> Vec<Arc<ActiveSkill>> {
        let mut own = lock(&self.0);
        let (over, left) = own.drain(..).partition(|skill| is_over(skill));
        *own = left;
        over
    }
}

impl TurnScope {
    /// The skills that count here, those of the agents above first.
    pub(super) fn active_skills(&self) -> Vec<Arc<ActiveSkill>> {
        let parent = self.family.parent.as_ref();
        let mut skills = parent.map_or_else(Vec::new, |parent| parent.active_skills());
        skills.extend(self.skills.all());
        skills
    }

    /// Id of the skill that became active last.
    pub(in crate::agent) fn skill(&self) -> Option<Arc<str>> {
        let of_parent = || self.family.parent.as_ref()?.skill();
        self.skills.last().or_else(of_parent)
    }

    /// Returns the model of this turn: that of the skill which was invoked last in it and has one, or else the session's.
    pub(in crate::agent) fn model(&self) -> String {
        let own = self.skills.all();
        let mut of_turn = own.iter().rev().filter(|skill| skill.turn == self.number);
        let wanted = of_turn.find_map(|skill| skill.model.clone());
        wanted.unwrap_or_else(|| self.spec.model.clone())
    }

    pub(in crate::agent) fn permits_tool(&self, spec: &ToolSpec) -> bool {
        let active = self.active_skills();
        active.iter().all(|skill| skill.forbids(spec).is_none()) && self.withheld(spec).is_none()
    }

    /// The skill that keeps a tool from being called, and what to tell whoever calls it.
    pub(in crate::agent) fn forbidden_by_skill(
        &self,
        spec: &ToolSpec,
    ) -> Option<(Arc<str>, String)> {
        let skills = self.active_skills();
        let (skill, forbidden) = skills
            .iter()
            .find_map(|skill| Some((skill, skill.forbids(spec)?)))?;
        let why = match forbidden {
            Forbidden::Denied => format!("which is active and denies `{}`", spec.name),
            Forbidden::NotAllowed => format!("which is active and does not allow `{}`", spec.name),
        };
        let left = match &self.tool_names()[..] {
            [] => "no tools are left".to_owned(),
            names => format!("the tools that are left: {}", names.join(", ")),
        };
        let id = &skill.id;
        let text = format!(
            "refused by skill {id}, {why}; {left}. The call was not run. The skill ends {}; another skill or a subagent gives no tool \
             back. Go on with what is left, and say what you could not do.",
            skill.ends()
        );
        Some((id.clone(), text))
    }

    /// Whether a skill of this turn spares the question about a call of this agent's model. Subagents that somebody runs meanwhile
    /// are not spared anything.
    pub(in crate::agent) fn spares(&self, spec: &ToolSpec, subject: &Subject) -> bool {
        let own = self.skills.all();
        let of_turn = own.iter().filter(|skill| skill.turn == self.number);
        let spares: Vec<&Spare> = of_turn
            .flat_map(|skill| &skill.spares)
            .filter(|spare| is_about(spare, spec))
            .collect();
        covers(&spares, subject)
    }

    /// Folders that commands may read besides: those of the skills that were used.
    pub(in crate::agent) fn readable(&self) -> Arc<[PathBuf]> {
        self.family.skills.folders()
    }

    /// The reason why a tool of a plugin is not there now: skills depend on that plugin, and its tools are for their time.
    pub(in crate::agent) fn withheld(&self, spec: &ToolSpec) -> Option<String> {
        let plugin = spec.plugin.as_deref()?;
        let of_plugin: Vec<&Arc<Skill>> = self
            .spec
            .skills
            .iter()
            .filter(|skill| decides_on(skill, plugin))
            .filter(|skill| skill.invocation != Invocation::Disabled && skill.missing.is_empty())
            .collect();
        if of_plugin.is_empty() || self.family.skills.is_attached(plugin) {
            return None;
        }
        let active = self.active_skills();
        let is_active = |skill: &&Arc<Skill>| active.iter().any(|own| *own.id == *skill.id);
        if of_plugin.iter().any(is_active) {
            return None;
        }
        let ids: Vec<&str> = of_plugin.iter().map(|skill| skill.id.as_str()).collect();
        Some(format!(
            "`{}` of plugin {plugin} is there while one of these skills is active: {}",
            spec.name,
            ids.join(", ")
        ))
    }
}

/// Whether the tools of this plugin are there for the time of the skill. A project neither takes tools away that the user has
/// without it, nor gives those that a skill of the user's keeps for itself.
pub(super) fn decides_on(skill: &Skill, plugin: &str) -> bool {
    may_spare(skill.trust) && skill.library_depends.iter().any(|own| own == plugin)
}

fn is_about(spare: &Spare, spec: &ToolSpec) -> bool {
    match &spec.plugin {
        None => spec.name == spare.tool,
        Some(plugin) => spare.tool.split_once(':') == Some((plugin, &spec.name)),
    }
}

/// Whether spares of a tool cover a call of it: of a command each part. One that names a shell and no command covers nothing.
fn covers(spares: &[&Spare], subject: &Subject) -> bool {
    let Subject::Command(command) = subject else {
        return spares.iter().any(|spare| spare.command.is_none());
    };
    let is_covered = |part: &Part| {
        let mut patterns = spares.iter().filter_map(|spare| spare.command.as_ref());
        !part.is_altered() && patterns.any(|pattern| pattern.matched(part) == Matched::Yes)
    };
    command.why_asked().is_none()
        && !command.parts.is_empty()
        && command.parts.iter().all(is_covered)
}
