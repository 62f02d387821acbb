//! Folders in which the skills of a session and presets of subagents are searched, and the skills
//! that were installed.

use std::path::Path;
use std::sync::Arc;

use super::setup::OperatorSetup;
use rind_lib::grant::held::HeldFolder;
use rind_lib::plugin::load::PluginSet;
use rind_lib::skill::{self, Installed, Root, Source};
use rind_package::lock_file::LockEntry;
use rind_package::skill::{LockedSkill, unverified_skills, verify_skills};

/// Name of folders with presets of subagents.
pub const PRESETS: &str = "agents";

/// Name of the folder of Claude Code in a home folder or a project.
const CLAUDE: &str = ".claude";

/// Returns the folders in which skills are searched: those of the user, of the trusted project, and
/// of plugins that run. `held` has the files of the project and the plugins that are in memory.
#[must_use]
pub fn roots(
    setup: &OperatorSetup,
    plugins: &PluginSet,
    held: Option<&Arc<HeldFolder>>,
) -> Vec<Root> {
    let paths = &setup.paths;
    let home = setup.environment.user_home();
    let mut roots = skill::user_roots(&paths.config, home.as_deref());
    for root in roots.iter_mut().filter(|root| root.source == Source::User) {
        root.installed = installed(setup, &root.path);
    }
    if let Some(held) = held {
        roots.extend(skill::project_roots(&paths.workspace, held));
    }
    roots.extend(plugins.plugins.iter().map(|plugin| {
        let path = plugin.folder.join(skill::FOLDER);
        let source = Source::Plugin(plugin.manifest.name.clone());
        Root {
            trust: plugin.trust,
            held: plugin.held.clone(),
            ..Root::new(source, path)
        }
    }));
    roots
}

/// Returns the folders in which presets of subagents are searched, in the same way as skills: those
/// of the user, of the trusted project, and of plugins that run.
#[must_use]
pub fn preset_roots(
    setup: &OperatorSetup,
    plugins: &PluginSet,
    held: Option<&Arc<HeldFolder>>,
) -> Vec<Root> {
    let paths = &setup.paths;
    let mut roots = vec![Root::nested(Source::User, paths.config.join(PRESETS))];
    let home = setup.environment.user_home();
    roots
        .extend(home.map(|home| Root::nested(Source::ClaudeUser, home.join(CLAUDE).join(PRESETS))));
    if let Some(held) = held {
        roots.extend(project_preset_roots(&paths.workspace, held));
    }
    roots.extend(plugins.plugins.iter().map(|plugin| {
        let path = plugin.folder.join(PRESETS);
        Root {
            trust: plugin.trust,
            held: plugin.held.clone(),
            ..Root::nested(Source::Plugin(plugin.manifest.name.clone()), path)
        }
    }));
    roots
}

/// Returns the folders with presets of subagents in a trusted project.
#[must_use]
pub fn project_preset_roots(workspace: &Path, held: &Arc<HeldFolder>) -> Vec<Root> {
    let folders = [(Source::Project, ".rind"), (Source::ClaudeProject, CLAUDE)];
    let roots = folders.into_iter().map(|(source, folder)| Root {
        held: Some(held.clone()),
        ..Root::nested(source, workspace.join(folder).join(PRESETS))
    });
    roots.filter(|root| held.covers(&root.path)).collect()
}

/// Returns the skills that were installed into the user's folder. If the lock file cannot be read,
/// every skill in the folder counts as installed and then changed, because the user's own ones
/// cannot be told apart.
#[must_use]
pub fn installed(setup: &OperatorSetup, skills: &Path) -> Vec<Installed> {
    // Leave out the settings of the project: a project must not decide which signing keys are
    // trusted.
    let written = setup.config.without(&setup.paths.project_config());
    let lock_path = setup.paths.config.join(LockedSkill::FILE_NAME);
    let keys = written.section().map_err(anyhow::Error::from);
    let installed = keys.and_then(|keys| verify_skills(skills, &lock_path, &keys));
    installed.unwrap_or_else(|error| {
        setup.environment.warn(&format!(
            "it is unknown which skills were installed, so all count as installed and then changed: {error:#}"
        ));
        unverified_skills(skills)
    })
}
