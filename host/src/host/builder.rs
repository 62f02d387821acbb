//! Builds a host from its parts.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::error::check_workspace_outside_host_folders;
use super::folders::HostPlugins;
use super::native::{NativeFunctionHook, NativeHookBinding};
use super::{Error, Host, HostSharedState, ToolSource};
use crate::agent::{AgentConfig, PluginKeyValueWriter, SubagentPresets};
use crate::event::{EventObserver, Stamped};
use crate::paths::RindPaths;
use crate::plugin::load::FoundPluginSet;
use crate::point::caller::Caller;
use crate::point::failure::Failure;
use crate::point::registry::HookSpec;
use crate::point::{ExtensionPoint, Hook};
use crate::provider::Provider;
use crate::script::HookScript;
use crate::session::SessionStore;
use crate::skill::SessionSkills;
use crate::text::escape_and_truncate_line;
use crate::tool::SharedTool;
use crate::tool::approval::{Approver, DenyAllApprover};
use crate::tool::builtin::{self, CommandConfinementAndEnvironment};
use crate::tool::policy::{Policy, ToolPolicy, ToolPolicyOptions};
use crate::tool::registry::ToolRegistry;
use crate::tool::workspace::Workspace;

/// Maximum length of a plugin's name in an error, in bytes.
const MAX_QUOTED_PLUGIN_NAME_BYTES: usize = 96;

/// The parts of a [`Host`]. Every part has the most restrictive default: no tools, no plugins, no
/// approver, and no files that outlive the host.
#[derive(Default)]
pub struct HostBuilder {
    provider: Option<(Arc<dyn Provider>, String)>,
    paths: Option<RindPaths>,
    home: Option<PathBuf>,
    workspace: Option<PathBuf>,
    store: Option<SessionStore>,
    plugins: HostPlugins,
    built_in: BuiltInToolSelection,
    tools: Vec<SharedTool>,
    sources: Vec<Arc<dyn ToolSource>>,
    skills: Arc<SessionSkills>,
    presets: Arc<SessionSkills>,
    hooks: Vec<NativeHookBinding>,
    scripts: (Vec<Arc<HookScript>>, CommandConfinementAndEnvironment),
    policy: Option<Arc<dyn Policy>>,
    approver: Option<Arc<dyn Approver>>,
    observers: Vec<EventObserver>,
    config: AgentConfig,
    keep: Option<PluginKeyValueWriter>,
}

/// Choice of the built-in tools that the model gets.
#[derive(Default)]
enum BuiltInToolSelection {
    #[default]
    None,
    Files,
    All(Box<CommandConfinementAndEnvironment>),
}

