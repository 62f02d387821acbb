//! Interfaces that plugins may import from the host, one file each, and the table of all imports.
//!
//! A row contains the requirement of an interface, the access it gives, its limits, and its link
//! function. The check before loading, the linker, `rind plugin inspect` and the docs use this
//! table; a test compares it with `wit/`.

mod agent_turn;
mod agents;
mod ask;
mod blobs;
mod caller;
mod config;
mod files;
mod handles;
mod http;
mod log;
mod model;
mod points;
mod row;
mod session;
mod shell;
mod state;
mod status;
mod store;
mod tools_host;
mod turns;
mod waiting;
mod wasi;
mod wasi_files;
mod wasi_http;
mod wasi_open;
mod wasi_place;
mod wasi_streams;
mod websocket;

pub(super) use log::MAX_LOG_LINES_PER_SESSION;
pub use row::{ImportableInterface, InterfaceImportRequirement, InterfaceUsageLimit};
pub(super) use status::PluginStatusLine;
pub(super) use waiting::PluginLoopRunState;
pub(super) use wasi_http::WasiHttpContextAndHooks;
pub(super) use wasi_place::GuestFileHandles;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::Error;
use super::bindings::rind::plugin as wit;
use super::contract;
use super::host::HostState;
use super::limits::MAX_POINT_CALLS_PER_PLUGIN_CALL;
use super::store as plugin_store;
use crate::egress::{
    DEFAULT_MAX_REQUESTS_PER_SESSION, MAX_QUEUED_RECEIVED_MESSAGES, MAX_REQUEST_BODY_BYTES,
    MAX_RESPONSE_BODY_BYTES, MAX_WEBSOCKET_MESSAGE_BYTES, MAX_WEBSOCKETS_PER_PLUGIN,
};
use crate::folder::{MAX_LISTED_FOLDER_ENTRIES, MAX_READ_OR_WRITE_BYTES};
use crate::grant::{ExternalCall, GrantedCapabilities};
use crate::json::DEFAULT_MAX_JSON_BYTES;
use crate::point::agent_loop::{
    MAX_AGENT_LOOP_TEXT_BYTES, MAX_CANDIDATE_ANSWERS, MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS,
};
use crate::point::handle::{
    HostFunctionError, MAX_PLUGIN_MODEL_REQUESTS_PER_TURN, MAX_PLUGIN_SUBAGENTS_PER_TURN,
    MAX_PLUGIN_TOOL_CALLS_PER_TURN, MAX_USER_QUESTIONS_PER_TURN,
};
use crate::point::loop_handle::{
    MAX_LOOP_MESSAGE_BYTES, MAX_QUEUED_LOOP_MESSAGES, MAX_RUNNING_TURNS, MAX_TURNS_PER_MINUTE,
};
use crate::session as sessions;

/// Description of the access for interfaces that contain only types.
const TYPES_ONLY_ACCESS_DESCRIPTION: &str = "data types, no access";

/// Text for users that describes the access which `files` and `wasi:filesystem` give.
pub(super) const FILES_ACCESS_DESCRIPTION: &str = "files in the granted folders";

/// Text for users that describes the access which `http` and `wasi:http` give.
const HTTP_ACCESS_DESCRIPTION: &str = "requests to the granted hosts";

/// Creates the [`ImportableInterface`] of an interface that the plugin contract defines.
macro_rules! own {
    ($name:literal, $module:ident, $gives:expr) => {
        ImportableInterface::new(
            $name,
            $gives,
            Some(|linker| {
                contract::link_interface(linker, stringify!($module), |instance| {
                    wit::$module::add_to_linker_instance::<_, HasSelf<_>>(instance, |state| {
                        state.count_import_call($name)
                    })
                })
            }),
        )
    };
}

