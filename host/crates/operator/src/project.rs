//! Decides whether a project's settings and plugins in `.rind` are used.
//!
//! The files are read once into memory. The trust question shows this content, its digest is
//! remembered, and settings and plugins are loaded from it. A change of the files while the
//! question is open therefore has no effect.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;

use super::environment::OperatorEnvironment;
use super::project_commands::CLAUDE_SLASH_COMMANDS_FOLDER;
use super::project_hooks::ProjectHookApprovalQuestion;
use super::skills::{SUBAGENT_PRESETS_FOLDER_NAME, list_project_subagent_preset_folders};
use super::usage::{Usage, bail_usage};
use super::{other_agents, project_servers};
use rind_lib::config::{Config, ConfigLayer, PluginsConfig};
use rind_lib::grant::Trust;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::grant::project::{ProjectTrust, ProjectTrustError, TrustedProjects};
use rind_lib::paths::{RindPaths, file_name};
use rind_lib::plugin::discover::{PluginSearchPath, discover_plugins};
use rind_lib::plugin::manifest::Manifest;
use rind_lib::plugin::prompts;
use rind_lib::skill;

/// Sections that the settings of a project may have. Only the user's settings may have other
/// sections, which determine for example the destination of keys and how commands run.
pub const ALLOWED_PROJECT_SETTINGS_SECTIONS: &[&str] =
    &["agent", "archival", "plugins", "subagents"];

/// Folders of a project outside `.rind` with skills, presets of subagents and slash commands, which
/// other programs read too. They are trusted together with `.rind`.
const SHARED_AGENT_CONTENT_FOLDERS: [&str; 4] = [
    ".claude/skills",
    ".agents/skills",
    ".claude/agents",
    CLAUDE_SLASH_COMMANDS_FOLDER,
];

/// Returns the names and paths of the files outside `.rind` in which a project may define MCP
/// servers. Other programs read these files too.
fn list_mcp_server_files(paths: &RindPaths) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
    let names = project_servers::PROJECT_MCP_SERVER_FILES.iter();
    names.map(|(name, _)| (*name, paths.workspace.join(name)))
}

/// Contents of a project that the trust question shows. Templates are not included: the question
/// reads them from the project's files.
#[derive(Debug, Default)]
pub struct ProjectContentsSummary {
    /// Folders and files of the project that Rind would use.
    pub places: Vec<&'static str>,
    /// Name and description of each plugin of the project.
    pub plugins: Vec<(String, String)>,
    /// Name and description of each skill of the project.
    pub skills: Vec<(String, String)>,
    /// Name and description of each preset of subagents of the project.
    pub presets: Vec<(String, String)>,
    /// Name and description of each MCP server that the project's files define.
    pub servers: Vec<(String, String)>,
    /// Text of the project's settings.
    pub settings: String,
}

/// Question with which a person is asked whether to trust a project.
pub struct ProjectTrustQuestion<'a> {
    /// Folders of Rind, and the workspace that contains the project.
    pub paths: &'a RindPaths,
    /// Earlier answer of the person about this project, or that there is none.
    pub trust: &'a ProjectTrust,
    /// Files of the project that are used if it is trusted.
    pub files: &'a InMemoryFolder,
    /// Plugins, skills, settings and other things that the project contains.
    pub contents: ProjectContentsSummary,
}

/// Duration for which an approval of a project or of its hooks is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectApprovalDuration {
    /// The approval is valid only for this run of the program.
    Once,
    /// The approval is stored, and is valid until the approved files change.
    UntilChanged,
}

/// Asks a person whether a project is trusted.
pub trait ProjectTrustAsker: Send + Sync {
    /// Asks whether the project is trusted, and waits for the answer without a timeout. `None`
    /// means no.
    fn ask<'a>(
        &'a self,
        question: &'a ProjectTrustQuestion<'a>,
    ) -> BoxFuture<'a, Option<ProjectApprovalDuration>>;

    /// Asks whether the hooks of a project may be called, in the same way as [`ask`](Self::ask).
    fn ask_hook_approval<'a>(
        &'a self,
        question: &'a ProjectHookApprovalQuestion<'a>,
    ) -> BoxFuture<'a, Option<ProjectApprovalDuration>>;
}

/// Result of the decision whether a project is trusted.
pub enum ProjectTrustDecision {
    /// The project contains nothing that needs trust.
    Nothing,
    /// The project is trusted. Contains its files as they were read for this decision.
    Trusted(Arc<InMemoryFolder>),
    /// The project is not trusted, or cannot be read.
    NotTrusted,
}

