//! Reads case files: errors name file, line and column, and each case is checked for
//! contradictions.
//!
//! Start from [`CaseFile::read_each`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rind_lib::near::name_nearest;
use serde::Deserialize;

use super::file::{CaseFile, CaseFormat};
use super::folder::TestFolder;
use super::snapshot::snapshot_slug;

/// Maximum size of a case file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseDocument<C> {
    #[serde(default = "Vec::new")]
    case: Vec<toml::Spanned<C>>,
}

/// Error of reading a case file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file or its directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is not a valid case file.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Line of the fault.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
        /// Problem.
        message: String,
    },
}

impl FileError {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::Format { path, .. } => path,
        }
    }

    /// Returns the line of the error; 1 if it has none.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Io { .. } => 1,
            Self::Format { line, .. } => *line,
        }
    }
}

impl<C: CaseFormat> CaseFile<C> {
    /// Reads all files `tests/*.toml` in the directory of a plugin or a skill, sorted by name.
    ///
    /// # Errors
    /// A file cannot be read, or is not a valid case file.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, FileError> {
        Self::read_each(folder).into_iter().collect()
    }

    /// Reads the same files, each with its own error. Only regular files of at most 1 MiB are read:
    /// running the cases of an untrusted plugin must not read other files of the user.
    #[must_use]
    pub fn read_each(folder: &Path) -> Vec<Result<Self, FileError>> {
        let fault = |path: PathBuf| move |source| FileError::Io { path, source };
        let opened =
            TestFolder::open_bundle(folder, C::MAY_BE_LINKED).and_then(|tests| match tests {
                Some(tests) => Ok(Some((tests.names()?, tests))),
                None => Ok(None),
            });
        let (names, tests) = match opened.map_err(fault(folder.join("tests"))) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Vec::new(),
            Err(error) => return vec![Err(error)],
        };
        let read = |name: &OsString| {
            let path = tests.file_path(name);
            let text = tests.read_text(name, MAX_FILE_BYTES);
            // A file that was removed since the directory was listed has no cases.
            let text = text.map_err(fault(path.clone()))?.unwrap_or_default();
            Self::parse_file(&path, &text)
        };
        names.iter().map(read).collect()
    }

    /// Parses the text of the file at this path.
    ///
    /// # Errors
    /// The text is not a valid case file.
    fn parse_file(path: &Path, text: &str) -> Result<Self, FileError> {
        let place = |at: usize| {
            let before = text.get(..at).unwrap_or_default();
            let last = before.rsplit('\n').next().unwrap_or_default();
            (before.matches('\n').count() + 1, last.chars().count() + 1)
        };
        let format = |(line, column), message| FileError::Format {
            path: path.to_owned(),
            line,
            column,
            message,
        };
        let file: CaseDocument<C> = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format(place(at), name_nearest(error.message()))
        })?;
        let mut cases: Vec<C> = Vec::new();
        for spanned in file.case {
            let place = place(spanned.span().start);
            let mut case = spanned.into_inner();
            if cases.iter().any(|other| other.name() == case.name()) {
                let message = format!("there are two cases `{}`", case.name());
                return Err(format(place, message));
            }
            if let Some(fault) = case.fault() {
                return Err(format(place, format!("case `{}`: {fault}", case.name())));
            }
            let is_taken = |other: &C| {
                other.has_snapshot() && snapshot_slug(other.name()) == snapshot_slug(case.name())
            };
            if case.has_snapshot() && cases.iter().any(is_taken) {
                let message = format!(
                    "another case has the snapshot `{}`",
                    snapshot_slug(case.name())
                );
                return Err(format(place, message));
            }
            case.set_line(place.0);
            cases.push(case);
        }
        Ok(Self {
            path: path.to_owned(),
            cases,
        })
    }
}
