//! Stores and restores snapshots of the folder in which a worker runs a session, so that the next
//! worker of the session gets the session's files.
//!
//! The contents of files are values of the session, named by their hashes. A manifest, which is
//! such a value too, lists the files. When all values of a snapshot are stored, a message in the
//! log of the session, after the lines of the turn, names the manifest. If the append of this
//! message is refused, the snapshot does not exist. The folder belongs to the worker, is marked by
//! the worker's own subfolder, and has the files of one session at a time. Start from
//! [`WorkspaceSnapshotStore`].

mod fill;
mod manifest;
mod missing;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::{self, Blobs, SessionAddress, SessionBlobs};
use rind_lib::text::format_error_chain;

use self::fill::SnapshotFetchError;
use self::manifest::{FolderManifest, MAX_SNAPSHOT_MANIFEST_BYTES, WORKER_PRIVATE_FOLDER_NAME};
pub use self::missing::LostFileChangesReport;
use self::missing::{count_turns_and_calls, detect_lost_files, has_input_turn_ended};
use crate::blobs::NatsBlobStore;
use crate::worker::root_session_address;
use crate::{NatsError, NatsSessions};

/// Time after recording a snapshot within which unused values are removed. After a longer pause of
/// the program, another worker may have the session, and its snapshot may use the values.
const UNUSED_BLOBS_CLEANUP_WINDOW: Duration = Duration::from_secs(2);

/// Maximum size and number of the files in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSizeLimits {
    /// Maximum size of all files in a snapshot together, in bytes.
    pub max_bytes: u64,
    /// Maximum number of files, folders and links in a snapshot together.
    pub max_files: usize,
}

impl Default for SnapshotSizeLimits {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            max_files: 20_000,
        }
    }
}

/// Reason why a snapshot of the workspace was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotStoreError {
    /// Another worker has continued the session.
    #[error("another worker has continued the session")]
    Fenced,
    /// The model was not told yet that files are missing. A snapshot of the remaining files would
    /// hide the loss from all later workers.
    #[error("files of the workspace are missing, and the model was not told about it yet")]
    Untold,
    /// A turn ran during the scan. The scanned files may be inconsistent, some from before and some
    /// from after a change.
    #[error("a turn of the session ran while its files were scanned")]
    Changed,
    /// The snapshot was not stored for any other reason.
    #[error(transparent)]
    Failed(#[from] NatsError),
}

/// State of the folder in which the worker runs a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WorkerSessionFolderState {
    /// Session whose files are in the folder; `None` until a session's files are restored.
    session: Option<String>,
    /// Name of the snapshot that was restored or stored last.
    snapshot: Option<String>,
    /// Whether the session's files are unchanged since the snapshot `snapshot`.
    is_stored: bool,
    /// Length of the session in bytes when the worker closed it.
    left_at: Option<u64>,
    /// Whether changes of files are lost, and no turn has ended yet whose model was told about the
    /// loss.
    is_untold: bool,
    /// Number of turns and tool calls in the log of the session when its files were restored.
    n_changes: usize,
}

/// Stores and restores the files in the folder of a worker that runs one session at a time. All
/// methods block.
#[derive(Debug)]
pub struct WorkspaceSnapshotStore {
    sessions: NatsSessions,
    path: PathBuf,
    folder: Dir,
    limits: SnapshotSizeLimits,
    state: Mutex<WorkerSessionFolderState>,
    /// Lock that is held while files are stored or restored.
    work: Mutex<()>,
}

impl WorkspaceSnapshotStore {
    /// Opens a folder for the files of sessions. The folder must be empty or marked as a worker's
    /// folder, because its files are removed when the files of another session are restored.
    ///
    /// # Errors
    /// The folder has other files, or cannot be written.
    pub fn open(
        sessions: NatsSessions,
        path: &Path,
        limits: SnapshotSizeLimits,
    ) -> Result<Self, NatsError> {
        let failed = |why: String| NatsError::Files {
            folder: path.display().to_string(),
            why,
        };
        let folder = Dir::open_ambient_dir(path, ambient_authority());
        let folder = folder.map_err(|error| failed(error.to_string()))?;
        let mark = folder.symlink_metadata(WORKER_PRIVATE_FOLDER_NAME);
        if !mark.is_ok_and(|mark| mark.is_dir()) {
            let names = fill::list_names_outside_worker_folder(&folder)
                .map_err(|error| failed(error.to_string()))?;
            if !names.is_empty() {
                return Err(failed(
                    "the folder has files that no worker put there, and a worker with snapshots removes what it finds; \
                     give it an empty folder with --workspace"
                        .to_owned(),
                ));
            }
            let made = folder.create_dir(WORKER_PRIVATE_FOLDER_NAME);
            made.map_err(|error| failed(error.to_string()))?;
        }
        Ok(Self {
            sessions,
            path: path.to_owned(),
            folder,
            limits,
            state: Mutex::default(),
            work: Mutex::default(),
        })
    }

