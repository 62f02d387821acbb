//! What of a repository runs programs at the next git command of the user, who is not confined: its settings and its hooks.
//!
//! Pure, but for looking whether they are there.

use std::path::{Path, PathBuf};

/// Parts of a repository's folder whose content decides what git runs or where it looks for that.
const DECIDES: &[&str] = &["config", "config.worktree", "hooks", "commondir", "gitdir"];

/// The repository of a folder that commands may change, in the order in which it is mounted: its `.git` (or the folder
/// itself, when it is the shared one of a linked worktree), which must keep its name, and what in it must stay as it is.
pub(super) fn repository(folder: &Path) -> Vec<(PathBuf, bool)> {
    let inner = folder.join(".git");
    let mut found = Vec::new();
    let repository = if is_folder(&inner) {
        found.push((inner.clone(), false));
        inner
    } else if folder.join("objects").is_dir() && folder.join("config").is_file() {
        folder.to_owned()
    } else {
        // The file of a linked worktree leads to its repository.
        let is_file = inner.symlink_metadata().is_ok_and(|found| found.is_file());
        return is_file.then_some((inner, true)).into_iter().collect();
    };
    add_fixed(&mut found, &repository);
    for below in ["modules", "worktrees"] {
        let Ok(entries) = std::fs::read_dir(repository.join(below)) else {
            continue;
        };
        for entry in entries.flatten().filter(|entry| is_folder(&entry.path())) {
            add_fixed(&mut found, &entry.path());
        }
    }
    found
}

fn add_fixed(found: &mut Vec<(PathBuf, bool)>, repository: &Path) {
    let parts = DECIDES.iter().map(|part| repository.join(part));
    let there = parts.filter(|part| {
        part.symlink_metadata()
            .is_ok_and(|found| !found.is_symlink())
    });
    found.extend(there.map(|part| (part, true)));
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}