/// Interfaces that a plugin may import: those of `wit/` in the order of its world, then WASI. A
/// lookup returns the first row whose name is a prefix of the interface, so a longer prefix comes
/// before a shorter one.
pub const IMPORTABLE_INTERFACES: &[ImportableInterface] = &[
    own!("types", types, TYPES_ONLY_ACCESS_DESCRIPTION),
    own!("payloads", payloads, TYPES_ONLY_ACCESS_DESCRIPTION),
    own!("handles", handles, "parts of what its hooks are shown"),
    own!("outcomes", outcomes, TYPES_ONLY_ACCESS_DESCRIPTION),
    own!("caller", caller, "who calls it, and what the turn has used"),
    own!(
        "blobs",
        blobs,
        "bytes of images and the like in what it is shown"
    )
    .with_usage_limits(&[InterfaceUsageLimit::Bytes(
        blobs::MAX_BLOB_READ_BYTES as usize,
        "a read",
    )]),
    own!("log", log, "its own lines in the log").with_usage_limits(&[
        InterfaceUsageLimit::Count(log::MAX_LOG_LINES_PER_SESSION, "lines in a session"),
        InterfaceUsageLimit::Bytes(log::MAX_LOG_LINE_BYTES, "a line"),
    ]),
    own!("state", state, "its own values in the session").with_usage_limits(&[
        InterfaceUsageLimit::Bytes(sessions::MAX_STATE_KEY_BYTES, "a key"),
        InterfaceUsageLimit::Bytes(sessions::MAX_STATE_VALUE_BYTES, "a value"),
        InterfaceUsageLimit::Bytes(sessions::MAX_STATE_BYTES_PER_PLUGIN, "together"),
    ]),
    own!("store", store, "its own values across sessions").with_usage_limits(&[
        InterfaceUsageLimit::Bytes(plugin_store::MAX_STORE_KEY_BYTES, "a key"),
        InterfaceUsageLimit::Bytes(plugin_store::MAX_STORE_VALUE_BYTES, "a value"),
        InterfaceUsageLimit::Bytes(plugin_store::MAX_PLUGIN_STORE_BYTES as usize, "together"),
    ]),
    own!("config", config, "its own settings"),
    own!(
        "points",
        points,
        "calling its own points, and those that let it"
    )
    .with_usage_limits(&[
        InterfaceUsageLimit::Count(
            MAX_POINT_CALLS_PER_PLUGIN_CALL,
            "calls while the plugin is called once",
        ),
        InterfaceUsageLimit::Bytes(DEFAULT_MAX_JSON_BYTES, "a payload"),
    ])
    .with_calls_that_wait(),
    own!("session", session, "reading the conversation")
        .with_import_requirement(InterfaceImportRequirement::Session)
        .with_usage_limits(&[InterfaceUsageLimit::Count(
            session::MAX_MESSAGES_PER_CALL,
            "messages at a time",
        )]),
    own!(
        "model",
        model,
        "asking a model, without tools; it costs tokens"
    )
    .with_import_requirement(InterfaceImportRequirement::Call(ExternalCall::Model))
    .with_usage_limits(&[InterfaceUsageLimit::Count(
        MAX_PLUGIN_MODEL_REQUESTS_PER_TURN,
        "questions in a turn",
    )])
    .with_calls_that_wait(),
    own!(
        "agents",
        agents,
        "running subagents, which cannot ask for approval"
    )
    .with_import_requirement(InterfaceImportRequirement::Call(ExternalCall::Agents))
    .with_usage_limits(&[InterfaceUsageLimit::Count(
        MAX_PLUGIN_SUBAGENTS_PER_TURN,
        "subagents in a turn",
    )])
    .with_calls_that_wait(),
    own!(
        "tools-host",
        tools_host,
        "calling the tools that it was granted"
    )
    .with_import_requirement(InterfaceImportRequirement::Tool)
    .with_usage_limits(&[InterfaceUsageLimit::Count(
        MAX_PLUGIN_TOOL_CALLS_PER_TURN,
        "calls in a turn",
    )])
    .with_calls_that_wait(),
    own!("files", files, FILES_ACCESS_DESCRIPTION)
        .with_import_requirement(InterfaceImportRequirement::Folder)
        .with_usage_limits(&[
            InterfaceUsageLimit::Bytes(MAX_READ_OR_WRITE_BYTES, "a call"),
            InterfaceUsageLimit::Count(MAX_LISTED_FOLDER_ENTRIES as u32, "entries of a folder"),
        ]),
    own!("http", http, HTTP_ACCESS_DESCRIPTION)
        .with_import_requirement(InterfaceImportRequirement::Host)
        .with_usage_limits(HTTP_REQUEST_LIMITS),
    own!("ask", ask, "asking the person, who sees which plugin asks")
        .with_usage_limits(&[
            InterfaceUsageLimit::Count(MAX_USER_QUESTIONS_PER_TURN, "questions in a turn"),
            InterfaceUsageLimit::Bytes(
                ask::MAX_QUESTION_OR_ANSWER_BYTES,
                "a question or an answer",
            ),
        ])
        .with_calls_that_wait(),
    own!("status", status, "a line of status of its own").with_usage_limits(&[
        InterfaceUsageLimit::Count(status::MAX_STATUS_LINE_CHARS as u32, "characters"),
        InterfaceUsageLimit::Count(status::MAX_STATUS_LINE_CHANGES, "changes in a session"),
    ]),
    own!("shell", shell, "reading what a shell command starts").with_usage_limits(&[
        InterfaceUsageLimit::Bytes(shell::MAX_COMMAND_BYTES, "a command"),
    ]),
    own!(
        "waiting",
        waiting,
        "waiting in its loop, for a time, a change of files, or a message"
    )
    .with_usage_limits(&[
        InterfaceUsageLimit::Count(waiting::MAX_PATHS_PER_WAIT as u32, "paths at a time"),
        InterfaceUsageLimit::Count(MAX_QUEUED_LOOP_MESSAGES as u32, "messages kept"),
        InterfaceUsageLimit::Bytes(MAX_LOOP_MESSAGE_BYTES, "a message"),
    ])
    .with_calls_that_wait(),
    own!(
        "websocket",
        websocket,
        "WebSocket connections of its loop to the granted hosts"
    )
    .with_import_requirement(InterfaceImportRequirement::Host)
    .with_usage_limits(&[
        InterfaceUsageLimit::Count(MAX_WEBSOCKETS_PER_PLUGIN as u32, "connections"),
        InterfaceUsageLimit::Bytes(MAX_WEBSOCKET_MESSAGE_BYTES, "a message"),
        InterfaceUsageLimit::Count(
            MAX_QUEUED_RECEIVED_MESSAGES as u32,
            "messages kept on a connection",
        ),
    ])
    .with_calls_that_wait(),
    own!("turns", turns, "running turns of the agent from its loop")
        .with_import_requirement(InterfaceImportRequirement::Call(ExternalCall::Turns))
        .with_usage_limits(&[
            InterfaceUsageLimit::Count(MAX_TURNS_PER_MINUTE, "turns a minute"),
            InterfaceUsageLimit::Count(MAX_RUNNING_TURNS, "turns at once"),
        ])
        .with_calls_that_wait(),
    own!(
        "agent-turn",
        agent_turn,
        "ordering the turns of the agent, when the settings name it"
    )
    .with_import_requirement(InterfaceImportRequirement::Call(ExternalCall::AgentLoop))
    .with_usage_limits(&[
        InterfaceUsageLimit::Count(
            MAX_OPERATIONS_BETWEEN_MODEL_REQUESTS,
            "primitives without a request between",
        ),
        InterfaceUsageLimit::Count(MAX_CANDIDATE_ANSWERS as u32, "answers aside"),
        InterfaceUsageLimit::Bytes(MAX_AGENT_LOOP_TEXT_BYTES, "a text"),
    ])
    .with_calls_that_wait(),
    // `wasi:http/types` is linked together with `outgoing-handler`; the other interfaces of the
    // package are for servers.
    ImportableInterface::new(
        "wasi:http/types@",
        "data types of requests, no access by itself",
        None,
    )
    .with_import_requirement(InterfaceImportRequirement::Host),
    ImportableInterface::new(
        "wasi:http/outgoing-handler@",
        HTTP_ACCESS_DESCRIPTION,
        Some(wasi::link_http),
    )
    .with_import_requirement(InterfaceImportRequirement::Host)
    .with_usage_limits(HTTP_REQUEST_LIMITS),
    ImportableInterface::new(
        "wasi:filesystem/",
        FILES_ACCESS_DESCRIPTION,
        Some(wasi::link_wasi_filesystem),
    ),
    // Standard libraries always import the following interfaces, which are linked to an empty WASI
    // context.
    ImportableInterface::new(
        "wasi:io/",
        "streams, no access by themselves",
        Some(wasi::link_streams),
    ),
    ImportableInterface::new("wasi:cli/environment@", "an empty environment", None),
    ImportableInterface::new("wasi:cli/stdin@", STDIO_ACCESS_DESCRIPTION, None),
    ImportableInterface::new("wasi:cli/stdout@", STDIO_ACCESS_DESCRIPTION, None),
    ImportableInterface::new(
        "wasi:cli/stderr@",
        "a buffer that only shows in its error messages",
        None,
    ),
    ImportableInterface::new("wasi:cli/", "no access", Some(wasi::link_cli)),
    ImportableInterface::new("wasi:clocks/", "reading the clock", None),
    ImportableInterface::new(
        "wasi:random/",
        "random numbers",
        Some(wasi::link_insecure_random),
    ),
    // Some standard libraries import sockets even if the program never uses them.
    ImportableInterface::new(
        "wasi:sockets/",
        "linked, and denied at every use",
        Some(wasi::link_sockets),
    )
    .with_import_requirement(InterfaceImportRequirement::InertSockets),
];

