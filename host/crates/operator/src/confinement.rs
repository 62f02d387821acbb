//! Builds the confinement of commands from the settings and the environment, and tests whether it
//! works on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::environment::OperatorEnvironment;
use super::git_settings::read_user_git_settings;
use super::setup::OperatorWorkspaceSetup;
use super::usage::{Usage, bail_usage};
use rind_lib::beneath::{real_path, select_folders_below_root};
use rind_lib::disk::create_private_folder;
use rind_lib::paths::{HOME_VARIABLE, RindPaths};
use rind_lib::tool::builtin::{
    CommandConfinementAndEnvironment, CommandConfinementMode, RetriedConfinementSetup,
};
use rind_lib::tool::process::confine::{
    ConfinementFailureReason, ConfinementMechanism, ConfinementPermissions, DetectedConfinement,
    check_paths_do_not_overlap, detect_confinement, find_program_in_folders,
    list_tool_folders_in_home, list_toolchain_folders_in_env, readable_system_paths,
};
use rind_lib::tool::repository::disable_git_files_of_interrupted_commands;
use rind_lib::tool::sandbox::{
    SandboxConfig, SandboxMechanismChoice, SandboxRequirement, build_command_environment,
};

/// Confinement of `bash` commands on this machine, or the reason why there is none.
#[derive(Debug)]
pub struct CommandConfinement {
    /// Settings for the confinement of commands.
    pub config: SandboxConfig,
    /// Confinement that works on this machine, or the reason why none does.
    pub detected: Result<DetectedConfinement, ConfinementFailureReason>,
    /// Confinement that each command tries to set up until one succeeds. `None` if the first search
    /// succeeded, or if another search cannot succeed either.
    retried: Option<RetriedConfinementSetup>,
    environment: Arc<OperatorEnvironment>,
}

/// Search for a mechanism of the system that can confine commands. It can be repeated.
#[derive(Clone)]
struct ConfinementMechanismSearch {
    wanted: ConfinementPermissions,
    choice: SandboxMechanismChoice,
    bwrap: Option<PathBuf>,
    /// Rind's own folders. The trial process must not be able to read the folder `forbidden`.
    own: Vec<PathBuf>,
    forbidden: PathBuf,
    /// Path of the workspace, with symlinks resolved.
    workspace: PathBuf,
}

impl ConfinementMechanismSearch {
    async fn search_mechanism(&self) -> Result<DetectedConfinement, ConfinementFailureReason> {
        if self.wanted.hidden.is_empty() {
            return self.detect_mechanism().await;
        }
        self.prepare_hidden_folders()
            .map_err(ConfinementFailureReason::Failed)?;
        let failed = |why: &str| {
            ConfinementFailureReason::Failed(format!(
                "the workspace contains folders of Rind's own, and only namespaces can hide them from commands: {why}; start \
                 in a folder below, or move Rind's folders with {HOME_VARIABLE}"
            ))
        };
        // Accept only a mechanism that can hide folders. Even `Missing` becomes `Failed`, because
        // with `Missing` commands could run unconfined.
        match self.detect_mechanism().await {
            Ok(detected)
                if detected
                    .confinement
                    .mechanism
                    .hides_outside_files_and_processes() =>
            {
                Ok(detected)
            }
            Ok(detected) => Err(failed(
                detected
                    .passed_over
                    .as_deref()
                    .unwrap_or("`mechanism` is Landlock"),
            )),
            Err(obstacle) => Err(failed(obstacle.reason_text())),
        }
    }

    /// Creates missing folders that commands must not see, and checks that each of them can be
    /// hidden.
    fn prepare_hidden_folders(&self) -> Result<(), String> {
        if self.workspace == Path::new("/") {
            return Err(
                "commands do not run if the workspace is `/`; start in a subfolder".to_owned(),
            );
        }
        for folder in &self.wanted.hidden {
            create_private_folder(folder)
                .map_err(|error| format!("cannot hide {}: {error}", folder.display()))?;
        }
        Ok(())
    }

