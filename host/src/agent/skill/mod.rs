//! Skills at work: how they are invoked, what they keep an agent to while they are active, when they end.
//!
//! Owns the way from an invocation to an active skill, the same for the person, the model and plugins: may it be invoked by whom,
//! is there what it needs, do the arguments fit, has the person let it be used; then it is active, and the model is given its
//! text. One that returns ends with its turn, one that converses when the person says so; neither compaction nor a resumed
//! session ends it. What files say of skills is `crate::skill`'s. Start from [`Gate::invoke`].

mod about;
mod active;
mod catalogue;
mod first_use;
mod memory;
mod model;
mod parts;
mod person;
mod read;
mod tool;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(super) use self::active::{ActiveSkill, ActiveSkills};
pub(super) use self::memory::SkillMemory;
pub(super) use self::parts::SkillParts;
use self::parts::{has_text, has_text_of};
pub(super) use self::person::Invoked;
pub(super) use self::tool::TOOL;
use super::scope::{ActiveTurns, TurnScope};
use super::spec::{AgentSpec, BY_NAME_ONLY};
use crate::event::Event;
use crate::message::{Message, Origin, Role, SkillPart};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::PromptPart;
use crate::session::Body;
use crate::skill::{Invocation, Skill, SkillArguments, Skills, ToolPattern};
use crate::tool::approval::SessionApprovals;
use crate::tool::registry::ToolRegistry;

/// Adds the tool `skill` and the list of skills to an agent that has any, and returns what to tell the person of the list.
pub(super) fn add_to(spec: &mut AgentSpec, active_turns: &ActiveTurns) -> Option<Event> {
    tool::add_tool(spec, active_turns);
    let (part, notice) = catalogue::part(&spec.skills)?;
    spec.parts.push(part);
    notice.map(|text| Event::notice(Level::Warn, text))
}

/// Whether a part of the system prompt is the list of skills.
pub(super) fn is_list(part: &PromptPart) -> bool {
    part.key == catalogue::KEY
}

/// Maker of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Invoker {
    User,
    Model,
    Plugin(Arc<str>),
}

impl std::fmt::Display for Invoker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Model => f.write_str("model"),
            Self::Plugin(name) => write!(f, "plugin {name}"),
        }
    }
}

/// A skill that may be used, with its text for this call.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) skill: Arc<Skill>,
    pub(super) by: Invoker,
    /// Text of the skill with the arguments in it, in its wrapper.
    pub(super) text: Arc<str>,
    /// Whether its text came in before. Whoever can put text into an input, such as a file that is piped in, can repeat it: then it
    /// spares no question.
    pub(super) is_repeated: bool,
}

/// Decision on invocations in one agent.
pub(super) struct Gate<'a> {
    pub(super) spec: &'a AgentSpec,
    /// Tools of the main agent: what a skill names may be there and not be given to a subagent.
    pub(super) tools: &'a ToolRegistry,
    pub(super) approvals: &'a SessionApprovals,
    pub(super) memory: &'a SkillMemory,
}

impl Gate<'_> {
    /// Decides on an invocation, and asks the person where that has to be. Nothing is active yet.
    ///
    /// # Errors
    /// The reason why the skill cannot be used, for whoever invoked it.
    pub(super) async fn invoke(
        &self,
        name: &str,
        arguments: &Value,
        by: Invoker,
    ) -> Result<Ready, String> {
        let skill = self.find(name, &by)?;
        self.check_needs(&skill)?;
        let arguments = checked(&skill, arguments)?;
        self.ask_first(&skill, &by).await?;
        let expanded = Skills::expand(&skill, &SkillArguments::new(&skill, &arguments));
        Ok(Ready {
            text: Skills::wrapped(&skill, &expanded).into(),
            skill,
            by,
            is_repeated: false,
        })
    }

    fn find(&self, name: &str, by: &Invoker) -> Result<Arc<Skill>, String> {
        let Some(skill) = self.spec.skills.find(name) else {
            return Err(unknown(&self.spec.skills, name));
        };
        let id = &skill.id;
        match (skill.invocation, by) {
            (Invocation::Disabled, _) => {
                Err(format!("the skill {id} is disabled; it is not used at all"))
            }
            (_, Invoker::User) if !skill.user_invocable => Err(format!(
                "the skill {id} is for the model alone (user-invocable: false)"
            )),
            (Invocation::UserOnly, Invoker::Model | Invoker::Plugin(_)) => Err(format!(
                "the skill {id} is invoked by the user only. Tell the user that it would help here and that /{id} runs it; do not \
                 imitate what it would do"
            )),
            _ => Ok(skill.clone()),
        }
    }

    fn check_needs(&self, skill: &Skill) -> Result<(), String> {
        let specs = self.tools.specs();
        let is_unknown = |pattern: &&ToolPattern| {
            let mut specs = specs.iter();
            !specs.any(|spec| pattern.matches(&spec.name, spec.plugin.as_deref()))
        };
        let unknown = skill.tools.allow.iter().flatten().filter(is_unknown);
        let unknown: Vec<String> = unknown
            .map(|pattern| format!("`{}`", pattern.text()))
            .collect();
        let mut missing = Vec::new();
        if !unknown.is_empty() {
            missing.push(format!(
                "its `tools.allow` names tools that are not here: {}",
                unknown.join(", ")
            ));
        }
        let plugins = &self.spec.plugins;
        let absent = skill
            .library_depends
            .iter()
            .filter(|name| !plugins.contains(name));
        missing.extend(
            absent.map(|name| format!("it depends on plugin `{name}`, which does not run")),
        );
        missing.extend(
            skill
                .missing
                .iter()
                .map(|what| format!("{what} is missing")),
        );
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the skill {} cannot be used: {}",
            skill.id,
            missing.join("; ")
        ))
    }
}

