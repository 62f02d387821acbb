//! From what was typed to an agent: folders, settings, provider, plugins, session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use anyhow::Context;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::args::{ModelArgs, PluginArgs};
use super::exit_code::Usage;
use super::render;
use super::secrets::OperatorSecrets;
use crate::agent::{
    Agent, AgentConfig, AgentSpec, ArchivalConfig, CallPoint, KeepInStore, SessionHandle,
    SubagentsConfig, check_archival,
};
use crate::config::{Config, Layer, PluginsConfig, Section};
use crate::egress::EgressOptions;
use crate::event::{Event, Events, Stamped};
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::grant::held::HeldFolder;
use crate::paths::{HOME_VARIABLE, Paths};
use crate::plugin::compile::Compiler;
use crate::plugin::discover::Source;
use crate::plugin::load::{LeftOut, LoadOptions, PluginSet, Why};
use crate::plugin::protected;
use crate::plugin::store::PluginStore;
use crate::point::caller::Caller;
use crate::point::defined::DefinedPoints;
use crate::point::dispatch::Dispatcher;
use crate::point::handle::{AgentHandle, HandleError, PointAnswer};
use crate::price::Prices;
use crate::provider::{self, ProviderConfig, Selected, scripted};
use crate::session::{Resolved, SessionSpec, SessionStore};
use crate::tool::approval::Approver;
use crate::tool::builtin::{self, Commands};
use crate::tool::policy::{PolicyMode, ToolPolicy};
use crate::tool::registry::ToolRegistry;
use crate::tool::sandbox::SandboxConfig;
use crate::tool::workspace::Workspace;

/// Every section of the settings.
const SECTIONS: &[&str] = &[
    AgentConfig::NAME,
    ArchivalConfig::NAME,
    SubagentsConfig::NAME,
    ProviderConfig::NAME,
    ToolPolicy::NAME,
    PluginsConfig::NAME,
    Prices::NAME,
    SandboxConfig::NAME,
];

/// A variable of the environment that is set to text and not empty.
pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where everything is, for work in `workspace` or the current folder.
pub(super) fn paths(workspace: Option<&Path>) -> anyhow::Result<Paths> {
    let workspace = match workspace {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| Usage(format!("open the workspace {}", folder.display())))?,
        None => std::env::current_dir().context("find the current folder")?,
    };
    let home = std::env::home_dir().unwrap_or_default();
    if home.as_os_str().is_empty() && env(HOME_VARIABLE).is_none() {
        return Err(Usage(format!(
            "there is no home folder; set HOME or {HOME_VARIABLE}"
        ))
        .into());
    }
    Ok(Paths::new(&home, env, &workspace))
}

/// The settings: the user's file, then those of the `project` when it is trusted, then the user's for this project, then what
/// was typed.
pub(super) fn config(
    paths: &Paths,
    model: &ModelArgs,
    project: Option<&HeldFolder>,
) -> anyhow::Result<Config> {
    let mut layers = Layer::files(&paths.user_config())?;
    if let Some(project) = project {
        layers.extend(super::project::layers(paths, project)?);
    }
    layers.extend(Layer::file(&paths.workspace_config())?);
    for flag in &model.set {
        layers.push(Layer::flag(flag)?);
    }
    let config = Config::new(layers);
    config.check_known(SECTIONS)?;
    if let Err(why) = check_archival(&config.section()?, &config.section()?) {
        let place = config.places(&["archival", "enabled"]).pop();
        let place = place.map_or_else(String::new, |place| format!("{place}: "));
        return Err(Usage(format!("{place}{why}")).into());
    }
    // Before there is a session that nothing happens in.
    agent_config(&config)?;
    Ok(config)
}

/// The settings of an agent, from all sections that speak of it.
fn agent_config(config: &Config) -> anyhow::Result<AgentConfig> {
    Ok(AgentConfig {
        archival: config.section()?,
        subagents: config.section()?,
        prices: config.section()?,
        ..config.section()?
    })
}

/// The provider that the flags, the session that goes on, the settings or the environment name, in this order. Of a session
/// that a script played there is nothing to go on with.
pub(super) fn provider(
    config: &Config,
    model: &ModelArgs,
    resumed: Option<&Resolved>,
) -> anyhow::Result<Selected> {
    let mut section: ProviderConfig = config.section()?;
    let is_chosen = model.provider.is_some() || model.script.is_some();
    let resumed = resumed.filter(|session| !is_chosen && session.provider != scripted::NAME);
    if let Some(session) = resumed {
        // The address and key in the settings are those of the provider that they name.
        if section
            .name
            .as_ref()
            .is_some_and(|name| *name != session.provider)
        {
            (section.base_url, section.api_key_env) = (None, None);
        }
        section.name = Some(session.provider.clone());
        section.model = Some(session.model.clone());
    }
    section.name = model.provider.clone().or(section.name);
    section.model = model.model.clone().or(section.model);
    section.script = model.script.clone().or(section.script);
    let mut selected = provider::select(&section, &env).context("choose a model")?;
    if resumed.is_some() && model.model.is_none() {
        selected.why = "as in this session so far; --model chooses another".to_owned();
    }
    Ok(selected)
}

