//! Queues calls and requests of clients, within limits, and publishes the tools that are offered to
//! them.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::foreign::{ExternalAgentRequest, VerdictForExternalAgent};
use crate::message::{Parts, ToolSpec};
use crate::tool::approval::Approver;

/// Maximum number of clients' tool calls that wait to be run.
const MAX_QUEUED_CLIENT_CALLS: usize = 256;

/// Maximum total size of the arguments of waiting and running calls, in KiB of JSON.
const MAX_PENDING_CALL_ARGUMENTS_KIB: u32 = 64 << 10;

/// Tool call that a client makes in the session.
pub struct ClientToolCall {
    /// Name of the tool to call.
    pub tool: String,
    /// Arguments of the call, as the client wrote them.
    pub arguments: Value,
    /// Name of the client, such as `client:editor`; the session and the events record it as the
    /// caller. Names of plugins cannot contain a `:`.
    pub client: Arc<str>,
    /// Object that asks the user of the client about this call; `None` if the client cannot ask its
    /// user.
    pub approver: Option<Arc<dyn Approver>>,
    /// Token whose cancellation cancels the call.
    pub cancel: CancellationToken,
}

/// Result of a tool call that a client made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientToolCallResult {
    /// Content of the tool's result, after the hooks have checked and changed it.
    pub content: Parts,
    /// Bytes of the blobs in the content, in order; `None` for an unreadable blob.
    pub bytes: Vec<Option<Vec<u8>>>,
    /// Whether the call failed or was refused.
    pub is_error: bool,
    /// Source of a refusal: `host`, `policy`, `user`, `plugin NAME` or `skill NAME`.
    pub refused_by: Option<String>,
}

/// Call or request that a client sends to the session.
pub(super) enum QueuedClientRequest {
    /// Call of a tool of this session, and the sender for its result.
    Call(ClientToolCall, oneshot::Sender<ClientToolCallResult>),
    /// Request of another agent for a verdict on something that the agent does itself.
    Foreign(
        ExternalAgentRequest,
        oneshot::Sender<VerdictForExternalAgent>,
    ),
}

impl QueuedClientRequest {
    pub(super) fn client(&self) -> &Arc<str> {
        match self {
            Self::Call(call, _) => &call.client,
            Self::Foreign(request, _) => &request.client,
        }
    }
}

/// Request of a client that is queued or in progress.
pub(super) struct PendingClientRequest {
    pub(super) request: QueuedClientRequest,
    /// Permit that counts the size of the call's arguments toward the limit
    /// `MAX_PENDING_CALL_ARGUMENTS_KIB`.
    pub(super) room: OwnedSemaphorePermit,
}

/// Filter for tools: returns true for those that are offered to clients.
pub(super) type ClientToolFilter = Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>;

/// Tools that are offered to clients; `None` until the session begins to serve calls.
type ClientOfferedTools = Option<Arc<[Arc<ToolSpec>]>>;

/// Receiving end of the channel, which the session has: receives calls and publishes the tools that
/// are offered to clients.
pub struct ClientToolCallReceiver {
    pub(super) calls: mpsc::Receiver<PendingClientRequest>,
    pub(super) is_offered: ClientToolFilter,
    tools: watch::Sender<ClientOfferedTools>,
}

/// Sending end of the channel through which clients call tools; each client has a clone. Cheap to
/// clone; the session stops serving when the last clone is dropped.
#[derive(Clone)]
pub struct ClientToolCallSender {
    calls: mpsc::Sender<PendingClientRequest>,
    tools: ClientOfferedToolsReceiver,
    /// Permits for the total size of the arguments of all unfinished calls, one permit per KiB.
    room: Arc<Semaphore>,
}

/// Receiver of the list of tools that a session offers to clients, updated when the list changes.
/// Cheap to clone. A session stops serving calls even if this receiver still exists.
#[derive(Clone)]
pub struct ClientOfferedToolsReceiver(watch::Receiver<ClientOfferedTools>);

