//! Records of running commands on disk. A record holds the state before the command, so that a later
//! process of Rind can judge the files that the command left when the first was killed.
//!
//! Each record is a file `ID.json`, locked by the process that runs the command and removed after
//! its files were judged. An unlocked record belongs to an interrupted command. This module must
//! not know how files are judged (see the module above). All functions block. Start from
//! [`CommandRecord::create`] and [`judge_interrupted`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use super::{ChangedRoots, KnownFingerprint, MAX_KEPT_BYTES, RepositoryBefore, Stamp};
use crate::beneath::open_regular;
use crate::clock;
use crate::disk::private_folder;

/// Version of the format. A record of another version is only reported, and its files are not
/// judged.
const VERSION: u32 = 1;

/// Extension of records. A record that is being written has the extension [`UNFINISHED`].
const FINISHED: &str = "json";
const UNFINISHED: &str = "new";

/// Maximum size of a record, in bytes: the contents in base64, and some 100,000 paths.
const MAX_RECORD_BYTES: u64 = 2 * MAX_KEPT_BYTES + (32 << 20);

/// Time that a command may run beyond its deadline until all of its processes are stopped.
const GRACE: Duration = Duration::from_secs(60);

/// Age at which an unfinished record is removed. Its command was never started.
const MAX_UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// Record of a running command. Dropping it leaves the record on disk, for the next process or
/// command to judge.
pub(in crate::tool) struct CommandRecord {
    path: PathBuf,
    /// Open file, which holds the lock.
    _file: File,
}

/// Content of a record.
#[derive(Serialize, Deserialize)]
struct Recorded {
    version: u32,
    /// Latest time at which the command can change a file, in seconds since 1970.
    last: i64,
    /// Directories that the command may change.
    folders: Vec<RecordedPath>,
    known: Vec<RecordedFile>,
}

/// File of a record.
#[derive(Serialize, Deserialize)]
struct RecordedFile {
    path: RecordedPath,
    stamp: Stamp,
    /// Content to restore, in base64.
    bytes: Option<String>,
}

/// Path in base64, because paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct RecordedPath(String);

impl From<&Path> for RecordedPath {
    fn from(path: &Path) -> Self {
        Self(STANDARD.encode(path.as_os_str().as_bytes()))
    }
}

impl RecordedPath {
    fn decode(&self) -> Option<PathBuf> {
        let bytes = STANDARD.decode(&self.0).ok()?;
        Some(OsString::from_vec(bytes).into())
    }
}

impl Recorded {
    fn of(before: &RepositoryBefore, deadline: Duration) -> Self {
        let lived = i64::try_from((deadline + GRACE).as_secs()).unwrap_or(i64::MAX);
        let now = clock::current_time().as_second();
        Self {
            version: VERSION,
            last: now.saturating_add(lived),
            folders: before
                .roots
                .folders
                .iter()
                .map(|path| (&**path).into())
                .collect(),
            known: before
                .known
                .iter()
                .map(|(path, known)| RecordedFile {
                    path: (&**path).into(),
                    stamp: known.stamp,
                    bytes: known.bytes.as_ref().map(|bytes| STANDARD.encode(bytes)),
                })
                .collect(),
        }
    }

    /// Returns the state before the command; `None` if a part cannot be decoded. A folder that is now
    /// reached through a link is left out: the command may have put the link there, so that files of
    /// another repository would be renamed.
    fn before(&self) -> Option<RepositoryBefore> {
        let folders: Option<Vec<PathBuf>> = self.folders.iter().map(RecordedPath::decode).collect();
        let mut folders = folders?;
        folders.retain(|path| path.canonicalize().is_ok_and(|real| real == *path));
        let known = self.known.iter().map(|file| {
            let bytes = match &file.bytes {
                Some(text) => Some(STANDARD.decode(text).ok()?),
                None => None,
            };
            let stamp = file.stamp;
            Some((file.path.decode()?, KnownFingerprint { stamp, bytes }))
        });
        Some(RepositoryBefore {
            known: known.collect::<Option<_>>()?,
            roots: ChangedRoots::open_roots(&folders),
        })
    }
}

