//! The server's end of a connection: answers to requests of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientResult, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, InitializeRequestParams, InitializeResult,
    InputRequest, InputRequiredResult, JsonObject, ListPromptsResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, PromptMessage, ProtocolVersion, Role,
    ServerCapabilities, ServerConfig, ServerRequest, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Map, Value};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::asked::{AskedQuestion, ClientApprover, PendingCalls, RunningCall};
use super::convert::{describe_result, describe_tool, read_answer};
use super::prompts::describe_prompt;
use super::session::{ProgressLine, ServedSession, ServingState};
use rind_lib::host::OutsideCall;
use rind_lib::text::clean_line;
use rind_lib::tool::approval::{ApprovalAnswer, Approver};

/// Longest name of a client that the session keeps, in bytes.
const MAX_CLIENT_BYTES: usize = 48;

/// Key of the question in a result that asks for input.
const QUESTION: &str = "approval";

/// Text for the model of a client.
const INSTRUCTIONS: &str = "Tools of plugins that Rind runs in a sandbox. Its operator's rules and guards judge each call: a refused \
                            call has a result that says who refused it and why.";

/// The server's end of a connection, or of one request without a connection.
pub(super) struct ServerEnd {
    state: Arc<ServingState>,
    pending: PendingCalls,
    /// Session of this connection.
    own: OnceCell<ServedSession>,
    /// Whether this is a stateful connection, with a session of its own.
    is_connection: AtomicBool,
    /// Slot among the open connections and requests.
    _place: Option<OwnedSemaphorePermit>,
}

impl ServerEnd {
    /// The server's end of an established connection.
    pub(super) fn of_connection(state: Arc<ServingState>) -> Self {
        Self {
            state,
            pending: PendingCalls::default(),
            own: OnceCell::new(),
            is_connection: AtomicBool::new(true),
            _place: None,
        }
    }

    /// The server's end of a request, which may establish a connection.
    pub(super) fn of_request(
        state: Arc<ServingState>,
        pending: PendingCalls,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            pending,
            is_connection: AtomicBool::new(false),
            _place: Some(place),
            ..Self::of_connection(state)
        }
    }

    /// Returns the session of the client, which is opened if it is not open.
    async fn session(&self) -> Result<ServedSession, ErrorData> {
        let cell = match self.is_connection.load(Ordering::Acquire) {
            true => &self.own,
            false => &self.state.shared,
        };
        let opened = cell.get_or_try_init(|| self.state.open_session()).await;
        opened.cloned().map_err(|why| {
            let text = format!("the session for the calls cannot be opened: {why}");
            ErrorData::internal_error(text, None)
        })
    }

    /// Begins a call in the session of the client.
    async fn begin_call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        session: &ServedSession,
    ) -> Result<RunningCall, ErrorData> {
        let (asks, asked) = mpsc::channel(1);
        let approver =
            can_ask(context).then(|| Arc::new(ClientApprover(asks)) as Arc<dyn Approver>);
        let cancel = CancellationToken::new();
        let arguments = request.arguments.unwrap_or_default();
        let call = OutsideCall {
            tool: request.name.to_string(),
            arguments: Value::Object(arguments.clone()),
            client: client_name(context),
            approver,
            cancel: cancel.clone(),
        };
        let begun = session.client.begin_call(call);
        let result = begun.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(RunningCall {
            tool: request.name.into_owned(),
            arguments,
            result,
            asked,
            _guard: cancel.drop_guard(),
        })
    }

    /// Waits for a call, and has its questions asked.
    async fn finish_call(
        &self,
        mut call: RunningCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        loop {
            let asked = tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the call was cancelled", None));
                }
                result = &mut call.result => {
                    let lost = |_| ErrorData::internal_error("the session ended before the call did", None);
                    return Ok(describe_result(result.map_err(lost)?).into());
                }
                Some(asked) = call.asked.recv() => asked,
            };
            if is_modern(context) {
                return self.ask_by_result(call, asked);
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

    /// Ends the request with a question. The call continues when the client returns with the
    /// answer.
    fn ask_by_result(
        &self,
        call: RunningCall,
        asked: AskedQuestion,
    ) -> Result<CallToolResponse, ErrorData> {
        let AskedQuestion { request, reply } = asked;
        let Some(state) = self.pending.keep_call(call, reply) else {
            let text = "too many calls wait for an answer of their users; call again later";
            return Err(ErrorData::internal_error(text, None));
        };
        let question = InputRequest::Elicitation(request);
        let questions = [(QUESTION.to_owned(), question)].into();
        Ok(InputRequiredResult::new(Some(questions), Some(state)).into())
    }

    /// Continues a call after its user was asked.
    async fn resume_call(
        &self,
        request: CallToolRequestParams,
        state: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let Some(pending) = self.pending.take_call(state, &request.name, &arguments) else {
            let text =
                "no call waits with this `requestState` and these arguments; call without it";
            return Err(ErrorData::invalid_params(text, None));
        };
        let given = request.input_responses.unwrap_or_default();
        // The call may have ended meanwhile; its result says so.
        let _ = pending.reply.send(answer_of(given.get(QUESTION)));
        self.finish_call(pending.call, context).await
    }
}

