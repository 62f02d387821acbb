//! The folder of skills and its lock file: what was installed, changed by one command at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::super::contents::Files;
use super::super::lock_file::{Entry, LockFile};
use super::super::place;
use super::super::source;
use crate::disk::lock_beside;
use crate::skill::{AllAvailable, FILE, FOLDER, Root, Source, discover, key};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockedSkill {
    /// Source of it: an absolute path.
    pub(crate) source: source::Source,
    /// Folder in the source; none for the source itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<String>,
    /// Commit that it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    pub(crate) digest: String,
    /// Key that their signature was checked with; `None` when no key was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

impl Entry for LockedSkill {
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
    Installed,
    /// Holds other files than were installed.
    Edited,
    /// Gone, although it was installed.
    Gone,
    /// Holds something that was not installed; the path of that, which may be a file or be spelt otherwise.
    Own(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// There was none of this name.
    Installed,
    /// Another one was installed before.
    Replaced,
    /// No change: these files are there already.
    Unchanged,
    /// Takes the place of something that somebody wrote, which is kept.
    Forced,
}

pub(crate) struct SkillStore {
    pub(crate) skills: PathBuf,
    lock_path: PathBuf,
    lock: LockFile<LockedSkill>,
    /// Names in the folder that are taken, each with what has it.
    taken: Vec<(String, PathBuf)>,
    /// Held until the command ends.
    _exclusive: File,
}

impl SkillStore {
    /// Reads what is installed, once no other command changes it; calls `waits` while one does.
    pub(crate) fn open(config: &Path, waits: impl FnOnce()) -> anyhow::Result<Self> {
        let lock_path = config.join(LockedSkill::FILE_NAME);
        let exclusive = lock_beside(&lock_path, waits)
            .with_context(|| format!("cannot lock {}", lock_path.display()))?;
        let skills = config.join(FOLDER);
        place::clean_up(&skills);
        let mut lock = LockFile::<LockedSkill>::read(&lock_path)?;
        lock.settle(|name| place::digest(&skills.join(name)));
        Ok(Self {
            lock,
            _exclusive: exclusive,
            taken: taken(&skills),
            skills,
            lock_path,
        })
    }

    /// Reads again which names are taken: somebody may have written a skill while a question stood there.
    pub(crate) fn look_again(&mut self) {
        self.taken = taken(&self.skills);
    }

    /// Returns the name under which a skill was installed, in whatever spelling it is asked for.
    pub(crate) fn spelled(&self, name: &str) -> String {
        let own = spelled(self.lock.entries.keys(), name);
        own.map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// Returns the key that a name is pinned to, in whatever spelling.
    pub(crate) fn pinned(&self, name: &str) -> Option<&str> {
        let own = spelled(self.lock.keys.keys(), name)?;
        self.lock.keys.get(own).map(String::as_str)
    }

    pub(crate) fn place(&self, name: &str) -> Place {
        let own = self.spelled(name);
        let Some(locked) = self.lock.entries.get(&own) else {
            let place = self.skills.join(name);
            let mut there = self.of_same_name(name);
            let own = self.of_same_name(name).find(|path| **path == place);
            let own = own.or_else(|| there.next()).cloned();
            return own.map_or(Place::Free, Place::Own);
        };
        let folder = self.skills.join(&own);
        match place::digest(&folder) {
            _ if folder.symlink_metadata().is_err() => Place::Gone,
            Some(digest) if digest == locked.digest => Place::Installed,
            _ => Place::Edited,
        }
    }

    /// Lists what has the name, in whatever spelling: of two skills with one name one is never used.
    fn of_same_name(&self, name: &str) -> impl Iterator<Item = &PathBuf> {
        let name = key(name);
        let named = self.taken.iter().filter(move |(taken, _)| *taken == name);
        named.map(|(_, path)| path)
    }

    /// Decides what installing a skill would change. What somebody wrote is not replaced unless that is forced.
    pub(crate) fn change(
        &self,
        name: &str,
        new: &LockedSkill,
        is_forced: bool,
        may_change_source: bool,
    ) -> anyhow::Result<Change> {
        let own = self.spelled(name);
        ensure!(
            own == name,
            "{own} was installed, which is the same name; `rind skill remove {own}` first, or give this one another name with --name"
        );
        let place = self.place(name);
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
        let staged = match change {
            Change::Unchanged => None,
            _ => Some(place::stage(files, name, &self.skills)?),
        };
        let pinned = spelled(self.lock.keys.keys(), name).map_or(name, String::as_str);
        let pinned = pinned.to_owned();
        let _exchange = place::exchanging(&self.skills)?;
        let skills = &self.skills;
        let put = || {
            let kept = match change {
                Change::Forced => Some(place::keep(&folder, skills)?),
                _ => None,
            };
            let put = staged.map_or(Ok(()), |staged| staged.put(&folder));
            put.map_err(|error| match &kept {
                Some(kept) => error.context(format!(
                    "what was in {} is in {} now",
                    folder.display(),
                    kept.display()
                )),
                None => error,
            })?;
            Ok(kept)
        };
        self.lock
            .replace(&self.lock_path, (name, &pinned), new, put)
    }

    /// Removes what is in a name's place. What somebody wrote is kept, and the path of it returned.
    pub(crate) fn remove(&mut self, name: &str, place: &Place) -> anyhow::Result<Option<PathBuf>> {
        let own = self.spelled(name);
        let folder = match place {
            Place::Own(path) => path.clone(),
            _ => self.skills.join(&own),
        };
        let mut lock = self.lock.clone();
        lock.entries.remove(&own);
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

/// Finds a name in whatever spelling, the same one before others.
fn spelled<'a>(names: impl Iterator<Item = &'a String> + Clone, name: &str) -> Option<&'a String> {
    let is_same = |own: &&String| key(own) == key(name);
    names
        .clone()
        .find(|own| *own == name)
        .or_else(|| names.clone().find(is_same))
}

/// Lists what is in a folder of skills by name, each name in the form in which names are compared: everything at its top, and
/// every skill that a session would find deeper, used or not.
pub(crate) fn taken(skills: &Path) -> Vec<(String, PathBuf)> {
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
    // Those at the top are found again; one path twice is one.
    tops.chain(deeper).collect()
}
