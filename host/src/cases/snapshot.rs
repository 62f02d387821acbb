//! Snapshots: what a case did, kept in a file beside the cases for people to review.
//!
//! A snapshot is only written when it is asked for. One that is missing is a difference like any other, so that a test in CI
//! never accepts what nobody has seen. Only files that were written so are ever replaced or removed, and none through a link.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::file::{Case, CaseFile, CaseFormat};
use super::folder::TestFolder;
use super::seen::Seen;

/// Lines around a difference that are shown.
const CONTEXT_LINES: usize = 2;

/// Folder of snapshots, in that of the cases.
const FOLDER: &str = "snapshots";

/// Largest snapshot, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Beginning and end of the line that marks a snapshot as written by the program: the second one.
const MARK: (&str, &str) = ("# Written by `rind ", " --accept`.");

/// Snapshot of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Path of the snapshot file.
    pub path: PathBuf,
    /// File of the case.
    cases: PathBuf,
    /// Name of the file.
    name: String,
    /// Content that it is to have.
    text: String,
    /// Command that writes it.
    command: &'static str,
}

/// Result of comparing a snapshot with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Equal.
    Same,
    /// No file.
    Missing,
    /// Different in these lines: `-` in the file, `+` now.
    Differs(String),
}

/// Returns the name of a case as a file has it.
#[must_use]
pub fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let mut slug = words.join("-");
    if slug.is_empty() {
        slug.push_str("case");
    }
    // File systems take 255 bytes.
    slug.truncate(slug.floor_char_boundary(200));
    slug
}

/// Folder of the snapshots of a file of cases.
#[must_use]
pub fn folder(cases: &Path) -> PathBuf {
    cases.with_file_name(FOLDER).join(stem(cases))
}

/// Name of that folder.
fn stem(cases: &Path) -> &OsStr {
    cases.file_stem().unwrap_or_default()
}

/// Opens the folder of the snapshots of a file of cases, which is made if `is_made`.
fn open(cases: &Path, is_made: bool) -> io::Result<Option<TestFolder>> {
    let bundle = cases.parent().and_then(Path::parent).unwrap_or(cases);
    let Some(tests) = TestFolder::open(bundle, false)? else {
        return Ok(None);
    };
    let Some(snapshots) = tests.folder(OsStr::new(FOLDER), is_made)? else {
        return Ok(None);
    };
    snapshots.folder(stem(cases), is_made)
}

/// Whether a text is a snapshot that the program wrote.
fn is_written(text: &str) -> bool {
    let line = text.lines().nth(1);
    line.is_some_and(|line| line.starts_with(MARK.0) && line.ends_with(MARK.1))
}

impl Snapshot {
    /// The snapshot of a case in the file `cases`. Of the workspace it has what the turn changed.
    ///
    /// # Errors
    /// The behaviour cannot be written as TOML.
    pub fn of(cases: &Path, case: &Case, seen: &Seen) -> Result<Self, toml::ser::Error> {
        let mut seen = seen.clone();
        without_null(&mut seen.payload);
        let given = &case.given.files;
        for path in given.keys() {
            let removed = || "(removed)".to_owned();
            seen.files.entry(path.clone()).or_insert_with(removed);
        }
        seen.files
            .retain(|path, text| given.get(path) != Some(text));
        Self::new(cases, &case.name, &seen, "rind plugin test")
    }

    /// The snapshot of the case `name`; `command` is the one that writes it.
    pub(super) fn new(
        cases: &Path,
        name: &str,
        seen: &impl Serialize,
        command: &'static str,
    ) -> Result<Self, toml::ser::Error> {
        let text = toml::to_string_pretty(seen)?;
        let file = slug(name) + ".toml";
        let title = name.replace(['\n', '\r'], " ");
        Ok(Self {
            path: folder(cases).join(&file),
            cases: cases.to_owned(),
            name: file,
            text: format!("# {title}\n# Written by `{command} --accept`.\n\n{text}"),
            command,
        })
    }

