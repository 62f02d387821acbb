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

pub(super) use log::MAX_LINES as MAX_LOG_LINES;
pub use row::{ImportRow, InterfaceImportRequirement, Limit};
pub(super) use status::StatusLine;
pub(super) use waiting::LoopRunState;
pub(super) use wasi_http::WasiHttp;
pub(super) use wasi_place::GuestFileHandles;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::Error;
use super::bindings::rind::plugin as wit;
use super::contract;
use super::host::HostState;
use super::limits::MAX_POINT_CALLS;
use super::store as plugin_store;
use crate::egress::{
    DEFAULT_REQUESTS, MAX_CONNECTIONS, MAX_FRAME_BYTES, MAX_QUEUED, MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
};
use crate::folder::{MAX_BYTES as MAX_FILE_BYTES, MAX_ENTRIES};
use crate::grant::{ExternalCall, Granted};
use crate::json::MAX_BYTES as MAX_JSON_BYTES;
use crate::point::agent_loop::{MAX_ADDED_BYTES, MAX_CANDIDATES, MAX_PRIMITIVES};
use crate::point::handle::{
    HandleError, MAX_PERSON_QUESTIONS, MAX_QUESTIONS, MAX_SUBAGENTS, MAX_TOOL_CALLS,
};
use crate::point::loop_handle::{
    MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_RUNNING_TURNS, MAX_TURNS_PER_MINUTE,
};
use crate::session as sessions;

/// Description of the access for interfaces that contain only types.
const TYPES: &str = "data types, no access";

/// Description of the access for `files` and `wasi:filesystem`.
pub(super) const FILES: &str = "files in the granted folders";

/// Description of the access for `http` and `wasi:http`.
const HTTP: &str = "requests to the granted hosts";

/// Creates the [`ImportRow`] of an interface that the plugin contract defines.
macro_rules! own {
    ($name:literal, $module:ident, $gives:expr) => {
        ImportRow::new(
            $name,
            $gives,
            Some(|linker| {
                contract::link_interface(linker, stringify!($module), |instance| {
                    wit::$module::add_to_linker_instance::<_, HasSelf<_>>(instance, |state| {
                        state.count_import($name)
                    })
                })
            }),
        )
    };
}

