//! Folders in which a session finds skills and presets of subagents, and the skills that were
//! installed.

use std::path::Path;
use std::sync::Arc;

use super::setup::OperatorWorkspaceSetup;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::skill::{self, InstalledSkillRecord, SkillSearchDirectory, Source};
use rind_package::lock_file::LockEntry;
use rind_package::skill::{SkillLockFileEntry, list_skills_as_unverified, verify_installed_skills};

/// Name of every folder in which Rind searches for presets of subagents.
pub const SUBAGENT_PRESETS_FOLDER_NAME: &str = "agents";

/// Name of the folder of Claude Code in a home folder or a project.
const CLAUDE_CODE_FOLDER_NAME: &str = ".claude";

/// Returns the folders in which skills are searched: those of the user, of the trusted project, and
/// of running plugins. `held` contains the project's files, which were read into memory.
#[must_use]
pub fn skill_roots(
    setup: &OperatorWorkspaceSetup,
    plugins: &FoundPluginSet,
    held: Option<&Arc<InMemoryFolder>>,
) -> Vec<SkillSearchDirectory> {
    let paths = &setup.paths;
    let home = setup.environment.user_home();
    let mut roots = skill::user_skill_roots(&paths.config, home.as_deref());
    for root in roots.iter_mut().filter(|root| root.source == Source::User) {
        root.installed = list_installed_skills(setup, &root.path);
    }
    if let Some(held) = held {
        roots.extend(skill::project_skill_roots(&paths.workspace, held));
    }
    roots.extend(plugins.plugins.iter().map(|plugin| {
        let path = plugin.folder.join(skill::SKILLS_FOLDER_NAME);
        let source = Source::Plugin(plugin.manifest.name.clone());
        SkillSearchDirectory {
            trust: plugin.trust,
            held: plugin.held.clone(),
            ..SkillSearchDirectory::new(source, path)
        }
    }));
    roots
}

/// Returns the folders in which presets of subagents are searched, in the same way as skills: those
/// of the user, of the trusted project, and of running plugins.
#[must_use]
pub fn list_subagent_preset_folders(
    setup: &OperatorWorkspaceSetup,
    plugins: &FoundPluginSet,
    held: Option<&Arc<InMemoryFolder>>,
) -> Vec<SkillSearchDirectory> {
    let paths = &setup.paths;
    let mut roots = vec![SkillSearchDirectory::with_nested_folders(
        Source::User,
        paths.config.join(SUBAGENT_PRESETS_FOLDER_NAME),
    )];
    let home = setup.environment.user_home();
    roots.extend(home.map(|home| {
        SkillSearchDirectory::with_nested_folders(
            Source::ClaudeUser,
            home.join(CLAUDE_CODE_FOLDER_NAME)
                .join(SUBAGENT_PRESETS_FOLDER_NAME),
        )
    }));
    if let Some(held) = held {
        roots.extend(list_project_subagent_preset_folders(&paths.workspace, held));
    }
    roots.extend(plugins.plugins.iter().map(|plugin| {
        let path = plugin.folder.join(SUBAGENT_PRESETS_FOLDER_NAME);
        SkillSearchDirectory {
            trust: plugin.trust,
            held: plugin.held.clone(),
            ..SkillSearchDirectory::with_nested_folders(
                Source::Plugin(plugin.manifest.name.clone()),
                path,
            )
        }
    }));
    roots
}

/// Returns the folders in a trusted project that contain presets of subagents.
#[must_use]
pub fn list_project_subagent_preset_folders(
    workspace: &Path,
    held: &Arc<InMemoryFolder>,
) -> Vec<SkillSearchDirectory> {
    let folders = [
        (Source::Project, ".rind"),
        (Source::ClaudeProject, CLAUDE_CODE_FOLDER_NAME),
    ];
    let roots = folders
        .into_iter()
        .map(|(source, folder)| SkillSearchDirectory {
            held: Some(held.clone()),
            ..SkillSearchDirectory::with_nested_folders(
                source,
                workspace.join(folder).join(SUBAGENT_PRESETS_FOLDER_NAME),
            )
        });
    roots
        .filter(|root| held.is_path_inside(&root.path))
        .collect()
}

/// Returns the skills that were installed into the user's folder. If the lock file cannot be read,
/// every skill in the folder counts as installed and modified, because the skills that the user
/// wrote cannot be distinguished from installed ones.
#[must_use]
pub fn list_installed_skills(
    setup: &OperatorWorkspaceSetup,
    skills: &Path,
) -> Vec<InstalledSkillRecord> {
    // Leave out the settings of the project: a project must not decide which signing keys are
    // trusted.
    let written = setup
        .config
        .clone_without_file_layers(&setup.paths.project_config_path());
    let lock_path = setup.paths.config.join(SkillLockFileEntry::FILE_NAME);
    let keys = written.section().map_err(anyhow::Error::from);
    let installed = keys.and_then(|keys| verify_installed_skills(skills, &lock_path, &keys));
    installed.unwrap_or_else(|error| {
        setup.environment.warn(&format!(
            "it is unknown which skills were installed, so all are treated like installed skills whose files were edited: {error:#}"
        ));
        list_skills_as_unverified(skills)
    })
}
