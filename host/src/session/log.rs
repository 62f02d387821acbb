//! The file of a session: lines are added at its end and never changed.
//!
//! Owns the lock, the repair of a torn last line, and what happens when the disk fails. It knows lines of bytes, not what
//! they say. A line counts once it is written; [`Log::sync`] makes sure that it outlives a power cut.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::entry::Entry;
use super::synced::{Synced, Unsynced};

/// Name of the file within the folder of a session.
pub(super) const FILE: &str = "session.jsonl";

/// Name of the file whose lock says that somebody writes to the session, and which holds that process's id.
const LOCK: &str = "lock";

/// Maximum number of bytes of lines that wait.
const MAX_WAITING_BYTES: usize = 64 << 10;

/// File operations of the log; tests replace them with a full disk.
pub(super) trait Disk: Send + Sync {
    /// Adds bytes at the end, perhaps only some of them before it fails.
    fn add(&self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to a length.
    fn cut(&self, len: u64) -> io::Result<()>;
    /// Returns once everything is on the disk.
    fn sync(&self) -> io::Result<()>;
}

impl Disk for File {
    fn add(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// File of a session, open for appending.
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Length of the file up to the end of its last whole line.
    len: u64,
    synced: Arc<Synced>,
    /// Lines that go into the file with the next one.
    waiting: Vec<u8>,
    /// Whether a failed write may have left part of a line behind `len`.
    has_rest: bool,
    /// Held as long as the log is open.
    lock: Option<File>,
}

/// Result of opening an existing file.
pub(super) struct Opened {
    /// The file, ready for more lines.
    pub(super) log: Log,
    /// Complete lines of the file.
    pub(super) bytes: Vec<u8>,
    /// Repairs, as messages.
    pub(super) notices: Vec<String>,
}

impl Log {
    /// Makes the file of a new session. The folder is there.
    pub(super) fn create(folder: &Path) -> Result<Self, Error> {
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        let file = private(OpenOptions::new().append(true).create_new(true))
            .open(&path)
            .map_err(|source| Error::write(&path, source))?;
        sync_folder(folder);
        if let Some(parent) = folder.parent() {
            sync_folder(parent);
        }
        Ok(Self::over(Arc::new(file), path, 0, Some(lock)))
    }

    /// Opens the file of a session and repairs its end.
    pub(super) fn open(folder: &Path) -> Result<Opened, Error> {
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        let mut bytes = Vec::new();
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&path)
            .map_err(|source| Error::read(&path, source))?;
        file.read_to_end(&mut bytes)
            .map_err(|source| Error::read(&path, source))?;
        let mut notices = Vec::new();
        let last = bytes.iter().rposition(|byte| *byte == b'\n');
        let len = last.map_or(0, |at| at + 1);
        let rest = bytes.get(len..).unwrap_or_default();
        if !rest.is_empty() && Entry::parse(rest).is_ok() {
            // The line is whole and only its line feed is missing: a JSON object that was cut anywhere does not parse.
            file.write_all(b"\n")
                .map_err(|source| Error::write(&path, source))?;
            bytes.push(b'\n');
        } else if !rest.is_empty() {
            let kept = folder.join(format!("{FILE}.{}.torn", crate::clock::new_id()));
            write_private(&kept, rest).map_err(|source| Error::write(&kept, source))?;
            file.set_len(len as u64)
                .map_err(|source| Error::write(&path, source))?;
            notices.push(format!(
                "the last line of {} was cut off after {} bytes; they are kept in {}",
                path.display(),
                rest.len(),
                kept.display()
            ));
            bytes.truncate(len);
        }
        let log = Self::over(Arc::new(file), path, bytes.len() as u64, Some(lock));
        Ok(Opened {
            log,
            bytes,
            notices,
        })
    }

    fn over(disk: Arc<dyn Disk>, path: PathBuf, len: u64, lock: Option<File>) -> Self {
        Self {
            disk,
            path,
            len,
            synced: Arc::new(Synced::new(len)),
            waiting: Vec::new(),
            has_rest: false,
            lock,
        }
    }

    /// Length of the file up to the end of its last whole line, with those that wait.
    pub(super) fn len(&self) -> u64 {
        self.len + self.waiting.len() as u64
    }

    /// Adds a line together with the next one, or at the next sync: nothing depends on it, and writing each of many small ones
    /// costs more than all that is in them. When the process is killed before, it is lost.
    pub(super) fn append_with_next(&mut self, line: &[u8]) -> Result<(), Error> {
        if self.waiting.len() + line.len() > MAX_WAITING_BYTES {
            self.append(&[])?;
        }
        self.waiting.extend_from_slice(line);
        Ok(())
    }

    /// Adds a line, which ends with its line feed. After an error nothing of it is in the file, and it may be tried again.
    pub(super) fn append(&mut self, line: &[u8]) -> Result<(), Error> {
        self.check()?;
        let n_waiting = self.waiting.len();
        self.waiting.extend_from_slice(line);
        let added = self.cut_rest().and_then(|()| self.disk.add(&self.waiting));
        if let Err(source) = added {
            self.waiting.truncate(n_waiting);
            self.has_rest = true;
            // The disk may have room for this even when it is full; if not, the next append tries again.
            let _ = self.cut_rest();
            return Err(Error::write(&self.path, source));
        }
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn cut_rest(&mut self) -> io::Result<()> {
        if self.has_rest {
            self.disk.cut(self.len)?;
            self.has_rest = false;
        }
        Ok(())
    }

    /// Returns once every line is on the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        if let Some(lines) = self.unsynced()? {
            lines.sync();
        }
        self.check()
    }

    /// Writes what waits to be, and returns what is not on the disk: that takes its time, and lines can be added meanwhile.
    pub(super) fn unsynced(&mut self) -> Result<Option<Unsynced>, Error> {
        self.check()?;
        if !self.waiting.is_empty() {
            self.append(&[])?;
        }
        let (disk, synced, len) = (self.disk.clone(), self.synced.clone(), self.len);
        Ok((len > self.synced.len()).then_some(Unsynced { disk, synced, len }))
    }

    /// Returns the failure of the disk, if it has failed: it is unknown then which bytes are on it, so nothing more is added.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.synced
            .check()
            .map_err(|source| Error::write(&self.path, source))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.waiting.is_empty() {
            // Nothing depends on it.
            let _ = self.append(&[]);
        }
        if let Some(lock) = &self.lock {
            // A process that is being started holds everything open until it is another program, and the lock with it
            // (flock(2)): closing the file is not enough.
            let _ = lock.unlock();
        }
    }
}

/// Takes the lock of a session, or says who has it.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let mut file = private(
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false),
    )
    .open(&path)
    .map_err(|source| Error::write(&path, source))?;
    match file.try_lock() {
        Ok(()) => {
            let pid = std::process::id().to_string();
            // The id is only for the other side's error message.
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
        Err(TryLockError::Error(source)) => Err(Error::write(&path, source)),
    }
}

/// Sessions hold whatever the user and the tools said, so only their owner reads them.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes a whole file that only its owner reads, and returns once it is on the disk.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        private(OpenOptions::new().write(true).create(true).truncate(true)).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// Makes sure that a new name in a folder outlives a power cut. Not every file system can, and then nothing is lost but
/// that certainty.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
pub(super) mod tests;
