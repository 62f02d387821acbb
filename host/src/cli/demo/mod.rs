//! `rind demo`: a whole turn on a bare machine. The first-party plugins are compiled from their sources, the model is a
//! script, everything else is real: files, tools, hooks, the session.

pub(super) mod activity;
pub(super) mod heard;
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rind_audit::PLUGIN;

use self::activity::{Kind, TurnActivity};
use self::story::Story;
use super::args::{DemoArgs, ModelArgs, PluginArgs, ShowArgs};
use super::exit_code::{ExitStatus, bail_usage};
use super::render::trace::Detail;
use super::sandbox::sandbox;
use super::{plugin, render, run, setup};
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::paths::Paths;
use crate::plugin::discover::Source;
use crate::plugin::load::PluginSet;
use crate::plugin::manifest::FILE_NAME;
use crate::provider::Selected;
use crate::provider::scripted::Scripted;
use crate::tool::policy::PolicyMode;

/// The plugins that are the core, in the order of their priorities. Each has something to do in the long story.
const CORE: [&str; 10] = include!("../../../../plugins/core.json");

pub(super) async fn demo(args: DemoArgs) -> anyhow::Result<ExitStatus> {
    let story = if args.all { &story::ALL } else { &story::SHORT };
    let here = setup::paths(None)?;
    let sources = build_plugins(&here.cache.join("demo")).await?;
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
    let set = ModelArgs {
        set: story.settings.iter().map(ToString::to_string).collect(),
        ..ModelArgs::default()
    };
    let config = setup::config(&here, &set, None)?;
    let mut options = setup::load_options(
        &here,
        &config,
        &PluginArgs::default(),
        None,
        GrantOptions::default(),
    )?;
    options.sources = sources;
    // The settings of the story speak of plugins that this machine need not have.
    options.expects_installed = false;
    options.data = paths.data.join("plugins");
    options.workspace.clone_from(workspace);
    let plugins = PluginSet::load(&options).await.context("load plugins")?;
    let plugins = Arc::new(plugins);
    plugins
        .left_out
        .iter()
        .for_each(render::plugins::warn_left_out);
    check_core(&plugins)?;
    story.write_learnt(&plugins.stores())?;
    if !args.json {
        introduce(story, &plugins, workspace);
    }
    let (approver, questions) = run::approver(false);
    let parts = setup::Parts {
        paths: &paths,
        config: &config,
        provider: Selected {
            provider: Arc::new(Scripted::from_toml(story.script)?),
            model: story.model.to_owned(),
            why: "this is the demo".to_owned(),
        },
        plugins: plugins.clone(),
        resume: None,
        mode: PolicyMode {
            yes: true,
            dry_run: false,
            has_terminal: false,
        },
        approver,
        commands: sandbox(&paths, &config).await?.commands(),
    };
    let session = setup::session(parts).await?;
    let id = session.id().clone();
    let acted = Arc::new(Mutex::new(TurnActivity::default()));
    let watched = acted.clone();
    let show = ShowArgs {
        json: args.json,
        trace: (!args.all).then_some(Detail::Short),
    };
    let watch = move |event: &_| lock(&watched).see(event);
    let mut exit = run::turn(session, questions, story.prompt, show, Box::new(watch)).await?;
    if args.all && exit == ExitStatus::Done {
        let mut acted = std::mem::take(&mut *lock(&acted));
        exit = judge(&mut acted, &plugins, &paths, &id, args.json)?;
    }
    if args.keep {
        render::note(&format!("kept in {}", folder.keep().display()));
    }
    Ok(exit)
}

