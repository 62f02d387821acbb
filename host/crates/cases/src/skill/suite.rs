//! Reads and runs all cases of one skill.
//!
//! Start from [`SkillCaseSuite::read_suite`], then [`SkillCaseSuite::run_suite`].

use std::path::{Path, PathBuf};

use super::file::SkillCase;
use super::run::{SkillCaseRunnerConfig, run_skill_case};
use crate::file::{CaseFile, CaseFileError};
use crate::run::CaseCost;
use crate::snapshot::{CaseSnapshot, UnusedSnapshot};
use crate::suite::{
    CaseRunResult, CaseSelection, read_case_files, report_or_remove_unused_snapshots,
};

/// Command that runs the test cases of skills, as error messages name it.
const SKILL_TEST_COMMAND: &str = "rind skill test";

/// Test cases of one skill.
#[derive(Debug)]
pub struct SkillCaseSuite {
    /// Folder of the tested skill.
    pub folder: PathBuf,
    /// Id of the tested skill.
    pub id: String,
    /// Case files that could be read.
    pub files: Vec<CaseFile<SkillCase>>,
    /// Errors of the case files that could not be read.
    pub faults: Vec<CaseFileError>,
}

impl SkillCaseSuite {
    /// Reads the case files in a skill's directory. When the suite runs, a file that cannot be read
    /// is reported as a failed case.
    #[must_use]
    pub fn read_suite(folder: &Path, id: &str) -> Self {
        let (files, faults) = read_case_files(folder);
        Self {
            files,
            faults,
            folder: folder.to_owned(),
            id: id.to_owned(),
        }
    }

    /// Runs the selected cases, and calls `on_case` after each.
    pub async fn run_suite(
        &self,
        runner: &SkillCaseRunnerConfig,
        selection: &CaseSelection,
        mut on_case: impl FnMut(&CaseRunResult),
    ) -> Vec<CaseRunResult> {
        let faults = self.faults.iter();
        let mut all: Vec<CaseRunResult> = faults
            .map(|fault| CaseRunResult::from_unreadable_file(&self.id, fault))
            .collect();
        all.iter().for_each(&mut on_case);
        for file in &self.files {
            for case in file
                .cases
                .iter()
                .filter(|case| selection.selects_case(&case.name))
            {
                let ran = self
                    .run_case(runner, &file.path, case, selection.accept)
                    .await;
                on_case(&ran);
                all.push(ran);
            }
        }
        all
    }

    async fn run_case(
        &self,
        runner: &SkillCaseRunnerConfig,
        file: &Path,
        case: &SkillCase,
        accept: bool,
    ) -> CaseRunResult {
        let mut ran = CaseRunResult {
            plugin: self.id.clone(),
            file: file.to_owned(),
            line: case.line,
            name: case.name.clone(),
            ..CaseRunResult::default()
        };
        let (mut seen, differences, took) = match run_skill_case(runner, &self.folder, case).await {
            Ok(done) => done,
            Err(error) => {
                ran.failures.push(error.to_string());
                return ran;
            }
        };
        ran.failures = differences;
        ran.cost = CaseCost {
            took,
            ..CaseCost::default()
        };
        if case.expect.snapshot {
            // Leave files that the case provided out of the snapshot, unless they changed.
            seen.files
                .retain(|path, text| case.given.files.get(path) != Some(text));
            let snapshot = CaseSnapshot::new(file, &case.name, &seen, SKILL_TEST_COMMAND);
            let kept = snapshot
                .map_err(|error| format!("the snapshot cannot be written as TOML: {error}"))
                .and_then(|snapshot| snapshot.compare_or_accept(accept && ran.failures.is_empty()));
            match kept {
                Ok(is_accepted) => ran.is_accepted = is_accepted,
                Err(why) => ran.failures.push(why),
            }
        }
        ran
    }

    /// Finds snapshots that belong to no case, and removes them if `is_accepted`. Also returns a
    /// failed case for each case file whose snapshots cannot be searched.
    #[must_use]
    pub fn find_or_remove_unused_snapshots(
        &self,
        is_accepted: bool,
    ) -> (Vec<UnusedSnapshot>, Vec<CaseRunResult>) {
        report_or_remove_unused_snapshots(&self.id, &self.files, is_accepted)
    }
}
