//! Snapshots: what a case did, kept in a file beside the cases for people to review.
//!
//! A snapshot is only written when it is asked for. One that is missing is a difference like any other, so that a test in CI
//! never accepts what nobody has seen.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::file::{Case, CaseFile, CaseFormat};
use super::seen::Seen;

/// Lines around a difference that are shown.
const CONTEXT_LINES: usize = 2;

/// Snapshot of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The file.
    pub path: PathBuf,
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
    let name = cases.file_stem().unwrap_or_default();
    cases.with_file_name("snapshots").join(name)
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
        Ok(Self {
            path: folder(cases).join(slug(name) + ".toml"),
            text: format!("# {name}\n# Written by `{command} --accept`.\n\n{text}"),
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
        let kept = match std::fs::read_to_string(&self.path) {
            Ok(kept) => kept.replace("\r\n", "\n"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Compared::Missing),
            Err(error) => return Err(error),
        };
        if kept == self.text {
            return Ok(Compared::Same);
        }
        Ok(Compared::Differs(diff(&kept, &self.text)))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn accept(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&self.path, &self.text)
    }
}

/// Finds files in the snapshots of these cases that no case has.
///
/// # Errors
/// The folder cannot be read.
pub fn unused<C: CaseFormat>(file: &CaseFile<C>) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder(&file.path)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let kept = file.cases.iter().filter(|case| case.has_snapshot());
    let kept: Vec<String> = kept.map(|case| slug(case.name()) + ".toml").collect();
    let mut unused = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_none_or(|end| end != "toml") {
            continue;
        }
        if !kept
            .iter()
            .any(|name| *name == *entry.file_name().to_string_lossy())
        {
            unused.push(entry.path());
        }
    }
    unused.sort();
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