    async fn detect_mechanism(&self) -> Result<DetectedConfinement, ConfinementFailureReason> {
        if let Some(link) = find_rind_folder_symlink(&self.workspace, &self.own) {
            return Err(ConfinementFailureReason::Failed(format!(
                "{} is a link in the workspace to a folder of Rind's own, and a command could replace the link; start in a folder below, or set {HOME_VARIABLE} to a path without links",
                link.display()
            )));
        }
        let overlap = self.wanted.check_forbidden_path_overlaps(&self.own);
        overlap.map_err(|overlap| ConfinementFailureReason::Failed(overlap.to_string()))?;
        let mut confinement = self.wanted.clone();
        confinement.mechanism = match (self.choice, &self.bwrap) {
            (SandboxMechanismChoice::Bwrap, Some(bwrap)) => {
                ConfinementMechanism::Bwrap(bwrap.clone())
            }
            (SandboxMechanismChoice::Bwrap, None) => {
                return Err(ConfinementFailureReason::Failed(
                    "`mechanism = \"bwrap\"` in [sandbox] of config.toml needs the program `bwrap` in a folder that commands cannot write"
                        .to_owned(),
                ));
            }
            (SandboxMechanismChoice::Landlock, _) => ConfinementMechanism::Landlock,
            (SandboxMechanismChoice::Auto | SandboxMechanismChoice::Namespaces, _) => {
                ConfinementMechanism::Namespaces
            }
        };
        let only_that = self.choice != SandboxMechanismChoice::Auto;
        detect_confinement(
            confinement,
            self.bwrap.as_deref(),
            only_that,
            &self.forbidden,
        )
        .await
    }

    /// Converts this search to a confinement that each command tries to set up, until one succeeds.
    fn into_confinement_with_retries(self) -> RetriedConfinementSetup {
        RetriedConfinementSetup::new(self.wanted.clone(), move || {
            let search = self.clone();
            Box::pin(async move {
                search
                    .search_mechanism()
                    .await
                    .map(|detected| detected.confinement)
            })
        })
    }
}

/// Finds a confinement for commands with a trial process; call it once per process. First checks
/// the files that interrupted commands of an earlier process left.
///
/// # Errors
/// The settings of the confinement are invalid, or the path of this program is not known.
pub async fn find_command_confinement(
    setup: &OperatorWorkspaceSetup,
) -> anyhow::Result<CommandConfinement> {
    let (environment, paths) = (&setup.environment, &setup.paths);
    warn_about_interrupted_commands(environment, paths.running_command_records_folder()).await;
    let own = rind_folders(paths);
    find_command_confinement_for_config(environment, paths, setup.config.section()?, &own).await
}

/// Renames files of interrupted commands that git would run, and warns about each.
async fn warn_about_interrupted_commands(environment: &OperatorEnvironment, records: PathBuf) {
    let judged =
        tokio::task::spawn_blocking(move || disable_git_files_of_interrupted_commands(&records))
            .await;
    for line in judged.into_iter().flatten() {
        environment.warn(&line);
    }
}

/// Finds a confinement for commands with the settings `config`, which may differ from the settings
/// files. `own` are the folders that no command may see.
///
/// # Errors
/// The settings of the confinement are invalid, or the path of this program is not known.
pub async fn find_command_confinement_for_config(
    environment: &Arc<OperatorEnvironment>,
    paths: &RindPaths,
    config: SandboxConfig,
    own: &[PathBuf],
) -> anyhow::Result<CommandConfinement> {
    if config.sandbox_requirement() == SandboxRequirement::Off {
        let why = "`bash = \"off\"` in [sandbox] of config.toml".to_owned();
        return Ok(CommandConfinement {
            environment: environment.clone(),
            config,
            detected: Err(ConfinementFailureReason::Missing(why)),
            retried: None,
        });
    }
    let mut wanted = confinement_from_settings(environment, paths, &config, own)?;
    // Run git only from folders in which no command can have replaced it, because it runs
    // unconfined.
    let folders: Vec<PathBuf> =
        exclude_writable_folders(folders_in_path_variable(environment), &wanted.write).collect();
    wanted.git_settings = read_user_git_settings(&folders).await;
    let search = ConfinementMechanismSearch {
        wanted,
        choice: config.mechanism,
        bwrap: find_program_in_folders("bwrap", folders),
        own: own.to_vec(),
        forbidden: paths.data.clone(),
        workspace: real_path(&paths.workspace),
    };
    let detected = search.search_mechanism().await;
    Ok(CommandConfinement {
        environment: environment.clone(),
        config,
        retried: matches!(detected, Err(ConfinementFailureReason::Failed(_)))
            .then(|| search.into_confinement_with_retries()),
        detected,
    })
}

