//! `rind plugin`: implements `list`, `points`, `inspect` and `build`; other subcommands have their
//! own files.

pub(super) mod args;
pub(super) mod dev;
pub(super) mod new;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use self::args::{PluginBuildArgs, PluginInspectArgs, PluginListArgs};
use super::args::PluginArgs;
use super::environment::{find_rind_paths, read_operator_workspace_setup};
use super::exit_code::{ExitStatus, bail_usage};
use super::{alone, guard, render};
use rind_author::build::{BuildOptions, BuildReport, ProgressCallback, SharedPluginBuildFolders};
use rind_lib::grant::Trust;
use rind_lib::plugin::Error;
use rind_lib::plugin::inspect::{self, PluginReport};
use rind_lib::plugin::load::{FoundPluginSet, PluginSkipReason, SkippedPlugin};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::point_use::list_extension_point_usages;
use rind_operator::load::PluginLoadPlan;
use rind_operator::settings::ModelSelection;
use rind_operator::{grants, plugin_flags, scripts};

/// Deadline for a build. A first build compiles the SDK's dependencies, which takes a minute or two
/// on a small machine.
const PLUGIN_BUILD_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Prepares to load the plugins that a session in this folder would have, without asking questions.
pub(super) async fn plan_session_plugin_load(args: &PluginArgs) -> anyhow::Result<PluginLoadPlan> {
    let selection = args.to_plugin_selection();
    let setup =
        read_operator_workspace_setup(None, &ModelSelection::default(), selection.trust_project)
            .await?;
    let grants =
        grants::build_permission_grant_options(&setup.paths, &selection.grants, None, None)?;
    PluginLoadPlan::new(&setup, &selection, grants)
}

/// Loads the plugins that a session in this folder would have.
pub(super) async fn load_session_plugins(args: &PluginArgs) -> anyhow::Result<FoundPluginSet> {
    let load = plan_session_plugin_load(args).await?;
    load.load().await.context("cannot load plugins")
}

pub(super) async fn list_plugins(args: PluginListArgs) -> anyhow::Result<ExitStatus> {
    let load = plan_session_plugin_load(&args.plugins).await?;
    plugin_flags::check_plugin_folders_contain_plugin(&args.plugins.to_plugin_selection())?;
    let plugins = load.load().await.context("cannot load plugins")?;
    load.check_selected_plugins(&plugins)?;
    let all = plugins.plugins.iter();
    let reports: Vec<PluginReport> = all
        .map(|plugin| inspect::build_plugin_report(plugin))
        .collect();
    let scripts = scripts::read_scripts(load.operator_setup())?;
    let found = plugins.left_out.len() + plugins.absent.len() + scripts.len();
    if args.json {
        render::plugins::print_plugins_json(&reports, &plugins, &scripts)?;
    } else if reports.is_empty() && found == 0 {
        render::print_note(
            "no plugins are installed; see `rind plugin install --help` and `rind plugin new --help`, and `--plugin PATH` of \
             `rind run`",
        );
    } else {
        reports.iter().for_each(render::plugins::print_plugin_row);
        plugins
            .left_out
            .iter()
            .for_each(render::plugins::print_not_loaded_plugin);
        plugins
            .absent
            .iter()
            .for_each(render::plugins::print_missing_required_plugin);
        scripts.iter().for_each(render::scripts::print_script);
        for collision in plugins.find_tool_collisions() {
            render::print_warning(&collision.to_string());
        }
        scripts::warn_writable_scripts(load.operator_setup(), &scripts)?;
        render::plugins::print_hooks_delaying_answers(&reports, &scripts);
    }
    Ok(exit_status_for_plugins(&plugins))
}

pub(super) async fn list_extension_points(args: PluginListArgs) -> anyhow::Result<ExitStatus> {
    let load = plan_session_plugin_load(&args.plugins).await?;
    plugin_flags::check_plugin_folders_contain_plugin(&args.plugins.to_plugin_selection())?;
    let plugins = load.load().await.context("cannot load plugins")?;
    load.check_selected_plugins(&plugins)?;
    let uses = list_extension_point_usages(plugins.plugins.iter().map(|plugin| &**plugin));
    if args.json {
        render::print_json(&serde_json::json!({ "points": uses }))?;
    } else {
        render::points::print_extension_points(&uses);
    }
    Ok(exit_status_for_plugins(&plugins))
}

