//! The programs and variables of this machine, for skills that need some.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, access};

use crate::skill::Available;

/// The machine that the program runs on.
#[derive(Debug)]
pub(in super::super) struct Machine {
    folders: Vec<PathBuf>,
    /// Programs that were looked for: many skills need the same.
    programs: Mutex<HashMap<String, bool>>,
}

impl Machine {
    pub(in super::super) fn new() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            folders: std::env::split_paths(&path).collect(),
            programs: Mutex::default(),
        }
    }
}

impl Available for Machine {
    fn program(&self, name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains('/');
        let is_there = |folder: &PathBuf| {
            let file = folder.join(name);
            file.is_file() && access(&file, Access::EXEC_OK).is_ok()
        };
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = programs.get(name).copied();
        known.unwrap_or_else(|| {
            let found = is_name && self.folders.iter().any(is_there);
            programs.insert(name.to_owned(), found);
            found
        })
    }

    fn variable(&self, name: &str) -> bool {
        // The standard library panics at names that no variable can have.
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        is_name && std::env::var_os(name).is_some_and(|value| !value.is_empty())
    }
}
