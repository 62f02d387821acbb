//! Loads the set of plugins that is in force for a worker, and each later set that replaces it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rind_lib::session::SessionStore;
use rind_nats::{NatsError, NatsSessions, SignedPluginSet, TenantPluginSetStore};
use rind_operator::settings::ProgramRunSettings;

use super::super::super::{open, render};
use super::super::hosts::{AgentHostRegistry, WorkerHostWithOpenSessions};
use super::fetch::fetch_plugin_set;
use super::seen::record_accepted_plugin_set;

/// Folder in the data folder for the files of plugin sets.
const PLUGIN_SETS_FOLDER_NAME: &str = "plugin-sets";

/// Time for which turns may still begin while the servers do not answer. After that, a set that
/// revokes this worker's set might have been published.
const SERVER_OUTAGE_GRACE_PERIOD_FOR_NEW_TURNS: Duration = Duration::from_secs(60);

/// Loads sets of plugins for a worker.
pub(in super::super) struct PluginSetLoader {
    sessions: NatsSessions,
    sets: TenantPluginSetStore,
    class: String,
    keys: Vec<String>,
    settings: ProgramRunSettings,
    ask: Option<u64>,
    folder: PathBuf,
    /// Host with the plugins of this machine, for a worker without a public key that verifies
    /// published sets.
    local: Option<Arc<WorkerHostWithOpenSessions>>,
}

/// Reason why there is no plugin set with which a turn could run.
enum PluginSetLoadFailure {
    /// The servers did not answer, so it is unknown whether the plugin set in force has changed.
    Unanswered(NatsError),
    /// No turn may begin, for example because the set cannot be verified or loaded.
    Refused(anyhow::Error),
}

impl PluginSetLoader {
    /// Creates the loader of the plugin sets that are published for the worker class `class`. The
    /// loader accepts only sets that one of `keys` signed.
    pub(in super::super) fn new(
        sessions: &NatsSessions,
        class: &str,
        keys: Vec<String>,
        settings: ProgramRunSettings,
        ask: Option<u64>,
    ) -> Self {
        Self {
            sessions: sessions.clone(),
            sets: TenantPluginSetStore::from_sessions(sessions),
            class: class.to_owned(),
            keys,
            ask,
            folder: settings.paths.data.join(PLUGIN_SETS_FOLDER_NAME),
            settings,
            local: None,
        }
    }

    /// Lets turns use the plugins of this machine until a plugin set is published. After that no
    /// turn begins, because this worker has no public key with which it could load the set and its
    /// guards.
    #[must_use]
    pub(in super::super) fn with_local_host_if_unpublished(
        mut self,
        local: WorkerHostWithOpenSessions,
    ) -> Self {
        self.local = Some(Arc::new(local));
        self
    }

    async fn local_host_if_unpublished(
        &self,
        local: &Arc<WorkerHostWithOpenSessions>,
    ) -> Result<Arc<WorkerHostWithOpenSessions>, PluginSetLoadFailure> {
        let class = &self.class;
        match self.sets.is_plugin_set_published(Some(class)).await {
            Ok(false) => Ok(local.clone()),
            Ok(true) => Err(PluginSetLoadFailure::Refused(anyhow::anyhow!(
                "a set of plugins is published for the class {class}, and this worker was started without its key: start it \
                 with --plugins-key"
            ))),
            Err(error) => Err(PluginSetLoadFailure::Unanswered(error)),
        }
    }

    /// Returns a host with the set in force: `last`, if it has loaded that set, otherwise a new
    /// host. Stops new turns first if the set in force revokes the set of `last`.
    async fn find_or_load_current_host(
        &self,
        last: Option<&Arc<WorkerHostWithOpenSessions>>,
        hosts: &AgentHostRegistry,
    ) -> Result<Arc<WorkerHostWithOpenSessions>, PluginSetLoadFailure> {
        if let Some(local) = &self.local {
            return self.local_host_if_unpublished(local).await;
        }
        let found = self.sets.find_set(&self.class, &self.keys).await;
        let set = match found {
            Ok(Some(set)) => set,
            Ok(None) => {
                return Err(PluginSetLoadFailure::Refused(anyhow::anyhow!(
                    "no set of plugins is published for the tenant {} and the class {}; publish one with `rind cluster \
                     plugins publish`",
                    self.sets.tenant(),
                    self.class
                )));
            }
            Err(error @ NatsError::PluginSet { .. }) => {
                return Err(PluginSetLoadFailure::Refused(error.into()));
            }
            Err(error) => return Err(PluginSetLoadFailure::Unanswered(error)),
        };
        self.record_plugin_set_number(&set)
            .await
            .map_err(PluginSetLoadFailure::Refused)?;
        if let Some(last) = last.filter(|last| last.has_loaded_plugin_set(&set.digest)) {
            return Ok(last.clone());
        }
        let before = last.and_then(|last| last.plugin_set());
        if before.is_some_and(|before| before.record.number < set.record.oldest) {
            hosts.stop_new_turns(&format!(
                "this worker starts no turn until it has loaded the set of plugins {}, which revokes the previous set",
                set.record.number
            ));
        }
        let loaded = self.load_host_with_set(&set).await;
        let loaded =
            loaded.with_context(|| format!("cannot load the set of plugins {}", set.record.number));
        loaded.map(Arc::new).map_err(PluginSetLoadFailure::Refused)
    }

