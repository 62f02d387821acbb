//! Saves the state of files before the calls of a session change them.
//!
//! Owns the order of writes: contents and the beginning of a record are on disk before a change
//! begins. A call never fails because something cannot be saved; the record and a notice report it
//! instead. All functions block. Start from [`SessionCheckpoints::begin_tool_call`].

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::config::CheckpointConfig;
use super::record::{
    ChangeRecordOutcome, ChangeRecordStartData, ChangeSource, FILE_CHANGES_FILE_NAME, FileChange,
};
use super::restore;
use super::snapshot::{Snapshot, SnapshotFailureReason, WorkspaceSnapshotScan};
use super::state::{FileState, read_path_state};
use super::store::{MAX_STORED_FILE_BYTES_BEFORE_WRITE, OpenedCheckpointStore, SNAPSHOT_FILE_NAME};
use crate::disk::replace_private_file;
use crate::lock::lock_ignoring_poison;

/// Name of the checkpoint folder in the folder of a session.
pub const CHECKPOINTS_FOLDER_NAME: &str = "checkpoints";

/// Checkpoints of a session and of its subagents: records from which file changes can be undone.
#[derive(Debug)]
pub struct SessionCheckpoints {
    config: CheckpointConfig,
    folder: PathBuf,
    workspace: PathBuf,
    skipped: Vec<PathBuf>,
    keeper: Mutex<SessionCheckpointsState>,
    /// Number of running calls whose changes are found by comparing snapshots. It is not in the
    /// state behind the lock, because the lock is held during a complete snapshot and a
    /// `SnapshotTrackedToolCall` must be droppable on an async thread without waiting.
    n_running: AtomicUsize,
    /// Notices about checkpoints that the user has not been shown yet.
    notices: Mutex<Vec<String>>,
}

/// Paths and settings of the checkpoints of a session.
#[derive(Clone, Debug)]
pub struct SessionCheckpointSpec {
    /// Settings of the checkpoints, with their limits.
    pub config: CheckpointConfig,
    /// Folder in which the session is stored.
    pub session: PathBuf,
    /// Folder in which the agent works.
    pub workspace: PathBuf,
    /// Folders of this program, which snapshots of the workspace skip.
    pub own_folders: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct SessionCheckpointsState {
    opened: Option<OpenedCheckpointStore>,
    /// Whether opening the store has failed; it is not tried again.
    has_failed: bool,
    /// Reason why no more snapshots are taken, such as a workspace that is too large; `None` while
    /// snapshots are taken.
    is_too_large: Option<SnapshotFailureReason>,
    /// Ids of the records that are still open, of calls with a snapshot.
    open_calls: Vec<u64>,
    /// States of files that file tools have written since the last snapshot, by path.
    written: BTreeMap<String, FileState>,
    has_told_of_disk: bool,
}

/// Running call whose changes are found by comparing snapshots. If it is dropped without
/// [`SessionCheckpoints::end_tool_call`], the call counts as interrupted.
#[derive(Debug)]
pub struct SnapshotTrackedToolCall {
    checkpoints: Arc<SessionCheckpoints>,
    id: Option<u64>,
    has_snapshot: bool,
}

impl Drop for SnapshotTrackedToolCall {
    fn drop(&mut self) {
        if self.has_snapshot {
            self.checkpoints.n_running.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Turn, id and tool of a tool call that changes files.
#[derive(Clone, Debug)]
pub struct FileChangeOrigin {
    /// Number of the main agent's turn in which the call ran.
    pub turn: u32,
    /// Id of the tool call that changes files.
    pub call: String,
    /// Name of the called tool.
    pub tool: String,
}

impl FileChangeOrigin {
    fn create_change_record(
        &self,
        source: ChangeSource,
        changes: Vec<FileChange>,
    ) -> ChangeRecordStartData {
        ChangeRecordStartData {
            turn: self.turn,
            call: Some(self.call.clone()),
            tool: self.tool.clone(),
            source,
            changes,
            left_out: Vec::new(),
            unknown: None,
        }
    }
}

impl SessionCheckpoints {
    /// Creates the checkpoints of a session without opening any file.
    #[must_use]
    pub fn new(spec: SessionCheckpointSpec) -> Self {
        let mut skipped = spec.own_folders;
        skipped.push(spec.session.clone());
        // Resolve symlinks, because the workspace is compared by its canonical path.
        let canonical = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let skipped: Vec<PathBuf> = skipped.into_iter().map(canonical).collect();
        let workspace = canonical(spec.workspace);
        let mut config = spec.config;
        // Disable checkpoints for a session without a folder, because their files would be written
        // to the working directory.
        config.enabled &= !spec.session.as_os_str().is_empty();
        Self {
            config,
            folder: spec.session.join(CHECKPOINTS_FOLDER_NAME),
            // Do not skip a folder of this program that contains the workspace: it would exclude
            // the complete workspace.
            skipped: skipped
                .into_iter()
                .filter(|own| !workspace.starts_with(own))
                .collect(),
            workspace,
            keeper: Mutex::default(),
            n_running: AtomicUsize::new(0),
            notices: Mutex::default(),
        }
    }

    /// Returns the folder that contains the checkpoints of the session.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn is_call_running(&self) -> bool {
        self.n_running.load(Ordering::Acquire) > 0
    }

    fn lock_state(&self) -> MutexGuard<'_, SessionCheckpointsState> {
        lock_ignoring_poison(&self.keeper)
    }

    /// Returns the notices that the user has not been shown yet, and removes them.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock_ignoring_poison(&self.notices))
    }