    /// Compares the snapshot with its file, or writes it. Whether it was written.
    ///
    /// # Errors
    /// Lines for a person: it differs, it is missing, or its file cannot be read or written.
    pub(super) fn keep(&self, accept: bool) -> Result<bool, String> {
        let (place, command) = (self.path.display(), self.command);
        let compared = self
            .compare()
            .map_err(|error| format!("cannot read the snapshot {place}: {error}"))?;
        match compared {
            Compared::Same => Ok(false),
            _ if accept => self
                .accept()
                .map(|()| true)
                .map_err(|error| format!("cannot write the snapshot {place}: {error}")),
            Compared::Missing => Err(format!(
                "there is no snapshot {place}: run `{command} --accept`, and read what it writes"
            )),
            Compared::Differs(lines) => {
                let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
                Err(format!(
                    "the snapshot {place} differs (- kept, + now); `{command} --accept` keeps what is now{lines}"
                ))
            }
        }
    }

    /// Compares it with its file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn compare(&self) -> io::Result<Compared> {
        let Some(kept) = self.kept()? else {
            return Ok(Compared::Missing);
        };
        let kept = kept.replace("\r\n", "\n");
        if kept == self.text {
            return Ok(Compared::Same);
        }
        Ok(Compared::Differs(diff(&kept, &self.text)))
    }

    /// Writes the file, in place of one that was written so.
    ///
    /// # Errors
    /// It cannot be written, or another file has its name.
    pub fn accept(&self) -> io::Result<()> {
        if self.text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!(
                "it would have more than {} MiB",
                MAX_BYTES >> 20
            )));
        }
        if self.kept()?.is_some_and(|kept| !is_written(&kept)) {
            return Err(io::Error::other(
                "the file there was not written by `--accept`: move it away",
            ));
        }
        let folder = open(&self.cases, true)?.ok_or(io::ErrorKind::NotFound)?;
        folder.write(&self.name, &self.text)
    }

    /// Text of the file; `None` when there is none.
    fn kept(&self) -> io::Result<Option<String>> {
        let folder = open(&self.cases, false)?;
        folder.map_or(Ok(None), |folder| {
            folder.read(OsStr::new(&self.name), MAX_BYTES)
        })
    }
}

/// A file among the snapshots that no case has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Path of the snapshot file.
    pub path: PathBuf,
    /// Whether `--accept` wrote it, and so may remove it.
    pub is_written: bool,
}

/// Finds files in the snapshots of these cases that no case has, and removes those that were written as snapshots if `is_accepted`.
///
/// # Errors
/// The folder or a file cannot be read or removed.
pub(super) fn clear<C: CaseFormat>(
    file: &CaseFile<C>,
    is_accepted: bool,
) -> io::Result<Vec<Unused>> {
    // Snapshots of cases that are linked are those of whoever has them.
    let tests = file.path.parent();
    if C::MAY_BE_LINKED && tests.is_some_and(Path::is_symlink) {
        return Ok(Vec::new());
    }
    let Some(folder) = open(&file.path, false)? else {
        return Ok(Vec::new());
    };
    let used = file.cases.iter().filter(|case| case.has_snapshot());
    let used: Vec<String> = used.map(|case| slug(case.name()) + ".toml").collect();
    let mut unused = Vec::new();
    for name in folder.names()? {
        if used.iter().any(|used| **used == *name) {
            continue;
        }
        // What cannot be read is nothing that was written as a snapshot.
        let text = folder.read(&name, MAX_BYTES).ok().flatten();
        let is_written = text.is_some_and(|text| is_written(&text));
        if is_accepted && is_written {
            folder.remove(&name)?;
        }
        unused.push(Unused {
            path: folder.path(&name),
            is_written,
        });
    }
    Ok(unused)
}

/// Lines that differ, with some around them.
fn diff(kept: &str, now: &str) -> String {
    let diff = TextDiff::from_lines(kept, now);
    let mut lines = Vec::new();
    for (n, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
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

/// Takes out what TOML has no word for.
fn without_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_null);
        }
        Value::Array(all) => all.iter_mut().for_each(without_null),
        _ => {}
    }
}
