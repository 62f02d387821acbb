//! Reads and creates the file with the key that signs sets of plugins.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use rind_lib::disk::read_if_present;
use rind_nats::PluginSetSigningKey;

/// Maximum size of a file with a key for plugin sets, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4 << 10;

/// Mode bits that give access to the group and to others.
const GROUP_AND_OTHERS_MODE_BITS: u32 = 0o077;

/// Reads a key. Fails if the group or others have access to the file.
pub(super) fn read_plugin_set_key(path: &Path) -> anyhow::Result<PluginSetSigningKey> {
    let shown = path.display();
    let text = read_if_present(path, MAX_KEY_FILE_BYTES)
        .with_context(|| format!("cannot read the key file {shown}"))?;
    let Some(text) = text else {
        bail!("there is no key file {shown}; make one with `rind cluster plugins key {shown}`");
    };
    let about = path
        .metadata()
        .with_context(|| format!("cannot read the key file {shown}"))?;
    if about.mode() & GROUP_AND_OTHERS_MODE_BITS != 0 {
        bail!("others can read the key {shown}; make it private with `chmod 600 {shown}`");
    }
    PluginSetSigningKey::from_seed(&text).with_context(|| format!("cannot use the key in {shown}"))
}

/// Reads the key that signs plugin sets, or creates one if there is no file. Returns the key and
/// whether it is new.
pub(super) fn read_or_create_plugin_set_key(
    path: &Path,
) -> anyhow::Result<(PluginSetSigningKey, bool)> {
    if path.symlink_metadata().is_ok() {
        return Ok((read_plugin_set_key(path)?, false));
    }
    let (key, seed) = PluginSetSigningKey::generate()?;
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{seed}")?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write the key file {}", path.display()))?;
    Ok((key, true))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_private_and_one_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let missing = read_plugin_set_key(&path).unwrap_err().to_string();
        assert!(missing.contains("rind cluster plugins key"), "{missing}");
        let (key, is_new) = read_or_create_plugin_set_key(&path).unwrap();
        assert!(is_new);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let (again, is_new) = read_or_create_plugin_set_key(&path).unwrap();
        assert!(!is_new);
        assert_eq!(again.public_key(), key.public_key());
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let refused = read_plugin_set_key(&path).unwrap_err().to_string();
        assert!(refused.contains("others can read"), "{refused}");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(&path, "SMsecret").unwrap();
        let refused = format!("{:#}", read_plugin_set_key(&path).unwrap_err());
        assert!(!refused.contains("SMsecret"), "{refused}");
    }
}