    /// Records the start of a call that may change any file. Takes a snapshot first, unless another
    /// call with a snapshot is running.
    #[must_use]
    pub fn begin_tool_call(self: &Arc<Self>, origin: &FileChangeOrigin) -> SnapshotTrackedToolCall {
        let mut started = SnapshotTrackedToolCall {
            checkpoints: self.clone(),
            id: None,
            has_snapshot: false,
        };
        if !self.config.enabled {
            return started;
        }
        let mut keeper = self.lock_state();
        if keeper.is_too_large.is_none() && !self.is_call_running() {
            match self.take_snapshot(&mut keeper) {
                Ok(()) => {}
                Err(why) => self.report_scan_failure(&mut keeper, why),
            }
        }
        let unknown = keeper.is_too_large.clone();
        let has_snapshot = unknown.is_none();
        let Some(store) = self.open_store(&mut keeper) else {
            return started;
        };
        let record = ChangeRecordStartData {
            left_out: store
                .last
                .as_ref()
                .map(Snapshot::left_out_files)
                .unwrap_or_default(),
            unknown,
            ..origin.create_change_record(ChangeSource::Snapshot, Vec::new())
        };
        match store.log.begin_record(record) {
            Ok(id) => started.id = Some(id),
            Err(error) => return self.report_disk_error(&mut keeper, &error, started),
        }
        if has_snapshot {
            keeper.open_calls.extend(started.id);
            self.n_running.fetch_add(1, Ordering::AcqRel);
            started.has_snapshot = true;
            self.report_full_disk(&mut keeper);
        }
        started
    }

    /// Records the end of a tool call, and the changes of workspace files since the last snapshot.
    pub fn end_tool_call(&self, mut started: SnapshotTrackedToolCall) {
        let Some(id) = started.id else {
            return;
        };
        let mut keeper = self.lock_state();
        if std::mem::take(&mut started.has_snapshot) {
            self.n_running.fetch_sub(1, Ordering::AcqRel);
            self.end_record_with_changes(&mut keeper, id, ChangeRecordOutcome::Done);
        } else if let Some(store) = &mut keeper.opened {
            let ended = store.log.end_record(id, ChangeRecordOutcome::Done, None);
            self.report_write_error(&mut keeper, ended);
        }
    }

    /// Records that `path`, which is relative to the workspace and contains no symlinks, is about
    /// to be changed: to a file with `content`, or in another way, such as a removal, if `content`
    /// is `None`. Returns the id of the record, which [`Self::end_file_write`] ends.
    pub fn begin_file_write(
        &self,
        origin: &FileChangeOrigin,
        path: &str,
        content: Option<&[u8]>,
    ) -> Option<u64> {
        if !self.config.enabled {
            return None;
        }
        let mut keeper = self.lock_state();
        let store = self.open_store(&mut keeper)?;
        let changes = match store.plan_file_write(path, content) {
            Ok(changes) => changes,
            Err(error) => return self.report_disk_error(&mut keeper, &error, None),
        };
        let record = origin.create_change_record(ChangeSource::Write, changes);
        let begun = store.contents.sync();
        match begun.and_then(|()| store.log.begin_record(record)) {
            Ok(id) => {
                self.report_full_disk(&mut keeper);
                Some(id)
            }
            Err(error) => self.report_disk_error(&mut keeper, &error, None),
        }
    }

