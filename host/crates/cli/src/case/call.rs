//! `rind plugin call`: calls one tool by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use serde_json::Value;

use super::super::args::{PluginArgs, TurnOutputArgs};
use super::super::exit_code::{ExitStatus, Usage};
use super::super::programs::TurnInputOutputChannels;
use super::super::render::trace::TraceDetail;
use super::super::{open, plugin, render, run};
use rind_lib::event::Event;
use rind_lib::host::Host;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::plugin::load::{LoadedPlugin, PluginSkipReason};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::startable::StartablePluginSet;
use rind_lib::provider::scripted::{Reply, Script, Scripted};
use rind_lib::session::SessionStore;
use rind_lib::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind_operator::setup::check_folders_are_separate;

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginCallArgs {
    /// Name of a plugin that is installed, or its folder
    name: String,
    /// Name of the tool
    tool: String,
    /// Arguments of the tool, a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    #[command(flatten)]
    plugins: PluginArgs,
}

pub(in super::super) async fn run_plugin_tool_call(
    mut args: PluginCallArgs,
) -> anyhow::Result<ExitStatus> {
    let arguments: Value = serde_json::from_str(&args.arguments)
        .map_err(|error| Usage(format!("the arguments are not JSON: {error}")))?;
    let is_folder = Path::new(&args.name).join(FILE_NAME).is_file();
    if is_folder {
        args.plugins.plugin.push(PathBuf::from(&args.name));
        args.plugins.no_plugins = true;
        args.name = Manifest::read(Path::new(&args.name), None)?.name;
    }
    let load = plugin::plan_session_plugin_load(&args.plugins).await?;
    let plugins = load.load().await.context("cannot load plugins")?;
    load.check_selected_plugins(&plugins)?;
    if let Some(left) = plugins.left_out.iter().find(|left| left.name == args.name) {
        let how = if matches!(left.why, PluginSkipReason::Held(_)) {
            format!("; grant them for this call with `--grant {}`", args.name)
        } else {
            String::new()
        };
        let why = render::plugins::plugin_not_loaded_reason(left);
        anyhow::bail!("plugin `{}` does not run: {why}{how}", args.name);
    }
    render::plugins::warn_about_plugins_not_loaded(&plugins);
    let plugins = StartablePluginSet::try_from_plugin_set(Arc::new(plugins))?;
    let is_it = |plugin: &&Arc<LoadedPlugin>| plugin.manifest.name == args.name;
    require_plugin_tool(&args, plugins.plugins.iter().find(is_it))?;
    let setup = load.operator_setup();
    check_folders_are_separate(&setup.paths)?;
    let sessions = tempfile::tempdir().context("cannot make a folder for the session")?;
    // Repeat the answer without limit, because a hook of a plugin may reject an answer, so that the
    // model is asked again.
    let done = Reply {
        times: Some(0),
        ..Reply::text("done")
    };
    let script = Script::new(vec![Reply::call(&args.tool, arguments), done]);
    // Approve the call, because the person typed it. A call that the rules deny is still denied.
    let mut policy: ToolPolicy = setup.config.section()?;
    policy.mode = ToolPolicyOptions {
        yes: true,
        ..ToolPolicyOptions::default()
    };
    let (approver, questions, _) = open::create_approver_and_question_channels(false);
    let host = Host::builder()
        .provider(Arc::new(Scripted::new(script)), "none")
        .paths(setup.paths.clone())
        .store(SessionStore::new(sessions.path().to_owned()))
        .plugins(plugins)
        .file_tools()
        .policy(Arc::new(policy))
        .approver(approver)
        .build()
        .await?;
    let session = host.session().create()?;
    let ended = Arc::new(std::sync::Mutex::new(None));
    let told = ended.clone();
    let watch = move |event: &Event| {
        if let Event::ToolEnd { result, .. } = event {
            *lock_ignoring_poison(&told) = Some((result.content.to_string(), result.is_error));
        }
    };
    let show = TurnOutputArgs {
        json: false,
        // Print only the result of the tool to standard output, so that other programs can read it.
        hides_answer: true,
        trace: Some(TraceDetail::Full),
    };
    run::run_and_show_turn_or_command(
        session,
        questions,
        "call",
        show,
        TurnInputOutputChannels::with_event_callback(watch),
    )
    .await?;
    let ended = lock_ignoring_poison(&ended).take();
    let (text, is_error) = ended.context("the tool call ended without a result")?;
    render::print_stdout_line(render::escape_prose_for_display(&text));
    Ok(ExitStatus::from_success_flag(!is_error))
}

fn require_plugin_tool(
    args: &PluginCallArgs,
    plugin: Option<&Arc<LoadedPlugin>>,
) -> anyhow::Result<()> {
    let Some(plugin) = plugin else {
        let text = format!(
            "there is no plugin `{}`: it is neither a folder with a plugin.toml nor listed by `rind plugin list`",
            args.name
        );
        return Err(Usage(text).into());
    };
    let names: Vec<&str> = plugin.tools.iter().map(|tool| tool.name.as_str()).collect();
    if names.contains(&args.tool.as_str()) {
        return Ok(());
    }
    let has = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("its tools are {}", names.join(", "))
    };
    Err(Usage(format!(
        "plugin `{}` has no tool `{}`; {has}",
        args.name, args.tool
    ))
    .into())
}
