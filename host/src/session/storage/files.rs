//! Stores sessions as files: one folder for each session, below a root folder.
//!
//! Owns the names of the files of a session and how a session is found below the root without
//! following links. It must not know the meaning of lines, except that the end of a file is
//! repaired (see `log`). Start from [`FileSessionBackend`].

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::{
    BlobKind, Blobs, FramePosition, Journal, OpenedJournal, SessionAddress, SessionListItem,
    SessionPage, Sessions,
};
use crate::disk::{TemporaryFolder, create_private_folder, rename_without_replace};
use crate::session::Error;
use crate::session::blobs::HashNamedFilesFolder;
use crate::session::children::{self, SUBAGENTS_FOLDER_NAME};
use crate::session::guarded::{self, is_session_id};
use crate::session::log::{
    self, LOCK_FILE_NAME, SESSION_FILE_NAME, SessionLog, SessionWriteSyncRule, write_private_file,
};

/// Name of the folder with large values of plugins in the folder of a session.
pub(in crate::session) const LARGE_STATE_VALUES_FOLDER_NAME: &str = "blobs";

/// Name prefix of the temporary folders in which copies of sessions are created.
const TEMPORARY_FORK_FOLDER_PREFIX: &str = ".forked-";

/// Name prefix of the temporary folders into which sessions are moved to be removed.
const REMOVED_SESSION_FOLDER_PREFIX: &str = ".removed-";

/// The default store: sessions in the folders of one root. Holds no file open.
#[derive(Clone, Debug)]
pub struct FileSessionBackend {
    root: PathBuf,
    wait: SessionWriteSyncRule,
}

impl FileSessionBackend {
    /// Returns the store in the folder `root`, which does not need to exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            wait: SessionWriteSyncRule::default(),
        }
    }

    /// Configures the store to create sessions without waiting until their data is on the disk. Use
    /// this for sessions that are removed when the host ends: a power failure may lose their last
    /// entries.
    #[must_use]
    pub fn without_disk_sync(self) -> Self {
        let wait = SessionWriteSyncRule::Skips;
        Self { wait, ..self }
    }

    /// Returns the folder that contains all sessions.
    pub(in crate::session) fn root_folder(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a session's folder, whether or not the folder exists.
    fn session_folder_path(&self, at: &SessionAddress) -> PathBuf {
        self.root.join(at.as_str())
    }

    /// Returns the folder of a session. Fails if any component of the path below the root is a
    /// symlink or no folder.
    pub(in crate::session) fn checked_session_folder(
        &self,
        at: &SessionAddress,
    ) -> Result<PathBuf, Error> {
        let mut folder = self.root.clone();
        for name in at.as_str().split('/') {
            folder.push(name);
            let is_folder = guarded::is_real_folder(&folder);
            if !is_folder.map_err(|source| Error::read_error(&folder, source))? {
                return Err(self.unknown_session_error(at));
            }
        }
        Ok(folder)
    }

    fn unknown_session_error(&self, at: &SessionAddress) -> Error {
        Error::Unknown {
            wanted: at.as_str().to_owned(),
            root: self.root.clone(),
        }
    }

    /// Creates the folder of a session. Reuses a folder that a killed process created and left
    /// without a session.
    fn create_folder(&self, at: &SessionAddress) -> Result<PathBuf, Error> {
        let folder = self.session_folder_path(at);
        let failed = |source| Error::write_error(&folder, source);
        let above = folder.parent().unwrap_or(&self.root);
        create_private_folder(above).map_err(failed)?;
        // The creation fails if a file of any type has this name, even a dangling symlink.
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => Ok(folder),
            Err(source) if source.kind() != ErrorKind::AlreadyExists => Err(failed(source)),
            Err(_)
                if guarded::is_real_folder(&folder).unwrap_or_default()
                    && is_empty_except_lock_file(&folder) =>
            {
                Ok(folder)
            }
            Err(_) => Err(at.already_exists_error()),
        }
    }

    /// Returns every folder below the root whose name is a session id, with the id, sorted.
    /// Symlinks are skipped.
    pub(in crate::session) fn list_session_folders(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let failed = |source| Error::read_error(&self.root, source);
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let Ok(id) = entry.file_name().into_string() else {
                continue;
            };
            if is_folder && is_session_id(&id) {
                folders.push((id, entry.path()));
            }
        }
        folders.sort();
        Ok(folders)
    }

    fn open_blob_folder(folder: &Path, kind: BlobKind) -> HashNamedFilesFolder {
        HashNamedFilesFolder::new(folder.join(match kind {
            BlobKind::Content => "content",
            BlobKind::State => LARGE_STATE_VALUES_FOLDER_NAME,
        }))
    }
}

/// Copies the files with large values of messages and of plugin state from the folder of one
/// session to that of another.
fn copy_blob_files(from: &Path, to: &Path) -> Result<(), Error> {
    [BlobKind::Content, BlobKind::State]
        .into_iter()
        .try_for_each(|kind| {
            let files = FileSessionBackend::open_blob_folder(from, kind);
            files.copy_files_to(&FileSessionBackend::open_blob_folder(to, kind))
        })
}

