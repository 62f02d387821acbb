//! Connects to an MCP server: starts it, negotiates the protocol version and calls its tools.
//! Listing the tools is in `tool_list`; requests for prompts and resources are in `listing`.
//!
//! Start from [`McpServerConnection::open`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ErrorData, JsonObject, ProtocolVersion, ServerCapabilities,
    SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, Peer, RunningService};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};
use rmcp::{ClientCacheConfig, ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};

use super::end::McpClientHandler;
use super::http::McpEgressHttpTransport;
use super::login::login_required_text;
use super::offer::ServerToolsAndPrompts;
use super::pipe::{NonMessageLineStats, ServerStdioTransport, UNPARSABLE_ANSWER_ERROR_CODE};
use super::prompt::separate_unusable_prompts;
use super::result;
use super::server::{McpServerConnectionSpec, McpServerProgramOrUrl};
use super::settings::McpProtocol;
use super::streams::ConnectionEventStreams;
use rind_lib::egress;
use rind_lib::point::handle::AgentHandle;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::ToolOutput;
use rind_lib::tool::peer::PeerProcessEndWatch;

/// Timeout for the answer to the first message. It is long because `npx` may download the server
/// first.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of times that a tool call is sent. The library sends the call again with the
/// user's answer after each question of the server.
const MAX_SENDS_PER_TOOL_CALL: usize = 4;

/// Maximum length of the server's message in an error, in bytes.
const MAX_SERVER_ERROR_MESSAGE_BYTES: usize = 400;

/// Maximum length of a server's instructions, in bytes; longer ones are truncated.
const MAX_SERVER_INSTRUCTIONS_BYTES: usize = 64 << 10;

/// Open connection to an MCP server. Dropping the connection stops the server program.
pub(crate) struct McpServerConnection {
    service: RunningService<RoleClient, McpClientHandler>,
    /// Handle that reports why the server program ended; `None` for a server that is reached over
    /// HTTP.
    end: Option<PeerProcessEndWatch>,
    /// Output lines of the server program that are not messages.
    garbage: NonMessageLineStats,
    name: String,
    is_modern: bool,
    /// Event streams of a server that is reached over HTTP.
    streams: ConnectionEventStreams,
}

/// Failure of a tool call or another request, phrased to follow "the server".
pub(crate) enum McpRequestError {
    /// The server answered the request with an error.
    Refused(String),
    /// The MCP server ended, or its connection was closed.
    Ended(String),
}

/// Failure to reach a server, phrased to follow "the server".
pub(crate) enum McpServerConnectError {
    /// The server refused the first message of the connection.
    Refused(String),
    /// The server accepts requests only after a login.
    Unauthorized(String),
    Failed(String),
}

impl McpServerConnectError {
    /// Returns the reason of the failure, phrased to follow "the server".
    pub(crate) fn into_reason_phrase(self) -> String {
        match self {
            Self::Refused(why) | Self::Unauthorized(why) | Self::Failed(why) => why,
        }
    }
}

