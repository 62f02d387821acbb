//! Values that a plugin keeps across sessions: one file per key, in the plugin's own directory.
//!
//! A file is named by a hash of its key, because keys may be longer than file names and contain any
//! character. Its first line is the key as a JSON string, the rest is the value.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::discover::FoundPlugin;
use crate::disk::{create_private_folder, replace_private_file};
use crate::grant::Trust;
use crate::lock::lock_ignoring_poison;
use crate::point::handle::HostFunctionError;

/// Maximum length of a key in a plugin's store, in bytes.
pub const MAX_STORE_KEY_BYTES: usize = 256;

/// Maximum size of a value in a plugin's store, in bytes.
pub const MAX_STORE_VALUE_BYTES: usize = 16 << 20;

/// Maximum total size of the files in a plugin's store, in bytes.
pub const MAX_PLUGIN_STORE_BYTES: u64 = 64 << 20;

/// Maximum number of keys in a plugin's store.
const MAX_STORE_KEYS: usize = 10_000;

/// Time for which a measurement of the used space stays valid while the store is more than half
/// full. It must be repeated because other processes may write to the same store.
const HALF_FULL_STORE_MEASUREMENT_TTL: Duration = Duration::from_secs(1);

/// Time for which a measurement of the used space stays valid while the store is at most half full.
/// The time is long because a measurement reads the metadata of every file.
const STORE_USAGE_TTL: Duration = Duration::from_secs(60);

/// Key-value store of one plugin.
#[derive(Clone, Debug)]
pub struct PluginKeyValueStore {
    folder: PathBuf,
    is_closed: bool,
    taken: Arc<Mutex<Option<PluginStoreDiskUsage>>>,
    /// Keys that were already read from files, by file name. A cached key never becomes stale,
    /// because a file name is a hash of the key.
    known: Arc<Mutex<HashMap<OsString, String>>>,
}

/// Space that the plugin's store uses: the last measurement, and the changes of this process since
/// then.
#[derive(Debug)]
struct PluginStoreDiskUsage {
    counted: Instant,
    /// Size of each file of the store, in bytes.
    sizes: HashMap<PathBuf, u64>,
    total: u64,
}

impl PluginStoreDiskUsage {
    fn measure_folder(folder: &Path) -> io::Result<Self> {
        let mut sizes = HashMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            sizes.insert(entry.path(), entry.metadata()?.len());
        }
        Ok(Self {
            counted: Instant::now(),
            total: sizes.values().sum(),
            sizes,
        })
    }

    /// Whether the measurement of the used space is too old to be used.
    fn is_measurement_outdated(&self) -> bool {
        let is_half_full =
            self.total > MAX_PLUGIN_STORE_BYTES / 2 || self.sizes.len() > MAX_STORE_KEYS / 2;
        let holds = if is_half_full {
            HALF_FULL_STORE_MEASUREMENT_TTL
        } else {
            STORE_USAGE_TTL
        };
        self.counted.elapsed() >= holds
    }

    fn set_file_size(&mut self, path: PathBuf, size: u64) {
        let old = self.sizes.insert(path, size).unwrap_or(0);
        self.total = self.total.saturating_sub(old) + size;
    }

    fn remove_file(&mut self, path: &Path) {
        let old = self.sizes.remove(path).unwrap_or(0);
        self.total = self.total.saturating_sub(old);
    }
}

fn plugin_store_error(error: &io::Error) -> HostFunctionError {
    HostFunctionError::Failed(format!("cannot access the plugin's store: {error}"))
}

/// Returns the plugin's own directory under `data`. For project and command-line plugins, whose
/// names are not verified, the directory name includes a hash of the plugin's location: otherwise a
/// plugin could inherit the data of another plugin with the same name. The name also includes the
/// hash if the plugin's folder is a symlink, because the link's target can be replaced by another
/// plugin.
#[must_use]
pub fn plugin_own_folder(data: &Path, plugin: &str, found: &FoundPlugin) -> PathBuf {
    let is_link = fs::symlink_metadata(&found.folder).is_ok_and(|about| about.is_symlink());
    if found.trust <= Trust::User && !is_link {
        return data.join(plugin);
    }
    let real = found.folder.canonicalize();
    let real = real.as_ref().unwrap_or(&found.folder);
    let place = format!("{} {}", found.trust, real.display());
    let hash = blake3::hash(place.as_bytes()).to_hex();
    data.join(format!("{plugin}@{}", &hash[..16]))
}

