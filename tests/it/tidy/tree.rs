//! Reads the files that the checks examine, and searches them for whole words.

use std::path::{Path, PathBuf};

/// Names of generated folders, which are skipped. `.git` may also be a file.
const MADE: &[&str] = &[".git", "__pycache__", "node_modules", ".venv"];

/// Folders with the sources of the host: the library, and the other crates.
pub(super) const HOST: [&str; 2] = ["host/src", "host/crates"];

/// One text file.
pub(super) struct Source {
    /// Path from the root, with `/`.
    pub(super) path: String,
    /// Content of the file.
    pub(super) text: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Returns the lines with their numbers, which start at 1, without `//` comments.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| {
            // The `//` of a URL starts no comment.
            let comment = line
                .match_indices("//")
                .map(|(at, _)| at)
                .find(|at| !line[..*at].ends_with(':'));
            (at + 1, &line[..comment.unwrap_or(line.len())])
        })
    }
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the files below these folders that have one of these extensions.
pub(super) fn sources(folders: &[&str], extensions: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        walk(folder, &mut found);
    }
    found.retain(|source| {
        let extension = Path::new(&source.path).extension();
        extensions
            .iter()
            .any(|e| extension == Some(std::ffi::OsStr::new(e)))
    });
    assert!(!found.is_empty(), "{folders:?} hold nothing to check");
    found
}

/// Returns all text files of the tree.
pub(super) fn all() -> Vec<Source> {
    let mut found = Vec::new();
    walk("", &mut found);
    found
}

/// Returns the names of the folders in a folder.
pub(super) fn folders(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(path)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn walk(folder: &str, found: &mut Vec<Source>) {
    let entries =
        std::fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let path = match folder {
            "" => name.clone(),
            _ => format!("{folder}/{name}"),
        };
        let full = root().join(&path);
        // The target of a link is in the tree under its own name, so links are skipped.
        if MADE.contains(&name.as_str()) || name.starts_with("target") || full.is_symlink() {
            continue;
        }
        if full.is_dir() {
            walk(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&full) {
            found.push(Source { path, text });
        }
    }
}

/// Whether `line` contains `what` as whole words: where `what` begins or ends with a letter, digit
/// or `_`, none of these may be next to it.
pub(super) fn has_word(line: &str, what: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_open = |own: Option<char>, other: Option<char>| {
        !(own.is_some_and(is_word) && other.is_some_and(is_word))
    };
    line.match_indices(what).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + what.len()..]);
        is_open(what.chars().next(), before.chars().next_back())
            && is_open(what.chars().next_back(), after.chars().next())
    })
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("use wasmtime::Engine;", "wasmtime"));
    assert!(!has_word("use my_wasmtime::Engine;", "wasmtime"));
    assert!(has_word("a; println!(\"x\")", "println!"));
    assert!(!has_word("eprintln!(\"x\")", "println!"));
}

#[test]
fn comments_are_no_code() {
    let source = Source::new("a.rs", "let a = \"http://b\"; // c\n/// d\ne");
    let code: Vec<_> = source.code().collect();
    assert_eq!(code, [(1, "let a = \"http://b\"; "), (2, ""), (3, "e")]);
}
