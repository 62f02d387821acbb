//! Opens, loads, lists and closes the sessions of a client.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use rind_lib::lock::lock_ignoring_poison;
use rind_lib::session::SessionSummary;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::approval::Approver;

use crate::ask::PostponedYesNoQuestions;
use crate::backend::{
    AcpSessionOpener, ClientMcpServer, ClientMcpServerTransport, OpenSessionRequest,
    SessionOpenError, YesNoQuestionAsker,
};
use crate::client::AcpClientHandle;
use crate::later::SessionReopener;
use crate::live::{OpenAcpSession, OpenAcpSessionParams};
use crate::permission::{AcpClientApprover, SessionIdAndEventConverter};
use crate::replay::convert_messages_to_updates;
use crate::view::SessionEventConverter;
use crate::wire::{
    ListSessionsRequest, ListSessionsResponse, McpServer, SessionInfo, SessionUpdate, WireError,
};

/// Maximum number of sessions that are open at the same time. Each session has its own plugin
/// instances.
const MAX_OPEN_SESSIONS: usize = 128;

/// Number of sessions per page when a client lists the stored sessions.
const SESSION_LIST_PAGE_SIZE: usize = 100;

/// Maximum number of MCP servers that a client can name for a session.
const MAX_MCP_SERVERS_PER_SESSION: usize = 64;

/// Sessions that one client has open.
pub(crate) struct OpenAcpSessions {
    backend: Arc<dyn AcpSessionOpener>,
    link: Arc<AcpClientHandle>,
    open: tokio::sync::Mutex<BTreeMap<String, Arc<OpenAcpSession>>>,
    /// Locked while the sessions are read from the store, because many reads at once would take
    /// much memory.
    reading: tokio::sync::Mutex<()>,
}

/// Parameters of a client's request to open a session.
pub(crate) struct AcpSessionOpenRequest {
    pub(crate) cwd: PathBuf,
    pub(crate) servers: Vec<McpServer>,
    pub(crate) has_system_prompt: bool,
    pub(crate) n_more_folders: usize,
    /// Id of the session to resume; `None` for a new session.
    pub(crate) resume: Option<String>,
    /// Whether to send the history of the session to the client.
    pub(crate) is_replayed: bool,
    pub(crate) confirm: Option<Arc<dyn YesNoQuestionAsker>>,
}

