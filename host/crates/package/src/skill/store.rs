//! Manages the directory of skills and its lock file. Only one command at a time can change them.
//!
//! [`SkillStore::open_store`] takes a lock for the duration of a command. Files that the user wrote
//! are replaced only with `--force`, and are then moved to a directory that discovery ignores.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::super::contents::Files;
use super::super::lock_file::{LockEntry, LockFile};
use super::super::place;
use super::super::source;
use rind_lib::disk::lock_beside;
use rind_lib::skill::{AllAvailable, FILE, FOLDER, Root, Source, discover, key};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedSkill {
    /// Source of the skill, an absolute path.
    pub source: source::PluginSource,
    /// Directory of the skill in the source; `None` if the source itself is the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Git commit of the installed files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub digest: String,
    /// Key that the signature was checked with; `None` if no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl LockEntry for LockedSkill {
    const FILE_NAME: &'static str = "skills.lock.toml";
    const TABLE: &'static str = "skills";
    const HEAD: &'static str = "# Written by `rind skill install` and `remove`.";

    fn digest(&self) -> &str {
        &self.digest
    }

    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl LockedSkill {
    /// Returns source, directory and commit as one text, to be shown to users.
    pub fn origin(&self) -> String {
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

/// State of the location of a skill name in the directory of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillPlace {
    /// Unused: there is no file, and no skill was installed.
    Free,
    Installed,
    /// Installed, but the files were changed since.
    Edited,
    /// Installed, but its directory is missing.
    Gone,
    /// Used by a file or directory that was not installed. Contains its path, which may be spelled
    /// differently.
    Own(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillChange {
    /// The skill is new: the name was not in use.
    Installed,
    /// A previously installed skill is replaced by other files.
    Replaced,
    /// The same files are installed already.
    Unchanged,
    /// A skill that the user wrote or edited is replaced; its files are kept in another directory.
    Forced,
}

pub struct SkillStore {
    pub skills: PathBuf,
    lock_path: PathBuf,
    lock: LockFile<LockedSkill>,
    /// Names in use in the directory of skills, each with the path that uses it.
    taken: Vec<(String, PathBuf)>,
    /// Lock on the store, held until the command ends.
    _exclusive: File,
}

impl SkillStore {
    /// Opens the store, after waiting until no other command uses it; calls `waits` before waiting.
    pub fn open_store(config: &Path, waits: impl FnOnce()) -> anyhow::Result<Self> {
        let lock_path = config.join(LockedSkill::FILE_NAME);
        let exclusive = lock_beside(&lock_path, waits)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let skills = config.join(FOLDER);
        place::clean_up(&skills);
        let mut lock = LockFile::<LockedSkill>::read_file(&lock_path)?;
        lock.settle_entries(|name| place::place_digest(&skills.join(name)));
        Ok(Self {
            lock,
            _exclusive: exclusive,
            taken: names_in_use(&skills),
            skills,
            lock_path,
        })
    }

    /// Updates the list of names in use: the user may have written a skill while the command waited
    /// for an answer.
    pub fn refresh_taken_names(&mut self) {
        self.taken = names_in_use(&self.skills);
    }

    /// Returns the exact name that a skill was installed under; `name` may be spelled differently.
    pub fn spelled_name(&self, name: &str) -> String {
        let own = spelled_as(self.lock.entries.keys(), name);
        own.map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Returns the key that a name is pinned to; `name` may be spelled differently.
    pub fn pinned_key(&self, name: &str) -> Option<&str> {
        let own = spelled_as(self.lock.keys.keys(), name)?;
        self.lock.keys.get(own).map(String::as_str)
    }

    pub fn skill_place(&self, name: &str) -> SkillPlace {
        let own = self.spelled_name(name);
        let Some(locked) = self.lock.entries.get(&own) else {
            let place = self.skills.join(name);
            let mut there = self.of_same_name(name);
            let own = self.of_same_name(name).find(|path| **path == place);
            let own = own.or_else(|| there.next()).cloned();
            return own.map_or(SkillPlace::Free, SkillPlace::Own);
        };
        let folder = self.skills.join(&own);
        match place::place_digest(&folder) {
            _ if folder.symlink_metadata().is_err() => SkillPlace::Gone,
            Some(digest) if digest == locked.digest => SkillPlace::Installed,
            _ => SkillPlace::Edited,
        }
    }

    /// Lists the paths that use `name` in any spelling. A session would load only one of them.
    fn of_same_name(&self, name: &str) -> impl Iterator<Item = &PathBuf> {
        let name = key(name);
        let named = self.taken.iter().filter(move |(taken, _)| *taken == name);
        named.map(|(_, path)| path)
    }

    /// Determines what installing a skill would change. Files that the user wrote are replaced only
    /// if `is_forced`.
    pub fn check_change(
        &self,
        name: &str,
        new: &LockedSkill,
        is_forced: bool,
        may_change_source: bool,
    ) -> anyhow::Result<SkillChange> {
        let own = self.spelled_name(name);
        ensure!(
            own == name,
            "{own} is already installed, and its name counts as the same; `rind skill remove {own}` first, or give this one another name with --name"
        );
        let place = self.skill_place(name);
        let mut others = self.of_same_name(name);
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
                locked.origin(),
                new.origin()
            );
            if place == SkillPlace::Installed {
                return Ok(match locked.digest == new.digest {
                    true => SkillChange::Unchanged,
                    false => SkillChange::Replaced,
                });
            }
        }
        match place {
            SkillPlace::Free | SkillPlace::Gone | SkillPlace::Installed => {
                Ok(SkillChange::Installed)
            }
            SkillPlace::Edited => {
                ensure!(
                    is_forced,
                    "{name} was changed since it was installed, in {}; copy your changes and pass --force, which moves it to .kept in the same folder, or give this one another name with --name",
                    self.skills.join(name).display()
                );
                Ok(SkillChange::Forced)
            }
            SkillPlace::Own(path) => {
                ensure!(
                    is_forced,
                    "{} already exists and was not installed; give this one another name with --name, or pass --force, which moves yours to .kept in the same folder",
                    path.display()
                );
                Ok(SkillChange::Forced)
            }
        }
    }

    /// Moves a skill into its final location and records it in the lock file. Returns the path to
    /// which files that the user wrote were moved, if there were any.
    pub fn put_skill(
        &mut self,
        name: &str,
        files: &Files,
        new: LockedSkill,
        change: SkillChange,
    ) -> anyhow::Result<Option<PathBuf>> {
        let folder = self.skills.join(name);
        // The user may have edited the skill while the command waited for an answer.
        let now = self.check_change(name, &new, change == SkillChange::Forced, true)?;
        ensure!(
            now == change,
            "{} was changed meanwhile; run the command again",
            folder.display()
        );
        let staged = match change {
            SkillChange::Unchanged => None,
            _ => Some(place::stage_files(files, name, &self.skills)?),
        };
        let pinned = spelled_as(self.lock.keys.keys(), name).map_or(name, String::as_str);
        let pinned = pinned.to_owned();
        let _exchange = place::lock_exchange(&self.skills)?;
        let skills = &self.skills;
        let put = || {
            let kept = match change {
                SkillChange::Forced => Some(place::keep_aside(&folder, skills)?),
                _ => None,
            };
            let put = staged.map_or(Ok(()), |staged| staged.put_in_place(&folder));
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

    /// Removes the skill or file at the location of a name. Files that the user wrote are moved to
    /// another directory, and their new path is returned.
    pub fn remove_skill(
        &mut self,
        name: &str,
        place: &SkillPlace,
    ) -> anyhow::Result<Option<PathBuf>> {
        let own = self.spelled_name(name);
        let folder = match place {
            SkillPlace::Own(path) => path.clone(),
            _ => self.skills.join(&own),
        };
        let mut lock = self.lock.clone();
        lock.entries.remove(&own);
        let _exchange = place::lock_exchange(&self.skills)?;
        let kept = match place {
            SkillPlace::Own(_) | SkillPlace::Edited => {
                Some(place::keep_aside(&folder, &self.skills)?)
            }
            SkillPlace::Installed => {
                place::remove_place(&folder, &self.skills)?;
                None
            }
            SkillPlace::Free | SkillPlace::Gone => None,
        };
        lock.write_file(&self.lock_path)?;
        self.lock = lock;
        Ok(kept)
    }
}

/// Finds a name in any spelling, preferably an exact match.
fn spelled_as<'a>(
    names: impl Iterator<Item = &'a String> + Clone,
    name: &str,
) -> Option<&'a String> {
    let is_same = |own: &&String| key(own) == key(name);
    names
        .clone()
        .find(|own| *own == name)
        .or_else(|| names.clone().find(is_same))
}

/// Lists the names in use in a directory of skills, normalized for comparison: all top-level
/// entries, and all skills in deeper directories that discovery finds, including unused ones.
pub fn names_in_use(skills: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(skills).into_iter().flatten().flatten();
    let tops = entries.flat_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_flat = name.to_lowercase().ends_with(".md");
        let stem = name.get(..name.len().saturating_sub(3));
        let stem = stem.filter(|_| is_flat).map(key);
        let names = stem.into_iter().chain([key(&name)]);
        names.map(move |name| (name, entry.path()))
    });
    let root = Root::new(Source::User, skills.to_owned());
    let found = discover(&[root], &[], &AllAvailable);
    let deeper = found.places().map(|(name, path, _)| {
        let is_file = path
            .file_name()
            .is_some_and(|name| name.eq_ignore_ascii_case(FILE));
        let folder = path.parent().filter(|_| is_file).unwrap_or(path);
        (key(name), folder.to_owned())
    });
    // Discovery finds the top-level skills again; duplicates of the same path are harmless.
    tops.chain(deeper).collect()
}
