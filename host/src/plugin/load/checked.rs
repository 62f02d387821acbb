//! A plugin whose manifest and settings were read and checked, but whose component was not yet
//! read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use serde_json::Value;

use super::PluginLoadOptions;
use super::linked::PluginAccessibleResources;
use crate::config::{HookSettings, PluginSettings};
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;
use crate::plugin::access_log::MAX_FILE_ACCESS_RECORDS;
use crate::plugin::component::ComponentWithoutOwnManifest;
use crate::plugin::discover::FoundPlugin;
use crate::plugin::fixed::{FixedClockAndRandomSeed, PluginCallCount};
use crate::plugin::host::SharedPluginState;
use crate::plugin::limits::{DEFAULT_MAX_MEMORY_BYTES, MAX_REQUESTABLE_MEMORY_BYTES};
use crate::plugin::manifest::{HookOptions, Manifest};
use crate::plugin::meter::PluginResourceMeter;
use crate::plugin::prompts::{self, PromptTemplateFile};
use crate::plugin::store::plugin_own_folder;
use crate::plugin::{Error, imports, open, settings};
use crate::point::catalog;
use crate::point::handle::AgentHandle;

/// Plugin whose manifest was read and whose settings fit it.
pub struct PluginWithCheckedSettings {
    /// Manifest of the plugin, as read from `plugin.toml`.
    pub manifest: Manifest,
    /// Trust level of the plugin.
    pub trust: Trust,
    /// Folder from which the plugin is loaded.
    pub folder: PathBuf,
    /// Content of the folder in memory, if the plugin is read from there instead of from disk.
    pub held: Option<Arc<InMemoryFolder>>,
    /// Prompt templates that the plugin provides.
    pub prompts: Arc<[PromptTemplateFile]>,
    /// Maximum linear memory of one instance, in bytes.
    pub memory_limit: u64,
    pub(in crate::plugin) settings: PluginSettings,
    pub(in crate::plugin) config: Arc<Value>,
    /// Folder in the host's data directory that contains the plugin's store and its `data` folder.
    pub(in crate::plugin) own_folder: PathBuf,
    /// Environment variables of a component that was not built for the contract.
    environment: Arc<[(String, String)]>,
    meter: Option<Arc<PluginResourceMeter>>,
    fixed: Option<FixedClockAndRandomSeed>,
}

impl PluginWithCheckedSettings {
    /// Checks the operator's settings against the manifest, and reads the prompt templates.
    ///
    /// # Errors
    /// The settings do not fit `[config]` of the manifest.
    pub(in crate::plugin) fn from_found_plugin(
        manifest: Manifest,
        settings: PluginSettings,
        found: &FoundPlugin,
        foreign: Option<&ComponentWithoutOwnManifest>,
        options: &PluginLoadOptions,
    ) -> Result<Self, Error> {
        let config = {
            let place = options.setting_location_finder(&manifest.name, found.trust);
            settings::effective_plugin_config(&manifest, &settings.config, &|keys| {
                place(&[&["config"], keys].concat())
            })?
        };
        let held = options.in_memory_plugin_folder(&found.folder).cloned();
        let memory = manifest.limits.memory.unwrap_or(DEFAULT_MAX_MEMORY_BYTES);
        Ok(Self {
            config: Arc::new(config),
            own_folder: plugin_own_folder(&options.data, &manifest.name, found),
            trust: found.trust,
            folder: found.folder.clone(),
            prompts: match foreign {
                // Read no templates for a component without a manifest: the files next to it do not
                // belong to it.
                Some(_) => Arc::default(),
                None => prompts::read_prompt_files(
                    &found.folder.join(prompts::PROMPT_TEMPLATES_FOLDER_NAME),
                    held.as_deref(),
                ),
            },
            held,
            environment: foreign
                .map(|own| own.environment.clone())
                .unwrap_or_default()
                .into(),
            memory_limit: memory.clamp(1 << 20, MAX_REQUESTABLE_MEMORY_BYTES),
            meter: options.meter.clone(),
            fixed: options.fixed,
            manifest,
            settings,
        })
    }

