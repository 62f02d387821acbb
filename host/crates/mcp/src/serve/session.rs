//! The host's sessions that serve clients: opened at the first request that needs one, closed when
//! the client is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use rind_lib::Session;
use rind_lib::event::Event;
use rind_lib::host::{OutsideCalls, OutsideClient, OutsideTools, SessionMaterials};
use rind_lib::lock::lock;
use rind_lib::message::ToolSpec;
use rind_lib::text::{clean_line, error_chain};
use tokio::sync::{Mutex, OnceCell, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::McpServing;
use super::skills::{SkillCatalog, SkillCatalogBuilder};
use super::upstream::ListedUpstream;

/// Timeout for closing all sessions when the server ends. Sessions that take longer are dropped.
const GRACE: Duration = Duration::from_secs(8);

/// Maximum number of progress lines that wait for a slow client; older ones are dropped.
const MAX_PROGRESS: usize = 16;

/// Maximum number of sessions in one pool.
const MAX_POOLED: usize = 8;

/// Maximum length of a progress line, in bytes.
const MAX_PROGRESS_BYTES: usize = 200;

/// A line about the progress of a call, with the plugin that sent it.
#[derive(Clone, Debug)]
pub(super) struct ProgressLine {
    pub(super) origin: String,
    pub(super) text: String,
}

/// An open session. It closes when the last clone is dropped.
#[derive(Clone)]
pub(super) struct ServedSession {
    pub(super) client: OutsideClient,
    pub(super) progress: broadcast::Sender<ProgressLine>,
    /// Prompts and resources of the MCP servers in the session.
    pub(super) materials: SessionMaterials,
    /// Last list of these MCP servers' resources.
    pub(super) resources: ListedUpstream,
    /// Number of calls that wait until their client returns with an answer.
    n_waiting: Arc<AtomicUsize>,
}

impl ServedSession {
    /// Counts a call as waiting for its client until the result is dropped.
    pub(super) fn begin_wait(&self) -> WaitingClient {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
        WaitingClient(self.n_waiting.clone())
    }

    fn is_waiting(&self) -> bool {
        self.n_waiting.load(Ordering::Acquire) > 0
    }
}

/// Counts a call as waiting for its client until it is dropped.
pub(super) struct WaitingClient(Arc<AtomicUsize>);

impl Drop for WaitingClient {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Interchangeable sessions for the same clients. Besides one free session, there is another for
/// each one in which a call waits for its client. A plugin runs one call at a time, so a client
/// that never returns would otherwise block the others.
#[derive(Default)]
pub(super) struct SessionPool(Mutex<Vec<ServedSession>>);

/// Tools against which requests are checked, even before the newest session has listed its own.
#[derive(Default)]
struct KnownTools {
    /// Tools of the session that was opened last. It may not have listed them yet.
    newest: Option<OutsideTools>,
    /// Tools that an earlier session listed.
    before: Option<Arc<[Arc<ToolSpec>]>>,
}

impl KnownTools {
    fn follow(&mut self, newest: OutsideTools) {
        self.before = self.listed();
        self.newest = Some(newest);
    }

    /// Returns the tools of the newest session that has listed them.
    fn listed(&self) -> Option<Arc<[Arc<ToolSpec>]>> {
        let newest = self.newest.as_ref().and_then(OutsideTools::last_told);
        newest.or_else(|| self.before.clone())
    }
}

/// State that all connections of a server share.
pub(super) struct ServingState {
    pub(super) serving: McpServing,
    /// Sessions of clients without a connection.
    pub(super) shared: SessionPool,
    skills: OnceCell<SkillCatalog>,
    tools: StdMutex<KnownTools>,
    tasks: TaskTracker,
    /// Token whose cancellation ends all sessions.
    cancel: CancellationToken,
}

impl ServingState {
    pub(super) fn new(serving: McpServing, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            serving,
            shared: SessionPool::default(),
            skills: OnceCell::new(),
            tools: StdMutex::default(),
            tasks: TaskTracker::new(),
            cancel,
        })
    }

    /// Returns a session of the pool in which no call waits for its client, and opens one if
    /// necessary. `None` if the pool is full of sessions with waiting calls.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(super) async fn ready_session(
        &self,
        pool: &SessionPool,
    ) -> Result<Option<ServedSession>, String> {
        let mut open = pool.0.lock().await;
        // Keep only one session without waiting calls. A session that is dropped here closes when
        // its calls end.
        let mut has_ready = false;
        open.retain(|own| own.is_waiting() || !std::mem::replace(&mut has_ready, true));
        if let Some(ready) = open.iter().find(|own| !own.is_waiting()) {
            return Ok(Some(ready.clone()));
        }
        if open.len() >= MAX_POOLED {
            return Ok(None);
        }
        let session = self.open_session().await?;
        open.push(session.clone());
        Ok(Some(session))
    }

    /// Returns any session of the pool, for data that is the same in all of them, and opens one if
    /// the pool is empty.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(super) async fn any_session(&self, pool: &SessionPool) -> Result<ServedSession, String> {
        let mut open = pool.0.lock().await;
        if let Some(first) = open.first() {
            return Ok(first.clone());
        }
        let session = self.open_session().await?;
        open.push(session.clone());
        Ok(session)
    }

    /// Opens a session. It closes when the last clone of the result is dropped.
    ///
    /// # Errors
    /// Reason, as a sentence.
    async fn open_session(&self) -> Result<ServedSession, String> {
        let open = self.serving.open.clone();
        let opened = tokio::task::spawn_blocking(move || open()).await;
        let session = opened.map_err(|error| error.to_string())??;
        let is_offered = self.serving.is_offered.clone();
        let (calls, client) = OutsideCalls::new(move |spec| is_offered(spec));
        lock(&self.tools).follow(client.tools());
        let (progress, _) = broadcast::channel(MAX_PROGRESS);
        let told = progress.clone();
        session.observe(move |stamped| {
            if let Event::Status { plugin, text } = &stamped.event {
                // Ignore the error: there may be no listener.
                let _ = told.send(ProgressLine {
                    origin: plugin.clone(),
                    text: clean_line(text, MAX_PROGRESS_BYTES),
                });
            }
        });
        let materials = session.materials();
        self.tasks
            .spawn(run_session(session, calls, self.cancel.child_token()));
        Ok(ServedSession {
            client,
            progress,
            materials,
            resources: ListedUpstream::default(),
            n_waiting: Arc::default(),
        })
    }

    /// Returns a tool from the newest known list of tools.
    pub(super) fn find_tool(&self, name: &str) -> Option<Arc<ToolSpec>> {
        let tools = lock(&self.tools).listed()?;
        tools.iter().find(|spec| spec.name == name).cloned()
    }

    /// Waits until the tools are known, and opens a session for this if necessary.
    pub(super) async fn learn_tools(&self) {
        let known = lock(&self.tools).newest.clone();
        let known = match known {
            Some(known) => Some(known),
            // Ignore the error: the request itself will report why no session can be opened.
            None => match self.any_session(&self.shared).await {
                Ok(session) => Some(session.client.tools()),
                Err(_) => None,
            },
        };
        if let Some(mut known) = known {
            known.list().await;
        }
    }

    /// Returns the skills, which the first call reads.
    pub(super) async fn skills(&self) -> &SkillCatalog {
        let read = self.serving.skills.clone();
        let read = async {
            let read = tokio::task::spawn_blocking(move || {
                let mut building = SkillCatalogBuilder::default();
                read(&mut |skill| building.add(skill));
                building.finish()
            });
            let read = read.await;
            // The task fails only if the program ends.
            read.unwrap_or_default()
        };
        self.skills.get_or_init(|| read).await
    }

    /// Closes all sessions and waits until they have ended, at most for [`GRACE`].
    pub(super) async fn close_all(&self) {
        self.cancel.cancel();
        self.tasks.close();
        if tokio::time::timeout(GRACE, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sessions of MCP clients did not end in time");
        }
    }
}

