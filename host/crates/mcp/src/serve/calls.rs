//! Runs the tool calls of clients: starts them in the client's session, forwards questions and
//! progress, and resumes a suspended call when the client sends the user's answer.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    ClientResult, ElicitResult, InputRequest, InputRequiredResult, InputResponses, JsonObject,
    ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::asked::{
    ClientUserAnswer, ClientUserQuestion, McpClientUserApprover, RunningClientToolCall,
};
use super::handler::McpServerRequestHandler;
use super::progress::ToolCallProgressSender;
use super::session::{HostSessionForClients, ToolCallProgressLine};
use rind_lib::host::{ClientToolCall, ClientToolCallResult};
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::approval::Approver;

/// Maximum length of a client's name that the session stores, in bytes.
const MAX_CLIENT_NAME_BYTES: usize = 48;

/// Request of a client to call a tool, or to resume a suspended call.
pub(super) struct ClientToolCallRequest {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    /// State string of the suspended call to resume; `None` for a new call.
    pub(super) state: Option<String>,
    /// Answers that the client's user gave, by the key of the question.
    pub(super) responses: InputResponses,
}

/// Outcome of a [`ClientToolCallRequest`].
pub(super) enum ClientToolCallOutcome {
    /// The tool call has ended, or was refused.
    Ended(ClientToolCallResult),
    /// The user of the client has to answer a question first.
    Asked(InputRequiredResult),
}

/// Returns the error for a tool that does not exist or is not offered.
pub(super) fn unknown_tool_error(name: &str) -> ErrorData {
    let name = escape_and_truncate_line(name, 64);
    let text = format!("there is no tool `{name}`; `tools/list` lists the tools");
    ErrorData::invalid_params(text, None)
}

impl McpServerRequestHandler {
    /// Starts a tool call of a client or resumes a suspended one. Returns the call's result, or the
    /// question that the client must ask its user next.
    pub(super) async fn start_or_resume_call(
        &self,
        request: ClientToolCallRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<ClientToolCallOutcome, ErrorData> {
        let (call, lines) = match request.state.clone() {
            Some(state) => match self.resume_call(request, &state)? {
                ResumeToolCallOutcome::Running(call, lines) => (*call, lines),
                ResumeToolCallOutcome::Asked(asked) => {
                    return Ok(ClientToolCallOutcome::Asked(asked));
                }
            },
            None => {
                let session = self.session_for_call().await?;
                let lines = session.progress.subscribe();
                (
                    self.start_client_tool_call(request, context, session)
                        .await?,
                    lines,
                )
            }
        };
        let mut progress = ToolCallProgressSender::new(context, call.origin.clone(), lines);
        let mut finished = std::pin::pin!(self.await_call_outcome(call, context));
        let ended = loop {
            tokio::select! {
                biased;
                line = progress.next_progress_line() => progress.send_progress_line(line).await,
                ended = &mut finished => break ended,
            }
        };
        progress.send_remaining_lines().await;
        ended
    }

    /// Starts a client's tool call in the session `session`.
    async fn start_client_tool_call(
        &self,
        request: ClientToolCallRequest,
        context: &RequestContext<RoleServer>,
        session: HostSessionForClients,
    ) -> Result<RunningClientToolCall, ErrorData> {
        let Some(tools) = session.client.tools().wait_for_list().await else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let Some(spec) = tools.iter().find(|spec| spec.name == request.tool) else {
            return Err(unknown_tool_error(&request.tool));
        };
        let (asks, asked) = mpsc::channel(1);
        let approver = can_client_ask_user(context)
            .then(|| Arc::new(McpClientUserApprover(asks)) as Arc<dyn Approver>);
        let cancel = CancellationToken::new();
        let call = ClientToolCall {
            tool: request.tool.clone(),
            arguments: Value::Object(request.arguments.clone()),
            client: read_client_name(context),
            approver,
            cancel: cancel.clone(),
        };
        let begun = session.client.queue_tool_call(call);
        let result = begun.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(RunningClientToolCall {
            tool: request.tool,
            origin: spec.plugin.clone(),
            session,
            arguments: request.arguments,
            result,
            asked,
            _guard: cancel.drop_guard(),
        })
    }

    /// Waits for the result of a call, and forwards the questions of the call to the user.
    async fn await_call_outcome(
        &self,
        mut call: RunningClientToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<ClientToolCallOutcome, ErrorData> {
        loop {
            let asked = tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                result = &mut call.result => {
                    let lost = |_| ErrorData::internal_error("the session ended before the call did", None);
                    return Ok(ClientToolCallOutcome::Ended(result.map_err(lost)?));
                }
                Some(asked) = call.asked.recv() => asked,
            };
            if is_newer_protocol_client(context) {
                return self
                    .suspend_call_with_question(call, asked)
                    .map(ClientToolCallOutcome::Asked);
            }
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                () = ask_user_during_request(&context.peer, asked) => {}
            }
        }
    }