/// Interfaces that a plugin may import: those of `wit/` in the order of its world, then WASI. A
/// lookup returns the first row whose name is a prefix of the interface, so a longer prefix comes
/// before a shorter one.
pub const IMPORTS: &[ImportRow] = &[
    own!("types", types, TYPES),
    own!("payloads", payloads, TYPES),
    own!("handles", handles, "parts of what its hooks are shown"),
    own!("outcomes", outcomes, TYPES),
    own!("caller", caller, "who calls it, and what the turn has used"),
    own!(
        "blobs",
        blobs,
        "bytes of images and the like in what it is shown"
    )
    .with_limits(&[Limit::Bytes(blobs::MAX_READ_BYTES as usize, "a read")]),
    own!("log", log, "its own lines in the log").with_limits(&[
        Limit::Count(log::MAX_LINES, "lines in a session"),
        Limit::Bytes(log::MAX_LINE_BYTES, "a line"),
    ]),
    own!("state", state, "its own values in the session").with_limits(&[
        Limit::Bytes(sessions::MAX_KEY_BYTES, "a key"),
        Limit::Bytes(sessions::MAX_VALUE_BYTES, "a value"),
        Limit::Bytes(sessions::MAX_PLUGIN_BYTES, "together"),
    ]),
    own!("store", store, "its own values across sessions").with_limits(&[
        Limit::Bytes(plugin_store::MAX_KEY_BYTES, "a key"),
        Limit::Bytes(plugin_store::MAX_VALUE_BYTES, "a value"),
        Limit::Bytes(plugin_store::MAX_TOTAL_BYTES as usize, "together"),
    ]),
    own!("config", config, "its own settings"),
    own!(
        "points",
        points,
        "calling its own points, and those that let it"
    )
    .with_limits(&[
        Limit::Count(MAX_POINT_CALLS, "calls while the plugin is called once"),
        Limit::Bytes(MAX_JSON_BYTES, "a payload"),
    ])
    .mark_import_as_waiting(),
    own!("session", session, "reading the conversation")
        .with_requirement(InterfaceImportRequirement::Session)
        .with_limits(&[Limit::Count(session::MAX_MESSAGES, "messages at a time")]),
    own!(
        "model",
        model,
        "asking a model, without tools; it costs tokens"
    )
    .with_requirement(InterfaceImportRequirement::Call(ExternalCall::Model))
    .with_limits(&[Limit::Count(MAX_QUESTIONS, "questions in a turn")])
    .mark_import_as_waiting(),
    own!(
        "agents",
        agents,
        "running subagents, which cannot ask for approval"
    )
    .with_requirement(InterfaceImportRequirement::Call(ExternalCall::Agents))
    .with_limits(&[Limit::Count(MAX_SUBAGENTS, "subagents in a turn")])
    .mark_import_as_waiting(),
    own!(
        "tools-host",
        tools_host,
        "calling the tools that it was granted"
    )
    .with_requirement(InterfaceImportRequirement::Tool)
    .with_limits(&[Limit::Count(MAX_TOOL_CALLS, "calls in a turn")])
    .mark_import_as_waiting(),
    own!("files", files, FILES)
        .with_requirement(InterfaceImportRequirement::Folder)
        .with_limits(&[
            Limit::Bytes(MAX_FILE_BYTES, "a call"),
            Limit::Count(MAX_ENTRIES as u32, "entries of a folder"),
        ]),
    own!("http", http, HTTP)
        .with_requirement(InterfaceImportRequirement::Host)
        .with_limits(HTTP_LIMITS),
    own!("ask", ask, "asking the person, who sees which plugin asks")
        .with_limits(&[
            Limit::Count(MAX_PERSON_QUESTIONS, "questions in a turn"),
            Limit::Bytes(ask::MAX_TEXT_BYTES, "a question or an answer"),
        ])
        .mark_import_as_waiting(),
    own!("status", status, "a line of status of its own").with_limits(&[
        Limit::Count(status::MAX_CHARS as u32, "characters"),
        Limit::Count(status::MAX_CHANGES, "changes in a session"),
    ]),
    own!("shell", shell, "reading what a shell command starts")
        .with_limits(&[Limit::Bytes(shell::MAX_COMMAND_BYTES, "a command")]),
    own!(
        "waiting",
        waiting,
        "waiting in its loop, for a time, a change of files, or a message"
    )
    .with_limits(&[
        Limit::Count(waiting::MAX_PATHS as u32, "paths at a time"),
        Limit::Count(MAX_MESSAGES as u32, "messages kept"),
        Limit::Bytes(MAX_MESSAGE_BYTES, "a message"),
    ])
    .mark_import_as_waiting(),
    own!(
        "websocket",
        websocket,
        "WebSocket connections of its loop to the granted hosts"
    )
    .with_requirement(InterfaceImportRequirement::Host)
    .with_limits(&[
        Limit::Count(MAX_CONNECTIONS as u32, "connections"),
        Limit::Bytes(MAX_FRAME_BYTES, "a message"),
        Limit::Count(MAX_QUEUED as u32, "messages kept on a connection"),
    ])
    .mark_import_as_waiting(),
    own!("turns", turns, "running turns of the agent from its loop")
        .with_requirement(InterfaceImportRequirement::Call(ExternalCall::Turns))
        .with_limits(&[
            Limit::Count(MAX_TURNS_PER_MINUTE, "turns a minute"),
            Limit::Count(MAX_RUNNING_TURNS, "turns at once"),
        ])
        .mark_import_as_waiting(),
    own!(
        "agent-turn",
        agent_turn,
        "ordering the turns of the agent, when the settings name it"
    )
    .with_requirement(InterfaceImportRequirement::Call(ExternalCall::AgentLoop))
    .with_limits(&[
        Limit::Count(MAX_PRIMITIVES, "primitives without a request between"),
        Limit::Count(MAX_CANDIDATES as u32, "answers aside"),
        Limit::Bytes(MAX_ADDED_BYTES, "a text"),
    ])
    .mark_import_as_waiting(),
    // `wasi:http/types` is linked together with `outgoing-handler`; the other interfaces of the
    // package are for servers.
    ImportRow::new(
        "wasi:http/types@",
        "data types of requests, no access by itself",
        None,
    )
    .with_requirement(InterfaceImportRequirement::Host),
    ImportRow::new("wasi:http/outgoing-handler@", HTTP, Some(wasi::link_http))
        .with_requirement(InterfaceImportRequirement::Host)
        .with_limits(HTTP_LIMITS),
    ImportRow::new("wasi:filesystem/", FILES, Some(wasi::link_files)),
    // Standard libraries always import the following interfaces, which are linked to an empty WASI
    // context.
    ImportRow::new(
        "wasi:io/",
        "streams, no access by themselves",
        Some(wasi::link_streams),
    ),
    ImportRow::new("wasi:cli/environment@", "an empty environment", None),
    ImportRow::new("wasi:cli/stdin@", STREAM, None),
    ImportRow::new("wasi:cli/stdout@", STREAM, None),
    ImportRow::new(
        "wasi:cli/stderr@",
        "a buffer that only shows in its error messages",
        None,
    ),
    ImportRow::new("wasi:cli/", "no access", Some(wasi::link_cli)),
    ImportRow::new("wasi:clocks/", "reading the clock", None),
    ImportRow::new(
        "wasi:random/",
        "random numbers",
        Some(wasi::link_insecure_random),
    ),
    // Some standard libraries import sockets even if the program never uses them.
    ImportRow::new(
        "wasi:sockets/",
        "linked, and denied at every use",
        Some(wasi::link_sockets),
    )
    .with_requirement(InterfaceImportRequirement::InertSockets),
];

const STREAM: &str = "a stream that leads nowhere";

const HTTP_LIMITS: &[Limit] = &[
    Limit::Count(DEFAULT_REQUESTS, "requests in a session"),
    Limit::Bytes(MAX_REQUEST_BYTES, "a request"),
    Limit::Bytes(MAX_RESPONSE_BYTES, "a response"),
];

/// Builds a linker with exactly the granted interfaces. An interface that is not granted is absent
/// from the linker, so a plugin cannot call it. Sockets are linked only for plugins whose manifest
/// declares that they import sockets without using them; every use is denied. A component that was
/// not built for the contract is linked to all of WASI, but its HTTP requests are denied unless
/// granted.
pub(super) fn build_linker(
    engine: &Engine,
    granted: &Granted,
    has_sockets: bool,
    is_foreign: bool,
) -> Result<Linker<HostState>, Error> {
    let mut linker = Linker::new(engine);
    for row in IMPORTS {
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
    fn convert_error(&mut self, error: HandleError) -> wasmtime::Result<wit::types::Error> {
        use wit::types::Error;
        Ok(match error {
            HandleError::InvalidInput(text) => Error::InvalidInput(text),
            HandleError::NotFound(text) => Error::NotFound(text),
            HandleError::Denied(text) => Error::Denied(text),
            HandleError::Limit(text) => Error::Limit(text),
            HandleError::Failed(text) => Error::Failed(text),
        })
    }
}
