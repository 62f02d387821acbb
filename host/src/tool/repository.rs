//! Finds files left by a confined command that git would run at the user's next, unconfined git
//! command: hooks, and repository settings that name programs. The repository may be the
//! workspace's own, one below it, or a directory that only looks like one.
//!
//! Files that existed before the command belong to the user. Other files are renamed so that git
//! ignores them; they are never deleted. This module must not know how commands are confined. Start
//! from [`GitControlFilesBeforeCommand`].

mod record;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::beneath::open_regular_file;
use crate::git::{COMMON_DIR_FILE_NAME, has_git_repository_entries, is_git_repository};
use settings::is_harmless_git_config;

pub(super) use record::RunningCommandRecordFile;
pub use record::disable_git_files_of_interrupted_commands;

/// Maximum numbers of directories and entries that a search visits, which limit its time in any
/// workspace.
#[derive(Clone, Copy)]
struct RepositorySearchLimits {
    folders: usize,
    /// Maximum number of files and directories in all searched directories together.
    entries: usize,
}

const REPOSITORY_SEARCH_LIMITS: RepositorySearchLimits = RepositorySearchLimits {
    folders: 100_000,
    entries: 2_000_000,
};

/// Maximum size of a settings file that is read, in bytes. Real ones have a few hundred bytes.
const MAX_GIT_SETTINGS_FILE_BYTES: u64 = 1 << 20;

/// Maximum total size, in bytes, of the contents of git's settings files that are kept before a
/// command, to restore them after it.
const MAX_SAVED_GIT_SETTINGS_BYTES: u64 = 16 << 20;

/// Suffix in the names of files that the host renamed.
const RENAMED_FILE_NAME_SUFFIX: &str = "refused";

/// Names of the settings files in a git directory.
const GIT_SETTINGS_FILE_NAMES: [&str; 2] = ["config", "config.worktree"];

/// State, before a command, of the files that decide which programs git runs.
pub(super) struct GitControlFilesBeforeCommand {
    roots: CommandWritableDirectories,
    known: BTreeMap<PathBuf, GitControlFileFingerprint>,
}

/// Directories that the command may change. Files are read and renamed through directory handles,
/// so that no symlink, not even one that is swapped in meanwhile, leads to a file that the command
/// itself could not reach.
struct CommandWritableDirectories {
    folders: Vec<PathBuf>,
    open: Vec<(PathBuf, Dir)>,
}

/// Fingerprint of a file that decides which programs git runs.
struct GitControlFileFingerprint {
    stamp: SymlinkAwareStatStamp,
    /// Content to restore, for a settings file that fits in `MAX_SAVED_GIT_SETTINGS_BYTES`; `None`
    /// for other files.
    bytes: Option<Vec<u8>>,
}

/// Device, inode, and ctime (seconds and nanoseconds) of a path itself and, as the second element,
/// of the target if the path is a symlink. If they are equal, the file is unchanged.
type SymlinkAwareStatStamp = [Option<(u64, u64, i64, i64)>; 2];

impl CommandWritableDirectories {
    fn open_directories(folders: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let folders: Vec<PathBuf> = folders.iter().map(real).collect();
        let open = |path: &PathBuf| {
            let dir = Dir::open_ambient_dir(path, ambient_authority()).ok()?;
            Some((path.clone(), dir))
        };
        let open = folders.iter().filter_map(open).collect();
        Self { folders, open }
    }

    /// Returns the handle of the root that contains a file, and the canonical path of the file's
    /// directory relative to that root; `None` if no root contains the file.
    fn find_containing_root(&self, path: &Path) -> Option<(&Dir, PathBuf)> {
        let folder = path.parent()?.canonicalize().ok()?;
        self.open.iter().find_map(|(root, dir)| {
            let below = folder.strip_prefix(root).ok()?;
            Some((dir, Path::new(".").join(below)))
        })
    }

