//! Stores and restores the files of a session in the folder of a worker.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use rind_lib::text::error_chain;
use rind_nats::worker::{QueuedInput, TurnFailure};
use rind_nats::{
    LostFiles, NatsError, NatsSessions, SnapshotFailure, SnapshotLimits, WorkspaceSnapshots,
};

/// Folder of a worker, which has the files of one session at a time.
pub(super) struct SessionFolder(Arc<WorkspaceSnapshots>);

/// Files of a claimed session in the worker's folder.
pub(super) struct ClaimedFiles {
    snapshots: Arc<WorkspaceSnapshots>,
    session: String,
    lost: Option<LostFiles>,
    /// Whether the current turn's model was informed of `lost`.
    is_told: bool,
}

impl SessionFolder {
    /// Opens a folder for the files of sessions. A session's files may take at most `max_mib` MiB.
    pub(super) async fn open(
        sessions: &NatsSessions,
        folder: &Path,
        max_mib: u64,
    ) -> Result<Self, NatsError> {
        let (sessions, folder) = (sessions.clone(), folder.to_owned());
        let limits = SnapshotLimits {
            max_bytes: max_mib << 20,
            ..SnapshotLimits::default()
        };
        let opened = in_background(move || WorkspaceSnapshots::open(sessions, &folder, limits));
        Ok(Self(Arc::new(opened.await?)))
    }

    /// Restores the files of a session into the folder, unless another program works on the
    /// session. Faults of the folder or the servers are [`TurnFailure::Busy`], so they do not count
    /// as a failed attempt of the session.
    pub(super) async fn restore(&self, session: &str) -> Result<ClaimedFiles, TurnFailure> {
        if self.is_held_elsewhere(session).await? {
            return Err(TurnFailure::Busy);
        }
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let lost = match in_background(move || snapshots.restore(&id)).await {
            Ok(lost) => lost,
            // Another program may have replaced the snapshot meanwhile and removed the files of the
            // old one.
            Err(_) if self.is_held_elsewhere(session).await? => return Err(TurnFailure::Busy),
            Err(error) => return Err(failure_of(session, &error)),
        };
        if lost.is_some() {
            tracing::warn!(
                session,
                "files of the last turn of a session were not stored"
            );
        }
        Ok(ClaimedFiles {
            snapshots: self.0.clone(),
            session: session.to_owned(),
            lost,
            is_told: false,
        })
    }

    async fn is_held_elsewhere(&self, session: &str) -> Result<bool, TurnFailure> {
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let held = in_background(move || snapshots.is_held_elsewhere(&id)).await;
        held.map_err(|error| failure_of(session, &error))
    }
}

/// Returns [`TurnFailure::Failed`] if the session's snapshot or configuration is at fault, and
/// [`TurnFailure::Busy`] if this worker or the servers are.
fn failure_of(session: &str, error: &NatsError) -> TurnFailure {
    let why = error_chain(error);
    match error {
        NatsError::Damaged { .. } | NatsError::Config { .. } => TurnFailure::Failed(why),
        _ => {
            tracing::warn!(
                session,
                why,
                "this worker cannot restore the files of a session, and tries it again; repair its folder, or stop it so that others have the session"
            );
            TurnFailure::Busy
        }
    }
}

impl ClaimedFiles {
    /// Checks that no other worker had the session between [`SessionFolder::restore`] and the
    /// claim.
    pub(super) async fn check_current(&self) -> Result<(), TurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        match in_background(move || snapshots.is_current(&id)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(TurnFailure::Busy),
            Err(error) => Err(failure_of(&self.session, &error)),
        }
    }

    /// Records that a turn begins. Returns the text of its input, and a notice for the model if the
    /// turn continues one that was interrupted. Text or notice tells the model if the files are
    /// older than its last changes to them.
    pub(super) async fn begin_turn<'a>(
        &mut self,
        input: &'a QueuedInput,
    ) -> Result<(Cow<'a, str>, Option<&'static str>), TurnFailure> {
        self.is_told = false;
        let unchanged = Cow::Borrowed(input.text.as_str());
        let Some(lost) = self.lost.clone() else {
            self.snapshots.begin_turn();
            return Ok((unchanged, None));
        };
        let (snapshots, session) = (self.snapshots.clone(), self.session.clone());
        let id = input.id.clone();
        let ended = in_background(move || snapshots.has_ended(&session, &id)).await;
        if ended.map_err(|error| failure_of(&self.session, &error))? {
            // The turn has ended before, so the session returns its outcome and no model reads the
            // text.
            return Ok((unchanged, None));
        }
        self.snapshots.begin_turn();
        if lost.interrupted.as_deref() == Some(input.id.as_str()) {
            return Ok((unchanged, Some(lost.text())));
        }
        self.is_told = true;
        let text = format!("[{}]\n\n{}", lost.text(), input.text);
        Ok((Cow::Owned(text), None))
    }

    /// Records that the current turn's model was informed of the lost files.
    pub(super) fn note_told(&mut self) {
        self.is_told = true;
    }

    /// Records that a turn has ended. Callers skip this after a failed turn, whose model may not
    /// have been informed of the lost files.
    pub(super) fn end_turn(&mut self) {
        if self.is_told {
            self.lost = None;
            self.snapshots.note_told();
        }
    }

    /// Records that a turn runs that did not come from the worker's queue, such as one that a
    /// person started.
    pub(super) fn note_turn(&self) {
        self.snapshots.begin_turn();
    }

    /// Stores the files after a turn. If they cannot be stored, the turn still counts as ended: the
    /// files stay in this folder, and another worker informs the model that it has older ones.
    pub(super) async fn store(&self) -> Result<(), TurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        let stored = tokio::task::spawn_blocking(move || snapshots.store(&id)).await;
        match stored {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SnapshotFailure::Fenced)) => Err(TurnFailure::Fenced),
            Ok(Err(error)) => {
                self.warn(&error_chain(&error));
                Ok(())
            }
            Err(error) => {
                self.warn(&error.to_string());
                Ok(())
            }
        }
    }

    /// Stores the files if they may have changed, for example in a turn that a person started.
    pub(super) async fn store_changes(&self) {
        if self.is_due() && self.store().await.is_err() {
            self.warn("another worker has continued the session");
        }
    }

    /// Whether files may have changed and a snapshot may be stored. A snapshot must wait until a
    /// model was informed of lost files, because afterwards no worker could know that files are
    /// missing.
    pub(super) fn is_due(&self) -> bool {
        !self.snapshots.is_stored() && !self.snapshots.is_untold()
    }

    /// Records that the worker releases the session.
    pub(super) async fn leave(&self) {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        let _ = tokio::task::spawn_blocking(move || snapshots.leave(&id)).await;
    }

    fn warn(&self, why: &str) {
        tracing::warn!(
            session = self.session,
            why,
            "the files of a session were not stored; they stay in the folder of this worker, and another worker has older ones"
        );
    }
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NatsError> + Send + 'static,
) -> Result<T, NatsError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(NatsError::Ended))
}