    /// Replaces the files in the folder by the files of a session's last snapshot. Moves files of
    /// another session that are in no snapshot aside. Returns [`LostFileChangesReport`] if changes
    /// of the session's files may be lost.
    ///
    /// # Errors
    /// The session or its snapshot cannot be read, or the folder cannot be written
    /// ([`NatsError::Files`]). The existing files are kept until the snapshot is fetched
    /// completely.
    pub fn restore(&self, session: &str) -> Result<Option<LostFileChangesReport>, NatsError> {
        let _work = lock_ignoring_poison(&self.work);
        let at = root_session_address(session)?;
        let read = self
            .sessions
            .read_complete_session(&at)?
            .unwrap_or_default();
        let wanted = read.snapshot.as_ref().map(|(name, _)| name.clone());
        let state = lock_ignoring_poison(&self.state).clone();
        let is_here = state.session.as_deref() == Some(session) && state.snapshot == wanted;
        let lost = detect_lost_files(&read);
        if is_here && (state.left_at == Some(read.end_offset())) {
            lock_ignoring_poison(&self.state).n_changes = count_turns_and_calls(&read);
            return Ok(lost.filter(|_| state.is_untold));
        }
        let manifest = match self.fetch_snapshot(&at, wanted.as_deref()) {
            Ok(manifest) => manifest,
            Err(error) => {
                let now = self
                    .sessions
                    .read_complete_session(&at)?
                    .and_then(|read| read.snapshot);
                return Err(match now.map(|(name, _)| name) == wanted {
                    true => error,
                    false => {
                        self.snapshot_error("another program replaced the snapshot".to_owned())
                    }
                });
            }
        };
        if !state.is_stored {
            self.move_unsaved_files_aside(state.session.as_deref().unwrap_or("unknown"))?;
        }
        // After an error, the folder has only a part of the snapshot. Mark it as stored, so that
        // these files are not moved aside.
        *lock_ignoring_poison(&self.state) = WorkerSessionFolderState {
            is_stored: true,
            ..WorkerSessionFolderState::default()
        };
        fill::replace_with_fetched_files(&self.folder, &manifest)
            .map_err(|error| self.snapshot_error(error.to_string()))?;
        *lock_ignoring_poison(&self.state) = WorkerSessionFolderState {
            session: Some(session.to_owned()),
            snapshot: wanted,
            is_stored: true,
            left_at: None,
            is_untold: lost.is_some(),
            n_changes: count_turns_and_calls(&read),
        };
        Ok(lost)
    }

    /// Whether another program holds the lease of a session.
    ///
    /// # Errors
    /// The servers do not answer.
    pub fn is_leased_elsewhere(&self, session: &str) -> Result<bool, NatsError> {
        let (sessions, at) = (self.sessions.clone(), root_session_address(session)?);
        let held = async move { sessions.is_leased_elsewhere(&at).await };
        self.sessions.shared_store_state().runtime.block_on(held)
    }

    /// Whether the folder still has the files of the session's last snapshot, and no turn ran
    /// since. Another worker may have run the session between [`restore`](Self::restore) and the
    /// claim of this worker.
    ///
    /// # Errors
    /// The session cannot be read.
    pub fn is_snapshot_current(&self, session: &str) -> Result<bool, NatsError> {
        let read = self
            .sessions
            .read_complete_session(&root_session_address(session)?)?;
        let read = read.unwrap_or_default();
        let n_changes = count_turns_and_calls(&read);
        let last = read.snapshot.map(|(name, _)| name);
        let state = lock_ignoring_poison(&self.state);
        Ok(state.snapshot == last && state.n_changes == n_changes)
    }

    /// Whether the turn of an input has ended. If so, another delivery of the input causes no model
    /// request.
    ///
    /// # Errors
    /// The session cannot be read.
    pub fn has_turn_of_input_ended(&self, session: &str, input: &str) -> Result<bool, NatsError> {
        let read = self
            .sessions
            .read_complete_session(&root_session_address(session)?)?;
        Ok(read.is_some_and(|read| has_input_turn_ended(&read, input)))
    }