/// Returns a failure if a plugin failed to load, or does not run or is missing although the
/// operator relies on it.
fn exit_status_for_plugins(plugins: &FoundPluginSet) -> ExitStatus {
    let is_missed = |left: &SkippedPlugin| {
        matches!(left.why, PluginSkipReason::Failed(_)) || left.reliance.is_some()
    };
    ExitStatus::from_success_flag(
        !plugins.left_out.iter().any(is_missed) && plugins.absent.is_empty(),
    )
}

pub(super) async fn inspect_plugin(args: PluginInspectArgs) -> anyhow::Result<ExitStatus> {
    let path = Path::new(&args.plugin);
    let is_folder = path.join(FILE_NAME).is_file();
    let plugin_args = if is_folder {
        PluginArgs {
            plugin: vec![path.to_owned()],
            no_plugins: true,
            ..PluginArgs::default()
        }
    } else {
        PluginArgs::default()
    };
    let mut load = plan_session_plugin_load(&plugin_args).await?;
    // Load disabled plugins too, because a person may inspect a plugin before enabling it.
    let off = load.enable_all_plugins();
    let plugins = load.load().await.context("cannot load plugins")?;
    let is_it = |name: &str, trust| {
        if is_folder {
            trust == Trust::Local
        } else {
            name == args.plugin
        }
    };
    let loaded = plugins.plugins.iter().map(|plugin| (&***plugin, None));
    let held = plugins.left_out.iter().filter_map(|left| match &left.why {
        PluginSkipReason::Held(plugin) | PluginSkipReason::Failed(Error::Denied { plugin, .. }) => {
            Some((
                &**plugin,
                Some(render::plugins::plugin_not_loaded_reason(left)),
            ))
        }
        _ => None,
    });
    if let Some((plugin, stopped)) = loaded
        .chain(held)
        .find(|(p, _)| is_it(&p.manifest.name, p.trust))
    {
        let mut report = inspect::build_plugin_report(plugin);
        report.has_own_manifest = inspect::has_matching_embedded_manifest(plugin);
        let off = off.get(&(report.name.clone(), plugin.trust == Trust::Project));
        report.stopped = off
            .map(|place| format!("switched off by {place}"))
            .or(stopped);
        if args.json {
            render::print_json(&report)?;
        } else if args.grants {
            render::grants::print_permission_table(&report);
        } else {
            render::plugins::print_plugin_report(&report);
            let points = report.hooks.iter().map(|hook| hook.point.as_str());
            let covers =
                guard::coverage_by_installed_guards(&report.name, &points.collect::<Vec<_>>());
            render::guard::print_effective_and_inert_hook_points(&covers);
        }
        return Ok(ExitStatus::Done);
    }
    let mut left_out = plugins.left_out.into_iter();
    match left_out.find(|left| is_it(&left.name, left.found.trust)) {
        Some(SkippedPlugin {
            why: PluginSkipReason::Failed(error),
            ..
        }) => {
            let context = format!("inspect plugin `{}`", args.plugin);
            Err(anyhow::Error::new(error).context(context))
        }
        Some(left) => {
            let why = render::plugins::plugin_not_loaded_reason(&left);
            bail_usage!("plugin `{}` is {why}", args.plugin)
        }
        None => bail_usage!(
            "there is no plugin `{}`: it is neither a folder with a plugin.toml nor listed by `rind plugin list`",
            args.plugin
        ),
    }
}

