//! Loads the set of plugins that is in force for a worker, and each later set that replaces it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rind_lib::session::SessionStore;
use rind_nats::{NatsError, NatsSessions, PluginSets, SignedSet};
use rind_operator::settings::RunSettings;

use super::super::super::{open, render};
use super::super::hosts::{LoadedHost, TurnHosts};
use super::fetch::fetch_set;
use super::seen::note_set;

/// Folder for the files of sets, in the data folder.
const FOLDER: &str = "plugin-sets";

/// Time without an answer from the servers after which no turn begins, because a set that revokes
/// this worker's set might have been published meanwhile.
const MAX_UNANSWERED: Duration = Duration::from_secs(60);

/// Loads sets for a worker.
pub(in super::super) struct SetLoader {
    sessions: NatsSessions,
    sets: PluginSets,
    class: String,
    keys: Vec<String>,
    settings: RunSettings,
    ask: Option<u64>,
    folder: PathBuf,
    /// Host with the plugins of this machine, for a worker without a key.
    local: Option<Arc<LoadedHost>>,
}

/// Reason why there is no set with which to run turns.
enum LoadFailure {
    /// The servers did not answer, so the set in force may or may not have changed.
    Unanswered(NatsError),
    /// No turn may begin, for example because the set cannot be verified or loaded.
    Refused(anyhow::Error),
}

impl SetLoader {
    /// Creates the loader for workers of a class. It accepts only sets that one of `keys` signed.
    pub(in super::super) fn new(
        sessions: &NatsSessions,
        class: &str,
        keys: Vec<String>,
        settings: RunSettings,
        ask: Option<u64>,
    ) -> Self {
        Self {
            sessions: sessions.clone(),
            sets: PluginSets::of(sessions),
            class: class.to_owned(),
            keys,
            ask,
            folder: settings.paths.data.join(FOLDER),
            settings,
            local: None,
        }
    }

    /// Lets turns use the plugins of this machine as long as no set is published. Once one is, a
    /// worker without its key would run turns without the guards of the set.
    #[must_use]
    pub(in super::super) fn without_key(mut self, local: LoadedHost) -> Self {
        self.local = Some(Arc::new(local));
        self
    }

    async fn look_without_key(
        &self,
        local: &Arc<LoadedHost>,
    ) -> Result<Arc<LoadedHost>, LoadFailure> {
        let class = &self.class;
        match self.sets.is_published(Some(class)).await {
            Ok(false) => Ok(local.clone()),
            Ok(true) => Err(LoadFailure::Refused(anyhow::anyhow!(
                "a set of plugins is published for the class {class}, and this worker was started without its key: start it \
                 with --plugins-key"
            ))),
            Err(error) => Err(LoadFailure::Unanswered(error)),
        }
    }

    /// Returns the host of the set in force; `last` if it has that set. Before loading a set that
    /// revokes that of `last`, it stops new turns from beginning.
    async fn look(
        &self,
        last: Option<&Arc<LoadedHost>>,
        hosts: &TurnHosts,
    ) -> Result<Arc<LoadedHost>, LoadFailure> {
        if let Some(local) = &self.local {
            return self.look_without_key(local).await;
        }
        let found = self.sets.find(&self.class, &self.keys).await;
        let set = match found {
            Ok(Some(set)) => set,
            Ok(None) => {
                return Err(LoadFailure::Refused(anyhow::anyhow!(
                    "no set of plugins is published for the tenant {} and the class {}; publish one with `rind cluster \
                     plugins publish`",
                    self.sets.tenant(),
                    self.class
                )));
            }
            Err(error @ NatsError::PluginSet { .. }) => {
                return Err(LoadFailure::Refused(error.into()));
            }
            Err(error) => return Err(LoadFailure::Unanswered(error)),
        };
        self.note(&set).await.map_err(LoadFailure::Refused)?;
        if let Some(last) = last.filter(|last| last.is_of(&set.digest)) {
            return Ok(last.clone());
        }
        let before = last.and_then(|last| last.set());
        if before.is_some_and(|before| before.record.number < set.record.oldest) {
            hosts.fail(&format!(
                "no turn begins here until the set of plugins {} is loaded, which revokes the one before",
                set.record.number
            ));
        }
        let loaded = self.load(&set).await;
        let loaded =
            loaded.with_context(|| format!("load the set of plugins {}", set.record.number));
        loaded.map(Arc::new).map_err(LoadFailure::Refused)
    }

