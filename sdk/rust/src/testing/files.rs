//! Simulates the plugin's folders `workspace` and `data` in memory. Both are granted to read and
//! write.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::files::{Entry, Kind};
use crate::types::Error;

/// Maximum number of bytes that one call reads or writes, as in the real host.
const MAX_BYTES: usize = 16 << 20;

thread_local! {
    /// Files and folders by path: the bytes of a file, `None` for a folder.
    static FILES: RefCell<BTreeMap<String, Option<Vec<u8>>>> = RefCell::default();
}

/// Removes all files on this thread.
pub(super) fn reset() {
    FILES.with(|files| files.borrow_mut().clear());
}

/// Writes a file, and creates the folders above it.
///
/// # Panics
/// The path does not begin with `workspace/` or `data/`, or leads out of that folder.
#[expect(
    clippy::expect_used,
    reason = "a test that passes nonsense should stop"
)]
pub fn put_file(path: &str, content: impl Into<Vec<u8>>) {
    let path = check_path(path).expect("a path in `workspace/` or `data/`");
    FILES.with(|files| {
        let mut files = files.borrow_mut();
        for (at, _) in path.match_indices('/') {
            files.entry(path[..at].to_owned()).or_insert(None);
        }
        files.insert(path.to_owned(), Some(content.into()));
    });
}

/// Returns the bytes of a file, if it exists.
#[must_use]
pub fn file(path: &str) -> Option<Vec<u8>> {
    FILES.with(|files| files.borrow().get(path).cloned().flatten())
}

fn check_path(path: &str) -> Result<&str, Error> {
    let path = path.trim_end_matches('/');
    let mut parts = path.split('/');
    let is_granted = matches!(parts.next(), Some("workspace" | "data"));
    if is_granted && parts.all(|part| !matches!(part, "" | "." | "..")) {
        return Ok(path);
    }
    Err(Error::Denied(format!(
        "{path}: the plugin was not granted this folder"
    )))
}

fn is_folder(files: &BTreeMap<String, Option<Vec<u8>>>, path: &str) -> bool {
    matches!(path, "workspace" | "data") || matches!(files.get(path), Some(None))
}

/// Checks that the parent folder of a path exists.
fn check_parent_folder(files: &BTreeMap<String, Option<Vec<u8>>>, path: &str) -> Result<(), Error> {
    match path.rsplit_once('/') {
        Some((above, _)) if is_folder(files, above) => Ok(()),
        _ => Err(Error::NotFound(format!(
            "{path}: its folder does not exist"
        ))),
    }
}

fn with_files<T>(
    path: &str,
    work: impl FnOnce(&mut BTreeMap<String, Option<Vec<u8>>>, &str) -> Result<T, Error>,
) -> Result<T, Error> {
    let path = check_path(path)?;
    FILES.with(|files| work(&mut files.borrow_mut(), path))
}

pub(crate) mod host {
    use super::{Entry, Error, Kind, MAX_BYTES, check_parent_folder, is_folder, with_files};

    pub(crate) fn read(path: &str, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
        let length = length as usize;
        if length > MAX_BYTES {
            return Err(Error::Limit(format!(
                "one call may read at most {MAX_BYTES} bytes"
            )));
        }
        with_files(path, |files, path| match files.get(path) {
            Some(Some(bytes)) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                Ok(rest[..rest.len().min(length)].to_vec())
            }
            _ => Err(Error::NotFound(format!("{path}: no such file"))),
        })
    }

    pub(crate) fn write(path: &str, content: &[u8]) -> Result<(), Error> {
        change_file_bytes(path, content, |old, new| {
            old.clear();
            old.extend_from_slice(new);
        })
    }

    pub(crate) fn append(path: &str, content: &[u8]) -> Result<(), Error> {
        change_file_bytes(path, content, |old, new| old.extend_from_slice(new))
    }

    fn change_file_bytes(
        path: &str,
        content: &[u8],
        change: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) -> Result<(), Error> {
        if content.len() > MAX_BYTES {
            return Err(Error::Limit(format!(
                "one call may write at most {MAX_BYTES} bytes"
            )));
        }
        with_files(path, |files, path| {
            if is_folder(files, path) {
                return Err(Error::Failed(format!("{path} is a folder")));
            }
            check_parent_folder(files, path)?;
            let file = files.entry(path.to_owned()).or_default();
            change(file.get_or_insert_default(), content);
            Ok(())
        })
    }

    pub(crate) fn list(path: &str) -> Result<Vec<Entry>, Error> {
        with_files(path, |files, path| {
            if !is_folder(files, path) {
                return Err(Error::NotFound(format!("{path}: no such folder")));
            }
            let inside = files.iter().filter_map(|(other, content)| {
                let name = other.strip_prefix(path)?.strip_prefix('/')?;
                (!name.contains('/')).then(|| Entry {
                    name: name.to_owned(),
                    kind: if content.is_some() {
                        Kind::File
                    } else {
                        Kind::Folder
                    },
                    size: content.as_ref().map_or(0, |bytes| bytes.len() as u64),
                })
            });
            Ok(inside.collect())
        })
    }

    pub(crate) fn create_folder(path: &str) -> Result<(), Error> {
        with_files(path, |files, path| {
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            let folders: Vec<&str> = above.chain([path]).collect();
            let is_file = |path: &&&str| matches!(files.get(**path), Some(Some(_)));
            if let Some(file) = folders.iter().find(is_file) {
                return Err(Error::Failed(format!("{file} is a file")));
            }
            files.extend(folders.iter().map(|path| ((*path).to_owned(), None)));
            Ok(())
        })
    }

    pub(crate) fn remove(path: &str) -> Result<(), Error> {
        with_files(path, |files, path| {
            let below = format!("{path}/");
            if files.keys().any(|other| other.starts_with(&below)) {
                return Err(Error::Failed(format!("{path}: the folder is not empty")));
            }
            match files.remove(path) {
                Some(_) => Ok(()),
                None => Err(Error::NotFound(format!("{path}: nothing is there"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn files_are_kept_in_memory_and_nothing_leads_out() {
        crate::testing::reset();
        put_file("workspace/docs/a.md", "text");
        assert_eq!(
            files::read_to_string("workspace/docs/a.md").unwrap(),
            "text"
        );
        assert!(matches!(
            files::write("data/sub/x", b"1"),
            Err(Error::NotFound(_))
        ));
        files::create_folder("data/sub/deep").unwrap();
        files::write("data/sub/x", b"1").unwrap();
        files::append("data/sub/x", b"2").unwrap();
        assert_eq!(file("data/sub/x").unwrap(), b"12");
        let names: Vec<String> = files::list("data/sub")
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect();
        assert_eq!(names, ["deep", "x"]);
        assert!(matches!(files::remove("data/sub"), Err(Error::Failed(_))));
        files::remove("data/sub/deep").unwrap();
        for outside in ["/etc/passwd", "workspace/../data/sub/x", "elsewhere/x", ""] {
            assert!(
                matches!(files::read_all(outside), Err(Error::Denied(_))),
                "{outside}"
            );
        }
        crate::testing::reset();
        assert_eq!(file("data/sub/x"), None);
    }
}