/// Folders of plugins that belong to this installation: beside the binary, and in the share folder that goes with it.
pub(super) fn managed_folders() -> Vec<PathBuf> {
    if let Some(home) = env(HOME_VARIABLE) {
        return vec![Path::new(&home).join("managed")];
    }
    let Some(folder) = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()))
    else {
        return Vec::new();
    };
    let mut folders = vec![folder.join("plugins")];
    folders.extend(
        folder
            .parent()
            .map(|prefix| prefix.join("share/rind/plugins")),
    );
    folders
}

/// What plugins are loaded with.
pub(super) fn load_options(
    paths: &Paths,
    config: &Config,
    args: &PluginArgs,
    project: Option<Arc<HeldFolder>>,
    grants: GrantOptions,
) -> anyhow::Result<LoadOptions> {
    let managed = managed_folders().into_iter().map(|path| Source {
        trust: Trust::Managed,
        path,
    });
    let mut sources: Vec<Source> = managed.collect();
    let mut chosen = Vec::new();
    if args.no_plugins {
        chosen = protected::among(&sources);
        sources.clear();
    } else {
        sources.push(Source {
            trust: Trust::User,
            path: paths.config.join("plugins"),
        });
        if project.is_some() {
            sources.push(super::project::source(paths));
        }
    }
    // What is answered for a plugin holds for its place, wherever it is named from.
    let local = |path: &PathBuf| Source {
        trust: Trust::Local,
        path: path.canonicalize().unwrap_or_else(|_| path.clone()),
    };
    sources.extend(args.plugin.iter().map(local));
    let written = config.without(&paths.project_config());
    Ok(LoadOptions {
        sources,
        chosen,
        held: project,
        without: args.without.clone(),
        expects_installed: !args.no_plugins,
        cache: paths.cache.join("components"),
        compiler: Compiler {
            // Without its own program there would still be the thread.
            helper: std::env::current_exe().ok(),
            ..Compiler::default()
        },
        cache_key: paths.data.join("cache.key"),
        data: paths.data.join("plugins"),
        settings: written.section::<PluginsConfig>()?.0,
        project_settings: config.section::<PluginsConfig>()?.0,
        written,
        project_written: config.clone(),
        grants,
        workspace: paths.workspace.clone(),
        protected: [&paths.config, &paths.data, &paths.cache]
            .into_iter()
            .cloned()
            .chain(managed_folders())
            .collect(),
        egress: EgressOptions {
            secrets: Arc::new(OperatorSecrets::read(&paths.config)?),
            ..EgressOptions::default()
        },
    })
}

/// Says what was set of plugins that only the administrator can switch off, and does not count. That `--no-plugins` leaves them
/// stands in its help.
pub(super) fn warn_protected(plugins: &PluginSet) {
    plugins.refused.iter().for_each(|text| render::warn(text));
}

/// Folders of Rind's own and the workspace must not lie in one another: what may be read or written in the workspace would
/// reach sessions, keys and grants.
pub(super) fn check_apart(paths: &Paths) -> anyhow::Result<()> {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let workspace = canonical(&paths.workspace);
    // Not the managed folder: whoever builds Rind in a checkout and works there has the program itself in the workspace.
    let own = [&paths.config, &paths.data, &paths.cache].map(|path| canonical(path));
    match own.iter().find(|own| own.starts_with(&workspace) || workspace.starts_with(own)) {
        None => Ok(()),
        Some(own) => Err(Usage(format!(
            "the workspace {} and Rind's own folder {} lie in one another, so that tools and plugins could reach sessions and \
             grants; work in a folder below with --workspace, or put Rind's folders elsewhere with {HOME_VARIABLE}",
            workspace.display(),
            own.display()
        ))
        .into()),
    }
}

/// Everything that an agent is put together from.
pub(super) struct Parts<'a> {
    pub(super) paths: &'a Paths,
    pub(super) config: &'a Config,
    pub(super) provider: Selected,
    pub(super) plugins: &'a PluginSet,
    /// Whole id of the session that goes on.
    pub(super) resume: Option<&'a str>,
    pub(super) mode: PolicyMode,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) commands: Commands,
}

