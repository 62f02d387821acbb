//! Defines a skill as a session uses it, independent of the format of its file.
//!
//! The module contains plain data only: `parse` reads a skill from a file, and `find` finds the
//! file. Start from [`Skill`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::origin::Origin;
use super::scope::{RequestedApprovalExemption, ToolScope};
use crate::grant::held::InMemoryFolder;
use crate::grant::{SideEffect, Trust};

/// Location where a skill was found. Of several skills with the same name, the one with the first
/// location in this order is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Directory `skills` in the user's settings directory, which also contains installed skills.
    User,
    /// Directory `.claude/skills` in the user's home.
    ClaudeUser,
    /// Directory `.agents/skills` in the user's home.
    AgentsUser,
    /// Directory `.rind/skills` of the project.
    Project,
    /// Directory `.claude/skills` of the project.
    ClaudeProject,
    /// Directory `.agents/skills` of the project.
    AgentsProject,
    /// Directory `skills` of a plugin.
    Plugin(String),
    /// Path on the command line or in the host's builder.
    Local,
}

impl Source {
    /// Returns the trust in skills from this location. For a plugin, it is the trust in the plugin,
    /// which the caller passes.
    #[must_use]
    pub fn trust_level(&self, of_plugin: Trust) -> Trust {
        match self {
            Self::User | Self::ClaudeUser | Self::AgentsUser => Trust::User,
            Self::Project | Self::ClaudeProject | Self::AgentsProject => Trust::Project,
            Self::Plugin(_) => of_plugin,
            Self::Local => Trust::Local,
        }
    }

    /// Returns the name of the plugin that provides the skill; `None` for other locations.
    #[must_use]
    pub fn plugin_name(&self) -> Option<&str> {
        match self {
            Self::Plugin(name) => Some(name),
            _ => None,
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::ClaudeUser => "user (.claude)",
            Self::AgentsUser => "user (.agents)",
            Self::Project => "project",
            Self::ClaudeProject => "project (.claude)",
            Self::AgentsProject => "project (.agents)",
            Self::Plugin(name) => return write!(f, "plugin {name}"),
            Self::Local => "local",
        })
    }
}

/// Rule on who may start a skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillInvocationRule {
    /// The model and the user may start the skill.
    #[default]
    Auto,
    /// The user only: the model does not see the skill and may not start it.
    UserOnly,
    /// Neither the model nor the user may start the skill.
    Disabled,
}

/// Lifetime of a skill after it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillLifetime {
    /// The skill ends when it has given its result.
    #[default]
    Returning,
    /// The skill stays active until the user ends it.
    Conversational,
}

/// Conversation in which the instructions of a skill are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillExecutionContext {
    /// The conversation in which the skill was started.
    #[default]
    Inline,
    /// A new subagent, which does not get the previous conversation.
    Fork,
}

/// Requirements on the machine without which a skill is not useful.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRequirements {
    /// Names of programs, all of which the machine must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Names of programs, one of which the machine must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_bins: Vec<String>,
    /// Environment variables, all of which must be set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl SkillRequirements {
    /// Returns a description of each requirement that this machine does not meet.
    #[must_use]
    pub fn missing_requirements(&self, has: &dyn ProgramAndVariableLookup) -> Vec<String> {
        let bins = self.bins.iter().filter(|name| !has.has_program(name));
        let mut missing: Vec<String> = bins.map(|name| format!("the program `{name}`")).collect();
        if !self.any_bins.is_empty() && !self.any_bins.iter().any(|name| has.has_program(name)) {
            missing.push(format!(
                "one of the programs `{}`",
                self.any_bins.join("`, `")
            ));
        }
        let env = self.env.iter().filter(|name| !has.has_variable(name));
        missing.extend(env.map(|name| format!("the environment variable `{name}`")));
        missing
    }

    /// Whether there are no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty() && self.any_bins.is_empty() && self.env.is_empty()
    }
}

/// Lookup of the programs and environment variables of this machine. Implemented by the layer that
/// knows the environment; an implementation must not run a program.
pub trait ProgramAndVariableLookup: Sync {
    /// Whether a program of this name is on the search path.
    fn has_program(&self, name: &str) -> bool;
    /// Whether a variable is set in the environment.
    fn has_variable(&self, name: &str) -> bool;
}

/// Environment that has every program and variable, for callers that only read a skill's text.
#[derive(Clone, Copy, Debug)]
pub struct AllRequirementsMetLookup;

impl ProgramAndVariableLookup for AllRequirementsMetLookup {
    fn has_program(&self, _: &str) -> bool {
        true
    }

    fn has_variable(&self, _: &str) -> bool {
        true
    }
}

/// Package from which a skill was generated, as recorded in the front matter of the skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePackage {
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digest of the source from which the skill was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_hash: Option<String>,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A key or a value that has no effect in Rind.
    Note,
    /// Probable mistake in the file.
    Warning,
    /// A fault: the skill is not loaded, or only the user can start it and it skips no approval
    /// questions.
    Error,
}