/// Serves calls until the clients are gone, then closes the session. A session without calls is
/// removed, because many clients start a server only to list its tools.
async fn run_session(mut session: Session, calls: OutsideCalls, cancel: CancellationToken) {
    let id = session.id().clone();
    let store = session.host().store().clone();
    if let Err(error) = session.serve_calls(calls, &cancel).await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "the session has ended, so it serves no further calls"
        );
    }
    let is_unused = session.turn_number() == 0;
    if let Err(error) = session.close().await {
        tracing::error!(
            session = &*id,
            error = error_chain(&error),
            "the session did not close in good order"
        );
    }
    if is_unused {
        let removed = tokio::task::spawn_blocking(move || store.remove(&id)).await;
        if let Ok(Err(error)) = removed {
            tracing::debug!(%error, "a session without calls was not removed");
        }
    }
}

#[cfg(test)]
impl ServedSession {
    /// Returns a session without a task that serves it.
    pub(super) fn unserved() -> Self {
        Self {
            client: OutsideCalls::new(|_| true).1,
            progress: broadcast::channel(1).0,
            materials: SessionMaterials::default(),
            resources: ListedUpstream::default(),
            n_waiting: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rind_lib::message::EffectClass;

    use super::*;

    #[test]
    fn tools_stay_known_until_a_newer_session_has_listed_its_own() {
        let spec = ToolSpec {
            name: "probe".to_owned(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
            effect_class: EffectClass::Read,
            plugin: None,
        };
        let mut known = KnownTools {
            before: Some([Arc::new(spec)].into()),
            ..KnownTools::default()
        };
        // Neither of these two sessions lists its tools.
        for _ in 0..2 {
            known.follow(OutsideCalls::new(|_| true).1.tools());
            let listed = known.listed().unwrap();
            assert_eq!(listed[0].name, "probe");
        }
    }
}
