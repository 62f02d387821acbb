//! `rind import`: imports the settings of another agent, after showing them to the person.

use std::path::Path;

use anyhow::Context;
use clap::{Args as ClapArgs, ValueEnum};
use toml_edit::Value;

use super::exit_code::{ExitStatus, bail_usage};
use super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::render::{self, DIM_STYLE, WARNING_STYLE};
use super::terminal::can_ask_at_terminal;
use super::{edit, environment, mcp};
use rind_import::{
    ImportPlan, ImportSourceAgent, ImportSourceFolders, ImportedFile, plan_settings_import,
};
use rind_lib::disk::create_private_folder;
use rind_lib::paths::RindPaths;
use rind_lib::tool::policy::PolicyRule;

/// Header of a settings file that an import creates; empty.
const NEW_SETTINGS_FILE_HEADER: &str = "";

#[derive(Debug, ClapArgs)]
pub(super) struct ImportArgs {
    /// Agent whose settings are read
    agent: ImportedAgentName,
    /// Read the settings of the project in this folder, too
    #[arg(long)]
    project: bool,
    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Write without asking, including the hooks
    #[arg(long, short)]
    yes: bool,
    /// Print the plan as JSON, and write nothing
    #[arg(long, conflicts_with = "yes")]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ImportedAgentName {
    /// Claude Code: settings.json, .mcp.json, commands
    ClaudeCode,
    /// Codex: config.toml, prompts
    Codex,
    /// OpenCode: opencode.json, commands, agents
    #[value(name = "opencode")]
    OpenCode,
}

impl ImportedAgentName {
    fn to_source_agent(self) -> ImportSourceAgent {
        match self {
            Self::ClaudeCode => ImportSourceAgent::ClaudeCode,
            Self::Codex => ImportSourceAgent::Codex,
            Self::OpenCode => ImportSourceAgent::OpenCode,
        }
    }

    /// Returns the environment variable that sets the settings folder of the agent.
    fn settings_folder_env_variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
            Self::OpenCode => "OPENCODE_CONFIG_DIR",
        }
    }
}

pub(super) async fn run_agent_settings_import(args: ImportArgs) -> anyhow::Result<ExitStatus> {
    let setup = environment::read_settings_without_project()?;
    // Use the home directory and not RIND_HOME: other agents do not know that variable.
    let home = setup.environment.home.clone();
    let Some(home) = home.filter(|home| home.is_absolute()) else {
        bail_usage!("there is no home folder to read from; set HOME");
    };
    let folder = setup
        .environment
        .variable(args.agent.settings_folder_env_variable());
    let places = ImportSourceFolders {
        home,
        agent_folder: folder.map(Into::into),
        project: args.project.then(|| setup.paths.workspace.clone()),
    };
    let mut plan = plan_settings_import(args.agent.to_source_agent(), &places)?;
    exclude_existing_from_import_plan(
        &mut plan,
        &setup.paths,
        &mcp::configured_server_names(&setup)?,
    )?;
    if args.json {
        render::print_json(&plan)?;
        return Ok(ExitStatus::Done);
    }
    render::import::print_import_plan(&plan);
    if plan.is_empty() {
        render::print_note("nothing to write");
        return Ok(ExitStatus::Done);
    }
    if args.dry_run {
        render::print_note("nothing was written");
        return Ok(ExitStatus::Done);
    }
    if !args.yes {
        if !can_ask_at_terminal() {
            bail_usage!(
                "there is no terminal to ask at; add --yes to write the import, or --dry-run to only show it"
            );
        }
        let folder = setup.paths.config.display().to_string();
        if !ask_yes_or_no("write this into ", &folder).await {
            render::print_note("nothing was written");
            return Ok(ExitStatus::Failed);
        }
        for file in std::mem::take(&mut plan.hooks) {
            let shown = file.display().to_string();
            if ask_yes_or_no("run the hooks in ", &shown).await {
                plan.hooks.push(file);
            }
        }
    }
    apply_import_plan(&plan, &setup.paths)?;
    render::import::print_import_result(&plan, &setup.paths.user_config());
    Ok(ExitStatus::Done)
}