/// Whether a folder contains nothing, or only a lock file.
fn is_empty_except_lock_file(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        let mut names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        names.all(|name| name.is_ok_and(|name| name == LOCK_FILE_NAME))
    })
}

impl Sessions for FileSessionBackend {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error> {
        let folder = self.create_folder(at)?;
        match SessionLog::create_log(&folder, self.wait) {
            Ok(log) => Ok(Box::new(log)),
            // Another process created the session first.
            Err(Error::Write { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                Err(at.already_exists_error())
            }
            Err(error) => Err(error),
        }
    }

    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error> {
        let opened = SessionLog::open_log(&self.checked_session_folder(at)?)?;
        Ok(OpenedJournal {
            journal: Box::new(opened.log),
            lines: opened.bytes,
            notices: opened.notices,
        })
    }

    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error> {
        let path = self.checked_session_folder(at)?.join(SESSION_FILE_NAME);
        let mut bytes = Vec::new();
        guarded::open_regular_file(&path)
            .and_then(|(mut file, _)| {
                file.seek(SeekFrom::Start(from.as_u64()))?;
                file.read_to_end(&mut bytes)
            })
            .map_err(|source| Error::read_error(&path, source))?;
        Ok(bytes)
    }

    fn contains(&self, at: &SessionAddress) -> bool {
        let folder = self.checked_session_folder(at);
        folder.is_ok_and(|folder| folder.join(SESSION_FILE_NAME).symlink_metadata().is_ok())
    }

    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs> {
        Arc::new(
            Self::open_blob_folder(&self.session_folder_path(at), kind)
                .with_disk_sync_rule(self.wait),
        )
    }

    fn folder(&self, at: &SessionAddress) -> Option<PathBuf> {
        Some(self.session_folder_path(at))
    }

    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error> {
        Ok(children::stored_agent_ids(
            &self.checked_session_folder(at)?,
        ))
    }

    fn remove(&self, at: &SessionAddress) -> Result<(), Error> {
        let folder = self.checked_session_folder(at)?;
        let failed = |source| Error::write_error(&folder, source);
        let lock = log::lock_session(&folder)?;
        let aside =
            TemporaryFolder::new_in(REMOVED_SESSION_FOLDER_PREFIX, &self.root).map_err(failed)?;
        // Rename the folder first, so that a reader finds the complete session or none.
        rename_without_replace(&folder, &aside.path().join("session")).map_err(failed)?;
        let _ = lock.unlock();
        drop(aside);
        log::fsync_folder(folder.parent().unwrap_or(&self.root));
        Ok(())
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error> {
        let mut page = SessionPage::default();
        for (id, folder) in self.list_session_folders()? {
            if after.is_some_and(|after| id.as_str() <= after) {
                continue;
            }
            let Ok(meta) = folder.join(SESSION_FILE_NAME).symlink_metadata() else {
                continue;
            };
            if page.sessions.len() >= limit {
                page.next = page.sessions.last().map(|last| last.id.clone());
                break;
            }
            let updated = meta.modified().ok();
            let updated = updated.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            page.sessions.push(SessionListItem {
                id,
                updated: i64::try_from(updated.unwrap_or_default().as_millis()).unwrap_or(i64::MAX),
                bytes: meta.len(),
            });
        }
        Ok(page)
    }

    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let (from, folder) = (
            self.checked_session_folder(from)?,
            self.session_folder_path(to),
        );
        let failed = |source| Error::write_error(&folder, source);
        // The copy gets its name once it is complete, so that an interrupted fork leaves no partial
        // session.
        let aside =
            TemporaryFolder::new_in(TEMPORARY_FORK_FOLDER_PREFIX, &self.root).map_err(failed)?;
        let half = aside.path().join("session");
        create_private_folder(&half).map_err(failed)?;
        let path = half.join(SESSION_FILE_NAME);
        write_private_file(&path, lines).map_err(|source| Error::write_error(&path, source))?;
        copy_blob_files(&from, &half)?;
        for agent in agents {
            copy_subagent_session(&from, &half, agent)?;
        }
        match rename_without_replace(&half, &folder) {
            Err(source) if source.kind() == ErrorKind::AlreadyExists => {
                Err(to.already_exists_error())
            }
            moved => moved.map_err(failed),
        }
    }
}

/// Copies the session of a subagent with its values, and those of its own subagents, from one
/// session's folder to another.
fn copy_subagent_session(from: &Path, to: &Path, agent: &str) -> Result<(), Error> {
    let (from, to) = (
        from.join(SUBAGENTS_FOLDER_NAME).join(agent),
        to.join(SUBAGENTS_FOLDER_NAME).join(agent),
    );
    let file = from.join(SESSION_FILE_NAME);
    // The folder of the subagent may have been removed, although entries still mention it.
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    create_private_folder(&to).map_err(|source| Error::write_error(&to, source))?;
    guarded::copy_regular_file(&file, &to.join(SESSION_FILE_NAME))?;
    copy_blob_files(&from, &to)?;
    let below = children::stored_agent_ids(&from);
    below
        .iter()
        .try_for_each(|agent| copy_subagent_session(&from, &to, agent))
}
