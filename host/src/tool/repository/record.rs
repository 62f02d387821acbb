//! Records of running commands on disk. A record holds the state before the command. If Rind is
//! killed, a later process of Rind reads it to check the files that the command left.
//!
//! Each record is a file `ID.json`, locked by the process that runs the command and removed after
//! the command's files were checked. An unlocked record belongs to an interrupted command. This
//! module must not know how files are checked (see the module above). All functions block. Start
//! from
//! [`RunningCommandRecordFile::create`] and [`disable_git_files_of_interrupted_commands`].

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

use super::{
    CommandWritableDirectories, GitControlFileFingerprint, GitControlFilesBeforeCommand,
    MAX_SAVED_GIT_SETTINGS_BYTES, SymlinkAwareStatStamp,
};
use crate::beneath::open_regular_file;
use crate::clock;
use crate::disk::create_private_folder;

/// Version of the format. A record of another version is only reported, and the command's files are
/// not checked.
const RECORD_FORMAT_VERSION: u32 = 1;

/// Extension of records. A record that is being written has the extension
/// [`UNFINISHED_RECORD_EXTENSION`].
const COMMAND_RECORD_FILE_EXTENSION: &str = "json";
const UNFINISHED_RECORD_EXTENSION: &str = "new";

/// Maximum size of a record, in bytes: the kept contents of files in base64, and about 100,000
/// paths.
const MAX_RECORD_FILE_BYTES: u64 = 2 * MAX_SAVED_GIT_SETTINGS_BYTES + (32 << 20);

/// Maximum time between the deadline of a command and the end of its last process.
const COMMAND_END_GRACE_PERIOD: Duration = Duration::from_secs(60);

/// Age at which an unfinished record is removed. Its command was never started.
const MAX_UNFINISHED_COMMAND_RECORD_AGE: Duration = Duration::from_secs(3600);

/// Record of a running command. If this is dropped, the record stays on disk, and the next process
/// or command checks the files of this command.
pub(in crate::tool) struct RunningCommandRecordFile {
    path: PathBuf,
    /// Open record file, which holds the lock of the record.
    _file: File,
}

/// Content of the record of a running command.
#[derive(Serialize, Deserialize)]
struct CommandRecordContent {
    version: u32,
    /// Latest time at which the recorded command can still run and change files, in seconds since
    /// 1970.
    last: i64,
    /// Directories that the command may change.
    folders: Vec<RecordedPath>,
    known: Vec<RecordedFile>,
}