    /// Records the end of a write. If `is_done` is false, the write changed nothing.
    pub fn end_file_write(&self, id: u64, is_done: bool) {
        let mut keeper = self.lock_state();
        let keeper = &mut *keeper;
        let Some(store) = &mut keeper.opened else {
            return;
        };
        if !is_done {
            let ended = store.log.end_record(id, ChangeRecordOutcome::Void, None);
            return self.report_write_error(keeper, ended);
        }
        let record = store.log.records.iter().rev().find(|own| own.id == id);
        let mut changes = record.map(|own| own.changes.clone()).unwrap_or_default();
        for change in &mut changes {
            if let Ok(read) = read_path_state(
                &store.root,
                &change.path,
                MAX_STORED_FILE_BYTES_BEFORE_WRITE,
            ) {
                change.after = read.state;
            }
            keeper
                .written
                .insert(change.path.clone(), change.after.clone());
        }
        changes.retain(|change| !change.before.is_same_state(&change.after));
        let ended = store
            .log
            .end_record(id, ChangeRecordOutcome::Done, Some(changes));
        self.report_write_error(keeper, ended);
    }

    /// Drops the contents of unchanged files from the store, because no record refers to them.
    /// Called at the end of the session.
    pub fn remove_unreferenced_contents(&self) -> io::Result<()> {
        let mut keeper = self.lock_state();
        if self.is_call_running() {
            return Ok(());
        }
        self.close_interrupted_call_records(&mut keeper);
        let Some(store) = &mut keeper.opened else {
            return Ok(());
        };
        match fs::remove_file(self.folder.join(SNAPSHOT_FILE_NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        store.is_saved = false;
        store.last = None;
        let changes = store.log.records.iter().flat_map(|own| &own.changes);
        let states = changes.flat_map(|change| [&change.before, &change.after]);
        let wanted: HashSet<String> = states
            .filter_map(|state| state.content_digest().map(str::to_owned))
            .collect();
        store.contents.delete_all_contents_except(&wanted)
    }

    /// Whether no checkpoint was ever written for the session.
    pub(super) fn has_no_checkpoints(&self) -> bool {
        let keeper = self.lock_state();
        let is_missing = |path: PathBuf| path.symlink_metadata().is_err();
        keeper.opened.is_none()
            && !keeper.has_failed
            && is_missing(self.folder.join(FILE_CHANGES_FILE_NAME))
    }

    /// Runs `work` on the open store, after recording the changes of interrupted calls. Returns
    /// `None` if the store cannot be opened, or if a call is running.
    pub(super) fn with_opened_store<T>(
        &self,
        work: impl FnOnce(&mut OpenedCheckpointStore) -> T,
    ) -> Option<T> {
        let mut keeper = self.lock_state();
        self.open_store(&mut keeper)?;
        if self.is_call_running() {
            return None;
        }
        self.close_interrupted_call_records(&mut keeper);
        keeper.opened.as_mut().map(work)
    }

    /// Opens the checkpoint store at the first use. Ends the records of calls with a snapshot that
    /// an earlier process did not end.
    fn open_store<'a>(
        &self,
        keeper: &'a mut SessionCheckpointsState,
    ) -> Option<&'a mut OpenedCheckpointStore> {
        if keeper.opened.is_none() && !keeper.has_failed {
            match OpenedCheckpointStore::open(&self.folder, &self.workspace, &self.config) {
                Ok(store) => {
                    let open = store.log.records.iter().filter(|record| {
                        !record.has_outcome() && record.source == ChangeSource::Snapshot
                    });
                    keeper.open_calls = open.map(|record| record.id).collect();
                    restore::remove_rewind_temporary_files(&store);
                    keeper.opened = Some(store);
                    self.close_interrupted_call_records(keeper);
                }
                Err(error) => {
                    keeper.has_failed = true;
                    self.report_disk_error(keeper, &error, ());
                }
            }
        }
        keeper.opened.as_mut()
    }

