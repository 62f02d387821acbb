//! `rind plugin dev`: a plugin that is being written takes the place of its last version in a session that goes on.
//!
//! The folder is looked at, built and loaded as ever. What does not build or load, or wants more than was granted, changes
//! nothing. Start from [`dev`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::super::args::{ModelArgs, PluginArgs, ShowArgs};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::files;
use super::super::open::approver;
use super::super::programs::Programs;
use super::super::run::{Interrupts, show_all};
use super::super::telemetry::Telemetry;
use super::super::{grants, project, render, sandbox, setup};
use super::build_quietly;
use crate::config::Config;
use crate::grant::ask::GrantOptions;
use crate::grant::decide::GrantFlag;
use crate::host::{PluginReplacer, Session};
use crate::plugin::load::{LoadOptions, PluginSet};
use crate::plugin::manifest::{FILE_NAME, Manifest};
use crate::tool::policy::PolicyMode;

#[derive(Debug, ClapArgs)]
pub(in super::super) struct DevArgs {
    /// Folder of the plugin
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Run this prompt, and again in the same session whenever the plugin was replaced after the turn
    #[arg(long, value_name = "PROMPT")]
    run: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    show: ShowArgs,
    /// Say yes to every tool call that would be asked about; what is denied stays denied
    #[arg(long)]
    yes: bool,
    /// Append every event as a line of JSON to this file
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Folder to work in, in place of the current one
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

/// Runs until Ctrl-C.
pub(in super::super) async fn dev(mut args: DevArgs) -> anyhow::Result<ExitStatus> {
    if !args.dir.join(FILE_NAME).is_file() {
        bail_usage!(
            "{} has no {FILE_NAME}, so it is no plugin",
            args.dir.display()
        );
    }
    let dir = args.dir.canonicalize().context("find the plugin")?;
    let seen = files::of(&dir);
    let cancel = CancellationToken::new();
    tokio::spawn(
        Interrupts::new()
            .context("listen for Ctrl-C")?
            .pass_on(cancel.clone()),
    );
    if let Err(why) = build_quietly(&dir, &cancel).await {
        render::plugins::not_built(&why);
        return Ok(ExitStatus::Failed);
    }
    args.plugins.plugin.push(dir.clone());
    let name = Manifest::read(&dir, None)?.name;
    let (session, reload, questions) = open(&args, &name).await?;
    let (told, replaced) = unbounded_channel();
    let author = Author {
        replacer: session.replacer(),
        dir,
        name,
        reload,
        told,
    };
    let following = tokio::spawn(author.follow(seen, cancel.clone()));
    let exit = turns(session, args, questions, replaced, &cancel).await;
    following.abort();
    exit
}

/// Runs the prompt, waits until the plugin was replaced, and so on.
async fn turns(
    mut session: Session,
    args: DevArgs,
    questions: UnboundedReceiver<super::super::approve::Asked>,
    mut replaced: UnboundedReceiver<()>,
    cancel: &CancellationToken,
) -> anyhow::Result<ExitStatus> {
    let over = CancellationToken::new();
    let shown = tokio::spawn(show_all(
        render::turn::TurnRenderer::new(args.show),
        Telemetry::from_env(),
        session.events(),
        questions,
        cancel.clone(),
        over.clone(),
        Programs::open(args.events.as_deref(), None)?,
    ));
    let mut ran = Ok(());
    while !cancel.is_cancelled() {
        // What came while the turn ran has been seen by it.
        while replaced.try_recv().is_ok() {}
        if let Some(prompt) = &args.run {
            ran = session.turn(prompt).until(cancel).await.map(drop);
            if ran.is_err() {
                break;
            }
        }
        tokio::select! {
            () = cancel.cancelled() => {}
            next = replaced.recv() => if next.is_none() {
                break;
            },
        }
    }
    let closed = session.close().await;
    over.cancel();
    let _ = shown.await;
    ran?;
    closed?;
    Ok(ExitStatus::Interrupted)
}

/// Opens a session with the plugin in it, and says how later versions are loaded.
async fn open(
    args: &DevArgs,
    name: &str,
) -> anyhow::Result<(
    Session,
    LoadOptions,
    UnboundedReceiver<super::super::approve::Asked>,
)> {
    use std::io::IsTerminal;

    let paths = setup::paths(args.workspace.as_deref())?;
    setup::check_apart(&paths)?;
    let has_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let project = project::trusted(&paths, args.plugins.trust_project, has_terminal).await?;
    let config: Config = setup::config(&paths, &args.model, project.as_deref())?;
    let provider = setup::provider(&paths, &config, &args.model, None)?;
    let grants = grants::options(&paths, &args.plugins, None, has_terminal)?;
    let options = setup::load_options(&paths, &config, &args.plugins, project, grants)?;
    let plugins = PluginSet::load(&options).await.context("load plugins")?;
    let plugins = Arc::new(plugins);
    setup::check_plugins(&args.plugins, &config, &plugins)?;
    plugins
        .left_out
        .iter()
        .for_each(render::plugins::warn_left_out);
    plugins.check_required()?;
    plugins.check_relied()?;
    let Some(plugin) = plugins
        .plugins
        .iter()
        .find(|plugin| plugin.manifest.name == name)
    else {
        bail_usage!("plugin `{name}` does not run, so there is nothing to watch");
    };
    // Later versions get what this one was granted and no more; nobody is asked in the middle of a turn.
    let granted = plugin.granted.capabilities().iter();
    let granted: Vec<String> = granted.map(ToString::to_string).collect();
    let flag = (!granted.is_empty()).then(|| format!("{name}={}", granted.join(",")));
    let flag: Option<GrantFlag> = flag
        .map(|flag| flag.parse())
        .transpose()
        .map_err(anyhow::Error::msg)?;
    let reload = LoadOptions {
        grants: GrantOptions {
            policy: options.grants.policy.clone(),
            answers: None,
            session: None,
            flags: flag.into_iter().collect(),
            ask: None,
        },
        ..options
    };
    let (approver, questions) = approver(has_terminal);
    let parts = setup::Parts {
        paths: &paths,
        config: &config,
        provider,
        plugins,
        resume: None,
        mode: PolicyMode {
            yes: args.yes,
            has_terminal,
            ..PolicyMode::default()
        },
        approver,
        commands: sandbox::sandbox(&paths, &config).await?.commands(),
    };
    Ok((setup::session(parts).await?, reload, questions))
}

/// Follows the files of a plugin.
struct Author {
    replacer: PluginReplacer,
    dir: PathBuf,
    name: String,
    reload: LoadOptions,
    /// Told when a new version takes its place.
    told: UnboundedSender<()>,
}

impl Author {
    async fn follow(self, mut seen: files::Files, cancel: CancellationToken) {
        render::note(&format!(
            "watching {}; Ctrl-C ends this",
            self.dir.display()
        ));
        loop {
            let changed = files::change(&self.dir, &seen).await;
            // Before the build: what changes while it runs is built again.
            seen = files::of(&self.dir);
            render::note(&format!(
                "{} changed",
                relative(&changed, &self.dir).display()
            ));
            match self.replace(&cancel).await {
                Ok(()) => {
                    render::note(&format!(
                        "plugin {} is replaced before the next step",
                        self.name
                    ));
                    if self.told.send(()).is_err() {
                        return;
                    }
                }
                Err(why) => {
                    render::plugins::not_built(&why);
                    render::note(&format!("the last version of plugin {} goes on", self.name));
                }
            }
        }
    }

    /// Builds and loads the plugin and puts it in place.
    async fn replace(&self, cancel: &CancellationToken) -> Result<(), String> {
        build_quietly(&self.dir, cancel).await?;
        let set = PluginSet::load(&self.reload).await;
        let set = set.map_err(|error| error.to_string())?;
        let replaced = self.replacer.replace(&set, &self.name);
        replaced.map_err(|error| format!("plugin `{}`: {error}", self.name))
    }
}

fn relative<'a>(path: &'a Path, dir: &Path) -> &'a Path {
    path.strip_prefix(dir).unwrap_or(path)
}