impl HostBuilder {
    /// Sets the provider and the model. A session may use another model.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        self.provider = Some((provider, model.into()));
        self
    }

    /// Keeps sessions, plugins' stores, answers and compiled components in this folder, which is
    /// created if it is missing. The default is a temporary folder that is deleted with the host.
    #[must_use]
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Some(folder.into());
        self
    }

    /// Sets the working folder of agents. The default is an empty temporary folder that is deleted
    /// with the host.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Sets all folders at once, for a host whose folders are not all in one home folder.
    #[must_use]
    pub fn paths(mut self, paths: RindPaths) -> Self {
        self.paths = Some(paths);
        self
    }

    /// Keeps sessions in this store instead of the home folder.
    #[must_use]
    pub fn store(mut self, store: SessionStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Loads the plugins of [`PluginFolders`](super::PluginFolders), or uses a set that is already
    /// loaded.
    #[must_use]
    pub fn plugins(mut self, plugins: impl Into<HostPlugins>) -> Self {
        self.plugins = plugins.into();
        self
    }

    /// Gives the model the built-in tools that read and change files of the workspace.
    #[must_use]
    pub fn file_tools(mut self) -> Self {
        self.built_in = BuiltInToolSelection::Files;
        self
    }

    /// Gives the model all built-in tools: those for files, and `bash`, whose commands run with the
    /// confinement and environment in `commands`.
    #[must_use]
    pub fn built_in_tools(mut self, commands: impl Into<CommandConfinementAndEnvironment>) -> Self {
        self.built_in = BuiltInToolSelection::All(Box::new(commands.into()));
        self
    }

    /// Adds a tool of the program that uses this library.
    #[must_use]
    pub fn tool(mut self, tool: SharedTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Gives the model the tools of a source. The list of these tools may change while a session is
    /// open.
    #[must_use]
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// Sets the skills of sessions. The model reads them with the tool `skill`, and
    /// [`Session::invoke_skill`](super::Session::invoke_skill) runs one for a person. While a skill
    /// is active, only the tools that it allows may be called.
    #[must_use]
    pub fn skills(mut self, skills: impl Into<Arc<SessionSkills>>) -> Self {
        self.skills = skills.into();
        self
    }

    /// Sets the kinds of subagents besides the built-in ones, if subagents are enabled. The files
    /// have the format of skills: description, tools, and a text with the instructions of the
    /// subagent.
    #[must_use]
    pub fn subagent_presets(mut self, files: impl Into<Arc<SessionSkills>>) -> Self {
        self.presets = files.into();
        self
    }

    /// Binds a hook to the point `P`. The hook is called like a plugin's hook: in the order of
    /// priorities, within its deadline, and with a trace record. Its name is the one in `spec`,
    /// which no plugin may have.
    #[must_use]
    pub fn hook<P: ExtensionPoint>(mut self, spec: HookSpec, hook: Arc<dyn Hook<P>>) -> Self {
        self.hooks.push(NativeHookBinding::new(spec, hook));
        self
    }

    /// Binds a function to the point `P`, with the defaults of [`HookSpec::for_native_hook`]. It
    /// must return quickly, because it cannot be stopped.
    #[must_use]
    pub fn on<P: ExtensionPoint>(
        self,
        name: &str,
        hook: impl Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync + 'static,
    ) -> Self {
        let hook = NativeFunctionHook::<P, _>::new(hook);
        self.hook::<P>(HookSpec::for_native_hook::<P>(name), Arc::new(hook))
    }

    /// Sets the programs that run as hooks, and replaces those set before. They run with the
    /// confinement and environment in `commands`, like commands of `bash`.
    #[must_use]
    pub fn scripts(
        mut self,
        scripts: Vec<HookScript>,
        commands: impl Into<CommandConfinementAndEnvironment>,
    ) -> Self {
        self.scripts = (scripts.into_iter().map(Arc::new).collect(), commands.into());
        self
    }

    /// Decides on tool calls with this policy. The default allows calls that only read, and asks
    /// about the rest.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the approver for calls that need approval by the policy or a hook. The default denies
    /// all of them.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Calls a function with every event of every session, in the task of the agent, so it must
    /// return quickly. [`Session::events`](super::Session::events) is a channel with the events of
    /// one session.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(&Stamped) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Sets the limits of a turn and all other agent settings.
    #[must_use]
    pub fn config(mut self, config: AgentConfig) -> Self {
        self.config = config;
        self
    }

    /// Passes every value that a hook puts into a store to this function, with the name of the hook
    /// or plugin and the key. Plugins' stores keep their values as well, but values of native hooks
    /// are dropped without this function.
    #[must_use]
    pub fn keep_values(mut self, keep: impl Fn(&str, &str, &str) + Send + Sync + 'static) -> Self {
        self.keep = Some(Arc::new(keep));
        self
    }

    /// Loads the plugins and builds the host.
    ///
    /// # Errors
    /// There is no provider, a folder cannot be used, a name is taken, or a plugin that is required
    /// or configured cannot run. [`PluginFolders::without`](super::PluginFolders::without) skips
    /// such a plugin. Any other plugin that cannot run is in [`Host::left_out`] and in the events
    /// of each session.
    pub async fn build(self) -> Result<Host, Error> {
        let (provider, model) = self.provider.ok_or(Error::NoProvider)?;
        let (paths, temporary) = match self.paths {
            Some(paths) => (paths, None),
            None => resolve_home_and_workspace_folders(self.home, self.workspace)?,
        };
        check_workspace_outside_host_folders(&paths)?;
        let workspace = Workspace::open_root_folder(&paths.workspace)
            .and_then(|workspace| workspace.hide_folders(&paths.config_data_cache_folders()))
            .map_err(|source| Error::Folder {
                path: paths.workspace.clone(),
                source,
            })?;
        let plugins = self.plugins.load_plugins(&paths).await?;
        check_plugin_may_run_agent_loop(&plugins, self.config.agent_loop.as_deref())?;
        let names = plugins.plugins.iter().map(|plugin| &*plugin.manifest.name);
        let left_out = plugins.left_out.iter().map(|left| &*left.name);
        let names: Vec<&str> = names.chain(left_out).collect();
        if let Some(taken) = self.hooks.iter().find(|hook| names.contains(&&*hook.name)) {
            let name = taken.name.to_string();
            return Err(Error::NameTaken { name });
        }
        let (scripts, commands) = self.scripts;
        let hooks = self.hooks.iter().map(|hook| &*hook.name);
        check_hook_scripts(&scripts, names.into_iter().chain(hooks).collect())?;
        let workspace = Arc::new(workspace);
        let built_in = match self.built_in {
            BuiltInToolSelection::None => Vec::new(),
            BuiltInToolSelection::Files => builtin::file_tools(&workspace),
            BuiltInToolSelection::All(commands) => builtin::built_in_tools(&workspace, *commands),
        };
        let mut tools = ToolRegistry::default();
        for tool in built_in.into_iter().chain(self.tools) {
            tools.add(tool)?;
        }
        let mode = ToolPolicyOptions {
            has_terminal: self.approver.is_some(),
            ..ToolPolicyOptions::default()
        };
        let nobody = || Arc::new(DenyAllApprover("this host has no approver".to_owned()));
        Ok(Host(Arc::new(HostSharedState {
            provider,
            model,
            store: self
                .store
                .unwrap_or_else(|| SessionStore::new(paths.sessions())),
            paths,
            plugins,
            tools,
            sources: self.sources,
            skills: self.skills,
            presets: Arc::new(SubagentPresets::with_preset_files(&self.presets)),
            hooks: self.hooks,
            scripts,
            commands,
            policy: self.policy.unwrap_or_else(|| {
                Arc::new(ToolPolicy {
                    mode,
                    ..ToolPolicy::default()
                })
            }),
            approver: self.approver.unwrap_or_else(|| nobody()),
            observers: self.observers,
            config: self.config,
            keep: self.keep,
            has_kept_answers: AtomicBool::new(false),
            _temporary: temporary,
        })))
    }
}

/// Checks that the loop of the plugin `wanted` may run the turns. Without `wanted`, there is
/// nothing to check.
fn check_plugin_may_run_agent_loop(
    plugins: &FoundPluginSet,
    wanted: Option<&str>,
) -> Result<(), Error> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let mut running = plugins.plugins.iter();
    let mut left_out = plugins.left_out.iter();
    let why = match running.find(|plugin| plugin.manifest.name == wanted) {
        Some(plugin) if plugin.may_run_agent_loop() => return Ok(()),
        Some(plugin) if plugin.has_agent_loop() => {
            "the plugin was not granted `agent_loop` (`rind plugin grants` shows what it was granted)".to_owned()
        }
        Some(_) => "the plugin has no loop of the agent (it exports no `agent-loop`)".to_owned(),
        None => match left_out.find(|left| left.name == wanted) {
            Some(left) => format!("the plugin is not loaded: {}", left.why),
            None => "there is no such plugin (`rind plugin list` shows all)".to_owned(),
        },
    };
    Err(Error::AgentLoop {
        plugin: escape_and_truncate_line(wanted, MAX_QUOTED_PLUGIN_NAME_BYTES),
        why,
    })
}

