//! What a command left in the workspace that git would run at the user's next command there, outside of any confinement: hooks,
//! and settings of a repository that name programs. That may be the workspace's own repository, one below it, or a folder that
//! is only laid out like one.
//!
//! Found out after the command and taken out of git's way, never removed. It must not know how commands are confined. Start
//! from [`Before`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most folders that are looked at, so that a workspace of any size costs little.
const MAX_FOLDERS: usize = 10_000;

/// Largest settings file that is kept to be put back.
const MAX_KEPT_BYTES: u64 = 1 << 20;

/// The clock of a file system may be this far behind.
const SLACK: Duration = Duration::from_millis(20);

/// Ending of what was taken out of git's way.
const REFUSED: &str = "refused";

/// Files of a repository's folder with settings, and those that say that its settings are elsewhere.
const SETTINGS: [&str; 2] = ["config", "config.worktree"];
const ELSEWHERE: &str = "commondir";

/// Parts of a repository's folder in which nothing is run from.
const DATA: [&str; 4] = ["objects", "refs", "logs", "lfs"];

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

/// The settings of repositories as they are before a command.
pub(super) struct Before {
    folder: PathBuf,
    since: SystemTime,
    settings: BTreeMap<PathBuf, Vec<u8>>,
}

impl Before {
    /// Looks at the repository of this folder, which the command may change.
    pub(super) fn look(folder: &Path) -> Self {
        let repository = folder.join(".git");
        let mut settings = BTreeMap::new();
        for path in SETTINGS.map(|name| repository.join(name)) {
            let is_small = |found: fs::Metadata| found.is_file() && found.len() <= MAX_KEPT_BYTES;
            if path.symlink_metadata().is_ok_and(is_small)
                && let Ok(bytes) = fs::read(&path)
            {
                settings.insert(path, bytes);
            }
        }
        Self {
            folder: folder.to_owned(),
            since: SystemTime::now().checked_sub(SLACK).unwrap_or(UNIX_EPOCH),
            settings,
        }
    }

    /// Takes what the command left and git would run out of git's way; comes back with a line for each.
    pub(super) fn refuse_what_git_would_run(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.clone()];
        let mut n_seen = 0;
        while let Some(folder) = folders.pop() {
            n_seen += 1;
            if n_seen > MAX_FOLDERS {
                break;
            }
            let is_repository = is_repository(&folder);
            if is_repository {
                self.look_at(&folder, &mut found);
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            // A link leads to a folder that is found by itself, or to one that the command could not write.
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let is_data = |name: &str| is_repository && DATA.contains(&name);
            let below = below.filter(|entry| !is_data(&entry.file_name().to_string_lossy()));
            folders.extend(below.map(|entry| entry.path()));
        }
        found
    }

    fn look_at(&self, repository: &Path, found: &mut Vec<String>) {
        let mut refuse = |path: &Path, why: &str| {
            let shown = path.strip_prefix(&self.folder).unwrap_or(path).display();
            found.push(match self.put_away(path) {
                Ok(()) => format!(
                    "`{shown}` {why} at the next git command outside; it was renamed to end in `.{REFUSED}`"
                ),
                Err(error) => format!(
                    "`{shown}` {why} at the next git command outside, and cannot be renamed ({error}): remove it"
                ),
            });
        };
        for path in SETTINGS.map(|name| repository.join(name)) {
            if self.is_touched(&path)
                && !fs::read_to_string(&path).is_ok_and(|text| is_harmless(&text))
            {
                refuse(&path, "may run a program");
            }
        }
        let elsewhere = repository.join(ELSEWHERE);
        // A linked worktree has one; only the folder that keeps it may.
        let is_worktree = repository
            .parent()
            .is_some_and(|above| above.ends_with("worktrees"));
        if self.is_touched(&elsewhere) && !is_worktree {
            refuse(&elsewhere, "has git take settings from elsewhere");
        }
        for entry in fs::read_dir(repository.join("hooks"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_hook =
                !name.contains('.') && path.metadata().is_ok_and(|found| found.mode() & 0o111 != 0);
            if is_hook && self.is_touched(&path) {
                refuse(&path, "is run");
            }
        }
    }

    fn is_touched(&self, path: &Path) -> bool {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        path.symlink_metadata().is_ok_and(|found| {
            let changed = (
                found.ctime().unsigned_abs(),
                found.ctime_nsec().unsigned_abs(),
            );
            changed >= (since.as_secs(), u64::from(since.subsec_nanos()))
        })
    }

    fn put_away(&self, path: &Path) -> io::Result<()> {
        let mut away = path.as_os_str().to_owned();
        away.push(format!(".{REFUSED}"));
        fs::rename(path, &away)?;
        match self.settings.get(path) {
            Some(bytes) => fs::write(path, bytes),
            None => Ok(()),
        }
    }
}

/// Whether git would take this folder for a repository's.
fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has(ELSEWHERE) || (has("objects") && has("refs")))
}

/// Whether none of these settings can run a program or take in other settings. What cannot be read for certain is not harmless.
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
