//! One rule of the operator: the calls that it matches, and the decision for them.
//!
//! A rule matches by tool, effect class, command or path; all given conditions must hold. Start
//! from [`PolicyRule`].
//!
//! For example:
//!
//! ```toml
//! [tools]
//! rules = [
//!   { command = "cargo *", decision = "allow" },
//!   { path = "docs/**", decision = "allow" },
//!   { tool = "shady:*", decision = "deny" },
//!   { tool = "secret_*", effect = "read", decision = "ask" },
//! ]
//! ```

use std::cmp::Reverse;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::super::command::{CommandPart, CommandPattern, CommandPatternMatch};
use super::super::subject::WorkspacePath;
use super::RuleDecision;
use crate::message::{EffectClass, ToolSpec};

pub(super) const BASH_TOOL_NAME: &str = "bash";

/// Tools whose calls have a path as their subject, so that rules with `path` can match them.
pub(super) const PATH_RULE_TOOL_NAMES: &[&str] = &[
    "edit_file",
    "list_files",
    "read_file",
    "search",
    "write_file",
];

/// Rule of the operator on tool calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "RuleFields", into = "RuleFields")]
pub struct PolicyRule {
    pub(super) tool: Option<RuleToolPattern>,
    pub(super) effect: Option<EffectClass>,
    pub(super) command: Option<CommandPattern>,
    pub(super) path: Option<RulePathPattern>,
    pub(super) decision: RuleDecision,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFields {
    /// Name of a tool as the model sees it, or `plugin:tool`; both may be globs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Effect class of the tool. If `tool` is set as well, both must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<EffectClass>,
    /// A command of `bash`, in which `*` is any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// Glob for the file of the workspace that the call is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Decision on the calls that match.
    decision: RuleDecision,
}

/// Displays the rule as an inline table of TOML, as in the settings.
impl std::fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = serde_json::to_value(self).unwrap_or_default();
        let fields = fields.as_object().into_iter().flatten();
        let each: Vec<String> = fields
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        write!(f, "{{ {} }}", each.join(", "))
    }
}

impl TryFrom<RuleFields> for PolicyRule {
    type Error = String;

    fn try_from(text: RuleFields) -> Result<Self, String> {
        let RuleFields {
            tool,
            effect,
            command,
            path,
            decision,
        } = text;
        if tool.is_none() && effect.is_none() && command.is_none() && path.is_none() {
            return Err("a tool rule needs `tool`, `effect`, `command` or `path`".to_owned());
        }
        if command.is_some() && path.is_some() {
            return Err("a tool rule has `command` or `path`, not both".to_owned());
        }
        let rule = Self {
            tool: tool.as_deref().map(RuleToolPattern::new).transpose()?,
            effect,
            command: command.as_deref().map(CommandPattern::new).transpose()?,
            path: path
                .as_deref()
                .map(|path| RulePathPattern::new(path, decision))
                .transpose()?,
            decision,
        };
        let can_be = |names: &[&str]| {
            let matches =
                |tool: &RuleToolPattern| names.iter().any(|name| tool.matches_built_in_tool(name));
            rule.tool.as_ref().is_none_or(matches)
        };
        if rule.command.is_some() && !can_be(&[BASH_TOOL_NAME]) {
            return Err(format!(
                "a rule with `command` can match only the tool `{BASH_TOOL_NAME}`"
            ));
        }
        if rule.path.is_some() && !can_be(PATH_RULE_TOOL_NAMES) {
            return Err(format!(
                "a rule with `path` can match only these tools: {}",
                PATH_RULE_TOOL_NAMES.join(", ")
            ));
        }
        Ok(rule)
    }
}

impl From<PolicyRule> for RuleFields {
    fn from(rule: PolicyRule) -> Self {
        Self {
            tool: rule.tool.map(|pattern| pattern.text),
            effect: rule.effect,
            command: rule.command.map(|pattern| pattern.text().to_owned()),
            path: rule.path.map(|pattern| pattern.text),
            decision: rule.decision,
        }
    }
}

