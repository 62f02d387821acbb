//! `rind demo`: a whole turn on a bare machine. The first-party plugins are compiled from their sources, the model is a
//! script, everything else is real: files, tools, hooks, the session.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::args::{DemoArgs, ModelArgs, PluginArgs, ShowArgs};
use super::exit::Exit;
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

/// What the model does.
const SCRIPT: &str = include_str!("script.toml");

/// What it is asked.
const PROMPT: &str =
    "Calibrate the tide station after the vendor's notes, and check the logs for floods.";

/// The workspace. The log is made, because it is there to be large.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("files/README.md")),
    ("notes/vendor.md", include_str!("files/vendor.md")),
    ("station.toml", include_str!("files/station.toml")),
];

/// Lines of the log: some 200 KB of search result.
const READINGS: u32 = 4000;

pub(super) async fn demo(args: DemoArgs) -> anyhow::Result<Exit> {
    let here = setup::paths(None)?;
    let plugins = build_plugins().await?;
    let folder = tempfile::Builder::new()
        .prefix("rind-demo-")
        .tempdir()
        .context("make a temporary folder")?;
    let workspace = folder.path().join("tide-station");
    write_files(&workspace)
        .with_context(|| format!("write the files of the demo to {}", workspace.display()))?;
    let config = setup::config(&here, &ModelArgs::default(), false)?;
    let mut options = setup::load_options(
        &here,
        &config,
        &PluginArgs::default(),
        false,
        GrantOptions::default(),
    )?;
    options.sources = plugins;
    options.data = folder.path().join("plugins");
    options.workspace.clone_from(&workspace);
    let plugins = PluginSet::load(&options).await.context("load plugins")?;
    plugins
        .left_out
        .iter()
        .for_each(render::plugins::warn_left_out);
    if !args.json {
        introduce(&plugins, &workspace);
    }
    let (approver, questions) = run::approver(false);
    let paths = Paths {
        data: folder.path().join("data"),
        workspace: workspace.clone(),
        ..here
    };
    let parts = setup::Parts {
        paths: &paths,
        config: &config,
        provider: Selected {
            provider: Arc::new(Scripted::from_toml(SCRIPT)?),
            model: "demo".to_owned(),
            why: "this is the demo".to_owned(),
        },
        plugins: &plugins,
        resume: None,
        mode: PolicyMode {
            yes: true,
            dry_run: false,
            has_terminal: false,
        },
        approver,
        commands: sandbox(&paths, &config).await?.commands(),
    };
    let (agent, events) = setup::agent(parts)?;
    let exit = run::turn(
        agent,
        events,
        questions,
        PROMPT,
        ShowArgs {
            json: args.json,
            trace: Some(Detail::Short),
        },
    )
    .await?;
    if args.keep {
        render::note(&format!("kept in {}", folder.keep().display()));
    }
    Ok(exit)
}

/// Compiles the first-party plugins into the managed folder, where every later run finds them too. Without their sources,
/// which is how an installed binary runs, the managed folder is taken as it is.
async fn build_plugins() -> anyhow::Result<Vec<Source>> {
    let managed = setup::managed_folders();
    if let (Some(sources), Some(out)) = (plugin_sources(), managed.first()) {
        let report = plugin::build_all(sources, Some(out.clone())).await?;
        if !report.failed.is_empty() {
            render::plugins::built(&report);
            anyhow::bail!("some plugins were not built");
        }
    }
    Ok(managed
        .into_iter()
        .map(|path| Source {
            trust: Trust::Managed,
            path,
        })
        .collect())
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

fn write_files(workspace: &Path) -> std::io::Result<()> {
    for (name, text) in FILES {
        let path = workspace.join(name);
        fs::create_dir_all(path.parent().unwrap_or(workspace))?;
        fs::write(path, text)?;
    }
    fs::create_dir_all(workspace.join("logs"))?;
    let mut log = String::new();
    for n in 0..READINGS {
        // A tide of about 12 hours between 170 and 314 cm, in whole numbers so that every run is the same.
        let phase = n % 745;
        let level = 170 + (if phase < 372 { phase } else { 744 - phase }) * 144 / 372;
        let _ = writeln!(
            log,
            "day={:02} minute={:04} level_cm={level}",
            n / 1440 + 1,
            n % 1440
        );
    }
    fs::write(workspace.join("logs/readings.log"), log)
}

fn introduce(plugins: &PluginSet, workspace: &Path) {
    render::heading("A turn through sandboxed plugins");
    render::note(&format!(
        "workspace {}, the model is a script, every tool call is answered with yes",
        workspace.display()
    ));
    for plugin in &plugins.plugins {
        render::plugins::loaded(plugin);
    }
    render::say("");
}