    /// Creates the state that the plugin's instances in one session share. Through this state, the
    /// instances can access only `resources` and, through `handle`, the session.
    pub(in crate::plugin) fn create_shared_state(
        &self,
        resources: &PluginAccessibleResources,
        is_muted: bool,
        handle: Arc<dyn AgentHandle>,
    ) -> Arc<SharedPluginState> {
        Arc::new(SharedPluginState {
            plugin: Arc::from(self.manifest.name.as_str()),
            keeper: self
                .own_folder
                .file_name()
                .map_or_else(|| Arc::from(""), |name| Arc::from(&*name.to_string_lossy())),
            granted: resources.granted_capabilities().clone(),
            config: self.config.clone(),
            config_text: self.config.to_string(),
            store: resources.key_value_store().clone(),
            folders: resources.granted_folders().clone(),
            egress: resources
                .egress()
                .map(|own| own.open_for_session(handle.clone())),
            handle,
            log_lines_left: AtomicU32::new(imports::MAX_LOG_LINES_PER_SESSION),
            file_records_left: AtomicU32::new(MAX_FILE_ACCESS_RECORDS + 1),
            is_muted,
            status: std::sync::Mutex::default(),
            reported: std::sync::Mutex::default(),
            meter: self.meter.clone(),
            fixed: self.fixed,
            calls: PluginCallCount::default(),
            environment: self.environment.clone(),
        })
    }

    /// Returns the operator's settings for one hook, by the name or an alias of its point. A hook
    /// that has nothing to do is disabled, because of
    /// [empty settings](Self::find_settings_disabling_hook).
    pub(in crate::plugin) fn hook_settings(&self, point: &str) -> HookSettings {
        let mut settings = open::find_hook_settings(&self.settings, point);
        settings.enabled &= self.find_settings_disabling_hook(point).is_empty();
        settings
    }

    /// Returns the plugin settings that one condition of the hook on `point` names (`only_with` or
    /// `only_tools`), if all settings of that condition are empty, so that the hook has nothing to
    /// do; otherwise an empty list.
    pub(in crate::plugin) fn find_settings_disabling_hook(&self, point: &str) -> Vec<String> {
        let Some(row) = catalog::find_builtin_extension_point(point) else {
            return Vec::new();
        };
        let options = self.manifest.hook(row.name);
        let conditions = [options.only_with, options.only_tools];
        let empty = conditions
            .into_iter()
            .flatten()
            .find(|names| names.iter().all(|name| self.is_empty_setting(name)));
        empty.unwrap_or_default()
    }

    fn is_empty_setting(&self, name: &str) -> bool {
        match self.config.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::Bool(true)) => false,
            Some(Value::Number(number)) => number.as_f64() == Some(0.0),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(all)) => all.is_empty(),
            Some(Value::Object(all)) => all.is_empty(),
        }
    }

    /// Returns the tools whose calls a hook with these options receives; `None` if it receives all
    /// calls.
    pub(in crate::plugin) fn hook_tool_filter(&self, options: &HookOptions) -> Option<Vec<String>> {
        let lists = options.only_tools.as_ref()?.iter();
        let tools = lists
            .filter_map(|name| self.config.get(name)?.as_array())
            .flatten()
            .filter_map(Value::as_str);
        Some(tools.map(str::to_owned).collect())
    }

    /// Returns the size in bytes that a result must exceed for a hook with these options to be
    /// called; `None` if the size does not matter.
    pub(in crate::plugin) fn tool_result_threshold_bytes(
        &self,
        options: &HookOptions,
    ) -> Option<u64> {
        self.config.get(options.only_over.as_ref()?)?.as_u64()
    }

    /// Whether this version of the plugin defines the same points as another version.
    pub(crate) fn defines_same_points_as(&self, other: &Self) -> bool {
        let points = |plugin: &Self| serde_json::to_string(&plugin.manifest.points).ok();
        points(self) == points(other)
    }
}
