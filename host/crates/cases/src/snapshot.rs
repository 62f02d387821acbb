//! Stores the observed behavior of a case in a snapshot file next to the case files, for review.
//!
//! A snapshot is written only on request. A missing snapshot fails the case like a different one,
//! so that CI never accepts unreviewed behavior. Only files that were written as snapshots are
//! replaced or removed, and never through a symlink.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::file::{CaseFile, CaseFileFormat, PluginCase};
use super::folder::TestCaseFolder;
use super::seen::ObservedTurn;

/// Number of unchanged lines that are shown before and after a difference.
const DIFF_CONTEXT_LINES: usize = 2;

/// Name of the directory with the snapshots, within the directory of the case files.
const SNAPSHOT_FOLDER: &str = "snapshots";

/// Maximum size of a snapshot file, in bytes.
const MAX_SNAPSHOT_BYTES: u64 = 16 << 20;

/// Prefix and suffix of the second line, which marks a file as a snapshot that the program wrote.
const SNAPSHOT_HEADER_PREFIX_AND_SUFFIX: (&str, &str) = ("# Written by `rind ", " --accept`.");

/// Recorded behavior of one test case, which is compared with its snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseSnapshot {
    /// Path of the snapshot file.
    pub path: PathBuf,
    /// Path of the case file that contains the case.
    cases: PathBuf,
    /// File name of the snapshot.
    name: String,
    /// Content that the file should have after this run.
    text: String,
    /// Command that writes the snapshot if it is run with `--accept`.
    command: &'static str,
}

/// Result of comparing observed behavior with a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotComparison {
    /// The behavior equals the snapshot file.
    Same,
    /// The case has no snapshot file yet.
    Missing,
    /// The snapshot differs from its file in these lines: `-` in the file, `+` now.
    Differs(String),
}

/// Returns the file name of a case's snapshot, without the extension: the words of the case's name,
/// joined by hyphens.
#[must_use]
pub fn snapshot_file_stem(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut slug = words.join("-");
    if slug.is_empty() {
        slug.push_str("case");
    }
    // File systems allow at most 255 bytes per name.
    slug.truncate(slug.floor_char_boundary(200));
    slug
}

/// Returns the directory of the snapshots of a case file.
#[must_use]
pub fn snapshot_folder_path(cases: &Path) -> PathBuf {
    cases
        .with_file_name(SNAPSHOT_FOLDER)
        .join(snapshot_folder_name(cases))
}

/// Returns the name of the directory with the snapshots of a case file.
fn snapshot_folder_name(cases: &Path) -> &OsStr {
    cases.file_stem().unwrap_or_default()
}

/// Opens the directory with the snapshots of a case file. If it is missing, creates it if
/// `is_made`, and otherwise returns `None`.
fn open_snapshot_folder(cases: &Path, is_made: bool) -> io::Result<Option<TestCaseFolder>> {
    let bundle = cases.parent().and_then(Path::parent).unwrap_or(cases);
    let Some(tests) = TestCaseFolder::open_tests_of_bundle(bundle, false)? else {
        return Ok(None);
    };
    let Some(snapshots) = tests.open_subfolder(OsStr::new(SNAPSHOT_FOLDER), is_made)? else {
        return Ok(None);
    };
    snapshots.open_subfolder(snapshot_folder_name(cases), is_made)
}

/// Whether a text is a snapshot that the program wrote, as the second line of the text shows.
fn is_generated_snapshot(text: &str) -> bool {
    let line = text.lines().nth(1);
    line.is_some_and(|line| {
        line.starts_with(SNAPSHOT_HEADER_PREFIX_AND_SUFFIX.0)
            && line.ends_with(SNAPSHOT_HEADER_PREFIX_AND_SUFFIX.1)
    })
}

impl CaseSnapshot {
    /// Creates the snapshot of a case in the file `cases`. It contains only the workspace files
    /// that the turn changed.
    ///
    /// # Errors
    /// The behavior cannot be written as TOML.
    pub fn from_case(
        cases: &Path,
        case: &PluginCase,
        seen: &ObservedTurn,
    ) -> Result<Self, toml::ser::Error> {
        let mut seen = seen.clone();
        remove_nulls(&mut seen.payload);
        let given = &case.given.files;
        for path in given.keys() {
            let removed = || "(removed)".to_owned();
            seen.files.entry(path.clone()).or_insert_with(removed);
        }
        seen.files
            .retain(|path, text| given.get(path) != Some(text));
        Self::new(cases, &case.name, &seen, "rind plugin test")
    }

    /// Creates the snapshot of the case `name`. `command` is the command that writes the snapshot.
    pub(super) fn new(
        cases: &Path,
        name: &str,
        seen: &impl Serialize,
        command: &'static str,
    ) -> Result<Self, toml::ser::Error> {
        let text = toml::to_string_pretty(seen)?;
        let file = snapshot_file_stem(name) + ".toml";
        let title = name.replace(['\n', '\r'], " ");
        Ok(Self {
            path: snapshot_folder_path(cases).join(&file),
            cases: cases.to_owned(),
            name: file,
            text: format!("# {title}\n# Written by `{command} --accept`.\n\n{text}"),
            command,
        })
    }

