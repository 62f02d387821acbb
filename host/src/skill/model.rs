//! A skill as a session knows it, whatever format it was written in.
//!
//! Plain data: reading it from a file is for `parse`, finding the file for `find`. Start from [`Skill`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::origin::Origin;
use super::scope::{Spare, ToolScope};
use crate::grant::held::HeldFolder;
use crate::grant::{SideEffect, Trust};

/// Place where a skill was found, in the order in which one of a name is preferred to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Folder `skills` beside the user's settings. Installed skills lie there too.
    User,
    /// Folder `.claude/skills` in the user's home.
    ClaudeUser,
    /// Folder `.agents/skills` in the user's home.
    AgentsUser,
    /// Folder `.rind/skills` of the project.
    Project,
    /// Folder `.claude/skills` of the project.
    ClaudeProject,
    /// Folder `.agents/skills` of the project.
    AgentsProject,
    /// Folder `skills` of a plugin.
    Plugin(String),
    /// Path on the command line or in the host's builder.
    Local,
}

impl Source {
    /// Returns the trust in skills from here. Of a plugin it is that in the plugin, which the caller knows.
    #[must_use]
    pub fn trust(&self, of_plugin: Trust) -> Trust {
        match self {
            Self::User | Self::ClaudeUser | Self::AgentsUser => Trust::User,
            Self::Project | Self::ClaudeProject | Self::AgentsProject => Trust::Project,
            Self::Plugin(_) => of_plugin,
            Self::Local => Trust::Local,
        }
    }

    /// The plugin that carries the skill.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
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
pub enum Invocation {
    /// Model and user.
    #[default]
    Auto,
    /// The user alone: the model is not told of it, and is refused.
    UserOnly,
    /// Neither.
    Disabled,
}

/// Shape of a skill's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interaction {
    /// Ends with its result.
    #[default]
    Returning,
    /// Stays until the user ends it.
    Conversational,
}

/// Context that a skill works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Context {
    /// The conversation that it was started in.
    #[default]
    Inline,
    /// A subagent, without the conversation.
    Fork,
}

/// Things that must be there for a skill to be of use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requires {
    /// Programs; all of them are needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Programs of which one is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_bins: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl Requires {
    /// Names what is missing, in words.
    #[must_use]
    pub fn missing(&self, has: &dyn Available) -> Vec<String> {
        let bins = self.bins.iter().filter(|name| !has.program(name));
        let mut missing: Vec<String> = bins.map(|name| format!("the program `{name}`")).collect();
        if !self.any_bins.is_empty() && !self.any_bins.iter().any(|name| has.program(name)) {
            missing.push(format!(
                "one of the programs `{}`",
                self.any_bins.join("`, `")
            ));
        }
        let env = self.env.iter().filter(|name| !has.variable(name));
        missing.extend(env.map(|name| format!("the environment variable `{name}`")));
        missing
    }

    /// Whether nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty() && self.any_bins.is_empty() && self.env.is_empty()
    }
}

/// Answers what the machine has. Who knows the environment implements it; it runs nothing.
pub trait Available: Sync {
    /// Whether a program of this name is on the search path.
    fn program(&self, name: &str) -> bool;
    /// Whether a variable is set in the environment.
    fn variable(&self, name: &str) -> bool;
}

/// A machine that has everything: for readers that only look at the text.
#[derive(Clone, Copy, Debug)]
pub struct AllAvailable;

impl Available for AllAvailable {
    fn program(&self, _: &str) -> bool {
        true
    }

    fn variable(&self, _: &str) -> bool {
        true
    }
}

/// Stamp of a skill that was derived from something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedFrom {
    /// Name of the package.
    pub package: String,
    /// Version of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digest of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_hash: Option<String>,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A key or a value without effect here.
    Note,
    /// A probable mistake.
    Warning,
    /// A fault: the skill is not loaded, or loaded for the user only and without what it wants to be spared.
    Error,
}

/// Finding about a file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// Severity.
    pub severity: Severity,
    /// Problem, in one line.
    pub text: String,
    /// Remedy, in one line; empty when there is none.
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

