//! Installed plugins and skills at the start of a session: the lock file, the keys in the settings and the bytes on disk say
//! together what each is trusted with.
//!
//! One has the trust `package` when its signature was checked as it was installed, with a key that is still in the settings,
//! and its folder holds exactly what was installed. Nothing in the folder has a say in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock_file::{Entry, LockFile, Locked};
use super::place::exchange_lock;
use super::signature::InstallConfig;
use crate::grant::Trust;
use crate::grant::held::HeldFolder;
use crate::plugin::installed::Installed;

/// An installed plugin or skill, verified.
pub(super) struct Verified<T> {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Line of the lock file that it is.
    pub(super) locked: T,
    pub(super) trust: Trust,
    /// Files as they were installed, or the reason why they are not.
    pub(super) files: Result<Arc<HeldFolder>, String>,
    pub(super) is_gone: bool,
}

/// Verifies everything that a lock file names, in the folder `all`. Reads each once; what is loaded is what was read.
pub(super) fn verify_all<T: Entry>(
    all: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Verified<T>>> {
    // An installation changes the folder and the lock file one after the other. Where nothing was ever exchanged there is no lock.
    let exchange = File::open(exchange_lock(all)).ok();
    if let Some(exchange) = &exchange {
        let _ = exchange.lock_shared();
    }
    let lock = LockFile::<T>::read(lock_path)?;
    let verified = lock.entries.iter().map(|(name, entry)| {
        let folder = all.join(name);
        let is_gone = folder.symlink_metadata().is_err();
        let (files, locked) = match HeldFolder::read(&folder) {
            Ok(held) => match lock.holding(name, held.digest()) {
                Some(locked) => (Ok(Arc::new(held)), locked),
                None => (
                    Err("its files are not those that were installed".to_owned()),
                    entry,
                ),
            },
            Err(_) if is_gone => (Err("its folder is gone".to_owned()), entry),
            Err(error) => (Err(format!("its files cannot be verified: {error}")), entry),
        };
        let is_trusted = |key: &str| config.keys.values().any(|own| own == key);
        Verified {
            name: name.clone(),
            trust: match locked.key().is_some_and(is_trusted) {
                true => Trust::Package,
                false => Trust::User,
            },
            locked: locked.clone(),
            folder,
            files,
            is_gone,
        }
    });
    Ok(verified.collect())
}

/// Verifies every plugin that the lock file names, in the folder `plugins`.
pub(crate) fn verify(
    plugins: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Installed>> {
    let all = verify_all::<Locked>(plugins, lock_path, config)?.into_iter();
    let installed = all.map(|one| {
        let Verified {
            name,
            folder,
            trust,
            files,
            ..
        } = one;
        let key = one.locked.key.filter(|_| trust == Trust::User);
        let note = key.map(|key| {
            format!(
                "plugin {name} is trusted as `user` and no longer as `package`: the key {key} that it was signed with is not in \
                 [install] keys any more"
            )
        });
        Installed {
            name,
            folder,
            trust,
            files,
            note,
        }
    });
    Ok(installed.collect())
}