/// The arguments as the schema of the skill wants them, with its defaults.
fn checked(skill: &Skill, arguments: &Value) -> Result<Value, String> {
    let Some(schema) = &skill.arguments else {
        return Ok(arguments.clone());
    };
    let mut named = match arguments {
        Value::Object(named) => named.clone(),
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        _ => {
            return Err(format!(
                "the skill {} takes arguments by name, as `arguments`; their JSON Schema: {schema}",
                skill.id
            ));
        }
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, of) in properties.into_iter().flatten() {
        if let Some(default) = of.get("default").filter(|_| !named.contains_key(name)) {
            named.insert(name.clone(), default.clone());
        }
    }
    let named = Value::Object(named);
    let check = crate::tool::schema::compile(schema).map_err(|why| {
        format!(
            "the skill {} cannot be used: `arguments.schema`: {why}",
            skill.id
        )
    })?;
    check(&named).map_err(|why| {
        format!(
            "the arguments of the skill {} do not fit: {why}; their JSON Schema: {schema}",
            skill.id
        )
    })?;
    Ok(named)
}

fn unknown(skills: &Skills, name: &str) -> String {
    let names: Vec<&str> = skills
        .iter()
        .filter(|skill| skill.is_for_model())
        .map(|skill| skill.id.as_str())
        .collect();
    let name = crate::text::clean(name, 64);
    match names.is_empty() {
        true => format!("there is no skill `{name}`, and none that the model may invoke"),
        false => format!(
            "there is no skill `{name}`; the skills are: {}",
            names.join(", ")
        ),
    }
}

impl TurnScope {
    /// Has a skill be active, and tells everybody. From here on calls are kept to what it leaves.
    pub(super) async fn enter_skill(&self, caller: &Caller, ready: &Ready) {
        let is_of_plugin =
            matches!(ready.by, Invoker::Plugin(_)) || !self.spec.call_chain.is_empty();
        let mut active = ActiveSkill::new(ready, self.number, is_of_plugin);
        active.model = self.model_for(&ready.skill).await;
        self.family.skills.use_skill(&ready.skill, &self.spec);
        let active = Arc::new(active);
        self.skills.add(active.clone());
        self.tell_active(caller, &active).await;
    }

    async fn tell_active(&self, caller: &Caller, active: &ActiveSkill) {
        self.spec.session.append_or_defer(active.entry());
        self.spec.events.emit(active.event());
        let mut caller = caller.clone();
        self.update(&mut caller);
        self.dispatch::<at::SkillActivated>(&caller, active.info(""))
            .await;
    }

    /// Ends the skills of this agent that end with its turn; in a subagent all of them do, because it has no other turn.
    pub(super) async fn end_skills(&self, caller: &Caller) {
        let is_over = |skill: &ActiveSkill| !skill.is_lasting || self.spec.depth > 0;
        for ended in self.skills.take(is_over) {
            self.tell_ended(caller, &ended, "turn").await;
        }
    }

    async fn tell_ended(&self, caller: &Caller, ended: &ActiveSkill, reason: &str) {
        self.spec.tell_ended(ended, reason);
        self.dispatch::<at::SkillEnded>(caller, ended.info(reason))
            .await;
    }

    /// Finds a skill that was used in this session, whose files may therefore be read.
    fn used_skill(&self, name: &str) -> Result<Arc<Skill>, String> {
        let skills = &self.spec.skills;
        let skill = skills.find(name).ok_or_else(|| unknown(skills, name))?;
        self.family.skills.used(&skill.id).ok_or_else(|| {
            format!("the skill {} was not used in this session yet: invoke it first, without `file` and `offset`", skill.id)
        })
    }

    /// Returns the text of an active skill as the model was given it.
    fn text_of(&self, id: &str) -> Option<Arc<str>> {
        let active = self.active_skills().into_iter().rev();
        let mut active = active.filter(|skill| *skill.id == *id && !skill.text.is_empty());
        active.next().map(|skill| skill.text.clone())
    }

