//! Reads case files. Errors name file, line and column. Each case is checked for contradictions.
//!
//! Start from [`CaseFile::read_each_in_folder`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rind_lib::near::{append_nearest_key_hint, find_nearest_valid_key};
use serde::Deserialize;

use super::file::{CaseFile, CaseFileFormat};
use super::folder::TestCaseFolder;
use super::snapshot::snapshot_file_stem;

/// Maximum size of a file with test cases, in bytes.
const MAX_CASE_FILE_BYTES: u64 = 1 << 20;

/// Name of the table that contains one test case in a file: `[[case]]`.
const CASE_TABLE_NAME: &str = "case";

/// Error message of the TOML parser if a table or a key appears twice.
const TOML_DUPLICATE_KEY_ERROR: &str = "duplicate key";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseDocument<C> {
    #[serde(default = "Vec::new")]
    case: Vec<toml::Spanned<C>>,
}

/// Error while a file with test cases is read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseFileError {
    /// The file or its directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file or directory that cannot be read.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is not a valid case file.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Format {
        /// Path of the invalid case file.
        path: PathBuf,
        /// Number of the line with the fault, counted from 1.
        line: usize,
        /// Number of the column with the fault, counted from 1.
        column: usize,
        /// Description of the fault in the file.
        message: String,
    },
}

impl CaseFileError {
    /// Returns the path of the file or directory that the error is about.
    #[must_use]
    pub fn affected_path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::Format { path, .. } => path,
        }
    }

    /// Returns the number of the line with the fault; 1 if the error is not about a line.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Io { .. } => 1,
            Self::Format { line, .. } => *line,
        }
    }
}

impl<C: CaseFileFormat> CaseFile<C> {
    /// Reads all files `tests/*.toml` in the directory of a plugin or a skill, sorted by name.
    ///
    /// # Errors
    /// A file cannot be read, or is not a valid case file.
    pub fn read_all_in_folder(folder: &Path) -> Result<Vec<Self>, CaseFileError> {
        Self::read_each_in_folder(folder).into_iter().collect()
    }

    /// Reads the same files as [`Self::read_all_in_folder`], and returns an error for each file
    /// that cannot be read. Reads only regular files of at most 1 MiB, because running the cases of
    /// an untrusted plugin must not read the user's other files.
    #[must_use]
    pub fn read_each_in_folder(folder: &Path) -> Vec<Result<Self, CaseFileError>> {
        let fault = |path: PathBuf| move |source| CaseFileError::Io { path, source };
        let opened = TestCaseFolder::open_tests_of_bundle(folder, C::ALLOWS_SYMLINKED_FOLDER)
            .and_then(|tests| match tests {
                Some(tests) => Ok(Some((tests.list_toml_file_names()?, tests))),
                None => Ok(None),
            });
        let (names, tests) = match opened.map_err(fault(folder.join("tests"))) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Vec::new(),
            Err(error) => return vec![Err(error)],
        };
        let read = |name: &OsString| {
            let path = tests.file_path(name);
            let text = tests.read_text(name, MAX_CASE_FILE_BYTES);
            // Treat a file that was removed after the directory was listed as empty.
            let text = text.map_err(fault(path.clone()))?.unwrap_or_default();
            Self::parse_file(&path, &text)
        };
        names.iter().map(read).collect()
    }

    /// Parses `text`, the content of the file at `path`.
    ///
    /// # Errors
    /// The text is not a valid case file.
    fn parse_file(path: &Path, text: &str) -> Result<Self, CaseFileError> {
        let place = |at: usize| {
            let before = text.get(..at).unwrap_or_default();
            let last = before.rsplit('\n').next().unwrap_or_default();
            (before.matches('\n').count() + 1, last.chars().count() + 1)
        };
        let format = |(line, column), message| CaseFileError::Format {
            path: path.to_owned(),
            line,
            column,
            message,
        };
        let file: CaseDocument<C> = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            match find_misspelled_case_header(text) {
                // Report the misspelt header, such as `[[cas]]`. The parser adds the tables below
                // it to the previous case and reports them as duplicates.
                Some((line, message)) if error.message() == TOML_DUPLICATE_KEY_ERROR => {
                    format((line, 1), message)
                }
                _ => format(place(at), append_nearest_key_hint(error.message())),
            }
        })?;
        let mut cases: Vec<C> = Vec::new();
        for spanned in file.case {
            let place = place(spanned.span().start);
            let mut case = spanned.into_inner();
            if cases.iter().any(|other| other.name() == case.name()) {
                let message = format!("there are two cases `{}`", case.name());
                return Err(format(place, message));
            }
            if let Some(fault) = case.find_validation_error() {
                return Err(format(place, format!("case `{}`: {fault}", case.name())));
            }
            let is_taken = |other: &C| {
                other.is_case_snapshot_checked()
                    && snapshot_file_stem(other.name()) == snapshot_file_stem(case.name())
            };
            if case.is_case_snapshot_checked() && cases.iter().any(is_taken) {
                let message = format!(
                    "the snapshot of another case has the same name, `{}`; rename one of the cases",
                    snapshot_file_stem(case.name())
                );
                return Err(format(place, message));
            }
            case.set_start_line_number(place.0);
            cases.push(case);
        }
        Ok(Self {
            path: path.to_owned(),
            cases,
        })
    }
}

/// Finds the first table header that misspells `case`, such as `[[cas]]`. Returns its line, and an
/// error message.
fn find_misspelled_case_header(text: &str) -> Option<(usize, String)> {
    text.lines().enumerate().find_map(|(index, line)| {
        let header = line.trim().trim_start_matches('[');
        let name = header.split(['.', ']']).next().unwrap_or_default().trim();
        if header.len() == line.trim().len() || name == CASE_TABLE_NAME {
            return None;
        }
        let near = find_nearest_valid_key(name, [CASE_TABLE_NAME])?;
        Some((
            index + 1,
            format!("there is no table `{name}`; did you mean `{near}`?"),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::PluginCase;

    #[test]
    fn a_misspelt_key_or_table_gets_its_place_and_the_nearest() {
        let case = "[[case]]\nname = \"a\"\n[case.given]\ninput = \"hi\"\n[case.expect]\nstop = \"done\"\n";
        for (from, to, expected) in [
            ("given", "giv", "t.toml:3:7: unknown field `giv`"),
            ("given", "giv", "did you mean `given`?"),
            ("expect", "exepct", "did you mean `expect`?"),
            ("name", "nam", "did you mean `name`?"),
            ("stop", "stp", "did you mean `stop`?"),
            ("[[case]]", "[[cas]]", "unknown field `cas`"),
            (
                "stop = \"done\"",
                "hooks = { pre-tool = { outcom = \"blocked\" } }",
                "t.toml:6:24: unknown field `outcom`, expected one of `outcome`, `reason`, `changed`; did you mean `outcome`?",
            ),
            (
                "stop = \"done\"",
                "hooks = { pre-tool = true }",
                "expected an outcome such as",
            ),
        ] {
            let text = case.replacen(from, to, 1);
            let read = CaseFile::<PluginCase>::parse_file(Path::new("t.toml"), &text);
            let error = read.unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let second = case
            .replacen("[[case]]", "[[cas]]", 1)
            .replace("\"a\"", "\"b\"");
        let text = format!("{case}\n{second}");
        let read = CaseFile::<PluginCase>::parse_file(Path::new("t.toml"), &text);
        assert_eq!(
            read.unwrap_err().to_string(),
            "t.toml:8:1: there is no table `cas`; did you mean `case`?"
        );
    }
}
