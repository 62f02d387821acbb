//! Checks which programs and environment variables this machine has, because skills may require
//! them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::environment::{OperatorEnvironment, is_executable_file};
use rind_lib::skill::ProgramAndVariableLookup;

/// Programs and environment variables of this machine that skills may require.
#[derive(Debug)]
pub struct SkillRequirementLookup {
    environment: Arc<OperatorEnvironment>,
    folders: Vec<PathBuf>,
    /// Cache of program lookups: name, and whether the program exists. Many skills need the same
    /// programs.
    programs: Mutex<HashMap<String, bool>>,
}

impl SkillRequirementLookup {
    /// Creates the lookup of the programs and variables in this environment.
    #[must_use]
    pub fn new(environment: &Arc<OperatorEnvironment>) -> Self {
        Self {
            environment: environment.clone(),
            folders: environment.path_variable_folders().collect(),
            programs: Mutex::default(),
        }
    }
}

impl ProgramAndVariableLookup for SkillRequirementLookup {
    fn has_program(&self, name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains('/');
        let is_there = |folder: &PathBuf| is_executable_file(&folder.join(name));
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = programs.get(name).copied();
        known.unwrap_or_else(|| {
            let found = is_name && self.folders.iter().any(is_there);
            programs.insert(name.to_owned(), found);
            found
        })
    }

    fn has_variable(&self, name: &str) -> bool {
        let value = self.environment.variables.get(OsStr::new(name));
        value.is_some_and(|value| !value.is_empty())
    }
}
