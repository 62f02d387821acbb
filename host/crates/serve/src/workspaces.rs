//! Manages the folders that sessions may work in: the one in which the server was started, and
//! others that the operator names at the start. Requests cannot use any other folder.
//!
//! Each folder has its own host with the settings, rules, plugins and skills of that folder. The
//! host of the first folder exists from the start. The host of another folder is created when the
//! first session of that folder is opened. All hosts are kept until the server stops.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind_lib::Host;
use rind_lib::plugin::load::FoundPluginSet;
use rind_lib::tool::policy::Policy;
use tokio::sync::OnceCell;

use crate::error::ApiError;
use crate::hook_sums::HookCallTotals;
use crate::routes::run_blocking;

/// Host whose sessions work in one folder, with the plugins that it loaded.
pub struct WorkspaceHost {
    pub(crate) host: Host,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) plugins: Arc<FoundPluginSet>,
    /// Numbers and durations of the hook calls in the sessions of the host.
    pub(crate) hooks: Arc<HookCallTotals>,
}

impl WorkspaceHost {
    /// Creates the host of a folder from `host`, from the policy for tool calls, which may ask a
    /// user for approval, and from the plugins that were found for the folder, which the API lists.
    #[must_use]
    pub fn new(host: Host, policy: Arc<dyn Policy>, plugins: Arc<FoundPluginSet>) -> Self {
        Self {
            host,
            policy,
            plugins,
            hooks: Arc::default(),
        }
    }
}

/// Creates the hosts of the folders that the operator names.
pub trait WorkspaceHostFactory: Send + Sync {
    /// Creates the host of a folder.
    ///
    /// # Errors
    /// The reason why no session can be opened in the folder.
    fn open_host(&self, folder: PathBuf) -> BoxFuture<'_, Result<WorkspaceHost, String>>;
}

/// Folders in which sessions may work, with the host of each.
pub(crate) struct WorkspaceHosts {
    first: Arc<WorkspaceHost>,
    others: BTreeMap<PathBuf, OnceCell<Arc<WorkspaceHost>>>,
    opener: Arc<dyn WorkspaceHostFactory>,
}

impl WorkspaceHosts {
    /// Creates the server's workspaces. `first` is the host of the folder in which the server was
    /// started; `folders` has the canonical paths of the other folders.
    pub(crate) fn new(
        first: WorkspaceHost,
        folders: Vec<PathBuf>,
        opener: Arc<dyn WorkspaceHostFactory>,
    ) -> Self {
        let others = folders.into_iter();
        let others = others.map(|folder| (folder, OnceCell::new())).collect();
        Self {
            first: Arc::new(first),
            others,
            opener,
        }
    }

    /// Returns the host of the folder in which the server was started.
    pub(crate) fn default_workspace_host(&self) -> &Arc<WorkspaceHost> {
        &self.first
    }

    /// Returns the paths of all folders; the folder in which the server was started comes first.
    pub(crate) fn folders(&self) -> Vec<String> {
        let first = std::iter::once(self.first.host.workspace());
        let others = self.others.keys().map(PathBuf::as_path);
        let all = first.chain(others.filter(|folder| *folder != self.first.host.workspace()));
        all.map(|folder| folder.display().to_string()).collect()
    }

    /// Returns the host of the folder `wanted`, or of the first folder if it is `None`.
    pub(crate) async fn get_workspace_host(
        &self,
        wanted: Option<String>,
    ) -> Result<Arc<WorkspaceHost>, ApiError> {
        let Some(wanted) = wanted else {
            return Ok(self.first.clone());
        };
        let refused = self.unknown_folder_error(&wanted);
        // Resolve symlinks and `..` first, so that two spellings of a folder lead to the same host.
        let folder = run_blocking(move || {
            let path = Path::new(&wanted);
            let folder = path.is_absolute().then(|| path.canonicalize().ok());
            Ok(folder.flatten())
        });
        match folder.await? {
            Some(folder) => self.get_or_open_host(&folder, refused).await,
            None => Err(refused),
        }
    }

    /// Returns the host of the folder in which an existing session works.
    pub(crate) async fn host_of_session_folder(
        &self,
        wanted: &str,
    ) -> Result<Arc<WorkspaceHost>, ApiError> {
        let first = &self.first.host;
        let (store, folder) = (first.store().clone(), first.workspace().to_owned());
        let wanted = wanted.to_owned();
        let about = run_blocking(move || {
            Ok(store.read_workspace_and_model(
                &store.resolve_session_id_in_workspace(&wanted, &folder)?,
            )?)
        })
        .await?;
        if about.workspace.as_os_str().is_empty() {
            return Ok(self.first.clone());
        }
        let refused = self.unknown_folder_error(&about.workspace.display().to_string());
        self.get_or_open_host(&about.workspace, refused).await
    }

    async fn get_or_open_host(
        &self,
        folder: &Path,
        refused: ApiError,
    ) -> Result<Arc<WorkspaceHost>, ApiError> {
        if folder == self.first.host.workspace() {
            return Ok(self.first.clone());
        }
        let Some(host) = self.others.get(folder) else {
            return Err(refused);
        };
        let made = host.get_or_try_init(|| async {
            let opened = self.opener.open_host(folder.to_owned()).await;
            opened.map(Arc::new).map_err(|why| {
                let text = format!("no session can be opened in {}: {why}", folder.display());
                ApiError::conflict("workspace", text)
            })
        });
        made.await.cloned()
    }

    fn unknown_folder_error(&self, wanted: &str) -> ApiError {
        ApiError::forbidden(format!(
            "{wanted} is not a folder of this server; sessions work in {}, and the operator names others when the server is started",
            self.folders().join(", ")
        ))
    }
}
