//! Implements the append-only file of a session.
//!
//! Owns the lock, the repair of an incomplete last line, and the handling of disk errors. A line
//! counts as written once it is in the file; a sync makes sure that it survives a power failure.
//!
//! Invariants: bytes before the end of the last complete line never change, and once a sync fails,
//! nothing more is appended, since it is unknown which bytes are on the disk. The module handles
//! lines as bytes and must not know their meaning, except that the repair parses the first line, for its
//! version, and the last one, to see whether it is complete. Start from [`SessionLog`].

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::entry::{Body, Entry, SESSION_FORMAT_VERSION};
use super::guarded;
use super::storage::{FramePosition, Journal, UnsyncedFrames};
use super::synced::{FileDiskSyncState, UnsyncedSessionData};

/// Name of the session file in the session's folder.
pub(super) const SESSION_FILE_NAME: &str = "session.jsonl";

/// Name of the lock file. Its lock marks the session as open for writing, and its content is the
/// pid of the writer.
pub(super) const LOCK_FILE_NAME: &str = "lock";

/// Maximum total size, in bytes, of the lines buffered until the next append.
const MAX_BUFFERED_LINES_BYTES: usize = 64 << 10;

/// Rule on whether a write of a session waits until the data is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SessionWriteSyncRule {
    /// Waits for the sync, so that entries survive a power failure.
    #[default]
    Waits,
    /// Do not sync: the session is removed when its host ends, so it is not needed after a power
    /// failure. Waiting takes most of the time of a short session.
    Skips,
}

/// File operations of the log. Tests replace them to simulate a full disk.
pub(super) trait SessionLogFileOperations: Send + Sync {
    /// Appends bytes. If the operation fails, a prefix of the bytes may have been written.
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file to `len` bytes.
    fn truncate_file(&self, len: u64) -> io::Result<()>;
    /// Blocks until all bytes that were written to the file are on the disk.
    fn sync(&self) -> io::Result<()>;
}

