//! Files that a command left in a folder and git would run at the user's next command there, outside of any confinement: hooks, and
//! settings of a repository that name programs. That may be the workspace's own repository, one below it, or a folder that is
//! only laid out like one.
//!
//! Files that existed before the command are the user's; others are found after it and taken out of git's way, never removed.
//! It must not know how commands are confined. Start from [`Before`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::git::{COMMON, is_repository, is_repository_with};

/// Maximum number of folders that are searched, so that a workspace of any size costs little.
const MAX_FOLDERS: usize = 100_000;

/// Largest settings file that is kept to be put back.
const MAX_KEPT_BYTES: u64 = 1 << 20;

/// Ending of what was taken out of git's way.
const REFUSED: &str = "refused";

/// Files of a repository's folder with settings.
const SETTINGS: [&str; 2] = ["config", "config.worktree"];

/// Keys of settings that run nothing, by section; of a section with a name in it the name does not matter.
const HARMLESS: &[(&str, &[&str])] = &[
    ("advice", &[]),
    (
        "branch",
        &[
            "description",
            "merge",
            "rebase",
            "remote",
            "vscode-merge-base",
        ],
    ),
    ("color", &[]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "worktree",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "objectformat",
            "partialclone",
            "refstorage",
            "worktreeconfig",
        ],
    ),
    ("fetch", &["prune"]),
    ("gc", &["auto"]),
    ("init", &["defaultbranch"]),
    ("merge", &["conflictstyle", "ff"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("submodule", &["active", "branch", "path", "url"]),
    ("user", &["email", "name"]),
];

/// Files that git would run, in their state before a command.
pub(super) struct Before {
    folders: Vec<PathBuf>,
    known: BTreeMap<PathBuf, Known>,
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

impl Before {
    /// Records the state of all that the command may change.
    pub(super) fn look(folders: &[PathBuf]) -> Self {
        let mut known = BTreeMap::new();
        walk(folders, |repository| {
            for path in deciding(repository) {
                let stamp = stamp(&path);
                known.entry(path).or_insert_with_key(|path| Known {
                    stamp,
                    bytes: kept(path),
                });
            }
        });
        Self {
            folders: folders.to_vec(),
            known,
        }
    }

    /// Takes what the command left and git would run out of git's way; comes back with a line for each.
    pub(super) fn refuse_what_git_would_run(&self) -> Vec<String> {
        let mut found = Vec::new();
        let unseen = walk(&self.folders, |repository| {
            for path in deciding(repository) {
                let is_touched =
                    self.known.get(&path).map(|known| known.stamp) != Some(stamp(&path));
                let why = is_touched.then(|| danger(repository, &path)).flatten();
                found.extend(why.map(|why| self.refuse(&path, why)));
            }
        });
        found.extend(unseen.iter().map(|(path, why)| {
            format!(
                "it is unknown whether git would run something in `{}`: {why}",
                self.shown(path)
            )
        }));
        found
    }

    fn refuse(&self, path: &Path, why: &str) -> String {
        let shown = self.shown(path);
        match self.put_away(path) {
            Ok(away) => format!(
                "`{shown}` {why} at the next git command outside; it was renamed to end in `{away}`"
            ),
            Err(error) => format!(
                "`{shown}` {why} at the next git command outside, and cannot be renamed ({error}): remove it"
            ),
        }
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

    /// Comes back with the ending of its name now.
    fn put_away(&self, path: &Path) -> io::Result<String> {
        if let Some(folder) = path.parent()
            && let Ok(found) = folder.metadata()
            && found.mode() & 0o300 != 0o300
        {
            // What keeps us from it was left there as well.
            fs::set_permissions(folder, fs::Permissions::from_mode(found.mode() | 0o700))?;
        }
        let mut ending = format!(".{REFUSED}");
        let renamed = |ending: &str| {
            let mut away = path.as_os_str().to_owned();
            away.push(ending);
            fs::rename(path, away)
        };
        if renamed(&ending).is_err() {
            // Something that cannot be replaced has that name.
            ending = format!(".{}.{REFUSED}", crate::clock::new_id());
            renamed(&ending)?;
        }
        if let Some(bytes) = self.known.get(path).and_then(|known| known.bytes.as_ref()) {
            fs::write(path, bytes)?;
        }
        Ok(ending)
    }
}

/// Hands on every repository, and every folder that one may take its settings from, in these folders. Comes back with what could
/// not be looked at.
fn walk(roots: &[PathBuf], mut repository: impl FnMut(&Path)) -> Vec<(PathBuf, String)> {
    let mut unseen = Vec::new();
    let mut folders: Vec<PathBuf> = roots.to_vec();
    let mut n_seen = 0;
    while let Some(folder) = folders.pop() {
        n_seen += 1;
        if n_seen > MAX_FOLDERS {
            unseen.push((folder, format!("there are more than {MAX_FOLDERS} folders")));
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

/// Returns the existing files of a repository that decide what git runs.
fn deciding(repository: &Path) -> Vec<PathBuf> {
    let hooks = repository.join("hooks");
    let mut found: Vec<PathBuf> = SETTINGS.map(|name| repository.join(name)).to_vec();
    found.push(repository.join(COMMON));
    let within = fs::read_dir(&hooks).into_iter().flatten().flatten();
    found.extend(within.map(|entry| entry.path()));
    found.push(hooks);
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

/// Returns git's use of such a file, if that is more than to read it.
fn danger(repository: &Path, path: &Path) -> Option<&'static str> {
    let own = path.symlink_metadata().ok()?;
    let name = path.file_name()?.to_string_lossy();
    if path.parent() != Some(repository) {
        // What a link leads to may change later.
        let is_run = own.is_symlink() || (own.is_file() && own.mode() & 0o111 != 0);
        return (is_run && !name.contains('.')).then_some("is run");
    }
    match name.as_ref() {
        "hooks" => own.is_symlink().then_some("has git run what is elsewhere"),
        COMMON => {
            (!is_of_worktree(repository, path)).then_some("has git take settings from elsewhere")
        }
        _ => {
            // One with a second name can be changed by that.
            let is_alone = own.is_file() && own.nlink() == 1;
            let is_harmless =
                is_alone && fs::read_to_string(path).is_ok_and(|text| is_harmless(&text));
            (!is_harmless).then_some("may run a program")
        }
    }
}

/// Whether this is the folder of a linked worktree, within the repository that its file leads back to.
fn is_of_worktree(folder: &Path, common: &Path) -> bool {
    let above = folder
        .parent()
        .filter(|above| above.ends_with("worktrees"))
        .and_then(Path::parent);
    let is_file = common.symlink_metadata().is_ok_and(|found| found.is_file());
    is_file
        && above.is_some_and(is_repository)
        && fs::read_to_string(common).is_ok_and(|text| text.trim_end() == "../..")
}

fn stamp(path: &Path) -> Stamp {
    let of = |found: fs::Metadata| (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
    let own = path.symlink_metadata();
    let is_folder = own.as_ref().is_ok_and(fs::Metadata::is_dir);
    if is_folder {
        // What is in it has stamps of its own.
        return [own.ok().map(|found| (found.dev(), found.ino(), 0, 0)), None];
    }
    [own.ok().map(of), path.metadata().ok().map(of)]
}

fn kept(path: &Path) -> Option<Vec<u8>> {
    let is_settings = SETTINGS.iter().any(|name| path.ends_with(name));
    let is_small = |found: fs::Metadata| found.is_file() && found.len() <= MAX_KEPT_BYTES;
    let is_kept = is_settings && path.symlink_metadata().is_ok_and(is_small);
    is_kept.then(|| fs::read(path).ok()).flatten()
}

/// Whether none of these settings can run a program or include other settings. What cannot be read for certain is not harmless.
fn is_harmless(text: &str) -> bool {
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, rest)) = rest.split_once(']') else {
                return false;
            };
            // A name of its own in quotes may hold brackets and is not needed; without quotes it would be taken for a key.
            let (name, own) = name.split_once(' ').unwrap_or((name, "\"\""));
            if !own.starts_with('"') || !own.ends_with('"') || own.contains('\\') {
                return false;
            }
            section = name.to_ascii_lowercase();
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let key = line
            .split('=')
            .next()
            .unwrap_or(line)
            .trim()
            .to_ascii_lowercase();
        let is_known = HARMLESS.iter().any(|(harmless, keys)| {
            *harmless == section && (keys.is_empty() || keys.contains(&key.as_str()))
        });
        if !is_known || line.ends_with('\\') {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_nothing_are_told_from_those_that_may() {
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n# a comment\n",
            "[remote \"origin\"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[core]\n\tworktree = ../../../sub\n[submodule \"sub\"]\n\turl = x\n\tactive = true\n",
            "[branch \"a b\"] remote = origin\n[user]\n name = x\n",
        ] {
            assert!(is_harmless(text), "{text}");
        }
        for text in [
            "[core]\n\tfsmonitor = run\n",
            "[core] fsmonitor = run\n",
            "[CORE]\nFsMonitor=run\n",
            "[core]\nbare = \\\nfalse\n",
            "[include]\npath = x\n",
            "[alias]\nst = !run\n",
            "[filter \"x\"]\nclean = run\n",
            "[remote \"x\"]\nuploadpack = run\n",
            "[submodule \"x\"]\nupdate = !run\n",
            "[core\nfsmonitor = run\n",
            "[a \"]\"]\n[core]\nsshCommand = run\n",
            "[core.x]\nbare = 1\n",
            "\u{feff}[core]\nfsmonitor = run\n",
        ] {
            assert!(!is_harmless(text), "{text}");
        }
    }
}
