//! Finds the parts of a git repository that decide which programs git runs: its configuration and
//! hooks. The user's next git command is not confined, so a confined command must not change these
//! parts.
//!
//! This module only finds their paths; `view` makes them read-only.

use std::path::{Path, PathBuf};

use rind_base::git::is_git_repository;

/// Entries of a git directory that determine which programs git runs, or where git finds the
/// configuration and hooks.
const READ_ONLY_GIT_FOLDER_ENTRIES: &[&str] =
    &["config", "config.worktree", "hooks", "commondir", "gitdir"];

/// Returns the paths of a repository in the writable directory `folder` that must be protected, in
/// the order in which they are mounted, each with a flag that is true for read-only. The git
/// directory itself (`.git`, or `folder` if it is the shared git directory of a linked worktree)
/// stays writable but cannot be renamed. The entries in [`READ_ONLY_GIT_FOLDER_ENTRIES`] are
/// read-only.
pub(super) fn repository_paths_to_protect(folder: &Path) -> Vec<(PathBuf, bool)> {
    let inner = folder.join(".git");
    let mut found = Vec::new();
    let repository = if is_folder(&inner) {
        found.push((inner.clone(), false));
        inner
    } else if is_git_repository(folder) {
        folder.to_owned()
    } else {
        // A linked worktree has a file `.git` that contains the path of the git directory.
        let is_file = inner.symlink_metadata().is_ok_and(|found| found.is_file());
        return is_file.then_some((inner, true)).into_iter().collect();
    };
    // Submodules and linked worktrees keep their git directories inside this one, nested as deeply
    // as their paths.
    let mut repositories = vec![repository];
    let mut n_seen = 0;
    while let Some(folder) = repositories.pop() {
        n_seen += 1;
        if n_seen > MAX_SEARCHED_GIT_FOLDERS {
            break;
        }
        let mut below = vec![folder.clone()];
        if folder.join("HEAD").symlink_metadata().is_ok() {
            add_protected_paths(&mut found, &folder);
            below = ["modules", "worktrees"]
                .map(|name| folder.join(name))
                .to_vec();
        }
        for folder in below {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            repositories.extend(
                entries
                    .map(|entry| entry.path())
                    .filter(|path| is_folder(path)),
            );
        }
    }
    found
}

const MAX_SEARCHED_GIT_FOLDERS: usize = 1_000;

fn add_protected_paths(found: &mut Vec<(PathBuf, bool)>, repository: &Path) {
    let parts = READ_ONLY_GIT_FOLDER_ENTRIES
        .iter()
        .map(|part| repository.join(part));
    let there = parts.filter(|part| {
        part.symlink_metadata()
            .is_ok_and(|found| !found.is_symlink())
    });
    found.extend(there.map(|part| (part, true)));
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_hooks_of_a_repository_and_its_submodules_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        for repository in ["", "modules/libs/a"] {
            let repository = git.join(repository);
            std::fs::create_dir_all(repository.join("hooks")).unwrap();
            for file in ["HEAD", "config", "index"] {
                std::fs::write(repository.join(file), "").unwrap();
            }
        }
        let found = repository_paths_to_protect(folder.path());
        let is_fixed = |path: &str| found.contains(&(git.join(path), true));
        assert_eq!(found[0], (git.clone(), false));
        for path in [
            "config",
            "hooks",
            "modules/libs/a/config",
            "modules/libs/a/hooks",
        ] {
            assert!(is_fixed(path), "{path}: {found:?}");
        }
        assert_eq!(found.len(), 5);
        assert_eq!(repository_paths_to_protect(&git.join("hooks")), []);
    }
}