/// Shows who did what. It has failed when a core plugin did nothing.
fn judge(
    acted: &mut TurnActivity,
    plugins: &PluginSet,
    paths: &Paths,
    session: &str,
    is_json: bool,
) -> anyhow::Result<ExitStatus> {
    let names = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    let loaded: Vec<&str> = names.collect();
    let is_loaded = |name: &str| loaded.contains(&name);
    for line in heard::take() {
        acted.add(&line.plugin, Kind::Logged, line.text);
    }
    if is_loaded(PLUGIN) {
        let checked = super::audit::checked(paths, session)?.unwrap_or_default();
        match checked.broken {
            Some(why) => render::warn(&format!("the log of {PLUGIN} is broken: {why}")),
            None if !checked.gaps.is_empty() => {
                let gap = &checked.gaps[0];
                render::warn(&format!("the log of {PLUGIN} has a gap: {gap}"));
            }
            None if checked.lines.is_empty() => {}
            None => {
                let lines = render::count(checked.lines.len() as u64, "line");
                let whole =
                    format!("a log of {lines}; checked: each holds the hash of the one before");
                acted.add(PLUGIN, Kind::Left, whole);
            }
        }
    }
    if !is_json {
        let others = loaded.iter().filter(|name| !CORE.contains(name));
        let shown = CORE.iter().chain(others).copied();
        render::activity::report(acted, shown, is_loaded);
    }
    let did_nothing = |name: &&&str| {
        !acted
            .get(name)
            .is_some_and(activity::PluginActivity::is_any)
    };
    let idle: Vec<&&str> = CORE.iter().filter(did_nothing).collect();
    if !is_json {
        let n_acted = CORE.len() - idle.len();
        render::note(&format!("{n_acted} of {} core plugins acted", CORE.len()));
    }
    for name in &idle {
        let what = if is_loaded(name) {
            "is loaded and was not active in this turn"
        } else {
            "is not loaded; `rind plugin list` says why"
        };
        render::warn(&format!("{name} {what}"));
    }
    Ok(ExitStatus::of(idle.is_empty()))
}

fn lock(acted: &Mutex<TurnActivity>) -> MutexGuard<'_, TurnActivity> {
    acted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles the core plugins into the managed folder, where every later run finds them too, and the examples into one that
/// only demos look in: a tool that greets is nothing to offer in real work. Without their sources, which is how an installed
/// binary runs, the managed folder is taken as it is.
async fn build_plugins(of_demos: &Path) -> anyhow::Result<Vec<Source>> {
    let mut folders = setup::managed_folders();
    if let (Some(sources), Some(managed)) = (plugin_sources(), folders.first()) {
        let is_core = |folder: &PathBuf| {
            let name = folder.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| CORE.contains(&name))
        };
        let (core, examples) = sources.into_iter().partition(is_core);
        for (sources, out) in [(core, managed.as_path()), (examples, of_demos)] {
            let (report, is_told) = plugin::build_all(sources, Some(out.to_owned())).await?;
            if !report.failed.is_empty() {
                render::plugins::built(&report, is_told);
                anyhow::bail!("some plugins were not built");
            }
        }
        folders.push(of_demos.to_owned());
    }
    Ok(folders
        .into_iter()
        .map(|path| Source::new(Trust::Managed, path))
        .collect())
}

/// A demo without a single core plugin would show nothing.
fn check_core(plugins: &PluginSet) -> anyhow::Result<()> {
    let is_core = |name: &str| CORE.contains(&name);
    if plugins.plugins.iter().any(|p| is_core(&p.manifest.name)) {
        return Ok(());
    }
    let folders = setup::managed_folders();
    let folder = folders
        .first()
        .map_or_else(String::new, |folder| format!(" to {}", folder.display()));
    bail_usage!(
        "there are no plugins to show: run `rind demo` in a checkout of Rind, where it compiles them{folder}, or copy them \
         there"
    )
}

/// Folders of the first-party plugins' crates, in the checkout that holds the current folder or the binary.
fn plugin_sources() -> Option<Vec<PathBuf>> {
    let starts = [std::env::current_dir(), std::env::current_exe()];
    let above = starts.iter().flatten().flat_map(|path| path.ancestors());
    let checkout = above
        .map(Path::to_owned)
        .find(|folder| folder.join("plugins/hello").join(FILE_NAME).is_file())?;
    let entries = fs::read_dir(checkout.join("plugins")).ok()?;
    let is_crate =
        |folder: &PathBuf| folder.join(FILE_NAME).is_file() && folder.join("Cargo.toml").is_file();
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_crate)
        .collect();
    folders.sort();
    Some(folders)
}

fn introduce(story: &Story, plugins: &PluginSet, workspace: &Path) {
    render::say(render::styled(render::BOLD, story.title));
    render::note(&format!(
        "workspace {}, the model is a script, every tool call is answered with yes",
        workspace.display()
    ));
    if !story.learnt.is_empty() {
        render::note("the stores of the quartermasters are filled as if after 60 turns");
    }
    for setting in story.settings {
        render::note(&render::one_line(&format!("--set {setting}"), 100));
    }
    if story.is_for_all {
        let took: Duration = plugins.plugins.iter().map(|plugin| plugin.load_time).sum();
        let n = render::count(plugins.plugins.len() as u64, "plugin");
        render::note(&format!("{n} loaded in {} ms", took.as_millis()));
    } else {
        plugins
            .plugins
            .iter()
            .for_each(|plugin| render::plugins::loaded(plugin));
    }
    render::say("");
}
