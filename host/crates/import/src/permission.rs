//! Converts permissions of other agents into rules for tool calls.
//!
//! Knows the syntax of rules such as `Bash(git push:*)` and of OpenCode's tables. A rule that would
//! allow more in Rind than in the other agent is reported as a loss: an import never allows a call
//! about which the other agent would ask.

use std::path::Path;

use rind_lib::tool::policy::{PolicyRule, RuleDecision};
use serde_json::{Value, json};

use super::plan::{ImportPlan, ImportedRule, SettingNotImported};
use super::server::convert_server_name;

/// Names of Rind's tools that change files.
const FILE_EDITING_TOOLS: &[&str] = &["edit_file", "write_file"];

/// Names of Rind's tools that read files.
const FILE_READING_TOOLS: &[&str] = &["read_file", "search", "list_files"];

/// Reason in the plan why rules for web requests are not imported.
const WEB_RULES_NOT_IMPORTED_REASON: &str = "the program has no such tool; the plugin `web` has `fetch_url` and `web_search`, and policy.toml says which hosts it may reach";

/// Origin of an imported rule: the settings of the user or of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportedRuleOrigin {
    /// Settings of the user. They apply to every project in Rind as they do in the agent from which
    /// they are imported.
    Person,
    /// Settings of a project. Rules that allow are not imported, because in Rind they would apply
    /// to every project.
    Project,
}

/// Adds a rule of Claude Code, such as `Bash(npm run test:*)`, to the plan. `asks` are the rules
/// under `ask`, which in Claude Code override all rules that allow. In Rind, a narrower rule that
/// allows would override a rule that asks; such a rule that allows is recorded as lost.
pub(crate) fn add_claude_rule(
    text: &str,
    decision: RuleDecision,
    asks: &[&str],
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    if decision == RuleDecision::Allow
        && let Some(ask) = asks.iter().find(|ask| can_allow_override_ask(text, ask))
    {
        let why = format!(
            "the other agent asks its user about such calls because of the rule `{ask}`, but Rind would allow them"
        );
        return plan.record_setting_not_imported(path, text, why);
    }
    match convert_claude_rule(text, decision, origin) {
        Ok(rules) => add_importable_rules_to_plan(text, &rules, decision, origin, path, plan),
        Err(why) => record_rule_not_imported(text, decision, why, path, plan),
    }
}

/// Records in the plan that a rule is not imported. Marks the record if the rule denies calls.
fn record_rule_not_imported(
    text: &str,
    decision: RuleDecision,
    why: String,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let is_denial = decision == RuleDecision::Deny;
    let what = match is_denial {
        true => format!("deny {text}"),
        false => text.to_owned(),
    };
    plan.losses.push(SettingNotImported {
        path: path.to_owned(),
        what,
        why,
        is_denial,
    });
}

/// Adds the rules that are valid and may be imported, and records the others as lost.
pub(crate) fn add_importable_rules_to_plan(
    from: &str,
    rules: &[Value],
    decision: RuleDecision,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    for rule in rules {
        let mut rule = rule.clone();
        rule["decision"] = json!(decision);
        match serde_json::from_value::<PolicyRule>(rule) {
            Ok(rule)
                if origin == ImportedRuleOrigin::Project && decision == RuleDecision::Allow =>
            {
                let why = format!(
                    "the rule allows calls in this project only, but in Rind it would apply to all projects; if you want that, add {rule} to `rules` in [tools] of config.toml"
                );
                plan.record_setting_not_imported(path, from, why);
            }
            Ok(rule) => plan.rules.push(ImportedRule {
                from: from.to_owned(),
                rule,
            }),
            Err(error) => record_rule_not_imported(from, decision, error.to_string(), path, plan),
        }
    }
}