impl CommandConfinement {
    /// Returns the confinement and environment of `bash` commands. Shows no warning if they run
    /// unconfined.
    #[must_use]
    pub fn command_environment_without_warning(&self) -> CommandConfinementAndEnvironment {
        build_command_environment(
            &self.config,
            &self.detected,
            self.environment.process_reaper_path(),
            self.retried.as_ref(),
        )
    }

    /// Returns the reason why commands cannot be confined. If the settings require confinement,
    /// commands are refused for this reason.
    #[must_use]
    pub fn refusal_reason(&self) -> Option<&str> {
        self.detected
            .as_ref()
            .err()
            .map(ConfinementFailureReason::reason_text)
    }

    /// Returns the confinement and environment of `bash` commands. Warns if they run unconfined or
    /// are refused.
    #[must_use]
    pub fn command_environment_with_warning(&self) -> CommandConfinementAndEnvironment {
        let commands = self.command_environment_without_warning();
        match &commands.confining {
            CommandConfinementMode::Unconfined { why, .. } => warn_commands_unconfined(&self.environment, why),
            CommandConfinementMode::Refused(why) => self.environment.warn(&format!(
                "bash is refused, because its commands must run confined and cannot: {why}; see `rind doctor`"
            )),
            CommandConfinementMode::RetryingConfinement(_) => {
                let why = self.refusal_reason().unwrap_or_default();
                self.environment.warn(&format!(
                    "bash is refused until its commands can be confined (each call tries again): {why}; see `rind doctor`"
                ));
            }
            CommandConfinementMode::Free | CommandConfinementMode::Kept(_) | CommandConfinementMode::Confined(_) => {}
        }
        commands
    }
}

/// Warns the operator that commands run unconfined, and gives the reason.
pub fn warn_commands_unconfined(environment: &OperatorEnvironment, why: &str) {
    environment.warn(&format!(
        "commands of bash run unconfined: {why}; see `rind doctor`"
    ));
}

/// Returns the folders of Rind itself, which commands must not see.
#[must_use]
pub fn rind_folders(paths: &RindPaths) -> Vec<PathBuf> {
    paths.config_data_cache_folders().to_vec()
}

/// Finds a symlink inside the workspace that is part of the path to one of Rind's own folders.
fn find_rind_folder_symlink(workspace: &Path, own: &[PathBuf]) -> Option<PathBuf> {
    let is_inside = |path: &Path| {
        let parent = path.parent().map(real_path);
        parent.is_some_and(|parent| parent.starts_with(workspace))
    };
    let is_link = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|found| found.is_symlink())
    };
    let mut links = own.iter().flat_map(|own| own.ancestors());
    let link = links.find(|path| is_link(path) && is_inside(path));
    link.map(Path::to_owned)
}

/// Returns the folders in which tools of the agent may write: the workspace, and the folders that
/// the settings make writable for commands.
///
/// # Errors
/// A setting is wrong.
pub fn writable_agent_folders(setup: &OperatorWorkspaceSetup) -> anyhow::Result<Vec<PathBuf>> {
    let config: SandboxConfig = setup.config.section()?;
    let home = setup.environment.home_folder_or_empty();
    let mut folders = vec![setup.paths.workspace.clone()];
    for text in &config.write {
        folders.push(resolve_home_path(text, &home)?);
    }
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    Ok(folders.into_iter().map(real).collect())
}

