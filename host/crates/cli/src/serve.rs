//! `rind serve`: runs the loops of plugins until all are done, and the HTTP API, if requested,
//! until a signal arrives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::args::ServeArgs;
use super::event_file::EventLogFile;
use super::exit_code::{ExitStatus, bail_usage};
use super::listen::{AuthenticatedListener, ListenAddress, open_token_protected_listener};
use super::render::serve::PluginLoopsRenderer;
use super::signals::ShutdownSignals;
use super::{environment, open, render};
use rind_lib::event::Stamped;
use rind_lib::loops::{EndedLoop, Error, LoopEndReason, PluginLoopsRunner};
use rind_lib::session::SessionStore;
use rind_operator::settings::{ProgramRunSettings, SessionChoice};
use rind_operator::start::ConfiguredAgentHost;
use rind_serve::loop_board::LoopStatusBoard;
use rind_serve::remote::RemoteSessionClient;
use rind_serve::workspaces::{WorkspaceHost, WorkspaceHostFactory};
use rind_serve::{ApiListener, ApiServer};

/// Capacity of the queue of events to show. Bounds how far loops run ahead of the display: a loop
/// starts its next run only once all events of its last run are in the queue.
const EVENT_QUEUE_CAPACITY: usize = 256;

/// Name of the file with the API token, in the data folder.
const API_TOKEN_FILE_NAME: &str = "serve-token";

/// Timeout for writing the last events at exit, because a pipe without a reader would block the
/// exit.
const FINAL_EVENTS_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn run_serve(mut args: ServeArgs) -> anyhow::Result<ExitStatus> {
    let file = args.open.events.as_deref().map(EventLogFile::open_file);
    let file = file.transpose()?;
    // Ask no questions, even on a terminal: a question would block one loop and delay the output of
    // the others.
    let settings = args.open.to_run_settings(SessionChoice::New, false)?;
    let folders = resolve_workspace_folders(&args.also_workspace)?;
    let (store, remote) = open_session_store(&mut args).await?;
    let opener = ServedWorkspaceHostFactory {
        settings: settings.clone(),
        store: store.clone(),
    };
    let prepared = open::prepare_session(settings).await?;
    let prepared = match store {
        Some(store) => prepared.with_session_store(store),
        None => prepared,
    };
    let ready = prepared.build_host().await?;
    let host = &ready.run.host;
    let api = match &args.listen {
        Some(address) => Some(prepare_api_server(address, &ready.run, folders, opener).await?),
        None => None,
    };
    let api = api.map(|api| match remote {
        Some(remote) => PreparedApiServer {
            server: api.server.with_remote_session_client(remote),
            ..api
        },
        None => api,
    });
    let loops = match PluginLoopsRunner::open_sessions(&host.host) {
        Err(Error::NoLoop) if api.is_some() => None,
        Err(error @ Error::NoLoop) => bail_usage!(
            "{error}, so there is nothing to serve: name a plugin that has one with --plugin, or see `rind plugin list` for why one \
             does not run; `rind plugin new NAME --kind loop` makes one; --listen serves the HTTP API"
        ),
        loops => Some(loops?),
    };
    let (api, loops) = route_plugin_loops_through_api(api, loops);
    if let Some(loops) = &loops {
        host.warn_ineffective_settings(&loops.subagent_tools());
    }
    let of_session = loops
        .iter()
        .flat_map(PluginLoopsRunner::plugins_with_session_ids);
    let of_session: BTreeMap<Arc<str>, String> = of_session
        .map(|(plugin, session)| (session.clone(), plugin.to_owned()))
        .collect();
    if !args.json {
        render::print_note(&ready.run.chosen);
        if !of_session.is_empty() {
            render::serve::print_served_loops(of_session.values());
        }
        if let Some(api) = &api {
            render::serve::print_api_address(&api.address, &api.token, api.login.as_deref());
        }
    }
    let cancel = CancellationToken::new();
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for Ctrl-C")?;
    drop(ready.exits);
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(cancel.clone()));
    let (sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let board = api
        .as_ref()
        .map(|api| api.server.plugin_loop_status_board());
    if let Some(board) = &board {
        for (session, plugin) in &of_session {
            board.add_loop(plugin, session);
        }
    }
    let renderer = PluginLoopsRenderer::new(
        of_session,
        &render::lines::loop_output_line_counts(),
        args.json,
    );
    let shown = spawn_event_display(events, renderer, file, board);
    let run_loops = async {
        match loops {
            Some(loops) => loops.with_event_sender(sender).run_all_loops(&cancel).await,
            None => Vec::new(),
        }
    };
    let run_api = async {
        match api {
            Some(api) => api.server.run(api.listener, &cancel).await,
            None => Ok(()),
        }
    };
    let (ends, served) = tokio::join!(run_loops, run_api);
    served.context("cannot serve the API")?;
    if tokio::time::timeout(FINAL_EVENTS_WRITE_TIMEOUT, shown)
        .await
        .is_err()
    {
        tracing::warn!("the last events were not written, because their reader has stopped");
    }
    if !args.json {
        ends.iter().for_each(render::serve::print_loop_end);
    }
    Ok(choose_loops_exit_status(&ends, cancel.is_cancelled()))
}

