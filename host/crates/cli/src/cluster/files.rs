//! Stores and restores the files of a session in the folder of a worker.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use rind_lib::text::format_error_chain;
use rind_nats::worker::{QueuedInput, WorkerTurnFailure};
use rind_nats::{
    LostFileChangesReport, NatsError, NatsSessions, SnapshotSizeLimits, SnapshotStoreError,
    WorkspaceSnapshotStore,
};

/// Folder in which a worker has the files of one session at a time.
pub(super) struct WorkerSessionFilesFolder(Arc<WorkspaceSnapshotStore>);

/// Files of the session that the worker has claimed, in the worker's folder.
pub(super) struct ClaimedSessionFiles {
    snapshots: Arc<WorkspaceSnapshotStore>,
    session: String,
    lost: Option<LostFileChangesReport>,
    /// Whether the model of the current turn was informed of the lost files.
    is_told: bool,
}

impl WorkerSessionFilesFolder {
    /// Opens a folder for the files of sessions. A session's files may take at most `max_mib` MiB.
    pub(super) async fn open(
        sessions: &NatsSessions,
        folder: &Path,
        max_mib: u64,
    ) -> Result<Self, NatsError> {
        let (sessions, folder) = (sessions.clone(), folder.to_owned());
        let limits = SnapshotSizeLimits {
            max_bytes: max_mib << 20,
            ..SnapshotSizeLimits::default()
        };
        let opened =
            run_blocking_nats_work(move || WorkspaceSnapshotStore::open(sessions, &folder, limits));
        Ok(Self(Arc::new(opened.await?)))
    }

    /// Restores the files of a session into the folder, unless another program works on the
    /// session. Faults of the folder or the servers are reported as [`WorkerTurnFailure::Busy`], so
    /// that they do not count as a failed attempt to run the turn.
    pub(super) async fn restore_session_files(
        &self,
        session: &str,
    ) -> Result<ClaimedSessionFiles, WorkerTurnFailure> {
        if self.is_leased_elsewhere(session).await? {
            return Err(WorkerTurnFailure::Busy);
        }
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let lost = match run_blocking_nats_work(move || snapshots.restore(&id)).await {
            Ok(lost) => lost,
            // Check again, because another program may have replaced the snapshot meanwhile and
            // removed the files of the old one.
            Err(_) if self.is_leased_elsewhere(session).await? => {
                return Err(WorkerTurnFailure::Busy);
            }
            Err(error) => return Err(snapshot_error_to_turn_failure(session, &error)),
        };
        if lost.is_some() {
            tracing::warn!(
                session,
                "files of the last turn of a session were not stored"
            );
        }
        Ok(ClaimedSessionFiles {
            snapshots: self.0.clone(),
            session: session.to_owned(),
            lost,
            is_told: false,
        })
    }

    async fn is_leased_elsewhere(&self, session: &str) -> Result<bool, WorkerTurnFailure> {
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let held = run_blocking_nats_work(move || snapshots.is_leased_elsewhere(&id)).await;
        held.map_err(|error| snapshot_error_to_turn_failure(session, &error))
    }
}

/// Returns [`WorkerTurnFailure::Failed`] if the session's snapshot or configuration caused the
/// error, and [`WorkerTurnFailure::Busy`] if this worker or the servers caused it.
fn snapshot_error_to_turn_failure(session: &str, error: &NatsError) -> WorkerTurnFailure {
    let why = format_error_chain(error);
    match error {
        NatsError::Damaged { .. } | NatsError::Config { .. } => WorkerTurnFailure::Failed(why),
        _ => {
            tracing::warn!(
                session,
                why,
                "this worker cannot restore the files of a session, and tries it again; repair its folder, or stop it so that others have the session"
            );
            WorkerTurnFailure::Busy
        }
    }
}