impl ProjectTrustDecision {
    /// Returns the files of a trusted project.
    #[must_use]
    pub fn trusted_project_files(self) -> Option<Arc<InMemoryFolder>> {
        match self {
            Self::Trusted(held) => Some(held),
            Self::Nothing | Self::NotTrusted => None,
        }
    }
}

/// Decides whether the current content of a project is used. If there is no valid answer yet, asks
/// with `ask`. If `ask` is `None`, warns that the project is not used, and what the user can do.
/// `by_flag` trusts the project without a question.
///
/// # Errors
/// The project cannot be read although `by_flag` is set, or the remembered answers cannot be read
/// or written.
pub async fn decide_project_trust(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
    by_flag: bool,
    ask: Option<&dyn ProjectTrustAsker>,
) -> anyhow::Result<ProjectTrustDecision> {
    if !has_files_needing_trust(paths) {
        return Ok(ProjectTrustDecision::Nothing);
    }
    let held = match read_project_contents(environment, paths) {
        Ok(held) => Arc::new(held),
        Err(error) if by_flag => {
            return Err(anyhow::Error::new(error)
                .context(Usage("--trust-project cannot be applied".to_owned())));
        }
        Err(error) => {
            environment.warn(&format!(
                "the folder .rind of the project is not used: {error}"
            ));
            return Ok(ProjectTrustDecision::NotTrusted);
        }
    };
    let has_servers =
        list_mcp_server_files(paths).any(|(_, path)| held.file_content(&path).is_some());
    if !has_content_besides_mcp_files(paths) && !has_servers {
        return Ok(ProjectTrustDecision::Nothing);
    }
    if by_flag {
        return Ok(ProjectTrustDecision::Trusted(held));
    }
    let mut projects = TrustedProjects::read(&paths.trusted_projects_path())?;
    let trust = projects.find_workspace_trust(&paths.workspace, held.digest());
    if trust == ProjectTrust::Trusted {
        return Ok(ProjectTrustDecision::Trusted(held));
    }
    let Some(ask) = ask else {
        let why = match trust {
            ProjectTrust::Changed { .. } => "has changed since it was trusted",
            _ => "is not trusted",
        };
        let places = list_project_files_and_folders(paths, &held);
        // Warn only once about a project that contains only MCP servers of other agents, because
        // many projects contain them.
        let of_others = !has_content_besides_mcp_files(paths);
        if of_others
            && !other_agents::create_notice_marker_file(&paths.shown_notice_marker_path(&places))
        {
            return Ok(ProjectTrustDecision::NotTrusted);
        }
        let what = match of_others {
            true => places.join(" and "),
            false => ".rind".to_owned(),
        };
        environment.warn(&format!(
            "the project's {what} is not used: it {why}, and there is no terminal to ask at; review it and pass \
             --trust-project, or answer at a terminal"
        ));
        return Ok(ProjectTrustDecision::NotTrusted);
    };
    let question = ProjectTrustQuestion {
        paths,
        trust: &trust,
        files: &held,
        contents: ProjectContentsSummary {
            places: list_project_files_and_folders(paths, &held),
            plugins: describe_project_plugins(paths, &held),
            skills: describe_project_skills(paths, &held),
            presets: describe_project_presets(paths, &held),
            servers: describe_project_servers(paths, &held),
            settings: join_project_settings_texts(paths, &held),
        },
    };
    let Some(yes) = ask.ask(&question).await else {
        return Ok(ProjectTrustDecision::NotTrusted);
    };
    if yes == ProjectApprovalDuration::UntilChanged {
        let digest = held.digest().to_owned();
        projects
            .trust_workspace(
                &paths.workspace,
                digest,
                rind_lib::clock::format_current_time(),
            )
            .context("cannot store that the project is trusted")?;
    }
    Ok(ProjectTrustDecision::Trusted(held))
}

/// Returns the folder of the project's plugins, as a source of plugins.
#[must_use]
pub fn project_plugin_search_path(paths: &RindPaths) -> PluginSearchPath {
    PluginSearchPath::new(Trust::Project, paths.project_folder().join("plugins"))
}

