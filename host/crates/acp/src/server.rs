//! A connection to a client: reads messages, runs each request in its own task, and shuts down
//! cleanly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rind_lib::lock::lock_ignoring_poison;
use rind_lib::text::escape_and_truncate_line;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ask::PreSessionFormAsker;
use crate::backend::{AcpSessionOpener, YesNoQuestionAsker};
use crate::client::{AcpClientCapabilities, AcpClientHandle};
use crate::lines::{ClientInputLine, ClientOutputLineQueue, MAX_INPUT_LINE_BYTES};
use crate::live::OpenAcpSession;
use crate::prompt::ConvertedPromptInput;
use crate::rpc::{ClientMessage, parse_message, to_json_or_null};
use crate::sessions::{AcpSessionOpenRequest, OpenAcpSessions};
use crate::wire::{
    AgentCapabilities, AuthenticateRequest, CancelNotification, CancelRequestNotification,
    CloseSessionRequest, CloseSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, LoadSessionRequest, LoadSessionResponse,
    McpCapabilities, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    PromptResponse, ProtocolVersion, RequestId, ResumeSessionRequest, ResumeSessionResponse,
    SessionCapabilities, SessionCloseCapabilities, SessionConfigOptionValue,
    SessionListCapabilities, SessionResumeCapabilities, SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse, WireError,
};

/// Name of the protocol's method that runs a prompt in a session.
const PROMPT_REQUEST_METHOD: &str = "session/prompt";

/// Maximum number of requests of a client that run at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 256;

/// Time limit for requests and sessions to end when the connection ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Connection to a client, with its open sessions and running requests.
pub(crate) struct AcpClientConnection {
    link: Arc<AcpClientHandle>,
    sessions: OpenAcpSessions,
    /// Requests of the client that are still running, by their ids.
    running: Mutex<HashMap<RequestId, RunningClientRequest>>,
    tasks: TaskTracker,
    ending: CancellationToken,
}

/// Request of the client that is still running.
struct RunningClientRequest {
    /// Token that cancels the request.
    cancel: CancellationToken,
    /// Id of the session, if the request is a prompt; otherwise `None`.
    session: Option<String>,
}

/// Result of a request, as it is sent to the client.
struct ClientRequestResult {
    result: Value,
    /// Session whose commands and models are sent after the response: the request opened it, or
    /// selected another provider in it.
    announced: Option<Arc<OpenAcpSession>>,
}

impl ClientRequestResult {
    fn from_result_without_session(result: &impl serde::Serialize) -> Self {
        Self {
            result: to_json_or_null(result),
            announced: None,
        }
    }
}