fn confinement_from_settings(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
    config: &SandboxConfig,
    own: &[PathBuf],
) -> anyhow::Result<ConfinementPermissions> {
    let home = environment.home_folder_or_empty();
    let home = home.canonicalize().unwrap_or(home);
    let mut write = vec![paths.workspace.clone()];
    for text in &config.write {
        let path = resolve_accessible_path(text, &home, own)?;
        if !path.exists() {
            bail_usage!(
                "`write` in [sandbox] of config.toml names {}, which does not exist",
                path.display()
            );
        }
        write.push(path);
    }
    write.extend(shared_git_folder_of_worktree(&paths.workspace));
    let mut read = readable_system_paths();
    read.extend(list_tool_folders_in_home(&home));
    for text in &config.read {
        read.push(resolve_accessible_path(text, &home, own)?);
    }
    add_readable_program_folders(&mut read, &home, own, folders_in_path_variable(environment));
    let named = list_toolchain_folders_in_env(&config.env.command_environment());
    add_readable_program_folders(&mut read, &home, own, named);
    Ok(ConfinementPermissions {
        helper: environment
            .program
            .clone()
            .context("cannot find the path of this program")?,
        mechanism: ConfinementMechanism::Namespaces,
        hidden: select_folders_below_root(&real_path(&paths.workspace), own),
        write,
        read,
        network: config.network,
        limits: config.command_limits(),
        git_settings: String::new(),
        records: Some(paths.running_command_records_folder()),
    })
}

/// Returns the folders that any confined program may read: those of the system and of common tools,
/// but not those that the settings make readable for commands.
///
/// # Errors
/// The path of this program is not known.
pub fn publicly_readable_folders(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
) -> anyhow::Result<Vec<PathBuf>> {
    let config = SandboxConfig::default();
    Ok(confinement_from_settings(environment, paths, &config, &rind_folders(paths))?.read)
}

/// Adds folders of programs and tools to `read`, the folders that confined commands may read. Skips
/// a folder that would expose the home folder or one of Rind's own folders.
fn add_readable_program_folders(
    read: &mut Vec<PathBuf>,
    home: &Path,
    own: &[PathBuf],
    folders: Vec<PathBuf>,
) {
    for folder in folders.into_iter().filter(|folder| folder.exists()) {
        let is_known = read.iter().any(|path| folder.starts_with(path));
        let real = folder.canonicalize();
        let gives_home = real.is_ok_and(|real| home.starts_with(real));
        if !is_known && !gives_home && check_paths_do_not_overlap(&folder, own).is_ok() {
            read.push(folder);
        }
    }
}

/// Returns the folder with the shared git data if the workspace is a linked worktree. The `.git`
/// file of the workspace could contain any path, so the folder at that path must refer back to the
/// workspace.
fn shared_git_folder_of_worktree(workspace: &Path) -> Option<PathBuf> {
    let line = |path: PathBuf| std::fs::read_to_string(path).ok();
    let own = workspace.join(".git");
    let text = line(own.clone())?;
    let folder = Path::new(text.strip_prefix("gitdir: ")?.trim())
        .canonicalize()
        .ok()?;
    let back = PathBuf::from(line(folder.join("gitdir"))?.trim());
    let shared = folder
        .join(line(folder.join("commondir"))?.trim())
        .canonicalize()
        .ok()?;
    let is_worktree = back.canonicalize().ok()? == own.canonicalize().ok()?
        && folder.parent()? == shared.join("worktrees");
    is_worktree.then_some(shared)
}

/// Returns those of `folders` that are outside the writable folders `write`. No command can have
/// placed a program there, so these programs may run unconfined.
fn exclude_writable_folders(
    folders: Vec<PathBuf>,
    write: &[PathBuf],
) -> impl Iterator<Item = PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let write: Vec<PathBuf> = write.iter().map(|path| real(path)).collect();
    folders.into_iter().filter(move |folder| {
        let folder = real(folder);
        !write.iter().any(|path| folder.starts_with(path))
    })
}

