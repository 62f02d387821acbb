//! Reports matchers that match no tool: a script that is meant to guard calls, but is never called,
//! protects nothing.

use super::{HookScript, claude};

impl HookScript {
    /// Returns a message if the matcher names a tool that does not exist. `known` lists the
    /// existing tools, each as plugin (`None` for a built-in tool) and name.
    #[must_use]
    pub fn missing_tool_message(&self, known: &[(Option<&str>, &str)]) -> Option<String> {
        if let Some(hook) = &self.claude {
            let text = hook.matcher_matching_no_tool(known)?;
            let names = known
                .iter()
                .map(|(plugin, name)| claude::tool_name(name, *plugin));
            return Some(format_missing_tool_message(text, None, names.collect()));
        }
        let (pattern, text) = (self.matcher.as_ref()?, self.matcher_text()?);
        let is_there = |name: &str| known.iter().any(|(_, known)| *known == name);
        let is_list = |c: char| c.is_ascii_alphanumeric() || "_-|".contains(c);
        // In a list of plain names, each name must be that of a tool; a regular expression must
        // match at least one tool.
        let stray = if text.chars().all(is_list) {
            text.split('|').find(|name| !is_there(name))
        } else {
            let matches = |(_, name): &(Option<&str>, &str)| pattern.is_match(name);
            (!known.iter().any(matches)).then_some(text)
        }?;
        let names = known.iter().map(|(_, name)| (*name).to_owned());
        Some(format_missing_tool_message(
            stray,
            claude::own_tool(stray),
            names.collect(),
        ))
    }
}

/// Formats the message about `matcher`: a regular expression that matches no tool, or a name in a
/// list of names that no tool has. If it is a Claude Code name, `own` is the tool's name in Rind.
fn format_missing_tool_message(matcher: &str, own: Option<&str>, mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    let hint = match own {
        Some(own) if matcher.contains('(') => format!(
            "a matcher matches the names of tools, not their arguments: write `{own}`, and let the script check the arguments"
        ),
        Some(own) => format!("write `{own}`, the name of that tool in Rind"),
        None => format!("the tools are: {}", names.join(", ")),
    };
    format!("`matcher`: there is no tool `{matcher}`, so the script is not called for it; {hint}")
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn a_matcher_that_names_no_tool_is_told_with_the_name_that_the_tool_has_here() {
        let known = [
            (None, "bash"),
            (None, "edit_file"),
            (None, "write_file"),
            (Some("hello"), "greet"),
        ];
        for (matcher, expected) in [
            ("bash", None),
            ("edit_file|write_file", None),
            (".*_file", None),
            ("greet", None),
            ("Bash", Some("write `bash`, the name of that tool in Rind")),
            (
                "edit_file|wirte_file",
                Some("there is no tool `wirte_file`"),
            ),
            ("Edit|Write", Some("write `edit_file`")),
            (
                "Bash(git *)",
                Some("write `bash`, and let the script check"),
            ),
            ("mcp__.*", Some("the tools are: bash, edit_file, greet")),
        ] {
            let mut script = HookScript::new("guard", &["pre-tool"], &["true"]);
            script.matcher = Some(Regex::new(&format!("^(?:{matcher})$")).unwrap());
            let told = script.missing_tool_message(&known);
            let is_it = match (&told, expected) {
                (Some(told), Some(expected)) => told.contains(expected),
                (told, expected) => told.is_none() && expected.is_none(),
            };
            assert!(is_it, "{matcher}: {told:?}");
        }
    }
}
