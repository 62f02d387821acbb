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

    /// Puts the files of a session into the folder.
    pub(super) async fn restore(&self, session: &str) -> Result<ClaimedFiles, TurnFailure> {
        let (snapshots, id) = (self.0.clone(), session.to_owned());
        let lost = in_background(move || snapshots.restore(&id)).await;
        let lost = lost.map_err(|error| TurnFailure::Failed(error_chain(&error)))?;
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
        })
    }
}

impl ClaimedFiles {
    /// Checks that no other worker had the session between the restoring and the claim.
    pub(super) async fn check_current(&self) -> Result<(), TurnFailure> {
        let (snapshots, id) = (self.snapshots.clone(), self.session.clone());
        match in_background(move || snapshots.is_current(&id)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(TurnFailure::Busy),
            Err(error) => Err(TurnFailure::Failed(error_chain(&error))),
        }
    }

    /// Notes that a turn begins. Returns the text of its input, and a notice for a turn that goes on: the
    /// model must know if files are older than what it did.
    pub(super) fn begin_turn<'a>(
        &mut self,
        input: &'a QueuedInput,
    ) -> (Cow<'a, str>, Option<&'static str>) {
        self.snapshots.begin_turn();
        let Some(lost) = self.lost.take() else {
            return (Cow::Borrowed(&input.text), None);
        };
        let notice = lost.text();
        match lost.interrupted.as_deref() == Some(input.id.as_str()) {
            true => (Cow::Borrowed(&input.text), Some(notice)),
            false => (Cow::Owned(format!("[{notice}]\n\n{}", input.text)), None),
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
        if !self.snapshots.is_stored() && self.store().await.is_err() {
            self.warn("another worker has continued the session");
        }
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