/// A skill: its front matter, its body and its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skill {
    /// Identity: the name of its folder, after `PLUGIN:` when a plugin carries it. What the user types and the model names.
    pub id: String,
    /// `name` of the front matter: a label, and an alias where it is no other skill's identity.
    pub label: String,
    /// Description: what the skill does and when to use it.
    pub description: String,
    /// Advice on when to use it, if that stands apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// The text behind the front matter, word for word.
    #[serde(skip)]
    pub body: Arc<str>,
    /// Line of the file in which it begins, from 1.
    #[serde(skip)]
    pub body_line: usize,
    /// Base directory of the bundle, as it was found.
    pub dir: PathBuf,
    /// Folder of the bundle without links. Files of the bundle are read only while its place is still this one.
    #[serde(skip)]
    pub real_dir: PathBuf,
    /// Content of the bundle, if it is only used as it was when somebody trusted it.
    #[serde(skip)]
    pub held: Option<Arc<HeldFolder>>,
    /// File that the skill was read from.
    pub file: PathBuf,
    /// Whether the skill is a file of its own (`x.md`), so that nothing beside it belongs to it.
    pub is_flat: bool,
    /// Place where it was found.
    pub source: Source,
    /// Origin of it, when it was installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<Origin>,
    /// Trust in that place, lowered to the trust that the skill declares; never raised by it.
    pub trust: Trust,
    /// Rule on who may start it.
    pub invocation: Invocation,
    /// Whether the user may start it by name.
    pub user_invocable: bool,
    /// Tools that may be called while it is active.
    pub tools: ToolScope,
    /// Calls that may run without a question while it is active, inside the operator's policy; from `allowed-tools`.
    pub spares: Vec<Spare>,
    /// Side effects that it declares; empty when it declares none.
    pub side_effects: Vec<SideEffect>,
    /// JSON Schema of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Names of its arguments, in the order of their places.
    pub argument_names: Vec<String>,
    /// Arguments in words, for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Shape of its work.
    pub interaction: Interaction,
    /// Context that it works in.
    pub context: Context,
    /// Kind of the subagent, with [`Context::Fork`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model that it wants for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Effort that it wants for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Globs of files that it is about; it stays out of the catalogue until one of them is touched.
    pub paths: Vec<String>,
    /// Things that must be there.
    pub requires: Requires,
    /// Things that are required and missing on this machine, in words. It is then out of the catalogue.
    pub missing: Vec<String>,
    /// Plugins that it depends on.
    pub library_depends: Vec<String>,
    /// Whether the tools of those plugins stay active when the skill ends.
    pub attach: bool,
    /// Source that it was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_from: Option<GeneratedFrom>,
    /// Version, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// License, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Requirements on the environment, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Other values that its author noted.
    pub metadata: BTreeMap<String, Value>,
    /// Digest of the file that it was read from, and of a side file.
    pub hash: String,
    /// Whether a fault took its rights: it is for the user only, and spares nothing.
    pub is_restricted: bool,
    /// Findings about the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Skill {
    /// Whether the model is told of it and may start it.
    #[must_use]
    pub fn is_for_model(&self) -> bool {
        self.invocation == Invocation::Auto && self.missing.is_empty()
    }

    /// Whether the user may start it by its name.
    #[must_use]
    pub fn is_for_user(&self) -> bool {
        self.invocation != Invocation::Disabled && self.user_invocable
    }

    /// Whether it takes arguments: it declares them, hints at them, or uses them in its text.
    #[must_use]
    pub fn takes_arguments(&self) -> bool {
        self.arguments.is_some()
            || !self.argument_names.is_empty()
            || self.argument_hint.is_some()
            || self.body.contains("$ARGUMENTS")
    }

    /// Whether the model that it wants counts. A model costs the user money, so the wish is only that of somebody whom the user
    /// trusts with it: the user, or whoever set the machine up. What was installed is somebody else's.
    #[must_use]
    pub fn may_choose_model(&self) -> bool {
        matches!(self.trust, Trust::User | Trust::Managed)
            && self.source.plugin().is_none()
            && self.installed.is_none()
    }
}

/// A file that looks like a skill and cannot be one. It keeps its name: no other skill takes its place for a fault in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unusable {
    /// Identity that it would have.
    pub id: String,
    /// Path of the file.
    pub file: PathBuf,
    /// Place where it was found.
    pub source: Source,
    /// Trust in that place.
    pub trust: Trust,
    /// Reasons, at least one of them an error.
    pub diagnostics: Vec<Diagnostic>,
}

/// A skill that is there and not used, because another has its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadowed {
    /// Skill that was found.
    pub skill: Arc<Skill>,
    /// File of the one that is used in its place.
    pub shadowed_by: PathBuf,
    /// Whether both have the same content, so that nobody misses anything.
    pub is_identical: bool,
}
