//! Verifies installed skills when a session starts, with the same rules as for plugins.

use std::path::Path;

use super::super::installed::verify_all;
use super::super::signature::InstallConfig;
use super::store::LockedSkill;
use rind_lib::grant::Trust;
use rind_lib::skill::Installed;

/// Verifies every skill in the lock file at `lock_path`. The skills' directories are in `skills`.
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

/// Returns every directory in `skills` as an installed skill that does not match its lock file
/// entry, for the case that the lock file cannot be read. If they were treated as the user's own
/// skills, installed skills would gain rights that they never had.
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
