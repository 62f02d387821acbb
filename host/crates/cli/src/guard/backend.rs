//! Opens sessions for the guard's daemon with the operator's settings and plugins. Keeps a host for
//! each folder in which agents work.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;

use crate::environment;
use rind_guard::{GuardSessionOpener, GuardSessionRequest};
use rind_lib::Session;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::paths::{ADMIN_POLICY_FILE_PATH, PROJECT_FOLDER, RindPaths};
use rind_lib::session::{self, SessionStore};
use rind_lib::tool::approval::DenyAllApprover;
use rind_lib::tool::policy::{ApprovalMode, ToolPolicyOptions};
use rind_operator::environment::{OperatorEnvironment, WarningsAlreadyShown};
use rind_operator::settings::{ModelSelection, PluginSelection, ProgramRunSettings, SessionChoice};
use rind_operator::start::{ConfiguredAgentHost, OperatorHostBuilder, RunFrontend};

/// Plugins that the guard does not load, because they replace results by texts about tools that
/// only Rind has.
pub(super) const PLUGINS_EXCLUDED_FROM_GUARD: [&str; 1] = ["tool-output-sandbox"];

/// Maximum number of hosts that the guard keeps in memory; the least recently used one is dropped.
const MAX_CACHED_HOSTS: usize = 8;

/// Number of folder levels whose files are included in the stamp, the text that identifies the
/// state of a project's settings: the folder's plugins, and the files of each plugin.
const SETTINGS_FINGERPRINT_FOLDER_LEVELS: usize = 2;

/// Maximum number of entries of one folder that a stamp of the settings includes.
const MAX_FINGERPRINTED_FOLDER_ENTRIES: usize = 500;

/// Time to wait until a previous daemon, which is ending, has closed the session.
const PREVIOUS_DAEMON_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Host for the sessions of one project, and the time at which it was last used.
struct CachedProjectAgentHost {
    run: Arc<OnceCell<ConfiguredAgentHost>>,
    /// Text that identifies the state of the project's settings (their stamp) when the host was
    /// created.
    project: String,
    used: Instant,
}

/// Backend of the guard's daemon that judges calls with the operator's settings and plugins.
pub(super) struct GuardDaemonSessionOpener {
    paths: RindPaths,
    hosts: Mutex<HashMap<PathBuf, CachedProjectAgentHost>>,
}

/// Front end that asks no questions. Trust and permissions can be granted only at a terminal.
struct NonInteractiveGuardFrontend;

impl RunFrontend for NonInteractiveGuardFrontend {
    fn show_plugins(&self, plugins: &rind_lib::plugin::load::FoundPluginSet) {
        crate::render::plugins::warn_about_plugins_not_loaded(plugins);
    }
}

impl GuardDaemonSessionOpener {
    pub(super) fn new(paths: RindPaths) -> Self {
        Self {
            paths,
            hosts: Mutex::default(),
        }
    }

    async fn open_session(
        &self,
        order: &GuardSessionRequest,
    ) -> anyhow::Result<(Session, PathBuf)> {
        // Use the folder in which the session began: an agent may change its folder, but its
        // project stays the same.
        let begun = SessionStore::new(self.paths.sessions()).read_workspace_and_model(&order.id);
        let begun = begun
            .ok()
            .and_then(|begun| begun.workspace.canonicalize().ok());
        let folder = match begun.filter(|folder| folder.is_dir()) {
            Some(folder) => folder,
            None => order.folder.canonicalize()?,
        };
        let cell = self.get_or_insert_lazy_host(&folder);
        let run = cell.get_or_try_init(|| prepare_guard_host(&folder)).await?;
        let host = &run.host;
        let until = Instant::now() + PREVIOUS_DAEMON_CLOSE_TIMEOUT;
        loop {
            let builder = host.host.session().policy(host.external_agent_policy());
            let builder = builder.aside(format!("guard {}", order.agent.name()));
            match builder.resume_or_create(&order.id) {
                Ok(session) => return Ok((session, folder)),
                Err(error) if is_session_open_elsewhere(&error) && Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn get_or_insert_lazy_host(&self, folder: &Path) -> Arc<OnceCell<ConfiguredAgentHost>> {
        let mut hosts = lock_ignoring_poison(&self.hosts);
        if hosts.len() >= MAX_CACHED_HOSTS && !hosts.contains_key(folder) {
            let oldest = hosts.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(folder, _)| folder.clone()) {
                hosts.remove(&oldest);
            }
        }
        let kept = hosts
            .entry(folder.to_owned())
            .or_insert_with(|| CachedProjectAgentHost {
                run: Arc::default(),
                project: project_settings_change_stamp(folder),
                used: Instant::now(),
            });
        kept.used = Instant::now();
        kept.run.clone()
    }
}

impl GuardSessionOpener for GuardDaemonSessionOpener {
    fn open<'a>(
        &'a self,
        order: &'a GuardSessionRequest,
    ) -> BoxFuture<'a, Result<(Session, PathBuf), String>> {
        Box::pin(async move {
            let opened = self.open_session(order).await;
            opened.map_err(|error| {
                format!(
                    "cannot open a session in {}: {error:#}",
                    order.folder.display()
                )
            })
        })
    }

