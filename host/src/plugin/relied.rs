//! Plugins that the operator relies on. If one of them cannot run, no session starts: otherwise a
//! missing guard would look like a guard that allows everything.
//!
//! Decides which of the plugins that do not run the operator relies on, and why. Start from
//! [`PluginNeededReason`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use super::Error;
use super::discover::FoundPlugin;
use super::load::{
    FoundPluginSet, PluginLoadOptions, PluginSkipReason, PluginWithListedTools, SkippedPlugin,
};
use super::manifest::{HookOptions, Manifest};
use super::protected;
use crate::config::PluginSettings;
use crate::grant::Trust;
use crate::grant::answers::GrantAnswer;
use crate::grant::ask::GrantOptions;
use crate::paths::ADMIN_POLICY_FILE_PATH;
use crate::point::catalog;
use crate::point::failure::OnFailure;

/// Reason why the operator relies on a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginNeededReason {
    /// The operator's settings have a section for the plugin.
    Configured {
        /// Location of the section that names the plugin: `FILE:LINE`, or a flag.
        place: String,
    },
    /// The flag `--plugin` or `--grant` names the plugin.
    Named {
        /// Flag that names the plugin, written with its dashes and in backticks.
        flag: &'static str,
    },
    /// The plugin may block the agent when it fails, and the operator has installed it or granted
    /// it permissions.
    Guard,
    /// The plugin is missing. It is recorded as a plugin that blocks the agent when it fails, and
    /// the operator's grant for it is still valid.
    Remembered {
        /// Former folder of the plugin; empty if the plugin was installed.
        source: String,
    },
    /// The plugin is protected: only the administrator can switch it off.
    Protected,
}

impl fmt::Display for PluginNeededReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured { place } => write!(f, "{place} configures it"),
            Self::Named { flag } => write!(f, "{flag} names it"),
            Self::Guard => f.write_str(
                "it blocks when it fails, or may block, and it was installed or granted before",
            ),
            Self::Remembered { .. } => {
                f.write_str("it blocks when it fails, and your grant is still valid")
            }
            Self::Protected => f.write_str("only the administrator can switch it off"),
        }
    }
}

impl PluginNeededReason {
    /// Returns advice on how to run without the plugin.
    #[must_use]
    pub fn advice_for_omitting_plugin(&self, plugin: &str) -> String {
        match self {
            Self::Configured { place } => {
                format!("`--without {plugin}` for one run; `enabled = false` at {place} for good")
            }
            Self::Named { .. } => format!("omit the flag, or add `--without {plugin}`"),
            Self::Guard => {
                format!("`--without {plugin}` for one run; `rind plugin disable {plugin}` for good")
            }
            Self::Remembered { .. } => format!(
                "`--without {plugin}` for one run; `rind plugin grants --revoke {plugin}` for good"
            ),
            Self::Protected => {
                format!("`disable = true` under [plugins.{plugin}] in {ADMIN_POLICY_FILE_PATH}")
            }
        }
    }
}

/// A plugin that the operator relies on and that was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingReliedOnPlugin {
    /// Name of the missing plugin.
    pub name: String,
    /// Reason why the operator relies on the plugin.
    pub reliance: PluginNeededReason,
    /// Whether the operator excludes the plugin from this run with `--without`.
    pub is_without: bool,
}

/// Message about a plugin that the settings configure but that was not found.
pub const PLUGIN_NOT_FOUND_MESSAGE: &str = "there is no such plugin; see `rind plugin list`";

impl MissingReliedOnPlugin {
    fn describe_why_missing(&self) -> String {
        match &self.reliance {
            PluginNeededReason::Remembered { source } if source.is_empty() => {
                "it is no longer installed".to_owned()
            }
            PluginNeededReason::Remembered { source } => {
                format!(
                    "{source} no longer exists, or it belongs to a project that has changed and is not trusted"
                )
            }
            _ => PLUGIN_NOT_FOUND_MESSAGE.to_owned(),
        }
    }
}

