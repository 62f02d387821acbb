//! Installed skills at the start of a session: the lock file, the keys in the settings and the bytes on disk say together what
//! each is trusted with, as they do for plugins.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::super::lock_file::LockFile;
use super::super::place::exchange_lock;
use super::super::signature::InstallConfig;
use super::store::LockedSkill;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::skill::Installed;

/// Verifies every skill that the lock file names, in the folder `skills`.
pub(crate) fn verify(
    skills: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Installed>> {
    // An installation changes the folder and the lock file one after the other. Where nothing was ever exchanged there is no lock.
    let exchange = File::open(exchange_lock(skills)).ok();
    if let Some(exchange) = &exchange {
        let _ = exchange.lock_shared();
    }
    let lock = LockFile::<LockedSkill>::read(lock_path)?;
    let installed = lock.entries.iter().map(|(name, locked)| {
        let folder = skills.join(name);
        let held = HeldFolder::read(&folder).ok();
        let files = held
            .filter(|held| held.digest() == locked.digest)
            .map(Arc::new);
        let is_trusted = |key: &String| config.keys.values().any(|own| own == key);
        let trust = match locked.key.as_ref().is_some_and(is_trusted) {
            true => Trust::Package,
            false => Trust::User,
        };
        Installed {
            is_gone: folder.symlink_metadata().is_err(),
            folder,
            from: locked.origin(),
            trust,
            files,
        }
    });
    Ok(installed.collect())
}