/// Returns the directory that a plugin sees as `data`, inside its
/// [own directory](plugin_own_folder).
#[must_use]
pub fn plugin_data_folder(own: &Path) -> PathBuf {
    own.join("files")
}

/// Checks the length of a key of the interfaces `state` and `store`.
pub fn check_key_length(key: &str) -> Result<(), HostFunctionError> {
    if key.is_empty() || key.len() > MAX_STORE_KEY_BYTES {
        return Err(HostFunctionError::InvalidInput(format!(
            "a key of the store must have 1 to {MAX_STORE_KEY_BYTES} bytes, but this one has {}",
            key.len()
        )));
    }
    Ok(())
}

impl PluginKeyValueStore {
    /// Creates a store in `folder`. The directory is created when the first value is set.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            is_closed: false,
            taken: Arc::default(),
            known: Arc::default(),
        }
    }

    /// Makes the store read-only, for a plugin that runs only to list its tools.
    #[must_use]
    pub fn into_read_only(self) -> Self {
        let is_closed = true;
        Self { is_closed, ..self }
    }

    fn check_writable(&self) -> Result<(), HostFunctionError> {
        if self.is_closed {
            let why = "values cannot be stored while the plugin only lists its tools";
            return Err(HostFunctionError::Denied(why.to_owned()));
        }
        Ok(())
    }

    /// Creates the store in the subdirectory `store` of a plugin's own directory.
    #[must_use]
    pub fn in_plugin_folder(folder: &Path) -> Self {
        Self::new(folder.join("store"))
    }

    /// Returns the value of a key; `None` if the key is not set.
    pub fn get(&self, key: &str) -> Result<Option<String>, HostFunctionError> {
        check_key_length(key)?;
        match fs::read_to_string(self.value_file_path(key)) {
            Ok(text) => Ok(text.split_once('\n').map(|(_, value)| value.to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(plugin_store_error(&e)),
        }
    }

    /// Sets the value of a key, atomically: a reader sees the old value or the new one.
    pub fn set(&self, key: &str, value: &str) -> Result<(), HostFunctionError> {
        check_key_length(key)?;
        self.check_writable()?;
        if value.len() > MAX_STORE_VALUE_BYTES {
            return Err(HostFunctionError::Limit(format!(
                "the value has {} bytes, at most {MAX_STORE_VALUE_BYTES} are allowed",
                value.len()
            )));
        }
        create_private_folder(&self.folder).map_err(|e| plugin_store_error(&e))?;
        let path = self.value_file_path(key);
        let mut taken = lock_ignoring_poison(&self.taken);
        let now = match taken.take() {
            Some(taken) if !taken.is_measurement_outdated() => taken,
            _ => PluginStoreDiskUsage::measure_folder(&self.folder)
                .map_err(|e| plugin_store_error(&e))?,
        };
        let now = taken.insert(now);
        let old = now.sizes.get(&path).copied();
        let besides = now.total - old.unwrap_or(0);
        let n_besides = now.sizes.len() - usize::from(old.is_some());
        if besides + value.len() as u64 > MAX_PLUGIN_STORE_BYTES || n_besides >= MAX_STORE_KEYS {
            return Err(HostFunctionError::Limit(format!(
                "the store is full: at most {MAX_PLUGIN_STORE_BYTES} bytes in {MAX_STORE_KEYS} keys are kept"
            )));
        }
        let content = format!("{}\n{value}", serde_json::Value::from(key));
        replace_private_file(&path, content.as_bytes()).map_err(|e| plugin_store_error(&e))?;
        now.set_file_size(path, content.len() as u64);
        Ok(())
    }

    /// Removes a key; does nothing if the key is not set.
    pub fn remove(&self, key: &str) -> Result<(), HostFunctionError> {
        check_key_length(key)?;
        self.check_writable()?;
        let path = self.value_file_path(key);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(plugin_store_error(&e)),
            _ => {}
        }
        let mut taken = lock_ignoring_poison(&self.taken);
        if let Some(taken) = &mut *taken {
            taken.remove_file(&path);
        }
        Ok(())
    }

    /// Returns the keys of the store that start with `prefix`, sorted.
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>, HostFunctionError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(plugin_store_error(&e)),
        };
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        let mut known = lock_ignoring_poison(&self.known);
        // Forget keys of files that other processes have removed.
        if known.len() > names.len() {
            let present: HashSet<&OsString> = names.iter().collect();
            known.retain(|name, _| present.contains(name));
        }
        let mut keys = Vec::new();
        for name in names {
            let key = match known.entry(name) {
                Entry::Occupied(own) => own.into_mut(),
                Entry::Vacant(free) => match read_stored_key(&self.folder, free.key()) {
                    Some(key) => free.insert(key),
                    None => continue,
                },
            };
            if key.starts_with(prefix) {
                keys.push(key.clone());
            }
        }
        keys.sort();
        Ok(keys)
    }

    fn value_file_path(&self, key: &str) -> PathBuf {
        self.folder.join(value_file_name(key))
    }
}