/// Converts a rule of Claude Code into rules of Rind, without the field `decision`.
fn convert_claude_rule(
    text: &str,
    decision: RuleDecision,
    origin: ImportedRuleOrigin,
) -> Result<Vec<Value>, String> {
    let (name, specifier) = split_claude_rule(text)?;
    let is_rooted = |own: &str| own.starts_with('/') && !own.starts_with("//");
    if origin == ImportedRuleOrigin::Person && name != "Bash" && specifier.is_some_and(is_rooted) {
        return Err(
            "the path of the rule is relative to the folder of these settings, not to a project"
                .to_owned(),
        );
    }
    let tools = |names: &[&str]| names.iter().map(|name| json!({ "tool": name })).collect();
    match (name, specifier) {
        ("Bash", None) => Ok(tools(&["bash"])),
        ("Bash", Some(command)) => Ok(vec![json!({ "command": to_rind_command_pattern(command) })]),
        ("Edit" | "Write" | "MultiEdit", path) => create_tool_path_rules(FILE_EDITING_TOOLS, path),
        // A `Read` rule that denies or asks also covers the tools that search and list files; a
        // `Read` rule that allows covers only `read_file`.
        ("Read", path) if decision == RuleDecision::Allow => {
            create_tool_path_rules(&FILE_READING_TOOLS[..1], path)
        }
        ("Read", path) => create_tool_path_rules(FILE_READING_TOOLS, path),
        ("Glob" | "LS", path) => create_tool_path_rules(&["list_files"], path),
        ("Grep", path) => create_tool_path_rules(&["search"], path),
        ("Task" | "Agent", None) => Ok(tools(&["spawn_subagent"])),
        ("WebFetch" | "WebSearch", _) => Err(WEB_RULES_NOT_IMPORTED_REASON.to_owned()),
        (name, None) if name.starts_with("mcp__") => {
            let mut parts = name["mcp__".len()..].splitn(2, "__");
            let theirs = parts.next().unwrap_or_default();
            let server = convert_server_name(theirs)?;
            // Two servers of the other agent may get the same name in Rind, and only one of them is
            // imported. A rule that allows might then apply to the wrong server.
            if decision == RuleDecision::Allow && server != theirs {
                return Err(format!(
                    "in Rind, the server is called `{server}`; allow its tools under that name"
                ));
            }
            let tool = parts.next().filter(|tool| !tool.is_empty()).unwrap_or("*");
            Ok(vec![json!({ "tool": format!("mcp__{server}__{tool}") })])
        }
        _ => Err("Rind has no tool of this name, or none that takes such a condition".to_owned()),
    }
}

/// Splits a rule into the tool's name and the condition in parentheses.
fn split_claude_rule(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    let Some((name, rest)) = text.split_once('(') else {
        return Ok((text, None));
    };
    let specifier = rest.strip_suffix(')').ok_or("the bracket is not closed")?;
    let specifier = Some(specifier.trim()).filter(|text| !matches!(*text, "" | "*"));
    Ok((name, specifier))
}

/// Whether the rule `allow` may be narrower than the rule `ask` about the same calls. Returns
/// `true` for rules with path patterns without comparing them.
fn can_allow_override_ask(allow: &str, ask: &str) -> bool {
    let (Ok((tool, own)), Ok((asked_tool, asked))) =
        (split_claude_rule(allow), split_claude_rule(ask))
    else {
        return true;
    };
    if tool.starts_with("mcp__") {
        return tool != asked_tool && tool.starts_with(asked_tool);
    }
    let is_editing = |name: &str| matches!(name, "Edit" | "Write" | "MultiEdit");
    if tool != asked_tool && !(is_editing(tool) && is_editing(asked_tool)) {
        return false;
    }
    match (tool, own, asked) {
        (_, None, _) => false,
        (_, Some(_), None) => true,
        ("Bash", Some(own), Some(asked)) => {
            let beginning = asked.split('*').next().unwrap_or(asked);
            own != asked && own.starts_with(beginning.trim_end_matches(':'))
        }
        _ => true,
    }
}

/// Converts a command pattern: `x:*` means every command that begins with `x`.
fn to_rind_command_pattern(command: &str) -> String {
    match command.strip_suffix(":*") {
        Some(beginning) => format!("{} *", beginning.trim_end()),
        None => command.to_owned(),
    }
}

/// Creates one rule for each of `tools`. The rule applies to calls with `path`, or to all calls of
/// the tool if `path` is `None`.
fn create_tool_path_rules(tools: &[&str], path: Option<&str>) -> Result<Vec<Value>, String> {
    let path = path.map(convert_gitignore_pattern).transpose()?;
    let rule = |tool: &&str| match &path {
        Some(path) => json!({ "tool": tool, "path": path }),
        None => json!({ "tool": tool }),
    };
    Ok(tools.iter().map(rule).collect())
}

/// Converts a `.gitignore` pattern, as Claude Code uses them, into a glob relative to the
/// workspace. A pattern without `/` in the middle matches at any depth.
fn convert_gitignore_pattern(pattern: &str) -> Result<String, String> {
    if pattern.starts_with("//") || pattern.starts_with('~') {
        return Err(
            "the rule names files outside the workspace, which file tools cannot reach".to_owned(),
        );
    }
    if pattern.starts_with('!') || pattern.contains("..") {
        return Err("patterns with `!` or `..` have no counterpart".to_owned());
    }
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    let own = pattern.strip_prefix("./").unwrap_or(pattern);
    let own = own.strip_prefix('/').unwrap_or(own).trim_end_matches('/');
    Ok(match is_anchored {
        true => own.to_owned(),
        false => format!("**/{own}"),
    })
}

