//! Verifies installed skills when a session starts, in the same way as plugins.

use std::path::Path;

use super::super::installed::verify_all;
use super::super::signature::InstallConfig;
use super::store::LockedSkill;
use rind_lib::grant::Trust;
use rind_lib::skill::Installed;

/// Verifies every skill in the lock file, in the directory `skills`.
pub fn verify_skills(
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

/// Returns every directory in `skills` as an installed skill that was changed since, for use if the
/// lock file cannot be read. Treating them as the user's own skills would give installed ones
/// rights that they never had.
pub fn unverified_skills(skills: &Path) -> Vec<Installed> {
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
