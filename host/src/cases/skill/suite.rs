//! All cases of one skill.

use std::path::{Path, PathBuf};

use super::file::SkillCase;
use super::run::{SkillRunner, run};
use crate::cases::file::{CaseFile, FileError};
use crate::cases::run::Cost;
use crate::cases::snapshot::{self, Snapshot};
use crate::cases::suite::{Ran, Selection};

/// Command that runs the cases and writes their snapshots.
const COMMAND: &str = "rind skill test";

/// The cases of one skill.
#[derive(Debug)]
pub struct SkillSuite {
    /// Folder of the skill.
    pub folder: PathBuf,
    /// Id of the skill.
    pub id: String,
    /// Files of cases.
    pub files: Vec<CaseFile<SkillCase>>,
}

impl SkillSuite {
    /// Reads the cases in a skill's folder.
    ///
    /// # Errors
    /// One of the files cannot be read.
    pub fn read(folder: &Path, id: &str) -> Result<Self, FileError> {
        Ok(Self {
            files: CaseFile::all(folder)?,
            folder: folder.to_owned(),
            id: id.to_owned(),
        })
    }

    /// Runs the cases that are selected, and tells of each when it has ended.
    pub async fn run(
        &self,
        runner: &SkillRunner,
        selection: &Selection,
        mut on_case: impl FnMut(&Ran),
    ) -> Vec<Ran> {
        let mut all = Vec::new();
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
            // What the case brought says nothing.
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

    /// Finds snapshots that no case has any more.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn unused_snapshots(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut unused = Vec::new();
        for file in &self.files {
            unused.extend(snapshot::unused(file)?);
        }
        Ok(unused)
    }
}
