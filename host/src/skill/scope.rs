//! Defines the tools that a skill may use, and the calls that should skip the approval question.
//! The two are independent: a [`ToolScope`] only removes tools, a [`RequestedApprovalExemption`]
//! only requests fewer approval questions, and neither is ever derived from the other.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Serialize, Serializer};

use crate::tool::command::CommandPattern;

/// Pattern of tool names as the model sees them: `bash`, `git_*`, or `plugin:tool` for tools of one
/// plugin.
#[derive(Clone, Debug)]
pub struct SkillToolNamePattern {
    text: String,
    plugin: Option<GlobMatcher>,
    name: GlobMatcher,
}

impl SkillToolNamePattern {
    /// Maximum length of a pattern, in bytes.
    const MAX_PATTERN_BYTES: usize = 200;

    /// Parses a pattern of tool names.
    ///
    /// # Errors
    /// The pattern is empty, too long, or can match no tool name.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_known = |c: char| c.is_ascii_alphanumeric() || "_-.:*?".contains(c);
        if text.is_empty() || text.len() > Self::MAX_PATTERN_BYTES {
            return Err("is empty or too long".to_owned());
        }
        if let Some(other) = text.chars().find(|c| !is_known(*c)) {
            return Err(format!(
                "contains the character `{}`, which names of tools cannot contain",
                other.escape_debug()
            ));
        }
        let (plugin, name) = match text.rsplit_once(':') {
            Some((plugin, name)) => (Some(plugin), name),
            None => (None, text),
        };
        if name.is_empty() || plugin.is_some_and(str::is_empty) {
            return Err("names nothing before or after its `:`".to_owned());
        }
        let glob = |text: &str| {
            let glob = GlobBuilder::new(text).literal_separator(false).build();
            glob.map(|glob| glob.compile_matcher())
                .map_err(|e| e.to_string())
        };
        Ok(Self {
            plugin: plugin.map(glob).transpose()?,
            name: glob(name)?,
            text: text.to_owned(),
        })
    }

    /// Whether the pattern matches a tool. `plugin` is the name of the plugin that provides it.
    #[must_use]
    pub fn matches(&self, name: &str, plugin: Option<&str>) -> bool {
        let is_owner = match (&self.plugin, plugin) {
            (None, _) => true,
            (Some(pattern), Some(plugin)) => pattern.is_match(plugin),
            (Some(_), None) => false,
        };
        is_owner && self.name.is_match(name)
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for SkillToolNamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for SkillToolNamePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

/// Rule on the tools that may be called while a skill is active.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolScope {
    /// Exclusive list of tools that may be called; `None` for no restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<SkillToolNamePattern>>,
    /// Tools that may not be called, even if `allow` lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<SkillToolNamePattern>,
}

impl ToolScope {
    /// Whether this scope permits a tool. If several skills are active, the scope of each must
    /// permit it.
    #[must_use]
    pub fn permits(&self, name: &str, plugin: Option<&str>) -> bool {
        let is_named =
            |patterns: &[SkillToolNamePattern]| patterns.iter().any(|p| p.matches(name, plugin));
        !is_named(&self.deny) && self.allow.as_deref().is_none_or(is_named)
    }

    /// Whether the scope permits every tool.
    #[must_use]
    pub fn permits_every_tool(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }
}

/// Call that a skill wants to run without an approval question. The operator's policy and the
/// skill's trust decide whether it may. The call restricts nothing else, and cannot permit anything
/// that the policy denies.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedApprovalExemption {
    /// Name of the tool, as the model sees it.
    pub tool: String,
    /// Commands that may run without a question, if the tool runs commands; `None` for other
    /// tools. Each part of a compound command must match.
    pub command: Option<CommandPattern>,
}

impl std::fmt::Display for RequestedApprovalExemption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.command {
            None => f.write_str(&self.tool),
            Some(command) => write!(f, "{}({})", self.tool, command.text()),
        }
    }
}

impl Serialize for RequestedApprovalExemption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
