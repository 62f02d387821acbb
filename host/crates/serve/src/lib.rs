//! The HTTP API of Rind and its pages: sessions, turns, events, questions and plugins of one host.
//!
//! Owns the connections, the access check ([`access`]), the sessions that are open in this process
//! ([`live`]), the numbered events of each session ([`event_log`]), the questions that wait for an
//! answer ([`questions`]), the requests about sessions of other programs ([`remote`], [`holder`]),
//! and the states of loops ([`loop_board`]). It runs turns only through [`rind_lib::Host`], so
//! every rule of the operator, every hook and every limit applies as on the command line. It does
//! not depend on the command line, on settings files or on the code of any plugin.
//!
//! Start from [`ApiServer`].

pub mod access;
pub mod approver;
mod connections;
mod error;
pub mod event_log;
mod forward;
pub mod gate;
pub mod holder;
mod hook_sums;
pub mod live;
pub mod loop_board;
mod loop_turns;
mod openapi;
mod pages;
pub mod questions;
mod queued;
mod redirect;
pub mod remote;
mod routes;
mod session_task;
pub mod workspaces;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use rind_lib::host::LoopTurnRunner;
use rind_lib::loops::LoopInboxes;
use tokio_util::sync::CancellationToken;

/// Types for the bodies of HTTP requests and responses.
pub mod body {
    pub use axum::body::{Body, Bytes};
}
pub use connections::{ApiListener, check_loopback_address};
pub use openapi::generate_openapi_document;
pub use pages::session_file::render_session_page_file;
pub use redirect::{LoginRedirectPage, serve_login_redirects};

use access::ApiAccessSecrets;
use live::OpenSessions;
use loop_board::LoopStatusBoard;
use loop_turns::ServerLoopTurnRunner;
use remote::RemoteSessionClient;
use workspaces::{WorkspaceHost, WorkspaceHostFactory, WorkspaceHosts};

/// Time in which running turns must end when the server stops.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Answers the requests to one path by a function until `cancel` is cancelled, for a protocol other
/// than the API. The token, `Host`, `Origin` and the number of connections are checked as for the
/// API.
///
/// # Errors
/// Connections cannot be accepted any more.
pub async fn serve_single_http_route<F, A, B>(
    listener: ApiListener,
    path: &str,
    answer: F,
    access: ApiAccessSecrets,
    cancel: &CancellationToken,
) -> io::Result<()>
where
    F: Fn(axum::extract::Request) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = http::Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let answer = move |request: axum::extract::Request| {
        let answered = answer(request);
        async move { answered.await.map(axum::body::Body::new) }
    };
    let check = axum::middleware::from_fn_with_state(Arc::new(access), access::check_access);
    let router = axum::Router::new().route(path, axum::routing::any(answer));
    connections::serve_connections(listener, router.layer(check), cancel).await
}

/// State that the handlers of all requests share.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) sessions: Arc<OpenSessions>,
    pub(crate) access: Arc<ApiAccessSecrets>,
    pub(crate) loops: Arc<LoopStatusBoard>,
    pub(crate) inboxes: LoopInboxes,
    /// Sessions that other programs have open; `None` if the store of the sessions is not shared.
    pub(crate) remote: Option<Arc<dyn RemoteSessionClient>>,
}

/// HTTP server of the API and of the pages for the sessions of a host.
pub struct ApiServer {
    state: ApiState,
}

impl ApiServer {
    /// Creates the server. Its sessions work in the folder of `first` and in `folders`, which are
    /// canonical paths; `opener` creates the hosts of `folders`. The policy of a host decides on
    /// the tool calls of its sessions; if it requires approval, a client of the API is asked.
    #[must_use]
    pub fn new(
        first: WorkspaceHost,
        folders: Vec<PathBuf>,
        opener: Arc<dyn WorkspaceHostFactory>,
        access: ApiAccessSecrets,
    ) -> Self {
        let loops = LoopStatusBoard::new(first.hooks.clone());
        let workspaces = WorkspaceHosts::new(first, folders, opener);
        Self {
            state: ApiState {
                sessions: Arc::new(OpenSessions::new(workspaces)),
                access: Arc::new(access),
                loops: Arc::new(loops),
                inboxes: LoopInboxes::default(),
                remote: None,
            },
        }
    }

    /// Returns the runner that runs the turns of loops in sessions of this server, where users see
    /// the turns and answer their questions.
    #[must_use]
    pub fn loop_turn_runner(&self) -> Arc<dyn LoopTurnRunner> {
        Arc::new(ServerLoopTurnRunner(self.state.sessions.clone()))
    }

    /// Returns the board that shows the loops. The caller reports the loops and their events to it.
    #[must_use]
    pub fn plugin_loop_status_board(&self) -> Arc<LoopStatusBoard> {
        self.state.loops.clone()
    }

    /// Lets clients of the API send messages to the loops of plugins.
    #[must_use]
    pub fn with_plugin_loop_inboxes(mut self, inboxes: LoopInboxes) -> Self {
        self.state.inboxes = inboxes;
        self
    }

    /// Shows the sessions that other programs have open, and forwards requests about such a session
    /// to the program that has it open.
    #[must_use]
    pub fn with_remote_session_client(mut self, remote: Arc<dyn RemoteSessionClient>) -> Self {
        if let Some(gate) = remote.turn_admission_controller() {
            self.state.sessions.set_turn_admission_controller(gate);
        }
        self.state.remote = Some(remote);
        self
    }

    /// Answers requests until `cancel` is cancelled. Then interrupts every running turn and closes
    /// every session. A turn that does not end within two seconds is dropped; it can be continued
    /// later.
    ///
    /// # Errors
    /// Connections cannot be accepted any more.
    pub async fn run(self, listener: ApiListener, cancel: &CancellationToken) -> io::Result<()> {
        let router = routes::access_checked_router(self.state.clone());
        let served = connections::serve_connections(listener, router, cancel).await;
        let closed = tokio::time::timeout(
            SHUTDOWN_GRACE_PERIOD,
            self.state.sessions.close_all_sessions(),
        )
        .await;
        if closed.is_err() {
            tracing::warn!("sessions did not end within two seconds; they can be resumed");
        }
        served
    }
}
