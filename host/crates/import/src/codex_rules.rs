//! Imports Codex's rules for commands: files `*.rules` with calls of `prefix_rule`.
//!
//! The files are Starlark programs. The import reads calls with literal values, which is the form
//! that Codex writes. At the first other statement, it stops and reports the rest of the file as
//! not imported. Start from [`add_codex_rules`].

use std::path::Path;

use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::policy::RuleDecision;
use serde_json::{Value, json};

use super::file::{ImportFileReadError, read_text_and_record_file};
use super::literal_calls::{StarlarkCall, StarlarkLiteral, parse_starlark_calls};
use super::permission::{ImportedRuleOrigin, add_importable_rules_to_plan};
use super::plan::ImportPlan;

/// Maximum number of rules to which a pattern with alternatives is expanded.
const MAX_RULES_PER_PATTERN: usize = 64;

/// Maximum number of rule files in a folder of Codex; a folder with more is an error.
const MAX_RULE_FILES: usize = 100;

/// Maximum length, in bytes, of an excerpt of a file in a reported loss.
const MAX_SKIPPED_SETTING_EXCERPT_BYTES: usize = 120;

/// Rule from a call of `prefix_rule`: the first words of a command, and the decision for it.
struct CommandPrefixRule {
    words: Vec<String>,
    decision: RuleDecision,
}

/// Adds the rules of all `*.rules` files in a folder.
///
/// # Errors
/// The folder or a file in it cannot be read.
pub(crate) fn add_codex_rules(
    folder: &Path,
    origin: ImportedRuleOrigin,
    plan: &mut ImportPlan,
) -> Result<(), ImportFileReadError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImportFileReadError::new(folder, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| ImportFileReadError::new(folder, error))?
            .path();
        if path.extension().is_some_and(|own| own == "rules") {
            files.push(path);
        }
        if files.len() > MAX_RULE_FILES {
            let why = format!("the folder contains more than {MAX_RULE_FILES} files of rules");
            return Err(ImportFileReadError::new(folder, why));
        }
    }
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let Some(text) = read_text_and_record_file(&path, plan)? else {
            continue;
        };
        let (calls, fault) = parse_starlark_calls(&text);
        for call in calls {
            match expand_prefix_rule_call(&call) {
                Ok(rules) => all.extend(rules.into_iter().map(|rule| (path.clone(), rule))),
                Err(why) => plan.record_setting_not_imported(
                    &path,
                    format!("line {}: {}", call.line, call.name),
                    why,
                ),
            }
        }
        if let Some(fault) = fault {
            let what = format!(
                "line {}: {}",
                fault.line,
                escape_and_truncate_line(&fault.text, MAX_SKIPPED_SETTING_EXCERPT_BYTES)
            );
            let why = "only calls with literal values are read: this and the rest of the file are not taken over";
            plan.record_setting_not_imported(&path, what, why);
        }
    }
    // Codex applies the strictest matching rule; Rind applies a denial first, and then the
    // narrowest rule. Collect the `prompt` rules, so that no narrower `allow` overrides them in
    // Rind.
    let asks: Vec<Vec<String>> = all
        .iter()
        .filter(|(_, rule)| rule.decision == RuleDecision::Ask)
        .map(|(_, rule)| rule.words.clone())
        .collect();
    for (path, rule) in all {
        add_prefix_rule(&rule, &asks, origin, &path, plan);
    }
    Ok(())
}

fn add_prefix_rule(
    rule: &CommandPrefixRule,
    asks: &[Vec<String>],
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let name = escape_and_truncate_line(&rule.words.join(" "), MAX_SKIPPED_SETTING_EXCERPT_BYTES);
    let name = format!("prefix_rule {name}");
    let is_asked = |ask: &&Vec<String>| rule.words.starts_with(ask);
    if rule.decision == RuleDecision::Allow
        && let Some(ask) = asks.iter().find(is_asked)
    {
        let why = format!(
            "the other agent asks its user about such commands because of the rule `{}`, but Rind would allow them",
            escape_and_truncate_line(&ask.join(" "), MAX_SKIPPED_SETTING_EXCERPT_BYTES)
        );
        return plan.record_setting_not_imported(path, name, why);
    }
    let words: Option<Vec<String>> = rule
        .words
        .iter()
        .map(|word| quote_command_pattern_word(word))
        .collect();
    match words {
        Some(words) => {
            let pattern = json!({ "command": format!("{} *", words.join(" ")) });
            add_importable_rules_to_plan(&name, &[pattern], rule.decision, origin, path, plan);
        }
        None => {
            plan.record_setting_not_imported(path, name, "a word of it has a quote or a line break")
        }
    }
}

