//! Host interfaces, one file each, and the linker that offers what was granted.
//!
//! An interface that is not granted is not in the linker: an absent import is the strongest denial.

mod agents;
mod caller;
mod config;
mod files;
mod handles;
mod http;
mod log;
mod model;
mod points;
mod session;
mod state;
mod store;
mod tools_host;
mod wasi;
mod wasi_files;
mod wasi_http;
mod wasi_open;
mod wasi_place;
mod wasi_streams;

pub(super) use log::MAX_LINES as MAX_LOG_LINES;
pub(super) use wasi_http::WasiHttp;
pub(super) use wasi_place::Handles;
use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::Error;
use super::bindings::rind::plugin as wit;
use super::host::HostState;
use crate::grant::{Capability, Granted};
use crate::point::handle::HandleError;

/// A linker with what was granted and nothing else; `wasi:sockets`, inert, only if `has_sockets`.
pub(super) fn linker(
    engine: &Engine,
    granted: &Granted,
    has_sockets: bool,
) -> Result<Linker<HostState>, Error> {
    let mut linker = Linker::new(engine);
    link(&mut linker, granted, has_sockets).map_err(|e| Error::Start {
        message: format!("{e:#}"),
    })?;
    Ok(linker)
}

fn link(
    linker: &mut Linker<HostState>,
    granted: &Granted,
    has_sockets: bool,
) -> wasmtime::Result<()> {
    wasi::link(linker, has_sockets)?;
    wit::types::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::payloads::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::handles::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::outcomes::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::caller::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::log::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::state::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::store::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::config::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::points::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    wit::files::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    if granted.has(&Capability::Session) {
        wit::session::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    }
    if granted.has(&Capability::Model) {
        wit::model::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    }
    if granted.has(&Capability::Agents) {
        wit::agents::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    }
    if granted.tools().next().is_some() {
        wit::tools_host::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    }
    if granted.has_network() {
        wit::http::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    }
    Ok(())
}

impl wit::types::Host for HostState {}
impl wit::payloads::Host for HostState {}
impl wit::outcomes::Host for HostState {}

impl From<HandleError> for wit::types::Error {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::InvalidInput(text) => Self::InvalidInput(text),
            HandleError::NotFound(text) => Self::NotFound(text),
            HandleError::Denied(text) => Self::Denied(text),
            HandleError::Limit(text) => Self::Limit(text),
            HandleError::Failed(text) => Self::Failed(text),
        }
    }
}
