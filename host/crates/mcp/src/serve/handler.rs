//! Answers the requests of an MCP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetSkillRequestParams,
    GetSkillResult, Implementation, InitializeRequestParams, InitializeResult, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult,
    ListToolsResult, PaginatedRequestParams, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, Reference, Role, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use super::asked::SuspendedToolCalls;
use super::calls::{ClientToolCallOutcome, ClientToolCallRequest, unknown_tool_error};
use super::convert::{to_mcp_call_result, to_mcp_tool};
use super::prompts::to_mcp_prompt;
use super::session::{ClientSessionPool, HostSessionForClients, McpServerSharedState};
use crate::names::is_prompt_or_resource_tool;
use rind_lib::text::escape_and_truncate_line;

/// Instructions that the server sends for the client's model.
const SERVER_INSTRUCTIONS_FOR_MODEL: &str = "Tools of plugins that Rind runs in a sandbox. Its operator's rules and guards judge each call: a refused \
                            call has a result that says who refused it and why.";

/// Handler of a client's connection, or of a single request without a connection.
pub(super) struct McpServerRequestHandler {
    state: Arc<McpServerSharedState>,
    pub(super) pending: SuspendedToolCalls,
    /// Pool of sessions that only this connection uses.
    own: ClientSessionPool,
    /// Whether the client has established a connection. Its requests then use the sessions in
    /// `own`.
    is_connection: AtomicBool,
    /// Permit that counts towards the limit of open connections and requests.
    _place: Option<OwnedSemaphorePermit>,
}

impl McpServerRequestHandler {
    /// Creates the handler for the requests of an established connection.
    pub(super) fn for_connection(state: Arc<McpServerSharedState>) -> Self {
        Self {
            state,
            pending: SuspendedToolCalls::default(),
            own: ClientSessionPool::default(),
            is_connection: AtomicBool::new(true),
            _place: None,
        }
    }

    /// Creates the handler of a request, which may establish a connection.
    pub(super) fn for_request(
        state: Arc<McpServerSharedState>,
        pending: SuspendedToolCalls,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            pending,
            is_connection: AtomicBool::new(false),
            _place: Some(place),
            ..Self::for_connection(state)
        }
    }

    /// Returns the names of the MCP servers whose prompts and resources are forwarded to clients.
    pub(super) fn forwarded_server_names(&self) -> &[String] {
        &self.state.serving.upstream
    }

    /// Returns the pool of the connection's own sessions, or the shared pool for a client without a
    /// connection.
    fn session_pool(&self) -> &ClientSessionPool {
        match self.is_connection.load(Ordering::Acquire) {
            true => &self.own,
            false => &self.state.shared,
        }
    }

    /// Returns any session of the client; opens one if there is none. Use
    /// [`Self::session_for_call`] for calls, because a suspended call may block this session.
    pub(super) async fn first_or_new_session(&self) -> Result<HostSessionForClients, ErrorData> {
        let opened = self
            .state
            .first_or_new_session_of_pool(self.session_pool())
            .await;
        opened.map_err(|why| session_creation_error(&why))
    }

    /// Returns a session for a call of the client. If a suspended call blocks each session, cancels
    /// the oldest of these calls, because its client may never send the answer.
    pub(super) async fn session_for_call(&self) -> Result<HostSessionForClients, ErrorData> {
        loop {
            let ready = self
                .state
                .acquire_unblocked_session(self.session_pool())
                .await;
            if let Some(session) = ready.map_err(|why| session_creation_error(&why))? {
                return Ok(session);
            }
            if !self.pending.cancel_oldest_suspended_call() {
                return Err(session_creation_error("too many calls wait for answers"));
            }
        }
    }
}

fn session_creation_error(why: &str) -> ErrorData {
    let text = format!("the session for the calls cannot be opened: {why}");
    ErrorData::internal_error(text, None)
}