impl FoundPluginSet {
    /// Checks that every plugin that the operator relies on runs.
    ///
    /// # Errors
    /// A plugin that the operator relies on does not run. The error lists each such plugin with the
    /// cause and how to continue without it.
    pub(super) fn check_needed_plugins_loaded(&self) -> Result<(), Error> {
        let left_out = self.left_out.iter().filter_map(|left| {
            let reliance = left.reliance.as_ref()?;
            Some((left.name.as_str(), left.why.to_string(), reliance))
        });
        let absent = self
            .absent
            .iter()
            .filter(|absent| !absent.is_without)
            .map(|absent| {
                (
                    absent.name.as_str(),
                    absent.describe_why_missing(),
                    &absent.reliance,
                )
            });
        let missing: Vec<String> = left_out
            .chain(absent)
            .map(|(name, why, reliance)| {
                format!(
                    "plugin {name} cannot run: {why}\n  it is required, because {reliance}\n  to run without it: {}",
                    reliance.advice_for_omitting_plugin(name)
                )
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::Relied {
            missing: missing.join("\n"),
        })
    }

    /// Decides for each plugin that does not run whether the operator relies on it, and finds the
    /// plugins that are configured or granted but missing.
    pub(super) fn mark_needed_unloaded_plugins(&mut self, options: &PluginLoadOptions) {
        let running: BTreeSet<&str> = self
            .plugins
            .iter()
            .map(|plugin| plugin.manifest.name.as_str())
            .collect();
        for left in &mut self.left_out {
            if !running.contains(left.name.as_str()) {
                left.reliance = find_plugin_needed_reason(left, options);
            }
        }
        if !options.expects_installed {
            return;
        }
        let is_left_out = |name: &str| self.left_out.iter().any(|left| left.name == name);
        let absent = options.settings.keys().filter_map(|name| {
            let is_gone = !running.contains(name.as_str()) && !is_left_out(name);
            let reliance = needed_reason_from_settings(name, options).filter(|_| is_gone)?;
            Some((name.clone(), reliance))
        });
        // If a missing plugin is both configured and granted, report the location in the settings,
        // because it is more specific.
        let mut absent: BTreeMap<String, PluginNeededReason> = absent.collect();
        for (name, reliance) in self.find_missing_guard_plugins(options) {
            absent.entry(name).or_insert(reliance);
        }
        let absent = absent
            .into_iter()
            .map(|(name, reliance)| MissingReliedOnPlugin {
                is_without: options.without.contains(&name),
                name,
                reliance,
            });
        self.absent = absent.collect();
    }

    /// Finds guards that have a grant but are missing: their folder was removed, or their project
    /// changed and is no longer trusted. A plugin that was loaded with `--plugin` is never reported
    /// as missing, because only runs with that flag need it.
    fn find_missing_guard_plugins(
        &self,
        options: &PluginLoadOptions,
    ) -> Vec<(String, PluginNeededReason)> {
        let Some(answers) = &options.grants.answers else {
            return Vec::new();
        };
        let is_here = |answer: &&GrantAnswer| match answer.trust {
            Trust::Local => false,
            // Plugins of a project are in `WORKSPACE/.rind/plugins/NAME`.
            Trust::Project => {
                Path::new(&answer.source).ancestors().nth(3) == Some(options.workspace.as_path())
            }
            Trust::Managed | Trust::Package | Trust::User => true,
        };
        let is_found = |answer: &&GrantAnswer| {
            let is_at =
                |folder: &Path| !answer.source.is_empty() && folder == Path::new(&answer.source);
            let mut running = self.plugins.iter();
            let mut left_out = self.left_out.iter();
            running.any(|own| own.manifest.name == answer.plugin || is_at(&own.folder))
                || left_out.any(|left| left.name == answer.plugin || is_at(&left.found.folder))
        };
        let is_off = |answer: &&GrantAnswer| {
            let settings = options.settings.get(&answer.plugin);
            settings.is_some_and(|settings| !settings.enabled)
        };
        answers
            .answers_for_plugins_with_blocking_hooks(options.grants.session.as_deref())
            .filter(|answer| is_here(answer) && !is_found(answer) && !is_off(answer))
            .map(|answer| {
                let source = answer.source.clone();
                (
                    answer.plugin.clone(),
                    PluginNeededReason::Remembered { source },
                )
            })
            .collect()
    }
}

fn find_plugin_needed_reason(
    left: &SkippedPlugin,
    options: &PluginLoadOptions,
) -> Option<PluginNeededReason> {
    let name = left.name.as_str();
    match &left.why {
        // The operator left the plugin out of this run with a flag.
        PluginSkipReason::Without => return None,
        // A project may switch off its own plugins, but not a plugin that the operator set up.
        PluginSkipReason::Disabled { .. } | PluginSkipReason::Disallowed { .. } => {
            let is_by_project = matches!(left.why, PluginSkipReason::Disabled { .. });
            return needed_reason_from_settings(name, options).filter(|_| is_by_project);
        }
        // Another plugin is loaded under this name and is checked instead.
        PluginSkipReason::Shadowed { .. } => return None,
        PluginSkipReason::Failed(_) | PluginSkipReason::Held(_) => {}
    }
    if protected::is_protected_plugin(name) && left.found.trust == Trust::Managed {
        return Some(PluginNeededReason::Protected);
    }
    let named = |flag| PluginNeededReason::Named { flag };
    needed_reason_from_settings(name, options)
        .or_else(|| (left.found.trust == Trust::Local).then(|| named("`--plugin`")))
        .or_else(|| {
            let flags = &options.grants.flags;
            let is_named = flags.iter().any(|flag| flag.plugin_name() == name);
            is_named.then(|| named("`--grant`"))
        })
        .or_else(|| {
            is_relied_on_guard_plugin(left, &options.grants).then_some(PluginNeededReason::Guard)
        })
}

/// Returns the reliance on a plugin that the operator's own settings configure, with the location
/// in the settings; `None` if they do not configure the plugin or switch it off.
fn needed_reason_from_settings(
    name: &str,
    options: &PluginLoadOptions,
) -> Option<PluginNeededReason> {
    options.settings.get(name).filter(|own| own.enabled)?;
    let place = options.written.value_locations(&["plugins", name]).pop();
    Some(PluginNeededReason::Configured {
        place: place.unwrap_or_else(|| format!("[plugins.{name}]")),
    })
}

/// Whether a plugin may block when it fails, and the operator installed it or granted it
/// permissions before. A plugin of a project or of `--plugin` that waits for its first grant has
/// never run, so it is no guard.
fn is_relied_on_guard_plugin(left: &SkippedPlugin, grants: &GrantOptions) -> bool {
    let was_answered = || {
        let answers = grants.answers.as_ref();
        answers.is_some_and(|answers| {
            let session = grants.session.as_deref();
            answers.has_answered_about_plugin(
                &left.name,
                &folder_of_unverified_plugin(&left.found),
                session,
            )
        })
    };
    let is_installed = left.found.trust <= Trust::User;
    // A plugin whose name is reserved for another plugin has never run, so nobody can have relied
    // on it.
    let is_impostor = matches!(left.why, PluginSkipReason::Failed(Error::Reserved { .. }));
    left.may_block && !is_impostor && (is_installed || was_answered())
}

/// Returns the folder of a plugin whose name is not verified (project, local); empty for all other
/// plugins.
pub(super) fn folder_of_unverified_plugin(found: &FoundPlugin) -> String {
    if found.trust <= Trust::User {
        String::new()
    } else {
        found.folder.display().to_string()
    }
}

/// Whether a hook of the plugin may block when it fails, according to the manifest and the
/// operator's settings. If the manifest names no hook, the exported hooks are unknown, so the
/// result is true unless the settings say `skip`.
pub(super) fn may_have_blocking_hook(manifest: &Manifest, settings: &PluginSettings) -> bool {
    let declared = manifest.hooks.iter();
    let mut hooks = declared.map(|(point, options)| (point.get_ref().as_str(), options));
    let is_unknown = manifest.hooks.is_empty() && settings.on_failure != Some(OnFailure::Skip);
    is_unknown
        || hooks.any(|(point, options)| is_hook_blocking_on_failure(point, options, settings))
}

/// Whether a hook of the plugin blocks when it fails. Unlike in [`may_have_blocking_hook`], the
/// exported hooks are known.
pub(super) fn has_blocking_hook(plugin: &PluginWithListedTools) -> bool {
    let exports = plugin.exports.iter();
    let mut points =
        exports.filter(|export| catalog::find_builtin_extension_point(export).is_some());
    points.any(|point| {
        is_hook_blocking_on_failure(point, &plugin.manifest.hook(point), &plugin.settings)
    })
}

fn is_hook_blocking_on_failure(
    point: &str,
    options: &HookOptions,
    settings: &PluginSettings,
) -> bool {
    let own = super::open::find_hook_settings(settings, point);
    let by_kind = catalog::find_builtin_extension_point(point)
        .map(catalog::BuiltinExtensionPoint::default_failure_action);
    let on_failure = own.on_failure.or(settings.on_failure);
    own.enabled && on_failure.or(options.on_failure).or(by_kind) == Some(OnFailure::Block)
}
