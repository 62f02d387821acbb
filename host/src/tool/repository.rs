//! Files that a command left in a folder and git would run at the user's next command there, outside of any confinement: hooks, and
//! settings of a repository that name programs. That may be the workspace's own repository, one below it, or a folder that is
//! only laid out like one.
//!
//! Files that existed before the command are the user's; others are found after it and taken out of git's way, never removed.
//! It must not know how commands are confined. Start from [`Before`].

mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::beneath::open_regular;
use crate::git::{COMMON, is_repository, is_repository_with};
use settings::is_harmless;

/// Bounds of a search, so that a workspace of any size costs little.
#[derive(Clone, Copy)]
struct Bounds {
    folders: usize,
    /// Files and folders in all of them.
    entries: usize,
}

const BOUNDS: Bounds = Bounds {
    folders: 100_000,
    entries: 2_000_000,
};

/// Largest settings file that is read. Real ones have some hundred bytes.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Maximum total size of the settings that are kept to be put back.
const MAX_KEPT_BYTES: u64 = 16 << 20;

/// Ending of what was taken out of git's way.
const REFUSED: &str = "refused";

/// Files of a repository's folder with settings.
const SETTINGS: [&str; 2] = ["config", "config.worktree"];

/// Files that git would run, in their state before a command.
pub(super) struct Before {
    roots: Roots,
    known: BTreeMap<PathBuf, Known>,
}

/// The folders that the command may change. Files are read and renamed through their handles, so that no link, not even one that
/// is swapped in meanwhile, leads to a file that the command could not reach.
struct Roots {
    folders: Vec<PathBuf>,
    open: Vec<(PathBuf, Dir)>,
}

/// Fingerprint of a file that decides what git runs.
struct Known {
    stamp: Stamp,
    /// Bytes to be put back.
    bytes: Option<Vec<u8>>,
}

/// Stamp of a file, equal when it was not changed: device, number, and time of the last change of any kind; of a link, also
/// those of its target.
type Stamp = [Option<(u64, u64, i64, i64)>; 2];

impl Roots {
    fn open(folders: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let folders: Vec<PathBuf> = folders.iter().map(real).collect();
        let open = |path: &PathBuf| {
            let dir = Dir::open_ambient_dir(path, ambient_authority()).ok()?;
            Some((path.clone(), dir))
        };
        let open = folders.iter().filter_map(open).collect();
        Self { folders, open }
    }

    /// Returns the handle for a file, and the folder that it really lies in relative to that; `None` outside of all of them.
    fn place(&self, path: &Path) -> Option<(&Dir, PathBuf)> {
        let folder = path.parent()?.canonicalize().ok()?;
        self.open.iter().find_map(|(root, dir)| {
            let below = folder.strip_prefix(root).ok()?;
            Some((dir, Path::new(".").join(below)))
        })
    }

    /// Reads a regular file that is not larger than settings are.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let (dir, folder) = self.place(path)?;
        let (file, _) = open_regular(dir, &folder.join(path.file_name()?)).ok()??;
        let mut bytes = Vec::new();
        file.take(MAX_SETTINGS_BYTES + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        (bytes.len() as u64 <= MAX_SETTINGS_BYTES).then_some(bytes)
    }

    /// Formats a path relative to the workspace, or completely when it is outside.
    fn shown(&self, path: &Path) -> String {
        let within = self
            .folders
            .first()
            .and_then(|folder| path.strip_prefix(folder).ok());
        let shown = within.filter(|path| !path.as_os_str().is_empty());
        shown.unwrap_or(path).display().to_string()
    }
}

impl Before {
    /// Records the state of all that the command may change.
    pub(super) fn look(folders: &[PathBuf]) -> Self {
        let roots = Roots::open(folders);
        let mut known = BTreeMap::new();
        let mut room = MAX_KEPT_BYTES;
        walk(&roots.folders, BOUNDS, |repository| {
            for path in deciding(repository) {
                let stamp = stamp(&path);
                known.entry(path).or_insert_with_key(|path| Known {
                    stamp,
                    bytes: kept(&roots, path, &mut room),
                });
            }
        });
        Self { roots, known }
    }