    /// Compares the snapshot with its file. If they differ and `accept` is set, writes the file.
    /// Returns whether the file was written.
    ///
    /// # Errors
    /// The snapshot differs or is missing, or its file cannot be read or written. The error is a
    /// text for the report.
    pub(super) fn compare_or_accept(&self, accept: bool) -> Result<bool, String> {
        let (place, command) = (self.path.display(), self.command);
        let compared = self
            .compare_with_file()
            .map_err(|error| format!("cannot read the snapshot {place}: {error}"))?;
        match compared {
            SnapshotComparison::Same => Ok(false),
            _ if accept => self
                .write_snapshot_file()
                .map(|()| true)
                .map_err(|error| format!("cannot write the snapshot {place}: {error}")),
            SnapshotComparison::Missing => Err(format!(
                "there is no snapshot {place}: run `{command} --accept`, and read what it writes"
            )),
            SnapshotComparison::Differs(lines) => {
                let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
                Err(format!(
                    "the snapshot {place} differs (- saved, + now); `{command} --accept` saves the present output{lines}"
                ))
            }
        }
    }

    /// Compares the snapshot with its file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn compare_with_file(&self) -> io::Result<SnapshotComparison> {
        let Some(kept) = self.read_snapshot_file()? else {
            return Ok(SnapshotComparison::Missing);
        };
        let kept = kept.replace("\r\n", "\n");
        if kept == self.text {
            return Ok(SnapshotComparison::Same);
        }
        Ok(SnapshotComparison::Differs(diff_snapshots(
            &kept, &self.text,
        )))
    }

    /// Writes the snapshot file. Replaces an existing file only if it was written as a snapshot.
    ///
    /// # Errors
    /// The file cannot be written, or another file has its name.
    pub fn write_snapshot_file(&self) -> io::Result<()> {
        if self.text.len() as u64 > MAX_SNAPSHOT_BYTES {
            return Err(io::Error::other(format!(
                "the new snapshot would have more than {} MiB",
                MAX_SNAPSHOT_BYTES >> 20
            )));
        }
        if self
            .read_snapshot_file()?
            .is_some_and(|kept| !is_generated_snapshot(&kept))
        {
            return Err(io::Error::other(
                "a file of that name is there that was not written by `--accept`: move it away",
            ));
        }
        let folder = open_snapshot_folder(&self.cases, true)?.ok_or(io::ErrorKind::NotFound)?;
        folder.write_text(&self.name, &self.text)
    }

    /// Returns the text of the snapshot file; `None` if there is none.
    fn read_snapshot_file(&self) -> io::Result<Option<String>> {
        let folder = open_snapshot_folder(&self.cases, false)?;
        folder.map_or(Ok(None), |folder| {
            folder.read_text(OsStr::new(&self.name), MAX_SNAPSHOT_BYTES)
        })
    }
}

/// Snapshot file that belongs to no test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedSnapshot {
    /// Path of the unused snapshot file.
    pub path: PathBuf,
    /// Whether `--accept` wrote the file. Only such files may be removed.
    pub is_written: bool,
}

/// Finds files among the snapshots that belong to no case, and, if `is_accepted` is set, removes
/// those that were written as snapshots.
///
/// # Errors
/// The directory or a file cannot be read or removed.
pub(super) fn clear_unused_snapshots<C: CaseFileFormat>(
    file: &CaseFile<C>,
    is_accepted: bool,
) -> io::Result<Vec<UnusedSnapshot>> {
    // If the directory of cases is a symlink, the snapshots in it belong to another plugin, so none
    // is unused here.
    let tests = file.path.parent();
    if C::ALLOWS_SYMLINKED_FOLDER && tests.is_some_and(Path::is_symlink) {
        return Ok(Vec::new());
    }
    let Some(folder) = open_snapshot_folder(&file.path, false)? else {
        return Ok(Vec::new());
    };
    let used = file
        .cases
        .iter()
        .filter(|case| case.is_case_snapshot_checked());
    let used: Vec<String> = used
        .map(|case| snapshot_file_stem(case.name()) + ".toml")
        .collect();
    let mut unused = Vec::new();
    for name in folder.list_toml_file_names()? {
        if used.iter().any(|used| **used == *name) {
            continue;
        }
        // Treat a file that cannot be read as not written by `--accept`, so that it is never
        // removed.
        let text = folder.read_text(&name, MAX_SNAPSHOT_BYTES).ok().flatten();
        let is_written = text.is_some_and(|text| is_generated_snapshot(&text));
        if is_accepted && is_written {
            folder.remove_file(&name)?;
        }
        unused.push(UnusedSnapshot {
            path: folder.file_path(&name),
            is_written,
        });
    }
    Ok(unused)
}

/// Returns the lines that differ between two snapshots, with some context.
fn diff_snapshots(kept: &str, now: &str) -> String {
    let diff = TextDiff::from_lines(kept, now);
    let mut lines = Vec::new();
    for (n, group) in diff.grouped_ops(DIFF_CONTEXT_LINES).iter().enumerate() {
        if n > 0 {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("{sign} {}", change.value().trim_end_matches('\n')));
        }
    }
    lines.join("\n")
}

/// Removes null values, which TOML cannot represent.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(all) => all.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
