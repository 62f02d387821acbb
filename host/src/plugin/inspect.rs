//! Report on a plugin's component, manifest and grants: the data of `rind plugin inspect`.
//!
//! A report is plain data for JSON output and for rendering. Building a report does not run code of
//! the plugin.

use serde::Serialize;
use serde_json::Value;

use super::cache::ComponentBytes;
use super::contract::stamp::{self, ComponentBuildInfo};
use super::load::{PluginWithCheckedSettings, PluginWithPermissionDecision};
use super::manifest::{FILE_NAME, HookOptions};
use super::{authority, settings};
use crate::config::PluginSettings;
use crate::grant::decide::GrantStatus;
use crate::grant::table::CapabilityRuling;
use crate::grant::{SideEffect, Trust};
use crate::grant::{describe_capability, describe_combined_risk};
use crate::message::EffectClass;
use crate::point::catalog;
use crate::point::dispatch::ExtensionPointKind;
use crate::point::failure::OnFailure;
use crate::point::registry::HookSpec;
use crate::point::streaming;

/// Hook of a plugin, with the options that are in effect.
#[derive(Clone, Debug, Serialize)]
pub struct HookReport {
    /// Name of the extension point at which the hook is called.
    pub point: String,
    /// Kind of the extension point.
    pub kind: ExtensionPointKind,
    /// Priority; hooks with lower values run first.
    pub priority: u16,
    /// Deadline of one call, in milliseconds.
    pub deadline_ms: u64,
    /// Action of the host when the hook fails.
    pub on_failure: OnFailure,
    /// Whether the turn continues without waiting for the hook.
    pub is_async: bool,
    /// Whether the hook is bound; the operator may disable it.
    pub enabled: bool,
    /// Names of plugin settings that are all empty. The hook depends on at least one of them, so it
    /// has nothing to do and is not bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub empty_settings: Vec<String>,
    /// Tools to whose calls the hook is limited; absent if it is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_tools: Option<Vec<String>>,
    /// Whether the hook is called only for answers that call no tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_final: bool,
    /// Size in bytes that a result must exceed for the hook to be called; absent if the size does
    /// not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_over: Option<u64>,
    /// Rights of the point that the hook may use according to the manifest; absent if the hook may
    /// use all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may: Option<Vec<String>>,
    /// Whether the model's text is displayed only when it is complete, because the hook checks it
    /// first.
    pub holds_text: bool,
    /// Options that apply without the operator's settings; `None` if the settings do not change any
    /// option.
    pub of_plugin: Option<OverridableHookOptions>,
}

/// Options of a hook that the operator can override, with the values that the plugin sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OverridableHookOptions {
    /// Priority; hooks with lower values run first.
    pub priority: u16,
    /// Deadline of one call, in milliseconds.
    pub deadline_ms: u64,
    /// Action of the host when the hook fails.
    pub on_failure: OnFailure,
}

impl From<HookSpec> for OverridableHookOptions {
    fn from(spec: HookSpec) -> Self {
        Self {
            priority: spec.priority,
            deadline_ms: u64::try_from(spec.deadline.as_millis()).unwrap_or(u64::MAX),
            on_failure: spec.on_failure,
        }
    }
}

/// Setting that the plugin's manifest declares, with its value.
#[derive(Clone, Debug, Serialize)]
pub struct SettingReport {
    /// Name of the setting under `[plugins.NAME.config]`.
    pub name: String,
    /// Value in effect; absent if nothing is set and there is no default.
    pub value: Option<Value>,
    /// Whether the value is the default of the manifest.
    pub is_default: bool,
}

/// Tool that the plugin provides.
#[derive(Clone, Debug, Serialize)]
pub struct ToolReport {
    /// Name of the tool.
    pub name: String,
    /// First line of the tool's description.
    pub description: String,
    /// Class of the tool's effects: read, write, execute or external.
    pub effect_class: EffectClass,
}

/// Slash command that the plugin provides.
#[derive(Clone, Debug, Serialize)]
pub struct SlashCommandReport {
    /// Name of the command, without the slash.
    pub name: String,
    /// Description of the command, one line.
    pub description: String,
    /// JSON Schema of the arguments; absent for a command that takes the rest of the line as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
}

/// Interface that the component imports, and the access that the interface gives.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedInterfaceReport {
    /// Name of the imported interface.
    pub interface: String,
    /// Description of the access that the interface gives.
    pub gives: &'static str,
}