    /// Takes what the command left and git would run out of git's way; comes back with a line for each.
    pub(super) fn refuse_what_git_would_run(&self) -> Vec<String> {
        let mut found = Vec::new();
        let unseen = walk(&self.roots.folders, BOUNDS, |repository| {
            for path in deciding(repository) {
                let is_touched =
                    self.known.get(&path).map(|known| known.stamp) != Some(stamp(&path));
                if !is_touched || self.is_elsewhere(&path) {
                    continue;
                }
                let why = danger(&self.roots, repository, &path);
                found.extend(why.map(|why| self.refuse(&path, why)));
            }
        });
        found.extend(unseen.iter().map(|(path, why)| {
            format!(
                "whether git would run something in `{}` is not known: {why}",
                self.roots.shown(path)
            )
        }));
        found
    }

    /// Whether a file lies behind a link that leads to where no command could write.
    fn is_elsewhere(&self, path: &Path) -> bool {
        path.parent().is_some_and(Path::is_symlink) && self.roots.place(path).is_none()
    }

    fn refuse(&self, path: &Path, why: &str) -> String {
        let shown = self.roots.shown(path);
        match self.put_away(path) {
            Ok(away) => format!(
                "`{shown}` {why} at the next git command outside; it was renamed to end in `{away}`"
            ),
            Err(error) => format!(
                "`{shown}` {why} at the next git command outside, and cannot be renamed ({error}): remove it"
            ),
        }
    }

    /// Comes back with the ending of its name now.
    fn put_away(&self, path: &Path) -> io::Result<String> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let (root, folder) = self.roots.place(path).ok_or_else(gone)?;
        let name = path.file_name().ok_or_else(gone)?;
        let found = root.metadata(&folder)?.permissions();
        let mode = cap_std::fs::PermissionsExt::mode(&found);
        if mode & 0o300 != 0o300 {
            // What keeps us from it was left there as well.
            let open = fs::Permissions::from_mode(mode | 0o700);
            root.set_permissions(&folder, cap_std::fs::Permissions::from_std(open))?;
        }
        let folder = root.open_dir(&folder)?;
        let mut ending = format!(".{REFUSED}");
        let renamed = |ending: &str| {
            let mut away = name.to_owned();
            away.push(ending);
            folder.rename(name, &folder, away)
        };
        if renamed(&ending).is_err() {
            // Something that cannot be replaced has that name.
            ending = format!(".{}.{REFUSED}", crate::clock::new_id());
            renamed(&ending)?;
        }
        if let Some(bytes) = self.known.get(path).and_then(|known| known.bytes.as_ref()) {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            folder.open_with(name, &options)?.write_all(bytes)?;
        }
        Ok(ending)
    }
}

/// Hands on every repository, and every folder that one may take its settings from, in these folders. Comes back with what could
/// not be looked at.
fn walk(
    roots: &[PathBuf],
    bounds: Bounds,
    mut repository: impl FnMut(&Path),
) -> Vec<(PathBuf, String)> {
    let mut unseen = Vec::new();
    let mut folders: Vec<PathBuf> = roots.to_vec();
    let (mut n_folders, mut n_entries) = (0, 0);
    while let Some(folder) = folders.pop() {
        n_folders += 1;
        if n_folders > bounds.folders {
            let why = format!("there are more than {} folders", bounds.folders);
            unseen.push((folder, why));
            break;
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) {
                    unseen.push((folder, error.to_string()));
                }
                continue;
            }
        };
        let mut names = BTreeSet::new();
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > bounds.entries {
                let why = format!("there are more than {} files", bounds.entries);
                unseen.push((folder, why));
                return unseen;
            }
            let name = entry.file_name();
            // A link leads to a folder that is found by itself, or to one that the command could not write.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(folder.join(&name));
            }
            names.insert(name);
        }
        let has = |name: &str| names.contains(OsStr::new(name));
        // A repository elsewhere can name this one as where its settings are; then there is no `HEAD` in it.
        if is_repository_with(has) || (has("objects") && has("refs")) {
            repository(&folder);
        }
    }
    unseen
}

