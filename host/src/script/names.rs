//! Files that a command names, as far as its text shows them: what a script may read besides the rest, and what somebody else
//! could change to change the script.
//!
//! Text of a shell is split into words and not understood. It must not know whose files they are. Start from [`files`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Places that names of files are relative to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// Home folder: `~/` and `$HOME/` at the beginning of a word.
    pub(super) home: &'a Path,
    /// Variables whose value is a folder.
    pub(super) variables: &'a [(OsString, OsString)],
    /// Folder of words that are relative; `None`: these name no file.
    pub(super) current: Option<&'a Path>,
}

/// Returns the files that a text names.
pub(super) fn files(text: &str, places: Places<'_>) -> Vec<PathBuf> {
    let is_border = |c: char| c.is_whitespace() || "\"';|&()<>=`".contains(c);
    // What is quoted is joined with what follows it, as in `"$DIR"/name`.
    let bare = text.replace(['"', '\''], "");
    // A name with a blank or a border in it is found where the whole text is one.
    let words = bare.split(is_border).chain(std::iter::once(text));
    let paths = words.filter_map(|word| path(word, places));
    let mut found = Vec::new();
    for path in paths.filter(|path| path.is_file()) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns the path that a word is, if it may be one.
fn path(word: &str, places: Places<'_>) -> Option<PathBuf> {
    if word.is_empty() || word.contains(['\n', '\0']) {
        return None;
    }
    if let Some(rest) = word.strip_prefix("~/") {
        return Some(places.home.join(rest));
    }
    if let Some((name, rest)) = variable(word) {
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

/// Splits `$NAME/rest` and `${NAME}/rest`.
fn variable(word: &str) -> Option<(&str, &str)> {
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
            let places = Places {
                home: &home,
                variables: &variables,
                current: Some(&project),
            };
            assert_eq!(files(text, places), expected, "{text}");
            let places = Places {
                current: None,
                ..places
            };
            let absolute = expected
                .into_iter()
                .filter(|path| text.contains(['$', '~']) || *path == other);
            assert_eq!(files(text, places), absolute.collect::<Vec<_>>(), "{text}");
        }
    }
}