fn value_file_name(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().to_string()
}

/// Reads the key from the first line of a file. Returns `None` if the file name is not the hash of
/// that key, as with the temporary file of a process that was killed while it wrote.
fn read_stored_key(folder: &Path, name: &OsStr) -> Option<String> {
    let file = fs::File::open(folder.join(name)).ok()?;
    let mut line = String::new();
    io::BufReader::new(file).read_line(&mut line).ok()?;
    let key: String = serde_json::from_str(&line).ok()?;
    (name.to_str() == Some(&value_file_name(&key))).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_found_by_another_instance_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let store = PluginKeyValueStore::new(folder.path().join("store"));
        assert_eq!(store.keys("").unwrap(), Vec::<String>::new());
        store.set("a/../b", "one\ntwo").unwrap();
        store.set(&"k".repeat(256), "long").unwrap();
        let again = PluginKeyValueStore::new(folder.path().join("store"));
        assert_eq!(again.get("a/../b").unwrap().as_deref(), Some("one\ntwo"));
        assert_eq!(again.keys("a").unwrap(), ["a/../b"]);
        again.remove("a/../b").unwrap();
        assert_eq!(store.get("a/../b").unwrap(), None);
    }

    #[test]
    fn a_file_that_a_killed_process_left_is_no_second_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = PluginKeyValueStore::new(folder.path().to_owned());
        store.set("a", "1").unwrap();
        fs::write(folder.path().join(".a.tmp-1"), "\"a\"\n0").unwrap();
        assert_eq!(store.keys("").unwrap(), ["a"]);
        let other = PluginKeyValueStore::new(folder.path().to_owned());
        other.set("b", "2").unwrap();
        assert_eq!(store.keys("").unwrap(), ["a", "b"]);
        other.remove("a").unwrap();
        assert_eq!(store.keys("").unwrap(), ["b"]);
    }

    #[test]
    fn the_place_of_a_store_follows_the_target_of_a_link() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let link = at("link");
        let place = |folder: &Path, trust| {
            let folder = folder.to_owned();
            plugin_own_folder(Path::new("/data"), "memo", &FoundPlugin { trust, folder })
        };
        for trust in [Trust::User, Trust::Local] {
            let places = ["one", "other"].map(|target| {
                fs::create_dir_all(at(target)).unwrap();
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(at(target), &link).unwrap();
                place(&link, trust)
            });
            assert_ne!(places[0], places[1], "{trust}");
        }
        assert_eq!(place(&at("one"), Trust::User), Path::new("/data/memo"));
    }

    #[test]
    fn one_that_is_closed_can_be_read_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = PluginKeyValueStore::new(folder.path().join("store"));
        let closed = store.clone().into_read_only();
        assert!(matches!(
            closed.set("a", "1"),
            Err(HostFunctionError::Denied(_))
        ));
        assert!(!folder.path().join("store").exists());
        store.set("a", "1").unwrap();
        assert!(matches!(
            closed.remove("a"),
            Err(HostFunctionError::Denied(_))
        ));
        assert_eq!(closed.get("a").unwrap().as_deref(), Some("1"));
    }

    #[test]
    fn keys_and_values_over_the_limits_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = PluginKeyValueStore::new(folder.path().to_owned());
        assert!(matches!(
            store.set("", "x"),
            Err(HostFunctionError::InvalidInput(_))
        ));
        assert!(matches!(
            store.get(&"k".repeat(257)),
            Err(HostFunctionError::InvalidInput(_))
        ));
        let large = "x".repeat(MAX_STORE_VALUE_BYTES);
        assert!(matches!(
            store.set("a", &(large.clone() + "x")),
            Err(HostFunctionError::Limit(_))
        ));
        for key in ["a", "b", "c"] {
            store.set(key, &large).unwrap();
        }
        assert!(
            matches!(store.set("d", &large), Err(HostFunctionError::Limit(_))),
            "the first line of each file counts too"
        );
    }
}
