//! State behind one instance: its empty WASI context, its limits, and its access to the session.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use super::access_log::{AccessLog, MAX_RECORDS};
use super::convert::Lent;
use super::imports::Handles;
use super::imports::MAX_LOG_LINES;
use super::imports::StatusLine;
use super::imports::WasiHttp;
use super::limits::{Limiter, MAX_POINT_CALLS, MAX_RANDOM_BYTES, MAX_RESOURCES, STDERR_BYTES};
use super::meter::Meter;
use super::sanitize::{Reported, Sanitizer};
use super::stderr::Tail;
use super::store::PluginStore;
use crate::egress::Egress;
use crate::folder::GrantedFolders;
use crate::grant::Granted;
use crate::lock::lock;
use crate::message::Blob;
use crate::point::caller::Caller;
use crate::point::deadline::{Pauses, holding};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;

/// State that all instances of a plugin in a session share.
pub(super) struct Backing {
    pub(super) plugin: Arc<str>,
    /// The name under which the session keeps its state: that of its own folder, so that one from elsewhere does not inherit
    /// what another of its name kept.
    pub(super) keeper: Arc<str>,
    pub(super) granted: Arc<Granted>,
    /// Settings, a JSON object.
    pub(super) config: Arc<Value>,
    /// Values that persist across sessions.
    pub(super) store: PluginStore,
    pub(super) folders: Arc<GrantedFolders>,
    /// The way out for its requests, if it has one.
    pub(super) egress: Option<Arc<Egress>>,
    pub(super) handle: Arc<dyn AgentHandle>,
    /// Lines of log left for the rest of the session.
    pub(super) log_lines_left: AtomicU32,
    /// Records about files left for the rest of the session, the one that says so included.
    pub(super) file_records_left: AtomicU32,
    /// Whether nobody is asked its questions.
    pub(super) is_muted: bool,
    pub(super) status: Mutex<StatusLine>,
    /// Reports of secrets masked in the plugin's text.
    pub(super) reported: Mutex<Reported>,
    /// Meter of its use of the host, in tests.
    pub(super) meter: Option<Arc<Meter>>,
}

impl Backing {
    /// Counts what a plugin may do in one session from the beginning again: lines of log, changes of its status, requests, and
    /// records of files and of masked secrets.
    pub(super) fn renew_limits(&self) {
        self.log_lines_left.store(MAX_LOG_LINES, Ordering::Relaxed);
        self.file_records_left
            .store(MAX_RECORDS + 1, Ordering::Relaxed);
        lock(&self.status).renew();
        *lock(&self.reported) = Reported::default();
        if let Some(egress) = &self.egress {
            egress.renew_requests();
        }
    }
}

/// State of one call of a guest, apart from that of its instance. Imports read it from here and nowhere else: an instance
/// answers one call at a time today, and once it answers several (asynchronous exports), each finds its own slot in place of
/// this one.
#[derive(Default)]
pub(super) struct CurrentCall {
    pub(super) caller: Caller,
    /// Points that the guest may still call.
    pub(super) point_calls_left: u32,
    /// The payload that the guest reads through a handle.
    pub(super) lent: Option<Lent>,
    /// Blobs that the guest was shown besides.
    pub(super) shown: Vec<Blob>,
}

impl CurrentCall {
    pub(super) fn begin(&mut self, caller: &Caller) {
        self.caller.update(caller);
        self.point_calls_left = MAX_POINT_CALLS;
    }

    /// Ends it: the dispatcher has its payload to itself again, and can change it without a copy.
    pub(super) fn end(&mut self) {
        self.lent = None;
        self.shown.clear();
    }
}

/// The data of one wasmtime store.
pub(super) struct HostState {
    wasi: WasiCtx,
    wasi_http: WasiHttp,
    table: ResourceTable,
    pub(super) limiter: Limiter,
    pub(super) backing: Arc<Backing>,
    /// Pauses of the instance, where calls wait for it.
    pauses: Option<Arc<Pauses>>,
    pub(super) call: CurrentCall,
    /// Files behind the guest's handles.
    pub(super) handles: Handles,
    stderr: Tail,
}

impl HostState {
    /// State of a fresh instance. The WASI context has no environment, no arguments, no network, and standard streams that
    /// lead nowhere; what a panic prints is kept for messages. Its folders are the granted ones.
    pub(super) fn new(
        backing: Arc<Backing>,
        pauses: Option<Arc<Pauses>>,
        memory_limit: u64,
    ) -> Self {
        let stderr = Tail::new(STDERR_BYTES);
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        let wasi = WasiCtxBuilder::new()
            .max_random_size(MAX_RANDOM_BYTES)
            .stderr(stderr.clone())
            .build();
        Self {
            wasi,
            wasi_http: WasiHttp::new(backing.egress.clone()),
            table,
            limiter: Limiter::new(memory_limit, backing.meter.clone()),
            backing,
            pauses,
            call: CurrentCall::default(),
            handles: Handles::default(),
            stderr,
        }
    }

    /// Counts a call of this import, where there is a meter. Only in an import a call can wait for a person, so its clock learns
    /// here what others wait for meanwhile.
    pub(super) fn counted(&mut self, import: &'static str) -> &mut Self {
        if let Some(pauses) = &self.pauses {
            holding(pauses);
        }
        if let Some(meter) = &self.backing.meter {
            meter.count(import);
        }
        self
    }

    /// Returns the log of attempts to leave the sandbox in the current call.
    pub(super) fn access_log(&self) -> AccessLog {
        AccessLog {
            backing: self.backing.clone(),
            origin: self.call.caller.origin(),
        }
    }

    /// Logs what the guest wrote to standard error in this call.
    pub(super) fn log_stderr(&self) {
        if !self.stderr.is_dirty() {
            return;
        }
        let text = self.stderr();
        if !text.is_empty() {
            let backing = &self.backing;
            let line = format!("stderr: {text}");
            backing.handle.log(&backing.plugin, Level::Debug, &line);
        }
    }

    /// Forgets what the guest wrote to standard error in earlier calls.
    pub(super) fn clear_stderr(&self) {
        self.stderr.clear();
    }

    /// Returns what the guest wrote to standard error, on one line. Without Rust's advice on backtraces: there is no
    /// environment in which it could be followed.
    pub(super) fn stderr(&self) -> String {
        let text = self.stderr.text();
        let is_said = |line: &&str| !line.starts_with("note: run with `RUST_BACKTRACE=");
        let said: Vec<&str> = text.lines().filter(is_said).collect();
        let said = said.join("\n");
        Sanitizer::of(self, "panic").line("message", said.trim_end(), STDERR_BYTES)
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for HostState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.counted("wasi:http");
        let origin = self.call.caller.origin();
        self.wasi_http.view(&mut self.table, origin)
    }
}