    fn configuration_fingerprint(&self) -> String {
        let RindPaths { config, data, .. } = &self.paths;
        let mut files = vec![
            PathBuf::from(ADMIN_POLICY_FILE_PATH),
            config.join("config.toml"),
            config.join("config.json"),
            config.join("policy.toml"),
            config.join("secrets.toml"),
            config.join("workspaces"),
            config.join("plugins"),
            config.join("plugins.lock.toml"),
            data.join("grants.json"),
            data.join("projects.json"),
        ];
        files.extend(environment::process_environment().installation_plugins_folder());
        let mut stamp = String::new();
        for file in &files {
            append_file_fingerprint(file, SETTINGS_FINGERPRINT_FOLDER_LEVELS, &mut stamp);
        }
        let hosts = lock_ignoring_poison(&self.hosts);
        let changed = hosts
            .iter()
            .filter(|(folder, kept)| project_settings_change_stamp(folder) != kept.project);
        for (folder, _) in changed {
            stamp.push_str(&format!("changed {} ", folder.display()));
        }
        stamp
    }
}

/// Returns a text that changes when the project's own settings or plugins change.
fn project_settings_change_stamp(folder: &Path) -> String {
    let mut stamp = String::new();
    append_file_fingerprint(
        &folder.join(PROJECT_FOLDER),
        SETTINGS_FINGERPRINT_FOLDER_LEVELS,
        &mut stamp,
    );
    stamp
}

/// Appends modification time and inode of a file; for a folder also those of its entries, `depth`
/// levels deep.
fn append_file_fingerprint(path: &Path, depth: usize, stamp: &mut String) {
    let Ok(found) = path.metadata() else {
        stamp.push_str("- ");
        return;
    };
    stamp.push_str(&format!(
        "{}.{}:{} ",
        found.mtime(),
        found.mtime_nsec(),
        found.ino()
    ));
    if !found.is_dir() || depth == 0 {
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .take(MAX_FINGERPRINTED_FOLDER_ENTRIES)
        .for_each(|path| append_file_fingerprint(path, depth - 1, stamp));
}

fn is_session_open_elsewhere(error: &rind_lib::host::Error) -> bool {
    matches!(
        error,
        rind_lib::host::Error::Session(session::Error::Locked { .. })
    )
}

async fn prepare_guard_host(folder: &Path) -> anyhow::Result<ConfiguredAgentHost> {
    let environment = Arc::new(OperatorEnvironment {
        on_warning: Arc::new(|text: &str| tracing::warn!("{text}")),
        said: WarningsAlreadyShown::default(),
        ..OperatorEnvironment::clone(&environment::process_environment())
    });
    let settings = ProgramRunSettings {
        paths: environment.paths_for_workspace(folder)?,
        environment,
        model: ModelSelection::default(),
        plugins: PluginSelection {
            unsuited: PLUGINS_EXCLUDED_FROM_GUARD.map(str::to_owned).to_vec(),
            ..PluginSelection::default()
        },
        session: SessionChoice::New,
        mode: ToolPolicyOptions::default(),
        approval: ApprovalMode::default(),
    };
    let run =
        OperatorHostBuilder::from_run_settings(settings, &NonInteractiveGuardFrontend).await?;
    let nobody = Arc::new(DenyAllApprover("the guard asks nobody".to_owned()));
    run.allow_missing_model()
        .without_mcp_servers()
        .create_host(nobody)
        .await
}