    /// Records that a turn has ended in which the model was told that files are missing.
    pub fn record_model_told_of_file_loss(&self) {
        lock_ignoring_poison(&self.state).is_untold = false;
    }

    /// Whether changes of files are lost, and the model was not told about the loss.
    #[must_use]
    pub fn has_file_loss_unknown_to_model(&self) -> bool {
        lock_ignoring_poison(&self.state).is_untold
    }

    /// Records that a turn begins. The turn may change files, so the last snapshot is outdated.
    pub fn record_turn_begin(&self) {
        lock_ignoring_poison(&self.state).is_stored = false;
    }

    /// Whether the session's files are unchanged since the last snapshot of them.
    #[must_use]
    pub fn are_files_unchanged_since_snapshot(&self) -> bool {
        lock_ignoring_poison(&self.state).is_stored
    }

    /// Stores a snapshot of the files of a session that is open in this program, and records it in
    /// the log of the session.
    ///
    /// # Errors
    /// There are too many files or bytes, a file cannot be read, the store is full or does not
    /// answer, another worker has the session, a turn runs in it, or the model was not told that
    /// files are missing. The previous snapshot stays the last one.
    pub fn store_snapshot(&self, session: &str) -> Result<(), SnapshotStoreError> {
        let _work = lock_ignoring_poison(&self.work);
        let at = root_session_address(session)?;
        let state = lock_ignoring_poison(&self.state).clone();
        if state.session.as_deref() != Some(session) {
            let why = "they are those of another session".to_owned();
            return Err(self.snapshot_error(why).into());
        }
        if state.is_untold {
            return Err(SnapshotStoreError::Untold);
        }
        // Restore the worker's own folder, by which a restarted worker recognizes that the folder
        // belongs to it.
        fill::open_worker_private_folder(&self.folder)
            .map_err(|error| self.snapshot_error(error.to_string()))?;
        let length = self.sessions.length_of_open_session(&at);
        let blobs = self.blobs(&at);
        let mut known: BTreeSet<String> = blobs
            .list_names_and_lengths()?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let mut needed = BTreeSet::new();
        let mut refused = None;
        let scanned = scan::scan_snapshot_files(&self.folder, self.limits, &mut |bytes| {
            let name = SessionBlobs::compute_blob_id(bytes);
            needed.insert(name.clone());
            if known.insert(name.clone())
                && let Err(error) = blobs.store_value_unconditionally(&name, bytes)
            {
                let why = format_error_chain(&error);
                refused = Some(error);
                return Err(why);
            }
            Ok(name)
        });
        let manifest = match (scanned, refused) {
            (Ok(manifest), _) => manifest,
            (Err(_), Some(error)) => return Err(error.into()),
            (Err(why), None) => return Err(self.snapshot_error(why).into()),
        };
        let listed = serde_json::to_vec(&manifest)
            .map_err(|error| self.snapshot_error(error.to_string()))?;
        if listed.len() as u64 > MAX_SNAPSHOT_MANIFEST_BYTES {
            let why =
                format!("the list of the files is longer than {MAX_SNAPSHOT_MANIFEST_BYTES} bytes");
            return Err(self.snapshot_error(why).into());
        }
        let name = SessionBlobs::compute_blob_id(&listed);
        if known.insert(name.clone()) {
            blobs.store_value_unconditionally(&name, &listed)?;
        }
        needed.insert(name.clone());
        if self.sessions.length_of_open_session(&at) != length {
            return Err(SnapshotStoreError::Changed);
        }
        self.sessions
            .queue_snapshot_after_session_lines(&at, &name)
            .map_err(|error| match error {
                session::Error::Fenced { .. } => SnapshotStoreError::Fenced,
                other => self.snapshot_error(format_error_chain(&other)).into(),
            })?;
        let mut state = lock_ignoring_poison(&self.state);
        state.snapshot = Some(name);
        state.is_stored = self.sessions.length_of_open_session(&at) == length;
        drop(state);
        let recorded = Instant::now();
        for unused in known.difference(&needed) {
            if recorded.elapsed() < UNUSED_BLOBS_CLEANUP_WINDOW {
                blobs.release(unused);
            }
        }
        Ok(())
    }

