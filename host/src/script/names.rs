//! Finds the files that the words of a script's command line name. The script may read these files,
//! and whoever can change them can change what the script does.
//!
//! A command line is only split into words, not parsed as shell text. This module must not know
//! whose files they are. Start from [`files_named_in_command_line`].

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories against which file names in a command line are resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileNameBaseFolders<'a> {
    /// Home directory, for `~/` and `$HOME/` at the start of a word.
    pub(super) home: &'a Path,
    /// Environment variables whose values are directories.
    pub(super) variables: &'a [(OsString, OsString)],
    /// Directory against which relative file names are resolved; `None` to ignore relative names.
    pub(super) current: Option<&'a Path>,
}

/// Returns the existing files that the words of a command line name.
pub(super) fn files_named_in_command_line(
    text: &str,
    places: FileNameBaseFolders<'_>,
) -> Vec<PathBuf> {
    let is_border = |c: char| c.is_whitespace() || "\"';|&()<>=`".contains(c);
    // Remove quotes, so that a quoted part and the text after it are one word, as in
    // `"$DIR"/name`.
    let bare = text.replace(['"', '\''], "");
    // The complete text may also be a file name: one that contains a space or a separator.
    let words = bare.split(is_border).chain(std::iter::once(text));
    let paths = words.filter_map(|word| resolve_command_word(word, places));
    let mut found = Vec::new();
    for path in paths.filter(|path| path.is_file()) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Extensions of files that interpreters run.
const SCRIPT_EXTENSIONS: &[&str] = &[
    "bash", "cjs", "js", "lua", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "ts", "zsh",
];

/// Whether a file is a program: it is executable, or interpreters run files with its extension.
fn is_executable_file(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    let is_executable = |metadata: std::fs::Metadata| metadata.permissions().mode() & 0o111 != 0;
    extension.is_some_and(|extension| SCRIPT_EXTENSIONS.contains(&extension))
        || file.metadata().is_ok_and(is_executable)
}

/// Returns the directories of the programs among these files, both as named and with symlinks
/// resolved. A program may read modules and data next to it; a data file implies nothing about its
/// directory. Broad directories are omitted: the home directory and its parents, a hidden directory
/// directly in it (`~/.ssh`, `~/.claude`), which may contain keys, and a top-level directory.
pub(super) fn executable_file_folders(files: &[PathBuf], home: &Path) -> Vec<PathBuf> {
    let programs = files.iter().filter(|file| is_executable_file(file));
    let folders = programs.flat_map(|file| {
        let named = file.parent().map(Path::to_owned);
        let real = file.canonicalize().ok();
        let real = real.as_deref().and_then(Path::parent).map(Path::to_owned);
        [named, real].into_iter().flatten()
    });
    omit_missing_and_overbroad_folders(folders, home)
}

/// Returns the directories that exist and are not broad, each once. See
/// [`executable_file_folders`].
pub(super) fn omit_missing_and_overbroad_folders(
    folders: impl IntoIterator<Item = PathBuf>,
    home: &Path,
) -> Vec<PathBuf> {
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let is_narrow = |folder: &Path| {
        let below_home = folder.strip_prefix(&home).ok();
        let is_hidden = below_home.is_some_and(|below| {
            let name = below.to_string_lossy();
            below.components().count() == 1 && name.starts_with('.')
        });
        !home.starts_with(folder) && !is_hidden && folder.components().count() > 2
    };
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        // Decide by the canonical path, because the directory may be reached through a symlink.
        let leads = folder.canonicalize();
        if leads.is_ok_and(|leads| is_narrow(&leads)) && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// Resolves a word of a command line to a path; `None` if it cannot be a path.
fn resolve_command_word(word: &str, places: FileNameBaseFolders<'_>) -> Option<PathBuf> {
    if word.is_empty() || word.contains(['\n', '\0']) {
        return None;
    }
    if let Some(rest) = word.strip_prefix("~/") {
        return Some(places.home.join(rest));
    }
    if let Some((name, rest)) = split_leading_variable(word) {
        let mut known = places.variables.iter();
        let known = known.find(|(known, _)| known == name);
        return match known {
            Some((_, folder)) => Some(Path::new(folder).join(rest)),
            None => (name == "HOME").then(|| places.home.join(rest)),
        };
    }
    if Path::new(word).is_absolute() {
        return Some(PathBuf::from(word));
    }
    Some(places.current?.join(word))
}

/// Splits `$NAME/rest` or `${NAME}/rest` into the name and the rest.
fn split_leading_variable(word: &str) -> Option<(&str, &str)> {
    let word = word.strip_prefix('$')?;
    let (name, rest) = word.split_once('/')?;
    let name = match name.strip_prefix('{') {
        Some(name) => name.strip_suffix('}')?,
        None => name,
    };
    Some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_program_is_readable_unless_it_is_broader_than_that() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let home = root.join("home");
        let files = [
            "home/.claude/hooks/main.py",
            "home/.claude/check.sh",
            "home/check.sh",
            "home/.config/tool/data.json",
            "home/bin/check.sh",
            "check.sh",
            "elsewhere/lib.sh",
        ];
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let link = home.join("bin/link.sh");
        std::os::unix::fs::symlink(root.join("elsewhere/lib.sh"), &link).unwrap();
        let key = home.join("bin/key.sh");
        std::os::unix::fs::symlink(home.join(".claude/check.sh"), &key).unwrap();
        let files = files.map(|file| root.join(file)).into_iter();
        let files: Vec<PathBuf> = files.take(6).chain([link, key]).collect();
        let expected = ["home/.claude/hooks", "home/bin", "elsewhere"];
        assert_eq!(
            executable_file_folders(&files, &home),
            expected.map(|name| root.join(name))
        );
        assert_eq!(
            executable_file_folders(&["/etc/passwd".into()], &home),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn words_of_a_command_are_files_where_there_are_such() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (home, project) = (root.join("home"), root.join("project"));
        for file in ["home/x", "project/hooks/x.py", "project/a b", "other"] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let variables = [("PROJECT".into(), project.clone().into_os_string())];
        let other = root.join("other");
        let cases = [
            (
                "\"$PROJECT\"/hooks/x.py --fast",
                vec![project.join("hooks/x.py")],
            ),
            ("${PROJECT}/hooks/x.py", vec![project.join("hooks/x.py")]),
            ("python3 hooks/x.py", vec![project.join("hooks/x.py")]),
            (
                "python3 --file='hooks/x.py'|cat",
                vec![project.join("hooks/x.py")],
            ),
            ("cd x && ./hooks/x.py", vec![project.join("./hooks/x.py")]),
            ("a b", vec![project.join("a b")]),
            ("cat ~/x $HOME/x \"${HOME}/x\"", vec![home.join("x")]),
            ("$OTHER/x ${PROJECT/hooks/x.py hooks none", vec![]),
            (other.to_str().unwrap(), vec![other.clone()]),
        ];
        for (text, expected) in cases {
            let places = FileNameBaseFolders {
                home: &home,
                variables: &variables,
                current: Some(&project),
            };
            assert_eq!(
                files_named_in_command_line(text, places),
                expected,
                "{text}"
            );
            let places = FileNameBaseFolders {
                current: None,
                ..places
            };
            let absolute = expected
                .into_iter()
                .filter(|path| text.contains(['$', '~']) || *path == other);
            assert_eq!(
                files_named_in_command_line(text, places),
                absolute.collect::<Vec<_>>(),
                "{text}"
            );
        }
    }
}
