//! Sets a session up from the command line: folders, settings, provider, plugins, host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::args::{ModelArgs, PluginArgs};
use super::command::About;
use super::exit_code::{Usage, bail_usage};
use super::secrets::OperatorSecrets;
use super::{carried, keys, render};
use crate::agent::{AgentConfig, ArchivalConfig, SubagentsConfig, check_archival};
use crate::config::{Config, Layer, PluginsConfig, Section};
use crate::egress::EgressOptions;
use crate::grant::Trust;
use crate::grant::ask::GrantOptions;
use crate::grant::held::HeldFolder;
use crate::host::{self, Host, Session};
use crate::message::ToolSpec;
use crate::model::Models;
use crate::package::installed;
use crate::package::lock_file::{Entry, Locked};
use crate::package::signature::InstallConfig;
use crate::paths::{HOME_VARIABLE, Paths, file_name};
use crate::plugin::compile::Compiler;
use crate::plugin::discover::{Source, discover};
use crate::plugin::load::{LoadOptions, PluginSet};
use crate::plugin::protected;
use crate::price::Prices;
use crate::provider::{Choice, ProviderConfig, ProvidersConfig, Selected, scripted};
use crate::script::{HooksConfig, Script};
use crate::session::Resolved;
use crate::skill::Skills;
use crate::tool::approval::Approver;
use crate::tool::builtin::Commands;
use crate::tool::policy::{PolicyMode, ToolPolicy};
use crate::tool::sandbox::SandboxConfig;

pub(super) const SECTIONS: &[&str] = &[
    AgentConfig::NAME,
    ArchivalConfig::NAME,
    SubagentsConfig::NAME,
    ProviderConfig::NAME,
    ProvidersConfig::NAME,
    Models::NAME,
    ToolPolicy::NAME,
    PluginsConfig::NAME,
    Prices::NAME,
    SandboxConfig::NAME,
    InstallConfig::NAME,
    HooksConfig::NAME,
];

/// A variable of the environment that is set to text and not empty.
pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the user's home folder, where other programs keep skills; with `RIND_HOME` it is that folder.
pub(super) fn home() -> Option<PathBuf> {
    let home = env(HOME_VARIABLE).map(PathBuf::from);
    home.or_else(std::env::home_dir)
        .filter(|home| home.is_absolute())
}

pub(super) fn paths(workspace: Option<&Path>) -> anyhow::Result<Paths> {
    let workspace = match workspace {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| Usage(format!("open the workspace {}", folder.display())))?,
        None => std::env::current_dir().context("find the current folder")?,
    };
    let home = std::env::home_dir().unwrap_or_default();
    if home.as_os_str().is_empty() && env(HOME_VARIABLE).is_none() {
        bail_usage!("there is no home folder; set HOME or {HOME_VARIABLE}");
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
        bail_usage!("{place}{why}");
    }
    // Before there is a session that nothing happens in.
    agent_config(&config)?;
    Ok(config)
}

pub(super) fn agent_config(config: &Config) -> anyhow::Result<AgentConfig> {
    Ok(AgentConfig {
        archival: config.section()?,
        subagents: config.section()?,
        prices: config.section()?,
        ..config.section()?
    })
}

/// Selects the provider that the flags, the resumed session, the settings or the environment name, in this order. Of a session
/// that a script played there is nothing to go on with.
pub(super) fn provider(
    paths: &Paths,
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
    if let (Some(typed), Some(named)) = (&model.provider, &section.name)
        && typed != named
    {
        (section.base_url, section.api_key_env) = (None, None);
    }
    section.name = model.provider.clone().or(section.name);
    section.model = model.model.clone().or(section.model);
    section.script = model.script.clone().or(section.script);
    let mut providers: ProvidersConfig = config.section()?;
    let https = providers.0.values_mut().filter_map(|own| own.http.as_mut());
    for http in std::iter::once(&mut section.http).chain(https) {
        http.ca_file = http.ca_file.take().map(|path| keys::place(paths, &path));
    }
    let choice = Choice {
        provider: section,
        providers,
        models: config.section()?,
        is_exact: resumed.is_some() && model.model.is_none(),
        is_pinned: model.provider.is_some(),
    };
    let mut selected = choice.select(&keys::OperatorKeys::new(paths)?)?;
    if resumed.is_some() && model.model.is_none() {
        selected.why = "the model of this session; --model selects another".to_owned();
    }
    Ok(selected)
}