/// Asks the user of a client of the older protocol.
async fn ask_in_call(peer: &Peer<RoleServer>, asked: AskedQuestion) {
    let AskedQuestion { request, reply } = asked;
    let answer = match peer
        .send_request(ServerRequest::ElicitRequest(request))
        .await
    {
        Ok(ClientResult::ElicitResult(result)) => {
            read_answer(&result.action, result.content.as_ref())
        }
        Ok(_) => {
            ApprovalAnswer::No("the client answered the question with something else".to_owned())
        }
        Err(error) => {
            let error = clean_line(&error.to_string(), 200);
            ApprovalAnswer::No(format!("the client did not ask its user: {error}"))
        }
    };
    // The call may have ended meanwhile.
    let _ = reply.send(answer);
}

/// Reads an answer that came with a request.
fn answer_of(given: Option<&Value>) -> ApprovalAnswer {
    let parsed = given
        .cloned()
        .map(serde_json::from_value::<rmcp::model::ElicitResult>);
    match parsed {
        Some(Ok(result)) => read_answer(&result.action, result.content.as_ref()),
        _ => ApprovalAnswer::No("the client came back without an answer of its user".to_owned()),
    }
}

/// Whether the client can ask its user by a form.
fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let own = context
        .client_capabilities()
        .and_then(|own| own.elicitation);
    // A client of the older protocol that names no kind of elicitation supports forms.
    own.is_some_and(|own| own.form.is_some() || own.url.is_none())
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns the name of the client for the session. The client chooses it, so it proves nothing.
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

/// Tells the client of the progress of a call until the future is dropped.
async fn tell_progress(
    context: &RequestContext<RoleServer>,
    origin: Option<&str>,
    mut lines: broadcast::Receiver<ProgressLine>,
) {
    let (Some(token), Some(origin)) = (context.meta.get_progress_token(), origin) else {
        return std::future::pending().await;
    };
    let mut n_told = 0.0;
    loop {
        match lines.recv().await {
            Ok(line) if line.origin == origin && !line.text.is_empty() => {
                n_told += 1.0;
                let told = ProgressNotificationParam::new(token.clone(), n_told);
                // A client that is gone is noticed by the call itself.
                let _ = context
                    .peer
                    .notify_progress(told.with_message(line.text))
                    .await;
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

impl ServerHandler for ServerEnd {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rind", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.is_connection.store(true, Ordering::Release);
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    /// Tells a client of the older protocol when the tools have changed.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(session) = self.session().await else {
            return;
        };
        let (peer, mut tools) = (context.peer.clone(), session.client.tools());
        tokio::spawn(async move {
            // The first list is no change.
            let mut is_open = tools.list().await.is_some();
            while is_open && tools.wait_changed().await {
                is_open = peer.notify_tool_list_changed().await.is_ok();
            }
        });
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session().await?;
        let Some(tools) = session.client.tools().list().await else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let tools = tools.iter().map(|spec| describe_tool(spec)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(state) = request.request_state.clone() {
            return self.resume_call(request, &state, &context).await;
        }
        let session = self.session().await?;
        let Some(tools) = session.client.tools().list().await else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let Some(spec) = tools.iter().find(|spec| spec.name == *request.name) else {
            let name = clean_line(&request.name, 64);
            let text =
                format!("there is no tool `{name}`; `tools/list` names those that there are");
            return Err(ErrorData::invalid_params(text, None));
        };
        let lines = session.progress.subscribe();
        let call = self.begin_call(request, &context, &session).await?;
        tokio::select! {
            ended = self.finish_call(call, &context) => ended,
            () = tell_progress(&context, spec.plugin.as_deref(), lines) => {
                Err(ErrorData::internal_error("the call was lost", None))
            }
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all = self.state.serving.prompts.list_prompts().into_iter();
        Ok(ListPromptsResult::with_all_items(
            all.map(describe_prompt).collect(),
        ))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompts = &self.state.serving.prompts;
        let arguments: JsonObject = request.arguments.unwrap_or_default();
        let arguments: Map<String, Value> = arguments.into_iter().collect();
        let rendered = prompts.render_prompt(&request.name, arguments).await;
        let text = rendered.map_err(|why| ErrorData::invalid_params(why, None))?;
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).into())
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        Some(filter)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut tools = self.session().await?.client.tools();
        // The first list is no change.
        let mut is_open = tools.list().await.is_some();
        while is_open {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                serves = tools.wait_changed() => is_open = serves,
            }
            is_open &= context.sink().notify_tool_list_changed().await.is_ok();
        }
        Ok(())
    }
}
