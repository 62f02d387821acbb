//! Opens a session as the command line says, for one turn (`run`) and for many (`chat`), or makes the host for several (`serve`).

use std::sync::Arc;

use anyhow::Context;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;

use super::approve::{Asked, TerminalApprover};
use super::args::OpenArgs;
use super::command::Commands;
use super::exit_code::bail_usage;
use super::sandbox::{Sandbox, sandbox};
use super::setup::MadeHost;
use super::skill::Machine;
use super::terminal::ExitAtSignals;
use super::{render, setup};
use crate::config::Config;
use crate::grant::ask::GrantOptions;
use crate::grant::decide::GrantFlag;
use crate::grant::held::HeldFolder;
use crate::host::Session;
use crate::paths::Paths;
use crate::plugin::load::{LoadOptions, PluginSet};
use crate::provider::Selected;
use crate::session::{Resolved, SessionStore};
use crate::skill::{Skills, discover};
use crate::tool::approval::{Approver, DenyAll};
use crate::tool::builtin::Commands as ShellCommands;
use crate::tool::policy::PolicyMode;

/// Parts that a session is opened with.
pub(super) struct Prepared {
    paths: Paths,
    config: Config,
    project: Option<Arc<HeldFolder>>,
    provider: Selected,
    /// Whole id of the session to go on with.
    resume: Option<String>,
    plugins: Arc<PluginSet>,
    skills: Arc<Skills>,
    sandbox: JoinHandle<anyhow::Result<Sandbox>>,
    /// Whether a person at a terminal answers questions.
    has_terminal: bool,
    exits: ExitAtSignals,
}

/// A host with what belongs to it.
pub(super) struct Ready {
    pub(super) made: MadeHost,
    questions: UnboundedReceiver<Asked>,
    paths: Paths,
    pub(super) config: Config,
    commands: ShellCommands,
    /// The model and why it is this one, in words.
    pub(super) chosen: String,
    /// Exit at signals, until whoever listens for them from then on drops it.
    pub(super) exits: ExitAtSignals,
}

/// An open session with what belongs to it.
pub(super) struct Opened {
    pub(super) session: Session,
    /// Questions about tool calls; none come when nobody answers.
    pub(super) questions: UnboundedReceiver<Asked>,
    pub(super) paths: Paths,
    pub(super) config: Config,
    /// The way in which commands run.
    pub(super) commands: ShellCommands,
    /// The model and why it is this one, in words.
    pub(super) chosen: String,
    /// Exit at signals, until whoever listens for them from then on drops it.
    pub(super) exits: ExitAtSignals,
}

/// Reads settings, chooses the model and loads the plugins. At a terminal a person is asked about trust, grants and a first model.
pub(super) async fn prepare(
    args: &OpenArgs,
    resume: Option<&str>,
    has_terminal: bool,
) -> anyhow::Result<Prepared> {
    let exits = ExitAtSignals::new().context("listen for signals")?;
    let paths = setup::paths(args.workspace.as_deref())?;
    setup::check_apart(&paths)?;
    let project = super::project::trusted(&paths, args.plugins.trust_project, has_terminal).await?;
    super::flags::check_places(&args.plugins)?;
    let config = setup::config(&paths, &args.model, project.as_deref())?;
    let resume = resume.map(|wanted| resolve(&paths, wanted)).transpose()?;
    let provider = setup::provider(&paths, &config, &args.model, resume.as_ref())?;
    let provider = super::first_use::unless_chosen(provider, &paths, has_terminal).await?;
    let resume = resume.map(|session| session.id);
    let grants = super::grants::options(&paths, &args.plugins, resume.clone(), has_terminal)?;
    let mut options = setup::load_options(&paths, &config, &args.plugins, project.clone(), grants)?;
    // The first start of a version takes long enough for somebody to wonder.
    options.on_compile = has_terminal.then(render::plugins::on_compile);
    // On a thread of its own: plugins keep this one busy while they are loaded.
    let sandbox = tokio::spawn({
        let (paths, config) = (paths.clone(), config.clone());
        async move { sandbox(&paths, &config).await }
    });
    let plugins = PluginSet::load(&options).await;
    let plugins = Arc::new(plugins.context("load plugins")?);
    let held = options.held.clone();
    // What a project brings may be large, and is not needed any more.
    drop(options);
    setup::check_plugins(&args.plugins, &config, &plugins)?;
    render::plugins::warn_left_out(&plugins);
    plugins.check_required()?;
    plugins.check_relied()?;
    let roots = super::skill::roots(&paths, &config, &plugins, held.as_ref());
    let skills = discover(&roots, &super::command::reserved(), &Machine::new());
    render::skills::warn_left_out(&skills);
    let skills = Arc::new(skills);
    Ok(Prepared {
        paths,
        config,
        project,
        provider,
        resume,
        plugins,
        skills,
        sandbox,
        has_terminal,
        exits,
    })
}

