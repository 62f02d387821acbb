//! Downloads the files of a set of plugins that this machine does not have yet. Compares all files
//! with the set each time it is loaded.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::session::SessionBlobs;
use rind_nats::{PluginSetPlugin, SignedPluginSet, TenantPluginSetStore, split_plugin_file_path};
use rind_operator::plugin_set::{ExternalPluginSet, ExternalPluginSetMember};
use rind_package::place::stage_files;

/// Fetches the files that are not in `folder` yet, and returns the set ready to load. Blocks.
///
/// # Errors
/// A file is missing or does not match its hash, or cannot be written.
pub(super) fn fetch_plugin_set(
    sets: &TenantPluginSetStore,
    set: &SignedPluginSet,
    folder: &Path,
) -> anyhow::Result<ExternalPluginSet> {
    let plugins = set.record.plugins.iter();
    let plugins = plugins.map(|plugin| {
        fetch_plugin(sets, plugin, folder)
            .with_context(|| format!("cannot fetch plugin {} {}", plugin.name, plugin.version))
    });
    let plugins = plugins.collect::<anyhow::Result<Vec<ExternalPluginSetMember>>>()?;
    ExternalPluginSet::new(&set.digest, plugins, &set.record.settings)
}

fn fetch_plugin(
    sets: &TenantPluginSetStore,
    plugin: &PluginSetPlugin,
    folder: &Path,
) -> anyhow::Result<ExternalPluginSetMember> {
    // The folder is named by a hash of its contents, so a plugin that several sets share is fetched
    // and compiled once.
    let name = SessionBlobs::compute_blob_id(&serde_json::to_vec(&plugin.files)?);
    let place = folder.join(&name);
    let files = match read_plugin_folder_listed_in_set(&place, plugin) {
        Ok(files) => files,
        Err(_) => {
            let mut files = BTreeMap::new();
            for (path, file) in &plugin.files {
                let names = split_plugin_file_path(path).map_err(anyhow::Error::msg)?;
                files.insert(names, sets.read_file(file)?);
            }
            stage_files(&files, &name, folder)?.move_staged_install_to(&place)?;
            read_plugin_folder_listed_in_set(&place, plugin)?
        }
    };
    Ok(ExternalPluginSetMember {
        name: plugin.name.clone(),
        version: plugin.version.clone(),
        folder: place,
        files: Arc::new(files),
        grants: plugin.grants.clone(),
    })
}

/// Reads the folder of a plugin into memory. Fails unless it has exactly the files that the set
/// lists. The plugin is loaded from memory, so later changes on disk have no effect.
fn read_plugin_folder_listed_in_set(
    place: &Path,
    plugin: &PluginSetPlugin,
) -> anyhow::Result<InMemoryFolder> {
    let held = InMemoryFolder::read(place)?;
    let files = held.clone().into_files();
    let is_of_set = |(names, bytes): (&Vec<String>, &Vec<u8>)| {
        let file = plugin.files.get(&names.join("/"));
        file.is_some_and(|file| file.hash == SessionBlobs::compute_blob_id(bytes))
    };
    if files.len() != plugin.files.len() || !files.iter().all(is_of_set) {
        bail!(
            "the files in {} differ from those of the set of plugins",
            place.display()
        );
    }
    Ok(held)
}
