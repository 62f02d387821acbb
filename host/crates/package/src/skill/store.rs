//! Manages the directory of skills and its lock file. Only one command at a time can change them.
//!
//! [`InstalledSkillStore::open_and_lock_store`] takes a lock for the duration of a command. Files
//! that the user wrote are replaced only with `--force`, and are then moved to a directory that
//! discovery ignores.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::super::contents::FileContentsByPath;
use super::super::lock_file::{LockEntry, LockFile};
use super::super::place;
use super::super::source;
use rind_lib::disk::acquire_file_lock;
use rind_lib::skill::{
    AllRequirementsMetLookup, SKILL_FILE_NAME, SKILLS_FOLDER_NAME, SkillSearchDirectory, Source,
    discover_skills, normalize_skill_name,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillLockFileEntry {
    /// Source from which the skill was installed, as an absolute path.
    pub source: source::PluginSource,
    /// Directory of the skill in the source; `None` if the source itself is the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Git commit from which the files were installed; `None` if the source is no git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub digest: String,
    /// Key that the signature was checked with; `None` if no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl LockEntry for SkillLockFileEntry {
    const FILE_NAME: &'static str = "skills.lock.toml";
    const TABLE: &'static str = "skills";
    const HEADER_COMMENT: &'static str = "# Written by `rind skill install` and `remove`.";

    fn digest(&self) -> &str {
        &self.digest
    }

    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl SkillLockFileEntry {
    /// Returns source, directory and commit as one text, to be shown to users.
    pub fn display_origin(&self) -> String {
        let within = self.within.iter().map(|within| format!("/{within}"));
        let commit = self
            .commit
            .iter()
            .filter_map(|commit| Some(format!(" at {}", commit.get(..12)?)));
        format!(
            "{}{}",
            self.source,
            within.chain(commit).collect::<String>()
        )
    }
}

/// State of a skill name in the directory of skills: whether the name is used, and by which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillNameState {
    /// Unused: no file has the name, and no skill was installed under it.
    Free,
    Installed,
    /// A skill with this name is installed, but its files were changed since.
    Edited,
    /// A skill with this name is installed, but its directory is missing.
    Gone,
    /// The name is used by a file or directory that no command installed. Contains its path, whose
    /// spelling may differ from the name.
    Own(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillInstallResult {
    /// The skill is new: the name was not in use.
    Installed,
    /// Another skill that was installed under this name is replaced by the new files.
    Replaced,
    /// Exactly these files are already installed, so nothing changes.
    Unchanged,
    /// A skill that the user wrote or edited is replaced; its old files are moved to another
    /// directory.
    Forced,
}

pub struct InstalledSkillStore {
    pub skills: PathBuf,
    lock_path: PathBuf,
    lock: LockFile<SkillLockFileEntry>,
    /// Names in use in the directory of skills, each with the path that uses it.
    taken: Vec<(String, PathBuf)>,
    /// Lock on the store of skills, held until the command ends.
    _exclusive: File,
}

impl InstalledSkillStore {
    /// Opens the store, after waiting until no other command uses it. Calls `waits` first if it has
    /// to wait.
    pub fn open_and_lock_store(config: &Path, waits: impl FnOnce()) -> anyhow::Result<Self> {
        let lock_path = config.join(SkillLockFileEntry::FILE_NAME);
        let exclusive = acquire_file_lock(&lock_path, waits)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let skills = config.join(SKILLS_FOLDER_NAME);
        place::remove_temporary_folders(&skills);
        let mut lock = LockFile::<SkillLockFileEntry>::read_file(&lock_path)?;
        lock.complete_interrupted_replacements(|name| {
            place::compute_folder_digest(&skills.join(name))
        });
        Ok(Self {
            lock,
            _exclusive: exclusive,
            taken: skill_names_in_use(&skills),
            skills,
            lock_path,
        })
    }

    /// Reads the skill names in use again: the user may have created a skill while the command
    /// waited for an answer.
    pub fn refresh_skill_names_in_use(&mut self) {
        self.taken = skill_names_in_use(&self.skills);
    }

    /// Returns the exact name that a skill was installed under; `name` may be spelled differently.
    pub fn exact_installed_skill_name(&self, name: &str) -> String {
        let own = find_name_in_any_spelling(self.lock.entries.keys(), name);
        own.map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Returns the key that a name is pinned to; `name` may be spelled differently.
    pub fn key_pinned_to_skill_name(&self, name: &str) -> Option<&str> {
        let own = find_name_in_any_spelling(self.lock.keys.keys(), name)?;
        self.lock.keys.get(own).map(String::as_str)
    }

    pub fn determine_skill_name_state(&self, name: &str) -> SkillNameState {
        let own = self.exact_installed_skill_name(name);
        let Some(locked) = self.lock.entries.get(&own) else {
            let place = self.skills.join(name);
            let mut there = self.paths_using_skill_name(name);
            let own = self
                .paths_using_skill_name(name)
                .find(|path| **path == place);
            let own = own.or_else(|| there.next()).cloned();
            return own.map_or(SkillNameState::Free, SkillNameState::Own);
        };
        let folder = self.skills.join(&own);
        match place::compute_folder_digest(&folder) {
            _ if folder.symlink_metadata().is_err() => SkillNameState::Gone,
            Some(digest) if digest == locked.digest => SkillNameState::Installed,
            _ => SkillNameState::Edited,
        }
    }

    /// Lists the paths that use `name` in any spelling. If there are several, a session loads only
    /// one of them.
    fn paths_using_skill_name(&self, name: &str) -> impl Iterator<Item = &PathBuf> {
        let name = normalize_skill_name(name);
        let named = self.taken.iter().filter(move |(taken, _)| *taken == name);
        named.map(|(_, path)| path)
    }

    /// Determines what installing a skill would change. Files that the user wrote are replaced only
    /// if `is_forced`.
    pub fn predict_skill_install_result(
        &self,
        name: &str,
        new: &SkillLockFileEntry,
        is_forced: bool,
        may_change_source: bool,
    ) -> anyhow::Result<SkillInstallResult> {
        let own = self.exact_installed_skill_name(name);
        ensure!(
            own == name,
            "{own} is already installed, and its name counts as the same; `rind skill remove {own}` first, or give this one another name with --name"
        );
        let place = self.determine_skill_name_state(name);
        let mut others = self.paths_using_skill_name(name);
        if let Some(other) = others.find(|path| **path != self.skills.join(name)) {
            bail!(
                "{} has the same name; rename or move it, or give this one another name with --name",
                other.display()
            );
        }
        if let Some(locked) = self.lock.entries.get(name) {
            let is_same = locked.source == new.source && locked.within == new.within;
            ensure!(
                is_same || may_change_source,
                "{name} was installed from {}, and {} may be another author's skill of the same name; pass --change-source if it is the same skill, or --name to give it another name",
                locked.display_origin(),
                new.display_origin()
            );
            if place == SkillNameState::Installed {
                return Ok(match locked.digest == new.digest {
                    true => SkillInstallResult::Unchanged,
                    false => SkillInstallResult::Replaced,
                });
            }
        }
        match place {
            SkillNameState::Free | SkillNameState::Gone | SkillNameState::Installed => {
                Ok(SkillInstallResult::Installed)
            }
            SkillNameState::Edited => {
                ensure!(
                    is_forced,
                    "{name} was changed since it was installed, in {}; copy your changes and pass --force, which moves it to .kept in the same folder, or give this one another name with --name",
                    self.skills.join(name).display()
                );
                Ok(SkillInstallResult::Forced)
            }
            SkillNameState::Own(path) => {
                ensure!(
                    is_forced,
                    "{} already exists and was not installed; give this one another name with --name, or pass --force, which moves yours to .kept in the same folder",
                    path.display()
                );
                Ok(SkillInstallResult::Forced)
            }
        }
    }

    /// Moves a skill into its final location and records it in the lock file. Returns the path to
    /// which files that the user wrote were moved, if there were any.
    pub fn install_skill(
        &mut self,
        name: &str,
        files: &FileContentsByPath,
        new: SkillLockFileEntry,
        change: SkillInstallResult,
    ) -> anyhow::Result<Option<PathBuf>> {
        let folder = self.skills.join(name);
        // The user may have edited the skill while the command waited for an answer.
        let now = self.predict_skill_install_result(
            name,
            &new,
            change == SkillInstallResult::Forced,
            true,
        )?;
        ensure!(
            now == change,
            "{} was changed meanwhile; run the command again",
            folder.display()
        );
        let staged = match change {
            SkillInstallResult::Unchanged => None,
            _ => Some(place::stage_files(files, name, &self.skills)?),
        };
        let pinned =
            find_name_in_any_spelling(self.lock.keys.keys(), name).map_or(name, String::as_str);
        let pinned = pinned.to_owned();
        let _exchange = place::lock_out_package_readers(&self.skills)?;
        let skills = &self.skills;
        let put = || {
            let kept = match change {
                SkillInstallResult::Forced => Some(place::move_to_backup_folder(&folder, skills)?),
                _ => None,
            };
            let put = staged.map_or(Ok(()), |staged| staged.move_staged_install_to(&folder));
            put.map_err(|error| match &kept {
                Some(kept) => error.context(format!(
                    "the previous content of {} is now in {}",
                    folder.display(),
                    kept.display()
                )),
                None => error,
            })?;
            Ok(kept)
        };
        self.lock
            .replace_entry(&self.lock_path, (name, &pinned), new, put)
    }

    /// Removes the skill or file that has the given name. Files that the user wrote or changed are
    /// moved to another directory, and their new path is returned.
    pub fn remove_skill(
        &mut self,
        name: &str,
        place: &SkillNameState,
    ) -> anyhow::Result<Option<PathBuf>> {
        let own = self.exact_installed_skill_name(name);
        let folder = match place {
            SkillNameState::Own(path) => path.clone(),
            _ => self.skills.join(&own),
        };
        let mut lock = self.lock.clone();
        lock.entries.remove(&own);
        let _exchange = place::lock_out_package_readers(&self.skills)?;
        let kept = match place {
            SkillNameState::Own(_) | SkillNameState::Edited => {
                Some(place::move_to_backup_folder(&folder, &self.skills)?)
            }
            SkillNameState::Installed => {
                place::remove_installed_path(&folder, &self.skills)?;
                None
            }
            SkillNameState::Free | SkillNameState::Gone => None,
        };
        lock.write_file(&self.lock_path)?;
        self.lock = lock;
        Ok(kept)
    }
}

/// Returns the name that equals `name` apart from the spelling, preferably one with the same
/// spelling.
fn find_name_in_any_spelling<'a>(
    names: impl Iterator<Item = &'a String> + Clone,
    name: &str,
) -> Option<&'a String> {
    let is_same = |own: &&String| normalize_skill_name(own) == normalize_skill_name(name);
    names
        .clone()
        .find(|own| *own == name)
        .or_else(|| names.clone().find(is_same))
}

/// Lists the names in use in a directory of skills, normalized for comparison: all top-level
/// entries, and all skills in deeper directories that discovery finds, including skills that
/// sessions do not load.
pub fn skill_names_in_use(skills: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(skills).into_iter().flatten().flatten();
    let tops = entries.flat_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_flat = name.to_lowercase().ends_with(".md");
        let stem = name.get(..name.len().saturating_sub(3));
        let stem = stem.filter(|_| is_flat).map(normalize_skill_name);
        let names = stem.into_iter().chain([normalize_skill_name(&name)]);
        names.map(move |name| (name, entry.path()))
    });
    let root = SkillSearchDirectory::new(Source::User, skills.to_owned());
    let found = discover_skills(&[root], &[], &AllRequirementsMetLookup);
    let deeper = found.skill_locations().map(|(name, path, _)| {
        let is_file = path
            .file_name()
            .is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE_NAME));
        let folder = path.parent().filter(|_| is_file).unwrap_or(path);
        (normalize_skill_name(name), folder.to_owned())
    });
    // `discover` returns the skills directly in `skills` a second time; duplicate paths do no harm.
    tops.chain(deeper).collect()
}
