//! Hosts with which a worker runs turns: the host with the plugins of its machine, or one host for
//! each set of plugins that it has loaded.
//!
//! New turns use the current host. A session that was claimed with an earlier host keeps it until
//! the running turn has ended. Start from [`AgentHostRegistry`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anyhow::Context;
use rind_lib::lock::lock_ignoring_poison;
use rind_nats::worker::WorkerTurnExecutorState;
use rind_nats::{NatsSessions, SignedPluginSet, TenantQuotaClient};
use rind_operator::start::ConfiguredAgentHost;
use rind_serve::holder::OpenSessionRegistry;
use rind_serve::remote::RemoteSessionState;
use rind_serve::workspaces::WorkspaceHost;
use tokio::sync::watch;

use super::gate::HostTurnAdmissionController;

/// Number of leading hexadecimal digits of a digest that are shown.
const SHOWN_DIGEST_HEX_DIGITS: usize = 12;

/// A host and the sessions that are open in it.
pub(super) struct WorkerHostWithOpenSessions {
    /// Registry of the sessions that are open in the host.
    pub(super) holder: OpenSessionRegistry,
    /// Set of plugins that the host has loaded; `None` for the plugins of this machine.
    set: Option<SignedPluginSet>,
    uses: Arc<HostTurnPermits>,
}

/// Permits of a host to begin new turns and to continue interrupted ones.
#[derive(Debug, Default)]
pub(super) struct HostTurnPermits {
    is_current: AtomicBool,
    /// Permits to continue interrupted turns that began with the plugins of this host. A permit is
    /// void once its [`TurnContinuationPermit`] is dropped.
    continued: Mutex<Vec<Weak<()>>>,
}

impl HostTurnPermits {
    /// Whether a turn may begin: this host is the current one, or there is a permit to continue an
    /// interrupted turn.
    pub(super) fn can_begin_turn(&self) -> bool {
        let is_held = |permit: &Weak<()>| permit.strong_count() > 0;
        self.is_current.load(Ordering::SeqCst)
            || lock_ignoring_poison(&self.continued).iter().any(is_held)
    }

    /// Consumes a permit to continue an interrupted turn if this host is not the current one.
    /// Returns whether the turn may begin.
    pub(super) fn try_consume_turn_permit(&self) -> bool {
        if self.is_current.load(Ordering::SeqCst) {
            return true;
        }
        let mut permits = lock_ignoring_poison(&self.continued);
        permits.retain(|permit| permit.strong_count() > 0);
        permits.pop().is_some()
    }
}

/// Permit to continue one turn with a host that is not the current one. The permission ends when
/// this value is dropped.
pub(super) struct TurnContinuationPermit {
    _permit: Arc<()>,
}

impl WorkerHostWithOpenSessions {
    /// Creates the host from a run whose plugins and settings were prepared. Its turns count
    /// against the quotas of the tenant.
    pub(super) fn new(
        sessions: &NatsSessions,
        run: &ConfiguredAgentHost,
        ask: Option<u64>,
        set: Option<&SignedPluginSet>,
    ) -> anyhow::Result<Self> {
        let host = &run.host;
        let policy = match ask {
            Some(_) => host.policy_that_allows_questions(),
            None => host.policy(),
        };
        let workspace = WorkspaceHost::new(host.host.clone(), policy, run.plugins.clone());
        // A timeout of zero makes questions of plugins take their defaults at once, if no user is
        // asked.
        let answer_time = Duration::from_secs(ask.unwrap_or(0));
        let holder = OpenSessionRegistry::new(workspace, answer_time)
            .context("cannot generate random numbers")?;
        let uses = Arc::new(HostTurnPermits::default());
        let gate = HostTurnAdmissionController::new(
            TenantQuotaClient::from_sessions(sessions),
            uses.clone(),
        );
        Ok(Self {
            holder: holder.with_turn_admission_controller(Arc::new(gate)),
            set: set.cloned(),
            uses,
        })
    }

    /// Whether the host has loaded the plugin set with this digest.
    pub(super) fn has_loaded_plugin_set(&self, digest: &str) -> bool {
        self.set.as_ref().is_some_and(|set| set.digest == digest)
    }

    /// Whether new turns may begin with this host.
    pub(super) fn is_accepting_new_turns(&self) -> bool {
        self.uses.is_current.load(Ordering::SeqCst)
    }

    /// Returns a permit to continue one interrupted turn that began with the plugins of this host.
    pub(super) fn issue_turn_continuation_permit(&self) -> TurnContinuationPermit {
        let permit = Arc::new(());
        lock_ignoring_poison(&self.uses.continued).push(Arc::downgrade(&permit));
        TurnContinuationPermit { _permit: permit }
    }

    /// Whether a turn that began with the plugin set `earlier` may continue with this host's set.
    pub(super) fn can_continue_turn_of(&self, earlier: &SignedPluginSet) -> bool {
        self.set.as_ref().is_some_and(|own| {
            own.record.class == earlier.record.class && earlier.record.number >= own.record.oldest
        })
    }

