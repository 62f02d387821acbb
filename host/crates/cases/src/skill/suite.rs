//! All cases of one skill.
//!
//! Start from [`SkillSuite::read`], then [`SkillSuite::run`].

use std::path::{Path, PathBuf};

use super::file::SkillCase;
use super::run::{SkillRunner, run};
use crate::file::{CaseFile, FileError};
use crate::run::Cost;
use crate::snapshot::{Snapshot, Unused};
use crate::suite::{Ran, Selection, clear, read};

/// Command that runs the cases and writes their snapshots.
const COMMAND: &str = "rind skill test";

/// Cases of one skill.
#[derive(Debug)]
pub struct SkillSuite {
    /// Folder of the skill.
    pub folder: PathBuf,
    /// Id of the skill.
    pub id: String,
    /// Case files.
    pub files: Vec<CaseFile<SkillCase>>,
    /// Errors of the files that could not be read.
    pub faults: Vec<FileError>,
}

impl SkillSuite {
    /// Reads the case files in a skill's directory. A file that cannot be read counts as a failed
    /// case when the suite runs.
    #[must_use]
    pub fn read(folder: &Path, id: &str) -> Self {
        let (files, faults) = read(folder);
        Self {
            files,
            faults,
            folder: folder.to_owned(),
            id: id.to_owned(),
        }
    }

    /// Runs the selected cases, and calls `on_case` after each.
    pub async fn run(
        &self,
        runner: &SkillRunner,
        selection: &Selection,
        mut on_case: impl FnMut(&Ran),
    ) -> Vec<Ran> {
        let faults = self.faults.iter();
        let mut all: Vec<Ran> = faults.map(|fault| Ran::unread(&self.id, fault)).collect();
        all.iter().for_each(&mut on_case);
        for file in &self.files {
            for case in file.cases.iter().filter(|case| selection.takes(&case.name)) {
                let ran = self.case(runner, &file.path, case, selection.accept).await;
                on_case(&ran);
                all.push(ran);
            }
        }
        all
    }

    async fn case(&self, runner: &SkillRunner, file: &Path, case: &SkillCase, accept: bool) -> Ran {
        let mut ran = Ran {
            plugin: self.id.clone(),
            file: file.to_owned(),
            line: case.line,
            name: case.name.clone(),
            ..Ran::default()
        };
        let (mut seen, differences, took) = match run(runner, &self.folder, case).await {
            Ok(done) => done,
            Err(error) => {
                ran.failures.push(error.to_string());
                return ran;
            }
        };
        ran.failures = differences;
        ran.cost = Cost {
            took,
            ..Cost::default()
        };
        if case.expect.snapshot {
            // Files that the case itself provided are not part of the snapshot, unless they
            // changed.
            seen.files
                .retain(|path, text| case.given.files.get(path) != Some(text));
            let snapshot = Snapshot::new(file, &case.name, &seen, COMMAND);
            let kept = snapshot
                .map_err(|error| format!("the snapshot cannot be written as TOML: {error}"))
                .and_then(|snapshot| snapshot.keep(accept && ran.failures.is_empty()));
            match kept {
                Ok(is_accepted) => ran.is_accepted = is_accepted,
                Err(why) => ran.failures.push(why),
            }
        }
        ran
    }

    /// Finds snapshots that belong to no case, and removes them if `is_accepted`. Also returns
    /// failures.
    #[must_use]
    pub fn clear_snapshots(&self, is_accepted: bool) -> (Vec<Unused>, Vec<Ran>) {
        clear(&self.id, &self.files, is_accepted)
    }
}
