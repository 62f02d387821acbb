//! Opens the WebSocket connections of plugins, under the same rules as requests.
//!
//! `ws` and `wss` count as `http` and `https` for grants and credentials. The WebSocket library
//! gets a stream that this module connected to a checked address; the library resolves and connects
//! nothing. Start from [`PluginSessionEgress::open_socket`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::{Error as WireError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::budget::ConcurrentRequestPermit;
use super::connection::{MAX_WEBSOCKET_MESSAGE_BYTES, WebSocketConnection};
use super::credential;
use super::error::{EgressErrorKind, Error};
use super::headers;
use super::mask::CredentialMasker;
use super::options::OutgoingRequest;
use super::record::UnwrittenAccessRecord;
use super::target::RequestTarget;
use super::{PluginSessionEgress, send::CONNECT_TIMEOUT};
use crate::grant::UrlScheme;
use crate::point::trace::Origin;
use crate::provider::install_crypto_provider;
use crate::secret::run_blocking_scan;
use crate::text::escape_and_truncate_line;

/// Maximum number of WebSocket subprotocols that a request for a connection offers.
const MAX_OFFERED_SUBPROTOCOLS: usize = 8;

/// Maximum length of the name of a subprotocol, in bytes.
const MAX_SUBPROTOCOL_NAME_BYTES: usize = 64;

/// Maximum size of the unwritten data of a connection, in bytes: a message with its frame header.
const MAX_WRITE_BUFFER_BYTES: usize = 2 * MAX_WEBSOCKET_MESSAGE_BYTES;

/// Maximum length of the quoted cause of a failure, in bytes.
const MAX_FAILURE_CAUSE_BYTES: usize = 200;

/// Method that access records show for opening a connection.
const CONNECTION_OPEN_METHOD_NAME: &str = "OPEN";

/// WebSocket connection that a plugin asks for.
#[derive(Clone, Debug, Default)]
pub struct WebSocketRequest {
    /// Absolute URL of the server, with the scheme `ws` or `wss`.
    pub url: String,
    /// Names and values of the headers of the handshake.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Subprotocols that the handshake offers to the server.
    pub protocols: Vec<String>,
}

/// Byte stream below a connection: TCP, or TLS over it.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// WebSocket connection in the type of the library that implements the protocol.
pub(super) type Socket = WebSocketStream<Box<dyn ByteStream>>;

/// Other end of a plugin's WebSocket connection.
pub(super) enum SocketPeer {
    Socket(Box<Socket>),
    /// Replacement for a server in tests of plugins: the messages that the plugin receives.
    Canned(Vec<String>),
}

impl PluginSessionEgress {
    /// Opens a WebSocket connection, and records the attempt, even if it is refused. `arrived` is
    /// notified of each message and of the end of the connection.
    ///
    /// # Errors
    /// A rule refused the connection, or opening it failed. The text contains no secret.
    pub async fn open_socket(
        &self,
        request: WebSocketRequest,
        origin: Origin,
        arrived: Arc<Notify>,
    ) -> Result<WebSocketConnection, Error> {
        let mut record =
            UnwrittenAccessRecord::start_record(self, origin.clone(), CONNECTION_OPEN_METHOD_NAME);
        self.count_request_against_budget(&mut record, || {
            let target = RequestTarget::parse_socket_target(&request.url).ok()?;
            Some(target.format_websocket_target(CONNECTION_OPEN_METHOD_NAME))
        })?;
        let mut mask = CredentialMasker::default();
        let deadline = self.shared.options.deadline;
        let opening = self.check_and_open_websocket(request, &mut record, &mut mask);
        let opened = match tokio::time::timeout(deadline, opening).await {
            Ok(opened) => opened.map_err(|error| mask.mask_error(error)),
            Err(_) => Err(Error::new(
                EgressErrorKind::Timeout,
                format!("the handshake of the WebSocket took longer than {deadline:?}"),
            )),
        };
        record.write_record(opened.as_ref().err());
        let (line, target, slot) = opened?;
        let mut closing = UnwrittenAccessRecord::start_record(self, origin, "CLOSE");
        closing.set_target(mask.mask_text(&target.format_websocket_target("CLOSE")));
        Ok(WebSocketConnection::start(
            line,
            slot,
            mask,
            closing,
            arrived,
            self.shared.clone(),
            target,
        ))
    }