/// Returns the existing files of a repository that decide what git runs. The folder of hooks comes before its entries: when it is
/// a link that is renamed, its target holds no hooks.
fn deciding(repository: &Path) -> Vec<PathBuf> {
    let hooks = repository.join("hooks");
    let mut found: Vec<PathBuf> = SETTINGS.map(|name| repository.join(name)).to_vec();
    found.push(repository.join(COMMON));
    let within = fs::read_dir(&hooks).into_iter().flatten().flatten();
    // The walk comes to these as well, and says when there are too many.
    let within = within.take(BOUNDS.entries);
    found.push(hooks);
    found.extend(within.map(|entry| entry.path()));
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// Returns git's use of such a file, if that is more than to read it.
fn danger(roots: &Roots, repository: &Path, path: &Path) -> Option<&'static str> {
    let own = path.symlink_metadata().ok()?;
    let name = path.file_name()?.to_string_lossy();
    if path.parent() != Some(repository) {
        // What a link leads to may change later.
        let is_run = own.is_symlink() || (own.is_file() && own.mode() & 0o111 != 0);
        return (is_run && !name.contains('.')).then_some("is run");
    }
    match name.as_ref() {
        "hooks" => own.is_symlink().then_some("has git run what is elsewhere"),
        COMMON => (!is_of_worktree(roots, repository, path))
            .then_some("has git take settings from elsewhere"),
        _ => {
            // One with a second name can be changed by that.
            let is_alone = own.is_file() && own.nlink() == 1;
            let text = || String::from_utf8(roots.read(path)?).ok();
            let is_harmless = is_alone && text().is_some_and(|text| is_harmless(&text));
            (!is_harmless).then_some("may run a program")
        }
    }
}

/// Whether this is the folder of a linked worktree, within the repository that its file leads back to.
fn is_of_worktree(roots: &Roots, folder: &Path, common: &Path) -> bool {
    let above = folder
        .parent()
        .filter(|above| above.ends_with("worktrees"))
        .and_then(Path::parent);
    let is_file = common.symlink_metadata().is_ok_and(|found| found.is_file());
    is_file
        && above.is_some_and(is_repository)
        && roots
            .read(common)
            .is_some_and(|text| text.trim_ascii_end() == b"../..")
}

fn stamp(path: &Path) -> Stamp {
    let of = |found: fs::Metadata| {
        // What is in a folder has stamps of its own.
        let (changed, part) = if found.is_dir() {
            (0, 0)
        } else {
            (found.ctime(), found.ctime_nsec())
        };
        (found.dev(), found.ino(), changed, part)
    };
    [
        path.symlink_metadata().ok().map(of),
        path.metadata().ok().map(of),
    ]
}

fn kept(roots: &Roots, path: &Path, room: &mut u64) -> Option<Vec<u8>> {
    let is_settings = SETTINGS.iter().any(|name| path.ends_with(name));
    let is_own = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let bytes = (is_settings && is_own)
        .then(|| roots.read(path))
        .flatten()?;
    *room = room.checked_sub(bytes.len() as u64)?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_at_its_bounds_and_says_where() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..20 {
            fs::write(folder.path().join(format!("{n}")), "").unwrap();
        }
        fs::create_dir(folder.path().join("below")).unwrap();
        let roots = [folder.path().to_owned()];
        let search = |folders, entries| walk(&roots, Bounds { folders, entries }, |_| {});
        assert!(search(2, 21).is_empty());
        let unseen = search(2, 20);
        let [(path, why)] = &unseen[..] else {
            panic!("{unseen:?}");
        };
        assert_eq!((path, &**why), (&roots[0], "there are more than 20 files"));
        assert_eq!(search(1, 21)[0].0, roots[0].join("below"));
    }
}