/// The variable that names a folder of plugins to take the place of those that the program carries. Nothing else does: a folder
/// that somebody happens to make must not remove guards.
pub(super) const MANAGED_VARIABLE: &str = "RIND_MANAGED";

/// Returns the folders of plugins that come with this installation: those that the program carries, then its share folder, or
/// the folder `managed` in `RIND_HOME`; or only the one that `RIND_MANAGED` names.
///
/// # Errors
/// `RIND_MANAGED` names no folder that can be read.
pub(super) fn managed_folders() -> anyhow::Result<Vec<PathBuf>> {
    let installed = installed_folder();
    let Some(named) = named_managed_folder() else {
        return Ok(std::iter::once(carried::core()).chain(installed).collect());
    };
    std::fs::read_dir(&named).with_context(|| {
        Usage(format!(
            "read the plugins in {} (unset {MANAGED_VARIABLE} to use those that rind carries)",
            named.display()
        ))
    })?;
    Ok(vec![named])
}

fn named_managed_folder() -> Option<PathBuf> {
    env(MANAGED_VARIABLE).map(PathBuf::from)
}

/// Returns the names of the carried plugins that `RIND_MANAGED` removes, which is all of them.
pub(super) fn replaced_plugins() -> Vec<String> {
    if named_managed_folder().is_none() {
        return Vec::new();
    }
    let sources = [Source::new(Trust::Managed, carried::core())];
    let found = discover(&sources, Some(&carried::files())).into_iter();
    found.map(|found| file_name(&found.folder)).collect()
}

/// Returns the folder on the disk among them.
fn installed_folder() -> Option<PathBuf> {
    if let Some(named) = named_managed_folder() {
        return Some(named);
    }
    if let Some(home) = env(HOME_VARIABLE) {
        return Some(Path::new(&home).join("managed"));
    }
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("share/rind/plugins"))
}

pub(super) fn load_options(
    paths: &Paths,
    config: &Config,
    args: &PluginArgs,
    project: Option<Arc<HeldFolder>>,
    grants: GrantOptions,
) -> anyhow::Result<LoadOptions> {
    let managed = managed_folders()?.into_iter();
    let managed = managed.map(|path| Source::new(Trust::Managed, path));
    let mut sources: Vec<Source> = managed.collect();
    let mut chosen = Vec::new();
    let held = carried::files().beside(project.clone());
    if args.no_plugins {
        chosen = protected::among(&sources, Some(&held));
        sources.clear();
    } else {
        sources.push(Source::new(Trust::User, paths.config.join("plugins")));
        sources.extend(project.as_ref().map(|_| super::project::source(paths)));
    }
    // What is answered for a plugin holds for its place, wherever it is named from.
    let local = |path: &PathBuf| {
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        Source::new(Trust::Local, path)
    };
    sources.extend(args.plugin.iter().map(local));
    // Not what the project sets: it must not say whom to trust.
    let written = config.without(&paths.project_config());
    let installed = if args.no_plugins {
        Vec::new()
    } else {
        let lock_path = paths.config.join(Locked::FILE_NAME);
        installed::verify(
            &paths.config.join("plugins"),
            &lock_path,
            &written.section()?,
        )?
    };
    let options = LoadOptions {
        sources,
        chosen,
        held: Some(Arc::new(held)),
        installed,
        without: args.without.clone(),
        expects_installed: !args.no_plugins,
        compiler: Compiler {
            // Without its own program there would still be the thread.
            helper: std::env::current_exe().ok(),
            precompiled: carried::precompiled(),
            ..Compiler::default()
        },
        settings: written.section::<PluginsConfig>()?.0,
        project_settings: config.section::<PluginsConfig>()?.0,
        written,
        project_written: config.clone(),
        grants,
        protected: installed_folder().into_iter().collect(),
        egress: EgressOptions {
            secrets: Arc::new(OperatorSecrets::read(&paths.config)?),
            ..EgressOptions::default()
        },
        ..LoadOptions::default()
    };
    Ok(options.at(paths))
}

/// Collects what built-in commands tell of.
pub(super) fn about(
    paths: &Paths,
    config: &Config,
    plugins: Arc<PluginSet>,
    skills: Arc<Skills>,
) -> anyhow::Result<About> {
    let policy: ToolPolicy = config.section()?;
    Ok(About {
        paths: paths.clone(),
        plugins,
        rules: policy.rules.iter().map(ToString::to_string).collect(),
        skills,
        compact: agent_config(config)?.compact,
    })
}

