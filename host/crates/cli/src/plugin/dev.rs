//! `rind plugin dev`: rebuilds a plugin after each change and replaces it in a running session.
//!
//! The folder is checked, built and loaded as usual. If the build or load fails, or the new version
//! requests more permissions than were granted, the session keeps the last version. Start from
//! [`run_plugin_dev`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::super::args::{SessionOpenArgs, TurnOutputArgs};
use super::super::command::SlashCommandSet;
use super::super::environment::{find_rind_paths, process_environment};
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::open::{SessionWithUserQuestionChannels, prepare_session};
use super::super::programs::TurnInputOutputChannels;
use super::super::run::show_events_and_ask_questions;
use super::super::signals::ShutdownSignals;
use super::super::telemetry::TraceExporter;
use super::super::terminal::can_ask_at_terminal;
use super::super::{chat, files, render};
use super::{build_plugin_quietly, shared_build_folders};
use rind_author::BuildError;
use rind_lib::host::PluginReplacer;
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::point::outcome::Level;
use rind_operator::confinement::writable_agent_folders;
use rind_operator::load::PluginLoadPlan;
use rind_operator::settings::SessionChoice;
use rind_operator::setup::OperatorWorkspaceSetup;

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginDevArgs {
    /// Folder of the plugin, outside the workspace of the session
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Run this prompt, and again in the same session after each replacement of the plugin
    #[arg(long, value_name = "PROMPT", required_unless_present = "chat")]
    run: Option<String>,
    /// Chat in the session
    #[arg(long, conflicts_with = "run")]
    chat: bool,
    #[command(flatten)]
    open: SessionOpenArgs,
    #[command(flatten)]
    show: TurnOutputArgs,
}

/// Runs a session and replaces the plugin in it after changes, until Ctrl-C or the end of the chat.
pub(in super::super) async fn run_plugin_dev(
    mut args: PluginDevArgs,
) -> anyhow::Result<ExitStatus> {
    if !args.dir.join(FILE_NAME).is_file() {
        bail_usage!(
            "{} has no {FILE_NAME}, so it is not a plugin",
            args.dir.display()
        );
    }
    let dir = args.dir.canonicalize().context("cannot find the plugin")?;
    let paths = find_rind_paths(args.open.workspace.as_deref())?;
    let setup = OperatorWorkspaceSetup::read(
        process_environment(),
        paths,
        &args.open.model.to_model_selection(),
        None,
    )?;
    let source = DevPluginSource {
        dir: dir.clone(),
        open: writable_agent_folders(&setup)?,
        sdks: shared_build_folders()?.sdks,
    };
    let seen = files::find_source_files(&dir);
    let cancel = CancellationToken::new();
    match source.agent_writable_source_error(&cancel).await {
        Ok(None) => {}
        Ok(Some(why)) => {
            bail_usage!("{why}; choose a separate workspace with --workspace DIR")
        }
        Err(error) => {
            render::plugins::print_build_failure(&error.to_string());
            return Ok(ExitStatus::Failed);
        }
    }
    render::print_note(&format!("building {}", dir.display()));
    if let Err(why) = build_plugin_quietly(&dir, &cancel).await {
        render::plugins::print_build_failure(&why);
        return Ok(ExitStatus::Failed);
    }
    args.open.plugins.plugin.push(dir.clone());
    let name = Manifest::read(&dir, None)?.name;
    let has_terminal = can_ask_at_terminal();
    let mut programs = TurnInputOutputChannels::open_from_paths(args.open.events.as_deref(), None)?;
    let prepared = prepare_session(
        args.open
            .to_run_settings(SessionChoice::New, has_terminal)?,
    )
    .await?;
    let later = prepared.plan_plugin_reload(&name)?;
    let commands = Arc::new(prepared.collect_slash_commands().await?);
    let opened = prepared.open_session().await?;
    render::print_note(&opened.chosen);
    render::print_note(&format!("watching {}", dir.display()));
    let (told, replaced) = unbounded_channel();
    let author = DevPluginReloader {
        replacer: opened.session.replacer(),
        commands: commands.clone(),
        source,
        name,
        later,
        told,
    };
    let following = tokio::spawn(author.reload_on_file_changes(seen, cancel.clone()));
    let exit = match &args.run {
        Some(prompt) => {
            rerun_prompt_after_reloads(opened, prompt, args.show, programs, replaced, &cancel).await
        }
        None => chat::run_chat_in_session(opened, commands, None, &mut programs).await,
    };
    following.abort();
    exit
}