/// One aspect of a call that a rule may match.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleMatchTarget<'a> {
    /// The whole call, if no more is known about it.
    Whole,
    CommandPart(&'a CommandPart),
    /// Unknown effects of a command whose list of parts may be incomplete.
    Doubt,
    /// Syntax outside the grammar, in a command whose parts are all known. No rule with a command
    /// pattern allows it.
    Outside,
    File(&'a WorkspacePath),
    /// Directory of the workspace, with everything below it.
    Tree(&'a WorkspacePath),
}

impl PolicyRule {
    /// Creates a rule for the tools that match `pattern`: a name or glob as the model sees it, or
    /// `plugin:tool`.
    ///
    /// # Errors
    /// The pattern is not a valid glob.
    pub fn for_tool(pattern: &str, decision: RuleDecision) -> Result<Self, String> {
        Ok(Self {
            tool: Some(RuleToolPattern::new(pattern)?),
            effect: None,
            command: None,
            path: None,
            decision,
        })
    }

    /// Creates a rule for all tools of an effect class.
    #[must_use]
    pub fn for_effect_class(effect: EffectClass, decision: RuleDecision) -> Self {
        Self {
            tool: None,
            effect: Some(effect),
            command: None,
            path: None,
            decision,
        }
    }

    /// Whether the rule matches some calls of this tool but not all: those with a certain command
    /// or path.
    pub(super) fn matches_only_some_calls(&self, spec: &ToolSpec) -> bool {
        self.matches_tool(spec) && (self.command.is_some() || self.path.is_some())
    }

    fn matches_tool(&self, spec: &ToolSpec) -> bool {
        self.tool
            .as_ref()
            .is_none_or(|tool| tool.matches_tool(spec))
            && self.effect.is_none_or(|effect| effect == spec.effect_class)
    }

    /// Returns whether the rule matches this aspect of a call: the whole call, a part of its
    /// command, a file, or another one.
    pub(super) fn match_against_target(
        &self,
        spec: &ToolSpec,
        facet: RuleMatchTarget<'_>,
    ) -> CommandPatternMatch {
        if !self.matches_tool(spec) {
            return CommandPatternMatch::No;
        }
        if let Some(command) = &self.command {
            return match facet {
                RuleMatchTarget::CommandPart(part) => self.match_command_part(command, part),
                RuleMatchTarget::Doubt => CommandPatternMatch::Maybe,
                RuleMatchTarget::Whole
                | RuleMatchTarget::Outside
                | RuleMatchTarget::File(_)
                | RuleMatchTarget::Tree(_) => CommandPatternMatch::No,
            };
        }
        let Some(path) = &self.path else {
            return CommandPatternMatch::Yes;
        };
        match facet {
            RuleMatchTarget::File(WorkspacePath::Known(file))
                if path.matches_path(file, self.decision) =>
            {
                CommandPatternMatch::Yes
            }
            RuleMatchTarget::Tree(WorkspacePath::Known(folder)) => {
                path.match_directory_tree(folder, self.decision)
            }
            RuleMatchTarget::File(WorkspacePath::Unknown)
            | RuleMatchTarget::Tree(WorkspacePath::Unknown) => CommandPatternMatch::Maybe,
            RuleMatchTarget::File(_)
            | RuleMatchTarget::Whole
            | RuleMatchTarget::CommandPart(_)
            | RuleMatchTarget::Doubt
            | RuleMatchTarget::Outside => CommandPatternMatch::No,
        }
    }

    /// Matches a part of a command. An allowing rule matches only the exact spelling of the program
    /// that it names; other rules match every way to start the program.
    fn match_command_part(
        &self,
        command: &CommandPattern,
        part: &CommandPart,
    ) -> CommandPatternMatch {
        if self.decision != RuleDecision::Allow {
            return command.match_part_by_program_name(part);
        }
        let matched = command.match_part_exactly(part);
        if part.has_variable_assignments() {
            matched.min(CommandPatternMatch::Maybe)
        } else {
            matched
        }
    }

    /// Returns the specificity of the rule. Of two rules that match a call, the one with the larger
    /// specificity decides.
    pub(super) fn rule_specificity(&self) -> (usize, usize, bool) {
        let command = self.command.as_ref().map(CommandPattern::specificity);
        let path = self
            .path
            .as_ref()
            .map(|path| count_literal_characters(&path.text));
        let tool = self
            .tool
            .as_ref()
            .map(|tool| count_literal_characters(&tool.text));
        (
            // A rule with a command or path is narrower than one without.
            command.or(path).map_or(0, |n| n + 1),
            tool.map_or(0, |n| n + 1),
            self.effect.is_some(),
        )
    }

    /// Returns the sort key: the narrowest rule first, and among equally narrow ones the first in
    /// the file.
    pub(super) fn precedence_key(&self, index: usize) -> (Reverse<(usize, usize, bool)>, usize) {
        (Reverse(self.rule_specificity()), index)
    }

    pub(super) fn describe_rule(&self, index: usize) -> String {
        let tool = self.tool.as_ref().map(|tool| format!("`{}`", tool.text));
        let effect = self.effect.map(|effect| format!("effect {effect}"));
        let command = self
            .command
            .as_ref()
            .map(|command| format!("command `{}`", command.text()));
        let path = self
            .path
            .as_ref()
            .map(|path| format!("path `{}`", path.text));
        let what: Vec<String> = [tool, effect, command, path]
            .into_iter()
            .flatten()
            .collect();
        format!("tool rule {} ({})", index + 1, what.join(", "))
    }
}

/// Counts the literal characters of a glob.
fn count_literal_characters(text: &str) -> usize {
    text.chars()
        .filter(|c| !matches!(c, '*' | '?' | '[' | ']' | '{' | '}'))
        .count()
}

/// Pattern of the tools that a rule applies to.
#[derive(Clone, Debug)]
pub(super) struct RuleToolPattern {
    pub(super) text: String,
    pub(super) plugin: Option<GlobMatcher>,
    tool: GlobMatcher,
}

impl RuleToolPattern {
    fn new(text: &str) -> Result<Self, String> {
        let glob = |part: &str| {
            GlobBuilder::new(part)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| format!("`{text}` is not a tool pattern: {}", error.kind()))
        };
        let (plugin, tool) = match text.split_once(':') {
            Some((plugin, tool)) => (Some(glob(plugin)?), glob(tool)?),
            None => (None, glob(text)?),
        };
        Ok(Self {
            text: text.to_owned(),
            plugin,
            tool,
        })
    }

    pub(super) fn matches_tool(&self, spec: &ToolSpec) -> bool {
        self.matches_name(spec.plugin.as_deref(), &spec.name)
    }

    fn matches_name(&self, plugin: Option<&str>, name: &str) -> bool {
        let is_plugin = match (&self.plugin, plugin) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(plugin)) => pattern.is_match(plugin),
        };
        is_plugin && self.tool.is_match(name)
    }

    fn matches_built_in_tool(&self, name: &str) -> bool {
        self.matches_name(None, name)
    }
}

