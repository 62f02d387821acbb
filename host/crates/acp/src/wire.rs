//! Types of the protocol, version 1, under the names that this crate uses. This is the only module
//! that imports the schema crate, because that crate often has new versions.

pub(crate) use agent_client_protocol_schema::ProtocolVersion;
pub(crate) use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthenticateRequest, AvailableCommand, AvailableCommandInput,
    AvailableCommandsUpdate, BooleanPropertySchema, CancelNotification, CancelRequestNotification,
    ClientCapabilities, CloseSessionRequest, CloseSessionResponse, ConfigOptionUpdate,
    ContentBlock, ContentChunk, CreateElicitationRequest, CreateElicitationResponse,
    CurrentModeUpdate, Diff, ElicitationAction, ElicitationContentValue, ElicitationFormMode,
    ElicitationRequestScope, ElicitationSchema, ElicitationScope, ElicitationSessionScope,
    EmbeddedResourceResource, EnumOption, Error as WireError, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, McpCapabilities, McpServer, NewSessionRequest, NewSessionResponse, Notice,
    NoticeSeverity, PermissionOption, PermissionOptionKind, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, PromptCapabilities, PromptRequest, PromptResponse, RequestId,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities,
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue,
    SessionConfigSelectOption, SessionInfo, SessionInfoUpdate, SessionListCapabilities,
    SessionMode, SessionModeState, SessionNotification, SessionResumeCapabilities, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse, StopReason, StringPropertySchema, ToolCall as WireCall,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind, UnstructuredCommandInput, UsageUpdate,
};