impl McpServerConnection {
    /// Starts a server, or connects to it. Requests over HTTP are recorded with `handle`.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn open(
        server: &McpServerConnectionSpec,
        handle: &Arc<dyn AgentHandle>,
        end: &McpClientHandler,
    ) -> Result<Self, McpServerConnectError> {
        let by_initialize = ClientLifecycleMode::Initialize;
        let by_discover = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        let open = |lifecycle| try_open_connection(server, handle, end.clone(), lifecycle);
        match server.protocol_version() {
            McpProtocol::Discover => open(by_discover).await,
            McpProtocol::Initialize => open(by_initialize).await,
            // Do not probe with `server/discover` first: some older servers exit at an unknown
            // request, and some start backends that they would otherwise start at the first call.
            McpProtocol::Auto => match open(by_initialize).await {
                Err(McpServerConnectError::Refused(_)) => open(by_discover).await,
                other => other,
            },
        }
    }

    /// Whether the connection to the server is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Lists the tools and prompts of the server.
    ///
    /// # Errors
    /// Reason, phrased to follow "the server".
    pub(crate) async fn list_tools_and_prompts(&self) -> Result<ServerToolsAndPrompts, String> {
        let (listed, unread) = self.list_tools().await?;
        let (tools, mut refused) =
            ServerToolsAndPrompts::separate_unusable_tools(&self.name, listed);
        refused.extend(unread);
        // If the prompts cannot be listed, return an offer without prompts. The comparison with the
        // approved offer (the pin) then withholds the approved prompts.
        let prompts = match self.list_prompts().await {
            Ok(listed) => {
                let (prompts, others) = separate_unusable_prompts(&self.name, listed);
                refused.extend(others);
                prompts
            }
            Err(why) => {
                refused.push(format!("its prompts: it {why}"));
                Vec::new()
            }
        };
        let mut offer = ServerToolsAndPrompts {
            tools,
            prompts,
            refused,
            ..ServerToolsAndPrompts::default()
        };
        if let Some(info) = self.service.peer().peer_info() {
            if let Some(own) = &info.server_info {
                let name = escape_and_truncate_line(&own.name, 64);
                offer.server = format!("{name} {}", escape_and_truncate_line(&own.version, 32));
            }
            offer.protocol = escape_and_truncate_line(info.protocol_version.as_str(), 32);
            offer.instructions = info.instructions.clone().map(|mut text| {
                text.truncate(text.floor_char_boundary(MAX_SERVER_INSTRUCTIONS_BYTES));
                text
            });
        }
        Ok(offer)
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, McpRequestError> {
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        // A server with the newer protocol returns its question as the result of the call. The
        // library then sends the call again with the user's answer.
        let called = self
            .service
            .call_tool_with_mrtr_max_rounds(call, MAX_SENDS_PER_TOOL_CALL)
            .await;
        match called {
            Ok(result) => Ok(result::convert_tool_result(result)),
            Err(ServiceError::UnexpectedResponse) => Err(McpRequestError::Refused(
                "answered with something else than a result, such as a task, which this host does not support"
                    .to_owned(),
            )),
            Err(error) => Err(self.classify_request_error(error).await),
        }
    }

    /// Returns whether the server has announced a change of its tools or prompts, and resets this
    /// state.
    pub(crate) fn take_list_changed_flag(&self) -> bool {
        let is_changed = &self.service.service().is_changed;
        is_changed.swap(false, Ordering::AcqRel)
    }

    /// Subscribes to change announcements of a server with the newer protocol, in a task that ends
    /// with the connection. Servers with the older protocol announce changes without a
    /// subscription.
    pub(crate) fn subscribe_to_list_changes(&self) {
        // Do not subscribe over HTTP: the response to the subscription never ends, and the
        // transport reads each response to its end.
        if !self.is_modern || self.end.is_none() {
            return;
        }
        let (peer, own) = (self.service.peer().clone(), self.service.service().clone());
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        tokio::spawn(async move {
            let Ok(mut changes) = peer.listen(filter).await else {
                return;
            };
            while let Ok(Some(_)) = changes.next().await {
                own.signal_list_change();
            }
        });
    }

    pub(crate) fn request_sender(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Returns the name under which the settings list the server.
    pub(crate) fn server_name(&self) -> &str {
        &self.name
    }

    /// Whether the server declares the capability that `what` selects.
    pub(crate) fn declares_capability(&self, what: impl Fn(&ServerCapabilities) -> bool) -> bool {
        let info = self.service.peer().peer_info();
        info.is_some_and(|info| what(&info.capabilities))
    }

    /// Describes output lines of the server program that are not messages, because they may explain
    /// a failure; empty if there are none.
    pub(crate) fn describe_non_message_lines(&self) -> String {
        self.garbage.describe()
    }

    pub(crate) async fn classify_request_error(&self, error: ServiceError) -> McpRequestError {
        match error {
            ServiceError::McpError(error) if error.code == UNPARSABLE_ANSWER_ERROR_CODE => {
                McpRequestError::Refused(describe_unparsable_answer(&error))
            }
            ServiceError::McpError(error) => McpRequestError::Refused(format!(
                "answered with an error: {} ({})",
                escape_and_truncate_line(&error.message, MAX_SERVER_ERROR_MESSAGE_BYTES),
                error.code.0
            )),
            ServiceError::UnexpectedResponse => {
                McpRequestError::Refused("answered with something else than a result".to_owned())
            }
            ServiceError::TransportClosed => {
                match (&self.end, self.streams.take_resume_failure_reason()) {
                    // The connection still works: only the event stream with this answer was
                    // abandoned.
                    (None, Some(why)) => McpRequestError::Refused(why),
                    (None, None) => McpRequestError::Ended("closed the connection".to_owned()),
                    (Some(end), _) => McpRequestError::Ended(end.wait_for_end_reason().await),
                }
            }
            ServiceError::TransportSend(error) => {
                let why = login_instructions(&error, &self.name).unwrap_or_else(|| {
                    format!("is not reached: {}", transport_failure_text(&error))
                });
                match self.is_closed() {
                    true => McpRequestError::Ended(why),
                    false => McpRequestError::Refused(why),
                }
            }
            other => {
                let text =
                    escape_and_truncate_line(&other.to_string(), MAX_SERVER_ERROR_MESSAGE_BYTES);
                McpRequestError::Refused(format!("did not answer: {text}"))
            }
        }
    }
}

impl McpRequestError {
    /// Returns the reason of the failure, phrased to follow "the server".
    pub(crate) fn into_error_phrase(self) -> String {
        match self {
            Self::Refused(why) | Self::Ended(why) => why,
        }
    }
}

/// Describes an answer that cannot be read, phrased to follow "the server".
fn describe_unparsable_answer(error: &ErrorData) -> String {
    format!(
        "gave an answer that is not a valid message: {}",
        escape_and_truncate_line(&error.message, MAX_SERVER_ERROR_MESSAGE_BYTES)
    )
}

async fn try_open_connection(
    server: &McpServerConnectionSpec,
    handle: &Arc<dyn AgentHandle>,
    own: McpClientHandler,
    lifecycle: ClientLifecycleMode,
) -> Result<McpServerConnection, McpServerConnectError> {
    let is_modern = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
    let mut garbage = NonMessageLineStats::default();
    let mut streams = ConnectionEventStreams::default();
    let (served, end) = match &server.reach {
        McpServerProgramOrUrl::Program(program) => {
            let peer = program
                .start()
                .await
                .map_err(McpServerConnectError::Failed)?;
            let end = peer.end.clone();
            let transport = ServerStdioTransport::new(peer);
            garbage = transport.non_message_lines();
            let served = own.serve_with_lifecycle(transport, lifecycle);
            (
                tokio::time::timeout(SERVER_START_TIMEOUT, served).await,
                Some(end),
            )
        }
        McpServerProgramOrUrl::Http(address) => {
            let client = McpEgressHttpTransport::new(address, handle);
            streams = client.server_event_streams();
            let config = StreamableHttpClientTransportConfig::with_uri(address.url.clone());
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let served = own.serve_with_lifecycle(transport, lifecycle);
            (
                tokio::time::timeout(SERVER_START_TIMEOUT, served).await,
                None,
            )
        }
    };
    match served {
        Ok(Ok(service)) => {
            // Disable the library's cache: the server decides how long a cached list is valid, but
            // a comparison with the pin needs a fresh list.
            let cache = ClientCacheConfig::disabled();
            service.peer().set_response_cache_config(cache).await;
            Ok(McpServerConnection {
                service,
                end,
                garbage,
                name: server.name.clone(),
                is_modern,
                streams,
            })
        }
        Ok(Err(error)) => Err(to_connect_failure(error, end, &server.name).await),
        Err(_) => Err(McpServerConnectError::Failed(format!(
            "did not answer the first message (`initialize`) within {} s{}",
            SERVER_START_TIMEOUT.as_secs(),
            garbage.describe()
        ))),
    }
}

async fn to_connect_failure(
    error: ClientInitializeError,
    end: Option<PeerProcessEndWatch>,
    name: &str,
) -> McpServerConnectError {
    match (error, end) {
        (ClientInitializeError::JsonRpcError(error), _)
            if error.code == UNPARSABLE_ANSWER_ERROR_CODE =>
        {
            McpServerConnectError::Failed(describe_unparsable_answer(&error))
        }
        (ClientInitializeError::JsonRpcError(error), _) => McpServerConnectError::Refused(format!(
            "refused the connection: {} ({})",
            escape_and_truncate_line(&error.message, MAX_SERVER_ERROR_MESSAGE_BYTES),
            error.code.0
        )),
        (ClientInitializeError::ConnectionClosed(_), Some(end)) => {
            McpServerConnectError::Failed(end.wait_for_end_reason().await)
        }
        (ClientInitializeError::TransportError { error, .. }, _) => {
            match login_instructions(&error, name) {
                Some(words) => McpServerConnectError::Unauthorized(words),
                None => McpServerConnectError::Failed(format!(
                    "is not reached: {}",
                    transport_failure_text(&error)
                )),
            }
        }
        (error, _) => {
            let text = escape_and_truncate_line(&error.to_string(), MAX_SERVER_ERROR_MESSAGE_BYTES);
            McpServerConnectError::Failed(format!(
                "did not begin the connection as the MCP protocol requires: {text}"
            ))
        }
    }
}

/// Describes how to log in, if the server refused a request for lack of a login; `None` for other
/// failures.
fn login_instructions(error: &DynamicTransportError, name: &str) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
    while let Some(error) = cause {
        if let Some(asked) = error.downcast_ref::<AuthRequiredError>() {
            return Some(login_required_text(name, &asked.www_authenticate_header));
        }
        cause = error.source();
    }
    None
}

/// Describes why the transport failed. For an HTTP request, this is the error text of the egress
/// without the text of the protocol library.
fn transport_failure_text(error: &DynamicTransportError) -> String {
    let cause = error.error.as_ref();
    let of_http = cause.downcast_ref::<StreamableHttpError<egress::Error>>();
    let text = match of_http {
        Some(StreamableHttpError::Client(error)) => error.to_string(),
        Some(error) => error.to_string(),
        None => cause.to_string(),
    };
    escape_and_truncate_line(&text, MAX_SERVER_ERROR_MESSAGE_BYTES)
}
