//! Manages the host's sessions that serve clients. A session is opened for the first request that
//! needs it, and closed when the client is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use rind_lib::Session;
use rind_lib::event::Event;
use rind_lib::host::{
    ClientOfferedToolsReceiver, ClientToolCallReceiver, ClientToolCallSender,
    SessionPromptsAndResources,
};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::message::ToolSpec;
use rind_lib::text::{escape_and_truncate_line, format_error_chain};
use tokio::sync::{Mutex, OnceCell, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::OwnMcpServerConfig;
use super::skills::{ServedSkillCatalog, ServedSkillCatalogBuilder};
use super::upstream::UpstreamResourceListCache;

/// Timeout for closing all sessions when the server ends. Sessions that take longer are dropped.
const SESSIONS_CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum number of progress lines that wait for a slow client. Beyond it, the oldest line is
/// dropped.
const MAX_QUEUED_PROGRESS_LINES: usize = 16;

/// Maximum number of sessions that one pool keeps open for the requests of clients.
const MAX_OPEN_SESSIONS_PER_POOL: usize = 8;

/// Maximum length of a line about the progress of a tool call, in bytes.
const MAX_PROGRESS_LINE_BYTES: usize = 200;

/// Line about the progress of a call, and the plugin that sent the line.
#[derive(Clone, Debug)]
pub(super) struct ToolCallProgressLine {
    pub(super) origin: String,
    pub(super) text: String,
}

/// Open session of the host that serves clients. It closes when the last clone is dropped.
#[derive(Clone)]
pub(super) struct HostSessionForClients {
    pub(super) client: ClientToolCallSender,
    pub(super) progress: broadcast::Sender<ToolCallProgressLine>,
    /// Prompts and resources of the MCP servers in the session.
    pub(super) materials: SessionPromptsAndResources,
    /// Cached lists of the resources that the MCP servers of the session offer.
    pub(super) resources: UpstreamResourceListCache,
    /// Number of suspended calls, which wait until their client sends the user's answer.
    n_waiting: Arc<AtomicUsize>,
}

impl HostSessionForClients {
    /// Counts a call as suspended until the returned guard is dropped.
    pub(super) fn increment_suspended_call_count(&self) -> SuspendedCallCountGuard {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
        SuspendedCallCountGuard(self.n_waiting.clone())
    }

    fn has_suspended_call(&self) -> bool {
        self.n_waiting.load(Ordering::Acquire) > 0
    }
}

/// Guard that counts a call as suspended until the guard is dropped.
pub(super) struct SuspendedCallCountGuard(Arc<AtomicUsize>);

impl Drop for SuspendedCallCountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Interchangeable sessions for the same clients: at most one session is free, and calls are
/// suspended in each of the others. A plugin runs one call at a time, so in a single session a
/// client that never sends its answer would block the other calls.
#[derive(Default)]
pub(super) struct ClientSessionPool(Mutex<Vec<HostSessionForClients>>);

/// Tools against which requests are checked: those of the newest session, or of an earlier session
/// until the newest session has listed its tools.
#[derive(Default)]
struct ServedToolLists {
    /// Tools of the session that was opened last; empty until the session has listed them.
    newest: Option<ClientOfferedToolsReceiver>,
    /// Tools of an earlier session, which apply until the newest session has listed its own; `None`
    /// if no earlier session listed tools.
    before: Option<Arc<[Arc<ToolSpec>]>>,
}

impl ServedToolLists {
    fn set_tools_of_newest_session(&mut self, newest: ClientOfferedToolsReceiver) {
        self.before = self.newest_listed_tools();
        self.newest = Some(newest);
    }

    /// Returns the tools of the newest session that has listed its tools.
    fn newest_listed_tools(&self) -> Option<Arc<[Arc<ToolSpec>]>> {
        let newest = self
            .newest
            .as_ref()
            .and_then(ClientOfferedToolsReceiver::last_published_tools);
        newest.or_else(|| self.before.clone())
    }
}

/// State of Rind's MCP server that all client connections share.
pub(super) struct McpServerSharedState {
    pub(super) serving: OwnMcpServerConfig,
    /// Sessions for clients that send requests without establishing a connection.
    pub(super) shared: ClientSessionPool,
    skills: OnceCell<ServedSkillCatalog>,
    tools: StdMutex<ServedToolLists>,
    tasks: TaskTracker,
    /// Token that ends all sessions when it is cancelled.
    cancel: CancellationToken,
}

impl McpServerSharedState {
    pub(super) fn new(serving: OwnMcpServerConfig, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            serving,
            shared: ClientSessionPool::default(),
            skills: OnceCell::new(),
            tools: StdMutex::default(),
            tasks: TaskTracker::new(),
            cancel,
        })
    }

    /// Returns a session of the pool without a suspended call; opens one if necessary. `None` if
    /// the pool is full and each session has a suspended call.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(super) async fn acquire_unblocked_session(
        &self,
        pool: &ClientSessionPool,
    ) -> Result<Option<HostSessionForClients>, String> {
        let mut open = pool.0.lock().await;
        // Keep only one session without a suspended call. A session that is dropped here closes
        // when its calls end.
        let mut has_ready = false;
        open.retain(|own| own.has_suspended_call() || !std::mem::replace(&mut has_ready, true));
        if let Some(ready) = open.iter().find(|own| !own.has_suspended_call()) {
            return Ok(Some(ready.clone()));
        }
        if open.len() >= MAX_OPEN_SESSIONS_PER_POOL {
            return Ok(None);
        }
        let session = self.open_session().await?;
        open.push(session.clone());
        Ok(Some(session))
    }

    /// Returns any session of the pool, for requests that every session answers in the same way.
    /// Opens a session if the pool is empty.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(super) async fn first_or_new_session_of_pool(
        &self,
        pool: &ClientSessionPool,
    ) -> Result<HostSessionForClients, String> {
        let mut open = pool.0.lock().await;
        if let Some(first) = open.first() {
            return Ok(first.clone());
        }
        let session = self.open_session().await?;
        open.push(session.clone());
        Ok(session)
    }

    /// Opens a session, which closes when the last clone of the returned value is dropped.
    ///
    /// # Errors
    /// Reason, as a sentence.
    async fn open_session(&self) -> Result<HostSessionForClients, String> {
        let open = self.serving.open.clone();
        let opened = tokio::task::spawn_blocking(move || open()).await;
        let session = opened.map_err(|error| error.to_string())??;
        let is_offered = self.serving.is_offered.clone();
        let (calls, client) = ClientToolCallReceiver::new(move |spec| is_offered(spec));
        lock_ignoring_poison(&self.tools).set_tools_of_newest_session(client.tools());
        let (progress, _) = broadcast::channel(MAX_QUEUED_PROGRESS_LINES);
        let told = progress.clone();
        session.observe(move |stamped| {
            if let Event::Status { plugin, text } = &stamped.event {
                // Ignore the error: possibly no client listens to the progress of calls.
                let _ = told.send(ToolCallProgressLine {
                    origin: plugin.clone(),
                    text: escape_and_truncate_line(text, MAX_PROGRESS_LINE_BYTES),
                });
            }
        });
        let materials = session.materials();
        self.tasks.spawn(serve_session_calls(
            session,
            calls,
            self.cancel.child_token(),
        ));
        Ok(HostSessionForClients {
            client,
            progress,
            materials,
            resources: UpstreamResourceListCache::default(),
            n_waiting: Arc::default(),
        })
    }

    /// Returns a tool from the newest known list of tools.
    pub(super) fn find_tool(&self, name: &str) -> Option<Arc<ToolSpec>> {
        let tools = lock_ignoring_poison(&self.tools).newest_listed_tools()?;
        tools.iter().find(|spec| spec.name == name).cloned()
    }

    /// Waits until a session has listed its tools; opens a session if none is open.
    pub(super) async fn wait_for_session_tool_list(&self) {
        let known = lock_ignoring_poison(&self.tools).newest.clone();
        let known = match known {
            Some(known) => Some(known),
            // Ignore the error: the handler of the request will report it.
            None => match self.first_or_new_session_of_pool(&self.shared).await {
                Ok(session) => Some(session.client.tools()),
                Err(_) => None,
            },
        };
        if let Some(mut known) = known {
            known.wait_for_list().await;
        }
    }

    /// Returns the skills that are offered to clients. The first call reads them.
    pub(super) async fn skill_catalog(&self) -> &ServedSkillCatalog {
        let read = self.serving.skills.clone();
        let read = async {
            let read = tokio::task::spawn_blocking(move || {
                let mut building = ServedSkillCatalogBuilder::default();
                read(&mut |skill| building.add_or_log_skill(skill));
                building.finish()
            });
            let read = read.await;
            // The task that reads the skills fails only if the program ends.
            read.unwrap_or_default()
        };
        self.skills.get_or_init(|| read).await
    }

    /// Closes all sessions and waits until they have ended, at most for [`SESSIONS_CLOSE_TIMEOUT`].
    pub(super) async fn close_all_sessions(&self) {
        self.cancel.cancel();
        self.tasks.close();
        if tokio::time::timeout(SESSIONS_CLOSE_TIMEOUT, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sessions of MCP clients did not end in time");
        }
    }
}

