//! Represents the environment of the operator's program: variables, home folder, path of the
//! binary, and embedded plugins.
//!
//! The program creates it once, and no code of this crate reads the environment of the process. A
//! server or a test can therefore supply other values.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, access};

use super::managed::EmbeddedPlugins;
use super::usage::bail_usage;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::paths::{HOME_VARIABLE, RindPaths};

/// Function that shows one warning to the operator.
pub type WarningCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Environment variables, folders and embedded plugins that a program passes to this crate.
///
/// The default is empty: no variables, no home folder, no embedded plugins, and warnings are
/// dropped.
#[derive(Clone)]
pub struct OperatorEnvironment {
    /// Environment variables of the program.
    pub variables: HashMap<OsString, OsString>,
    /// Home folder of the user, as the operating system reports it.
    pub home: Option<PathBuf>,
    /// Path of the program itself, which is started again as a helper for sandboxes and
    /// compilation.
    pub program: Option<PathBuf>,
    /// Plugins that are embedded in the program; `None` if there are none.
    pub carried: Option<EmbeddedPlugins>,
    /// Function that shows warnings to the operator.
    pub on_warning: WarningCallback,
    /// Warnings that [`warn_once`](Self::warn_once) has shown and does not repeat.
    pub said: WarningsAlreadyShown,
}

/// Warnings that were shown by [`warn_once`](OperatorEnvironment::warn_once); empty at first.
#[derive(Clone, Debug, Default)]
pub struct WarningsAlreadyShown(Arc<Mutex<HashSet<String>>>);

impl std::fmt::Debug for OperatorEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperatorEnvironment")
            .field("home", &self.home)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Default for OperatorEnvironment {
    fn default() -> Self {
        Self {
            variables: HashMap::new(),
            home: None,
            program: None,
            carried: None,
            on_warning: Arc::new(|_| {}),
            said: WarningsAlreadyShown::default(),
        }
    }
}

impl OperatorEnvironment {
    /// Returns the value of a variable; `None` if it is unset, empty or not UTF-8.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = self.variables.get(OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Shows the operator a warning.
    pub fn warn(&self, text: &str) {
        (self.on_warning)(text);
    }

    /// Shows a warning unless this method has shown the same text before. Use it for faults of
    /// files and settings, which are found again for each session that the program opens.
    pub fn warn_once(&self, text: &str) {
        if lock_ignoring_poison(&self.said.0).insert(text.to_owned()) {
            self.warn(text);
        }
    }

    /// Returns the home folder, or an empty path if there is none.
    #[must_use]
    pub fn home_folder_or_empty(&self) -> PathBuf {
        self.home.clone().unwrap_or_default()
    }

    /// Returns the folder in which other programs keep skills: `RIND_HOME` if it is set, and
    /// otherwise the home folder.
    #[must_use]
    pub fn user_home(&self) -> Option<PathBuf> {
        let home = self.variable(HOME_VARIABLE).map(PathBuf::from);
        home.or_else(|| self.home.clone())
            .filter(|home| home.is_absolute())
    }

    /// Returns Rind's folders for a run in this workspace.
    ///
    /// # Errors
    /// There is no home folder and no `RIND_HOME`.
    pub fn paths_for_workspace(&self, workspace: &Path) -> anyhow::Result<RindPaths> {
        let home = self.home_folder_or_empty();
        if home.as_os_str().is_empty() && self.variable(HOME_VARIABLE).is_none() {
            bail_usage!("there is no home folder; set HOME or {HOME_VARIABLE}");
        }
        Ok(RindPaths::new(&home, |name| self.variable(name), workspace))
    }

    /// Returns the folders in the environment variable `PATH`, in which programs are searched.
    pub fn path_variable_folders(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.variables.get(OsStr::new("PATH"));
        std::env::split_paths(path.map_or(OsStr::new(""), OsString::as_os_str))
    }

    /// Finds the program of this name in the folders of `PATH`; `None` if `name` is a path.
    #[must_use]
    pub fn find_program(&self, name: &OsStr) -> Option<PathBuf> {
        if Path::new(name).components().count() > 1 {
            return None;
        }
        self.path_variable_folders()
            .map(|folder| folder.join(name))
            .find(|path| is_executable_file(path))
    }

    /// Returns the path of the keeper, a helper that ends the processes which unconfined commands
    /// leave running. The keeper is Rind's own binary; `None` on systems other than Linux.
    #[must_use]
    pub fn process_reaper_path(&self) -> Option<PathBuf> {
        // Only on Linux can a process other than init adopt orphaned processes.
        self.program.clone().filter(|_| cfg!(target_os = "linux"))
    }
}

/// Joins folders to a value of `PATH`; empty if a folder's name contains the separator of `PATH`.
pub(super) fn join_folders_to_path_variable(folders: &[PathBuf]) -> OsString {
    std::env::join_paths(folders).unwrap_or_default()
}

/// Whether a path is a file that can be executed.
pub(super) fn is_executable_file(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}