    /// Reads a regular file of at most `MAX_GIT_SETTINGS_FILE_BYTES`; `None` for any other file.
    fn read_contained_file(&self, path: &Path) -> Option<Vec<u8>> {
        let (dir, folder) = self.find_containing_root(path)?;
        let (file, _) = open_regular_file(dir, &folder.join(path.file_name()?)).ok()??;
        let mut bytes = Vec::new();
        file.take(MAX_GIT_SETTINGS_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        (bytes.len() as u64 <= MAX_GIT_SETTINGS_FILE_BYTES).then_some(bytes)
    }

    /// Formats a path relative to the workspace, or as an absolute path if it is outside.
    fn display_path(&self, path: &Path) -> String {
        let within = self
            .folders
            .first()
            .and_then(|folder| path.strip_prefix(folder).ok());
        let shown = within.filter(|path| !path.as_os_str().is_empty());
        shown.unwrap_or(path).display().to_string()
    }
}

impl GitControlFilesBeforeCommand {
    /// Records the state of the files that decide which programs git runs, such as hooks and
    /// settings, in the repositories below these directories.
    pub(super) fn scan_before_command(folders: &[PathBuf]) -> Self {
        let roots = CommandWritableDirectories::open_directories(folders);
        let mut known = BTreeMap::new();
        let mut room = MAX_SAVED_GIT_SETTINGS_BYTES;
        visit_git_repositories(&roots.folders, REPOSITORY_SEARCH_LIMITS, |repository| {
            for path in list_git_control_files(repository) {
                let stamp = read_path_stat_stamp(&path);
                known
                    .entry(path)
                    .or_insert_with_key(|path| GitControlFileFingerprint {
                        stamp,
                        bytes: read_git_settings_to_restore(&roots, path, &mut room),
                    });
            }
        });
        Self { roots, known }
    }

    /// Renames files that the command left and that git would run. Files that changed after `last`,
    /// in seconds since 1970, are only reported, because the command had ended by then. Returns a
    /// line for each file.
    pub(super) fn rename_files_git_would_run(&self, last: Option<i64>) -> Vec<String> {
        let mut found = Vec::new();
        let unseen = visit_git_repositories(
            &self.roots.folders,
            REPOSITORY_SEARCH_LIMITS,
            |repository| {
                for path in list_git_control_files(repository) {
                    let is_touched = self.known.get(&path).map(|known| known.stamp)
                        != Some(read_path_stat_stamp(&path));
                    if !is_touched || self.has_unwritable_symlink_parent(&path) {
                        continue;
                    }
                    let why = describe_git_file_danger(&self.roots, repository, &path);
                    found.extend(why.map(|why| {
                        if last.is_some_and(|last| has_inode_changed_since(&path, last)) {
                            self.format_post_command_warning(&path, why)
                        } else {
                            self.rename_dangerous_file(&path, why)
                        }
                    }));
                }
            },
        );
        found.extend(unseen.iter().map(|(path, why)| {
            format!(
                "cannot tell whether git would run a program in `{}`: {why}",
                self.roots.display_path(path)
            )
        }));
        found
    }

    /// Whether a file is reached through a symlink to a directory that the command cannot write.
    fn has_unwritable_symlink_parent(&self, path: &Path) -> bool {
        path.parent().is_some_and(Path::is_symlink)
            && self.roots.find_containing_root(path).is_none()
    }

    fn format_post_command_warning(&self, path: &Path, why: &str) -> String {
        format!(
            "`{}` {why} at the next git command outside the sandbox; it was changed later than the command can have run, so it was \
             kept: review it",
            self.roots.display_path(path)
        )
    }

    fn rename_dangerous_file(&self, path: &Path, why: &str) -> String {
        let shown = self.roots.display_path(path);
        match self.rename_and_restore_file(path) {
            Ok(away) => format!(
                "`{shown}` {why} at the next git command outside the sandbox; it was renamed to end in `{away}`"
            ),
            Err(error) => format!(
                "`{shown}` {why} at the next git command outside the sandbox, and cannot be renamed ({error}): remove it"
            ),
        }
    }

    /// Renames the file, writes its content from before the command if that was kept, and returns
    /// the suffix of the file's new name.
    fn rename_and_restore_file(&self, path: &Path) -> io::Result<String> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let (root, folder) = self.roots.find_containing_root(path).ok_or_else(gone)?;
        let name = path.file_name().ok_or_else(gone)?;
        let found = root.metadata(&folder)?.permissions();
        let mode = cap_std::fs::PermissionsExt::mode(&found);
        if mode & 0o300 != 0o300 {
            // The command may have removed the user's write permission on the directory.
            let open = fs::Permissions::from_mode(mode | 0o700);
            root.set_permissions(&folder, cap_std::fs::Permissions::from_std(open))?;
        }
        let folder = root.open_dir(&folder)?;
        let mut ending = format!(".{RENAMED_FILE_NAME_SUFFIX}");
        let renamed = |ending: &str| {
            let mut away = name.to_owned();
            away.push(ending);
            folder.rename(name, &folder, away)
        };
        if renamed(&ending).is_err() {
            // The file could not be renamed, because the new name belongs to a file or folder that
            // cannot be replaced.
            ending = format!(
                ".{}.{RENAMED_FILE_NAME_SUFFIX}",
                crate::clock::new_uuid_v7()
            );
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

/// Calls `repository` with every repository in these directories, and with every directory from
/// which a repository may take its settings. Returns the paths that could not be searched, each
/// with the reason.
fn visit_git_repositories(
    roots: &[PathBuf],
    bounds: RepositorySearchLimits,
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
                let why = format!(
                    "the search found more than {} files and folders and was stopped",
                    bounds.entries
                );
                unseen.push((folder, why));
                return unseen;
            }
            let name = entry.file_name();
            // Do not follow a symlink: if the command can write its target, the walk finds the
            // target itself.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(folder.join(&name));
            }
            names.insert(name);
        }
        let has = |name: &str| names.contains(OsStr::new(name));
        // A directory without `HEAD` may still be the common directory of a repository that is
        // somewhere else.
        if has_git_repository_entries(has) || (has("objects") && has("refs")) {
            repository(&folder);
        }
    }
    unseen
}

