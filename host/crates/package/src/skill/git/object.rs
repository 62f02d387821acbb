//! Computes the names of git objects, which are hashes of their content, and parses commits and
//! trees.

use std::fmt::Write;

use anyhow::{Context, ensure};
use sha1_checked::Digest;
use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GitObjectKind {
    Blob,
    Commit,
    Tree,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitTreeEntry {
    /// Type and permissions of the entry, in octal digits.
    pub(super) mode: String,
    pub(super) name: Vec<u8>,
    pub(super) object: String,
}

impl GitObjectKind {
    /// Returns the word by which git denotes this type of object.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Commit => "commit",
            Self::Tree => "tree",
        }
    }
}

/// Computes the name of an object with this content, as 40 or 64 hex digits; `None` if the content
/// shows signs of a SHA-1 collision attack.
pub(super) fn compute_object_hash(
    kind: GitObjectKind,
    content: &[u8],
    n_digits: usize,
) -> Option<String> {
    let head = format!("{} {}\0", kind.type_name(), content.len());
    if n_digits == 64 {
        let hasher = Sha256::new().chain_update(head).chain_update(content);
        return Some(hex_object_name(&hasher.finalize()));
    }
    let mut hasher = sha1_checked::Sha1::new();
    hasher.update(head.as_bytes());
    hasher.update(content);
    let outcome = hasher.try_finalize();
    (!outcome.has_collision()).then(|| hex_object_name(outcome.hash()))
}

/// Returns the object id of a commit's root tree; `None` if the commit is malformed.
pub(super) fn parse_root_tree_id(commit: &[u8]) -> Option<String> {
    let line = commit.split(|byte| *byte == b'\n').next()?;
    let name = std::str::from_utf8(line).ok()?.strip_prefix("tree ")?;
    Some(name.to_owned())
}

/// Parses the entries of a tree object. The hashes in it have `n_digits` hexadecimal digits (40 or
/// 64).
pub(super) fn parse_tree_entries(
    mut tree: &[u8],
    n_digits: usize,
) -> anyhow::Result<Vec<GitTreeEntry>> {
    const UNREADABLE_TREE_ERROR: &str = "a tree of the commit cannot be read";
    let mut entries = Vec::new();
    while !tree.is_empty() {
        let end = tree
            .iter()
            .position(|byte| *byte == 0)
            .context(UNREADABLE_TREE_ERROR)?;
        let (head, rest) = tree.split_at(end);
        let (object, rest) = rest
            .split_at_checked(1 + n_digits / 2)
            .context(UNREADABLE_TREE_ERROR)?;
        let blank = head
            .iter()
            .position(|byte| *byte == b' ')
            .context(UNREADABLE_TREE_ERROR)?;
        let (mode, name) = head.split_at(blank);
        let name = name.get(1..).unwrap_or_default();
        ensure!(!name.is_empty(), UNREADABLE_TREE_ERROR);
        entries.push(GitTreeEntry {
            mode: String::from_utf8_lossy(mode).into_owned(),
            name: name.to_vec(),
            object: hex_object_name(object.get(1..).unwrap_or_default()),
        });
        tree = rest;
    }
    Ok(entries)
}

fn hex_object_name(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_names_that_git_gives_them() {
        let table = [
            (
                GitObjectKind::Blob,
                40,
                "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
            ),
            (
                GitObjectKind::Tree,
                40,
                "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            ),
            (
                GitObjectKind::Blob,
                64,
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ];
        for (kind, n_digits, name) in table {
            assert_eq!(
                compute_object_hash(kind, b"", n_digits).as_deref(),
                Some(name)
            );
        }
    }

    #[test]
    fn entries_of_a_tree_are_whole_or_refused() {
        let tree = [
            b"40000 a b\0".as_slice(),
            &[1; 20],
            b"100644 c\0",
            &[255; 20],
        ]
        .concat();
        let read = parse_tree_entries(&tree, 40).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[0].mode.as_str(), read[0].name.as_slice()),
            ("40000", &b"a b"[..])
        );
        assert_eq!(read[1].object, "ff".repeat(20));
        for torn in [&tree[..tree.len() - 1], &tree[..5], b"\0", b"1 \0"] {
            parse_tree_entries(torn, 40).unwrap_err();
        }
    }
}