impl ClaimedSessionFiles {
    /// Checks that no other worker changed the session's files between
    /// [`WorkerSessionFilesFolder::restore_session_files`] and the claim of the session.
    pub(super) async fn check_files_unchanged_since_restore(
        &self,
    ) -> Result<(), WorkerTurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        match run_blocking_nats_work(move || snapshots.is_snapshot_current(&id)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(WorkerTurnFailure::Busy),
            Err(error) => Err(snapshot_error_to_turn_failure(&self.session, &error)),
        }
    }

    /// Records that a turn begins. Returns the text of its input, and a notice for the model if the
    /// turn continues one that was interrupted. If the files are older than the model's last
    /// changes to them, the text or the notice says so.
    pub(super) async fn record_turn_start<'a>(
        &mut self,
        input: &'a QueuedInput,
    ) -> Result<(Cow<'a, str>, Option<&'static str>), WorkerTurnFailure> {
        self.is_told = false;
        let unchanged = Cow::Borrowed(input.text.as_str());
        let Some(lost) = self.lost.clone() else {
            self.snapshots.record_turn_begin();
            return Ok((unchanged, None));
        };
        let (snapshots, session) = (self.snapshots.clone(), self.session.clone());
        let id = input.id.clone();
        let ended =
            run_blocking_nats_work(move || snapshots.has_turn_of_input_ended(&session, &id)).await;
        if ended.map_err(|error| snapshot_error_to_turn_failure(&self.session, &error))? {
            // Return the text unchanged: the input's turn has already ended, so the session returns
            // its outcome and no model reads the text.
            return Ok((unchanged, None));
        }
        self.snapshots.record_turn_begin();
        if lost.interrupted.as_deref() == Some(input.id.as_str()) {
            return Ok((unchanged, Some(lost.text())));
        }
        self.is_told = true;
        let text = format!("[{}]\n\n{}", lost.text(), input.text);
        Ok((Cow::Owned(text), None))
    }

    /// Records that the model of the current turn was informed of the lost files.
    pub(super) fn mark_file_loss_reported(&mut self) {
        self.is_told = true;
    }

    /// Records that a turn has ended. Not called after a failed turn, because its model may not
    /// have been informed of the lost files.
    pub(super) fn record_turn_end(&mut self) {
        if self.is_told {
            self.lost = None;
            self.snapshots.record_model_told_of_file_loss();
        }
    }

    /// Records that a turn runs that the worker did not take from its queue, for example one that a
    /// person started.
    pub(super) fn record_unqueued_turn_start(&self) {
        self.snapshots.record_turn_begin();
    }

    /// Stores the files after a turn. If the files cannot be stored, the turn still counts as
    /// ended. The files then stay in this folder, and another worker informs the model that its
    /// files are older.
    pub(super) async fn store_after_turn(&self) -> Result<(), WorkerTurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        let stored = tokio::task::spawn_blocking(move || snapshots.store_snapshot(&id)).await;
        match stored {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SnapshotStoreError::Fenced)) => Err(WorkerTurnFailure::Fenced),
            Ok(Err(error)) => {
                self.warn_files_not_stored(&format_error_chain(&error));
                Ok(())
            }
            Err(error) => {
                self.warn_files_not_stored(&error.to_string());
                Ok(())
            }
        }
    }

    /// Stores the files if they may have changed, for example in a turn that a person started.
    pub(super) async fn store_files_if_changed(&self) {
        if self.should_store_files_snapshot() && self.store_after_turn().await.is_err() {
            self.warn_files_not_stored("another worker has continued the session");
        }
    }

    /// Whether files may have changed and a snapshot may be stored. While the model was not
    /// informed of lost files, no snapshot may be stored, because a new snapshot hides that files
    /// are missing.
    pub(super) fn should_store_files_snapshot(&self) -> bool {
        !self.snapshots.are_files_unchanged_since_snapshot()
            && !self.snapshots.has_file_loss_unknown_to_model()
    }

    /// Records that this worker no longer runs the session.
    pub(super) async fn record_session_release(&self) {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        let _ = tokio::task::spawn_blocking(move || snapshots.record_session_closed(&id)).await;
    }

    fn warn_files_not_stored(&self, why: &str) {
        tracing::warn!(
            session = self.session,
            why,
            "the files of a session were not stored; they stay in the folder of this worker, and another worker has older ones"
        );
    }
}

async fn run_blocking_nats_work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NatsError> + Send + 'static,
) -> Result<T, NatsError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(NatsError::Ended))
}