/// Serves the calls of a session until its clients are gone, and then closes the session. Deletes
/// the stored session if it had no calls, because many clients only list the tools.
async fn serve_session_calls(
    mut session: Session,
    calls: ClientToolCallReceiver,
    cancel: CancellationToken,
) {
    let id = session.id().clone();
    let store = session.host().store().clone();
    if let Err(error) = session.serve_calls(calls, &cancel).await {
        tracing::error!(
            session = &*id,
            error = format_error_chain(&error),
            "the session has ended, so it serves no further calls"
        );
    }
    let is_unused = session.turn_number() == 0;
    if let Err(error) = session.close().await {
        tracing::error!(
            session = &*id,
            error = format_error_chain(&error),
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
impl HostSessionForClients {
    /// Creates a session that no task serves, for tests.
    pub(super) fn without_serving_task() -> Self {
        Self {
            client: ClientToolCallReceiver::new(|_| true).1,
            progress: broadcast::channel(1).0,
            materials: SessionPromptsAndResources::default(),
            resources: UpstreamResourceListCache::default(),
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
        let mut known = ServedToolLists {
            before: Some([Arc::new(spec)].into()),
            ..ServedToolLists::default()
        };
        // Neither of these two sessions lists its tools.
        for _ in 0..2 {
            known.set_tools_of_newest_session(ClientToolCallReceiver::new(|_| true).1.tools());
            let listed = known.newest_listed_tools().unwrap();
            assert_eq!(listed[0].name, "probe");
        }
    }
}