/// Wildcards of a glob.
const GLOB_WILDCARD_CHARS: [char; 4] = ['*', '?', '[', '{'];

/// Pattern of the files that a rule applies to: a glob of paths relative to the workspace, in which
/// `*` does not match `/`.
#[derive(Clone, Debug)]
pub(super) struct RulePathPattern {
    pub(super) text: String,
    glob: GlobMatcher,
    /// Directory that contains all paths that the pattern can match.
    base: String,
    /// Whether the last component of the pattern has no wildcard, so that it may name a directory.
    is_name: bool,
}

/// Whether a path, used as the pattern of a rule, would match only the file with this path.
pub(super) fn is_literal_path_pattern(path: &str) -> bool {
    !path.contains(GLOB_WILDCARD_CHARS) && RulePathPattern::new(path, RuleDecision::Allow).is_ok()
}

impl RulePathPattern {
    fn new(text: &str, decision: RuleDecision) -> Result<Self, String> {
        // The paths of calls never contain these characters, so such a rule would never match.
        let odd = [
            (text.contains('\\'), "a backslash; write `/` between names"),
            (text.trim() != text, "a blank at its beginning or end"),
            (
                text.starts_with('!'),
                "`!` in front, which negates nothing here; write a rule that allows",
            ),
            (text.starts_with(['"', '\'']), "quotes within the quotes"),
        ];
        if let Some((_, what)) = odd.iter().find(|(is_so, _)| *is_so) {
            return Err(format!("`path = {text:?}` has {what}"));
        }
        // `a//b` and `a/b` denote one file, and a final `/` denotes a directory.
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
        let names = names.strip_prefix(&["."]).unwrap_or(&names);
        let is_within =
            !text.starts_with(['/', '~']) && names.iter().all(|name| *name != ".." && *name != ".");
        if names.is_empty() || !is_within {
            return Err(format!(
                "`path = {text:?}` is not a path from the workspace, as in \"docs/**\""
            ));
        }
        // A pattern with a final `/` covers everything in the directory. A rule that asks or denies
        // also covers a file of that name, so the `/` is dropped for it.
        let is_spelt = names
            .last()
            .is_some_and(|last| !last.contains(GLOB_WILDCARD_CHARS));
        let mut whole = names.join("/");
        if text.ends_with('/') && (decision == RuleDecision::Allow || !is_spelt) {
            whole.push_str("/**");
        }
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .build()
            .map_err(|error| format!("`path = {text:?}` is not a pattern: {}", error.kind()))?
            .compile_matcher();
        let fixed = whole.split(GLOB_WILDCARD_CHARS).next().unwrap_or("");
        let base = match fixed.rsplit_once('/') {
            _ if fixed == whole => fixed,
            Some((base, _)) => base,
            None => "",
        };
        let last = whole.rsplit('/').next().unwrap_or_default();
        Ok(Self {
            text: text.to_owned(),
            base: base.to_owned(),
            glob,
            is_name: !last.contains(GLOB_WILDCARD_CHARS),
        })
    }

