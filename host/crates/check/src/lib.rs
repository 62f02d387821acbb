//! `rind plugin check`: faults of a plugin that its author can correct before anyone installs it.
//!
//! This crate owns the rules. It runs the loader's own code to find faults for which the loader
//! refuses a plugin, and finds problems that the loader ignores silently (unused permissions,
//! undocumented settings). Each fault is reported once, with its file and line. Only [`fix`]
//! changes a plugin, and only by removing or lowering what the plugin requests.
//!
//! Start from [`check_plugin`].

mod component;
pub mod fix;
mod loaded;
mod manifest;
mod place;
mod settings;
mod words;

use std::path::{Path, PathBuf};

use serde::Serialize;

use fix::ManifestFix;
pub use loaded::BUILT_IN_COMMAND_NAMES;
use place::TomlKeyLineNumbers;
use rind_lib::plugin::Error;
use rind_lib::plugin::load::{FoundPluginSet, LoadedPlugin, PluginLoadOptions, PluginSkipReason};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::surface::ComponentImportsAndExports;

/// Names of the rules, as in `--allow`, each with a description of the fault.
pub const CHECK_RULES: &[(&str, &str)] = &[
    ("manifest", "plugin.toml cannot be read as a manifest"),
    (
        "component",
        "the component is missing, older than its sources, too large, or exports nothing",
    ),
    (
        "contract",
        "the component was built for a version of the contract that is not supported, or does not say for which",
    ),
    (
        "missing-permission",
        "the component has an import or export that the manifest does not declare",
    ),
    (
        "unused-permission",
        "the manifest requests permissions that the component does not use",
    ),
    ("broad-permission", "the manifest asks for every host"),
    (
        "missing-export",
        "the manifest has options for hooks that the component does not export",
    ),
    (
        "unused-export",
        "the component has an export that is never called",
    ),
    (
        "limits",
        "a limit is higher than the host's, or limits nothing",
    ),
    ("size", "the component carries debug information"),
    (
        "schema",
        "a schema is invalid, or its defaults do not fit it",
    ),
    (
        "settings",
        "settings are read without being declared, or declared without being read",
    ),
    ("tools", "a tool cannot be offered to a model"),
    ("commands", "a slash command cannot be called by its name"),
    ("description", "a description is missing or says nothing"),
    ("version", "two files name different versions"),
    (
        "readme",
        "the README is missing, or lacks a setting, tool, command or the loop",
    ),
    ("secret", "a file contains text that looks like a secret"),
    ("load", "the plugin cannot be loaded"),
];

/// Fault that a check found in a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginFault {
    /// Name of the violated rule, one of [`CHECK_RULES`].
    pub rule: &'static str,
    /// Path of the file with the fault.
    pub path: PathBuf,
    /// Line in the file, from 1; absent for a file that is missing or has no lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Description of the problem and its remedy.
    pub message: String,
    /// Whether every host refuses to load the plugin because of the fault.
    pub is_refused: bool,
    /// Change to `plugin.toml` that removes the fault, if there is a safe one.
    #[serde(skip)]
    pub fix: Option<ManifestFix>,
}

/// Faults that the checks of one plugin found.
#[derive(Debug)]
pub struct PluginCheckResult {
    /// Name of the plugin, or of its directory if the manifest cannot be read.
    pub name: String,
    /// Folder of the checked plugin.
    pub folder: PathBuf,
    /// Faults of the plugin, sorted by file and line.
    pub faults: Vec<PluginFault>,
}

/// Collects the faults of one plugin.
struct PluginFaultCollector<'a> {
    folder: &'a Path,
    places: TomlKeyLineNumbers,
    faults: Vec<PluginFault>,
}

