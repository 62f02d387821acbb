//! Decides whether a skill may be invoked: whether this invoker may use it, whether the tools and
//! plugins that it needs exist, and whether the arguments match.
//!
//! The user, the model and plugins pass the same gate. Start from
//! [`SkillInvocationChecker::check_and_prepare_skill`].

use std::sync::Arc;

use serde_json::{Map, Value};

use super::memory::SessionSkillMemory;
use super::ready::{PreparedSkillInvocation, SkillInvoker};
use crate::agent::spec::AgentSpec;
use crate::skill::{
    SessionSkills, Skill, SkillArguments, SkillInvocationRule, SkillToolNamePattern,
};
use crate::tool::approval::SessionApprovals;
use crate::tool::registry::ToolRegistry;

/// Checks that a skill must pass before an agent invokes it.
pub(super) struct SkillInvocationChecker<'a> {
    pub(super) spec: &'a AgentSpec,
    /// Tools of the main agent: a tool that a skill names may exist there even if a subagent does
    /// not have it.
    pub(super) tools: &'a ToolRegistry,
    pub(super) approvals: &'a SessionApprovals,
    pub(super) memory: &'a SessionSkillMemory,
}

impl SkillInvocationChecker<'_> {
    /// Checks whether a skill may be invoked with these arguments, and asks the user if necessary.
    /// Does not activate the skill yet.
    ///
    /// # Errors
    /// The reason why the skill cannot be used, as text for the invoker.
    pub(super) async fn check_and_prepare_skill(
        &self,
        name: &str,
        arguments: &Value,
        by: SkillInvoker,
    ) -> Result<PreparedSkillInvocation, String> {
        let skill = self.find_skill(name, &by)?;
        self.check_requirements(&skill)?;
        let arguments = check_arguments(&skill, arguments)?;
        self.confirm_first_skill_use(&skill, &by).await?;
        let expanded =
            SessionSkills::expand_skill(&skill, &SkillArguments::new(&skill, &arguments));
        Ok(PreparedSkillInvocation {
            text: SessionSkills::tag_text_with_origin(&skill, &expanded).into(),
            skill,
            by,
            is_repeated: false,
        })
    }

    fn find_skill(&self, name: &str, by: &SkillInvoker) -> Result<Arc<Skill>, String> {
        let Some(skill) = self.spec.skills.find(name) else {
            return Err(unknown_skill_text(&self.spec.skills, name));
        };
        let id = &skill.id;
        match (skill.invocation, by) {
            (SkillInvocationRule::Disabled, _) => {
                Err(format!("the skill {id} is disabled and cannot be used"))
            }
            (_, SkillInvoker::User) if !skill.user_invocable => Err(format!(
                "the skill {id} is for the model alone (user-invocable: false)"
            )),
            (SkillInvocationRule::UserOnly, SkillInvoker::Model | SkillInvoker::Plugin(_)) => {
                Err(format!(
                    "the skill {id} is invoked by the user only. Tell the user that it would help here and that /{id} runs it; do not \
                 imitate what it would do"
                ))
            }
            _ => Ok(skill.clone()),
        }
    }

    fn check_requirements(&self, skill: &Skill) -> Result<(), String> {
        let specs = self.tools.specs();
        let is_unknown = |pattern: &&SkillToolNamePattern| {
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
                "its `tools.allow` names tools that do not exist: {}",
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

/// Adds the defaults of the skill's schema to the arguments and validates them against the schema.
fn check_arguments(skill: &Skill, arguments: &Value) -> Result<Value, String> {
    let Some(schema) = &skill.arguments else {
        return Ok(arguments.clone());
    };
    let mut named = match arguments {
        Value::Object(named) => named.clone(),
        Value::Null => Map::new(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        _ => {
            return Err(format!(
                "the skill {} takes named arguments: pass them as an object in the field `arguments`; their JSON Schema: {schema}",
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
    let check = crate::tool::schema::compile_json_schema_check(schema).map_err(|why| {
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

pub(super) fn unknown_skill_text(skills: &SessionSkills, name: &str) -> String {
    let names: Vec<&str> = skills
        .iter()
        .filter(|skill| skill.is_startable_by_model())
        .map(|skill| skill.id.as_str())
        .collect();
    let name = crate::text::escape_and_truncate_line(name, 64);
    match names.is_empty() {
        true => format!("there is no skill `{name}`, and none that the model may invoke"),
        false => format!(
            "there is no skill `{name}`; the skills are: {}",
            names.join(", ")
        ),
    }
}