    /// Returns the set of plugins that the host has loaded.
    pub(super) fn plugin_set(&self) -> Option<&SignedPluginSet> {
        self.set.as_ref()
    }

    /// Formats a line that tells people which plugins the host has loaded.
    pub(super) fn describe_plugins(&self) -> String {
        match &self.set {
            Some(SignedPluginSet { record, digest, .. }) => {
                let digits = digest.get(..SHOWN_DIGEST_HEX_DIGITS).unwrap_or(digest);
                format!(
                    "turns use the set of plugins with the number {} (digest {digits})",
                    record.number
                )
            }
            None => "turns use the plugins of this machine".to_owned(),
        }
    }
}

#[derive(Clone, Default)]
struct CurrentWorkerHostState {
    current: Option<Arc<WorkerHostWithOpenSessions>>,
    fault: Option<String>,
}

/// All hosts of a worker, and the one that new turns use.
pub(super) struct AgentHostRegistry {
    state: watch::Sender<CurrentWorkerHostState>,
    /// Hosts that may still have open sessions, including earlier ones.
    all: Mutex<Vec<Weak<WorkerHostWithOpenSessions>>>,
}

impl AgentHostRegistry {
    /// Creates the hosts of a worker that has not loaded a set of plugins yet: none.
    pub(super) fn new_empty() -> Self {
        Self {
            state: watch::Sender::new(CurrentWorkerHostState {
                current: None,
                fault: Some("the set of plugins is not loaded yet".to_owned()),
            }),
            all: Mutex::default(),
        }
    }

    /// Returns the host that runs new turns; `None` if none is loaded.
    pub(super) fn current_host(&self) -> Option<Arc<WorkerHostWithOpenSessions>> {
        self.state.borrow().current.clone()
    }

    /// Waits until a host has been loaded that can run new turns.
    pub(super) async fn wait_for_host(&self) {
        let mut state = self.state.subscribe();
        // Ignore the error: the sender lives as long as `self`, so waiting cannot fail.
        let _ = state.wait_for(|state| state.current.is_some()).await;
    }

    /// Adds a loaded host to the known ones, because sessions may be open in it, without making it
    /// the current one.
    pub(super) fn add_host(&self, host: &Arc<WorkerHostWithOpenSessions>) {
        let host = Arc::downgrade(host);
        let mut all = lock_ignoring_poison(&self.all);
        all.retain(|known| known.strong_count() > 0);
        if !all.iter().any(|known| known.ptr_eq(&host)) {
            all.push(host);
        }
    }

    /// Returns a loaded host whose plugin set has this digest, if there is one.
    pub(super) fn find_host_by_plugin_set_digest(
        &self,
        digest: &str,
    ) -> Option<Arc<WorkerHostWithOpenSessions>> {
        let all = lock_ignoring_poison(&self.all);
        let mut all = all.iter().filter_map(Weak::upgrade);
        all.find(|host| host.has_loaded_plugin_set(digest))
    }

    /// Makes a host the current one, which new turns use.
    pub(super) fn set_current_host(&self, host: Arc<WorkerHostWithOpenSessions>) {
        self.add_host(&host);
        host.uses.is_current.store(true, Ordering::SeqCst);
        let before = self.state.send_replace(CurrentWorkerHostState {
            current: Some(host.clone()),
            fault: None,
        });
        if let Some(before) = before.current.filter(|before| !Arc::ptr_eq(before, &host)) {
            before.uses.is_current.store(false, Ordering::SeqCst);
        }
    }

    /// Prevents new turns until the next [`set_current_host`](Self::set_current_host). Operators
    /// are shown `fault` as the reason.
    pub(super) fn stop_new_turns(&self, fault: &str) {
        let before = self.state.send_replace(CurrentWorkerHostState {
            current: None,
            fault: Some(fault.to_owned()),
        });
        if let Some(before) = before.current {
            before.uses.is_current.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the version of the loaded plugin set, and the reason why no turn can begin, if there
    /// is one. The worker reports both to operators.
    pub(super) fn turn_executor_state(&self) -> WorkerTurnExecutorState {
        let state = self.state.borrow();
        let set = state.current.as_ref().and_then(|host| host.set.as_ref());
        WorkerTurnExecutorState {
            plugins: set.map(|set| format!("{} {}", set.record.number, set.digest)),
            fault: state.fault.clone(),
        }
    }

    /// Returns the states of the open sessions of all hosts.
    pub(super) async fn session_states(&self) -> Vec<RemoteSessionState> {
        let all: Vec<Arc<WorkerHostWithOpenSessions>> = lock_ignoring_poison(&self.all)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut states = Vec::new();
        for host in all {
            states.extend(host.holder.session_states().await);
        }
        states
    }
}
