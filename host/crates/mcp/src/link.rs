//! Connects one session to one MCP server. The server is started at the first call, at most
//! `MAX_SERVER_STARTS_PER_SESSION` times in all. Its tools and prompts are compared with the
//! approved ones (the pin) at every start, and whenever the server announces a change.
//!
//! Start from [`SessionServerConnection::connect_and_check_approval`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::client::{McpServerConnectError, McpServerConnection};
use super::compare::{
    ChangeSinceServerApproval, describe_pinned_server_changes, list_changes_since_approval,
};
use super::elicit::ServerElicitationHandler;
use super::end::{McpClientHandler, ProgressLineRateLimiter};
use super::gateway::create_prompt_and_resource_tools;
use super::offer::ServerToolsAndPrompts;
use super::server::McpServerConnectionSpec;
use super::tool::McpServerTool;
use rind_lib::host::ToolSourceSessionHandle;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::tool::SharedTool;

/// Maximum number of times that an MCP server is started (or connected to, over HTTP) in one
/// session.
const MAX_SERVER_STARTS_PER_SESSION: u32 = 4;

/// Maximum age of the last comparison of the server's tools with the approved (pinned) ones. If it
/// is older, a tool call first lists and compares the tools again, because not every server
/// announces changes.
const MAX_APPROVED_TOOLS_CHECK_AGE: Duration = Duration::from_secs(60);

/// Minimum interval between two comparisons of the server's tools with the approved ones that
/// announcements of changes cause. A tool call compares without this wait.
const MIN_APPROVED_TOOLS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of times that a server's tools and prompts may change in a session. After that,
/// all of them are withheld.
const MAX_TOOL_AND_PROMPT_LIST_CHANGES: u32 = 10;

/// Connection of one session to one MCP server, with the server's tools and prompts that are
/// withheld from the session.
pub(crate) struct SessionServerConnection {
    pub(crate) server: Arc<McpServerConnectionSpec>,
    pub(crate) session: ToolSourceSessionHandle,
    pub(crate) questions: Arc<ServerElicitationHandler>,
    pinned: ServerToolsAndPrompts,
    /// Whether clients of `rind mcp serve` may fetch the server's prompts and resources.
    is_passed_on: bool,
    state: AsyncMutex<SessionServerConnectionState>,
    /// Withheld tools: name on the server, and the reason why the tool must not be called.
    held: Mutex<BTreeMap<String, String>>,
    /// Withheld prompts: name on the server, and the reason why the prompt must not be fetched.
    held_prompts: Mutex<BTreeMap<String, String>>,
    told: Mutex<ReportedServerChanges>,
    /// Whether all tools and prompts of the server are withheld for the rest of the session.
    is_held_all: AtomicBool,
}

/// Changes of the server's offer that were reported to the user.
#[derive(Default)]
struct ReportedServerChanges {
    /// Differences from the approved tools and prompts (the pin) that were reported last.
    last: Vec<ChangeSinceServerApproval>,
    /// Number of times that the differences between the server's offer and the pin have changed.
    n_times: u32,
}

#[derive(Default)]
struct SessionServerConnectionState {
    connection: Option<Arc<McpServerConnection>>,
    compared: Option<Instant>,
    n_starts: u32,
}

impl SessionServerConnection {
    pub(crate) fn new(
        server: Arc<McpServerConnectionSpec>,
        pinned: ServerToolsAndPrompts,
        is_passed_on: bool,
        session: ToolSourceSessionHandle,
    ) -> Arc<Self> {
        Arc::new(Self {
            questions: Arc::new(ServerElicitationHandler::new(&server.name, session.clone())),
            server,
            session,
            pinned,
            is_passed_on,
            state: AsyncMutex::default(),
            held: Mutex::default(),
            held_prompts: Mutex::default(),
            told: Mutex::default(),
            is_held_all: AtomicBool::default(),
        })
    }