impl Prepared {
    /// Collects the slash commands.
    pub(super) async fn commands(&self) -> anyhow::Result<Commands> {
        let about = setup::about(
            &self.paths,
            &self.config,
            self.plugins.clone(),
            self.skills.clone(),
        )?;
        let program = std::env::current_exe().context("find this program")?;
        Ok(Commands::new(about, self.project.as_deref(), program).await)
    }

    /// Returns the options for loading later versions of a plugin: they get what this one was granted and no more, and nobody is
    /// asked in the middle of a turn.
    pub(super) fn later(&self, args: &OpenArgs, plugin: &str) -> anyhow::Result<LoadOptions> {
        let mut loaded = self.plugins.plugins.iter();
        let Some(loaded) = loaded.find(|loaded| loaded.manifest.name == plugin) else {
            bail_usage!("plugin `{plugin}` does not run, so there is nothing to watch");
        };
        let granted = loaded.granted.capabilities().iter();
        let granted: Vec<String> = granted.map(ToString::to_string).collect();
        let flag = (!granted.is_empty()).then(|| format!("{plugin}={}", granted.join(",")));
        let flag = flag.map(|flag| flag.parse::<GrantFlag>()).transpose();
        let grants = GrantOptions {
            policy: super::grants::policy(&self.paths)?,
            flags: flag.map_err(anyhow::Error::msg)?.into_iter().collect(),
            ..GrantOptions::default()
        };
        let project = self.project.clone();
        setup::load_options(&self.paths, &self.config, &args.plugins, project, grants)
    }

    /// Opens the session.
    pub(super) async fn open(mut self, args: &OpenArgs) -> anyhow::Result<Opened> {
        let resume = self.resume.take();
        let ready = self.host(args).await?;
        Ok(Opened {
            session: ready.made.session(&ready.config, resume.as_deref())?,
            questions: ready.questions,
            paths: ready.paths,
            config: ready.config,
            commands: ready.commands,
            chosen: ready.chosen,
            exits: ready.exits,
        })
    }

    /// Makes the host.
    pub(super) async fn host(self, args: &OpenArgs) -> anyhow::Result<Ready> {
        drop(self.project);
        let (approver, questions) = approver(self.has_terminal);
        let chosen = format!("model: {} ({})", named(&self.provider), self.provider.why);
        let commands = self.sandbox.await.context("find a sandbox")??.commands();
        let parts = setup::Parts {
            paths: &self.paths,
            config: &self.config,
            provider: self.provider,
            plugins: self.plugins,
            mode: PolicyMode {
                yes: args.yes,
                dry_run: args.dry_run,
                has_terminal: self.has_terminal,
            },
            approver,
            skills: self.skills,
            commands: commands.clone(),
        };
        Ok(Ready {
            made: setup::host(parts).await?,
            questions,
            paths: self.paths,
            config: self.config,
            commands,
            chosen,
            exits: self.exits,
        })
    }
}

/// Provider and model, once where they are called the same.
fn named(selected: &Selected) -> String {
    let provider = selected.provider.name();
    if provider == selected.model {
        provider.to_owned()
    } else {
        format!("{provider} {}", selected.model)
    }
}

/// Resolves the session to continue. One of another folder is only gone on with by its id, and that is said.
fn resolve(paths: &Paths, wanted: &str) -> anyhow::Result<Resolved> {
    let store = SessionStore::new(paths.sessions());
    let session = store.about(&store.resolve_in(wanted, &paths.workspace)?)?;
    let before = &session.workspace;
    if !before.as_os_str().is_empty() && *before != paths.workspace {
        render::warn(&format!(
            "session {} worked in {} so far; it goes on in {}",
            session.id,
            before.display(),
            paths.workspace.display()
        ));
    }
    Ok(session)
}

pub(super) fn approver(has_terminal: bool) -> (Arc<dyn Approver>, UnboundedReceiver<Asked>) {
    let (sender, questions) = mpsc::unbounded_channel();
    let approver: Arc<dyn Approver> = if has_terminal {
        Arc::new(TerminalApprover(sender))
    } else {
        Arc::new(DenyAll(
            "there is no terminal to ask at; pass --yes, or add a rule to [tools] in config.toml"
                .to_owned(),
        ))
    };
    (approver, questions)
}
