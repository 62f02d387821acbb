//! Folders that the skills of a session are searched in, and which of the skills were installed.

use std::path::Path;
use std::sync::Arc;

use super::setup::OperatorSetup;
use rind_lib::grant::held::HeldFolder;
use rind_lib::plugin::load::PluginSet;
use rind_lib::skill::{self, Installed, Root, Source};
use rind_package::lock_file::LockEntry;
use rind_package::skill::{LockedSkill, unverified_skills, verify_skills};

/// Name of the folders of presets of subagents.
pub const PRESETS: &str = "agents";

/// Folder of Claude Code in a home or a project.
const CLAUDE: &str = ".claude";

/// Returns the folders of skills: the user's, those of plugins that run, those of the project when
/// it is trusted. `held` are the files of the project that were read before.
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

/// Returns the folders of presets of subagents: the user's, those of plugins that run, those of the
/// project when it is trusted. They are searched like folders of skills.
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

/// Returns the folders of a trusted project with presets of subagents.
#[must_use]
pub fn project_preset_roots(workspace: &Path, held: &Arc<HeldFolder>) -> Vec<Root> {
    let folders = [(Source::Project, ".rind"), (Source::ClaudeProject, CLAUDE)];
    let roots = folders.into_iter().map(|(source, folder)| Root {
        held: Some(held.clone()),
        ..Root::nested(source, workspace.join(folder).join(PRESETS))
    });
    roots.filter(|root| held.covers(&root.path)).collect()
}

/// Returns the skills that were installed into the user's folder. Without a readable lock file,
/// every skill there counts as installed and changed since, because the user's own skills cannot be
/// recognized.
#[must_use]
pub fn installed(setup: &OperatorSetup, skills: &Path) -> Vec<Installed> {
    // Leave out the settings of the project: a project must not decide whom to trust.
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