    /// Returns the tools that are not withheld, with their pinned definitions.
    pub(crate) fn usable_tools(self: &Arc<Self>) -> Vec<SharedTool> {
        let held = lock_ignoring_poison(&self.held);
        let free = self.pinned.tools.iter();
        let free = free.filter(|tool| !held.contains_key(&tool.name));
        let free = free.map(|tool| Arc::new(McpServerTool::new(self.clone(), tool)) as SharedTool);
        let has_material = self.is_passed_on && self.check_not_entirely_withheld().is_ok();
        let of_material = has_material.then(|| create_prompt_and_resource_tools(self));
        // First return the tools with which the host fetches the server's prompts and resources, so
        // that they are not dropped if the server has more tools than a session accepts.
        let of_material = of_material.into_iter().flatten();
        of_material.chain(free).collect()
    }

    /// Whether the operator approved a prompt of this name.
    pub(crate) fn has_pinned_prompt(&self, name: &str) -> bool {
        self.pinned.prompts.iter().any(|own| own.name == name)
    }

    /// Fails if all tools and prompts of the server are withheld.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) fn check_not_entirely_withheld(&self) -> Result<(), String> {
        match self.is_held_all.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(format!(
                "is withheld until the next session, because it changed its tools or prompts more than {MAX_TOOL_AND_PROMPT_LIST_CHANGES} times"
            )),
        }
    }

    /// Returns the reason why a tool is withheld; `None` if it may be called.
    pub(crate) fn tool_withheld_reason(&self, tool: &str) -> Option<String> {
        lock_ignoring_poison(&self.held).get(tool).cloned()
    }

    /// Returns the reason why a prompt is withheld; `None` if it may be fetched.
    pub(crate) fn withheld_prompt_reason(&self, prompt: &str) -> Option<String> {
        lock_ignoring_poison(&self.held_prompts)
            .get(prompt)
            .cloned()
    }

    /// Returns a connection to the server, after its tools, prompts and instructions were compared
    /// with the approved ones. Starts the server if it is not running.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn connect_and_check_approval(
        self: &Arc<Self>,
    ) -> Result<Arc<McpServerConnection>, String> {
        let mut state = self.state.lock().await;
        self.check_not_entirely_withheld()?;
        let running = state.connection.take().filter(|own| !own.is_closed());
        let connection = match running {
            Some(connection) => connection,
            None => {
                if state.n_starts == MAX_SERVER_STARTS_PER_SESSION {
                    return Err(format!(
                        "did not stay connected: {MAX_SERVER_STARTS_PER_SESSION} connections in this session failed or ended"
                    ));
                }
                state.n_starts += 1;
                state.compared = None;
                self.start_server().await?
            }
        };
        // Compare before this call if the server announced a change, or if the last comparison is
        // too old.
        let age = state.compared.map(|at| at.elapsed());
        let is_old = age.is_none_or(|age| age > MAX_APPROVED_TOOLS_CHECK_AGE);
        if connection.take_list_changed_flag() || is_old {
            state.compared = None;
            let offer = connection.list_tools_and_prompts().await?;
            self.withhold_unapproved_changes(&offer);
            state.compared = Some(Instant::now());
        }
        state.connection = Some(connection.clone());
        // Check again: the comparison with the approved tools may have withheld all tools of the
        // server.
        self.check_not_entirely_withheld()?;
        Ok(connection)
    }

    /// Compares the tools and prompts of a running server with those that the operator approved, if
    /// the server announced a change. If listing them fails, the next call compares them.
    async fn check_approval_after_change(self: &Arc<Self>) {
        let mut state = self.state.lock().await;
        let Some(connection) = state.connection.clone() else {
            return;
        };
        if connection.take_list_changed_flag() {
            state.compared = None;
            if let Ok(offer) = connection.list_tools_and_prompts().await {
                self.withhold_unapproved_changes(&offer);
                state.compared = Some(Instant::now());
            }
        }
    }

    async fn start_server(self: &Arc<Self>) -> Result<Arc<McpServerConnection>, String> {
        let (changed, changes) = mpsc::channel(1);
        let shown = self.session.clone();
        let gate = ProgressLineRateLimiter::default();
        let end = McpClientHandler {
            changed,
            is_changed: Arc::default(),
            progress: Arc::new(move |text| {
                if gate.take_progress_line_token() {
                    shown.show_progress(text);
                }
            }),
            questions: Some(self.questions.clone()),
        };
        let opened =
            McpServerConnection::open(&self.server, self.session.agent_handle(), &end).await;
        let opened = opened.map_err(McpServerConnectError::into_reason_phrase)?;
        let connection = Arc::new(opened);
        connection.subscribe_to_list_changes();
        tokio::spawn(watch_for_server_list_changes(Arc::downgrade(self), changes));
        Ok(connection)
    }

    /// Withholds the tools and prompts that differ from those that the operator approved (the pin),
    /// and reports each change to the user once.
    fn withhold_unapproved_changes(self: &Arc<Self>, offer: &ServerToolsAndPrompts) {
        let changes = list_changes_since_approval(&self.pinned, offer);
        let is_too_often = {
            let mut told = lock_ignoring_poison(&self.told);
            if told.last == changes || told.n_times > MAX_TOOL_AND_PROMPT_LIST_CHANGES {
                return;
            }
            told.last.clone_from(&changes);
            told.n_times += 1;
            told.n_times > MAX_TOOL_AND_PROMPT_LIST_CHANGES
        };
        if is_too_often {
            return self.withhold_tools_and_prompts();
        }
        let (mut held, mut prompts) = (BTreeMap::new(), BTreeMap::new());
        for change in &changes {
            if let Some(prompt) = change.withheld_prompt_name() {
                prompts.insert(prompt.to_owned(), change.to_string());
            }
            if let Some(tool) = change.withheld_tool_name() {
                held.insert(tool.to_owned(), change.to_string());
            }
        }
        *lock_ignoring_poison(&self.held_prompts) = prompts;
        let is_other = {
            let mut own = lock_ignoring_poison(&self.held);
            let is_other = own.keys().ne(held.keys());
            *own = held;
            is_other
        };
        let name = &self.server.name;
        let reason = match changes.is_empty() {
            true => format!(
                "MCP server `{name}` again offers exactly the tools and prompts that you approved"
            ),
            false => format!(
                "MCP server `{name}` differs from the version that you approved: {}. Changed tools and prompts are withheld; `rind mcp test {name}` shows it and \
                 asks",
                describe_pinned_server_changes(&changes)
            ),
        };
        match is_other {
            true => self.session.replace_tools(self.usable_tools(), reason),
            false => self.session.show_notice(reason),
        }
    }
}