async fn ask_yes_or_no(words: &str, name: &str) -> bool {
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text(words)
        .with_escaped_text(DIM_STYLE, name);
    let screen = QuestionScreenContent {
        parts: vec![vec![head]],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    };
    screen.ask_approval(parse_yes_or_no, |yes| !yes).await == Some(true)
}

/// Removes from a plan everything that already exists. An import never overwrites a file, so a file
/// that exists with other content is reported as not imported.
fn exclude_existing_from_import_plan(
    plan: &mut ImportPlan,
    paths: &RindPaths,
    servers: &[String],
) -> anyhow::Result<()> {
    let file = paths.user_config();
    let known = edit::read_toml_list(&file, &["tools", "rules"])?;
    let known: Vec<String> = known.iter().filter_map(format_policy_rule).collect();
    let mut seen = known;
    plan.rules.retain(|rule| {
        let text = rule.rule.to_string();
        let is_new = !seen.contains(&text);
        seen.push(text);
        is_new
    });
    let hooks = edit::read_toml_list(&file, &["hooks", "claude"])?;
    let is_named = |path: &Path| hooks.iter().any(|hook| hook.as_str() == path.to_str());
    plan.hooks.retain(|path| !is_named(path));
    plan.servers
        .retain(|server| !servers.contains(&server.name));
    let mut taken = Vec::new();
    plan.files.retain(|file| {
        let path = import_target_path(paths, file);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Ok(text) if text == file.text => false,
            _ => {
                taken.push((file.from.clone(), path));
                false
            }
        }
    });
    for (from, path) in taken {
        plan.losses.push(rind_import::SettingNotImported {
            path: from,
            what: path.display().to_string(),
            why: "a different file already exists; nothing is written over".to_owned(),
            is_denial: false,
        });
    }
    Ok(())
}

fn format_policy_rule(value: &Value) -> Option<String> {
    let text = format!("rule = {}", value.to_string().trim());
    let mut table: toml::Table = toml::from_str(&text).ok()?;
    let rule: PolicyRule = table.remove("rule")?.try_into().ok()?;
    Some(rule.to_string())
}

fn import_target_path(paths: &RindPaths, file: &ImportedFile) -> std::path::PathBuf {
    let folder = paths.config.join(file.kind.settings_subfolder());
    folder.join(format!("{}.md", file.name))
}

fn apply_import_plan(plan: &ImportPlan, paths: &RindPaths) -> anyhow::Result<()> {
    let settings = paths.user_config();
    let change = || format!("cannot change {}", settings.display());
    for file in &plan.files {
        let path = import_target_path(paths, file);
        let write = || {
            create_private_folder(path.parent().unwrap_or(&paths.config))?;
            let mut new = std::fs::File::create_new(&path)?;
            std::io::Write::write_all(&mut new, file.text.as_bytes())
                // Remove a partially written file, because the next import refuses to overwrite
                // files.
                .inspect_err(|_| drop(std::fs::remove_file(&path)))
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    for server in &plan.servers {
        mcp::write_server_settings(&settings, &server.name, &server.settings)
            .with_context(change)?;
    }
    let mut rules = Vec::new();
    for rule in &plan.rules {
        rules.push(rule.rule.to_string().parse::<Value>()?);
    }
    edit::add_to_toml_list(
        &settings,
        NEW_SETTINGS_FILE_HEADER,
        &["tools", "rules"],
        rules,
    )
    .with_context(change)?;
    let hooks = plan
        .hooks
        .iter()
        .map(|path| Value::from(path.display().to_string()));
    edit::add_to_toml_list(
        &settings,
        NEW_SETTINGS_FILE_HEADER,
        &["hooks", "claude"],
        hooks.collect(),
    )
    .with_context(change)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use toml_edit::Array;

    use super::*;

    #[test]
    fn a_rule_that_is_there_is_known_however_it_is_written() {
        let array: Array = "[{decision='deny',  tool = \"bash\"}]"
            .parse::<Value>()
            .unwrap()
            .as_array()
            .unwrap()
            .clone();
        let known: Vec<_> = array.iter().filter_map(format_policy_rule).collect();
        assert_eq!(known, [r#"{ tool = "bash", decision = "deny" }"#]);
    }
}
