//! `rind demo`: runs a complete turn without any setup. The plugins are the bundled ones and the
//! model is a script; files, tools, hooks and the session are real.

pub(super) mod activity;
pub(super) mod heard;
mod story;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use rind_audit::PLUGIN;

use self::activity::{PluginActivityKind, TurnPluginActivities};
use self::story::ScriptedDemoTurn;
use super::args::{DemoArgs, TurnOutputArgs};
use super::environment::{find_rind_paths, process_environment};
use super::exit_code::{ExitStatus, bail_usage};
use super::programs::TurnInputOutputChannels;
use super::render::trace::TraceDetail;
use super::{carried, open, render, run};
use rind_lib::grant::ask::GrantOptions;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::plugin::startable::StartablePluginSet;
use rind_lib::provider::SelectedProviderAndModel;
use rind_lib::provider::scripted::Scripted;
use rind_lib::tool::policy::{SharedApprovalMode, ToolPolicyOptions};
use rind_operator::confinement;
use rind_operator::host::{HostConstructionParts, HostWithOperatorPolicy};
use rind_operator::load::PluginLoadPlan;
use rind_operator::settings::{ModelSelection, PluginSelection, SessionChoice};
use rind_operator::setup::OperatorWorkspaceSetup;

/// The core plugins, in the order of their priorities. Each of them acts in the long story.
pub(super) const CORE_PLUGIN_NAMES: [&str; 10] = include!("../../../../../plugins/core.json");

pub(super) async fn run_demo(args: DemoArgs) -> anyhow::Result<ExitStatus> {
    let story = if args.all {
        &story::ALL_CORE_PLUGINS_DEMO_STORY
    } else {
        &story::SHORT_DEMO_STORY
    };
    let here = find_rind_paths(None)?;
    let folder = tempfile::Builder::new()
        .prefix("rind-demo-")
        .tempdir()
        .context("cannot create a temporary folder")?;
    let paths = RindPaths {
        data: folder.path().join("data"),
        workspace: folder.path().join("tide-station"),
        ..here.clone()
    };
    let workspace = &paths.workspace;
    story.write_workspace_files(workspace).with_context(|| {
        format!(
            "cannot write the files of the demo to {}",
            workspace.display()
        )
    })?;
    let model = ModelSelection {
        set: story.settings.iter().map(ToString::to_string).collect(),
        ..ModelSelection::default()
    };
    let mut setup = OperatorWorkspaceSetup::read(process_environment(), here, &model, None)?;
    // Load only the bundled plugins: the settings that the demo writes must not affect plugins that
    // are installed on this machine.
    let load = PluginLoadPlan::new(&setup, &PluginSelection::default(), GrantOptions::default())?
        .search_plugins_only_in(demo_plugin_folders()?)
        .with_plugin_folders(&paths);
    let plugins = load.load().await.context("cannot load plugins")?;
    setup.paths = paths;
    let paths = &setup.paths;
    let plugins = Arc::new(plugins);
    render::plugins::warn_about_plugins_not_loaded(&plugins);
    check_any_core_plugin_is_loaded(&plugins)?;
    story.write_initial_plugin_store_values(&plugins.plugin_key_value_stores())?;
    if !args.json {
        print_story_intro(story, &plugins, &paths.workspace);
    }
    let (approver, questions, _) = open::create_approver_and_question_channels(false);
    let parts = HostConstructionParts {
        skills: Arc::default(),
        presets: Arc::default(),
        provider: SelectedProviderAndModel {
            provider: Arc::new(Scripted::from_toml(story.script)?),
            model: story.model.to_owned(),
            why: "this is the demo".to_owned(),
            is_stand_in: false,
        },
        plugins: StartablePluginSet::try_from_plugin_set(plugins.clone())?,
        mode: ToolPolicyOptions {
            yes: true,
            dry_run: false,
            has_terminal: false,
        },
        switch: SharedApprovalMode::default(),
        approver,
        commands: confinement::find_command_confinement(&setup)
            .await?
            .command_environment_with_warning(),
        sources: Vec::new(),
        store: None,
        set: None,
    };
    let host = HostWithOperatorPolicy::new(&setup, parts).await?;
    let session = host.open_session(&SessionChoice::New)?;
    let id = session.id().clone();
    let acted = Arc::new(Mutex::new(TurnPluginActivities::default()));
    let watched = acted.clone();
    let show = TurnOutputArgs {
        hides_answer: false,
        json: args.json,
        trace: (!args.all).then_some(TraceDetail::Short),
    };
    let watch =
        move |event: &_| lock_ignoring_poison(&watched).record_plugin_activity_of_event(event);
    let mut exit = run::run_and_show_turn_or_command(
        session,
        questions,
        story.prompt,
        show,
        TurnInputOutputChannels::with_event_callback(watch),
    )
    .await?;
    if args.all && exit == ExitStatus::Done {
        let mut acted = std::mem::take(&mut *lock_ignoring_poison(&acted));
        exit = report_demo_activity(&mut acted, &plugins, paths, &id, args.json)?;
    }
    if args.keep {
        render::print_note(&format!("kept in {}", folder.keep().display()));
    }
    Ok(exit)
}