fn folders_in_path_variable(environment: &OperatorEnvironment) -> Vec<PathBuf> {
    let folders = environment.path_variable_folders();
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Resolves a path that the settings make accessible to commands, and refuses Rind's own folders.
fn resolve_accessible_path(text: &str, home: &Path, own: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let path = resolve_home_path(text, home)?;
    check_paths_do_not_overlap(&path, own).with_context(|| {
        Usage(format!(
            "cannot give commands access to `{text}`, as [sandbox] in config.toml says"
        ))
    })?;
    Ok(path)
}

/// Resolves a path in the settings. The path must be absolute or begin with `~` (the home folder).
fn resolve_home_path(text: &str, home: &Path) -> anyhow::Result<PathBuf> {
    let path = match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if text == "~" => home.to_owned(),
        None => PathBuf::from(text),
    };
    if path.is_absolute() {
        return Ok(path);
    }
    bail_usage!("`{text}` in [sandbox] of config.toml is neither absolute nor below `~/`")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_worktree_has_its_repository_and_a_workspace_that_only_claims_to_be_one_has_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (workspace, shared) = (root.join("w"), root.join("repo/.git"));
        let own = shared.join("worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir(&workspace).unwrap();
        assert_eq!(shared_git_folder_of_worktree(&workspace), None);
        fs::write(
            workspace.join(".git"),
            format!("gitdir: {}\n", own.display()),
        )
        .unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        assert_eq!(
            shared_git_folder_of_worktree(&workspace),
            None,
            "it does not name it back"
        );
        fs::write(
            own.join("gitdir"),
            format!("{}\n", workspace.join(".git").display()),
        )
        .unwrap();
        assert_eq!(shared_git_folder_of_worktree(&workspace), Some(shared));

        let other = root.join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(workspace.join(".git"), other.join(".git")).unwrap();
        assert_eq!(
            shared_git_folder_of_worktree(&other),
            None,
            "it names another workspace"
        );
    }

    #[test]
    fn a_link_in_the_workspace_that_leads_to_a_folder_of_rinds_own_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, elsewhere) = (root.join("home"), root.join("elsewhere"));
        fs::create_dir_all(elsewhere.join("rind")).unwrap();
        fs::create_dir_all(home.join("project")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.join(".config")).unwrap();
        let own = [home.join(".config/rind"), home.join(".cache/rind")];
        assert_eq!(
            find_rind_folder_symlink(&home, &own),
            Some(home.join(".config"))
        );
        assert_eq!(find_rind_folder_symlink(&home.join("project"), &own), None);
        assert_eq!(find_rind_folder_symlink(&home, &own[1..]), None);
    }

    #[test]
    fn paths_of_the_settings_are_absolute_or_in_the_home_folder() {
        let home = Path::new("/h");
        assert_eq!(resolve_home_path("~/x", home).unwrap(), Path::new("/h/x"));
        assert_eq!(resolve_home_path("~", home).unwrap(), home);
        assert_eq!(resolve_home_path("/x", home).unwrap(), Path::new("/x"));
        assert!(resolve_home_path("x", home).is_err());
        assert!(resolve_home_path("~other/x", home).is_err());
    }

    #[test]
    fn what_confines_is_not_taken_from_where_commands_write() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, usual) = (folder.path().join("w"), folder.path().join("bin"));
        let planted = workspace.join("bin");
        for folder in [&planted, &usual] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("bwrap"), "").unwrap();
        }
        std::os::unix::fs::symlink(&planted, folder.path().join("link")).unwrap();
        let folders = vec![folder.path().join("link"), planted, usual.clone()];
        let found =
            find_program_in_folders("bwrap", exclude_writable_folders(folders, &[workspace]));
        assert_eq!(found, Some(usual.join("bwrap")));
    }

    #[test]
    fn folders_of_programs_are_added_unless_they_give_away_more() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let own = home.join(".config/rind");
        for made in [&own.join("bin"), &home.join("bin"), &home.join("tools")] {
            fs::create_dir_all(made).unwrap();
        }
        let mut read = vec![home.join("tools")];
        let folders = [
            "bin",
            "tools",
            ".config",
            ".config/rind/bin",
            "missing",
            "",
            "..",
        ];
        let folders = folders.map(|name| home.join(name)).to_vec();
        add_readable_program_folders(&mut read, &home.canonicalize().unwrap(), &[own], folders);
        assert_eq!(read, [home.join("tools"), home.join("bin")]);
    }
}
