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

use self::activity::{ActivityKind, TurnActivity};
use self::story::DemoStory;
use super::args::{DemoArgs, ShowArgs};
use super::environment::{find_paths, operator_environment};
use super::exit_code::{ExitStatus, bail_usage};
use super::programs::TurnFollowers;
use super::render::trace::TraceDetail;
use super::{carried, open, render, run};
use rind_lib::grant::ask::GrantOptions;
use rind_lib::lock::lock;
use rind_lib::paths::Paths;
use rind_lib::plugin::load::PluginSet;
use rind_lib::plugin::startable::StartableSet;
use rind_lib::provider::SelectedModel;
use rind_lib::provider::scripted::Scripted;
use rind_lib::tool::policy::{ModeSwitch, PolicyMode};
use rind_operator::confinement;
use rind_operator::host::{OperatorHost, OperatorHostParts};
use rind_operator::load::PreparedPluginLoad;
use rind_operator::settings::{ModelSelection, PluginSelection, SessionChoice};
use rind_operator::setup::OperatorSetup;

/// The core plugins, in the order of their priorities. Each of them acts in the long story.
pub(super) const CORE: [&str; 10] = include!("../../../../../plugins/core.json");

pub(super) async fn run_demo(args: DemoArgs) -> anyhow::Result<ExitStatus> {
    let story = if args.all { &story::ALL } else { &story::SHORT };
    let here = find_paths(None)?;
    let folder = tempfile::Builder::new()
        .prefix("rind-demo-")
        .tempdir()
        .context("create a temporary folder")?;
    let paths = Paths {
        data: folder.path().join("data"),
        workspace: folder.path().join("tide-station"),
        ..here.clone()
    };
    let workspace = &paths.workspace;
    story
        .write_files(workspace)
        .with_context(|| format!("write the files of the demo to {}", workspace.display()))?;
    let model = ModelSelection {
        set: story.settings.iter().map(ToString::to_string).collect(),
        ..ModelSelection::default()
    };
    let mut setup = OperatorSetup::read(operator_environment(), here, &model, None)?;
    // Load only the bundled plugins: the settings that the demo writes must not affect plugins that
    // are installed on this machine.
    let load =
        PreparedPluginLoad::new(&setup, &PluginSelection::default(), GrantOptions::default())?
            .search_plugins_only_in(demo_folders()?)
            .with_plugin_folders(&paths);
    let plugins = load.load().await.context("load plugins")?;
    setup.paths = paths;
    let paths = &setup.paths;
    let plugins = Arc::new(plugins);
    render::plugins::warn_left_out(&plugins);
    check_core_plugins(&plugins)?;
    story.write_stored_values(&plugins.stores())?;
    if !args.json {
        print_story_intro(story, &plugins, &paths.workspace);
    }
    let (approver, questions, _) = open::choose_approver(false);
    let parts = OperatorHostParts {
        skills: Arc::default(),
        presets: Arc::default(),
        provider: SelectedModel {
            provider: Arc::new(Scripted::from_toml(story.script)?),
            model: story.model.to_owned(),
            why: "this is the demo".to_owned(),
            is_stand_in: false,
        },
        plugins: StartableSet::check(plugins.clone())?,
        mode: PolicyMode {
            yes: true,
            dry_run: false,
            has_terminal: false,
        },
        switch: ModeSwitch::default(),
        approver,
        commands: confinement::find_confinement(&setup)
            .await?
            .command_environment(),
        sources: Vec::new(),
        store: None,
        set: None,
    };
    let host = OperatorHost::new(&setup, parts).await?;
    let session = host.session(&SessionChoice::New)?;
    let id = session.id().clone();
    let acted = Arc::new(Mutex::new(TurnActivity::default()));
    let watched = acted.clone();
    let show = ShowArgs {
        hides_answer: false,
        json: args.json,
        trace: (!args.all).then_some(TraceDetail::Short),
    };
    let watch = move |event: &_| lock(&watched).record_event(event);
    let mut exit = run::run_turn(
        session,
        questions,
        story.prompt,
        show,
        TurnFollowers::with_event_watch(watch),
    )
    .await?;
    if args.all && exit == ExitStatus::Done {
        let mut acted = std::mem::take(&mut *lock(&acted));
        exit = report_demo_activity(&mut acted, &plugins, paths, &id, args.json)?;
    }
    if args.keep {
        render::print_note(&format!("kept in {}", folder.keep().display()));
    }
    Ok(exit)
}

