//! The files of a session at a worker that stores and restores them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use rind_lib::text::error_chain;
use rind_nats::worker::{QueuedInput, TurnFailure};
use rind_nats::{
    LostFiles, NatsError, NatsSessions, SnapshotFailure, SnapshotLimits, WorkspaceSnapshots,
};

/// The folder of a worker.
pub(super) struct SessionFolder(Arc<WorkspaceSnapshots>);

/// The folder with the files of a session that the worker claims.
pub(super) struct ClaimedFiles {
    snapshots: Arc<WorkspaceSnapshots>,
    session: String,
    lost: Option<LostFiles>,
    /// Whether the turn that runs was told of it.
    is_told: bool,
}

impl SessionFolder {
    /// Takes a folder for the files of sessions, which have at most this number of MiB.
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

    /// Puts the files of a session into the folder, unless another program works on the session. What
    /// fails by the folder or the servers is no failed attempt of the session.
    pub(super) async fn restore(&self, session: &str) -> Result<ClaimedFiles, TurnFailure> {
        if self.is_held_elsewhere(session).await? {
            return Err(TurnFailure::Busy);
        }
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let lost = match in_background(move || snapshots.restore(&id)).await {
            Ok(lost) => lost,
            // Another program may have replaced the snapshot meanwhile, and removed its contents.
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

/// Sorts an error by whose fault it is.
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
    /// Checks that no other worker had the session between the restoring and the claim.
    pub(super) async fn check_current(&self) -> Result<(), TurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        match in_background(move || snapshots.is_current(&id)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(TurnFailure::Busy),
            Err(error) => Err(failure_of(&self.session, &error)),
        }
    }

    /// Notes that a turn begins. Returns the text of its input, and a notice for a turn that goes on: the
    /// model must know if files are older than what it did.
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
            // The session returns the outcome, and no model reads the text.
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

    /// Notes that the turn that runs was told what is missing.
    pub(super) fn note_told(&mut self) {
        self.is_told = true;
    }

    /// Notes that a turn has ended. A turn that failed may have told its model nothing.
    pub(super) fn end_turn(&mut self) {
        if self.is_told {
            self.lost = None;
            self.snapshots.note_told();
        }
    }

    /// Notes that a turn runs that others ordered.
    pub(super) fn note_turn(&self) {
        self.snapshots.begin_turn();
    }

    /// Stores the files after a turn. A turn whose files cannot be stored has ended nevertheless: the
    /// files stay here, and another worker tells the model that it has older ones.
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

    /// Stores the files if they may have changed, as in a turn that a person ordered.
    pub(super) async fn store_changes(&self) {
        if self.is_due() && self.store().await.is_err() {
            self.warn("another worker has continued the session");
        }
    }

    /// Whether files may have changed and can be stored. As long as no model knows what is missing, a
    /// snapshot would hide it.
    pub(super) fn is_due(&self) -> bool {
        !self.snapshots.is_stored() && !self.snapshots.is_untold()
    }

    /// Notes that the worker leaves the session.
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
