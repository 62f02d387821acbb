//! Flags that name plugins: one that cannot be honored is an error, so that no user relies on a
//! guard that a typing mistake left out.

use std::path::Path;

use super::settings::PluginSelection;
use super::usage::{Usage, bail_usage};
use rind_lib::config::{Config, PluginsConfig};
use rind_lib::grant::Trust;
use rind_lib::grant::decide::GrantFlag;
use rind_lib::plugin::discover::{Source, discover};
use rind_lib::plugin::load::{DecidedPlugin, LeftOut, PluginSet, Why};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::{Error, protected};

/// Checks that every `--plugin PATH` leads to a plugin.
///
/// # Errors
/// One leads to none.
pub fn check_places(selection: &PluginSelection) -> Result<(), Usage> {
    for path in &selection.local {
        let why = match path.metadata() {
            Err(error) => error.to_string(),
            Ok(found) if !found.is_dir() => "it is not a folder".to_owned(),
            Ok(_) if holds_plugins(path) => continue,
            Ok(_) => match Manifest::read(path, None) {
                Err(Error::NoManifest { todo, .. }) => {
                    format!("there is no {FILE_NAME} in it or in its folders; {todo}")
                }
                _ => format!("there is no {FILE_NAME} in it or in its folders"),
            },
        };
        bail_usage!("there is no plugin at --plugin {}: {why}", path.display());
    }
    Ok(())
}

fn holds_plugins(path: &Path) -> bool {
    let found = discover(&[Source::new(Trust::Local, path)], None);
    let mut folders = found.iter().map(|found| &found.folder);
    folders.any(|folder| folder.join(FILE_NAME).is_file())
}

/// Checks that every plugin named by a flag has the role that the flag requires.
///
/// # Errors
/// A named plugin does not exist, or lacks the role for which it is named.
pub fn check(
    selection: &PluginSelection,
    config: &Config,
    plugins: &PluginSet,
) -> anyhow::Result<()> {
    check_local(selection, plugins)?;
    for flag in &selection.grants {
        check_grant(flag, plugins)?;
    }
    // Check also names of plugins that do not exist but have settings: those settings rely on them.
    let PluginsConfig(settings) = config.section()?;
    for name in &selection.without {
        if protected::is_protected(name) {
            return Err(Usage(protected::protected_refusal("--without", name)).into());
        }
        let mut absent = plugins.absent.iter();
        let is_there =
            names(plugins).any(|found| found == name) || absent.any(|absent| absent.name == *name);
        if !is_there && !settings.contains_key(name) {
            return Err(unknown_plugin("--without", name, plugins).into());
        }
    }
    Ok(())
}

/// A plugin that `--plugin` names itself must not be switched off, or give way to another of its
/// name. One of a folder of plugins may.
fn check_local(selection: &PluginSelection, plugins: &PluginSet) -> Result<(), Usage> {
    let is_named = |left: &&LeftOut| {
        let folder = &left.found.folder;
        let mut paths = selection.local.iter();
        left.found.trust == Trust::Local
            && paths.any(|path| path.canonicalize().is_ok_and(|path| path == *folder))
    };
    for left in plugins.left_out.iter().filter(is_named) {
        let (name, folder) = (&left.name, left.found.folder.display());
        let todo = match &left.why {
            // The same folder was found through two sources: nothing is wrong.
            Why::Shadowed { by } if is_same(by, &left.found.folder) => continue,
            Why::Shadowed { .. } => format!(
                "a more trusted plugin has the same name; rename this one in {FILE_NAME}, or remove the other"
            ),
            Why::Disabled { .. } | Why::Disallowed { .. } => {
                "enable it there, or omit the flag".to_owned()
            }
            Why::Failed(_) | Why::Held(_) | Why::Without => continue,
        };
        bail_usage!(
            "--plugin {folder}: plugin {name} does not run: {}; {todo}",
            left.why
        );
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.canonicalize().ok();
    of(one).is_some_and(|one| Some(one) == of(other))
}

/// An approval that is given for a name must apply to exactly one plugin.
fn check_grant(flag: &GrantFlag, plugins: &PluginSet) -> Result<(), Usage> {
    let name = flag.plugin();
    if names(plugins).filter(|found| *found == name).count() > 1 {
        bail_usage!(
            "there are several plugins called `{name}`, so --grant {name} is ambiguous; see `rind plugin list`"
        );
    }
    let idle = |plugin: &DecidedPlugin| match flag.idle(&plugin.decision) {
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
        return Err(unknown_plugin("--grant", name, plugins));
    };
    match &left.why {
        // A named plugin that cannot run keeps the run from starting.
        Why::Held(plugin) => idle(plugin),
        Why::Failed(_) => Ok(()),
        why => bail_usage!(
            "--grant {name}: plugin {name} does not run: {why}; omit the flag, or enable the plugin"
        ),
    }
}

/// Lists the names of plugins that run and of those that do not.
pub fn names(plugins: &PluginSet) -> impl Iterator<Item = &str> {
    let loaded = plugins.plugins.iter().map(|p| p.manifest.name.as_str());
    loaded.chain(plugins.left_out.iter().map(|left| left.name.as_str()))
}

/// Refuses a name that no plugin has. A plugin whose manifest cannot be read has the name of its
/// folder, and may be the one that is meant: then the message is about the fault of the manifest.
fn unknown_plugin(flag: &str, name: &str, plugins: &PluginSet) -> Usage {
    let unreadable = plugins.left_out.iter().filter_map(|left| match &left.why {
        Why::Failed(
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