/// Returns the settings of a trusted project.
///
/// # Errors
/// The settings are not UTF-8 or wrong, or contain something that only the user may set.
pub fn read_project_settings(
    paths: &RindPaths,
    held: &InMemoryFolder,
) -> anyhow::Result<Vec<ConfigLayer>> {
    // Check the disk too, because the files in memory do not include an empty folder.
    if let Some(path) = settings_file_paths(paths)
        .into_iter()
        .find(|path| path.is_dir())
    {
        bail_usage!(
            "{} is a folder, but must be a settings file; move it away",
            path.display()
        );
    }
    let mut layers = Vec::new();
    for (path, bytes) in read_settings_files(paths, held) {
        let text = String::from_utf8(bytes.to_vec())
            .with_context(|| Usage(format!("cannot read {}", path.display())))?;
        layers.push(ConfigLayer::from_file_text(&path, text)?);
    }
    let config = Config::new(layers.clone());
    config
        .check_known_sections(ALLOWED_PROJECT_SETTINGS_SECTIONS)
        .context(
            "cannot read the settings of the project; settings that a project cannot have \
            belong in your own config.toml",
        )?;
    let own = describe_project_plugins(paths, held);
    let is_foreign = |name: &&String| !own.iter().any(|(own, _)| own == *name);
    let PluginsConfig(settings) = config.section()?;
    if let Some(name) = settings.keys().find(is_foreign) {
        bail_usage!(
            "{} has settings for the plugin `{}`, which is not one of the project's; settings of your own plugins belong in your own config.toml",
            paths.project_config_path().display(),
            name.escape_debug()
        );
    }
    Ok(layers)
}

/// Reads the content of a project that needs trust: `.rind`, the folders
/// [`SHARED_AGENT_CONTENT_FOLDERS`], and files that name MCP servers.
fn read_project_contents(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
) -> Result<InMemoryFolder, ProjectTrustError> {
    let own = paths.project_folder();
    let own = match own.symlink_metadata() {
        Ok(_) => InMemoryFolder::read(&own)?,
        Err(_) => InMemoryFolder::empty(own),
    };
    let folders = SHARED_AGENT_CONTENT_FOLDERS
        .iter()
        .map(|folder| paths.workspace.join(folder));
    // Skip a folder that is a symlink to another folder of the list, because its files are read
    // there.
    let others: Vec<PathBuf> = folders
        .clone()
        .filter(|folder| !folder.is_symlink())
        .collect();
    let is_repeated = |folder: &PathBuf| {
        let real = folder.is_symlink().then(|| folder.canonicalize().ok());
        let is_it = |real: &PathBuf| {
            others
                .iter()
                .any(|other| other.canonicalize().ok().as_ref() == Some(real))
        };
        real.flatten().as_ref().is_some_and(is_it)
    };
    let folders = folders.filter(|folder| folder.symlink_metadata().is_ok());
    let folders = folders.filter(|folder| !is_repeated(folder));
    let read = folders.filter_map(|folder| {
        match InMemoryFolder::read_folder_following_symlinks(&folder, &paths.workspace) {
            Ok((held, refused)) => {
                let what = shared_folder_content_kind(&folder);
                for why in refused {
                    environment.warn(&format!(
                        "a file of the project's {what} is not used: {why}"
                    ));
                }
                Some(held)
            }
            Err(error) => {
                let shown = folder.display();
                let what = shared_folder_content_kind(&folder);
                environment.warn(&format!(
                    "the project's {what} in {shown} are not used: {error}"
                ));
                None
            }
        }
    });
    let mut others: Vec<InMemoryFolder> = read.collect();
    for (place, path) in list_mcp_server_files(paths) {
        if path.symlink_metadata().is_err() {
            continue;
        }
        let held = InMemoryFolder::read_file_following_symlinks(&path, &paths.workspace);
        let read = held.map_err(|error| error.to_string()).and_then(|held| {
            let bytes = held.file_content(&path).unwrap_or_default();
            let servers = project_servers::parse_mcp_server_file(place, bytes)?;
            Ok((held, servers.is_empty()))
        });
        match read {
            // Ignore a file without servers: it is not used and needs no trust.
            Ok((_, true)) => {}
            Ok((held, false)) => others.push(held),
            Err(why) => environment.warn_once(&format!(
                "the MCP servers in the project's {place} are not used: {why}"
            )),
        }
    }
    Ok(own.with_fallback_folders_in_digest(others))
}

/// Returns the name, and the command or address, of each of the project's MCP servers.
fn describe_project_servers(paths: &RindPaths, held: &InMemoryFolder) -> Vec<(String, String)> {
    let servers = project_servers::list_project_servers(paths, held).into_iter();
    servers
        .map(|server| (server.name.clone(), server.describe()))
        .collect()
}