pub(super) async fn run_plugin_build(args: PluginBuildArgs) -> anyhow::Result<ExitStatus> {
    // Before minutes of compiling, report manifests that the loader would refuse. The build itself
    // reports missing folders.
    let refused = |dir: &PathBuf| match Manifest::read(dir, None) {
        Err(error @ Error::Manifest { .. }) => Some(error),
        _ => None,
    };
    let refused: Vec<_> = args.dirs.iter().filter_map(refused).collect();
    if !refused.is_empty() {
        let lines = refused.iter().map(|error| format!("{error:#}"));
        lines.for_each(|line| render::plugins::print_build_failure(&line));
        return Ok(ExitStatus::Failed);
    }
    let started = Instant::now();
    let (mut report, are_lines_shown) = build_plugins_with_progress(args.dirs, args.out).await?;
    let unloadable = find_unloadable_plugins(&mut report).await?;
    if let [built] = &mut report.built[..] {
        // Use the total time for a single plugin: it includes the checks of the toolchain, which
        // several plugins would share.
        built.seconds = started.elapsed().as_secs_f64();
    }
    report
        .built
        .retain(|plugin| !unloadable.iter().any(|(name, _)| *name == plugin.name));
    render::plugins::print_build_results(&report, are_lines_shown);
    for (name, why) in &unloadable {
        render::plugins::print_build_failure(&format!(
            "plugin `{name}` was compiled, and cannot be loaded: {why}"
        ));
    }
    Ok(ExitStatus::from_success_flag(
        report.failed.is_empty() && unloadable.is_empty(),
    ))
}

/// Returns the built plugins that no host would load, with the reasons: for example a manifest that
/// does not cover the component, or tools that cannot be offered. Ignores reasons that depend on
/// the operator, such as settings, grants and other plugins. Adds the time for loading each plugin
/// to its build time.
async fn find_unloadable_plugins(
    report: &mut BuildReport,
) -> anyhow::Result<Vec<(String, String)>> {
    let mut unloadable = Vec::new();
    for plugin in &mut report.built {
        let started = Instant::now();
        // Find the plugin's folder, because the component may be in a subfolder.
        let is_plugin = |folder: &&Path| folder.join(FILE_NAME).is_file();
        let Some(folder) = plugin.path.ancestors().find(is_plugin) else {
            continue;
        };
        let loaded = alone::load_plugin_with_all_grants(folder).await?;
        plugin.seconds += started.elapsed().as_secs_f64();
        let why = alone::find_plugin_load_failure(&loaded, &plugin.name);
        unloadable.extend(why.map(|why| (plugin.name.clone(), why)));
    }
    Ok(unloadable)
}

/// Returns the folders that all plugins on this machine share.
pub(super) fn shared_build_folders() -> anyhow::Result<SharedPluginBuildFolders> {
    let paths = find_rind_paths(None)?;
    Ok(SharedPluginBuildFolders {
        sdks: paths.unpacked_sdks_folder(),
        builds: paths.plugin_builds(),
    })
}

/// Builds plugins and shows cargo's output as progress. Returns the report, and whether the
/// complete output was shown. Ctrl-C stops cargo too.
async fn build_plugins_with_progress(
    dirs: Vec<PathBuf>,
    out: Option<PathBuf>,
) -> anyhow::Result<(BuildReport, bool)> {
    let options = BuildOptions {
        dirs,
        out,
        deadline: PLUGIN_BUILD_DEADLINE,
        shared: Some(shared_build_folders()?),
    };
    let cancel = CancellationToken::new();
    let on_interrupt = cancel.clone();
    let interrupt = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.cancel();
        }
    });
    let progress = render::plugins::BuildProgress::start_progress();
    let line = progress.clone();
    let on_line: ProgressCallback = Arc::new(move |text| line.print_progress_line(text));
    let report = rind_author::build::build_plugins(&options, &on_line, &cancel).await;
    progress.clear_progress_line();
    interrupt.abort();
    Ok((
        report.context("cannot build plugins")?,
        progress.should_print_every_line(),
    ))
}

/// Builds one plugin without output, because a session owns the screen. The error has the text that
/// the plugin's author needs.
pub(super) async fn build_plugin_quietly(
    dir: &Path,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let options = BuildOptions {
        dirs: vec![dir.to_owned()],
        out: None,
        deadline: PLUGIN_BUILD_DEADLINE,
        shared: Some(shared_build_folders().map_err(|error| format!("{error:#}"))?),
    };
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let said = lines.clone();
    let on_line: ProgressCallback =
        Arc::new(move |text| rind_lib::lock::lock_ignoring_poison(&said).push(text.to_owned()));
    let report = rind_author::build::build_plugins(&options, &on_line, cancel).await;
    let why = match report {
        Ok(report) => match report.failed.first() {
            None => {
                // Load the plugin once, so that its compiled component is in the cache. Ignore an
                // error: the next load reports it.
                let _ = alone::load_plugin_with_all_grants(dir).await;
                return Ok(());
            }
            Some(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    Err(why)
}