/// Adds OpenCode's table `permission`. In OpenCode the last matching rule decides; in Rind a denial
/// decides, then the narrowest rule. A denial of `*` next to other patterns therefore becomes a
/// rule that asks.
pub(crate) fn add_opencode_rules(
    permission: &Value,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let Some(table) = permission.as_object() else {
        return plan.record_setting_not_imported(path, "permission", "it is not a table of tools");
    };
    for (tool, wanted) in table {
        match wanted.as_object() {
            None => add_opencode_rule(tool, "*", wanted, false, origin, path, plan),
            Some(patterns) => {
                for (pattern, action) in patterns {
                    let others = patterns.len() > 1;
                    add_opencode_rule(tool, pattern, action, others, origin, path, plan);
                }
            }
        }
    }
}

fn add_opencode_rule(
    tool: &str,
    pattern: &str,
    action: &Value,
    has_others: bool,
    origin: ImportedRuleOrigin,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let from = format!("permission.{tool} {pattern} = {action}");
    let decision = match action.as_str() {
        Some("allow") => RuleDecision::Allow,
        Some("ask") => RuleDecision::Ask,
        Some("deny") if pattern == "*" && has_others => {
            plan.record_setting_not_imported(
                path,
                from.clone(),
                "in Rind a denial overrides every narrower rule, so this rule asks instead",
            );
            RuleDecision::Ask
        }
        Some("deny") => RuleDecision::Deny,
        _ => {
            return plan.record_setting_not_imported(
                path,
                from,
                "its value is not `allow`, `ask` or `deny`",
            );
        }
    };
    let pattern = Some(pattern).filter(|pattern| *pattern != "*");
    let rules = match (tool, pattern) {
        ("bash", None) => Ok(vec![json!({ "tool": "bash" })]),
        ("bash", Some(command)) => Ok(vec![json!({ "command": command })]),
        ("edit" | "write" | "patch", path) => convert_opencode_path_rules(FILE_EDITING_TOOLS, path),
        ("read", path) => convert_opencode_path_rules(&FILE_READING_TOOLS[..1], path),
        ("grep", None) => create_tool_path_rules(&["search"], None),
        ("glob" | "list", None) => create_tool_path_rules(&["list_files"], None),
        ("task", None) => Ok(vec![json!({ "tool": "spawn_subagent" })]),
        ("webfetch" | "websearch", _) => Err(WEB_RULES_NOT_IMPORTED_REASON.to_owned()),
        ("external_directory", _) => Err(
            "file tools work only in the workspace; commands may see other folders with `read` and \
             `write` in [sandbox]"
                .to_owned(),
        ),
        ("doom_loop", _) => {
            Err("the plugin `loop-detection` stops calls that repeat themselves".to_owned())
        }
        _ => Err("Rind has no tool of this name, or none that takes such a condition".to_owned()),
    };
    match rules {
        Ok(rules) => add_importable_rules_to_plan(&from, &rules, decision, origin, path, plan),
        Err(why) => record_rule_not_imported(&from, decision, why, path, plan),
    }
}

