//! The skills of a run: those of the user, of plugins that run, and of a trusted project.

use std::path::Path;
use std::sync::Arc;

use super::command::reserved;
use super::setup::env;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::paths::{HOME_VARIABLE, Paths};
use crate::plugin::load::PluginSet;
use crate::skill::{Available, FOLDER, Root, Skills, Source, discover, project_roots, user_roots};

/// Programs and variables of this machine.
struct Machine;

impl Available for Machine {
    fn program(&self, name: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_name = !name.is_empty() && !name.contains('/');
        is_name && std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    }

    fn variable(&self, name: &str) -> bool {
        env(name).is_some()
    }
}

/// Finds the skills of a run. With `RIND_HOME`, nothing of the home folder counts.
pub(super) fn skills(
    paths: &Paths,
    project: Option<&Arc<HeldFolder>>,
    plugins: &PluginSet,
) -> Skills {
    let home = std::env::home_dir().filter(|_| env(HOME_VARIABLE).is_none());
    let mut roots = user_roots(
        &paths.config,
        home.as_deref().filter(|home| *home != Path::new("")),
    );
    roots.extend(plugins.plugins.iter().map(|plugin| Root {
        source: Source::Plugin(plugin.manifest.name.clone()),
        trust: plugin.trust,
        path: plugin.folder.join(FOLDER),
        // Of a project, what somebody said is trusted.
        held: project.filter(|_| plugin.trust == Trust::Project).cloned(),
    }));
    roots.extend(
        project
            .into_iter()
            .flat_map(|held| project_roots(&paths.workspace, held)),
    );
    discover(&roots, &reserved(), &Machine)
}
