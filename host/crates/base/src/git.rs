//! Recognizes git repositories, to protect them: settings and hooks of a repository name programs
//! that run at the user's next git command.
//!
//! Git recognizes a repository only by the names of its files, so anybody who can write to a folder
//! can turn it into a repository.

use std::path::Path;

/// Name of a repository's folder in a working tree; in a submodule or linked worktree, a file that
/// points to that folder.
const GIT_FOLDER_NAME: &str = ".git";

/// File that every repository has: without it, git does not treat a folder as a repository.
const HEAD_FILE_NAME: &str = "HEAD";

/// File in the repository of a linked worktree that names the repository with the settings.
pub const COMMON_DIR_FILE_NAME: &str = "commondir";

/// Whether git would recognize a folder as a repository. `has` returns whether the folder contains
/// an entry with a given name.
#[must_use]
pub fn has_git_repository_entries(has: impl Fn(&str) -> bool) -> bool {
    has(HEAD_FILE_NAME) && (has(COMMON_DIR_FILE_NAME) || (has("objects") && has("refs")))
}

/// Whether git would recognize this folder as a repository.
#[must_use]
pub fn is_git_repository(folder: &Path) -> bool {
    has_git_repository_entries(|name| path_exists(&folder.join(name)))
}

/// Whether the path `names` below `root` leads into a repository, or would complete a repository if
/// it were created. A symlink is checked by its own name and not followed.
///
/// For example:
///
/// ```text
/// a/.git             yes
/// a/.GIT/hooks/x     yes: names are compared without case
/// bare/config        yes, if `bare` has `HEAD`, `objects` and `refs`
/// .gitignore         no
/// ```
#[must_use]
pub fn is_path_into_git_folder<'a>(root: &Path, names: impl IntoIterator<Item = &'a str>) -> bool {
    let mut folder = root.to_owned();
    for name in names {
        let made =
            |other: &str| other.eq_ignore_ascii_case(name) || path_exists(&folder.join(other));
        if name.eq_ignore_ascii_case(GIT_FOLDER_NAME) || has_git_repository_entries(made) {
            return true;
        }
        folder.push(name);
    }
    false
}

fn path_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether access to the path `names` below `root` is forbidden, because it leads into a repository
/// or could turn a folder into one. The caller was granted the folder of the first `n_granted`
/// names: if that folder is inside `.git`, only another `.git` below it is forbidden.
#[must_use]
pub fn is_protected_git_path(root: &Path, names: &[String], n_granted: usize) -> bool {
    let is_git = |name: &String| name.eq_ignore_ascii_case(GIT_FOLDER_NAME);
    let (granted, rest) = names.split_at(n_granted.min(names.len()));
    let is_head = |name: &String| name.eq_ignore_ascii_case(HEAD_FILE_NAME);
    if rest.iter().any(is_git) {
        return true;
    }
    let granted_folder = root.join(granted.iter().collect::<std::path::PathBuf>());
    !granted.iter().any(is_git)
        && (rest.iter().any(is_head)
            || is_path_into_git_folder(&granted_folder, rest.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_one_with_any_name_and_completing_one_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let into = |path: &str| is_path_into_git_folder(root, path.split('/'));
        for path in ["a/.git", "a/.GIT/hooks/x", ".git", ".git/config"] {
            assert!(into(path), "{path}");
        }
        for path in [
            "a/head",
            "bare/HEAD",
            "bare/config",
            ".gitignore",
            ".github/x",
        ] {
            assert!(!into(path), "{path}");
        }
        std::fs::create_dir_all(root.join("bare/objects")).unwrap();
        std::fs::write(root.join("bare/HEAD"), "").unwrap();
        assert!(!into("bare/config"));
        assert!(into("bare/refs/x") && into("bare/commondir"));
        std::fs::create_dir(root.join("bare/refs")).unwrap();
        assert!(into("bare/config") && into("bare/hooks/pre-commit") && into("bare/x"));
        assert!(!into("other/config"));
    }
}
