//! Tool calls of clients: started in the client's session, with questions and progress, and resumed
//! when the client returns with an answer.

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

use super::asked::{AskedQuestion, ClientApprover, RunningCall, UserAnswer};
use super::handler::ServerEnd;
use super::progress::CallProgress;
use super::session::{ProgressLine, ServedSession};
use rind_lib::host::{OutsideCall, OutsideResult};
use rind_lib::text::clean_line;
use rind_lib::tool::approval::Approver;

/// Maximum length of a client's name that the session stores, in bytes.
const MAX_CLIENT_BYTES: usize = 48;

/// A request of a client that becomes a call in the client's session.
pub(super) struct ClientCall {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    /// State of the waiting call to resume; `None` for a new call.
    pub(super) state: Option<String>,
    /// Answers of the user, keyed by question.
    pub(super) responses: InputResponses,
}

/// Outcome of a [`ClientCall`].
pub(super) enum ClientAnswer {
    /// The call has ended, or was refused.
    Ended(OutsideResult),
    /// The user of the client has to answer a question first.
    Asked(InputRequiredResult),
}

/// Returns the error for a tool that does not exist or is not offered.
pub(super) fn missing_tool(name: &str) -> ErrorData {
    let name = clean_line(name, 64);
    let text = format!("there is no tool `{name}`; `tools/list` lists the tools");
    ErrorData::invalid_params(text, None)
}

impl ServerEnd {
    /// Starts a call, or resumes one that waited for its user, and returns its result or its next
    /// question.
    pub(super) async fn answer_call(
        &self,
        request: ClientCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<ClientAnswer, ErrorData> {
        let (call, lines) = match request.state.clone() {
            Some(state) => match self.resume_call(request, &state)? {
                Resumed::Running(call, lines) => (*call, lines),
                Resumed::Asked(asked) => return Ok(ClientAnswer::Asked(asked)),
            },
            None => {
                let session = self.call_session().await?;
                let lines = session.progress.subscribe();
                (self.begin_call(request, context, session).await?, lines)
            }
        };
        let mut progress = CallProgress::new(context, call.origin.clone(), lines);
        let mut finished = std::pin::pin!(self.finish_call(call, context));
        let ended = loop {
            tokio::select! {
                biased;
                line = progress.next_line() => progress.send_progress_line(line).await,
                ended = &mut finished => break ended,
            }
        };
        progress.send_remaining_lines().await;
        ended
    }

    /// Starts a call in the client's session.
    async fn begin_call(
        &self,
        request: ClientCall,
        context: &RequestContext<RoleServer>,
        session: ServedSession,
    ) -> Result<RunningCall, ErrorData> {
        let Some(tools) = session.client.tools().list().await else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let Some(spec) = tools.iter().find(|spec| spec.name == request.tool) else {
            return Err(missing_tool(&request.tool));
        };
        let (asks, asked) = mpsc::channel(1);
        let approver =
            can_ask(context).then(|| Arc::new(ClientApprover(asks)) as Arc<dyn Approver>);
        let cancel = CancellationToken::new();
        let call = OutsideCall {
            tool: request.tool.clone(),
            arguments: Value::Object(request.arguments.clone()),
            client: client_name(context),
            approver,
            cancel: cancel.clone(),
        };
        let begun = session.client.begin_call(call);
        let result = begun.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(RunningCall {
            tool: request.tool,
            origin: spec.plugin.clone(),
            session,
            arguments: request.arguments,
            result,
            asked,
            _guard: cancel.drop_guard(),
        })
    }

    /// Waits for the result of a call, and passes its questions on to the user.
    async fn finish_call(
        &self,
        mut call: RunningCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<ClientAnswer, ErrorData> {
        loop {
            let asked = tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                result = &mut call.result => {
                    let lost = |_| ErrorData::internal_error("the session ended before the call did", None);
                    return Ok(ClientAnswer::Ended(result.map_err(lost)?));
                }
                Some(asked) = call.asked.recv() => asked,
            };
            if is_modern(context) {
                return self.ask_by_result(call, asked).map(ClientAnswer::Asked);
            }
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                () = ask_in_call(&context.peer, asked) => {}
            }
        }
    }

    /// Ends the request with a question. The call keeps running until the client returns with the
    /// answer.
    fn ask_by_result(
        &self,
        call: RunningCall,
        asked: AskedQuestion,
    ) -> Result<InputRequiredResult, ErrorData> {
        let question = InputRequest::Elicitation(asked.request.clone());
        let questions = [(asked.key.to_owned(), question)].into();
        let Some(state) = self.pending.keep_call(call, asked) else {
            let text = "too many calls wait for an answer of their users; call again later";
            return Err(ErrorData::internal_error(text, None));
        };
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Passes the user's answer to the call that waits for it.
    fn resume_call(&self, request: ClientCall, state: &str) -> Result<Resumed, ErrorData> {
        let pending = self
            .pending
            .take_call(state, &request.tool, &request.arguments);
        let Some(pending) = pending else {
            let text =
                "no call waits with this `requestState` and these arguments; call without it";
            return Err(ErrorData::invalid_params(text, None));
        };
        if pending.asked.reply.is_closed() {
            // The question has timed out; the call continues or has ended.
            let lines = pending.call.session.progress.subscribe();
            return Ok(Resumed::Running(Box::new(pending.call), lines));
        }
        let Some(given) = request.responses.get(pending.asked.key) else {
            // Without an answer, the same question is asked again.
            let asked = self.ask_by_result(pending.call, pending.asked);
            return asked.map(Resumed::Asked);
        };
        let lines = pending.call.session.progress.subscribe();
        // The call may have ended meanwhile; then its result is returned.
        let _ = pending.asked.reply.send(answer_of(given));
        Ok(Resumed::Running(Box::new(pending.call), lines))
    }
}

/// A call after its client returned.
enum Resumed {
    /// The call continues; with a receiver for its progress lines.
    Running(Box<RunningCall>, broadcast::Receiver<ProgressLine>),
    /// The question was not answered and is asked again.
    Asked(InputRequiredResult),
}

/// Asks the user during the request, for a client with the older protocol.
async fn ask_in_call(peer: &Peer<RoleServer>, asked: AskedQuestion) {
    let request = ServerRequest::ElicitRequest(asked.request);
    let answer = match peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(result)) => Ok(result),
        Ok(_) => Err("the client answered the question with something else".to_owned()),
        Err(error) => {
            let error = clean_line(&error.to_string(), 200);
            Err(format!("the client did not ask its user: {error}"))
        }
    };
    // Ignore the error: the call may have ended meanwhile.
    let _ = asked.reply.send(answer);
}

/// Parses an answer that the client sent with its request.
fn answer_of(given: &Value) -> UserAnswer {
    let parsed = serde_json::from_value::<ElicitResult>(given.clone());
    parsed.map_err(|_| "the client came back without an answer of its user".to_owned())
}

/// Whether the client can ask its user with a form.
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let own = context
        .client_capabilities()
        .and_then(|own| own.elicitation);
    // A client with the older protocol that names neither form nor URL supports forms.
    own.is_some_and(|own| own.form.is_some() || own.url.is_none())
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns the client's name for the session. The client chooses it, so it is not verified.
fn client_name(context: &RequestContext<RoleServer>) -> Arc<str> {
    let name = context
        .client_info()
        .map(|info| info.name)
        .unwrap_or_default();
    let name = clean_line(name.trim(), MAX_CLIENT_BYTES);
    match name.is_empty() {
        true => "client:unnamed".into(),
        false => format!("client:{name}").into(),
    }
}