/// Creates a rule for each of `tools` from a path pattern of OpenCode, in which `*` also matches
/// `/`.
fn convert_opencode_path_rules(tools: &[&str], path: Option<&str>) -> Result<Vec<Value>, String> {
    let own = path.map(|path| path.replace("**", "*").replace('*', "**"));
    create_tool_path_rules(
        tools,
        own.as_deref()
            .map(|path| path.strip_prefix("./").unwrap_or(path)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, decision: RuleDecision) -> Result<Vec<String>, String> {
        rules_beside(text, decision, &[])
    }

    fn rules_beside(
        text: &str,
        decision: RuleDecision,
        asks: &[&str],
    ) -> Result<Vec<String>, String> {
        let mut plan = ImportPlan::default();
        add_claude_rule(
            text,
            decision,
            asks,
            ImportedRuleOrigin::Person,
            Path::new("s.json"),
            &mut plan,
        );
        match plan.losses.first() {
            Some(loss) => Err(loss.why.clone()),
            None => Ok(plan
                .rules
                .iter()
                .map(|rule| rule.rule.to_string())
                .collect()),
        }
    }

    #[test]
    fn permissions_of_claude_code_become_rules_of_the_same_reach() {
        for (text, decision, expected) in [
            (
                "Bash(npm run test:*)",
                RuleDecision::Allow,
                vec![r#"{ command = "npm run test *", decision = "allow" }"#],
            ),
            (
                "Bash(/usr/bin/make all)",
                RuleDecision::Allow,
                vec![r#"{ command = "/usr/bin/make all", decision = "allow" }"#],
            ),
            (
                "Bash(git status)",
                RuleDecision::Allow,
                vec![r#"{ command = "git status", decision = "allow" }"#],
            ),
            (
                "Bash",
                RuleDecision::Ask,
                vec![r#"{ tool = "bash", decision = "ask" }"#],
            ),
            (
                "Bash(*)",
                RuleDecision::Deny,
                vec![r#"{ tool = "bash", decision = "deny" }"#],
            ),
            (
                "Edit(./docs/**)",
                RuleDecision::Allow,
                vec![
                    r#"{ tool = "edit_file", path = "docs/**", decision = "allow" }"#,
                    r#"{ tool = "write_file", path = "docs/**", decision = "allow" }"#,
                ],
            ),
            (
                "Read(./src/a.rs)",
                RuleDecision::Allow,
                vec![r#"{ tool = "read_file", path = "src/a.rs", decision = "allow" }"#],
            ),
            (
                "Read(.env)",
                RuleDecision::Deny,
                vec![
                    r#"{ tool = "read_file", path = "**/.env", decision = "deny" }"#,
                    r#"{ tool = "search", path = "**/.env", decision = "deny" }"#,
                    r#"{ tool = "list_files", path = "**/.env", decision = "deny" }"#,
                ],
            ),
            (
                "mcp__My Docs",
                RuleDecision::Deny,
                vec![r#"{ tool = "mcp__my-docs__*", decision = "deny" }"#],
            ),
            (
                "mcp__docs__search",
                RuleDecision::Allow,
                vec![r#"{ tool = "mcp__docs__search", decision = "allow" }"#],
            ),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(rules(text, decision), Ok(expected), "{text}");
        }
    }

    #[test]
    fn permissions_without_a_counterpart_are_losses() {
        for (text, why) in [
            ("WebFetch(domain:example.com)", "no such tool"),
            ("Read(~/secrets)", "outside the workspace"),
            ("Read(//etc/passwd)", "outside the workspace"),
            ("Edit(../x)", "`..`"),
            ("Edit(/docs/**)", "relative to the folder of these settings"),
            ("mcp__My Docs__search", "is called `my-docs`"),
            ("Bash(git status", "not closed"),
            ("NotebookEdit(*.ipynb)", "no tool of this name"),
            ("", "no tool of this name"),
        ] {
            let found = rules(text, RuleDecision::Allow).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn a_call_that_is_asked_about_there_is_not_allowed_here() {
        for (allow, ask, is_lost) in [
            ("Bash(git push origin:*)", "Bash(git push:*)", true),
            ("Bash(git:*)", "Bash(git push:*)", false),
            ("Bash(make)", "Bash", true),
            ("Bash", "Bash(git push:*)", false),
            ("Bash(npm test)", "Bash(git push:*)", false),
            ("Edit(./docs/a.md)", "Write(./docs/**)", true),
            ("Read(./a)", "Edit", false),
            ("mcp__docs__search", "mcp__docs", true),
            ("mcp__docs", "mcp__docs__delete", false),
        ] {
            let found = rules_beside(allow, RuleDecision::Allow, &[ask]);
            assert_eq!(found.is_err(), is_lost, "{allow} beside {ask}: {found:?}");
        }
    }

    #[test]
    fn a_project_allows_nothing_in_other_projects() {
        let mut plan = ImportPlan::default();
        let path = Path::new("s.json");
        add_claude_rule(
            "Bash(make:*)",
            RuleDecision::Allow,
            &[],
            ImportedRuleOrigin::Project,
            path,
            &mut plan,
        );
        add_claude_rule(
            "Bash(rm:*)",
            RuleDecision::Deny,
            &[],
            ImportedRuleOrigin::Project,
            path,
            &mut plan,
        );
        let rules: Vec<String> = plan
            .rules
            .iter()
            .map(|rule| rule.rule.to_string())
            .collect();
        assert_eq!(rules, [r#"{ command = "rm *", decision = "deny" }"#]);
        assert!(
            plan.losses[0]
                .why
                .contains(r#"{ command = "make *", decision = "allow" }"#)
        );
    }

    #[test]
    fn a_general_denial_of_opencode_beside_narrower_rules_asks() {
        let mut plan = ImportPlan::default();
        let table = json!({ "bash": { "*": "deny", "git log *": "allow" }, "edit": "deny", "webfetch": "ask" });
        add_opencode_rules(
            &table,
            ImportedRuleOrigin::Person,
            Path::new("o.json"),
            &mut plan,
        );
        let rules: Vec<String> = plan
            .rules
            .iter()
            .map(|rule| rule.rule.to_string())
            .collect();
        assert_eq!(
            rules,
            [
                r#"{ tool = "bash", decision = "ask" }"#,
                r#"{ command = "git log *", decision = "allow" }"#,
                r#"{ tool = "edit_file", decision = "deny" }"#,
                r#"{ tool = "write_file", decision = "deny" }"#,
            ]
        );
        assert_eq!(plan.losses.len(), 2, "{:?}", plan.losses);
    }
}