/// Point that the plugin defines for hooks of other plugins.
#[derive(Clone, Debug, Serialize)]
pub struct PluginDefinedPointReport {
    /// Name of the extension point, without the plugin that defines it.
    pub name: String,
    /// Kind of the extension point.
    pub kind: ExtensionPointKind,
    /// Plugins that may call the point, in addition to its owner.
    pub callers: Vec<String>,
}

/// Requested capability and the decision about it.
#[derive(Clone, Debug, Serialize)]
pub struct GrantReport {
    /// Capability as written in policies and flags.
    pub capability: String,
    /// Description of the capability in plain language.
    pub words: String,
    /// Ruling that follows from the plugin's trust alone, before policies and answers of the
    /// operator apply.
    pub trust_gives: CapabilityRuling,
    /// Whether the capability is granted, denied or not yet decided.
    pub standing: GrantStatus,
    /// Reason for the decision on the capability.
    pub why: String,
}

/// Report on a plugin, as `rind plugin inspect` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct PluginReport {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Description of the plugin, written by its author.
    pub description: String,
    /// Trust level of the plugin.
    pub trust: Trust,
    /// Path of the plugin's folder.
    pub folder: String,
    /// Digest over component, manifest and tool descriptions, by which `policy.toml` names the
    /// plugin.
    pub digest: String,
    /// Reason why the plugin does not run, if it does not.
    pub stopped: Option<String>,
    /// Side effects that the plugin's manifest declares.
    pub side_effects: Vec<SideEffect>,
    /// Permissions that the plugin requests and the decisions about them.
    pub grants: Vec<GrantReport>,
    /// Description of the risk, if the combination of granted permissions is a risk that no single
    /// permission is.
    pub combined: Option<String>,
    /// Hooks of the plugin, in the order of the extension points in the catalog.
    pub hooks: Vec<HookReport>,
    /// Settings of the plugin, in the order of its manifest.
    pub settings: Vec<SettingReport>,
    /// Tools that the plugin provides.
    pub tools: Vec<ToolReport>,
    /// Slash commands that the plugin provides, which run with its permissions.
    pub commands: Vec<SlashCommandReport>,
    /// Deadline of one run of the plugin's loop, in milliseconds; absent without a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_deadline_ms: Option<u64>,
    /// Names of the files with the plugin's prompt templates.
    pub prompts: Vec<String>,
    /// Contract version, language and SDK that the component was built with; absent if the
    /// component contains no such stamp.
    pub built_with: Option<ComponentBuildInfo>,
    /// Whether the manifest inside the component equals `plugin.toml`, which takes effect if they
    /// differ; absent if the component contains no manifest.
    pub has_own_manifest: Option<bool>,
    /// Interfaces that the component imports, with the access that they give.
    pub imports: Vec<ImportedInterfaceReport>,
    /// Whether the host ever calls an export of the component.
    pub is_called: bool,
    /// Exported interfaces other than hooks, tools and commands: `implement`, `loop`, `agent-loop`.
    pub other_exports: Vec<String>,
    /// Extension points of other plugins that the plugin implements.
    pub implements: Vec<String>,
    /// Extension points that the plugin defines for other plugins.
    pub points: Vec<PluginDefinedPointReport>,
    /// Maximum linear memory of an instance, in bytes.
    pub memory_limit: u64,
    /// Time that loading the plugin took, in milliseconds.
    pub load_ms: f64,
    /// Whether the compiled code of the component came from the cache.
    pub was_cached: bool,
}

