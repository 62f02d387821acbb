//! The folder of skills and its lock file: what was installed, changed by one command at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::super::contents::Files;
use super::super::lock_file::{Entry, LockFile};
use super::super::place;
use super::super::source::Source;
use crate::disk::lock_beside;
use crate::grant::held::HeldFolder;
use crate::skill::{FOLDER, key};

/// A skill that was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedSkill {
    /// Source of it: an absolute path.
    pub(crate) source: Source,
    /// Folder in the source; none for the source itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<String>,
    /// Commit that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// Digest of all its files.
    pub(crate) digest: String,
    /// Key that their signature was checked with; `None` when no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

impl Entry for LockedSkill {
    const FILE_NAME: &'static str = "skills.lock.toml";
    const TABLE: &'static str = "skills";
    const HEAD: &'static str = "# Written by `rind skill install` and `remove`.";
}

impl LockedSkill {
    /// Source, folder in it and commit, for people.
    pub(crate) fn origin(&self) -> String {
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

/// State of the place that a skill of a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Free: nothing is there, and nothing was installed.
    Free,
    /// Holds what was installed.
    Installed,
    /// Holds other files than were installed.
    Edited,
    /// Gone, although it was installed.
    Gone,
    /// Holds something that was not installed; the path of that, which may be a file or be spelt otherwise.
    Own(PathBuf),
}

/// Change that an installation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// There was none of this name.
    Installed,
    /// Another one was installed before.
    Replaced,
    /// The same files are there already.
    Unchanged,
    /// Takes the place of something that somebody wrote, which is kept.
    Forced,
}

/// Installed skills, locked.
pub(crate) struct SkillStore {
    /// Folder of skills.
    pub(crate) skills: PathBuf,
    lock_path: PathBuf,
    pub(crate) lock: LockFile<LockedSkill>,
    /// Held until the command ends.
    _exclusive: File,
}

impl SkillStore {
    /// Reads what is installed, and waits for another command that changes it.
    pub(crate) fn open(config: &Path) -> anyhow::Result<Self> {
        let lock_path = config.join(LockedSkill::FILE_NAME);
        let exclusive = lock_beside(&lock_path)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let skills = config.join(FOLDER);
        place::clean_up(&skills);
        Ok(Self {
            lock: LockFile::read(&lock_path)?,
            _exclusive: exclusive,
            skills,
            lock_path,
        })
    }

    /// Returns the state of a name's place.
    pub(crate) fn place(&self, name: &str) -> Place {
        let folder = self.skills.join(name);
        let Some(locked) = self.lock.entries.get(name) else {
            return self.of_same_name(name).map_or(Place::Free, Place::Own);
        };
        match HeldFolder::read(&folder) {
            _ if folder.symlink_metadata().is_err() => Place::Gone,
            Ok(held) if held.digest() == locked.digest => Place::Installed,
            _ => Place::Edited,
        }
    }

