//! Verifies installed plugins and skills when a session starts, and determines their trust from the
//! lock file, the keys in the settings and the bytes on disk.
//!
//! A package has the trust `package` if its signature was checked at installation with a key that
//! is still in the settings, and its directory contains exactly the installed files. Nothing in the
//! directory itself can raise its trust.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock_file::{LockEntry, LockFile, LockedPlugin};
use super::place::package_change_lock_path;
use super::signature::InstallConfig;
use rind_lib::grant::Trust;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::plugin::installed::InstalledPlugin;

/// Plugin or skill from the lock file, with the outcome of its verification.
pub(super) struct InstallVerificationResult<T> {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Entry in the lock file that matches the files on disk, or the current entry if none matches.
    pub(super) locked: T,
    pub(super) trust: Trust,
    /// Contents of the package's files, which equal the installed ones, or the reason why the files
    /// are missing or cannot be trusted.
    pub(super) files: Result<Arc<InMemoryFolder>, String>,
    pub(super) is_gone: bool,
}

/// Verifies the packages of all entries in the lock file at `lock_path`; `all` is the directory
/// that contains the directories of the packages. Reads each directory once, and loading later uses
/// the same bytes.
pub(super) fn verify_installed_packages<T: LockEntry>(
    all: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<InstallVerificationResult<T>>> {
    // An installation changes first the directory and then the lock file. The exchange lock keeps
    // readers out between the two changes. The file of the exchange lock is missing only if nothing
    // was ever installed.
    let exchange = File::open(package_change_lock_path(all)).ok();
    if let Some(exchange) = &exchange {
        let _ = exchange.lock_shared();
    }
    let lock = LockFile::<T>::read_file(lock_path)?;
    let verified = lock.entries.iter().map(|(name, entry)| {
        let folder = all.join(name);
        let is_gone = folder.symlink_metadata().is_err();
        let (files, locked) = match InMemoryFolder::read(&folder) {
            Ok(held) => match lock.find_entry_with_digest(name, held.digest()) {
                Some(locked) => (Ok(Arc::new(held)), locked),
                None => (
                    Err("the files of the package are not those that were installed".to_owned()),
                    entry,
                ),
            },
            Err(_) if is_gone => (Err("the folder of the package is gone".to_owned()), entry),
            Err(error) => (
                Err(format!(
                    "the files of the package cannot be verified: {error}"
                )),
                entry,
            ),
        };
        let is_trusted = |key: &str| config.keys.values().any(|own| own == key);
        InstallVerificationResult {
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
pub fn verify_installed_plugins(
    plugins: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<InstalledPlugin>> {
    let all = verify_installed_packages::<LockedPlugin>(plugins, lock_path, config)?.into_iter();
    let installed = all.map(|one| {
        let InstallVerificationResult {
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
        InstalledPlugin {
            name,
            folder,
            trust,
            files,
            note,
        }
    });
    Ok(installed.collect())
}