/// Finding about a file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line of the finding in the file, from 1.
    pub line: usize,
    /// Column of the finding in its line, from 1.
    pub column: usize,
    /// Severity of the finding.
    pub severity: Severity,
    /// Problem, in one line.
    pub text: String,
    /// Remedy for the problem, in one line; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// A skill: its front matter, body and origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skill {
    /// Identity by which the user and the model name the skill: the name of its directory, prefixed
    /// by `PLUGIN:` if a plugin provides it.
    pub id: String,
    /// `name` in the front matter: a label. The skill can also be started by its label, unless
    /// another skill has the same identity or label.
    pub label: String,
    /// Description: purpose of the skill and when to use it.
    pub description: String,
    /// Advice on when to use the skill, if it is not part of the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Text after the front matter, unchanged.
    #[serde(skip)]
    pub body: Arc<str>,
    /// Line of the file where the body begins, from 1.
    #[serde(skip)]
    pub body_line: usize,
    /// Directory that contains the files of the skill (its bundle).
    pub dir: PathBuf,
    /// Canonical path of the bundle's directory. Files of the bundle are read only while its path
    /// still resolves to this one.
    #[serde(skip)]
    pub real_dir: PathBuf,
    /// Copy of the bundle's files in memory, if only content that the user trusted, or that was
    /// verified as installed, may be used. The files on disk, which may have changed since, are
    /// then not used.
    #[serde(skip)]
    pub held: Option<Arc<InMemoryFolder>>,
    /// File that the skill was read from.
    pub file: PathBuf,
    /// Whether the skill is a single file (`x.md`), so that files next to it do not belong to it.
    pub is_flat: bool,
    /// Location where the skill was found.
    pub source: Source,
    /// Origin of the skill, if it was installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<Origin>,
    /// Trust in the location, lowered to the trust that the skill declares; a declaration never
    /// raises it.
    pub trust: Trust,
    /// Rule on whether the model and the user may start the skill.
    pub invocation: SkillInvocationRule,
    /// Whether the user may start the skill by name.
    pub user_invocable: bool,
    /// Tools that may be called while the skill is active.
    pub tools: ToolScope,
    /// Calls that skip the approval question while the skill is active, within the operator's
    /// policy; from `allowed-tools`.
    pub spares: Vec<RequestedApprovalExemption>,
    /// Declared side effects; empty if the skill declares none.
    pub side_effects: Vec<SideEffect>,
    /// JSON Schema of the skill's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Names of the skill's arguments, in positional order.
    pub argument_names: Vec<String>,
    /// Description of the arguments, for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Time for which the skill stays active after it was started.
    pub interaction: SkillLifetime,
    /// Conversation in which the skill works.
    pub context: SkillExecutionContext,
    /// Kind of the subagent, with [`SkillExecutionContext::Fork`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model that the skill requests for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort that the skill requests for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Globs of the files to which the skill applies. If there are any, the skill is omitted from
    /// the catalogue until a matching file is touched.
    pub paths: Vec<String>,
    /// Programs and environment variables that the machine must have.
    pub requires: SkillRequirements,
    /// Descriptions of requirements that are missing on this machine. If there are any, the skill
    /// is omitted from the catalogue.
    pub missing: Vec<String>,
    /// Names of the plugins that the skill depends on.
    pub library_depends: Vec<String>,
    /// Whether the tools of the plugins in `library_depends` stay active after the skill ends.
    pub attach: bool,
    /// Package from which the skill was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_from: Option<SourcePackage>,
    /// Version of the skill, as written in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// License of the skill, as written in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Description of requirements on the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Other values in the front matter's `metadata`.
    pub metadata: BTreeMap<String, Value>,
    /// Digest over the skill's file and the `SKILL.json` next to it, if there is one.
    pub hash: String,
    /// Whether a fault in the file removed the skill's rights: only the user may start it, and it
    /// skips no approval questions.
    pub is_restricted: bool,
    /// Faults and notes that were found in the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Skill {
    /// Whether the model sees the skill and may start it.
    #[must_use]
    pub fn is_startable_by_model(&self) -> bool {
        self.invocation == SkillInvocationRule::Auto && self.missing.is_empty()
    }

    /// Whether the user may start the skill by name.
    #[must_use]
    pub fn is_startable_by_user(&self) -> bool {
        self.invocation != SkillInvocationRule::Disabled && self.user_invocable
    }

    /// Whether the skill takes arguments: it declares them, has a hint about them, or uses
    /// `$ARGUMENTS` in its text.
    #[must_use]
    pub fn takes_arguments(&self) -> bool {
        self.arguments.is_some()
            || !self.argument_names.is_empty()
            || self.argument_hint.is_some()
            || self.body.contains("$ARGUMENTS")
    }

    /// Whether the requested model takes effect. A model costs the user money, so the request is
    /// honored only for skills of the user or of the machine's administrator, and not for installed
    /// skills, which come from other people.
    #[must_use]
    pub fn may_choose_model(&self) -> bool {
        matches!(self.trust, Trust::User | Trust::Managed)
            && self.source.plugin_name().is_none()
            && self.installed.is_none()
    }
}

/// File that looks like a skill but cannot be used. No other skill can have its name: otherwise a
/// fault in the file would let another skill take its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnusableSkill {
    /// Identity that the skill would have.
    pub id: String,
    /// Path of the file.
    pub file: PathBuf,
    /// Location where the skill was found.
    pub source: Source,
    /// Trust in the location where the file was found.
    pub trust: Trust,
    /// Findings, at least one of them an error.
    pub diagnostics: Vec<Diagnostic>,
}

/// Skill that is not used because another one has the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowedSkill {
    /// Skill that is not used.
    pub skill: Arc<Skill>,
    /// File of the skill that is used instead.
    pub shadowed_by: PathBuf,
    /// Whether both skills have the same content, so that no content is lost.
    pub is_identical: bool,
}
