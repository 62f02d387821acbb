//! Defines the manifest of a snapshot, which lists its files, and checks the paths in it. Start
//! from [`FolderManifest`].

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

/// Name of the worker's own folder, a subfolder of the folder with a session's files. Snapshots do
/// not contain it.
pub(super) const WORKER_PRIVATE_FOLDER_NAME: &str = ".rind-worker";

/// Version of the format of a snapshot's manifest.
const MANIFEST_FORMAT_VERSION: u32 = 1;

/// Maximum length of a file's path in a snapshot, in bytes.
const MAX_FILE_PATH_BYTES: usize = 4_096;

/// Maximum length of a snapshot's manifest, in bytes.
pub(super) const MAX_SNAPSHOT_MANIFEST_BYTES: u64 = 64 << 20;

/// List of the files, folders and links in a snapshot. Paths are relative to the session's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderManifest {
    version: u32,
    /// Folders in the snapshot; a folder precedes the folders that it contains.
    pub(super) folders: Vec<ManifestFolderEntry>,
    pub(super) files: Vec<ManifestFileEntry>,
    pub(super) links: Vec<ManifestSymlinkEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestFolderEntry {
    pub(super) path: String,
    pub(super) mode: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestFileEntry {
    pub(super) path: String,
    pub(super) mode: u32,
    /// Hash of the content, under which the content is stored as a value of the session.
    pub(super) hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestSymlinkEntry {
    pub(super) path: String,
    pub(super) target: String,
}

impl Default for FolderManifest {
    fn default() -> Self {
        Self {
            version: MANIFEST_FORMAT_VERSION,
            folders: Vec::new(),
            files: Vec::new(),
            links: Vec::new(),
        }
    }
}

impl FolderManifest {
    /// Returns the number of files, folders and links in the snapshot.
    pub(super) fn n_entries(&self) -> usize {
        self.files.len() + self.folders.len() + self.links.len()
    }

    /// Parses a manifest. Refuses it if a path or the target of a link is outside the session's
    /// folder.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if read.version != MANIFEST_FORMAT_VERSION {
            return Err(format!(
                "the snapshot has format version {}, but this worker reads only version \
                 {MANIFEST_FORMAT_VERSION}; update the worker",
                read.version
            ));
        }
        let folders = read.folders.iter().map(|folder| &folder.path);
        let files = read.files.iter().map(|file| &file.path);
        let links = read.links.iter().map(|link| &link.path);
        if let Some(path) = folders
            .chain(files)
            .chain(links)
            .find(|path| !is_in_session_folder(path))
        {
            return Err(format!(
                "the path `{}` leads out of the folder of the session",
                quote_path(path)
            ));
        }
        let leaves =
            |link: &&ManifestSymlinkEntry| !is_link_target_inside(&link.path, &link.target);
        if let Some(link) = read.links.iter().find(leaves) {
            return Err(format!(
                "the link `{}` leads out of the folder of the session",
                quote_path(&link.path)
            ));
        }
        Ok(read)
    }
}

fn quote_path(path: &str) -> String {
    rind_lib::text::escape_and_truncate_line(path, 200)
}

/// Whether a path is in the session's folder, but not in the subfolder that the worker itself uses.
pub(super) fn is_in_session_folder(path: &str) -> bool {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    let are_names = parts
        .iter()
        .all(|part| matches!(part, Component::Normal(_)));
    let is_own = parts.first() == Some(&Component::Normal(WORKER_PRIVATE_FOLDER_NAME.as_ref()));
    !parts.is_empty()
        && are_names
        && !is_own
        && path.len() <= MAX_FILE_PATH_BYTES
        && !path.contains('\0')
}

/// Whether the target of the link at `path` is in the session's folder, but not in the subfolder
/// that the worker itself uses.
pub(super) fn is_link_target_inside(path: &str, target: &str) -> bool {
    if target.is_empty() || target.len() > MAX_FILE_PATH_BYTES || target.contains('\0') {
        return false;
    }
    let mut at: Vec<Component<'_>> = Path::new(path).components().collect();
    at.pop();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(_) => at.push(part),
            Component::CurDir => {}
            Component::ParentDir if at.pop().is_some() => {}
            _ => return false,
        }
    }
    at.first() != Some(&Component::Normal(WORKER_PRIVATE_FOLDER_NAME.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_that_leave_the_folder_are_refused() {
        for path in [
            "../a",
            "/a",
            "a/../../b",
            "",
            ".",
            "a/..",
            ".rind-worker/x",
            "a\0b",
        ] {
            assert!(!is_in_session_folder(path), "{path}");
        }
        for path in ["a", "a/b.c", ".git/config", "a/.rind-worker"] {
            assert!(is_in_session_folder(path), "{path}");
        }
        for (path, target) in [
            ("a", "../x"),
            ("a/b", "../../x"),
            ("a", "/etc/passwd"),
            ("a", ".rind-worker/next"),
            ("a/b", "../.rind-worker"),
            ("a", ""),
        ] {
            assert!(!is_link_target_inside(path, target), "{path} -> {target}");
        }
        assert!(is_link_target_inside("a/b", "../c"));
        assert!(is_link_target_inside("a", "b/c"));
        let file = |path: &str| {
            format!(
                "{{\"version\":1,\"folders\":[],\"links\":[],\"files\":[{{\"path\":\"{path}\",\"mode\":420,\"hash\":\"\"}}]}}"
            )
        };
        assert!(FolderManifest::parse(file("a").as_bytes()).is_ok());
        let refused = FolderManifest::parse(file("../a").as_bytes()).unwrap_err();
        assert!(
            refused.contains("`../a` leads out of the folder"),
            "{refused}"
        );
    }
}