const STDIO_ACCESS_DESCRIPTION: &str = "a stream that leads nowhere";

const HTTP_REQUEST_LIMITS: &[InterfaceUsageLimit] = &[
    InterfaceUsageLimit::Count(DEFAULT_MAX_REQUESTS_PER_SESSION, "requests in a session"),
    InterfaceUsageLimit::Bytes(MAX_REQUEST_BODY_BYTES, "a request"),
    InterfaceUsageLimit::Bytes(MAX_RESPONSE_BODY_BYTES, "a response"),
];

/// Builds a linker with exactly the granted interfaces. An interface that is not granted is absent
/// from the linker, so a plugin cannot call it. Sockets are linked only for plugins whose manifest
/// declares that they import sockets without using them; every use is denied. A component that was
/// not built for the contract is linked to all of WASI, but its HTTP requests are denied unless
/// granted.
pub(super) fn build_linker(
    engine: &Engine,
    granted: &GrantedCapabilities,
    has_sockets: bool,
    is_foreign: bool,
) -> Result<Linker<HostState>, Error> {
    let mut linker = Linker::new(engine);
    for row in IMPORTABLE_INTERFACES {
        let is_linked = match row.needs {
            InterfaceImportRequirement::InertSockets => has_sockets,
            InterfaceImportRequirement::Host if is_foreign && !row.is_contract_interface() => true,
            needs => needs.refusal_reason(granted).is_none(),
        };
        if let Some(link) = row.link.filter(|_| is_linked) {
            link(&mut linker).map_err(|e| Error::Start {
                message: format!("{e:#}"),
            })?;
        }
    }
    Ok(linker)
}

impl wit::payloads::Host for HostState {}
impl wit::outcomes::Host for HostState {}

impl wit::types::Host for HostState {
    fn convert_error(&mut self, error: HostFunctionError) -> wasmtime::Result<wit::types::Error> {
        use wit::types::Error;
        Ok(match error {
            HostFunctionError::InvalidInput(text) => Error::InvalidInput(text),
            HostFunctionError::NotFound(text) => Error::NotFound(text),
            HostFunctionError::Denied(text) => Error::Denied(text),
            HostFunctionError::Limit(text) => Error::Limit(text),
            HostFunctionError::Failed(text) => Error::Failed(text),
        })
    }
}