/// Returns the existing files of a repository that decide which programs git runs. The hooks
/// directory comes before its entries: if it is a symlink that is renamed, its target no longer
/// contains hooks.
fn list_git_control_files(repository: &Path) -> Vec<PathBuf> {
    let hooks = repository.join("hooks");
    let mut found: Vec<PathBuf> = GIT_SETTINGS_FILE_NAMES
        .map(|name| repository.join(name))
        .to_vec();
    found.push(repository.join(COMMON_DIR_FILE_NAME));
    let within = fs::read_dir(&hooks).into_iter().flatten().flatten();
    // Ignore hook files beyond the limit: the walk reaches them too, and reports that there are too
    // many.
    let within = within.take(REPOSITORY_SEARCH_LIMITS.entries);
    found.push(hooks);
    found.extend(within.map(|entry| entry.path()));
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// Returns the reason why a file is dangerous, worded as the predicate of a sentence that begins
/// with the file's path; `None` if the file is harmless.
fn describe_git_file_danger(
    roots: &CommandWritableDirectories,
    repository: &Path,
    path: &Path,
) -> Option<&'static str> {
    let own = path.symlink_metadata().ok()?;
    let name = path.file_name()?.to_string_lossy();
    if path.parent() != Some(repository) {
        // A symlink counts as a program, because its target can change later.
        let is_run = own.is_symlink() || (own.is_file() && own.mode() & 0o111 != 0);
        return (is_run && !name.contains('.')).then_some("is run");
    }
    match name.as_ref() {
        "hooks" => own.is_symlink().then_some("has git run what is elsewhere"),
        COMMON_DIR_FILE_NAME => (!is_worktree_folder(roots, repository, path))
            .then_some("has git take settings from elsewhere"),
        _ => {
            // A file with a second hard link counts as dangerous: a later command could change it
            // under its other name.
            let is_alone = own.is_file() && own.nlink() == 1;
            let text = || String::from_utf8(roots.read_contained_file(path)?).ok();
            let is_harmless = is_alone && text().is_some_and(|text| is_harmless_git_config(&text));
            (!is_harmless).then_some("may run a program")
        }
    }
}

/// Whether `folder` is git's directory for a linked worktree, and its file `common` points to the
/// repository that contains `folder`.
fn is_worktree_folder(roots: &CommandWritableDirectories, folder: &Path, common: &Path) -> bool {
    let above = folder
        .parent()
        .filter(|above| above.ends_with("worktrees"))
        .and_then(Path::parent);
    let is_file = common.symlink_metadata().is_ok_and(|found| found.is_file());
    is_file
        && above.is_some_and(is_git_repository)
        && roots
            .read_contained_file(common)
            .is_some_and(|text| text.trim_ascii_end() == b"../..")
}

/// Whether the inode of a file, or of a symlink itself, changed after `second`, in seconds since
/// 1970. Returns false if the time is unknown, so that the caller renames the file and does not
/// only report it.
fn has_inode_changed_since(path: &Path, second: i64) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| found.ctime() > second)
}

fn read_path_stat_stamp(path: &Path) -> SymlinkAwareStatStamp {
    let of = |found: fs::Metadata| {
        // Leave the ctime of a directory out of its stamp: each of its entries has a stamp of its
        // own.
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

fn read_git_settings_to_restore(
    roots: &CommandWritableDirectories,
    path: &Path,
    room: &mut u64,
) -> Option<Vec<u8>> {
    let is_settings = GIT_SETTINGS_FILE_NAMES
        .iter()
        .any(|name| path.ends_with(name));
    let is_own = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let bytes = (is_settings && is_own)
        .then(|| roots.read_contained_file(path))
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
        let search = |folders, entries| {
            visit_git_repositories(&roots, RepositorySearchLimits { folders, entries }, |_| {})
        };
        assert!(search(2, 21).is_empty());
        let unseen = search(2, 20);
        let [(path, why)] = &unseen[..] else {
            panic!("{unseen:?}");
        };
        assert_eq!(
            (path, &**why),
            (
                &roots[0],
                "the search found more than 20 files and folders and was stopped"
            )
        );
        assert_eq!(search(1, 21)[0].0, roots[0].join("below"));
    }
}
