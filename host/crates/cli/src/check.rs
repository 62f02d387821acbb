//! `rind plugin check`: reports faults of plugins, for authors and their CI.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args as ClapArgs;

use super::args::PluginArgs;
use super::exit_code::{ExitStatus, Usage};
use super::{alone, render};
use rind_check::{CHECK_RULES, PluginCheckResult};
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::plugin::manifest::FILE_NAME;

#[derive(Debug, ClapArgs)]
pub(super) struct CheckArgs {
    /// Folders of plugins, or folders that hold such folders; the current one when there is none.
    #[arg(value_name = "FOLDER")]
    pub(super) folders: Vec<PathBuf>,
    /// Correct what can be corrected by asking for less
    #[arg(long)]
    pub(super) fix: bool,
    /// Do not report faults of this rule, as `--allow readme`
    #[arg(long, value_name = "RULE", value_parser = parse_plugin_check_rule_name)]
    pub(super) allow: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write a report: `sarif=FILE`, or `github` for annotations on standard output
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report_argument)]
    pub(super) report: Vec<CheckReportTarget>,
}

/// Format and destination of a report that `--report` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckReportTarget {
    Sarif(PathBuf),
    Github,
}

fn parse_report_argument(text: &str) -> Result<CheckReportTarget, String> {
    match text.split_once('=') {
        Some(("sarif", file)) if !file.is_empty() => Ok(CheckReportTarget::Sarif(file.into())),
        None if text == "github" => Ok(CheckReportTarget::Github),
        _ => Err("a report is `sarif=FILE` or `github`".to_owned()),
    }
}

fn parse_plugin_check_rule_name(name: &str) -> Result<String, String> {
    if CHECK_RULES.iter().any(|(rule, _)| *rule == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = CHECK_RULES.iter().map(|(rule, _)| *rule).collect();
    Err(format!(
        "there is no such rule; the rules are {}",
        names.join(", ")
    ))
}

pub(super) async fn run_check(args: CheckArgs) -> anyhow::Result<ExitStatus> {
    let folders = find_plugin_folders(&args.folders)?;
    let mut all = Vec::new();
    let mut n_fixed = 0;
    // Load the other installed plugins too, to find tools with the same name.
    let others = super::plugin::load_session_plugins(&PluginArgs::default())
        .await
        .ok();
    let taken: Vec<(String, String)> = others.iter().flat_map(list_plugin_tools).collect();
    for folder in &folders {
        let mut checked = check_plugin_folder(folder, &args.allow, &taken).await?;
        if args.fix {
            let fixed = rind_check::fix::fix_manifest(&checked)
                .with_context(|| format!("cannot fix {}", folder.display()))?;
            if !args.json {
                fixed.iter().for_each(render::check::print_repaired_fault);
            }
            n_fixed += fixed.len();
            if !fixed.is_empty() {
                checked = self::check_plugin_folder(folder, &args.allow, &taken).await?;
            }
        }
        all.push(checked);
    }
    for report in &args.report {
        match report {
            CheckReportTarget::Sarif(file) => {
                let text =
                    serde_json::to_string_pretty(&render::sarif::build_sarif_report(&all))? + "\n";
                std::fs::write(file, text)
                    .with_context(|| format!("cannot write the report {}", file.display()))?;
            }
            CheckReportTarget::Github => render::check::print_faults_as_github_annotations(&all),
        }
    }
    if args.json {
        render::check::print_json(&all)?;
    } else {
        render::check::report_plugin_faults(&all, n_fixed);
    }
    let is_fine = all.iter().all(|checked| checked.faults.is_empty());
    Ok(ExitStatus::from_success_flag(is_fine))
}

/// Returns the tools of all loaded plugins, each as plugin name and tool name.
fn list_plugin_tools(plugins: &FoundPluginSet) -> impl Iterator<Item = (String, String)> {
    let plugins = plugins.plugins.iter();
    plugins.flat_map(|plugin| {
        let of = plugin.manifest.name.clone();
        let tools = plugin.tools.iter();
        tools.map(move |tool| (of.clone(), tool.name.clone()))
    })
}

async fn check_plugin_folder(
    folder: &Path,
    allowed: &[String],
    taken: &[(String, String)],
) -> anyhow::Result<PluginCheckResult> {
    let load = alone::plan_load_with_all_permissions(folder)?;
    let mut checked = rind_check::check_plugin(folder, load.load_options(), taken)
        .await
        .with_context(|| format!("cannot check {}", folder.display()))?;
    checked
        .faults
        .retain(|fault| !allowed.iter().any(|rule| rule == fault.rule));
    Ok(checked)
}

/// Returns the folders of plugins in `named`, or in the current folder if `named` is empty: each
/// named folder if it is a plugin, otherwise the plugins directly inside it.
pub(super) fn find_plugin_folders(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let here = [PathBuf::from(".")];
    let named = if named.is_empty() { &here[..] } else { named };
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in named {
        let is_plugin = |folder: &Path| folder.join(FILE_NAME).is_file();
        if is_plugin(folder) {
            folders.push(folder.clone());
            continue;
        }
        let entries = std::fs::read_dir(folder)
            .map_err(|error| Usage(format!("cannot read {}: {error}", folder.display())))?;
        let mut within: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_plugin(path))
            .collect();
        if within.is_empty() {
            let folder = folder.display();
            return Err(Usage(format!(
                "there is no plugin in {folder}: neither it nor a folder in it has a {FILE_NAME}; pass the plugin's folder: `rind plugin check FOLDER`"
            ))
            .into());
        }
        within.sort();
        folders.append(&mut within);
    }
    // Check a plugin once, even if it is named twice.
    let mut seen = Vec::new();
    folders.retain(|folder| {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let is_first = !seen.contains(&whole);
        seen.push(whole);
        is_first
    });
    Ok(folders)
}