impl ServerHandler for McpServerRequestHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_completions()
            .enable_resources()
            .enable_skills()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rind", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_instructions(SERVER_INSTRUCTIONS_FOR_MODEL)
    }

    /// Returns the definition of a tool. The transport uses the schema to check HTTP headers that
    /// repeat arguments of a call.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let spec = self.state.find_tool(name)?;
        Some(to_mcp_tool(&spec))
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

    /// Notifies a client with the older protocol when the tools change.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(session) = self.first_or_new_session().await else {
            return;
        };
        let (peer, mut tools) = (context.peer.clone(), session.client.tools());
        tokio::spawn(async move {
            // Ignore the first list, which is not a change.
            let mut is_open = tools.wait_for_list().await.is_some();
            while is_open && tools.wait_until_tools_change().await {
                is_open = peer.notify_tool_list_changed().await.is_ok();
            }
        });
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.first_or_new_session().await?;
        let Some(tools) = session.client.tools().wait_for_list().await else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let tools = tools
            .iter()
            .filter(|spec| !is_prompt_or_resource_tool(&spec.name));
        let tools = tools.map(|spec| to_mcp_tool(spec)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Refuse the internal tools: clients use the protocol's requests for prompts and resources.
        if is_prompt_or_resource_tool(&request.name) {
            return Err(unknown_tool_error(&request.name));
        }
        let call = ClientToolCallRequest {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            state: request.request_state,
            responses: request.input_responses.unwrap_or_default(),
        };
        Ok(match self.start_or_resume_call(call, &context).await? {
            ClientToolCallOutcome::Ended(result) => to_mcp_call_result(result).into(),
            ClientToolCallOutcome::Asked(asked) => asked.into(),
        })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all = self.state.serving.prompts.list_prompts().into_iter();
        Ok(ListPromptsResult::with_all_items(
            all.map(to_mcp_prompt).collect(),
        ))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompts = &self.state.serving.prompts;
        let mut all = prompts.list_prompts().into_iter();
        let found = all.find(|own| own.name == request.name);
        if let Some(source) = found.and_then(|own| own.source) {
            return self.get_upstream_prompt(&source, request, &context).await;
        }
        let arguments: JsonObject = request.arguments.unwrap_or_default();
        let arguments: Map<String, Value> = arguments.into_iter().collect();
        let rendered = prompts.render_prompt(&request.name, arguments).await;
        let text = rendered.map_err(|why| ErrorData::invalid_params(why, None))?;
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let prompts = &self.state.serving.prompts;
        let mut values = match &request.r#ref {
            Reference::Prompt(prompt) => prompts.complete_argument(
                &prompt.name,
                &request.argument.name,
                &request.argument.value,
            ),
            _ => Vec::new(),
        };
        let n_values = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let has_more = n_values > values.len();
        let values =
            CompletionInfo::with_pagination(values, u32::try_from(n_values).ok(), has_more);
        let values = values.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let skills = self.state.skill_catalog().await.skills();
        Ok(ListSkillsResult::with_all_items(skills))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let skill = self.state.skill_catalog().await.find_skill(&request.uri);
        skill.map(GetSkillResult::new).ok_or_else(|| {
            let text = format!(
                "there is no skill `{}`",
                escape_and_truncate_line(&request.uri, 200)
            );
            ErrorData::invalid_params(text, None)
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let skills = self.state.skill_catalog().await;
        let mut resources = skills.skill_md_resources();
        let mut upstream = self.upstream_resources().await?;
        upstream.retain(|own| skills.read_skill_file(&own.uri).is_none());
        resources.append(&mut upstream);
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.upstream_resource_templates().await?;
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self
            .state
            .skill_catalog()
            .await
            .read_skill_file(&request.uri)
        {
            Some(read) => Ok(read.into()),
            None => self.read_upstream_resource(request, &context).await,
        }
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        Some(filter)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut tools = self.first_or_new_session().await?.client.tools();
        // Ignore the first list, which is not a change.
        let mut is_open = tools.wait_for_list().await.is_some();
        while is_open {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                serves = tools.wait_until_tools_change() => is_open = serves,
            }
            is_open &= context.sink().notify_tool_list_changed().await.is_ok();
        }
        Ok(())
    }
}
