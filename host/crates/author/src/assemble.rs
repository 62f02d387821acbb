//! Writes each file of a built plugin atomically to the directory from which Rind loads the plugin.
//!
//! An existing plugin is replaced only when the new directory is complete, so that a session never
//! loads an incomplete one. Directories that are not plugins are never replaced, and symlinks are
//! refused.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::BuildError;
use super::folder::{PluginFolder, plugin_file_error};
use rind_lib::disk::exchange_folders;

/// Maximum depth of nested directories in a plugin's directory.
const MAX_PLUGIN_FOLDER_DEPTH: u32 = 16;

/// Files and directories that belong to a plugin, in addition to the component, each with its
/// maximum depth.
const PLUGIN_PATHS_AND_MAX_DEPTHS: [(&str, u32); 4] = [
    ("plugin.toml", 0),
    ("README.md", 0),
    ("prompts", MAX_PLUGIN_FOLDER_DEPTH),
    ("skills", MAX_PLUGIN_FOLDER_DEPTH),
];

/// Writes the component into the plugin's own directory, to the path that its manifest names.
/// Returns the path of the component.
pub(super) fn write_component_to_plugin_folder(
    plugin: &PluginFolder,
    component: &[u8],
) -> Result<PathBuf, BuildError> {
    let path = plugin.dir.join(&plugin.component);
    write_file(&path, component)
        .map_err(|source| plugin_file_error(&plugin.name, &path, source))?;
    Ok(path)
}

/// Creates `OUT/NAME` from the plugin's directory and the component. Replaces the output of an
/// earlier build unless it is identical. Returns the path of the component.
pub(super) fn assemble_plugin_in_output_folder(
    plugin: &PluginFolder,
    component: &[u8],
    out: &Path,
) -> Result<PathBuf, BuildError> {
    let place = out.join(&plugin.name);
    if place.symlink_metadata().is_ok() && !place.join("plugin.toml").is_file() {
        return Err(BuildError::InTheWay {
            plugin: plugin.name.clone(),
            path: place,
        });
    }
    copy_plugin_folder_with_component(plugin, component, out, &place)
        .map_err(|source| plugin_file_error(&plugin.name, &place, source))?;
    Ok(place.join(&plugin.component))
}

fn copy_plugin_folder_with_component(
    plugin: &PluginFolder,
    component: &[u8],
    out: &Path,
    place: &Path,
) -> io::Result<()> {
    fs::create_dir_all(out)?;
    let fresh = tempfile::Builder::new()
        .prefix(&format!(".{}.", plugin.name))
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(out)?;
    for (name, depth) in PLUGIN_PATHS_AND_MAX_DEPTHS {
        let from = plugin.dir.join(name);
        if from.symlink_metadata().is_ok() {
            copy_folder(&from, &fresh.path().join(name), depth)?;
        }
    }
    write_file(&fresh.path().join(&plugin.component), component)?;
    // Two concurrent builds into one directory must not exchange the directories at the same time.
    // The lock is released when the handle is dropped. If the file system cannot lock directories
    // (flock(2) on NFS), the second of two concurrent builds may fail with an error.
    let one_at_a_time = fs::File::open(out)?;
    let _ = one_at_a_time.lock();
    // Do not replace identical output, because a session may be loading it. A directory that cannot
    // be read counts as different.
    if are_file_trees_equal(fresh.path(), place, MAX_PLUGIN_FOLDER_DEPTH + 1).unwrap_or(false) {
        return Ok(());
    }
    // Exchange the old and the new directory atomically, so that a session that loads plugins
    // meanwhile finds one of them complete. The old output, now at the temporary path, is removed
    // when `fresh` is dropped.
    if place.symlink_metadata().is_ok() {
        return exchange_folders(fresh.path(), place);
    }
    fs::rename(fresh.path(), place)?;
    // Keep the temporary directory, which is now renamed to `place`: dropping `fresh` would try to
    // remove it.
    let _ = fresh.keep();
    Ok(())
}

/// Whether two directories or files have the same content. Anything nested deeper than `depth`
/// counts as different.
fn are_file_trees_equal(one: &Path, other: &Path, depth: u32) -> io::Result<bool> {
    let kind = one.symlink_metadata()?.file_type();
    if other.symlink_metadata()?.file_type() != kind {
        return Ok(false);
    }
    if kind.is_file() {
        return Ok(fs::read(one)? == fs::read(other)?);
    }
    if !kind.is_dir() || depth == 0 {
        return Ok(false);
    }
    let names = |folder: &Path| -> io::Result<BTreeSet<OsString>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    };
    let inside = names(one)?;
    if names(other)? != inside {
        return Ok(false);
    }
    for name in inside {
        if !are_file_trees_equal(&one.join(&name), &other.join(&name), depth - 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies a file or directory recursively. Refuses symlinks, because a copied symlink could point
/// to a different file.
fn copy_folder(from: &Path, to: &Path, depth: u32) -> io::Result<()> {
    let kind = from.symlink_metadata()?.file_type();
    let refused = |why: &str| io::Error::other(format!("{} {why}", from.display()));
    if kind.is_file() {
        return fs::copy(from, to).map(|_| ());
    }
    if !kind.is_dir() {
        return Err(refused(
            "is a link or a device; plugins are made of plain files",
        ));
    }
    if depth == 0 {
        return Err(refused(
            "is a folder where a file belongs, or is nested too deeply",
        ));
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_folder(&from.join(&name), &to.join(&name), depth - 1)?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".component.")
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::folder::PluginLanguage;
    use super::*;

    #[test]
    fn a_reader_finds_the_plugin_at_any_moment_of_a_build_into_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let (source, out) = (root.path().join("source"), root.path().join("out"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("plugin.toml"), "name = \"p\"").unwrap();
        let plugin = PluginFolder {
            dir: source,
            name: "p".to_owned(),
            component: "p.wasm".into(),
            language: PluginLanguage::Rust {
                package: "p".to_owned(),
            },
            has_inert_sockets: false,
            has_mypy: false,
            sources: None,
        };
        let build = |n: u32| {
            assemble_plugin_in_output_folder(&plugin, n.to_string().as_bytes(), &out).unwrap()
        };
        let place = build(0);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut n_read = 0_u32;
                while !is_over.load(Ordering::Relaxed) {
                    fs::read(&place).unwrap();
                    n_read += 1;
                }
                n_read
            });
            (1..300).for_each(|n| drop(build(n)));
            is_over.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 300);
        });
        assert_eq!(
            fs::read_dir(&out).unwrap().count(),
            1,
            "nothing is left behind"
        );
    }
}