    /// Records that the worker has closed a session. If this worker is the next to open the
    /// session, the files in the folder are still current, even if no snapshot could be stored.
    pub fn record_session_closed(&self, session: &str) {
        let _work = lock_ignoring_poison(&self.work);
        let read =
            root_session_address(session).and_then(|at| self.sessions.read_complete_session(&at));
        let length = read.ok().flatten().map(|read| read.end_offset());
        let mut state = lock_ignoring_poison(&self.state);
        if state.session.as_deref() == Some(session) {
            state.left_at = length;
        }
    }

    fn move_unsaved_files_aside(&self, session: &str) -> Result<(), NatsError> {
        let name = format!("{}-{session}", rind_lib::clock::now_ms());
        let aside = fill::move_files_into_unsaved_files_folder(&self.folder, &name);
        if let Some(path) = aside.map_err(|error| self.snapshot_error(error.to_string()))? {
            tracing::warn!(
                session,
                path = %self.path.join(path).display(),
                "files of a session that are in no snapshot were set aside"
            );
        }
        Ok(())
    }

    /// Fetches the files of a snapshot into the subfolder that belongs to the worker, without
    /// changing existing files.
    fn fetch_snapshot(
        &self,
        at: &SessionAddress,
        name: Option<&str>,
    ) -> Result<FolderManifest, NatsError> {
        let manifest = match name {
            Some(name) => self.read_manifest(at, name)?,
            None => FolderManifest::default(),
        };
        let blobs = self.blobs(at);
        let content = |hash: &str| {
            let content = blobs.get(hash);
            content.map_err(|error| match error {
                session::Error::Blob { .. } => {
                    SnapshotFetchError::Snapshot(format_error_chain(&error))
                }
                other => SnapshotFetchError::Store(other),
            })
        };
        let staged = fill::fetch_snapshot_files(&self.folder, &manifest, &content);
        staged.map_err(|error| match error {
            SnapshotFetchError::Snapshot(why) => damaged_snapshot_error(at, why),
            SnapshotFetchError::Folder(why) => self.snapshot_error(why),
            // Do not report an error of the store as damage to the session's snapshot.
            SnapshotFetchError::Store(error) => self.snapshot_error(format_error_chain(&error)),
        })?;
        Ok(manifest)
    }

    /// Reads the manifest of a snapshot, and checks it against the limits before any file is
    /// fetched.
    fn read_manifest(&self, at: &SessionAddress, name: &str) -> Result<FolderManifest, NatsError> {
        let blobs = self.blobs(at);
        let lengths: BTreeMap<String, u64> = blobs.list_names_and_lengths()?.into_iter().collect();
        let length = |hash: &str| lengths.get(hash).copied().unwrap_or(0);
        if length(name) > MAX_SNAPSHOT_MANIFEST_BYTES {
            let why = format!("its list has {} bytes", length(name));
            return Err(damaged_snapshot_error(at, why));
        }
        let bytes = blobs.get(name).map_err(|error| match error {
            session::Error::Blob { .. } => damaged_snapshot_error(at, format_error_chain(&error)),
            other => self.snapshot_error(format_error_chain(&other)),
        })?;
        let manifest =
            FolderManifest::parse(&bytes).map_err(|why| damaged_snapshot_error(at, why))?;
        if manifest.n_entries() > self.limits.max_files {
            let most = self.limits.max_files;
            return Err(damaged_snapshot_error(
                at,
                format!("it has more than {most} files"),
            ));
        }
        let files = manifest.files.iter().map(|file| length(&file.hash));
        let n_bytes = files.fold(0, u64::saturating_add);
        if n_bytes > self.limits.max_bytes {
            let most = self.limits.max_bytes;
            return Err(NatsError::Config {
                what: format!("the snapshot of the files of {at}"),
                why: format!(
                    "it has {n_bytes} bytes, more than {most}; start the workers with a higher limit (--snapshots)"
                ),
            });
        }
        Ok(manifest)
    }

    fn blobs(&self, at: &SessionAddress) -> NatsBlobStore {
        NatsBlobStore::for_session_files(self.sessions.shared_store_state().clone(), at)
    }

    fn snapshot_error(&self, why: String) -> NatsError {
        NatsError::Files {
            folder: self.path.display().to_string(),
            why,
        }
    }
}

fn damaged_snapshot_error(at: &SessionAddress, why: String) -> NatsError {
    NatsError::Damaged {
        what: format!("the snapshot of the files of {at}"),
        why,
    }
}
