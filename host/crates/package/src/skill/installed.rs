//! Verifies installed skills when a session starts, with the same rules as for plugins.

use std::path::Path;

use super::super::installed::verify_installed_packages;
use super::super::signature::InstallConfig;
use super::store::SkillLockFileEntry;
use rind_lib::grant::Trust;
use rind_lib::skill::InstalledSkillRecord;

/// Verifies every skill in the lock file at `lock_path`. The skills' directories are in `skills`.
pub fn verify_installed_skills(
    skills: &Path,
    lock_path: &Path,
    config: &InstallConfig,
) -> anyhow::Result<Vec<InstalledSkillRecord>> {
    let all = verify_installed_packages::<SkillLockFileEntry>(skills, lock_path, config)?;
    let installed = all.into_iter().map(|one| InstalledSkillRecord {
        from: one.locked.display_origin(),
        folder: one.folder,
        trust: one.trust,
        files: one.files.ok(),
        is_gone: one.is_gone,
    });
    Ok(installed.collect())
}

/// Returns every directory in `skills` as an installed skill that does not match its lock file
/// entry. Used if the lock file cannot be read: if the directories counted as skills that the user
/// wrote, installed skills would gain rights.
pub fn list_skills_as_unverified(skills: &Path) -> Vec<InstalledSkillRecord> {
    let entries = std::fs::read_dir(skills).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let installed = folders.map(|entry| InstalledSkillRecord {
        folder: entry.path(),
        from: "an unknown source".to_owned(),
        trust: Trust::User,
        files: None,
        is_gone: false,
    });
    installed.collect()
}
