//! `rind tools`: lists the tools that the model may call in this folder, and the rules of the tool
//! policy for each.

use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use serde::Serialize;

use super::args::PluginArgs;
use super::exit_code::{ExitStatus, Usage};
use super::{plugin, render};
use rind_lib::host::Host;
use rind_lib::message::ToolSpec;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::provider::scripted::Scripted;
use rind_lib::session::SessionStore;
use rind_lib::tool::policy::{ToolPolicy, ToolRuleSummary};
use rind_operator::confinement;
use rind_operator::setup::{OperatorWorkspaceSetup, check_folders_are_separate};

#[derive(Debug, ClapArgs)]
pub(super) struct ToolsArgs {
    /// Show only this tool, with its whole description and the schema of its arguments
    name: Option<String>,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Tool with the rules of the tool policy for its calls.
#[derive(Debug, Serialize)]
pub(super) struct ToolSpecWithPolicy {
    #[serde(flatten)]
    pub(super) spec: ToolSpec,
    pub(super) policy: ToolRuleSummary,
}

pub(super) async fn run_tools(args: ToolsArgs) -> anyhow::Result<ExitStatus> {
    let all = describe_tools(&args.plugins).await?;
    let Some(name) = &args.name else {
        match args.json {
            true => render::print_json(&all)?,
            false => render::tools::print_tools(&all),
        }
        return Ok(ExitStatus::Done);
    };
    let names = || {
        let names: Vec<&str> = all.iter().map(|tool| tool.spec.name.as_str()).collect();
        Usage(format!(
            "there is no tool `{name}`; the tools are: {}",
            names.join(", ")
        ))
    };
    let tool = all
        .iter()
        .find(|tool| tool.spec.name == *name)
        .with_context(names)?;
    match args.json {
        true => render::print_json(tool)?,
        false => render::tools::print_tool(tool)?,
    }
    Ok(ExitStatus::Done)
}

/// Returns the names of the tools of a session in this folder, each with the plugin that provides
/// the tool.
pub(super) async fn tool_names(args: &PluginArgs) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let all = describe_tools(args).await?.into_iter();
    Ok(all.map(|tool| (tool.spec.name, tool.spec.plugin)).collect())
}

/// Returns the tools that a session in the current folder would have.
async fn describe_tools(args: &PluginArgs) -> anyhow::Result<Vec<ToolSpecWithPolicy>> {
    let load = plugin::plan_session_plugin_load(args).await?;
    let plugins = load.load().await.context("cannot load plugins")?;
    load.check_selected_plugins(&plugins)?;
    render::plugins::warn_about_plugins_not_loaded(&plugins);
    let setup = load.operator_setup();
    let policy: ToolPolicy = setup.config.section()?;
    let mut specs = list_session_tool_specs(setup, Arc::new(plugins)).await?;
    specs.sort_by(|a, b| (&a.plugin, &a.name).cmp(&(&b.plugin, &b.name)));
    let described = specs.into_iter().map(|spec| ToolSpecWithPolicy {
        policy: policy.build_tool_overview(&spec),
        spec: Arc::unwrap_or_clone(spec),
    });
    Ok(described.collect())
}

/// Returns the tools of a session with these plugins. Opens the session in a temporary folder and
/// runs no turn.
pub(super) async fn list_session_tool_specs(
    setup: &OperatorWorkspaceSetup,
    plugins: Arc<FoundPluginSet>,
) -> anyhow::Result<Vec<Arc<ToolSpec>>> {
    check_folders_are_separate(&setup.paths)?;
    let sessions = tempfile::tempdir().context("cannot make a folder for the session")?;
    let commands = confinement::find_command_confinement(setup)
        .await?
        .command_environment_with_warning();
    let mut builder = Host::builder();
    let servers = rind_operator::mcp::approved_servers(setup, &commands, Vec::new(), None).await?;
    for source in servers.into_sources() {
        builder = builder.tool_source(source);
    }
    let host = builder
        .provider(Arc::new(Scripted::built_in()?), "none")
        .store(SessionStore::new(sessions.path().to_owned()))
        .plugins(plugins)
        .built_in_tools(commands)
        .config(setup.agent_config()?)
        .paths(setup.paths.clone())
        .build()
        .await?;
    Ok(host.session().create()?.tools())
}