/// Shows the actions of each plugin. Returns a failure if a core plugin did nothing.
fn report_demo_activity(
    acted: &mut TurnPluginActivities,
    plugins: &FoundPluginSet,
    paths: &RindPaths,
    session: &str,
    is_json: bool,
) -> anyhow::Result<ExitStatus> {
    let names = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    let loaded: Vec<&str> = names.collect();
    let is_loaded = |name: &str| loaded.contains(&name);
    for line in heard::take_log_lines() {
        acted.add_plugin_activity(&line.plugin, PluginActivityKind::Logged, line.text);
    }
    if is_loaded(PLUGIN) {
        let checked = super::audit::read_and_verify_audit_log(paths, session)?.unwrap_or_default();
        match checked.broken {
            Some(why) => render::print_warning(&format!("the log of {PLUGIN} is broken: {why}")),
            None if !checked.gaps.is_empty() => {
                let gap = &checked.gaps[0];
                render::print_warning(&format!("the log of {PLUGIN} has a gap: {gap}"));
            }
            None if checked.lines.is_empty() => {}
            None => {
                let lines = render::format_count_with_noun(checked.lines.len() as u64, "line");
                let whole = format!(
                    "a log of {lines}; verified: each line contains the hash of the line before it"
                );
                acted.add_plugin_activity(PLUGIN, PluginActivityKind::Left, whole);
            }
        }
    }
    if !is_json {
        let others = loaded
            .iter()
            .filter(|name| !CORE_PLUGIN_NAMES.contains(name));
        let shown = CORE_PLUGIN_NAMES.iter().chain(others).copied();
        render::activity::print_plugin_activity_blocks(acted, shown, is_loaded);
    }
    let did_nothing = |name: &&&str| {
        !acted
            .get(name)
            .is_some_and(activity::PluginActivity::has_lasting_or_outgoing_effects)
    };
    let idle: Vec<&&str> = CORE_PLUGIN_NAMES.iter().filter(did_nothing).collect();
    if !is_json {
        let n_acted = CORE_PLUGIN_NAMES.len() - idle.len();
        render::print_note(&format!(
            "{n_acted} of {} core plugins were active in this turn",
            CORE_PLUGIN_NAMES.len()
        ));
    }
    for name in &idle {
        let what = if is_loaded(name) {
            "is loaded but was not active in this turn"
        } else {
            "is not loaded; `rind plugin list` says why"
        };
        render::print_warning(&format!("{name} {what}"));
    }
    Ok(ExitStatus::from_success_flag(idle.is_empty()))
}

/// Returns the folders of this installation's plugins and of the examples. Only demos load the
/// examples, because tools such as a greeting have no use in real work.
fn demo_plugin_folders() -> anyhow::Result<Vec<PathBuf>> {
    let folders = process_environment()
        .list_bundled_plugin_folders()?
        .into_iter();
    Ok(folders.chain([carried::example_plugins_folder()]).collect())
}

/// Checks that at least one core plugin is loaded; otherwise the demo would show nothing.
fn check_any_core_plugin_is_loaded(plugins: &FoundPluginSet) -> anyhow::Result<()> {
    let is_core = |name: &str| CORE_PLUGIN_NAMES.contains(&name);
    if plugins.plugins.iter().any(|p| is_core(&p.manifest.name)) {
        return Ok(());
    }
    let folders = process_environment()
        .list_bundled_plugin_folders()?
        .into_iter();
    let folders: Vec<_> = folders.map(|folder| folder.display().to_string()).collect();
    bail_usage!(
        "no core plugin runs, so there is nothing to show; they were looked for in {}, and `rind plugin list` says why others do \
         not run",
        folders.join(", ")
    )
}

fn print_story_intro(story: &ScriptedDemoTurn, plugins: &FoundPluginSet, workspace: &Path) {
    render::print_stderr_line(render::style_text(render::BOLD_STYLE, story.title));
    render::print_note(&format!(
        "workspace {}, the model is a script, every tool call is approved",
        workspace.display()
    ));
    if !story.learnt.is_empty() {
        render::print_note("the stores of the quartermasters are filled as if after 60 turns");
    }
    for setting in story.settings {
        render::print_note(&render::truncate_to_one_line(
            &format!("--set {setting}"),
            100,
        ));
    }
    if story.is_for_all {
        let took: Duration = plugins.plugins.iter().map(|plugin| plugin.load_time).sum();
        let n = render::format_count_with_noun(plugins.plugins.len() as u64, "plugin");
        render::print_note(&format!("{n} loaded in {} ms", took.as_millis()));
    } else {
        plugins
            .plugins
            .iter()
            .for_each(|plugin| render::plugins::print_loaded_plugin(plugin));
    }
    render::print_stderr_line("");
}