    /// Returns the host of an earlier set, to continue a turn that began with it. `None` if the set
    /// is no longer in the bucket, was revoked, or cannot be loaded.
    pub(in super::super) async fn earlier(
        &self,
        digest: &str,
        hosts: &TurnHosts,
    ) -> Option<Arc<LoadedHost>> {
        let current = hosts.current()?;
        let loaded = hosts.loaded(digest);
        let set = match loaded.as_ref().and_then(|host| host.set()) {
            Some(set) => Some(set.clone()),
            None => {
                let found = self.sets.find_earlier(&self.class, &self.keys, digest);
                found.await.ok().flatten()
            }
        };
        let set = set.filter(|set| current.allows_earlier(set))?;
        if loaded.is_some() {
            return loaded;
        }
        match self.load(&set).await {
            Ok(host) => {
                let host = Arc::new(host);
                hosts.add(&host);
                Some(host)
            }
            Err(error) => {
                let number = set.record.number;
                tracing::warn!("the earlier set of plugins {number} cannot be loaded: {error:#}");
                None
            }
        }
    }

    /// Records the number of a set before it is loaded, so that older sets are refused from now on.
    async fn note(&self, set: &SignedSet) -> anyhow::Result<()> {
        let path = self
            .folder
            .join(format!("seen-{}.json", self.sets.tenant()));
        let (class, set) = (self.class.clone(), set.clone());
        let noted = tokio::task::spawn_blocking(move || note_set(&path, &class, &set));
        noted.await.context("note the set of plugins")?
    }

    async fn load(&self, set: &SignedSet) -> anyhow::Result<LoadedHost> {
        let (sets, own, folder) = (self.sets.clone(), set.clone(), self.folder.join("files"));
        let given = tokio::task::spawn_blocking(move || fetch_set(&sets, &own, &folder));
        let given = Arc::new(given.await.context("fetch the set of plugins")??);
        let mut settings = self.settings.clone();
        settings.plugins.set = Some(given);
        let store = SessionStore::over(Arc::new(self.sessions.clone()));
        let run = open::open_further(settings, Some(store)).await?;
        LoadedHost::new(&self.sessions, &run, self.ask, Some(set))
    }
}

/// Keeps the current host of a worker at the set in force. Never returns.
pub(in super::super) async fn follow_sets(loader: Arc<SetLoader>, hosts: Arc<TurnHosts>) {
    let mut last: Option<Arc<LoadedHost>> = None;
    let mut changes = None;
    let mut answered = Instant::now();
    let mut told = loader
        .local
        .as_ref()
        .map_or_else(String::new, |own| own.title());
    loop {
        if changes.is_none() {
            changes = loader.sets.changes().await.ok();
        }
        let found = loader.look(last.as_ref(), &hosts).await;
        if !matches!(found, Err(LoadFailure::Unanswered(_))) {
            answered = Instant::now();
        }
        let text = match found {
            Ok(host) => {
                let text = host.title();
                hosts.replace(host.clone());
                last = Some(host);
                text
            }
            Err(LoadFailure::Unanswered(error)) if answered.elapsed() < MAX_UNANSWERED => {
                tracing::debug!(%error, "it is not known whether the set of plugins has changed");
                told.clone()
            }
            Err(LoadFailure::Unanswered(error)) => {
                tracing::debug!(%error, "turns wait for an answer about the set of plugins");
                let text = format!(
                    "no turn begins here: for {} s the servers have not said whether the set of plugins has changed",
                    MAX_UNANSWERED.as_secs()
                );
                hosts.fail(&text);
                text
            }
            Err(LoadFailure::Refused(error)) => {
                let text = format!("no turn begins here: {error:#}");
                hosts.fail(&text);
                text
            }
        };
        // Print once for each state, not for each check.
        if text != told {
            render::print_note(&text);
            told = text;
        }
        match &mut changes {
            Some(changes) => changes.changed().await,
            None => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}
