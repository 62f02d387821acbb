//! Programs and variables of this machine, for skills that require some.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::environment::{OperatorEnvironment, is_program};
use rind_lib::skill::Available;

/// Machine on which the program runs, as skills see it.
#[derive(Debug)]
pub struct OperatorMachine {
    environment: Arc<OperatorEnvironment>,
    folders: Vec<PathBuf>,
    /// Cache of the looked-up programs, because many skills need the same ones.
    programs: Mutex<HashMap<String, bool>>,
}

impl OperatorMachine {
    /// Creates a machine with the programs and variables of this environment.
    #[must_use]
    pub fn new(environment: &Arc<OperatorEnvironment>) -> Self {
        Self {
            environment: environment.clone(),
            folders: environment.path_folders().collect(),
            programs: Mutex::default(),
        }
    }
}

impl Available for OperatorMachine {
    fn program(&self, name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains('/');
        let is_there = |folder: &PathBuf| is_program(&folder.join(name));
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = programs.get(name).copied();
        known.unwrap_or_else(|| {
            let found = is_name && self.folders.iter().any(is_there);
            programs.insert(name.to_owned(), found);
            found
        })
    }

    fn variable(&self, name: &str) -> bool {
        let value = self.environment.variables.get(OsStr::new(name));
        value.is_some_and(|value| !value.is_empty())
    }
}