/// State, before a command runs, of one file that decides which programs git runs.
#[derive(Serialize, Deserialize)]
struct RecordedFile {
    path: RecordedPath,
    stamp: SymlinkAwareStatStamp,
    /// Content of the file to restore, in base64.
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

impl CommandRecordContent {
    fn from_files_before_command(
        before: &GitControlFilesBeforeCommand,
        deadline: Duration,
    ) -> Self {
        let lived =
            i64::try_from((deadline + COMMAND_END_GRACE_PERIOD).as_secs()).unwrap_or(i64::MAX);
        let now = clock::current_time().as_second();
        Self {
            version: RECORD_FORMAT_VERSION,
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

    /// Returns the recorded state of the repository's files before the command; `None` if the
    /// record is damaged. Leaves out a directory whose path now contains a symlink: the command may
    /// have created the symlink, to have files of another repository renamed.
    fn decode_git_control_files(&self) -> Option<GitControlFilesBeforeCommand> {
        let folders: Option<Vec<PathBuf>> = self.folders.iter().map(RecordedPath::decode).collect();
        let mut folders = folders?;
        folders.retain(|path| path.canonicalize().is_ok_and(|real| real == *path));
        let known = self.known.iter().map(|file| {
            let bytes = match &file.bytes {
                Some(text) => Some(STANDARD.decode(text).ok()?),
                None => None,
            };
            let stamp = file.stamp;
            Some((
                file.path.decode()?,
                GitControlFileFingerprint { stamp, bytes },
            ))
        });
        Some(GitControlFilesBeforeCommand {
            known: known.collect::<Option<_>>()?,
            roots: CommandWritableDirectories::open_directories(&folders),
        })
    }
}

impl RunningCommandRecordFile {
    /// Writes and locks the record of a command. Within `deadline`, the command must have ended or
    /// its record be renewed. The record is not synced to disk, because it must survive only the
    /// end of the process, not a crash of the machine.
    pub(in crate::tool) fn create(
        folder: &Path,
        before: &GitControlFilesBeforeCommand,
        deadline: Duration,
    ) -> io::Result<Self> {
        create_private_folder(folder)?;
        let id = clock::new_uuid_v7();
        let new = folder.join(format!("{id}.{UNFINISHED_RECORD_EXTENSION}"));
        let path = folder.join(format!("{id}.{COMMAND_RECORD_FILE_EXTENSION}"));
        let mut file = File::create_new(&new)?;
        // Lock the file before renaming it: other processes treat every unlocked file with the
        // extension of finished records as that of an interrupted command.
        file.try_lock()?;
        let written = serde_json::to_vec(&CommandRecordContent::from_files_before_command(
            before, deadline,
        ))
        .map_err(io::Error::from)
        .and_then(|bytes| file.write_all(&bytes))
        .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        Ok(Self { path, _file: file })
    }

    /// Removes the record of a command whose files were checked. If that fails, the files are
    /// checked again later, without effect.
    pub(in crate::tool) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks the files that interrupted commands left in repositories, for example because Rind was
/// killed: renames those that git would run, and removes the records of these commands. Returns a
/// line for each file, and for each record that cannot be read.
#[must_use]
pub fn disable_git_files_of_interrupted_commands(folder: &Path) -> Vec<String> {
    let dir = match Dir::open_ambient_dir(folder, ambient_authority()) {
        Ok(dir) => dir,
        // If the folder is missing, no command has run confined yet, so none was interrupted.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![unreadable_record_message(folder, &error.to_string())],
    };
    let mut names: Vec<PathBuf> = match dir.entries() {
        Ok(entries) => entries
            .flatten()
            .map(|entry| entry.file_name().into())
            .collect(),
        Err(error) => return vec![unreadable_record_message(folder, &error.to_string())],
    };
    // Begin with the oldest record, which holds the state before all later commands: ids sort by
    // time.
    names.sort();
    let mut lines = Vec::new();
    for name in names {
        match name.extension().and_then(|found| found.to_str()) {
            Some(COMMAND_RECORD_FILE_EXTENSION) => {
                lines.extend(rename_files_of_recorded_command(folder, &dir, &name))
            }
            Some(UNFINISHED_RECORD_EXTENSION) => remove_unfinished_record(&dir, &name),
            _ => {}
        }
    }
    lines
}

/// Checks the files that the command of one record may have left. Skips a locked record: its
/// command still runs.
fn rename_files_of_recorded_command(folder: &Path, dir: &Dir, name: &Path) -> Vec<String> {
    let path = folder.join(name);
    let file = match open_regular_file(dir, name) {
        Ok(Some((file, _))) => file.into_std(),
        // Another process has just removed the record.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Ok(None) => {
            return vec![unreadable_record_message(
                &path,
                "it is not a regular file; remove it",
            )];
        }
        Err(error) => {
            return vec![unreadable_record_message(
                &path,
                &format!("{error}; remove it"),
            )];
        }
    };
    if file.try_lock().is_err() {
        return Vec::new();
    }
    let lines = match read_command_record(&file) {
        Ok((before, last)) => before
            .rename_files_git_would_run(Some(last))
            .into_iter()
            .map(|line| format!("a command that was interrupted left this: {line}"))
            .collect(),
        Err(why) => vec![unreadable_record_message(&path, &why)],
    };
    // Ignore the error: a record that remains is checked again at the next start.
    let _ = dir.remove_file(name);
    lines
}

/// Reads a record: the state before the command, and the latest time at which the command can
/// change a file, in seconds since 1970.
fn read_command_record(file: &File) -> Result<(GitControlFilesBeforeCommand, i64), String> {
    let mut bytes = Vec::new();
    file.take(MAX_RECORD_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_RECORD_FILE_BYTES {
        return Err(format!(
            "the record is larger than {MAX_RECORD_FILE_BYTES} bytes"
        ));
    }
    let recorded: CommandRecordContent = serde_json::from_slice(&bytes)
        .map_err(|error| format!("the record is damaged: {error}"))?;
    if recorded.version != RECORD_FORMAT_VERSION {
        return Err(format!(
            "the record has version {} of the format instead of {RECORD_FORMAT_VERSION}",
            recorded.version
        ));
    }
    let before = recorded
        .decode_git_control_files()
        .ok_or("the record is damaged: a path is not base64")?;
    Ok((before, recorded.last))
}

fn unreadable_record_message(path: &Path, why: &str) -> String {
    format!(
        "cannot tell whether an interrupted command left files that git would run: {} cannot be read: {why}",
        path.display()
    )
}

/// Removes an unfinished record if it is so old that no process can still be writing it.
fn remove_unfinished_record(dir: &Dir, name: &Path) {
    let changed = dir
        .symlink_metadata(name)
        .and_then(|found| found.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed.into_std()));
    if matches!(age, Ok(Ok(age)) if age > MAX_UNFINISHED_COMMAND_RECORD_AGE) {
        let _ = dir.remove_file(name);
    }
}

#[cfg(test)]
mod tests;