impl ClientToolCallReceiver {
    /// Creates both ends of the channel. Only tools for which `is_offered` returns true are listed
    /// and can be called.
    #[must_use]
    pub fn new(
        is_offered: impl Fn(&ToolSpec) -> bool + Send + Sync + 'static,
    ) -> (Self, ClientToolCallSender) {
        let (sender, calls) = mpsc::channel(MAX_QUEUED_CLIENT_CALLS);
        let (tools, told) = watch::channel(None);
        let session = Self {
            calls,
            is_offered: Arc::new(is_offered),
            tools,
        };
        let client = ClientToolCallSender {
            calls: sender,
            tools: ClientOfferedToolsReceiver(told),
            room: Arc::new(Semaphore::new(MAX_PENDING_CALL_ARGUMENTS_KIB as usize)),
        };
        (session, client)
    }

    /// Publishes the list of tools that clients may call; receivers wake up only if it has changed.
    pub(super) fn publish_tools(&self, all: Vec<Arc<ToolSpec>>) {
        let offered = all.into_iter().filter(|spec| (self.is_offered)(spec));
        let offered: Arc<[Arc<ToolSpec>]> = offered.collect();
        self.tools.send_if_modified(|told| {
            let is_other = told.as_ref() != Some(&offered);
            *told = Some(offered);
            is_other
        });
    }
}

impl ClientToolCallSender {
    /// Returns a receiver for the list of tools that clients may call, which may change.
    #[must_use]
    pub fn tools(&self) -> ClientOfferedToolsReceiver {
        self.tools.clone()
    }

    /// Queues a call, and returns the receiver of its result. The receiver fails if the session
    /// ends before the call does.
    ///
    /// # Errors
    /// Reason, as a sentence: too many calls or arguments are queued, or the session has ended.
    pub fn queue_tool_call(
        &self,
        call: ClientToolCall,
    ) -> Result<oneshot::Receiver<ClientToolCallResult>, String> {
        let n_bytes = call.arguments.to_string().len();
        let (reply, result) = oneshot::channel();
        self.queue_client_request(n_bytes, QueuedClientRequest::Call(call, reply))?;
        Ok(result)
    }

    /// Queues a request for permission for something that the client does itself, and returns the
    /// receiver of the verdict. The receiver fails if the session ends before the verdict.
    ///
    /// # Errors
    /// As for [`Self::queue_tool_call`].
    pub fn queue_external_agent_request(
        &self,
        request: ExternalAgentRequest,
    ) -> Result<oneshot::Receiver<VerdictForExternalAgent>, String> {
        let (reply, verdict) = oneshot::channel();
        self.queue_client_request(
            request.n_bytes(),
            QueuedClientRequest::Foreign(request, reply),
        )?;
        Ok(verdict)
    }

    /// Whether the session has ended and accepts no further calls.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    fn queue_client_request(
        &self,
        n_bytes: usize,
        request: QueuedClientRequest,
    ) -> Result<(), String> {
        let n_kib = (n_bytes >> 10).saturating_add(1);
        let n_kib = u32::try_from(n_kib).unwrap_or(u32::MAX);
        if n_kib > MAX_PENDING_CALL_ARGUMENTS_KIB {
            return Err(format!(
                "the arguments have {n_kib} KiB, at most {MAX_PENDING_CALL_ARGUMENTS_KIB} are accepted"
            ));
        }
        let room = self
            .room
            .clone()
            .try_acquire_many_owned(n_kib)
            .map_err(|_| {
                format!(
                    "the waiting calls already hold {} MiB of arguments; call again when some of them have ended",
                    MAX_PENDING_CALL_ARGUMENTS_KIB >> 10
                )
            })?;
        match self.calls.try_send(PendingClientRequest { request, room }) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(format!(
                "{MAX_QUEUED_CLIENT_CALLS} calls are already waiting; call again when some of them have ended"
            )),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                Err("the session that serves the calls has ended".to_owned())
            }
        }
    }
}

impl ClientOfferedToolsReceiver {
    /// Returns the tools that the session published last; `None` if it has not published any yet.
    #[must_use]
    pub fn last_published_tools(&self) -> Option<Arc<[Arc<ToolSpec>]>> {
        self.0.borrow().clone()
    }

    /// Waits until the session accepts tool calls from outside, and returns the tools that it
    /// offers; `None` if the session has ended.
    pub async fn wait_for_list(&mut self) -> Option<Arc<[Arc<ToolSpec>]>> {
        let told = self.0.wait_for(Option::is_some).await.ok()?;
        told.clone()
    }

    /// Waits until the offered tools change. Returns false if the session has stopped serving.
    pub async fn wait_until_tools_change(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