/// Runs the prompt again and again: after each turn it waits until the plugin is replaced.
async fn rerun_prompt_after_reloads(
    opened: SessionWithUserQuestionChannels,
    prompt: &str,
    show: TurnOutputArgs,
    programs: TurnInputOutputChannels,
    mut replaced: UnboundedReceiver<()>,
    cancel: &CancellationToken,
) -> anyhow::Result<ExitStatus> {
    let interrupts =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for Ctrl-C")?;
    drop(opened.exits);
    tokio::spawn(interrupts.cancel_then_exit_on_second_signal(cancel.clone()));
    let mut session = opened.session;
    let over = CancellationToken::new();
    let shown = tokio::spawn(show_events_and_ask_questions(
        render::turn::TurnRenderer::new(show).with_live_outputs(session.live_outputs()),
        TraceExporter::from_env(),
        session.events(),
        opened.questions,
        cancel.clone(),
        over.clone(),
        programs,
    ));
    let mut ran = Ok(());
    while !cancel.is_cancelled() {
        ran = session.turn(prompt).until(cancel).await.map(drop);
        if ran.is_err() {
            break;
        }
        // Ignore replacements during the turn, because they took effect at its next step.
        while replaced.try_recv().is_ok() {}
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

/// Source folder of a plugin under development, and the folders to which the agent has access.
struct DevPluginSource {
    dir: PathBuf,
    /// Folders of the plugin's source in which the agent may write.
    open: Vec<PathBuf>,
    /// Folder in which the plugin SDKs are unpacked on this machine.
    sdks: PathBuf,
}

impl DevPluginSource {
    /// Returns an error text if the agent could write to a source of the build. Build scripts and
    /// macros run with all rights of the user, so the agent must not be able to change them.
    async fn agent_writable_source_error(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, BuildError> {
        // Check these folders first: `find_plugin_source_folders` itself creates links to the SDK
        // in the plugin's folder, and runs a program that reads settings there.
        let sdk = rind_author::missing_sdk_symlink_path(&self.dir);
        let mut early = std::iter::once(&self.dir).chain(&sdk);
        if let Some(why) = early.find_map(|folder| self.agent_writable_folder_error(folder)) {
            return Ok(Some(why));
        }
        let sources =
            rind_author::find_plugin_source_folders(&self.dir, &self.sdks, cancel).await?;
        Ok(sources
            .iter()
            .find_map(|folder| self.agent_writable_folder_error(folder)))
    }

    fn agent_writable_folder_error(&self, folder: &Path) -> Option<String> {
        let overlaps = |open: &&PathBuf| folder.starts_with(open) || open.starts_with(folder);
        let open = self.open.iter().find(overlaps)?;
        Some(format!(
            "the plugin is built from {}, and the agent may write in {}, so it could change code that the build runs outside the sandbox",
            folder.display(),
            open.display()
        ))
    }
}

/// Watches the files of a plugin, and rebuilds and replaces it after changes.
struct DevPluginReloader {
    replacer: PluginReplacer,
    /// Slash commands of the session, including those of the plugin.
    commands: Arc<SlashCommandSet>,
    source: DevPluginSource,
    name: String,
    /// Plan for loading later versions of the plugin.
    later: PluginLoadPlan,
    /// Sends a message each time a new version has replaced the plugin.
    told: UnboundedSender<()>,
}

impl DevPluginReloader {
    async fn reload_on_file_changes(
        self,
        mut seen: files::FileTimesAndSizes,
        cancel: CancellationToken,
    ) {
        loop {
            let dir = &self.source.dir;
            let changed =
                files::wait_for_stable_file_change(&seen, || Some(files::find_source_files(dir)))
                    .await;
            // List the files before the build, so that a change during the build triggers another
            // build.
            seen = files::find_source_files(dir);
            let changed = strip_folder_prefix(&changed, dir).display().to_string();
            let replaced = self.rebuild_and_replace_plugin(&cancel).await;
            let (level, text) = match &replaced {
                Ok(()) => (
                    Level::Info,
                    format!(
                        "{changed} changed: plugin {} is replaced before the next step",
                        self.name
                    ),
                ),
                Err(why) => (
                    Level::Error,
                    format!(
                        "{changed} changed, and the last version of plugin {} keeps running: {why}",
                        self.name
                    ),
                ),
            };
            self.replacer.emit_notice(level, text);
            if replaced.is_ok() && self.told.send(()).is_err() {
                return;
            }
        }
    }

    /// Builds and loads the plugin, and replaces it in the session.
    async fn rebuild_and_replace_plugin(&self, cancel: &CancellationToken) -> Result<(), String> {
        // Check again whether the agent could write to a source of the build, because the change
        // may have added dependencies.
        let overlap = self.source.agent_writable_source_error(cancel).await;
        if let Some(why) = overlap.map_err(|error| error.to_string())? {
            return Err(why);
        }
        build_plugin_quietly(&self.source.dir, cancel).await?;
        let set = self.later.load().await;
        let set = set.map_err(|error| error.to_string())?;
        let replaced = self.replacer.replace_plugin(&set, &self.name);
        replaced.map_err(|error| format!("plugin `{}`: {error}", self.name))?;
        let mut loaded = set.plugins.iter();
        if let Some(loaded) = loaded.find(|loaded| loaded.manifest.name == self.name) {
            self.commands.replace_plugin_commands(loaded).await;
        }
        Ok(())
    }
}

fn strip_folder_prefix<'a>(path: &'a Path, dir: &Path) -> &'a Path {
    path.strip_prefix(dir).unwrap_or(path)
}
