//! Keeps the stored data of removed plugins. The data is moved to a folder named after the plugin's
//! source, so that another plugin of the same name cannot read it, and moved back when the plugin
//! is installed from that source again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rind_package::source::PluginSource;

/// Maximum number of folders for the moved data of one name and source. It can be reached only by
/// alternately installing a plugin and copying it by hand.
const MAX_MOVED_DATA_FOLDERS: usize = 100;

/// Move of data that was stored under a plugin's name, made when the plugin is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum PluginDataMoveOnInstall {
    /// Data of a plugin from another or an unknown source was moved to this folder.
    PutAside(PathBuf),
    /// Data that was put aside earlier and belongs to the plugin from this source was moved back to
    /// the plugin's name.
    Back,
}

/// Moves the data of plugin `name` to a folder for its source. Returns the new folder; `None` if
/// there was no data.
pub(super) fn move_plugin_data_aside(
    plugins: &Path,
    name: &str,
    source: Option<&PluginSource>,
) -> io::Result<Option<PathBuf>> {
    let current = plugins.join(name);
    if fs::symlink_metadata(&current).is_err() {
        return Ok(None);
    }
    let aside = plugin_data_move_target(plugins, name, source);
    let numbered = (2..MAX_MOVED_DATA_FOLDERS).map(|n| path_with_number_suffix(&aside, n));
    let mut free = std::iter::once(aside.clone()).chain(numbered);
    let free = free.find(|path| fs::symlink_metadata(path).is_err());
    let free = free.ok_or(io::ErrorKind::AlreadyExists)?;
    fs::rename(current, &free)?;
    Ok(Some(free))
}

/// Prepares the data of a plugin that is newly installed from this source: moves away data that
/// another plugin stored under the name, and moves back the plugin's own earlier data.
pub(super) fn restore_plugin_data_for_source(
    plugins: &Path,
    name: &str,
    source: &PluginSource,
) -> io::Result<Vec<PluginDataMoveOnInstall>> {
    let mut changes = Vec::new();
    // The source of existing data is unknown: it belongs to a plugin that was copied by hand, or
    // that an earlier version of Rind removed.
    changes.extend(
        move_plugin_data_aside(plugins, name, None)?.map(PluginDataMoveOnInstall::PutAside),
    );
    let aside = plugin_data_move_target(plugins, name, Some(source));
    if fs::symlink_metadata(&aside).is_ok() {
        fs::rename(aside, plugins.join(name))?;
        changes.push(PluginDataMoveOnInstall::Back);
    }
    Ok(changes)
}

/// Returns the folder to which stored data of the plugin `name` from `source` is moved, so that
/// another plugin of the same name cannot read it. It cannot collide with a plugin's own folder,
/// because names of plugins contain no `@`.
fn plugin_data_move_target(plugins: &Path, name: &str, source: Option<&PluginSource>) -> PathBuf {
    let Some(source) = source else {
        return plugins.join(format!("{name}@unknown"));
    };
    let hash = blake3::hash(source.plugin_identity().as_bytes()).to_hex();
    plugins.join(format!("{name}@from-{}", &hash[..16]))
}

fn path_with_number_suffix(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-{n}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stays_with_its_source_and_comes_back_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path();
        let [one, two] = ["/one", "/two"].map(|path| PluginSource::Path(path.into()));
        let store = |text: &str| {
            fs::create_dir_all(plugins.join("p")).unwrap();
            fs::write(plugins.join("p/key"), text).unwrap();
        };
        let stored = || fs::read_to_string(plugins.join("p/key")).ok();
        let remove =
            |source: &PluginSource| move_plugin_data_aside(plugins, "p", Some(source)).unwrap();
        let install =
            |source: &PluginSource| restore_plugin_data_for_source(plugins, "p", source).unwrap();

        assert_eq!((install(&one), remove(&one)), (vec![], None));
        store("of one");
        assert!(remove(&one).is_some());
        assert_eq!((install(&two), stored()), (vec![], None));
        store("of two");
        assert!(remove(&two).is_some());
        assert_eq!(install(&one), [PluginDataMoveOnInstall::Back]);
        assert_eq!(stored().as_deref(), Some("of one"));
        remove(&one);
        // A plugin of the name is copied there without `install`, twice.
        for name in ["p@unknown", "p@unknown-2"] {
            store("of somebody");
            let aside = PluginDataMoveOnInstall::PutAside(plugins.join(name));
            assert_eq!(install(&two), [aside, PluginDataMoveOnInstall::Back]);
            assert_eq!(stored().as_deref(), Some("of two"));
            remove(&two);
        }
    }
}
