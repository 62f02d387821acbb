//! Guests: the crates under `guests/` and the first-party plugins, compiled once for a test run, and folders of plugins
//! made of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rind::author::build::{BuildOptions, ProgressCallback};
use rind::config::{Config, PluginSettings};
use rind::egress::EgressOptions;
use rind::grant::Trust;
use rind::grant::ask::GrantOptions;
use rind::plugin::compile::Compiler;
use rind::plugin::discover::PluginSearchPath;
use rind::plugin::load::{FoundPluginSet, PluginLoadOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The core plugins: those that come with Rind and are on by default.
pub const CORE: [&str; 10] = include!("../plugins/core.json");

/// The first build compiles the SDK's dependencies.
const BUILD_DEADLINE: Duration = Duration::from_secs(600);

/// The folder of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folders of all guests and first-party plugins.
fn sources() -> Vec<PathBuf> {
    let folders = ["plugins", "tests/guests"].map(|folder| workspace().join(folder));
    let entries = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("plugin.toml").is_file())
        .collect()
}

/// Compiles every guest and every first-party plugin; the first caller does it, the others wait.
fn built() -> &'static BTreeMap<String, PathBuf> {
    static BUILT: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| build(&sources()))
}

/// Builds as `rind plugin build` does, so that tests, the demo and authors share one way. On a thread of its own: the caller
/// may be a task of a runtime, which must not wait for another one.
fn build(folders: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let options = BuildOptions {
        dirs: folders.to_vec(),
        out: None,
        deadline: BUILD_DEADLINE,
        shared: None,
    };
    let build = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let progress: ProgressCallback = Arc::new(|_| {});
        runtime.block_on(rind::author::build::build_plugins(
            &options,
            &progress,
            &CancellationToken::new(),
        ))
    };
    let report = std::thread::spawn(build).join().unwrap().unwrap();
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    let name = |folder: &PathBuf| folder.file_name().unwrap().to_str().unwrap().to_owned();
    folders
        .iter()
        .map(|folder| (name(folder), folder.clone()))
        .collect()
}

/// The folder of a guest or first-party plugin, its component in place. `name` is that of the folder.
#[must_use]
pub fn guest(name: &str) -> &'static Path {
    built()
        .get(name)
        .unwrap_or_else(|| panic!("there is no guest `{name}`"))
}

/// Puts a plugin into the folder `root`: the component of `guest` under a manifest made from the guest's own by `manifest`.
/// Returns the plugin's folder.
pub fn put(guest: &str, root: &Path, manifest: impl FnOnce(String) -> String) -> PathBuf {
    let from = self::guest(guest);
    let text = manifest(std::fs::read_to_string(from.join("plugin.toml")).unwrap());
    let table: toml::Table = toml::from_str(&text).unwrap_or_default();
    let entry = |key: &str| table.get(key).and_then(toml::Value::as_str);
    let to = root.join(entry("name").unwrap_or(guest));
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(to.join("plugin.toml"), &text).unwrap();
    let component = entry("component").unwrap_or("none.wasm");
    if from.join(component).is_file() {
        std::fs::copy(from.join(component), to.join(component)).unwrap();
    }
    to
}

/// A host with nothing in it: folders of its own, and the plugins put there.
pub struct Host {
    folder: TempDir,
    /// Options for loading plugins.
    pub options: PluginLoadOptions,
}

impl Default for Host {
    fn default() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = PluginLoadOptions {
            held: None,
            installed: Vec::new(),
            sources: Vec::new(),
            chosen: Vec::new(),
            components: Vec::new(),
            cache: cache().to_owned(),
            cache_key: cache().with_extension("key"),
            compiler: Compiler::default(),
            on_compile: None,
            data: folder.path().join("data"),
            without: Vec::new(),
            expects_installed: false,
            settings: BTreeMap::new(),
            project_settings: BTreeMap::new(),
            written: Config::default(),
            project_written: Config::default(),
            grants: GrantOptions::default(),
            workspace: folder.path().join("workspace"),
            protected: vec![folder.path().join("data")],
            egress: EgressOptions::default(),
            is_cold: false,
            fixed: None,
            meter: None,
        };
        std::fs::create_dir(&options.workspace).unwrap();
        Self { folder, options }
    }
}

/// One compile cache for the whole test run: what is tested is not how long Cranelift takes.
fn cache() -> &'static Path {
    static CACHE: OnceLock<TempDir> = OnceLock::new();
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        CACHE
            .get_or_init(|| tempfile::tempdir().unwrap())
            .path()
            .join("compiled")
    })
}

impl Host {
    /// [Puts](put) a plugin into `trust`'s folder. Returns the plugin's folder.
    pub fn plugin(
        &mut self,
        trust: Trust,
        guest: &str,
        manifest: impl FnOnce(String) -> String,
    ) -> PathBuf {
        let root = self.folder.path().join(trust.to_string());
        let to = put(guest, &root, manifest);
        let source = PluginSearchPath { trust, path: root };
        if !self.options.sources.contains(&source) {
            self.options.sources.push(source);
        }
        to
    }

    /// Puts a guest into the managed folder as it is.
    pub fn guest(&mut self, guest: &str) -> PathBuf {
        self.plugin(Trust::Managed, guest, |manifest| manifest)
    }

    /// Sets one value of a plugin's settings.
    pub fn set(&mut self, plugin: &str, key: &str, value: impl Into<toml::Value>) {
        let settings: &mut PluginSettings =
            self.options.settings.entry(plugin.to_owned()).or_default();
        settings.config.insert(key.to_owned(), value.into());
    }

    /// Loads everything.
    pub async fn load(&self) -> FoundPluginSet {
        FoundPluginSet::load(&self.options).await.unwrap()
    }

    /// A folder that lives as long as the host.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