    /// Has the skills be active whose text a person's input brings: whatever way it came in, it is never given to the model
    /// without what it keeps calls to.
    pub(super) async fn enter_prepared(&self, caller: &Caller, input: &str) {
        for ready in self.family.skills.prepared_in(input) {
            let own = self.skills.all();
            if !own.iter().any(|skill| skill.text == ready.text) {
                self.enter_skill(caller, &ready).await;
            }
        }
        self.family.skills.came_in(input);
    }

    /// Whether the agent was given this text already, and the skill is active.
    fn is_given(&self, ready: &Ready) -> bool {
        let own = self.skills.all();
        let is_active = own.iter().any(|skill| skill.text == ready.text);
        is_active
            && self
                .spec
                .session
                .messages()
                .iter()
                .any(|message| has_text(message, &ready.skill.id, &ready.text))
    }

    fn main_tools(&self) -> Arc<ToolRegistry> {
        match &self.family.parent {
            Some(parent) => parent.main_tools(),
            None => self.tools(),
        }
    }

    /// Whether a tool is there for the time of this skill, which is not active yet.
    pub(super) fn comes_with(&self, skill: &Skill, tool: &str) -> bool {
        let tools = self.tools();
        tools.get(tool).is_some_and(|entry| {
            let spec = &entry.spec;
            let above = self.active_skills();
            active::decides_on(skill, spec.plugin.as_deref().unwrap_or_default())
                && self.withheld(spec).is_some()
                && above.iter().all(|skill| skill.permits_tool(spec))
        })
    }

    /// Names of this agent's tools that are left when a further skill is active.
    fn tools_left_by(&self, skill: &Skill) -> Vec<String> {
        let tools = self.tools();
        let (active, mut left) = (self.active(), Vec::new());
        let names = tools.specs().into_iter();
        let names =
            names.filter(|spec| active.contains(&spec.name) || self.comes_with(skill, &spec.name));
        let names: Vec<String> = names.map(|spec| spec.name.clone()).collect();
        // As for any subagent: it should do its work and not hand it on.
        let hands_on = |name: &str| skill.tools.allow.is_none() && BY_NAME_ONLY.contains(&name);
        for name in names.iter().filter(|name| !hands_on(name)) {
            let entry = tools.get(name);
            let is_left = entry.is_some_and(|entry| {
                let plugin = entry.spec.plugin.as_deref();
                let is_for_skill = entry.spec.name == TOOL || skill.tools.permits(name, plugin);
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

    /// Whether a message is the text of an active skill, or tells of skills about files: it stands again behind a summary and so
    /// not in it.
    pub(super) fn is_told_again(&self, message: &Message) -> bool {
        if about::tells_again(message) {
            return true;
        }
        let own = self.skills.all();
        let mut own = own.iter().filter(|skill| !skill.text.is_empty());
        message.role == Role::User && own.any(|skill| has_text(message, &skill.id, &skill.text))
    }

    /// Messages that give the model the texts of active skills again which are in `removed`: the newest first come in, each cut, all
    /// of them within a bound.
    pub(super) fn texts_again(&self, removed: &[Message]) -> Vec<Message> {
        let mut room = AGAIN_BYTES;
        let mut again = Vec::new();
        for skill in self.skills.all().iter().rev() {
            let was_shown = || match skill.is_of_earlier_run() {
                false => removed
                    .iter()
                    .any(|message| has_text(message, &skill.id, &skill.text)),
                // Its arguments are not known any more, so neither is the mark of its text.
                true => removed
                    .iter()
                    .any(|message| has_text_of(message, &skill.id)),
            };
            if skill.text.is_empty() || room == 0 || !was_shown() {
                continue;
            }
            let most = room.min(ONE_AGAIN_BYTES);
            let end = skill.text.floor_char_boundary(most.min(skill.text.len()));
            room -= end;
            let mut text = format!(
                "[skill {}, still active, again after the summary]\n{}",
                skill.id,
                &skill.text[..end]
            );
            if end < skill.text.len() {
                let close = skill.text.lines().last().unwrap_or_default();
                text.push_str(&format!(
                    "\n[cut; the tool `skill` with an offset reads on]\n{close}"
                ));
            }
            let part = SkillPart::Text(skill.id.to_string());
            let message = Message::text(Role::User, text).from(Origin::Summary);
            again.push(message.with_skills(vec![part]));
        }
        again.reverse();
        again.extend(self.told_again(removed));
        again
    }
}

/// Most bytes of the text of one skill after compaction: about 5,000 tokens.
const ONE_AGAIN_BYTES: usize = 20_000;

/// Most bytes of all of them together.
const AGAIN_BYTES: usize = 100_000;

/// First line of a text in its wrapper: it has a mark that no other text has.
fn head(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

impl AgentSpec {
    /// Tells the session and those who watch that a skill has ended.
    fn tell_ended(&self, ended: &ActiveSkill, reason: &str) {
        self.session.append_or_defer(Body::SkillEnded {
            skill: ended.id.to_string(),
            reason: reason.to_owned(),
        });
        self.events.emit(Event::SkillEnded {
            skill: ended.id.to_string(),
            reason: reason.to_owned(),
        });
    }
}