impl AcpClientConnection {
    pub(crate) fn new(backend: Arc<dyn AcpSessionOpener>, outbox: ClientOutputLineQueue) -> Self {
        let link = Arc::new(AcpClientHandle::new(outbox));
        Self {
            sessions: OpenAcpSessions::new(backend, link.clone()),
            link,
            running: Mutex::default(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
        }
    }

    /// Handles a line from the client. An invalid line is answered with an error.
    pub(crate) fn handle_line(self: &Arc<Self>, line: ClientInputLine) {
        let line = match line {
            ClientInputLine::Line(line) => line,
            ClientInputLine::TooLong => {
                let why = format!("the line has more than {} MiB", MAX_INPUT_LINE_BYTES >> 20);
                let error = Err(WireError::new(-32600, why));
                return self.link.respond(&RequestId::Null, &error);
            }
        };
        match parse_message(&line) {
            Err(bad) => self.link.respond(&bad.id, &Err(*bad.error)),
            Ok(ClientMessage::Response { id, outcome }) => self.link.complete_request(&id, outcome),
            Ok(ClientMessage::Notification { method, params }) => {
                self.handle_notification(&method, params)
            }
            Ok(ClientMessage::Request { id, method, params }) => {
                self.start_request_task(id, method, params)
            }
        }
    }

    fn handle_notification(self: &Arc<Self>, method: &str, params: Value) {
        match method {
            "session/cancel" => {
                let Ok(told) = serde_json::from_value::<CancelNotification>(params) else {
                    tracing::debug!("session/cancel names no session");
                    return;
                };
                // Cancel prompts here and not in a task, so that a prompt whose request came in the
                // line before is already in `running`.
                let running = lock_ignoring_poison(&self.running);
                let prompts = running.values();
                prompts
                    .filter(|request| request.session.as_deref() == Some(&*told.session_id.0))
                    .for_each(|request| request.cancel.cancel());
            }
            "$/cancel_request" => {
                let told = serde_json::from_value::<CancelRequestNotification>(params);
                let running = lock_ignoring_poison(&self.running);
                if let Some(request) = told.ok().and_then(|told| running.get(&told.request_id)) {
                    request.cancel.cancel();
                }
            }
            _ => tracing::debug!(
                method = escape_and_truncate_line(method, 100),
                "an unknown notification"
            ),
        }
    }

    fn start_request_task(self: &Arc<Self>, id: RequestId, method: String, params: Value) {
        if method == "initialize" {
            // Answer `initialize` here and not in a task: the request in the next line needs the
            // client's capabilities.
            let request = read_params(&method, params);
            let outcome = request.and_then(|request| self.initialize(&request));
            return self.link.respond(&id, &outcome);
        }
        let cancel = self.ending.child_token();
        {
            let mut running = lock_ignoring_poison(&self.running);
            let refused = if running.len() >= MAX_CONCURRENT_REQUESTS {
                Some(WireError::new(
                    -32603,
                    format!(
                        "{MAX_CONCURRENT_REQUESTS} requests are already running; wait for one to end"
                    ),
                ))
            } else if running.contains_key(&id) {
                Some(WireError::new(
                    -32600,
                    "a request with this id is already running",
                ))
            } else {
                None
            };
            if let Some(error) = refused {
                drop(running);
                return self.link.respond(&id, &Err(error));
            }
            let session = params.get("sessionId").and_then(Value::as_str);
            let request = RunningClientRequest {
                cancel: cancel.clone(),
                session: session
                    .filter(|_| method == PROMPT_REQUEST_METHOD)
                    .map(str::to_owned),
            };
            running.insert(id.clone(), request);
        }
        let own = self.clone();
        self.tasks.spawn(async move {
            let outcome = own.run_request(&id, &method, params, &cancel).await;
            lock_ignoring_poison(&own.running).remove(&id);
            let (outcome, announced) = match outcome {
                Ok(answered) => (Ok(answered.result), answered.announced),
                Err(error) => (Err(error), None),
            };
            own.link.respond(&id, &outcome);
            if let Some(live) = announced {
                // Announce the session after the response, because the client learns the session's
                // id from the response.
                tokio::select! {
                    () = own.ending.cancelled() => {}
                    () = live.announce_session() => {}
                }
            }
        });
    }

    async fn run_request(
        &self,
        id: &RequestId,
        method: &str,
        params: Value,
        cancel: &CancellationToken,
    ) -> Result<ClientRequestResult, WireError> {
        if method == PROMPT_REQUEST_METHOD {
            return self.prompt(read_params(method, params)?, cancel).await;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(WireError::request_cancelled()),
            answered = self.answer_request(id, method, params) => answered,
        }
    }

    async fn answer_request(
        &self,
        id: &RequestId,
        method: &str,
        params: Value,
    ) -> Result<ClientRequestResult, WireError> {
        let Some(abilities) = self.link.client_abilities() else {
            let why = "the first request must be `initialize`";
            return Err(WireError::new(-32600, why));
        };
        let forms = || {
            let forms = PreSessionFormAsker {
                link: self.link.clone(),
                request: id.clone(),
            };
            abilities
                .has_forms
                .then(|| Arc::new(forms) as Arc<dyn YesNoQuestionAsker>)
        };
        match method {
            "authenticate" => {
                let request: AuthenticateRequest = read_params(method, params)?;
                let name = escape_and_truncate_line(&request.method_id.0, 60);
                Err(WireError::new(
                    -32602,
                    format!(
                        "there is no method `{name}`: ACP authentication is not used. A model needs a key: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL, or run `rind` in a terminal once"
                    ),
                ))
            }
            "session/new" => {
                self.new_session(read_params(method, params)?, forms())
                    .await
            }
            "session/load" => {
                self.load_session(read_params(method, params)?, forms())
                    .await
            }
            "session/resume" => {
                self.resume_session(read_params(method, params)?, forms())
                    .await
            }
            "session/list" => {
                let request: ListSessionsRequest = read_params(method, params)?;
                Ok(ClientRequestResult::from_result_without_session(
                    &self.sessions.list(request).await?,
                ))
            }
            "session/close" => {
                let request: CloseSessionRequest = read_params(method, params)?;
                self.sessions.close(&request.session_id.0).await?;
                Ok(ClientRequestResult::from_result_without_session(
                    &CloseSessionResponse::new(),
                ))
            }
            "session/set_mode" => {
                let request: SetSessionModeRequest = read_params(method, params)?;
                let live = self
                    .sessions
                    .find_live_session(&request.session_id.0)
                    .await?;
                live.set_mode(&request.mode_id.0)?;
                Ok(ClientRequestResult::from_result_without_session(
                    &SetSessionModeResponse::new(),
                ))
            }
            "session/set_config_option" => {
                let request: SetSessionConfigOptionRequest = read_params(method, params)?;
                let live = self
                    .sessions
                    .find_live_session(&request.session_id.0)
                    .await?;
                let SessionConfigOptionValue::ValueId { value } = request.value else {
                    return Err(WireError::new(
                        -32602,
                        "options cannot have a boolean value",
                    ));
                };
                live.set_option(&request.config_id.0, &value.0)?;
                let options = SetSessionConfigOptionResponse::new(live.config_options());
                Ok(ClientRequestResult::from_result_without_session(&options))
            }
            _ => {
                let name = escape_and_truncate_line(method, 100);
                Err(WireError::new(
                    -32601,
                    format!("there is no method `{name}`"),
                ))
            }
        }
    }

    fn initialize(&self, request: &InitializeRequest) -> Result<Value, WireError> {
        let abilities = AcpClientCapabilities::from_capabilities(&request.client_capabilities);
        if !self.link.set_abilities(abilities) {
            return Err(WireError::new(-32600, "`initialize` was sent already"));
        }
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new());
        let prompts = PromptCapabilities::new().image(true).embedded_context(true);
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(prompts)
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let own = Implementation::new("rind", env!("CARGO_PKG_VERSION")).title("Rind".to_owned());
        // Rind speaks only this version; a client that does not speak it closes the connection.
        let response = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(own);
        Ok(to_json_or_null(&response))
    }