    /// Finds what has the name, in whatever spelling: as one of two skills with one name, the other would be shadowed.
    fn of_same_name(&self, name: &str) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.skills)
            .into_iter()
            .flatten()
            .flatten();
        let mut entries = entries.filter(|entry| {
            let found = entry.file_name().to_string_lossy().into_owned();
            let is_flat = found.to_lowercase().ends_with(".md");
            let stem = if is_flat {
                found.get(..found.len() - 3)
            } else {
                None
            };
            key(&found) == key(name) || stem.is_some_and(|stem| key(stem) == key(name))
        });
        entries.next().map(|entry| entry.path())
    }

    /// Decides what installing a skill would change. What somebody wrote is not replaced unless that is forced.
    pub(crate) fn change(
        &self,
        name: &str,
        new: &LockedSkill,
        is_forced: bool,
        may_change_source: bool,
    ) -> anyhow::Result<Change> {
        let place = self.place(name);
        if let Some(locked) = self.lock.entries.get(name) {
            let is_same = locked.source == new.source && locked.within == new.within;
            ensure!(
                is_same || may_change_source,
                "{name} was installed from {}, and {} may be somebody else's skill of the same name; add --change-source if it is \
                 not, or --name to give it another name",
                locked.origin(),
                new.origin()
            );
            if place == Place::Installed {
                return Ok(match locked.digest == new.digest {
                    true => Change::Unchanged,
                    false => Change::Replaced,
                });
            }
        }
        match place {
            Place::Free | Place::Gone | Place::Installed => Ok(Change::Installed),
            Place::Edited => {
                ensure!(
                    is_forced,
                    "{name} was changed since it was installed, in {}; copy your changes and add --force, which moves it to \
                     .kept beside it, or give this one another name with --name",
                    self.skills.join(name).display()
                );
                Ok(Change::Forced)
            }
            Place::Own(path) => {
                let is_it = path.file_name().is_some_and(|found| found == name);
                ensure!(
                    is_it,
                    "{} has the same name; rename or move it, or give this one another name with --name",
                    path.display()
                );
                ensure!(
                    is_forced,
                    "{} is there already and was not installed; give this one another name with --name, or add --force, which \
                     moves yours to .kept beside it",
                    path.display()
                );
                Ok(Change::Forced)
            }
        }
    }

    /// Puts a skill in its place and notes it. Returns where what was there is kept, if somebody wrote that.
    pub(crate) fn put(
        &mut self,
        name: &str,
        files: &Files,
        new: LockedSkill,
        change: Change,
    ) -> anyhow::Result<Option<PathBuf>> {
        let folder = self.skills.join(name);
        // Somebody may have edited it while the question stood there.
        let now = self.change(name, &new, change == Change::Forced, true)?;
        ensure!(
            now == change,
            "{} was changed meanwhile; run the command again",
            folder.display()
        );
        let mut lock = self.lock.clone();
        let pinned = new.key.clone().map(|key| (name.to_owned(), key));
        lock.keys.extend(pinned);
        lock.entries.insert(name.to_owned(), new);
        let staged = match change {
            Change::Unchanged => None,
            _ => Some(place::stage(files, name, &self.skills)?),
        };
        let _exchange = place::exchanging(&self.skills)?;
        let kept = match change {
            Change::Forced => Some(place::keep(&folder, &self.skills)?),
            _ => None,
        };
        let told = |error: anyhow::Error| match &kept {
            Some(kept) => error.context(format!(
                "what was in {} is in {} now",
                folder.display(),
                kept.display()
            )),
            None => error,
        };
        let placed = staged
            .map(|staged| staged.put(&folder))
            .transpose()
            .map_err(told)?;
        if let Err(error) = lock.write(&self.lock_path) {
            // Without its line in the lock file it would count as the user's own.
            let undone = placed.map_or(Ok(()), place::Placed::undo);
            return Err(told(match undone {
                Ok(()) => error,
                Err(why) => error.context(format!("{} is replaced already, and what was there before could not be put back ({why})", folder.display())),
            }));
        }
        self.lock = lock;
        Ok(kept)
    }

    /// Removes what is in a name's place. What somebody wrote is kept, and the path of it returned.
    pub(crate) fn remove(&mut self, name: &str, place: &Place) -> anyhow::Result<Option<PathBuf>> {
        let folder = match place {
            Place::Own(path) => path.clone(),
            _ => self.skills.join(name),
        };
        let mut lock = self.lock.clone();
        lock.entries.remove(name);
        let _exchange = place::exchanging(&self.skills)?;
        let kept = match place {
            Place::Own(_) | Place::Edited => Some(place::keep(&folder, &self.skills)?),
            Place::Installed => {
                place::remove(&folder, &self.skills)?;
                None
            }
            Place::Free | Place::Gone => None,
        };
        lock.write(&self.lock_path)?;
        self.lock = lock;
        Ok(kept)
    }
}