    /// Returns the host of an earlier set, to continue a turn that began with it. `None` if the set
    /// is no longer in the bucket, was revoked, or cannot be loaded.
    pub(in super::super) async fn load_host_by_digest(
        &self,
        digest: &str,
        hosts: &AgentHostRegistry,
    ) -> Option<Arc<WorkerHostWithOpenSessions>> {
        let current = hosts.current_host()?;
        let loaded = hosts.find_host_by_plugin_set_digest(digest);
        let set = match loaded.as_ref().and_then(|host| host.plugin_set()) {
            Some(set) => Some(set.clone()),
            None => {
                let found = self
                    .sets
                    .find_plugin_set_in_history(&self.class, &self.keys, digest);
                found.await.ok().flatten()
            }
        };
        let set = set.filter(|set| current.can_continue_turn_of(set))?;
        if loaded.is_some() {
            return loaded;
        }
        match self.load_host_with_set(&set).await {
            Ok(host) => {
                let host = Arc::new(host);
                hosts.add_host(&host);
                Some(host)
            }
            Err(error) => {
                let number = set.record.number;
                tracing::warn!("the earlier set of plugins {number} cannot be loaded: {error:#}");
                None
            }
        }
    }

    /// Records the number of a plugin set before the set is loaded, so that older sets are refused
    /// from then on.
    async fn record_plugin_set_number(&self, set: &SignedPluginSet) -> anyhow::Result<()> {
        let path = self
            .folder
            .join(format!("seen-{}.json", self.sets.tenant()));
        let (class, set) = (self.class.clone(), set.clone());
        let noted =
            tokio::task::spawn_blocking(move || record_accepted_plugin_set(&path, &class, &set));
        noted
            .await
            .context("cannot record the accepted set of plugins")?
    }

    async fn load_host_with_set(
        &self,
        set: &SignedPluginSet,
    ) -> anyhow::Result<WorkerHostWithOpenSessions> {
        let (sets, own, folder) = (self.sets.clone(), set.clone(), self.folder.join("files"));
        let given = tokio::task::spawn_blocking(move || fetch_plugin_set(&sets, &own, &folder));
        let given = Arc::new(given.await.context("cannot fetch the set of plugins")??);
        let mut settings = self.settings.clone();
        settings.plugins.set = Some(given);
        let store = SessionStore::with_backend(Arc::new(self.sessions.clone()));
        let run = open::build_host_without_questions(settings, Some(store)).await?;
        WorkerHostWithOpenSessions::new(&self.sessions, &run, self.ask, Some(set))
    }
}

/// Loads each set of plugins that comes into force and makes its host the worker's current one.
/// Never returns.
pub(in super::super) async fn load_new_sets_forever(
    loader: Arc<PluginSetLoader>,
    hosts: Arc<AgentHostRegistry>,
) {
    let mut last: Option<Arc<WorkerHostWithOpenSessions>> = None;
    let mut changes = None;
    let mut answered = Instant::now();
    let mut told = loader
        .local
        .as_ref()
        .map_or_else(String::new, |own| own.describe_plugins());
    loop {
        if changes.is_none() {
            changes = loader.sets.subscribe_to_changes().await.ok();
        }
        let found = loader
            .find_or_load_current_host(last.as_ref(), &hosts)
            .await;
        if !matches!(found, Err(PluginSetLoadFailure::Unanswered(_))) {
            answered = Instant::now();
        }
        let text = match found {
            Ok(host) => {
                let text = host.describe_plugins();
                hosts.set_current_host(host.clone());
                last = Some(host);
                text
            }
            Err(PluginSetLoadFailure::Unanswered(error))
                if answered.elapsed() < SERVER_OUTAGE_GRACE_PERIOD_FOR_NEW_TURNS =>
            {
                tracing::debug!(%error, "it is not known whether the set of plugins has changed");
                told.clone()
            }
            Err(PluginSetLoadFailure::Unanswered(error)) => {
                tracing::debug!(%error, "turns wait for an answer about the set of plugins");
                let text = format!(
                    "this worker starts no turn: for {} s the NATS servers have not said whether the set of plugins has changed",
                    SERVER_OUTAGE_GRACE_PERIOD_FOR_NEW_TURNS.as_secs()
                );
                hosts.stop_new_turns(&text);
                text
            }
            Err(PluginSetLoadFailure::Refused(error)) => {
                let text = format!("this worker starts no turn: {error:#}");
                hosts.stop_new_turns(&text);
                text
            }
        };
        // Print the message only when it differs from the last one, not at every check.
        if text != told {
            render::print_note(&text);
            told = text;
        }
        match &mut changes {
            Some(changes) => changes.wait_for_change().await,
            None => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}