    async fn check_and_open_websocket(
        &self,
        request: WebSocketRequest,
        record: &mut UnwrittenAccessRecord,
        mask: &mut CredentialMasker,
    ) -> Result<(SocketPeer, RequestTarget, ConcurrentRequestPermit), Error> {
        let shared = &*self.shared;
        let granted = &*shared.granted;
        let target = RequestTarget::parse_socket_target(&request.url)?;
        record.set_target(target.format_websocket_target(CONNECTION_OPEN_METHOD_NAME));
        let slot = ConcurrentRequestPermit::acquire_connection_slot(&shared.connections)?;
        let allowed = target.determine_allowed_addresses(granted)?;
        let is_own = |name: &str| credential::is_header_set_by_credential(granted, &target, name);
        let mut headers = headers::check_plugin_request_headers(request.headers, is_own)?;
        check_subprotocols(&request.protocols)?;
        let offered = request.protocols.join(", ");
        if let Some(inspect) = &shared.options.inspect {
            let outgoing = OutgoingRequest {
                plugin: &shared.plugin,
                method: CONNECTION_OPEN_METHOD_NAME,
                url: target.url.as_str(),
                headers: &headers,
                body: offered.as_bytes(),
            };
            run_blocking_scan(outgoing.url.len(), || inspect(&outgoing))
                .map_err(|why| Error::new(EgressErrorKind::Content, why))?;
        }
        let addresses = target
            .resolve_addresses(allowed, &*shared.options.resolver)
            .await?;
        let secrets = &*shared.options.secrets;
        let (credentials, used) = credential::fill_credentials(granted, &target, secrets)?;
        mask.add_secrets(used)?;
        for (name, value) in credentials {
            headers.insert(name, value);
        }
        if !offered.is_empty() {
            let value =
                HeaderValue::from_str(&offered).map_err(|_| invalid_subprotocols_error())?;
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
        if let Some(canned) = &shared.options.canned_sockets {
            let messages = canned(&target.socket_url());
            let messages = messages.map_err(|why| Error::new(EgressErrorKind::Connect, why))?;
            return Ok((SocketPeer::Canned(messages), target, slot));
        }
        let stream = connect_stream(&target, &addresses).await?;
        let socket = perform_handshake(stream, &target, headers).await?;
        Ok((SocketPeer::Socket(Box::new(socket)), target, slot))
    }
}

fn invalid_subprotocols_error() -> Error {
    let text = format!(
        "at most {MAX_OFFERED_SUBPROTOCOLS} subprotocols can be offered, each of 1 to {MAX_SUBPROTOCOL_NAME_BYTES} letters, digits, `-`, `_` or `.`"
    );
    Error::new(EgressErrorKind::Header, text)
}

fn check_subprotocols(protocols: &[String]) -> Result<(), Error> {
    let is_fine = |name: &String| {
        (1..=MAX_SUBPROTOCOL_NAME_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match protocols.len() <= MAX_OFFERED_SUBPROTOCOLS && protocols.iter().all(is_fine) {
        true => Ok(()),
        false => Err(invalid_subprotocols_error()),
    }
}

/// Connects to the first checked address that answers, with TLS if the scheme is `https`.
async fn connect_stream(
    target: &RequestTarget,
    addresses: &[IpAddr],
) -> Result<Box<dyn ByteStream>, Error> {
    let connecting = async {
        let mut last = None;
        for address in addresses {
            match TcpStream::connect(SocketAddr::new(*address, target.port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(connection_failed_error(last.map(|e| e.to_string())))
    };
    let tcp = with_timeout(CONNECT_TIMEOUT, connecting).await?;
    // Sends small messages at once; the connection also works if this fails.
    let _ = tcp.set_nodelay(true);
    if target.scheme == UrlScheme::Http {
        return Ok(Box::new(tcp));
    }
    install_crypto_provider();
    // Runs on a blocking thread, because loading the system's certificates reads files.
    let config = tokio::task::spawn_blocking(build_tls_config).await;
    let config = config
        .map_err(|e| connection_failed_error(Some(e.to_string())))?
        .map_err(|e| connection_failed_error(Some(e.to_string())))?;
    let name = ServerName::try_from(target.host.clone()).map_err(|_| {
        connection_failed_error(Some("the host is not a name for a certificate".to_owned()))
    })?;
    let connector = TlsConnector::from(Arc::new(config));
    let tls = with_timeout(CONNECT_TIMEOUT, async {
        let connecting = connector.connect(name, tcp).await;
        connecting.map_err(|e| connection_failed_error(Some(e.to_string())))
    });
    Ok(Box::new(tls.await?))
}

fn build_tls_config() -> Result<ClientConfig, tokio_rustls::rustls::Error> {
    let builder = ClientConfig::builder().with_platform_verifier()?;
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn with_timeout<T>(
    limit: Duration,
    doing: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, doing).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(
            EgressErrorKind::Timeout,
            format!("the connection took longer than {limit:?}"),
        )),
    }
}

fn connection_failed_error(cause: Option<String>) -> Error {
    let cause = cause.unwrap_or_else(|| "no address answers".to_owned());
    let text = format!("the connection failed: {cause}");
    Error::new(
        EgressErrorKind::Connect,
        escape_and_truncate_line(&text, MAX_FAILURE_CAUSE_BYTES),
    )
}

/// Performs the WebSocket handshake with the server over `stream`.
async fn perform_handshake(
    stream: Box<dyn ByteStream>,
    target: &RequestTarget,
    headers: HeaderMap,
) -> Result<Socket, Error> {
    let refuse = |text: String| {
        Error::new(
            EgressErrorKind::Response,
            escape_and_truncate_line(&text, MAX_FAILURE_CAUSE_BYTES),
        )
    };
    let uri: Uri = target
        .socket_url()
        .parse()
        .map_err(|_| Error::new(EgressErrorKind::Url, "this URL cannot be sent"))?;
    let mut request: Request<()> = uri
        .into_client_request()
        .map_err(|error| refuse(format!("the handshake cannot be sent: {error}")))?;
    request.headers_mut().extend(headers);
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_WEBSOCKET_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_WEBSOCKET_MESSAGE_BYTES))
        .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES);
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(WireError::Http(answer)) => Err(convert_handshake_error(answer.status())),
        Err(WireError::Protocol(ProtocolError::HandshakeIncomplete)) => {
            Err(refuse("the server closed during the handshake".to_owned()))
        }
        Err(error) => Err(refuse(format!("the handshake failed: {error}"))),
    }
}

/// Returns the error for a response to the handshake that does not open the connection. A redirect
/// is not followed: few servers send one, and the plugin would not notice that it is connected to
/// another target.
fn convert_handshake_error(status: StatusCode) -> Error {
    if status.is_redirection() {
        let text = format!(
            "the server answered the handshake of the WebSocket with a redirect ({}), which is not followed; open the connection at its target",
            status.as_u16()
        );
        return Error::new(EgressErrorKind::Redirect, text);
    }
    let text = format!(
        "the server answered the handshake of the WebSocket with {} and opened no connection",
        status.as_u16()
    );
    Error::new(EgressErrorKind::Response, text)
}