impl SessionLogFileOperations for File {
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn truncate_file(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// File of a session, open for appending.
pub(super) struct SessionLog {
    disk: Arc<dyn SessionLogFileOperations>,
    path: PathBuf,
    /// Length of the file up to the end of the last complete line.
    len: u64,
    synced: Arc<FileDiskSyncState>,
    wait: SessionWriteSyncRule,
    /// Lines that wait in memory and are written together with the next line.
    waiting: Vec<u8>,
    /// Whether a failed write may have left part of a line after `len`.
    has_rest: bool,
    /// Lock file, held while the log is open.
    lock: Option<File>,
}

/// Result of opening the file of an existing session.
pub(super) struct OpenedSessionLog {
    /// File of the session, open for appending.
    pub(super) log: SessionLog,
    /// Complete lines of the file.
    pub(super) bytes: Vec<u8>,
    /// Messages about repairs of the file.
    pub(super) notices: Vec<String>,
}

impl SessionLog {
    /// Creates the file of a new session. `folder` must exist.
    pub(super) fn create_log(folder: &Path, wait: SessionWriteSyncRule) -> Result<Self, Error> {
        let lock = lock_session(folder)?;
        let path = folder.join(SESSION_FILE_NAME);
        let file = set_private_permissions(OpenOptions::new().append(true).create_new(true))
            .open(&path)
            .map_err(|source| Error::write_error(&path, source))?;
        if wait == SessionWriteSyncRule::Waits {
            fsync_folder(folder);
            if let Some(parent) = folder.parent() {
                fsync_folder(parent);
            }
        }
        let mut log = Self::with_log_file_operations(Arc::new(file), path, 0, Some(lock));
        log.wait = wait;
        Ok(log)
    }

    /// Opens the file of a session and repairs an incomplete last line.
    pub(super) fn open_log(folder: &Path) -> Result<OpenedSessionLog, Error> {
        let lock = lock_session(folder)?;
        let path = folder.join(SESSION_FILE_NAME);
        let mut bytes = Vec::new();
        let (mut file, _) = guarded::open_regular_file_with_options(
            &path,
            OpenOptions::new().read(true).append(true),
        )
        .map_err(|source| Error::read_error(&path, source))?;
        file.read_to_end(&mut bytes)
            .map_err(|source| Error::read_error(&path, source))?;
        // Do not repair a file of a newer version, in which a line that looks incomplete may be
        // complete.
        if let Some(found) = find_newer_format_version(&bytes) {
            return Err(Error::Newer { path, found });
        }
        let mut notices = Vec::new();
        let last = bytes.iter().rposition(|byte| *byte == b'\n');
        let len = last.map_or(0, |at| at + 1);
        let rest = bytes.get(len..).unwrap_or_default();
        if !rest.is_empty() && Entry::parse_line(rest).is_ok() {
            // The last line parses, so only its line feed is missing: a truncated JSON object
            // never parses.
            file.write_all(b"\n")
                .map_err(|source| Error::write_error(&path, source))?;
            bytes.push(b'\n');
        } else if !rest.is_empty() {
            let kept = folder.join(format!(
                "{SESSION_FILE_NAME}.{}.torn",
                crate::clock::new_uuid_v7()
            ));
            write_private_file(&kept, rest).map_err(|source| Error::write_error(&kept, source))?;
            file.set_len(len as u64)
                .map_err(|source| Error::write_error(&path, source))?;
            notices.push(format!(
                "the last line of {} was cut off after {} bytes; they are kept in {}",
                path.display(),
                rest.len(),
                kept.display()
            ));
            bytes.truncate(len);
        }
        let log =
            Self::with_log_file_operations(Arc::new(file), path, bytes.len() as u64, Some(lock));
        Ok(OpenedSessionLog {
            log,
            bytes,
            notices,
        })
    }

    fn with_log_file_operations(
        disk: Arc<dyn SessionLogFileOperations>,
        path: PathBuf,
        len: u64,
        lock: Option<File>,
    ) -> Self {
        Self {
            disk,
            path,
            len,
            synced: Arc::new(FileDiskSyncState::new(len)),
            wait: SessionWriteSyncRule::default(),
            waiting: Vec::new(),
            has_rest: false,
            lock,
        }
    }

    fn remove_partial_line(&mut self) -> io::Result<()> {
        if self.has_rest {
            self.disk.truncate_file(self.len)?;
            self.has_rest = false;
        }
        Ok(())
    }
}

impl Journal for SessionLog {
    fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        if line.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        self.check()?;
        let n_waiting = self.waiting.len();
        self.waiting.extend_from_slice(line);
        let added = self
            .remove_partial_line()
            .and_then(|()| self.disk.append_bytes(&self.waiting));
        if let Err(source) = added {
            self.waiting.truncate(n_waiting);
            self.has_rest = true;
            // Truncating may work even on a full disk; if it fails, the next append tries again.
            let _ = self.remove_partial_line();
            return Err(Error::write_error(&self.path, source));
        }
        self.len += self.waiting.len() as u64;
        self.synced.record_written_length(self.len);
        self.waiting.clear();
        Ok(())
    }

    /// Buffers the line until the next append, because one write per small line is slow.
    fn append_with_next(&mut self, line: &[u8]) -> Result<(), Error> {
        if self.waiting.len() + line.len() > MAX_BUFFERED_LINES_BYTES {
            self.append(&[])?;
        }
        self.waiting.extend_from_slice(line);
        Ok(())
    }

    fn end(&self) -> FramePosition {
        FramePosition::from_u64(self.bytes())
    }

    fn bytes(&self) -> u64 {
        self.len + self.waiting.len() as u64
    }

    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error> {
        self.check()?;
        self.write_waiting()?;
        if self.wait == SessionWriteSyncRule::Skips || self.len <= self.synced.synced_length() {
            return Ok(None);
        }
        Ok(Some(Box::new(UnsyncedSessionData {
            disk: self.disk.clone(),
            synced: self.synced.clone(),
            len: self.len,
        })))
    }

    /// Fails after a failed sync, because from then on it is unknown which bytes are on the disk.
    fn check(&self) -> Result<(), Error> {
        self.synced
            .check_sync_error()
            .map_err(|source| Error::write_error(&self.path, source))
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        // Ignore an error: only lines whose loss does no harm are buffered.
        let _ = self.write_waiting();
        if let Some(lock) = &self.lock {
            // Unlock explicitly, closing the file is not enough: a child process between fork and
            // exec inherits all descriptors, and with them the lock (flock(2)).
            let _ = lock.unlock();
        }
    }
}

/// Returns the version in the first line, if it is newer than [`SESSION_FORMAT_VERSION`].
fn find_newer_format_version(bytes: &[u8]) -> Option<u32> {
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    match Entry::parse_line(first).ok()?.body {
        Body::Session { version, .. } => {
            Some(version).filter(|found| *found > SESSION_FORMAT_VERSION)
        }
        _ => None,
    }
}

/// Locks a session. The error contains the pid of the process that holds the lock, or reports that
/// the lock file is not a regular file: a symlink is not followed, so its target is never written.
pub(super) fn lock_session(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK_FILE_NAME);
    let mut options = OpenOptions::new();
    set_private_permissions(options.read(true).write(true).create(true).truncate(false));
    let (mut file, _) = guarded::open_regular_file_with_options(&path, &mut options)
        .map_err(|source| Error::write_error(&path, source))?;
    match file.try_lock() {
        Ok(()) => {
            let pid = std::process::id().to_string();
            // The process id in the lock file is only used in the error message of other processes.
            let _ = file
                .set_len(0)
                .and_then(|()| file.write_all(pid.as_bytes()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            Err(Error::Locked {
                path: folder.to_owned(),
                pid: pid.trim().parse().ok(),
            })
        }
        Err(TryLockError::Error(source)) => Err(Error::write_error(&path, source)),
    }
}

/// Sets the permissions of files that are created with `options`: only the owner has access,
/// because sessions contain all text of the user and the tools.
pub(crate) fn set_private_permissions(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes a complete file that only its owner can read, and waits until it is on the disk.
pub(super) fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_private_file_with_sync_rule(path, bytes, SessionWriteSyncRule::Waits)
}

/// Writes like [`write_private_file`], but waits for the disk only if `wait` is
/// [`SessionWriteSyncRule::Waits`].
pub(super) fn write_private_file_with_sync_rule(
    path: &Path,
    bytes: &[u8],
    wait: SessionWriteSyncRule,
) -> io::Result<()> {
    let mut file =
        set_private_permissions(OpenOptions::new().write(true).create(true).truncate(true))
            .open(path)?;
    file.write_all(bytes)?;
    match wait {
        SessionWriteSyncRule::Waits => file.sync_data(),
        SessionWriteSyncRule::Skips => Ok(()),
    }
}

/// Writes a new private file as an unnamed file (`O_TMPFILE`) and links it to `path` at the end, so
/// that a process killed meanwhile leaves nothing behind. Fails if `path` exists, or if the file
/// system does not support unnamed files.
#[cfg(target_os = "linux")]
pub(super) fn write_via_unnamed_file(
    path: &Path,
    bytes: &[u8],
    wait: SessionWriteSyncRule,
) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use std::os::fd::AsRawFd;

    let folder = path.parent().unwrap_or(Path::new("."));
    let how = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(open(folder, how, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    if wait == SessionWriteSyncRule::Waits {
        file.sync_data()?;
    }
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, &opened, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Returns an error, because only Linux has unnamed files.
#[cfg(not(target_os = "linux"))]
pub(super) fn write_via_unnamed_file(
    _: &Path,
    _: &[u8],
    _: SessionWriteSyncRule,
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Syncs a folder, so that a new directory entry survives a power failure. The error is ignored,
/// because not every file system supports this and only the guarantee is lost.
pub(super) fn fsync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
pub(super) mod tests;