impl CommandRecord {
    /// Writes and locks the record of a command that ends, or whose record is renewed, within
    /// `deadline`. The record is not synced to disk: it has to outlive the process, not the
    /// machine.
    pub(in crate::tool) fn create(
        folder: &Path,
        before: &RepositoryBefore,
        deadline: Duration,
    ) -> io::Result<Self> {
        private_folder(folder)?;
        let id = clock::new_id();
        let new = folder.join(format!("{id}.{UNFINISHED}"));
        let path = folder.join(format!("{id}.{FINISHED}"));
        let mut file = File::create_new(&new)?;
        // Lock the file before it gets its final name: other processes judge unlocked files of that
        // name.
        file.try_lock()?;
        let written = serde_json::to_vec(&Recorded::of(before, deadline))
            .map_err(io::Error::from)
            .and_then(|bytes| file.write_all(&bytes))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        Ok(Self { path, _file: file })
    }

    /// Removes the record of a command whose files were judged. If that fails, the command is judged
    /// again, which finds nothing.
    pub(in crate::tool) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Judges the files of interrupted commands: renames those that git would run, and removes the
/// records. Returns a line for each file, and for each record that cannot be read.
#[must_use]
pub fn judge_interrupted(folder: &Path) -> Vec<String> {
    let dir = match Dir::open_ambient_dir(folder, ambient_authority()) {
        Ok(dir) => dir,
        // Without this folder, no command has run confined yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![unknown(folder, &error.to_string())],
    };
    let mut names: Vec<PathBuf> = match dir.entries() {
        Ok(entries) => entries
            .flatten()
            .map(|entry| entry.file_name().into())
            .collect(),
        Err(error) => return vec![unknown(folder, &error.to_string())],
    };
    // Ids sort by time. Judge the oldest record first: it holds the state before all later
    // commands.
    names.sort();
    let mut lines = Vec::new();
    for name in names {
        match name.extension().and_then(|found| found.to_str()) {
            Some(FINISHED) => lines.extend(judge(folder, &dir, &name)),
            Some(UNFINISHED) => remove_old(&dir, &name),
            _ => {}
        }
    }
    lines
}

/// Judges the command of one record. A record that is locked belongs to a running command.
fn judge(folder: &Path, dir: &Dir, name: &Path) -> Vec<String> {
    let path = folder.join(name);
    let file = match open_regular(dir, name) {
        Ok(Some((file, _))) => file.into_std(),
        // Another process has just removed the record.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Ok(None) => return vec![unknown(&path, "it is not a regular file; remove it")],
        Err(error) => return vec![unknown(&path, &format!("{error}; remove it"))],
    };
    if file.try_lock().is_err() {
        return Vec::new();
    }
    let lines = match read(&file) {
        Ok((before, last)) => before
            .refuse_what_git_would_run(Some(last))
            .into_iter()
            .map(|line| format!("from a command that was interrupted: {line}"))
            .collect(),
        Err(why) => vec![unknown(&path, &why)],
    };
    // Ignore the error: a record that remains is judged again at the next start.
    let _ = dir.remove_file(name);
    lines
}

/// Reads a record: the state before the command, and the latest time at which the command can
/// change a file, in seconds since 1970.
fn read(file: &File) -> Result<(RepositoryBefore, i64), String> {
    let mut bytes = Vec::new();
    file.take(MAX_RECORD_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_RECORD_BYTES {
        return Err(format!("it is larger than {MAX_RECORD_BYTES} bytes"));
    }
    let recorded: Recorded =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is damaged: {error}"))?;
    if recorded.version != VERSION {
        return Err(format!("it has version {} of the format", recorded.version));
    }
    let before = recorded
        .before()
        .ok_or("it is damaged: a path is not base64")?;
    Ok((before, recorded.last))
}

fn unknown(path: &Path, why: &str) -> String {
    format!(
        "whether an interrupted command left something that git would run is not known: {} cannot be read: {why}",
        path.display()
    )
}

/// Removes a record that was never finished, if it is so old that nothing is writing it any more.
fn remove_old(dir: &Dir, name: &Path) {
    let changed = dir
        .symlink_metadata(name)
        .and_then(|found| found.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed.into_std()));
    if matches!(age, Ok(Ok(age)) if age > MAX_UNFINISHED_AGE) {
        let _ = dir.remove_file(name);
    }
}

#[cfg(test)]
mod tests;
