//! Finds the plugins of the installation: the plugins embedded in the program, and the plugins in
//! folders of the administrator.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::environment::OperatorEnvironment;
use super::usage::Usage;
use rind_lib::grant::Trust;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::{HOME_VARIABLE, file_name};
use rind_lib::plugin::discover::{PluginSearchPath, discover_plugins};
use rind_lib::plugin::precompiled::PrecompiledComponents;

/// Environment variable with the path of a folder whose plugins replace the embedded ones. It has
/// no other purpose, because a folder that was set for another purpose must not remove guards.
pub const MANAGED_PLUGINS_FOLDER_VARIABLE: &str = "RIND_MANAGED";

/// Plugins that are embedded in a program such as `rind`.
#[derive(Clone, Debug)]
pub struct EmbeddedPlugins {
    /// Files of the embedded plugins, in memory.
    pub files: InMemoryFolder,
    /// Folder in `files` with the plugins that every session loads.
    pub core: PathBuf,
    /// Precompiled native code of the plugins' components.
    pub precompiled: PrecompiledComponents,
}

impl OperatorEnvironment {
    /// Returns the folders of the installation's plugins: first the embedded folder, and then the
    /// share folder of the program, or the folder `managed` in `RIND_HOME`. If `RIND_MANAGED` is
    /// set, returns only the folder that it names.
    ///
    /// # Errors
    /// `RIND_MANAGED` does not name a readable folder.
    pub fn list_bundled_plugin_folders(&self) -> anyhow::Result<Vec<PathBuf>> {
        let Some(named) = self.managed_folder_from_variable() else {
            let core = self.carried.as_ref().map(|carried| carried.core.clone());
            return Ok(core
                .into_iter()
                .chain(self.installation_plugins_folder())
                .collect());
        };
        std::fs::read_dir(&named).with_context(|| {
            Usage(format!(
                "cannot read the plugins in {} (unset {MANAGED_PLUGINS_FOLDER_VARIABLE} to use the \
                 plugins embedded in rind)",
                named.display()
            ))
        })?;
        Ok(vec![named])
    }

    /// Returns the names of the embedded plugins if `RIND_MANAGED` is set, because the plugins in
    /// that folder then replace all of them; empty if it is not set.
    #[must_use]
    pub fn replaced_embedded_plugin_names(&self) -> Vec<String> {
        let carried = self.carried.as_ref();
        let Some(carried) = carried.filter(|_| self.managed_folder_from_variable().is_some())
        else {
            return Vec::new();
        };
        let sources = [PluginSearchPath::new(Trust::Managed, carried.core.clone())];
        let found = discover_plugins(&sources, Some(&carried.files)).into_iter();
        found.map(|found| file_name(&found.folder)).collect()
    }

    /// Returns the folder on disk in which the installation's plugins are.
    #[must_use]
    pub fn installation_plugins_folder(&self) -> Option<PathBuf> {
        if let Some(named) = self.managed_folder_from_variable() {
            return Some(named);
        }
        if let Some(home) = self.variable(HOME_VARIABLE) {
            return Some(Path::new(&home).join("managed"));
        }
        let program = self.program.as_ref()?;
        Some(program.parent()?.parent()?.join("share/rind/plugins"))
    }

    fn managed_folder_from_variable(&self) -> Option<PathBuf> {
        self.variable(MANAGED_PLUGINS_FOLDER_VARIABLE)
            .map(PathBuf::from)
    }
}
