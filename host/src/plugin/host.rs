//! State of one plugin instance: its WASI context, its limits, and its access to the session.
//!
//! Imports access everything through [`HostState`], the data of the wasmtime store. State that must
//! survive a discarded instance is in [`SharedPluginState`], which all instances of a plugin in a
//! session share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtxView, WasiHttpView};

use super::access_log::{FailedFileAccessRecorder, MAX_FILE_ACCESS_RECORDS};
use super::convert::GuestHandlePayload;
use super::fixed::{FixedClockAndRandomSeed, PluginCallCount, SeededRandomGenerator};
use super::imports::GuestFileHandles;
use super::imports::MAX_LOG_LINES_PER_SESSION;
use super::imports::PluginLoopRunState;
use super::imports::PluginStatusLine;
use super::imports::WasiHttpContextAndHooks;
use super::limits::{
    InstanceMemoryLimiter, MAX_KEPT_STDERR_BYTES, MAX_POINT_CALLS_PER_PLUGIN_CALL,
    MAX_RANDOM_BYTES_PER_CALL, MAX_RESOURCE_TABLE_ENTRIES,
};
use super::meter::PluginResourceMeter;
use super::sanitize::{GuestTextSanitizer, ReportedSecretMaskings};
use super::stderr::GuestStderrTail;
use super::store::PluginKeyValueStore;
use crate::egress::PluginSessionEgress;
use crate::folder::GrantedFolders;
use crate::grant::GrantedCapabilities;
use crate::lock::lock_ignoring_poison;
use crate::message::Blob;
use crate::point::agent_loop::TurnOperationRequestSender;
use crate::point::caller::Caller;
use crate::point::deadline::{UserWaitStopwatch, track_user_waits_of_current_call};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;

/// State shared by all instances of a plugin in a session.
pub(super) struct SharedPluginState {
    pub(super) plugin: Arc<str>,
    /// Key under which the session stores the plugin's state. It is derived from the plugin's own
    /// data directory, so that a plugin from another location cannot inherit the state of a plugin
    /// with the same name.
    pub(super) keeper: Arc<str>,
    pub(super) granted: Arc<GrantedCapabilities>,
    /// Settings that the operator made for the plugin, as a JSON object.
    pub(super) config: Arc<Value>,
    /// The plugin's settings as JSON text, which guests may read at every call.
    pub(super) config_text: String,
    /// The plugin's key-value store, which persists across sessions.
    pub(super) store: PluginKeyValueStore,
    pub(super) folders: Arc<GrantedFolders>,
    /// Sender of the plugin's network requests; `None` if no host was granted.
    pub(super) egress: Option<Arc<PluginSessionEgress>>,
    pub(super) handle: Arc<dyn AgentHandle>,
    /// Number of log lines that the plugin may still write in this session.
    pub(super) log_lines_left: AtomicU32,
    /// Number of file access records that may still be written in this session, including the last
    /// one, which reports the limit.
    pub(super) file_records_left: AtomicU32,
    /// Whether the plugin is muted: its questions are not shown to the person.
    pub(super) is_muted: bool,
    pub(super) status: Mutex<PluginStatusLine>,
    /// Maskings of secrets in the plugin's texts that were already reported. Contains no secret.
    pub(super) reported: Mutex<ReportedSecretMaskings>,
    /// Meter of the plugin's memory and import calls; only in tests.
    pub(super) meter: Option<Arc<PluginResourceMeter>>,
    /// Clock and random numbers in tests, instead of the real ones.
    pub(super) fixed: Option<FixedClockAndRandomSeed>,
    pub(super) calls: PluginCallCount,
    /// Environment variables that the plugin's instances see.
    pub(super) environment: Arc<[(String, String)]>,
}

impl SharedPluginState {
    /// Resets the per-session limits: log lines, status changes, requests, and records of file
    /// accesses and masked secrets.
    pub(super) fn reset_session_limits(&self) {
        self.log_lines_left
            .store(MAX_LOG_LINES_PER_SESSION, Ordering::Relaxed);
        self.file_records_left
            .store(MAX_FILE_ACCESS_RECORDS + 1, Ordering::Relaxed);
        lock_ignoring_poison(&self.status).reset_change_count();
        *lock_ignoring_poison(&self.reported) = ReportedSecretMaskings::default();
        if let Some(egress) = &self.egress {
            egress.reset_request_budget();
        }
    }
}

/// State of one guest call, separate from the state of the instance. Imports must read per-call
/// state only from here: today an instance runs one call at a time, but with asynchronous exports
/// each call will get its own slot.
#[derive(Default)]
pub(super) struct GuestCallState {
    pub(super) caller: Caller,
    /// Number of times that the guest may still call points of plugins during this call.
    pub(super) point_calls_left: u32,
    /// Payload that the guest reads through a handle; `None` if the payload is passed in another
    /// way.
    pub(super) lent: Option<GuestHandlePayload>,
    /// Blobs that were passed to the guest in this call in addition to those of the payload.
    pub(super) shown: Vec<Blob>,
    /// State of the loop's run, if this call is a run of the plugin's loop.
    pub(super) run: Option<Box<PluginLoopRunState>>,
    /// Turn that the plugin's agent loop runs, if this call runs that loop.
    pub(super) turn: Option<TurnOperationRequestSender>,
}