impl OpenAcpSessions {
    pub(crate) fn new(backend: Arc<dyn AcpSessionOpener>, link: Arc<AcpClientHandle>) -> Self {
        Self {
            backend,
            link,
            open: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// The request is wrong, or the session cannot be opened.
    pub(crate) async fn open_requested_session(
        &self,
        request: AcpSessionOpenRequest,
    ) -> Result<Arc<OpenAcpSession>, WireError> {
        let invalid = |why: String| WireError::new(-32602, why);
        if request.has_system_prompt {
            return Err(invalid(
                "`systemPrompt` is not supported (see the capabilities): put its text into AGENTS.md or a plugin".to_owned(),
            ));
        }
        if request.n_more_folders > 0 {
            return Err(invalid(
                "`additionalDirectories` is not supported (see the capabilities): a session has one folder"
                    .to_owned(),
            ));
        }
        let workspace = resolve_session_folder(request.cwd).await.map_err(invalid)?;
        let servers = convert_mcp_servers(request.servers).map_err(invalid)?;
        if let Some(id) = &request.resume {
            self.check_session_exists(id).await?;
            self.close_session_if_open(id).await?;
        }
        if self.open.lock().await.len() >= MAX_OPEN_SESSIONS {
            let why =
                format!("{MAX_OPEN_SESSIONS} sessions are open, which is the maximum; close one");
            return Err(WireError::new(-32603, why));
        }
        let asked = Arc::new(OnceLock::new());
        let approver: Arc<dyn Approver> = Arc::new(AcpClientApprover {
            link: self.link.clone(),
            session: asked.clone(),
            workspace: workspace.clone(),
        });
        let waiting = Arc::new(PostponedYesNoQuestions::default());
        let order = OpenSessionRequest {
            workspace: workspace.clone(),
            resume: request.resume,
            servers: servers.clone(),
            approver: approver.clone(),
            confirm: request.confirm.unwrap_or_else(|| waiting.clone()),
            mode: None,
        };
        let opened = self
            .backend
            .open(order)
            .await
            .map_err(session_open_error_to_wire)?;
        let questions = waiting.take_questions();
        let later = (!questions.is_empty()).then(|| SessionReopener {
            backend: self.backend.clone(),
            workspace: workspace.clone(),
            servers,
            approver,
            questions,
        });
        let session = opened.session;
        let view = Arc::new(Mutex::new(SessionEventConverter::new(
            &workspace,
            session.tools(),
        )));
        let id = session.id().clone();
        let _ = asked.set(SessionIdAndEventConverter {
            id: id.clone(),
            view: view.clone(),
        });
        if request.is_replayed {
            let updates =
                convert_messages_to_updates(&session.messages(), &mut lock_ignoring_poison(&view));
            updates
                .into_iter()
                .for_each(|update: SessionUpdate| self.link.send_update(&id, update));
        }
        let parts = OpenAcpSessionParams {
            session,
            view,
            commands: opened.commands,
            switch: opened.switch,
            notes: opened.notes,
            later,
        };
        let live = Arc::new(OpenAcpSession::new(self.link.clone(), parts));
        self.open.lock().await.insert(id.to_string(), live.clone());
        Ok(live)
    }

    /// Checks that the id is the full id of an existing session. A prefix of an id is rejected: it
    /// could match another session later.
    async fn check_session_exists(&self, id: &str) -> Result<(), WireError> {
        let heads = self.list_stored_sessions().await?;
        match heads.iter().any(|head| head.id == id) {
            true => Ok(()),
            false => Err(unknown_session_error(id)),
        }
    }

    async fn list_stored_sessions(&self) -> Result<Vec<SessionSummary>, WireError> {
        let store = self.backend.session_store();
        let store = store.map_err(|why| WireError::new(-32603, why))?;
        let _one_at_a_time = self.reading.lock().await;
        let read = tokio::task::spawn_blocking(move || store.list_session_summaries()).await;
        let failed = |why: String| WireError::new(-32603, why);
        let heads = read.map_err(|error| failed(error.to_string()))?;
        Ok(heads.map_err(|error| failed(error.to_string()))?.rows)
    }

    /// Closes a session if this client has it open, so that it can be opened again.
    async fn close_session_if_open(&self, id: &str) -> Result<(), WireError> {
        let live = self.open.lock().await.get(id).cloned();
        let Some(live) = live else {
            return Ok(());
        };
        if live.is_prompt_running() {
            let why = "a prompt of the session runs here; end it with session/cancel first";
            return Err(WireError::new(-32600, why));
        }
        live.end_session().await;
        self.open.lock().await.remove(id);
        Ok(())
    }

    /// Returns a session that this client has open.
    ///
    /// # Errors
    /// The client does not have the session open.
    pub(crate) async fn find_live_session(
        &self,
        id: &str,
    ) -> Result<Arc<OpenAcpSession>, WireError> {
        let open = self.open.lock().await;
        open.get(id)
            .cloned()
            .ok_or_else(|| unknown_session_error(id))
    }

    /// Closes a session.
    ///
    /// # Errors
    /// The client does not have the session open.
    pub(crate) async fn close(&self, id: &str) -> Result<(), WireError> {
        let live = self.find_live_session(id).await?;
        live.end_session().await;
        self.open.lock().await.remove(id);
        Ok(())
    }

    /// Interrupts all running prompts, and closes all sessions of the client.
    pub(crate) async fn close_all_sessions(&self) {
        let open = std::mem::take(&mut *self.open.lock().await);
        let ending = open.values().map(|live| live.end_session());
        futures_util::future::join_all(ending).await;
    }

    /// Returns one page of the list of sessions, the most recently used first.
    ///
    /// # Errors
    /// The sessions cannot be read, or the cursor does not name a listed session.
    pub(crate) async fn list(
        &self,
        request: ListSessionsRequest,
    ) -> Result<ListSessionsResponse, WireError> {
        let folder = request.cwd.map(|cwd| cwd.canonicalize().unwrap_or(cwd));
        let mut heads = self.list_stored_sessions().await?;
        heads.retain(|head| {
            let workspace = Path::new(&head.workspace);
            let is_here = folder.as_ref().is_none_or(|folder| folder == workspace);
            is_here && head.aside.is_none() && workspace.is_absolute()
        });
        let from = match &request.cursor {
            None => 0,
            Some(cursor) => match heads.iter().position(|head| head.id == *cursor) {
                Some(at) => at + 1,
                None => {
                    let why = format!(
                        "the cursor `{}` does not name a session; list without a cursor to begin again",
                        escape_and_truncate_line(cursor, 100)
                    );
                    return Err(WireError::new(-32602, why));
                }
            },
        };
        let has_more = heads.len() > from + SESSION_LIST_PAGE_SIZE;
        let listed: Vec<SessionInfo> = heads
            .into_iter()
            .skip(from)
            .take(SESSION_LIST_PAGE_SIZE)
            .map(session_info)
            .collect();
        let last = listed.last().map(|info| info.session_id.0.to_string());
        Ok(ListSessionsResponse::new(listed).next_cursor(last.filter(|_| has_more)))
    }
}

fn session_info(head: SessionSummary) -> SessionInfo {
    let updated = jiff::Timestamp::from_millisecond(head.updated).ok();
    SessionInfo::new(head.id, head.workspace)
        .title(Some(escape_and_truncate_line(&head.title, 200)).filter(|title| !title.is_empty()))
        .updated_at(updated.map(|time| time.to_string()))
}

fn unknown_session_error(id: &str) -> WireError {
    let id = escape_and_truncate_line(id, 100);
    WireError::new(
        -32002,
        format!(
            "there is no session `{id}` here; session/new begins one, session/list lists the sessions that can be loaded"
        ),
    )
}

pub(crate) fn session_open_error_to_wire(error: SessionOpenError) -> WireError {
    let code = match &error {
        SessionOpenError::NoModel(_) => -32000,
        SessionOpenError::Unknown(_) => -32002,
        SessionOpenError::Wrong(_) => -32602,
        SessionOpenError::Failed(_) => -32603,
    };
    WireError::new(code, error.to_string())
}

/// Checks the folder of a session and resolves its symlinks.
async fn resolve_session_folder(cwd: PathBuf) -> Result<PathBuf, String> {
    let shown = escape_and_truncate_line(&cwd.to_string_lossy(), 200);
    if !cwd.is_absolute() {
        return Err(format!("`cwd` is `{shown}`, which is not an absolute path"));
    }
    if cwd.components().any(|part| part == Component::ParentDir) {
        return Err(format!(
            "`cwd` is `{shown}`; a path with `..` is not accepted"
        ));
    }
    let found = tokio::task::spawn_blocking(move || {
        let folder = cwd.canonicalize()?;
        Ok::<_, std::io::Error>(folder.is_dir().then_some(folder))
    });
    match found.await {
        Ok(Ok(Some(folder))) => Ok(folder),
        Ok(Ok(None)) => Err(format!("`cwd` is `{shown}`, which is not a folder")),
        Ok(Err(error)) => Err(format!(
            "`cwd` is `{shown}`, which cannot be opened: {error}"
        )),
        Err(error) => Err(format!("`cwd` cannot be read: {error}")),
    }
}

/// Converts the MCP servers that the client named from the protocol's form.
fn convert_mcp_servers(servers: Vec<McpServer>) -> Result<Vec<ClientMcpServer>, String> {
    if servers.len() > MAX_MCP_SERVERS_PER_SESSION {
        return Err(format!(
            "`mcpServers` has more than {MAX_MCP_SERVERS_PER_SESSION} servers"
        ));
    }
    let one = |server| match server {
        McpServer::Stdio(own) => Ok(ClientMcpServer {
            name: own.name,
            reach: ClientMcpServerTransport::Program {
                command: own.command.to_string_lossy().into_owned(),
                args: own.args,
                env: own
                    .env
                    .into_iter()
                    .map(|own| (own.name, own.value))
                    .collect(),
            },
        }),
        McpServer::Http(own) => Ok(ClientMcpServer {
            name: own.name,
            reach: ClientMcpServerTransport::Http {
                url: own.url,
                headers: own
                    .headers
                    .into_iter()
                    .map(|own| (own.name, own.value))
                    .collect(),
            },
        }),
        McpServer::Sse(own) => Err(format!(
            "the MCP server `{}` speaks SSE, which is not supported (see the capabilities): use Streamable HTTP",
            escape_and_truncate_line(&own.name, 60)
        )),
        _ => Err("an MCP server has an unknown kind".to_owned()),
    };
    servers.into_iter().map(one).collect()
}