/// Puts an agent together, in a new session or one that goes on.
pub(super) fn agent(parts: Parts<'_>) -> anyhow::Result<(Agent, UnboundedReceiver<Stamped>)> {
    crate::tokens::warm();
    let workspace = Workspace::open(&parts.paths.workspace)
        .with_context(|| format!("open the workspace {}", parts.paths.workspace.display()))?;
    let store = SessionStore::new(parts.paths.sessions());
    let spec = SessionSpec {
        workspace: parts.paths.workspace.clone(),
        provider: parts.provider.provider.name().to_owned(),
        model: parts.provider.model.clone(),
    };
    let session = match parts.resume {
        Some(wanted) => store.resume(wanted, &spec)?,
        None => store.create(&spec)?,
    };
    let session = Arc::new(session);
    let (events, shown) = Events::channel();
    super::grants::keep(parts.paths, &parts.plugins.given, session.id())?;
    let keep = keep_in_store(parts.plugins.stores());
    let handle = Arc::new(SessionHandle::new(
        session.clone(),
        events.clone(),
        keep.clone(),
    ));
    let plugin_handle: Arc<dyn AgentHandle> = handle.clone();
    let open = parts.plugins.open(&plugin_handle)?;
    let mut tools = ToolRegistry::default();
    for tool in builtin::all_with(&Arc::new(workspace), parts.commands) {
        tools.add(tool)?;
    }
    for tool in open.tools {
        if let Err(error) = tools.add(tool) {
            render::warn(&error.to_string());
        }
    }
    let mut policy: ToolPolicy = parts.config.section()?;
    policy.mode = parts.mode;
    let known: Vec<(Option<&str>, &str)> = tools
        .entries()
        .into_iter()
        .map(|entry| (entry.spec.plugin.as_deref(), entry.spec.name.as_str()))
        .collect();
    super::stray::of_rules(parts.config, &policy, &known)
        .iter()
        .for_each(|text| render::warn(text));
    let mut agent = Agent::new(AgentSpec {
        provider: parts.provider.provider,
        model: parts.provider.model,
        temperature: None,
        max_tokens: None,
        tools,
        hooks: Arc::new(open.registry),
        policy,
        approver: parts.approver,
        session,
        events,
        keep_in_store: keep,
        config: agent_config(parts.config)?,
        workspace: parts.paths.workspace.clone(),
        parts: Vec::new(),
        name: Arc::from("main"),
        depth: 0,
        call_chain: Vec::new(),
    });
    agent.tell_at_opening(parts.plugins.left_out.iter().map(left_out));
    handle.set_agent(&agent);
    handle.set_points(Arc::new(PluginPoints {
        dispatcher: Arc::downgrade(&agent.dispatcher()),
        points: open.points,
    }));
    Ok((agent, shown))
}

/// A plugin that does not run, as an event.
fn left_out(left: &LeftOut) -> Event {
    let cause = match &left.why {
        Why::Failed(_) => "failed",
        Why::Held(_) => "held",
        Why::Shadowed { .. } => "shadowed",
        Why::Disabled { .. } | Why::Disallowed { .. } | Why::Without => "switched-off",
    };
    Event::PluginLeftOut {
        plugin: left.name.clone(),
        trust: left.found.trust.to_string(),
        folder: left.found.folder.display().to_string(),
        cause: cause.to_owned(),
        reason: left.why.to_string(),
    }
}

/// Keeps values in the plugins' stores.
fn keep_in_store(stores: BTreeMap<String, PluginStore>) -> KeepInStore {
    Arc::new(move |plugin, key, value| {
        if let Some(Err(error)) = stores.get(plugin).map(|store| store.set(key, value)) {
            tracing::warn!(plugin, key, %error, "a value was not kept in the plugin's store");
        }
    })
}

/// The points that plugins define, called through the agent's dispatcher. The dispatcher holds the hooks, which hold the
/// handle that holds this: a strong reference would keep all of them for ever.
struct PluginPoints {
    dispatcher: Weak<Dispatcher>,
    points: DefinedPoints,
}

impl CallPoint for PluginPoints {
    fn call<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PointAnswer, HandleError>> {
        Box::pin(async move {
            let Some(dispatcher) = self.dispatcher.upgrade() else {
                return Err(HandleError::Failed("the session is over".to_owned()));
            };
            self.points
                .call(&dispatcher, plugin, name, payload, &caller)
                .await
        })
    }
}
