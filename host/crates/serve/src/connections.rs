//! Accepts connections. Restricts the addresses that clients can connect from, the number of
//! connections, and the time in which a request must arrive.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rind_lib::lock::lock_ignoring_poison;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

/// Maximum number of client connections that are open at once.
const MAX_CONNECTIONS: usize = 512;

/// Timeout for the head of a request, that is, its request line and headers. A connection that does
/// not send a complete head in time is closed.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a system error while accepting a connection, such as too many open files.
const ACCEPT_ERROR_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Socket on which connections are accepted.
#[derive(Debug)]
pub struct ApiListener {
    socket: ApiListenerSocket,
}

#[derive(Debug)]
enum ApiListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl ApiListener {
    /// Listens on a loopback address. Other addresses are refused, because the API has no
    /// encryption.
    ///
    /// # Errors
    /// The address is not a loopback address, or is in use.
    pub async fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        check_loopback_address(address)
            .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        let socket = ApiListenerSocket::Tcp(TcpListener::bind(address).await?);
        Ok(Self { socket })
    }

    /// Listens on a Unix socket that only its owner can open. A stale socket, on which no server
    /// listens, is replaced.
    ///
    /// # Errors
    /// Another kind of file is at the path, a server listens on the socket, or the socket cannot be
    /// created.
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            if !meta.file_type().is_socket() {
                return Err(socket_path_error(path, "is no socket"));
            }
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(socket_path_error(path, "is the socket of a running server"));
            }
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        // A client that connects before this call can do nothing without the token.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let socket = ApiListenerSocket::Unix(listener, path.to_owned());
        Ok(Self { socket })
    }

    /// Returns the TCP port of the socket; `None` for a Unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match &self.socket {
            ApiListenerSocket::Tcp(listener) => {
                listener.local_addr().ok().map(|address| address.port())
            }
            ApiListenerSocket::Unix(..) => None,
        }
    }

    /// Returns the address of the socket as text.
    #[must_use]
    pub fn format_address(&self) -> String {
        match &self.socket {
            ApiListenerSocket::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}"),
                Err(error) => error.to_string(),
            },
            ApiListenerSocket::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

impl Drop for ApiListener {
    fn drop(&mut self) {
        if let ApiListenerSocket::Unix(_, path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn socket_path_error(path: &Path, why: &str) -> io::Error {
    let text = format!("{} {why}; choose another path", path.display());
    io::Error::new(io::ErrorKind::AddrInUse, text)
}

/// Checks that an address can be reached only from this machine.
///
/// # Errors
/// Reason why the API does not listen on the address.
pub fn check_loopback_address(address: SocketAddr) -> Result<(), String> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines, and the API has no encryption: listen at 127.0.0.1, and put a server \
         with TLS in front of it"
    ))
}

/// Flag of a connection that is set when the client sends an authorized request over it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionAuthorizedFlag(Arc<AtomicBool>);

impl ConnectionAuthorizedFlag {
    /// Records that the client has sent an authorized request over the connection.
    pub(crate) fn mark_authorized(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Open connections, oldest first.
#[derive(Default)]
struct OpenConnections(Mutex<VecDeque<AcceptedConnection>>);

struct AcceptedConnection {
    access: ConnectionAuthorizedFlag,
    end: CancellationToken,
}

impl OpenConnections {
    /// Adds a connection. If there are too many, closes the oldest connection without an authorized
    /// request, so that idle connections cannot block new clients. Returns `None` if there are too
    /// many connections and all have sent an authorized request.
    fn add_connection(
        &self,
        cancel: &CancellationToken,
    ) -> Option<(ConnectionAuthorizedFlag, CancellationToken)> {
        let mut open = lock_ignoring_poison(&self.0);
        open.retain(|connection| !connection.end.is_cancelled());
        if open.len() >= MAX_CONNECTIONS {
            let has_none = |own: &AcceptedConnection| !own.access.0.load(Ordering::Relaxed);
            let oldest = open.iter().position(has_none)?;
            open.remove(oldest)?.end.cancel();
        }
        let (access, end) = (ConnectionAuthorizedFlag::default(), cancel.child_token());
        open.push_back(AcceptedConnection {
            access: access.clone(),
            end: end.clone(),
        });
        Some((access, end))
    }
}

/// Accepts connections and answers their requests until `cancel` is cancelled.
pub(crate) async fn serve_connections(
    listener: ApiListener,
    router: Router,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let open = OpenConnections::default();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            accepted = accept_connection(&listener.socket) => accepted,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // The error concerns only one connection, or this process temporarily has no free
                // descriptors: accept connections again after a pause.
                tracing::warn!(%error, "a connection to the API cannot be accepted");
                tokio::time::sleep(ACCEPT_ERROR_RETRY_DELAY).await;
                continue;
            }
        };
        let Some((access, end)) = open.add_connection(cancel) else {
            continue;
        };
        let router = router.clone().layer(Extension(access));
        tokio::spawn(async move {
            serve_connection(stream, router, &end).await;
            end.cancel();
        });
    }
}

/// Client's connection, over TCP or a Unix socket.
trait ApiConnection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ApiConnection for T {}

async fn accept_connection(socket: &ApiListenerSocket) -> io::Result<Box<dyn ApiConnection>> {
    Ok(match socket {
        ApiListenerSocket::Tcp(listener) => Box::new(listener.accept().await?.0),
        ApiListenerSocket::Unix(listener, _) => Box::new(listener.accept().await?.0),
    })
}

async fn serve_connection(stream: Box<dyn ApiConnection>, router: Router, end: &CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = end.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the API ended");
    }
}