/// Shows the actions of each plugin. Returns a failure if a core plugin did nothing.
fn report_demo_activity(
    acted: &mut TurnActivity,
    plugins: &PluginSet,
    paths: &Paths,
    session: &str,
    is_json: bool,
) -> anyhow::Result<ExitStatus> {
    let names = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    let loaded: Vec<&str> = names.collect();
    let is_loaded = |name: &str| loaded.contains(&name);
    for line in heard::take_log_lines() {
        acted.add_activity(&line.plugin, ActivityKind::Logged, line.text);
    }
    if is_loaded(PLUGIN) {
        let checked = super::audit::check_audit_log(paths, session)?.unwrap_or_default();
        match checked.broken {
            Some(why) => render::print_warning(&format!("the log of {PLUGIN} is broken: {why}")),
            None if !checked.gaps.is_empty() => {
                let gap = &checked.gaps[0];
                render::print_warning(&format!("the log of {PLUGIN} has a gap: {gap}"));
            }
            None if checked.lines.is_empty() => {}
            None => {
                let lines = render::format_count(checked.lines.len() as u64, "line");
                let whole = format!(
                    "a log of {lines}; verified: each line contains the hash of the line before it"
                );
                acted.add_activity(PLUGIN, ActivityKind::Left, whole);
            }
        }
    }
    if !is_json {
        let others = loaded.iter().filter(|name| !CORE.contains(name));
        let shown = CORE.iter().chain(others).copied();
        render::activity::report_activity(acted, shown, is_loaded);
    }
    let did_nothing = |name: &&&str| {
        !acted
            .get(name)
            .is_some_and(activity::PluginActivity::has_effects)
    };
    let idle: Vec<&&str> = CORE.iter().filter(did_nothing).collect();
    if !is_json {
        let n_acted = CORE.len() - idle.len();
        render::print_note(&format!(
            "{n_acted} of {} core plugins were active in this turn",
            CORE.len()
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
    Ok(ExitStatus::from_success(idle.is_empty()))
}

/// Returns the folders of this installation's plugins and of the examples. Only demos load the
/// examples, because tools such as a greeting have no use in real work.
fn demo_folders() -> anyhow::Result<Vec<PathBuf>> {
    let folders = operator_environment().list_managed_folders()?.into_iter();
    Ok(folders.chain([carried::examples_folder()]).collect())
}

/// Checks that at least one core plugin is loaded; otherwise the demo would show nothing.
fn check_core_plugins(plugins: &PluginSet) -> anyhow::Result<()> {
    let is_core = |name: &str| CORE.contains(&name);
    if plugins.plugins.iter().any(|p| is_core(&p.manifest.name)) {
        return Ok(());
    }
    let folders = operator_environment().list_managed_folders()?.into_iter();
    let folders: Vec<_> = folders.map(|folder| folder.display().to_string()).collect();
    bail_usage!(
        "no core plugin runs, so there is nothing to show; they were looked for in {}, and `rind plugin list` says why others do \
         not run",
        folders.join(", ")
    )
}

fn print_story_intro(story: &DemoStory, plugins: &PluginSet, workspace: &Path) {
    render::say_line(render::style_text(render::BOLD, story.title));
    render::print_note(&format!(
        "workspace {}, the model is a script, every tool call is approved",
        workspace.display()
    ));
    if !story.learnt.is_empty() {
        render::print_note("the stores of the quartermasters are filled as if after 60 turns");
    }
    for setting in story.settings {
        render::print_note(&render::one_line(&format!("--set {setting}"), 100));
    }
    if story.is_for_all {
        let took: Duration = plugins.plugins.iter().map(|plugin| plugin.load_time).sum();
        let n = render::format_count(plugins.plugins.len() as u64, "plugin");
        render::print_note(&format!("{n} loaded in {} ms", took.as_millis()));
    } else {
        plugins
            .plugins
            .iter()
            .for_each(|plugin| render::plugins::print_loaded_plugin(plugin));
    }
    render::say_line("");
}
