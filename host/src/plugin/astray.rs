//! Detects misplaced plugin files: a manifest under another name, a component without a manifest.
//!
//! If such a directory were skipped silently, the operator would believe that a guard runs although
//! it does not.

use std::path::{Path, PathBuf};

use super::discover::PluginSearchPath;
use super::files;
use super::manifest::FILE_NAME;
use crate::grant::Trust;
use crate::grant::held::InMemoryFolder;

/// File whose presence marks a directory as source code of a plugin.
const SOURCE_FOLDER_MARKER_FILE: &str = "Cargo.toml";

/// Whether a directory without a manifest is nevertheless meant as a plugin: whether it contains a
/// component, or a file with almost the name of a manifest.
pub(super) fn is_likely_plugin_folder(folder: &Path, held: Option<&InMemoryFolder>) -> bool {
    let names = files::list_regular_file_names(folder, held);
    names
        .iter()
        .any(|name| is_misnamed_manifest(name) || is_component_file(name))
}

/// Returns advice on what to do with a directory that has no manifest, based on its content.
pub(super) fn misplaced_plugin_advice(folder: &Path, held: Option<&InMemoryFolder>) -> String {
    let names = files::list_regular_file_names(folder, held);
    let found = |is_it: fn(&str) -> bool| names.iter().find(|name| is_it(name));
    if let Some(name) = found(is_misnamed_manifest) {
        return format!("rename {} to it", name.escape_debug());
    }
    if let Some(name) = found(is_component_file) {
        let name = name.escape_debug();
        return format!(
            "put the manifest of the component {name} into this folder, or move the folder away"
        );
    }
    "write one, or move the folder away when it is for something else".to_owned()
}

/// Returns complaints about plugin directories that cannot be read and about entries that have no
/// effect: dangling symlinks, manifests and components next to the plugin directories instead of
/// inside one, and directories of sources without a manifest, which may not be meant as plugins.
pub(super) fn describe_misplaced_files(
    sources: &[PluginSearchPath],
    held: Option<&InMemoryFolder>,
) -> Vec<String> {
    let has_manifest = |folder: &Path| files::is_regular_file(&folder.join(FILE_NAME), held);
    let mut said = Vec::new();
    for source in sources {
        if source.trust == Trust::Local && has_manifest(&source.path) {
            continue;
        }
        said.extend(
            files::find_folder_read_error(&source.path, held).map(|error| {
                format!(
                    "the plugins in {} are not loaded: {error}",
                    source.path.display()
                )
            }),
        );
        let mut names = files::list_regular_file_names(&source.path, held);
        names.retain(|name| {
            name == FILE_NAME || is_misnamed_manifest(name) || is_component_file(name)
        });
        said.extend(names.into_iter().map(|name| {
            format!(
                "{} has no effect: this is a folder of plugins; put the plugin into a subfolder of its own",
                source.path.join(name).display()
            )
        }));
        let dangling = files::list_dangling_symlinks(&source.path, held).into_iter();
        said.extend(dangling.map(|name| {
            format!(
                "{} has no effect: it is a dangling symlink; restore its target or remove it",
                source.path.join(name).display()
            )
        }));
        let folders = files::list_subfolders(&source.path, held).into_iter();
        let is_passed_over = |folder: &PathBuf| {
            let has_sources = files::is_regular_file(&folder.join(SOURCE_FOLDER_MARKER_FILE), held);
            has_sources && !has_manifest(folder) && !is_likely_plugin_folder(folder, held)
        };
        said.extend(folders.filter(is_passed_over).map(|folder| {
            let todo = misplaced_plugin_advice(&folder, held);
            format!(
                "{} is ignored: it has no {FILE_NAME}; {todo}",
                folder.display()
            )
        }));
    }
    said.sort();
    said.dedup();
    said
}

/// Whether a file name is almost the name of a manifest, for example `Plugin.toml`.
fn is_misnamed_manifest(name: &str) -> bool {
    let lower = name.to_lowercase();
    let (stem, ending) = lower.split_once('.').unwrap_or((&lower, ""));
    let endings = ["toml", "tml", "json", "yaml", "yml"];
    name != FILE_NAME
        && matches!(stem, "plugin" | "plugins" | "manifest")
        && endings.iter().any(|known| ending.starts_with(known))
}

fn is_component_file(name: &str) -> bool {
    let name = name.to_lowercase();
    Path::new(&name)
        .extension()
        .is_some_and(|end| end == "wasm")
}