impl PluginFaultCollector<'_> {
    /// Adds a fault at the line of a key in `plugin.toml`. If the file does not contain the key,
    /// uses the line of the nearest enclosing table.
    fn add_fault_at_key(
        &mut self,
        rule: &'static str,
        keys: &[&str],
        message: impl Into<String>,
    ) -> &mut PluginFault {
        // Use the first line if the file contains neither the key nor a table that encloses it.
        let line = self.places.line_of_key(keys).or(Some(1));
        self.add_fault(rule, FILE_NAME, line, message)
    }

    /// Adds a fault in a file of the plugin's directory.
    fn add_fault(
        &mut self,
        rule: &'static str,
        file: impl AsRef<Path>,
        line: Option<usize>,
        message: impl Into<String>,
    ) -> &mut PluginFault {
        self.faults.push(PluginFault {
            rule,
            path: self.folder.join(file),
            line,
            message: message.into(),
            is_refused: false,
            fix: None,
        });
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }
}

impl PluginFault {
    /// Marks the fault as one that makes the loader refuse the plugin.
    fn mark_as_load_blocking(&mut self) -> &mut Self {
        self.is_refused = true;
        self
    }

    fn attach_fix(&mut self, fix: ManifestFix) {
        self.fix = Some(fix);
    }
}

/// Checks the plugin in `folder`. `options` configures how the plugin is loaded and must not name
/// other plugins. `taken` lists tools of other plugins in the same session, each as plugin name and
/// tool name.
///
/// # Errors
/// The host cannot load any plugin.
pub async fn check_plugin(
    folder: &Path,
    options: &PluginLoadOptions,
    taken: &[(String, String)],
) -> Result<PluginCheckResult, Error> {
    let text = std::fs::read_to_string(folder.join(FILE_NAME)).unwrap_or_default();
    let mut found = PluginFaultCollector {
        folder,
        places: TomlKeyLineNumbers::from_text(&text),
        faults: Vec::new(),
    };
    let mut name = folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    words::check_text_for_secrets(&mut found, &text);
    match Manifest::read(folder, None) {
        Err(error) => {
            manifest::report_unreadable_manifest(&mut found, &text, &error);
            words::check_readme(&mut found, None, &PluginToolAndCommandNames::default());
        }
        Ok(read) => {
            name.clone_from(&read.name);
            let surface = component::read_imports_and_exports(&mut found, &read);
            manifest::check_manifest(&mut found, &read, surface.as_ref());
            settings::check_config_and_point_schemas(&mut found, &read, surface.as_ref());
            let offered = if found.faults.iter().any(|fault| fault.is_refused) {
                PluginToolAndCommandNames::default()
            } else {
                let set = FoundPluginSet::load(options).await?;
                list_loaded_tools_and_commands(&mut found, &read, surface.as_ref(), &set)
            };
            loaded::check_tool_name_conflicts(&mut found, &read, &offered.tools, taken);
            words::check_package_manifest_version(&mut found, &read);
            words::check_readme(&mut found, Some(&read), &offered);
        }
    }
    let mut faults = found.faults;
    faults.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    faults.dedup_by(|a, b| (&a.path, a.line, &a.message) == (&b.path, b.line, &b.message));
    Ok(PluginCheckResult {
        name,
        folder: folder.to_owned(),
        faults,
    })
}

/// Names of a plugin's tools and commands, and whether it has a loop.
#[derive(Default)]
struct PluginToolAndCommandNames {
    tools: Vec<String>,
    commands: Vec<String>,
    has_loop: bool,
}

/// Returns the names of the loaded plugin's tools and commands, and adds the faults that can be
/// found only by loading the plugin.
fn list_loaded_tools_and_commands(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: Option<&ComponentImportsAndExports>,
    set: &FoundPluginSet,
) -> PluginToolAndCommandNames {
    let checked = |plugin: &LoadedPlugin| plugin.manifest.name == manifest.name;
    if let Some(plugin) = set.plugins.iter().find(|plugin| checked(plugin)) {
        loaded::check_loaded_plugin(found, plugin, surface);
        let tools = plugin.tools.iter().map(|tool| tool.name.clone());
        let commands = plugin.commands.iter().map(|command| command.name.clone());
        return PluginToolAndCommandNames {
            tools: tools.collect(),
            commands: commands.collect(),
            has_loop: plugin.has_loop(),
        };
    }
    for left in set
        .left_out
        .iter()
        .filter(|left| left.name == manifest.name)
    {
        if let PluginSkipReason::Failed(error) = &left.why {
            loaded::report_load_refusal(found, manifest, error);
        }
    }
    PluginToolAndCommandNames::default()
}
