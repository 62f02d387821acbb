//! Checks flags that name plugins. A flag that cannot be applied is an error, so that no user
//! relies on a guard that is missing because of a typo.

use std::path::Path;

use super::settings::PluginSelection;
use super::usage::{Usage, bail_usage};
use rind_lib::config::{Config, PluginsConfig};
use rind_lib::grant::Trust;
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::plugin::discover::{PluginSearchPath, discover_plugins};
use rind_lib::plugin::load::{
    FoundPluginSet, PluginSkipReason, PluginWithPermissionDecision, SkippedPlugin,
};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::{Error, protected};

/// Checks that the folder of every `--plugin PATH` contains a plugin.
///
/// # Errors
/// A folder contains none.
pub fn check_plugin_folders_contain_plugin(selection: &PluginSelection) -> Result<(), Usage> {
    for path in &selection.local {
        let why = match path.metadata() {
            Err(error) => error.to_string(),
            Ok(found) if !found.is_dir() => "it is not a folder".to_owned(),
            Ok(_) if folder_contains_plugin(path) => continue,
            Ok(_) => match Manifest::read(path, None) {
                Err(Error::NoManifest { todo, .. }) => {
                    format!("neither the folder nor a folder in it has a {FILE_NAME}; {todo}")
                }
                _ => format!("neither the folder nor a folder in it has a {FILE_NAME}"),
            },
        };
        bail_usage!("there is no plugin at --plugin {}: {why}", path.display());
    }
    Ok(())
}

fn folder_contains_plugin(path: &Path) -> bool {
    let found = discover_plugins(&[PluginSearchPath::new(Trust::Local, path)], None);
    let mut folders = found.iter().map(|found| &found.folder);
    folders.any(|folder| folder.join(FILE_NAME).is_file())
}

/// Checks that every plugin that a flag names exists, and that the flag applies to it.
///
/// # Errors
/// A named plugin does not exist, or the flag cannot be applied to it.
pub fn check_plugin_selection_flags(
    selection: &PluginSelection,
    config: &Config,
    plugins: &FoundPluginSet,
) -> anyhow::Result<()> {
    refuse_disabled_or_replaced_local_plugins(selection, plugins)?;
    for flag in &selection.grants {
        check_grant_flag_target(flag, plugins)?;
    }
    // Accept the name of a missing plugin that has settings: the user needs this flag, because the
    // settings of a missing plugin prevent the run from starting.
    let PluginsConfig(settings) = config.section()?;
    for name in &selection.without {
        if protected::is_protected_plugin(name) {
            return Err(Usage(protected::plugin_disable_refusal_message("--without", name)).into());
        }
        let mut absent = plugins.absent.iter();
        let is_there = list_plugin_names(plugins).any(|found| found == name)
            || absent.any(|absent| absent.name == *name);
        if !is_there && !settings.contains_key(name) {
            return Err(unknown_plugin_error("--without", name, plugins).into());
        }
    }
    Ok(())
}

/// Checks that a plugin whose folder is an argument of `--plugin` is neither disabled nor replaced
/// by another plugin of the same name. If the argument is a folder that contains plugins, they are
/// not checked.
fn refuse_disabled_or_replaced_local_plugins(
    selection: &PluginSelection,
    plugins: &FoundPluginSet,
) -> Result<(), Usage> {
    let is_named = |left: &&SkippedPlugin| {
        let folder = &left.found.folder;
        let mut paths = selection.local.iter();
        left.found.trust == Trust::Local
            && paths.any(|path| path.canonicalize().is_ok_and(|path| path == *folder))
    };
    for left in plugins.left_out.iter().filter(is_named) {
        let (name, folder) = (&left.name, left.found.folder.display());
        let todo = match &left.why {
            // Accept a plugin that was found twice in the same folder.
            PluginSkipReason::Shadowed { by } if is_same_folder(by, &left.found.folder) => continue,
            PluginSkipReason::Shadowed { .. } => format!(
                "a more trusted plugin has the same name; rename this one in {FILE_NAME}, or remove the other"
            ),
            PluginSkipReason::Disabled { .. } | PluginSkipReason::Disallowed { .. } => {
                "enable it there, or omit the flag".to_owned()
            }
            PluginSkipReason::Failed(_) | PluginSkipReason::Held(_) | PluginSkipReason::Without => {
                continue;
            }
        };
        bail_usage!(
            "--plugin {folder}: plugin {name} does not run: {}; {todo}",
            left.why
        );
    }
    Ok(())
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.canonicalize().ok();
    of(one).is_some_and(|one| Some(one) == of(other))
}

/// Checks that a `--grant` flag applies to exactly one plugin, which requests the permissions.
fn check_grant_flag_target(flag: &GrantFlagValue, plugins: &FoundPluginSet) -> Result<(), Usage> {
    let name = flag.plugin_name();
    if list_plugin_names(plugins)
        .filter(|found| *found == name)
        .count()
        > 1
    {
        bail_usage!(
            "there are several plugins called `{name}`, so --grant {name} is ambiguous; see `rind plugin list`"
        );
    }
    let idle = |plugin: &PluginWithPermissionDecision| match flag
        .first_unused_pattern(&plugin.decision)
    {
        None => Ok(()),
        Some(idle) => bail_usage!(
            "--grant {name}: plugin {name} does not ask for `{idle}`, or a policy denies it; see `rind plugin inspect {name} \
             --grants`"
        ),
    };
    if let Some(plugin) = plugins.plugins.iter().find(|p| p.manifest.name == name) {
        return idle(plugin);
    }
    let Some(left) = plugins.left_out.iter().find(|left| left.name == name) else {
        return Err(unknown_plugin_error("--grant", name, plugins));
    };
    match &left.why {
        // A plugin that lacks permissions prevents the run from starting, with an error of its own.
        // Here, only check that the plugin requests the permissions in the flag.
        PluginSkipReason::Held(plugin) => idle(plugin),
        PluginSkipReason::Failed(_) => Ok(()),
        why => bail_usage!(
            "--grant {name}: plugin {name} does not run: {why}; omit the flag, or enable the plugin"
        ),
    }
}

/// Returns the names of all plugins, whether they run or not.
pub fn list_plugin_names(plugins: &FoundPluginSet) -> impl Iterator<Item = &str> {
    let loaded = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    loaded.chain(plugins.left_out.iter().map(|left| left.name.as_str()))
}

/// Returns the error for a flag with an unknown plugin name. If a plugin has an unreadable
/// manifest, the message reports that fault instead, because this plugin may have the name.
fn unknown_plugin_error(flag: &str, name: &str, plugins: &FoundPluginSet) -> Usage {
    let unreadable = plugins.left_out.iter().filter_map(|left| match &left.why {
        PluginSkipReason::Failed(
            error @ (Error::Manifest { .. } | Error::NoManifest { .. } | Error::Io { .. }),
        ) => Some(error.to_string()),
        _ => None,
    });
    let unreadable: Vec<String> = unreadable.collect();
    let name = name.escape_debug();
    Usage(match unreadable.as_slice() {
        [] => format!("{flag} {name}: unknown plugin; see `rind plugin list`"),
        faults => format!(
            "{flag} {name}: no plugin with a readable manifest has this name; correct this first: {}",
            faults.join("; ")
        ),
    })
}
