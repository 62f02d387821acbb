//! Installed skills at the start of a session: each is verified as plugins are.

use std::path::Path;

use super::super::installed::verify_all;
use super::super::signature::InstallConfig;
use super::store::LockedSkill;
use crate::grant::Trust;
use crate::skill::Installed;

/// Verifies every skill that the lock file names, in the folder `skills`.
pub(crate) fn verify(
    skills: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<Installed>> {
    let all = verify_all::<LockedSkill>(skills, lock_path, config)?;
    let installed = all.into_iter().map(|one| Installed {
        from: one.locked.origin(),
        folder: one.folder,
        trust: one.trust,
        files: one.files.ok(),
        is_gone: one.is_gone,
    });
    Ok(installed.collect())
}

/// Returns every folder of `skills` as one that was installed and changed since: all that is certain where the lock file cannot be
/// read. As the user's own they would have rights that installed ones never had.
pub(crate) fn unverified(skills: &Path) -> Vec<Installed> {
    let entries = std::fs::read_dir(skills).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let installed = folders.map(|entry| Installed {
        folder: entry.path(),
        from: "an unknown source".to_owned(),
        trust: Trust::User,
        files: None,
        is_gone: false,
    });
    installed.collect()
}