    /// Matches a path. For rules that ask or deny, a directory name also matches everything below
    /// it.
    ///
    /// For example:
    ///
    /// ```text
    /// pattern    decision    matches
    /// *.md       any         README.md, not docs/a.md
    /// docs/      allow       docs/a.md, docs/a/b.md
    /// secrets    deny        secrets, secrets/key
    /// secrets    allow       secrets only
    /// ```
    fn matches_path(&self, path: &str, decision: RuleDecision) -> bool {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let mut above = above.filter(|_| self.is_name && decision != RuleDecision::Allow);
        self.glob.is_match(path) || above.any(|folder| self.glob.is_match(folder))
    }

    /// Whether an allowing rule may match a whole directory tree.
    pub(super) fn may_match_directory_tree(&self) -> bool {
        self.text.ends_with('/') || self.text.contains("**") || self.text.contains('{')
    }

    /// Matches a directory with everything below it. A rule that allows must match all of it. For
    /// other rules, one match below the directory makes the result [`CommandPatternMatch::Maybe`].
    fn match_directory_tree(&self, folder: &str, decision: RuleDecision) -> CommandPatternMatch {
        // Match two paths below the directory, of one and two levels, with names that no pattern
        // contains.
        let below = ["\u{1}", "\u{1}/\u{1}"].map(|name| {
            let separator = if folder.is_empty() { "" } else { "/" };
            self.glob.is_match(format!("{folder}{separator}{name}"))
        });
        if below == [true, true]
            || (decision != RuleDecision::Allow && self.matches_path(folder, decision))
        {
            return CommandPatternMatch::Yes;
        }
        let is_in = |inner: &str, outer: &str| {
            outer.is_empty()
                || inner
                    .strip_prefix(outer)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if decision != RuleDecision::Allow
            && (is_in(&self.base, folder) || is_in(folder, &self.base))
        {
            CommandPatternMatch::Maybe
        } else {
            CommandPatternMatch::No
        }
    }
}