/// Quotes a word so that a command pattern of Rind matches it literally; `None` if the word
/// contains a quote or control character that cannot be quoted.
fn quote_command_pattern_word(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Some(word.to_owned());
    }
    let is_odd = |c: char| c == '\'' || c.is_control();
    (!word.contains(is_odd)).then(|| format!("'{word}'"))
}

/// Expands a call of `prefix_rule` to one rule for each combination of alternatives in its pattern.
fn expand_prefix_rule_call(call: &StarlarkCall) -> Result<Vec<CommandPrefixRule>, String> {
    match call.name.as_str() {
        "prefix_rule" => {}
        "network_rule" => {
            return Err(
                "this rule is not imported: list the hosts that commands may reach under `network` \
                 in [sandbox] of config.toml"
                    .to_owned(),
            );
        }
        "host_executable" => {
            return Err(
                "this call has no counterpart in Rind: a rule that allows a program matches only \
                 the program that it names, not others of the same name"
                    .to_owned(),
            );
        }
        _ => return Err("this call has no counterpart in Rind".to_owned()),
    }
    let decision = match call.argument("decision") {
        None => RuleDecision::Allow,
        Some(StarlarkLiteral::Text(text)) => match text.as_str() {
            "allow" => RuleDecision::Allow,
            "prompt" => RuleDecision::Ask,
            "forbidden" => RuleDecision::Deny,
            _ => {
                return Err(
                    "the decision of the rule is not `allow`, `prompt` or `forbidden`".to_owned(),
                );
            }
        },
        Some(_) => return Err("the decision of the rule is not a text".to_owned()),
    };
    let Some(StarlarkLiteral::List(parts)) = call.argument("pattern") else {
        return Err("the rule has no pattern".to_owned());
    };
    let mut prefixes: Vec<Vec<String>> = vec![Vec::new()];
    for part in parts {
        let choices = parse_word_alternatives(part)
            .ok_or("the pattern of the rule contains something else than words")?;
        let longer = prefixes.iter().flat_map(|prefix| {
            choices.iter().map(|word| {
                let mut longer = prefix.clone();
                longer.push((*word).to_owned());
                longer
            })
        });
        prefixes = longer.collect();
        if prefixes.is_empty() || prefixes.len() > MAX_RULES_PER_PATTERN {
            return Err(format!(
                "the pattern of the rule has no alternatives, or more than {MAX_RULES_PER_PATTERN}"
            ));
        }
    }
    if parts.is_empty() {
        return Err("the pattern of the rule is empty".to_owned());
    }
    let rule = |words| CommandPrefixRule { words, decision };
    Ok(prefixes.into_iter().map(rule).collect())
}

fn parse_word_alternatives(part: &StarlarkLiteral) -> Option<Vec<&str>> {
    match part {
        StarlarkLiteral::List(words) => words.iter().map(string_literal_text).collect(),
        one => Some(vec![string_literal_text(one)?]),
    }
}

fn string_literal_text(value: &StarlarkLiteral) -> Option<&str> {
    match value {
        StarlarkLiteral::Text(word) => Some(word),
        _ => None,
    }
}