/// Checks the flags that name plugins, and says what was set of plugins and does not count: of those that only the administrator
/// can switch off, and of hooks that are not there. That `--no-plugins` leaves the former stands in its help.
pub(super) fn check_plugins(
    args: &PluginArgs,
    config: &Config,
    plugins: &PluginSet,
) -> anyhow::Result<()> {
    super::flags::check(args, config, plugins)?;
    let stray = super::stray::complaints(config, plugins)?;
    let all = plugins.refused.iter().chain(&stray);
    all.for_each(|text| render::warn(text));
    Ok(())
}

pub(super) fn bare_load_options(paths: &Paths, config: &Config) -> anyhow::Result<LoadOptions> {
    let args = PluginArgs {
        no_plugins: true,
        ..PluginArgs::default()
    };
    load_options(paths, config, &args, None, GrantOptions::default())
}

/// Refuses a workspace that overlaps with Rind's own folders, with what can be done about it.
pub(super) fn check_apart(paths: &Paths) -> anyhow::Result<()> {
    host::check_apart(paths).map_err(|error| match error {
        host::Error::Overlap { workspace, own } => Usage(format!(
            "the workspace {} and Rind's own folder {} overlap, so tools and plugins could access sessions and grants; choose \
             a subfolder with --workspace, or move Rind's folders with {HOME_VARIABLE}",
            workspace.display(),
            own.display()
        ))
        .into(),
        other => other.into(),
    })
}

pub(super) struct Parts<'a> {
    pub(super) paths: &'a Paths,
    pub(super) config: &'a Config,
    pub(super) provider: Selected,
    pub(super) plugins: Arc<PluginSet>,
    pub(super) mode: PolicyMode,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) commands: Commands,
    pub(super) skills: Arc<Skills>,
}

/// Paths of the user's own context files, Rind's and that of Claude Code.
fn own_context_files(paths: &Paths) -> Vec<PathBuf> {
    let claude = std::env::home_dir().filter(|home| home.is_absolute());
    let claude = claude.map(|home| home.join(".claude/CLAUDE.md"));
    let own = paths.config.join("AGENTS.md");
    std::iter::once(own).chain(claude).collect()
}

/// A host, the policy for its tool calls, and its scripts.
pub(super) struct MadeHost {
    pub(super) host: Host,
    policy: Arc<ToolPolicy>,
    scripts: Vec<Script>,
}

/// Makes a host of these parts.
pub(super) async fn host(parts: Parts<'_>) -> anyhow::Result<MadeHost> {
    let mut policy: ToolPolicy = parts.config.section()?;
    policy.mode = parts.mode;
    let policy = Arc::new(policy);
    let scripts = super::scripts::of(parts.paths, parts.config)?;
    super::scripts::warn_writable(parts.paths, parts.config, &scripts)?;
    let host = Host::builder()
        .provider(parts.provider.provider, parts.provider.model)
        .paths(parts.paths.clone())
        .plugins(parts.plugins)
        .scripts(scripts.clone(), parts.commands.clone())
        .built_in_tools(parts.commands)
        .skills(parts.skills)
        .policy(policy.clone())
        .approver(parts.approver)
        .config(AgentConfig {
            own_context_files: own_context_files(parts.paths),
            ..agent_config(parts.config)?
        })
        .build()
        .await?;
    Ok(MadeHost {
        host,
        policy,
        scripts,
    })
}

impl MadeHost {
    /// Opens a session, or resumes the one with this complete id.
    pub(super) fn session(&self, config: &Config, resume: Option<&str>) -> anyhow::Result<Session> {
        let session = match resume {
            Some(wanted) => self.host.session().resume(wanted)?,
            None => self.host.session().create()?,
        };
        self.warn_stray_rules(config, &session.tools());
        Ok(session)
    }

    /// Warns of rules and scripts that are about none of these tools.
    pub(super) fn warn_stray_rules(&self, config: &Config, tools: &[Arc<ToolSpec>]) {
        let known: Vec<(Option<&str>, &str)> = tools
            .iter()
            .map(|spec| (spec.plugin.as_deref(), spec.name.as_str()))
            .collect();
        let rules = super::stray::of_rules(config, &self.policy, &known);
        let matchers = super::stray::of_matchers(&self.scripts, &known);
        let all = rules.iter().chain(&matchers);
        all.for_each(|text| render::warn(text));
    }
}
