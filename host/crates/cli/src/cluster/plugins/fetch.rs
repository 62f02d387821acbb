//! Fetches the files of a set of plugins to this machine, once, and compares them with the set at
//! each load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use rind_lib::grant::held::HeldFolder;
use rind_lib::session::SessionBlobs;
use rind_nats::{PluginSets, SetPlugin, SignedSet, file_names};
use rind_operator::plugin_set::{GivenPlugin, GivenSet};
use rind_package::place::stage_files;

/// Fetches the files that are not in `folder` yet, and returns the set ready to load. Blocks.
///
/// # Errors
/// A file is missing or does not match its hash, or cannot be written.
pub(super) fn fetch_set(
    sets: &PluginSets,
    set: &SignedSet,
    folder: &Path,
) -> anyhow::Result<GivenSet> {
    let plugins = set.record.plugins.iter();
    let plugins = plugins.map(|plugin| {
        fetch_plugin(sets, plugin, folder)
            .with_context(|| format!("fetch plugin {} {}", plugin.name, plugin.version))
    });
    let plugins = plugins.collect::<anyhow::Result<Vec<GivenPlugin>>>()?;
    GivenSet::new(&set.digest, plugins, &set.record.settings)
}

fn fetch_plugin(
    sets: &PluginSets,
    plugin: &SetPlugin,
    folder: &Path,
) -> anyhow::Result<GivenPlugin> {
    // The folder is named by a hash of its contents, so a plugin that several sets share is fetched
    // and compiled once.
    let name = SessionBlobs::bytes_id(&serde_json::to_vec(&plugin.files)?);
    let place = folder.join(&name);
    let files = match read_checked(&place, plugin) {
        Ok(files) => files,
        Err(_) => {
            let mut files = BTreeMap::new();
            for (path, file) in &plugin.files {
                let names = file_names(path).map_err(anyhow::Error::msg)?;
                files.insert(names, sets.file(file)?);
            }
            stage_files(&files, &name, folder)?.put_in_place(&place)?;
            read_checked(&place, plugin)?
        }
    };
    Ok(GivenPlugin {
        name: plugin.name.clone(),
        version: plugin.version.clone(),
        folder: place,
        files: Arc::new(files),
        grants: plugin.grants.clone(),
    })
}

/// Reads the folder of a plugin, which must have exactly the files of the set. The plugin is loaded
/// from these bytes, so that later changes on disk have no effect.
fn read_checked(place: &Path, plugin: &SetPlugin) -> anyhow::Result<HeldFolder> {
    let held = HeldFolder::read(place)?;
    let files = held.clone().into_files();
    let is_of_set = |(names, bytes): (&Vec<String>, &Vec<u8>)| {
        let file = plugin.files.get(&names.join("/"));
        file.is_some_and(|file| file.hash == SessionBlobs::bytes_id(bytes))
    };
    if files.len() != plugin.files.len() || !files.iter().all(is_of_set) {
        bail!("{} has other files than the set", place.display());
    }
    Ok(held)
}