/// Builds the report on a plugin with the permissions that it has, or would have if the operator
/// granted all pending permissions.
#[must_use]
pub fn build_plugin_report(plugin: &PluginWithPermissionDecision) -> PluginReport {
    let expected = plugin.decision.granted_or_pending_capabilities();
    let spec_of =
        |row: &catalog::BuiltinExtensionPoint, options: &HookOptions, settings: &PluginSettings| {
            plugin.build_hook_spec((row.name, row.kind), options, settings, &expected)
        };
    let is_exported = |row: &&catalog::BuiltinExtensionPoint| {
        plugin.exports.iter().any(|export| export == row.name)
    };
    let called: Vec<HookSpec> = catalog::CATALOG
        .iter()
        .filter(is_exported)
        .filter(|row| plugin.hook_settings(row.name).enabled)
        .map(|row| spec_of(row, &plugin.manifest.hook(row.name), &plugin.settings))
        .collect();
    let hooks = catalog::CATALOG.iter().filter(is_exported).map(|row| {
        let options = plugin.manifest.hook(row.name);
        let spec = spec_of(row, &options, &plugin.settings);
        let is_async = spec.is_async;
        let enabled = plugin.hook_settings(row.name).enabled;
        let holds_text = enabled && streaming::is_stream_preventing_hook(&spec, called.iter());
        let untouched = PluginSettings::default();
        let own = OverridableHookOptions::from(spec_of(row, &options, &untouched));
        let holds = OverridableHookOptions::from(spec);
        HookReport {
            point: row.name.to_owned(),
            kind: row.kind,
            priority: holds.priority,
            deadline_ms: holds.deadline_ms,
            on_failure: holds.on_failure,
            is_async,
            enabled,
            empty_settings: plugin.find_settings_disabling_hook(row.name),
            only_tools: plugin.hook_tool_filter(&options),
            only_final: options.only_final,
            only_over: plugin.tool_result_threshold_bytes(&options),
            may: options.may,
            holds_text,
            of_plugin: Some(own).filter(|own| *own != holds),
        }
    });
    let settings = settings::list_effective_settings(&plugin.manifest, &plugin.config)
        .into_iter()
        .map(|(name, value, is_default)| SettingReport {
            name,
            value,
            is_default,
        });
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let tools = plugin.tools.iter().map(|tool| ToolReport {
        name: tool.name.clone(),
        description: first_line(&tool.description),
        effect_class: tool.effect_class,
    });
    let commands = plugin.commands.iter().map(|command| SlashCommandReport {
        name: command.name.clone(),
        description: command.description.clone(),
        arguments: command.arguments.clone(),
    });
    let prompts = plugin.prompts.iter().filter_map(|file| {
        let name = file.path.file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    let has_folders = !expected.folders().is_empty();
    let imports = plugin.imports.iter().map(|import| ImportedInterfaceReport {
        interface: import.clone(),
        gives: authority::describe_access_through_import(import, has_folders),
    });
    let grants = plugin.decision.rows.iter().map(|row| GrantReport {
        capability: row.capability.to_string(),
        words: describe_capability(&row.capability),
        trust_gives: row.ceiling,
        standing: row.standing,
        why: row.why.clone(),
    });
    let points = plugin.manifest.points.iter();
    let points = points.map(|(name, point)| PluginDefinedPointReport {
        name: name.clone(),
        kind: point.kind,
        callers: point.callers.clone(),
    });
    let others = ["implement", "loop", "agent-loop"]
        .into_iter()
        .filter(|name| plugin.exports.iter().any(|export| export == name));
    PluginReport {
        name: plugin.manifest.name.clone(),
        version: plugin.manifest.version.to_string(),
        description: plugin.manifest.description.clone(),
        trust: plugin.request.trust,
        folder: plugin.folder.display().to_string(),
        digest: plugin.request.compute_content_digest(),
        stopped: None,
        side_effects: plugin.manifest.side_effects.clone(),
        grants: grants.collect(),
        combined: describe_combined_risk(&expected, plugin.request.has_hooks),
        hooks: hooks.collect(),
        settings: settings.collect(),
        tools: tools.collect(),
        commands: commands.collect(),
        loop_deadline_ms: plugin.has_loop().then(|| {
            let deadline = super::tools::tool_call_deadline(&plugin.manifest);
            u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
        }),
        prompts: prompts.collect(),
        built_with: plugin.stamp.clone(),
        has_own_manifest: None,
        imports: imports.collect(),
        is_called: plugin.is_component_used(),
        other_exports: others.map(str::to_owned).collect(),
        implements: plugin.manifest.implements.keys().cloned().collect(),
        points: points.collect(),
        memory_limit: plugin.memory_limit,
        load_ms: plugin.load_time.as_secs_f64() * 1000.0,
        was_cached: plugin.was_cached,
    }
}

/// Whether the manifest inside a component equals `plugin.toml`; `None` if the component contains
/// no manifest, or a file can no longer be read.
#[must_use]
pub fn has_matching_embedded_manifest(plugin: &PluginWithCheckedSettings) -> Option<bool> {
    let path = plugin.manifest.component_path(&plugin.folder)?;
    let component = ComponentBytes::read_component(&path, None).ok()?;
    let carried = stamp::read_embedded_manifest(&component.bytes)?;
    let beside = std::fs::read(plugin.folder.join(FILE_NAME)).ok()?;
    Some(carried == beside)
}
