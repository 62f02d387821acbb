//! Folders that the skills of a session are searched in, and which of the skills were installed.

use std::path::Path;
use std::sync::Arc;

use super::setup::OperatorSetup;
use rind_lib::grant::held::HeldFolder;
use rind_lib::plugin::load::PluginSet;
use rind_lib::skill::{self, Installed, Root, Source};
use rind_package::lock_file::LockEntry;
use rind_package::skill::{LockedSkill, unverified_skills, verify_skills};

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

/// Returns the skills that were installed into the user's folder. Without a lock file that can be
/// read, everything there counts as installed and changed since: nothing tells which skills are the
/// user's own.
#[must_use]
pub fn installed(setup: &OperatorSetup, skills: &Path) -> Vec<Installed> {
    // Without the settings of the project, which must not decide whom to trust.
    let written = setup.config.without(&setup.paths.project_config());
    let lock_path = setup.paths.config.join(LockedSkill::FILE_NAME);
    let keys = written.section().map_err(anyhow::Error::from);
    let installed = keys.and_then(|keys| verify_skills(skills, &lock_path, &keys));
    installed.unwrap_or_else(|error| {
        setup.environment.warn(&format!(
            "nobody can tell which skills were installed, so that all count as installed and changed since: {error:#}"
        ));
        unverified_skills(skills)
    })
}