/// Reports each hook in Codex's format as a loss, with its event and command.
pub(crate) fn record_hooks_not_imported(hooks: &Value, path: &Path, plan: &mut ImportPlan) {
    for (event, groups) in hooks.as_object().into_iter().flatten() {
        // Skip the key `state`: Codex stores there which hooks it trusts.
        if event == "state" {
            continue;
        }
        let point = match event.as_str() {
            "PreToolUse" => Some("pre-tool"),
            "PostToolUse" => Some("post-tool"),
            "UserPromptSubmit" => Some("turn-start"),
            "SessionStart" => Some("session-start"),
            "Stop" | "SubagentStop" => Some("post-reflect"),
            "PreCompact" => Some("before-compact"),
            "SubagentStart" => Some("subagent-start"),
            _ => None,
        };
        let why = match point {
            Some(point) => format!(
                "hooks of the other agent get other input than hooks of Rind; rewrite the script for Rind as [hooks.scripts.NAME] with `point = \"{point}\"`"
            ),
            None => "there is no point of this kind".to_owned(),
        };
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group["matcher"].as_str().unwrap_or("*");
            for hook in group["hooks"].as_array().into_iter().flatten() {
                let command = hook["command"].as_str().or_else(|| hook["type"].as_str());
                let command = escape_and_truncate_line(
                    command.unwrap_or("a hook"),
                    MAX_SKIPPED_SETTING_EXCERPT_BYTES,
                );
                let matcher = escape_and_truncate_line(matcher, MAX_SKIPPED_SETTING_EXCERPT_BYTES);
                plan.record_setting_not_imported(
                    path,
                    format!("hook {event} ({matcher}): {command}"),
                    &*why,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(text: &str, origin: ImportedRuleOrigin) -> ImportPlan {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("default.rules"), text).unwrap();
        std::fs::write(folder.path().join("notes.md"), "no rules").unwrap();
        let mut plan = ImportPlan::default();
        add_codex_rules(folder.path(), origin, &mut plan).unwrap();
        plan
    }

    fn shown(plan: &ImportPlan) -> Vec<String> {
        let rules = plan.rules.iter().map(|own| own.rule.to_string());
        let losses = plan
            .losses
            .iter()
            .map(|own| format!("{}: {}", own.what, own.why));
        rules.chain(losses).collect()
    }

    #[test]
    fn prefixes_become_patterns_and_the_strictest_rule_decides() {
        let text = r#"
# allowed by the user
prefix_rule(pattern=["cargo", "test"], decision="allow")
prefix_rule(
    pattern = ["gh", "pr", ["view", "list"]],
    decision = "prompt",
    justification = "read, but ask",
    match = ["gh pr view 7", ["gh", "pr", "list"]],
    not_match = [],
)
prefix_rule(pattern = ["rm", "-rf"], decision = 'forbidden')
prefix_rule(pattern = ["gh", "pr", "view", "1"])
prefix_rule(pattern = ["echo", "a b*"])
"#;
        let plan = plan_of(text, ImportedRuleOrigin::Person);
        assert_eq!(
            shown(&plan),
            [
                "{ command = \"cargo test *\", decision = \"allow\" }",
                "{ command = \"gh pr view *\", decision = \"ask\" }",
                "{ command = \"gh pr list *\", decision = \"ask\" }",
                "{ command = \"rm -rf *\", decision = \"deny\" }",
                "{ command = \"echo 'a b*' *\", decision = \"allow\" }",
                "prefix_rule gh pr view 1: the other agent asks its user about such commands because of the rule `gh pr view`, but Rind would allow them",
            ]
        );
    }

    #[test]
    fn what_is_no_literal_rule_is_named_with_its_line() {
        let text = "prefix_rule(pattern=[\"ls\"])\nnetwork_rule(host=\"x\")\nprefix_rule(pattern=[])\n\
            prefix_rule(pattern=[\"a\"], decision=\"maybe\")\nfor x in [1]:\n    prefix_rule(pattern=[x])\n";
        let shown = shown(&plan_of(text, ImportedRuleOrigin::Person));
        assert_eq!(shown.len(), 5, "{shown:?}");
        assert!(
            shown[1].starts_with("line 2: network_rule: this rule is not imported: list the hosts"),
            "{shown:?}"
        );
        assert!(
            shown[2].contains("line 3") && shown[2].contains("empty"),
            "{shown:?}"
        );
        assert!(shown[3].contains("not `allow`"), "{shown:?}");
        assert!(shown[4].starts_with("line 5: for x in"), "{shown:?}");
        // A project's rule that allows would apply to all projects, so it is lost.
        let plan = plan_of("prefix_rule(pattern=[\"ls\"])", ImportedRuleOrigin::Project);
        assert!(plan.rules.is_empty() && plan.losses[0].why.contains("all projects"));
        let many = format!(
            "prefix_rule(pattern=[{}])",
            "[\"a\", \"b\", \"c\"],".repeat(20)
        );
        let plan = plan_of(&many, ImportedRuleOrigin::Person);
        assert!(plan.losses[0].why.contains("more than 64"));
    }

    #[test]
    fn each_hook_is_named() {
        let mut plan = ImportPlan::default();
        let hooks = json!({
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
            "Notification": [{"hooks": [{"type": "command", "command": "say hi"}]}],
        });
        record_hooks_not_imported(&hooks, Path::new("hooks.json"), &mut plan);
        let shown = shown(&plan);
        assert!(
            shown.iter().any(
                |own| own.starts_with("hook PreToolUse (Bash): ./check.sh: ")
                    && own.contains("`point = \"pre-tool\"`")
            ),
            "{shown:?}"
        );
        assert!(
            shown
                .iter()
                .any(|own| own.contains("hook Notification (*): say hi"))
        );
    }
}