/// Returns the store of the sessions and the connection to the other programs that share it; both
/// `None` if sessions are files on this machine.
#[cfg(feature = "nats")]
async fn open_session_store(
    args: &mut ServeArgs,
) -> anyhow::Result<SharedStoreAndRemoteSessionClient> {
    let shared = std::mem::take(&mut args.shared)
        .connect_shared_store()
        .await?;
    Ok(match shared {
        Some(shared) => (Some(shared.store), Some(shared.remote)),
        None => (None, None),
    })
}

/// Returns no store: sessions are files of this machine.
#[cfg(not(feature = "nats"))]
#[expect(
    clippy::unused_async,
    reason = "with the feature `nats` it connects to servers"
)]
async fn open_session_store(
    _: &mut ServeArgs,
) -> anyhow::Result<SharedStoreAndRemoteSessionClient> {
    Ok((None, None))
}

/// Store of the sessions, and the connection to the other programs that share it; both `None` if
/// sessions are files on this machine.
type SharedStoreAndRemoteSessionClient =
    (Option<SessionStore>, Option<Arc<dyn RemoteSessionClient>>);

/// HTTP API whose socket listens but that does not answer requests yet.
struct PreparedApiServer {
    server: ApiServer,
    listener: ApiListener,
    /// Address on which the HTTP API listens.
    address: String,
    /// Path of the file that contains the API token.
    token: PathBuf,
    /// URL with which a browser signs in; `None` if there is none.
    login: Option<String>,
}

/// Creates the hosts of further workspaces, with the program's arguments.
struct ServedWorkspaceHostFactory {
    settings: ProgramRunSettings,
    /// Store of the sessions; `None` if they are files of this machine.
    store: Option<SessionStore>,
}

impl WorkspaceHostFactory for ServedWorkspaceHostFactory {
    fn open_host(&self, folder: PathBuf) -> BoxFuture<'_, Result<WorkspaceHost, String>> {
        let (mut settings, store) = (self.settings.clone(), self.store.clone());
        // `--trust-project` applies only to the first folder.
        settings.plugins.trust_project = false;
        Box::pin(async move {
            let opened = async {
                settings.paths = environment::find_rind_paths(Some(&folder))?;
                open::build_host_without_questions(settings, store).await
            };
            let run = opened.await.map_err(|error| format!("{error:#}"))?;
            Ok(to_workspace_host(&run))
        })
    }
}

fn to_workspace_host(run: &ConfiguredAgentHost) -> WorkspaceHost {
    let host = &run.host;
    WorkspaceHost::new(
        host.host.clone(),
        host.policy_that_allows_questions(),
        run.plugins.clone(),
    )
}

/// Returns the paths of the workspace folders, with symlinks resolved.
fn resolve_workspace_folders(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let paths = named
        .iter()
        .map(|folder| Ok(environment::find_rind_paths(Some(folder))?.workspace));
    let folders: Vec<PathBuf> = paths.collect::<anyhow::Result<_>>()?;
    if let Some(file) = folders.iter().find(|folder| !folder.is_dir()) {
        bail_usage!(
            "{} is not a folder; --also-workspace names folders",
            file.display()
        );
    }
    Ok(folders)
}

/// Lets the API run the turns of the loops and deliver messages to them, if both are requested.
fn route_plugin_loops_through_api(
    api: Option<PreparedApiServer>,
    loops: Option<PluginLoopsRunner>,
) -> (Option<PreparedApiServer>, Option<PluginLoopsRunner>) {
    match (api, loops) {
        (Some(mut api), Some(loops)) => {
            let loops = loops.with_turn_runner(api.server.loop_turn_runner());
            api.server = api.server.with_plugin_loop_inboxes(loops.inboxes());
            (Some(api), Some(loops))
        }
        other => other,
    }
}

/// Listens at the address, with the token from the data folder.
async fn prepare_api_server(
    address: &ListenAddress,
    run: &ConfiguredAgentHost,
    folders: Vec<PathBuf>,
    opener: ServedWorkspaceHostFactory,
) -> anyhow::Result<PreparedApiServer> {
    let AuthenticatedListener {
        access,
        listener,
        token,
    } = open_token_protected_listener(address, &run.setup.paths, API_TOKEN_FILE_NAME).await?;
    let login = access.login_url();
    let first = to_workspace_host(run);
    let server = ApiServer::new(first, folders, Arc::new(opener), access);
    Ok(PreparedApiServer {
        server,
        address: listener.format_address(),
        listener,
        token,
        login,
    })
}

/// Shows events on a separate thread: a write blocks while a pipe has no reader, which must not
/// block signals and loops.
fn spawn_event_display(
    mut events: Receiver<Stamped>,
    mut renderer: PluginLoopsRenderer,
    mut file: Option<EventLogFile>,
    board: Option<Arc<LoopStatusBoard>>,
) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        while let Some(stamped) = events.blocking_recv() {
            if let Some(file) = &mut file {
                file.write_event(&stamped);
            }
            if let Some(board) = &board {
                board.update_from_event(&stamped);
            }
            renderer.show_plugin_loop_event(&stamped);
        }
    })
}

fn choose_loops_exit_status(ends: &[EndedLoop], is_interrupted: bool) -> ExitStatus {
    let has_failed =
        |end: &EndedLoop| matches!(end.why, LoopEndReason::Failed(_) | LoopEndReason::Broken(_));
    if ends.iter().any(has_failed) {
        ExitStatus::Failed
    } else if is_interrupted {
        ExitStatus::Interrupted
    } else {
        ExitStatus::Done
    }
}