    /// Ends the request with a question. The call is suspended until the client sends the answer.
    fn suspend_call_with_question(
        &self,
        call: RunningClientToolCall,
        asked: ClientUserQuestion,
    ) -> Result<InputRequiredResult, ErrorData> {
        let question = InputRequest::Elicitation(asked.request.clone());
        let questions = [(asked.key.to_owned(), question)].into();
        let Some(state) = self.pending.store_suspended_call(call, asked) else {
            let text = "too many calls wait for an answer of their users; call again later";
            return Err(ErrorData::internal_error(text, None));
        };
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Passes the user's answer to the call that waits for it.
    fn resume_call(
        &self,
        request: ClientToolCallRequest,
        state: &str,
    ) -> Result<ResumeToolCallOutcome, ErrorData> {
        let pending = self
            .pending
            .take_suspended_call(state, &request.tool, &request.arguments);
        let Some(pending) = pending else {
            let text =
                "no call waits with this `requestState` and these arguments; call without it";
            return Err(ErrorData::invalid_params(text, None));
        };
        if pending.asked.reply.is_closed() {
            // The question has timed out, and the call continues or has ended without an answer.
            let lines = pending.call.session.progress.subscribe();
            return Ok(ResumeToolCallOutcome::Running(
                Box::new(pending.call),
                lines,
            ));
        }
        let Some(given) = request.responses.get(pending.asked.key) else {
            // The client sent no answer, so ask the same question again.
            let asked = self.suspend_call_with_question(pending.call, pending.asked);
            return asked.map(ResumeToolCallOutcome::Asked);
        };
        let lines = pending.call.session.progress.subscribe();
        // Ignore the error: the call may have ended meanwhile, and its result is returned.
        let _ = pending.asked.reply.send(parse_user_answer(given));
        Ok(ResumeToolCallOutcome::Running(
            Box::new(pending.call),
            lines,
        ))
    }
}

/// Outcome of resuming a call after its client sent the request again.
enum ResumeToolCallOutcome {
    /// The call continues; contains a receiver for its progress lines.
    Running(
        Box<RunningClientToolCall>,
        broadcast::Receiver<ToolCallProgressLine>,
    ),
    /// The client sent no answer of its user, so the question is asked again.
    Asked(InputRequiredResult),
}

/// Asks the user during the request, for a client with the older protocol.
async fn ask_user_during_request(peer: &Peer<RoleServer>, asked: ClientUserQuestion) {
    let request = ServerRequest::ElicitRequest(asked.request);
    let answer = match peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(result)) => Ok(result),
        Ok(_) => Err(
            "the client did not answer the question, but sent a result of another kind".to_owned(),
        ),
        Err(error) => {
            let error = escape_and_truncate_line(&error.to_string(), 200);
            Err(format!("the client did not ask its user: {error}"))
        }
    };
    // Ignore the error: the call may have ended meanwhile.
    let _ = asked.reply.send(answer);
}

/// Parses the answer of its user that a client sent with its request.
fn parse_user_answer(given: &Value) -> ClientUserAnswer {
    let parsed = serde_json::from_value::<ElicitResult>(given.clone());
    parsed.map_err(|_| "the client sent the request again without its user's answer".to_owned())
}

/// Whether the client can ask its user with a form.
fn can_client_ask_user(context: &RequestContext<RoleServer>) -> bool {
    let own = context
        .client_capabilities()
        .and_then(|own| own.elicitation);
    // A client with the older protocol that declares neither form nor URL supports forms.
    own.is_some_and(|own| own.form.is_some() || own.url.is_none())
}

fn is_newer_protocol_client(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns the client's name for the session. The client chooses it, so it is not verified.
fn read_client_name(context: &RequestContext<RoleServer>) -> Arc<str> {
    let name = context
        .client_info()
        .map(|info| info.name)
        .unwrap_or_default();
    let name = escape_and_truncate_line(name.trim(), MAX_CLIENT_NAME_BYTES);
    match name.is_empty() {
        true => "client:unnamed".into(),
        false => format!("client:{name}").into(),
    }
}