    /// Opens a session. `respond` builds the response to the client from the open session.
    async fn open_session<R: serde::Serialize>(
        &self,
        request: AcpSessionOpenRequest,
        respond: impl FnOnce(&OpenAcpSession) -> R,
    ) -> Result<ClientRequestResult, WireError> {
        let live = self.sessions.open_requested_session(request).await?;
        Ok(ClientRequestResult {
            result: to_json_or_null(&respond(&live)),
            announced: Some(live),
        })
    }

    async fn new_session(
        &self,
        request: NewSessionRequest,
        confirm: Option<Arc<dyn YesNoQuestionAsker>>,
    ) -> Result<ClientRequestResult, WireError> {
        let wanted = AcpSessionOpenRequest {
            cwd: request.cwd,
            servers: request.mcp_servers,
            has_system_prompt: request.system_prompt.is_some(),
            n_more_folders: request.additional_directories.len(),
            resume: None,
            is_replayed: false,
            confirm,
        };
        let respond = |live: &OpenAcpSession| {
            NewSessionResponse::new(live.id().to_string())
                .modes(live.modes())
                .config_options(live.config_options())
        };
        self.open_session(wanted, respond).await
    }

    async fn load_session(
        &self,
        request: LoadSessionRequest,
        confirm: Option<Arc<dyn YesNoQuestionAsker>>,
    ) -> Result<ClientRequestResult, WireError> {
        let wanted = AcpSessionOpenRequest {
            cwd: request.cwd,
            servers: request.mcp_servers,
            has_system_prompt: request.system_prompt.is_some(),
            n_more_folders: request.additional_directories.len(),
            resume: Some(request.session_id.0.to_string()),
            is_replayed: true,
            confirm,
        };
        let respond = |live: &OpenAcpSession| {
            LoadSessionResponse::new()
                .modes(live.modes())
                .config_options(live.config_options())
        };
        self.open_session(wanted, respond).await
    }

    async fn resume_session(
        &self,
        request: ResumeSessionRequest,
        confirm: Option<Arc<dyn YesNoQuestionAsker>>,
    ) -> Result<ClientRequestResult, WireError> {
        let wanted = AcpSessionOpenRequest {
            cwd: request.cwd,
            servers: request.mcp_servers,
            has_system_prompt: request.system_prompt.is_some(),
            n_more_folders: request.additional_directories.len(),
            resume: Some(request.session_id.0.to_string()),
            is_replayed: false,
            confirm,
        };
        let respond = |live: &OpenAcpSession| {
            ResumeSessionResponse::new()
                .modes(live.modes())
                .config_options(live.config_options())
        };
        self.open_session(wanted, respond).await
    }

    async fn prompt(
        &self,
        request: PromptRequest,
        cancel: &CancellationToken,
    ) -> Result<ClientRequestResult, WireError> {
        let live = self
            .sessions
            .find_live_session(&request.session_id.0)
            .await?;
        let blocks = request.prompt;
        let read =
            tokio::task::spawn_blocking(move || ConvertedPromptInput::from_blocks(blocks)).await;
        let input = read.map_err(|error| WireError::new(-32603, error.to_string()))??;
        let stop = live.run_prompt(input, cancel).await?;
        Ok(ClientRequestResult {
            result: to_json_or_null(&PromptResponse::new(stop)),
            announced: live.take_model_list_outdated_flag().then_some(live),
        })
    }

    /// Cancels all requests and closes all sessions. Sessions that do not end within
    /// [`SHUTDOWN_TIMEOUT`] are dropped and can be resumed later.
    pub(crate) async fn shut_down(&self) {
        self.ending.cancel();
        let ended = async {
            self.sessions.close_all_sessions().await;
            self.tasks.close();
            self.tasks.wait().await;
            // Close the sessions that were still being opened during the first
            // `close_all_sessions`.
            self.sessions.close_all_sessions().await;
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
            tracing::warn!("sessions did not end within two seconds; they can be resumed");
        }
    }
}

fn read_params<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, WireError> {
    serde_json::from_value(params).map_err(|error| {
        let error = escape_and_truncate_line(&error.to_string(), 300);
        WireError::new(
            -32602,
            format!("the parameters of `{method}` are wrong: {error}"),
        )
    })
}