/// Returns the noun for the files in a folder of [`SHARED_AGENT_CONTENT_FOLDERS`], for messages.
fn shared_folder_content_kind(folder: &Path) -> &'static str {
    if folder.ends_with(SUBAGENT_PRESETS_FOLDER_NAME) {
        "presets of subagents"
    } else if folder.ends_with(CLAUDE_SLASH_COMMANDS_FOLDER) {
        "slash commands"
    } else {
        "skills"
    }
}

/// Returns the id and the description of each skill of the project.
fn describe_project_skills(paths: &RindPaths, held: &Arc<InMemoryFolder>) -> Vec<(String, String)> {
    let roots = skill::project_skill_roots(&paths.workspace, held);
    let skills = skill::discover_skills(&roots, &[], &skill::AllRequirementsMetLookup);
    let described = skills
        .iter()
        .map(|skill| (skill.id.clone(), skill.description.clone()));
    described.collect()
}

/// Returns the id and the description of each preset of subagents of the project.
fn describe_project_presets(
    paths: &RindPaths,
    held: &Arc<InMemoryFolder>,
) -> Vec<(String, String)> {
    let roots = list_project_subagent_preset_folders(&paths.workspace, held);
    let presets = skill::discover_skills(&roots, &[], &skill::AllRequirementsMetLookup);
    let described = presets
        .iter()
        .map(|preset| (preset.id.clone(), preset.description.clone()));
    described.collect()
}

fn has_files_needing_trust(paths: &RindPaths) -> bool {
    let mut files = list_mcp_server_files(paths);
    has_content_besides_mcp_files(paths) || files.any(|(_, path)| path.symlink_metadata().is_ok())
}

/// Whether the project contains files that need trust, apart from files that may define MCP
/// servers.
fn has_content_besides_mcp_files(paths: &RindPaths) -> bool {
    // Also accept symlinks: a symlink that is not followed must be reported with a warning.
    let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
    // A file or symlink in the place of the project's folder also counts.
    (is_there(paths.project_folder()) && !paths.project_folder().is_dir())
        || is_there(paths.project_folder().join("plugins"))
        || is_there(
            paths
                .project_folder()
                .join(prompts::PROMPT_TEMPLATES_FOLDER_NAME),
        )
        || is_there(paths.project_folder().join(skill::SKILLS_FOLDER_NAME))
        || is_there(paths.project_folder().join(SUBAGENT_PRESETS_FOLDER_NAME))
        || SHARED_AGENT_CONTENT_FOLDERS
            .iter()
            .any(|folder| is_there(paths.workspace.join(folder)))
        || settings_file_paths(paths).into_iter().any(is_there)
}

fn list_project_files_and_folders(paths: &RindPaths, held: &InMemoryFolder) -> Vec<&'static str> {
    let folders = std::iter::once(".rind").chain(SHARED_AGENT_CONTENT_FOLDERS);
    let is_there = |folder: &&str| paths.workspace.join(folder).symlink_metadata().is_ok();
    let files = list_mcp_server_files(paths).filter(|(_, path)| held.file_content(path).is_some());
    let files = files.map(|(name, _)| name);
    folders.filter(is_there).chain(files).collect()
}

/// Returns the name and the description, as the project states them, of each plugin that would be
/// loaded.
fn describe_project_plugins(paths: &RindPaths, held: &InMemoryFolder) -> Vec<(String, String)> {
    let found = discover_plugins(&[project_plugin_search_path(paths)], Some(held)).into_iter();
    let mut plugins: Vec<(String, String)> = found
        .map(|found| match Manifest::read(&found.folder, Some(held)) {
            Ok(manifest) => (manifest.name, manifest.description),
            Err(_) => {
                let name = file_name(&found.folder);
                (name, "its manifest cannot be read".to_owned())
            }
        })
        .collect();
    plugins.sort();
    plugins
}

/// Returns the paths of the project's settings files, the file with lower precedence first, as in
/// [`ConfigLayer::read_files`].
fn settings_file_paths(paths: &RindPaths) -> [PathBuf; 2] {
    let file = paths.project_config_path();
    [file.with_extension("json"), file]
}

/// Returns the settings files that existed when the project was read, with their contents.
fn read_settings_files<'a>(
    paths: &RindPaths,
    held: &'a InMemoryFolder,
) -> Vec<(PathBuf, &'a [u8])> {
    let names = settings_file_paths(paths).into_iter();
    names
        .filter_map(|path| held.file_content(&path).map(|bytes| (path, bytes)))
        .collect()
}

fn join_project_settings_texts(paths: &RindPaths, held: &InMemoryFolder) -> String {
    let texts = read_settings_files(paths, held).into_iter();
    texts
        .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
        .collect::<Vec<_>>()
        .join("\n")
}
