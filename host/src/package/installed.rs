//! Installed plugins at the start of a session: the lock file, the keys in the settings and the bytes on disk say together what
//! each is trusted with.
//!
//! A plugin has the trust `package` when its signature was checked as it was installed, with a key that is still in the settings,
//! and its folder holds exactly what was installed. Nothing in the folder has a say in it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::lock_file::{LockFile, Locked};
use super::place::exchange_lock;
use super::signature::InstallConfig;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::plugin::installed::Installed;

/// Verifies every plugin that the lock file names, in the folder `plugins`. Reads each once; what is loaded is what was read.
pub(crate) fn verify(
    plugins: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Installed>> {
    // An installation changes the folder and the lock file one after the other. Where nothing was ever exchanged there is no lock.
    let exchange = File::open(exchange_lock(plugins)).ok();
    if let Some(exchange) = &exchange {
        let _ = exchange.lock_shared();
    }
    let lock = LockFile::<Locked>::read(lock_path)?;
    let named = lock.entries.iter();
    let installed = named.map(|(name, locked)| verified(name, locked, plugins, config));
    Ok(installed.collect())
}

fn verified(name: &str, locked: &Locked, plugins: &Path, config: &InstallConfig) -> Installed {
    let folder = plugins.join(name);
    let files = match HeldFolder::read(&folder) {
        Ok(held) if held.digest() == locked.digest => Ok(Arc::new(held)),
        Ok(_) => Err("its files are not those that were installed".to_owned()),
        Err(_) if folder.symlink_metadata().is_err() => Err("its folder is gone".to_owned()),
        Err(error) => Err(format!("its files cannot be verified: {error}")),
    };
    let is_trusted = |key: &&String| config.keys.values().any(|own| own == *key);
    let trust = match locked.key.as_ref().filter(is_trusted) {
        Some(_) => Trust::Package,
        None => Trust::User,
    };
    let note = locked.key.as_ref().filter(|_| trust == Trust::User);
    let note = note.map(|key| {
        format!(
            "plugin {name} is trusted as `user` and no longer as `package`: the key {key} that it was signed with is not in \
             [install] keys any more"
        )
    });
    Installed {
        name: name.to_owned(),
        folder,
        trust,
        files,
        note,
    }
}
