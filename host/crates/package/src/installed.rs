//! Verifies installed plugins and skills when a session starts, and determines their trust from the
//! lock file, the keys in the settings and the bytes on disk.
//!
//! A package has the trust `package` if its signature was checked at installation with a key that
//! is still in the settings, and its directory contains exactly the installed files. Nothing in the
//! directory itself can raise its trust.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock_file::{LockEntry, LockFile, LockedEntries};
use super::place::exchange_lock;
use super::signature::InstallConfig;
use rind_lib::grant::Trust;
use rind_lib::grant::held::HeldFolder;
use rind_lib::plugin::installed::Installed;

/// Installed plugin or skill, after verification.
pub(super) struct VerifiedInstall<T> {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Entry in the lock file that matches the files on disk, or the current entry if none matches.
    pub(super) locked: T,
    pub(super) trust: Trust,
    /// Files as they were installed, or the reason why they are missing or cannot be trusted.
    pub(super) files: Result<Arc<HeldFolder>, String>,
    pub(super) is_gone: bool,
}

/// Verifies the packages of all entries in the lock file at `lock_path`, whose directories are in
/// `all`. Reads each directory once; loading later uses the bytes that were read here.
pub(super) fn verify_all<T: LockEntry>(
    all: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<VerifiedInstall<T>>> {
    // An installation changes the directory and then the lock file; the exchange lock makes both
    // changes visible together. The file of the exchange lock is missing only if nothing was ever
    // installed.
    let exchange = File::open(exchange_lock(all)).ok();
    if let Some(exchange) = &exchange {
        let _ = exchange.lock_shared();
    }
    let lock = LockFile::<T>::read_file(lock_path)?;
    let verified = lock.entries.iter().map(|(name, entry)| {
        let folder = all.join(name);
        let is_gone = folder.symlink_metadata().is_err();
        let (files, locked) = match HeldFolder::read(&folder) {
            Ok(held) => match lock.locked_with(name, held.digest()) {
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
        VerifiedInstall {
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

/// Verifies every plugin in the lock file at `lock_path`. The plugins' directories are in
/// `plugins`.
pub fn verify_plugins(
    plugins: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Installed>> {
    let all = verify_all::<LockedEntries>(plugins, lock_path, config)?.into_iter();
    let installed = all.map(|one| {
        let VerifiedInstall {
            name,
            folder,
            trust,
            files,
            ..
        } = one;
        let key = one.locked.key.filter(|_| trust == Trust::User);
        let note = key.map(|key| {
            format!(
                "plugin {name} is trusted as `user` and no longer as `package`: the key {key} that signed it is no longer in [install] keys"
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