impl GuestCallState {
    pub(super) fn begin_call(&mut self, caller: &Caller) {
        self.caller.copy_changed_fields_from(caller);
        self.point_calls_left = MAX_POINT_CALLS_PER_PLUGIN_CALL;
        self.run = None;
        self.turn = None;
    }

    /// Ends the call and drops its payload reference, so that the dispatcher is the only owner
    /// again and can change the payload without a copy.
    pub(super) fn end_call(&mut self) {
        self.lent = None;
        self.shown.clear();
        self.run = None;
        self.turn = None;
    }
}

/// State of the host for one instance of a plugin, kept in its wasmtime store.
pub(super) struct HostState {
    wasi: WasiCtx,
    wasi_http: WasiHttpContextAndHooks,
    table: ResourceTable,
    pub(super) limiter: InstanceMemoryLimiter,
    pub(super) backing: Arc<SharedPluginState>,
    /// Record of the time for which calls of this instance waited for the user. That time does not
    /// count towards the maximum wait of the calls that wait for the instance.
    pauses: Option<Arc<UserWaitStopwatch>>,
    pub(super) call: GuestCallState,
    /// Files that the guest has opened, by their handles.
    pub(super) handles: GuestFileHandles,
    stderr: GuestStderrTail,
    /// Random numbers that the instance gets in tests; unused otherwise.
    numbers: SeededRandomGenerator,
}

impl HostState {
    /// Creates the state of a fresh instance. The WASI context has no arguments, no network and
    /// null standard streams; only standard error is captured, for the message of a panic. The
    /// environment is empty, except for a component without a manifest for which the operator set
    /// variables. The preopens are the granted directories.
    pub(super) fn new(
        backing: Arc<SharedPluginState>,
        pauses: Option<Arc<UserWaitStopwatch>>,
        memory_limit: u64,
    ) -> Self {
        let stderr = GuestStderrTail::new(MAX_KEPT_STDERR_BYTES);
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCE_TABLE_ENTRIES);
        let mut wasi = WasiCtxBuilder::new();
        wasi.max_random_size(MAX_RANDOM_BYTES_PER_CALL)
            .stderr(stderr.clone())
            .envs(&backing.environment);
        let numbers = SeededRandomGenerator::default();
        if let Some(fixed) = backing.fixed {
            fixed.install_in_guest(&mut wasi, &numbers);
        }
        Self {
            wasi: wasi.build(),
            numbers,
            wasi_http: WasiHttpContextAndHooks::new(backing.egress.clone()),
            table,
            limiter: InstanceMemoryLimiter::new(memory_limit, backing.meter.clone()),
            backing,
            pauses,
            call: GuestCallState::default(),
            handles: GuestFileHandles::default(),
            stderr,
        }
    }

    /// Begins a call, and clears the state of the previous call.
    pub(super) fn begin_call(&mut self, caller: &Caller) {
        self.clear_stderr();
        self.call.begin_call(caller);
        if let Some(fixed) = self.backing.fixed {
            self.numbers
                .start_random_sequence_of_call(fixed, &self.backing.calls);
        }
    }

    /// Counts a call of this import if a test meters the plugin. Also marks the current call as the
    /// holder of the instance: a guest can wait for a person only inside an import, and while it
    /// waits, the time limit of calls that wait for the instance is paused too.
    pub(super) fn count_import_call(&mut self, import: &'static str) -> &mut Self {
        if let Some(pauses) = &self.pauses {
            track_user_waits_of_current_call(pauses);
        }
        if let Some(meter) = &self.backing.meter {
            meter.count_import_call(import);
        }
        self
    }

    /// Returns the log of refused and failed accesses of the current call.
    pub(super) fn access_log(&self) -> FailedFileAccessRecorder {
        FailedFileAccessRecorder {
            backing: self.backing.clone(),
            origin: self.call.caller.action_origin(),
        }
    }

    /// Logs what the guest wrote to standard error in this call.
    pub(super) fn log_stderr(&self) {
        if !self.stderr.has_output_since_clear() {
            return;
        }
        let text = self.guest_stderr_as_line();
        if !text.is_empty() {
            let backing = &self.backing;
            let line = format!("stderr: {text}");
            backing
                .handle
                .write_log_line(&backing.plugin, Level::Debug, &line);
        }
    }

    /// Discards the standard error output that earlier calls wrote.
    fn clear_stderr(&self) {
        self.stderr.clear_tail();
    }

    /// Returns the guest's standard error output as one line. Drops Rust's hint about
    /// `RUST_BACKTRACE`: a guest has no environment in which to set it.
    pub(super) fn guest_stderr_as_line(&self) -> String {
        let text = self.stderr.text();
        let is_said = |line: &&str| !line.starts_with("note: run with `RUST_BACKTRACE=");
        let said: Vec<&str> = text.lines().filter(is_said).collect();
        let said = said.join("\n");
        GuestTextSanitizer::for_current_guest_call(self, "panic").sanitize_line(
            "message",
            said.trim_end(),
            MAX_KEPT_STDERR_BYTES,
        )
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
        self.count_import_call("wasi:http");
        let origin = self.call.caller.action_origin();
        self.wasi_http.http_view(&mut self.table, origin)
    }
}
