//! Finds rules that can never apply, because none of the tools makes a call that they match.
//!
//! A denying rule that never applies protects nothing, so each fault is described with what to do.
//! Start from [`PolicyRule::find_rule_fault`].

use super::RuleDecision;
use super::rule::{BASH_TOOL_NAME, PATH_RULE_TOOL_NAMES, PolicyRule};
use crate::message::ToolSpec;
use crate::tool::command::{CommandPattern, is_launcher_with_unparsed_arguments};

/// Tools whose calls access a directory and everything below it, rather than a single file.
const RECURSIVE_FOLDER_TOOL_NAMES: &[&str] = &["list_files", "search"];

impl PolicyRule {
    /// Returns the reason why the rule matches no call of these tools; `None` if it can match.
    pub(super) fn find_rule_fault(&self, tools: &[&ToolSpec]) -> Option<String> {
        let program = self.command.as_ref().and_then(CommandPattern::program_name);
        if let Some(program) =
            program.filter(|program| is_launcher_with_unparsed_arguments(program))
            && self.decision == RuleDecision::Allow
        {
            return Some(format!(
                "`{program}` starts other programs, and no rule allows that, so this rule has no effect; allow the other \
                 program and let the model start it directly"
            ));
        }
        let names = |spec: &&ToolSpec| {
            self.tool
                .as_ref()
                .is_none_or(|tool| tool.matches_tool(spec))
        };
        let named: Vec<&ToolSpec> = tools.iter().copied().filter(names).collect();
        match named.is_empty() {
            true => self.describe_missing_tool(tools),
            false => self.describe_unmatchable_conditions(&named),
        }
    }

    /// Returns a description of the fault if a rule names none of these tools.
    fn describe_missing_tool(&self, tools: &[&ToolSpec]) -> Option<String> {
        let tool = self.tool.as_ref()?;
        let Some((plugin, name)) = tool.text.split_once(':') else {
            let mut names: Vec<&str> = tools.iter().map(|spec| spec.name.as_str()).collect();
            names.sort_unstable();
            return Some(format!(
                "there is no tool `{}`, so this rule has no effect; the tools are: {}",
                tool.text,
                names.join(", ")
            ));
        };
        let matches = |known: &str| tool.plugin.as_ref().is_some_and(|own| own.is_match(known));
        let mut plugins = tools.iter().filter_map(|spec| spec.plugin.as_deref());
        let is_there = plugins.any(matches);
        Some(if is_there {
            format!(
                "plugin `{plugin}` has no tool `{name}`, so this rule has no effect; see `rind plugin list`"
            )
        } else {
            format!(
                "no plugin `{plugin}` with tools is loaded, so this rule has no effect; see `rind plugin list`"
            )
        })
    }

    /// Describes why a rule's conditions on the command, path and effect match no call of the tools
    /// that the rule names.
    fn describe_unmatchable_conditions(&self, named: &[&ToolSpec]) -> Option<String> {
        let (key, of_key) = match (&self.command, &self.path) {
            (Some(_), _) => ("command", &[BASH_TOOL_NAME][..]),
            (None, Some(_)) => ("path", PATH_RULE_TOOL_NAMES),
            // Accept a rule that names only an effect: it may be for tools that are installed
            // later.
            (None, None) if self.tool.is_none() => return None,
            (None, None) => ("", &[][..]),
        };
        let is_of_key = |spec: &&&ToolSpec| {
            key.is_empty() || (spec.plugin.is_none() && of_key.contains(&spec.name.as_str()))
        };
        let able: Vec<&ToolSpec> = named.iter().filter(is_of_key).copied().collect();
        if able.is_empty() {
            // A rule without a tool name may be for tools that are not installed now.
            self.tool.as_ref()?;
            return Some(format!(
                "{} no `{key}` that a rule can match, so this rule has no effect; remove `{key}`, or name one of these tools: {}",
                format_tool_names_with_verb(named, "has", "have"),
                of_key.join(", ")
            ));
        }
        if let Some(effect) = self.effect
            && able.iter().all(|spec| spec.effect_class != effect)
        {
            let mut classes: Vec<String> = able
                .iter()
                .map(|spec| spec.effect_class.to_string())
                .collect();
            classes.sort_unstable();
            classes.dedup();
            return Some(format!(
                "{} the effect class {} and not {effect}, so this rule matches no call; remove `effect`, or name another tool",
                format_tool_names_with_verb(&able, "has", "have"),
                classes.join(" or ")
            ));
        }
        let is_of_tree =
            |spec: &&ToolSpec| RECURSIVE_FOLDER_TOOL_NAMES.contains(&spec.name.as_str());
        let path = self
            .path
            .as_ref()
            .filter(|path| !path.may_match_directory_tree())?;
        (self.decision == RuleDecision::Allow && able.iter().all(is_of_tree)).then(|| {
            format!(
                "{} a folder with everything below it, and `path = {:?}` allows no such folder, so this rule has no effect; name a \
                 folder as in `path = \"docs/**\"`",
                format_tool_names_with_verb(&able, "looks at", "look at"),
                path.text
            )
        })
    }
}

/// Formats the names of tools, followed by the verb `one` for one tool or `more` for several.
fn format_tool_names_with_verb(tools: &[&ToolSpec], one: &str, more: &str) -> String {
    let names: Vec<String> = tools
        .iter()
        .map(|spec| format!("`{}`", spec.name))
        .collect();
    let verb = if names.len() == 1 { one } else { more };
    format!("{} {verb}", names.join(", "))
}