    /// Takes a snapshot and saves it to disk, so that a later process can compare the workspace
    /// with it.
    fn take_snapshot(
        &self,
        keeper: &mut SessionCheckpointsState,
    ) -> Result<(), SnapshotFailureReason> {
        if self.open_store(keeper).is_none() {
            return Ok(());
        }
        self.close_interrupted_call_records(keeper);
        let taken = self.scan_workspace(keeper)?;
        let Some(store) = &mut keeper.opened else {
            return Ok(());
        };
        if let Err(error) = store.contents.sync() {
            return Err(error.to_string());
        }
        if store.last.as_ref() != Some(&taken) || !store.is_saved {
            let saved = serde_json::to_vec(&taken).map_err(io::Error::from);
            let saved = saved.and_then(|text| {
                replace_private_file(&self.folder.join(SNAPSHOT_FILE_NAME), &text)
            });
            store.is_saved = saved.is_ok();
            store.last = Some(taken);
        }
        keeper.written.clear();
        Ok(())
    }

    fn scan_workspace(
        &self,
        keeper: &mut SessionCheckpointsState,
    ) -> Result<Snapshot, SnapshotFailureReason> {
        let Some(store) = &mut keeper.opened else {
            return Ok(Snapshot::default());
        };
        let none = Snapshot::default();
        let scan = WorkspaceSnapshotScan {
            workspace: &store.workspace,
            skipped: &self.skipped,
            config: &self.config,
            last: store.last.as_ref().unwrap_or(&none),
            contents: &mut store.contents,
        };
        scan.take_snapshot()
    }

    /// Ends the records of calls with a snapshot that are still open although no such call runs any
    /// longer. Does nothing while one runs.
    fn close_interrupted_call_records(&self, keeper: &mut SessionCheckpointsState) {
        if self.is_call_running() {
            return;
        }
        for id in std::mem::take(&mut keeper.open_calls) {
            self.end_record_with_changes(keeper, id, ChangeRecordOutcome::Interrupted);
        }
    }

    /// Compares the workspace with the last snapshot, and ends the record `id` with the changes
    /// that were found.
    fn end_record_with_changes(
        &self,
        keeper: &mut SessionCheckpointsState,
        id: u64,
        end: ChangeRecordOutcome,
    ) {
        keeper.open_calls.retain(|open| *open != id);
        let scanned = self.scan_workspace(keeper);
        let Some(store) = &mut keeper.opened else {
            return;
        };
        let mut changes = None;
        let mut failure = None;
        match scanned {
            Ok(later) => {
                // The last snapshot is missing if the process that began the call could not save
                // it.
                let last = store.last.as_ref();
                changes = last.map(|last| last.diff_to_later_snapshot(&later, &keeper.written));
                store.last = Some(later);
                store.is_saved = false;
                keeper.written.clear();
            }
            Err(why) => failure = Some(why),
        }
        let ended = store.log.end_record(id, end, changes);
        if let Some(why) = failure {
            self.report_scan_failure(keeper, why);
        }
        self.report_write_error(keeper, ended);
    }

    fn report_scan_failure(
        &self,
        keeper: &mut SessionCheckpointsState,
        why: SnapshotFailureReason,
    ) {
        lock_ignoring_poison(&self.notices).push(format!(
            "changes of files by commands cannot be undone in this session: {why}; changes by file tools can"
        ));
        keeper.is_too_large = Some(why);
    }

    fn report_disk_error<T>(
        &self,
        keeper: &mut SessionCheckpointsState,
        error: &io::Error,
        answer: T,
    ) -> T {
        if !std::mem::replace(&mut keeper.has_told_of_disk, true) {
            lock_ignoring_poison(&self.notices).push(format!(
                "changes of files cannot be undone, because the checkpoint cannot be written to {}: {error}",
                self.folder.display()
            ));
        }
        answer
    }

    fn report_full_disk(&self, keeper: &mut SessionCheckpointsState) {
        let store = keeper.opened.as_ref();
        if let Some(why) =
            store.and_then(|store| store.contents.first_write_error().map(str::to_owned))
        {
            self.report_disk_error(keeper, &io::Error::other(why), ());
        }
    }

    fn report_write_error(&self, keeper: &mut SessionCheckpointsState, result: io::Result<()>) {
        if let Err(error) = result {
            self.report_disk_error(keeper, &error, ());
        }
    }
}