/// Checks that each script is valid, and that its name is not taken by another script or in
/// `taken`.
fn check_hook_scripts<'a>(
    scripts: &'a [Arc<HookScript>],
    mut taken: HashSet<&'a str>,
) -> Result<(), Error> {
    for script in scripts {
        let name = &*script.name;
        let refused = |why| Error::Script {
            place: script.place.clone(),
            name: name.to_owned(),
            why,
        };
        script.check_field_values().map_err(refused)?;
        if !taken.insert(name) {
            let why = "a plugin or another hook has this name; choose another one".to_owned();
            return Err(refused(why));
        }
    }
    Ok(())
}

/// Returns the folders of a host. For those that are not named, creates a temporary folder, which
/// is returned too.
fn resolve_home_and_workspace_folders(
    home: Option<PathBuf>,
    workspace: Option<PathBuf>,
) -> Result<(RindPaths, Option<TempDir>), Error> {
    let at = |path: PathBuf| move |source| Error::Folder { path, source };
    let temporary = match (&home, &workspace) {
        (Some(_), Some(_)) => None,
        _ => {
            let made = tempfile::Builder::new().prefix("rind-host-").tempdir();
            Some(made.map_err(at(PathBuf::from("<temporary>")))?)
        }
    };
    let folder = |named: Option<PathBuf>, name: &str| {
        let path = named.or_else(|| Some(temporary.as_ref()?.path().join(name)));
        let path = path.unwrap_or_default();
        fs::create_dir_all(&path).map_err(at(path.clone()))?;
        path.canonicalize().map_err(at(path))
    };
    let home = folder(home, "home")?;
    let workspace = folder(workspace, "workspace")?;
    Ok((RindPaths::from_single_root(&home, &workspace), temporary))
}