impl SessionServerConnection {
    /// Withholds the complete offer for the rest of the session, because it changes too often for
    /// the user to review.
    fn withhold_tools_and_prompts(self: &Arc<Self>) {
        self.is_held_all.store(true, Ordering::Release);
        let why = format!(
            "its server changed its tools or prompts more than {MAX_TOOL_AND_PROMPT_LIST_CHANGES} times"
        );
        let tools = self.pinned.tools.iter();
        let prompts = self.pinned.prompts.iter();
        *lock_ignoring_poison(&self.held) =
            tools.map(|own| (own.name.clone(), why.clone())).collect();
        *lock_ignoring_poison(&self.held_prompts) =
            prompts.map(|own| (own.name.clone(), why.clone())).collect();
        let reason = format!(
            "MCP server `{}` changed its tools or prompts more than {MAX_TOOL_AND_PROMPT_LIST_CHANGES} times in this session: all of them are withheld until the next session",
            self.server.name
        );
        self.session.replace_tools(self.usable_tools(), reason);
    }
}

/// Compares the server's tools and prompts with the approved ones whenever the server announces a
/// change, until the connection ends.
async fn watch_for_server_list_changes(
    link: Weak<SessionServerConnection>,
    mut changes: mpsc::Receiver<()>,
) {
    while changes.recv().await.is_some() {
        let Some(link) = link.upgrade() else {
            return;
        };
        link.check_approval_after_change().await;
        drop(link);
        // A change during this wait is not missed: a call compares the tools before it is sent.
        tokio::time::sleep(MIN_APPROVED_TOOLS_CHECK_INTERVAL).await;
    }
}
