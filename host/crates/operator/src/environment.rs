//! The environment of the operator's program, read once: variables, home folder, own binary,
//! carried plugins.
//!
//! The program fills it; nothing in this layer asks the process. So a server or a test decides
//! which values the rules see.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, access};

use super::managed::CarriedPlugins;
use super::usage::bail_usage;
use rind_lib::lock::lock;
use rind_lib::paths::{HOME_VARIABLE, Paths};

/// Function that shows one warning to the operator.
pub type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// The surroundings that a program hands to the operator's rules.
///
/// The default is an empty environment: no variables, no home folder, no carried plugins, and
/// warnings that are dropped.
#[derive(Clone)]
pub struct OperatorEnvironment {
    /// Variables.
    pub variables: HashMap<OsString, OsString>,
    /// Home folder of the user, according to the system.
    pub home: Option<PathBuf>,
    /// The program itself, which is started again as a helper of sandboxes and compilers.
    pub program: Option<PathBuf>,
    /// Plugins that the program carries.
    pub carried: Option<CarriedPlugins>,
    /// Function that shows warnings.
    pub on_warning: OnWarning,
    /// Warnings that are not repeated.
    pub said: ShownWarnings,
}

/// Warnings that were shown [once](OperatorEnvironment::warn_once); empty at first.
#[derive(Clone, Debug, Default)]
pub struct ShownWarnings(Arc<Mutex<HashSet<String>>>);

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
            said: ShownWarnings::default(),
        }
    }
}

impl OperatorEnvironment {
    /// Returns a variable that is set to text and not empty.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        let value = self.variables.get(OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Shows a warning.
    pub fn warn(&self, text: &str) {
        (self.on_warning)(text);
    }

    /// Shows a warning unless it was shown this way before. Use it for faults of files and settings,
    /// which a program that opens several sessions finds again for each.
    pub fn warn_once(&self, text: &str) {
        if lock(&self.said.0).insert(text.to_owned()) {
            self.warn(text);
        }
    }

    /// Returns the home folder, or an empty path where there is none.
    #[must_use]
    pub fn home_or_empty(&self) -> PathBuf {
        self.home.clone().unwrap_or_default()
    }

    /// Returns the home folder, where other programs keep skills; with `RIND_HOME` it is that
    /// folder.
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
    pub fn paths(&self, workspace: &Path) -> anyhow::Result<Paths> {
        let home = self.home_or_empty();
        if home.as_os_str().is_empty() && self.variable(HOME_VARIABLE).is_none() {
            bail_usage!("there is no home folder; set HOME or {HOME_VARIABLE}");
        }
        Ok(Paths::new(&home, |name| self.variable(name), workspace))
    }

    /// Lists the folders of `PATH`.
    pub fn path_folders(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.variables.get(OsStr::new("PATH"));
        std::env::split_paths(path.map_or(OsStr::new(""), OsString::as_os_str))
    }

    /// Finds the program of this name in `PATH`; none for a path.
    #[must_use]
    pub fn find_program(&self, name: &OsStr) -> Option<PathBuf> {
        if Path::new(name).components().count() > 1 {
            return None;
        }
        self.path_folders()
            .map(|folder| folder.join(name))
            .find(|path| is_program(path))
    }

    /// Returns Rind's own binary, which ends processes that unconfined commands leave running.
    #[must_use]
    pub fn keeper(&self) -> Option<PathBuf> {
        // Only on Linux can a process other than the first adopt orphaned processes.
        self.program.clone().filter(|_| cfg!(target_os = "linux"))
    }
}

/// Joins folders to the value of `PATH`; empty when one of their names cannot be in it.
pub(super) fn join_folders(folders: &[PathBuf]) -> OsString {
    std::env::join_paths(folders).unwrap_or_default()
}

/// Whether a file can be executed.
pub(super) fn is_program(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok() && path.is_file()
}
