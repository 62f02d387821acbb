//! State of one path of the workspace: kind, mode, and hash of the content.
//!
//! Owns how a state is read: relative to an open folder, without following symlinks, and up to a
//! maximum size of the file. The module must not know what the state is used for. Start from
//! [`FileState`] and [`read_path_state`].

use std::io::{self, ErrorKind, Read};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use rustix::fs::readlinkat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::{
    MissingParentFolderHandling, PATH_ESCAPE_ERROR, PathWalkResult, open_regular_file,
    walk_path_beneath,
};

/// Bits of a mode that are stored: permissions, set-id and sticky.
const STORED_FILE_MODE_MASK: u32 = 0o7777;

/// Reason why the content of a file was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentNotStoredReason {
    /// The file is larger than the limit for one file.
    TooLarge,
    /// The limit on the total size of the snapshot or of the session is reached.
    Limit,
    /// The file could not be read.
    Unreadable,
    /// The content cannot be written to the folder of the session.
    Disk,
}

impl ContentNotStoredReason {
    /// Returns the reason as text for the user.
    #[must_use]
    pub fn describe_reason(self) -> &'static str {
        match self {
            Self::TooLarge => "it was too large to be kept",
            Self::Limit => "the limit of what is kept was reached",
            Self::Unreadable => "it could not be read",
            Self::Disk => "it could not be written to the folder of the session",
        }
    }
}

/// State of a path of the workspace at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileState {
    /// No file, folder or other entry exists at this path.
    Absent,
    /// Regular file whose content is in the store of contents.
    File {
        /// BLAKE3 hash of the content, under which it is stored.
        digest: String,
        /// Length of the file in bytes.
        bytes: u64,
        /// Mode bits of the file: permissions, set-id and sticky.
        mode: u32,
    },
    /// Symbolic link.
    Link {
        /// Target of the link as it is stored in the link.
        target: String,
    },
    /// Folder, without its contents.
    Folder {
        /// Mode bits of the folder: permissions, set-id and sticky.
        mode: u32,
    },
    /// Regular file whose content is not stored.
    Unkept {
        /// Length of the file in bytes.
        bytes: u64,
        /// Attributes of the file whose change reveals that the content changed.
        stamp: FileStamp,
        /// Reason why the content of the file is not stored.
        why: ContentNotStoredReason,
    },
    /// Pipe, socket, device, or a symlink whose target is not UTF-8.
    Other,
}

impl FileState {
    /// Whether both states are the same. Two files whose contents are not stored are the same if
    /// their attributes are; the reasons why they are not stored may differ.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unkept { stamp, .. }, Self::Unkept { stamp: own, .. }) => stamp == own,
            _ => self == other,
        }
    }

    /// Whether both are files with the same content, both are folders, or both are the same state.
    /// Modes are ignored.
    #[must_use]
    pub fn has_same_content_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { digest, .. }, Self::File { digest: own, .. }) => digest == own,
            (Self::Folder { .. }, Self::Folder { .. }) => true,
            _ => self.is_same_state(other),
        }
    }

    /// Returns the hash of the content; `None` unless this is a file whose content is stored.
    #[must_use]
    pub fn content_digest(&self) -> Option<&str> {
        match self {
            Self::File { digest, .. } => Some(digest),
            _ => None,
        }
    }

    /// Whether the path was a folder in this state.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }
}

/// Attributes of a file, from which a change of its content is detected without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    inode: u64,
    bytes: u64,
    modified_ns: i64,
    changed_ns: i64,
}

impl FileStamp {
    /// Takes the attributes from the metadata of a file.
    pub(super) fn from_file_metadata(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the time of the last change of content or attributes (ctime), in nanoseconds since
    /// 1970.
    pub(super) fn last_change_ns(self) -> i64 {
        self.changed_ns
    }
}

/// Returns the permission, set-id and sticky bits of a file.
pub(super) fn permission_bits(metadata: &Metadata) -> u32 {
    metadata.mode() & STORED_FILE_MODE_MASK
}

/// Opens the parent folder of `path` without following symlinks. Returns `None` if one of the
/// parent folders is missing, is not a folder, or is a symlink.
pub(super) fn open_parent_without_symlinks(
    root: &Dir,
    path: &str,
) -> io::Result<Option<PathWalkResult>> {
    let walked = match walk_path_beneath(root, path, false, MissingParentFolderHandling::Refused) {
        Ok(walked) => walked,
        // A symlink among the parents leads out of the workspace or in a circle, so the path does
        // not exist.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ILSEQ) => return Ok(None),
        Err(errno) if errno == PATH_ESCAPE_ERROR => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // If a symlink led to another folder of the workspace, the path itself does not exist.
    Ok((walked.names.join("/") == path).then_some(walked))
}

/// State of a path, with the content if it is a regular file within the size limit.
#[derive(Debug)]
pub(super) struct PathStateWithContent {
    pub(super) state: FileState,
    pub(super) content: Option<Vec<u8>>,
}

impl From<FileState> for PathStateWithContent {
    fn from(state: FileState) -> Self {
        let content = None;
        Self { state, content }
    }
}

/// Reads the state of a path relative to `root`. Files of more than `most` bytes are not read.
pub(super) fn read_path_state(
    root: &Dir,
    path: &str,
    most: u64,
) -> io::Result<PathStateWithContent> {
    match open_parent_without_symlinks(root, path)? {
        Some(walked) => read_entry_state(&walked.folder, &walked.name, most),
        None => Ok(FileState::Absent.into()),
    }
}

/// Reads the state of the entry `name` in an open folder. Files of more than `most` bytes are not
/// read.
pub(super) fn read_entry_state(
    folder: &Dir,
    name: &str,
    most: u64,
) -> io::Result<PathStateWithContent> {
    let metadata = match folder.symlink_metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FileState::Absent.into()),
        Err(error) => return Err(error),
    };
    if metadata.is_file() {
        return Ok(read_file_state(folder, name, &metadata, most));
    }
    Ok(non_file_entry_state(folder, name, &metadata).into())
}

/// Returns the state of the entry `name` of a folder, which is not a regular file.
pub(super) fn non_file_entry_state(folder: &Dir, name: &str, metadata: &Metadata) -> FileState {
    if metadata.is_dir() {
        let mode = permission_bits(metadata);
        return FileState::Folder { mode };
    }
    if !metadata.is_symlink() {
        return FileState::Other;
    }
    let target = readlinkat(folder, name, Vec::new()).ok();
    let target = target.and_then(|target| target.into_string().ok());
    target.map_or(FileState::Other, |target| FileState::Link { target })
}

/// Reads a regular file. The state is `Unkept` if the file has more than `most` bytes or cannot be
/// read.
pub(super) fn read_file_state(
    folder: &Dir,
    name: &str,
    metadata: &Metadata,
    most: u64,
) -> PathStateWithContent {
    let unkept = |why| FileState::Unkept {
        bytes: metadata.len(),
        stamp: FileStamp::from_file_metadata(metadata),
        why,
    };
    if metadata.len() > most {
        return unkept(ContentNotStoredReason::TooLarge).into();
    }
    let mut content = Vec::new();
    let read = open_regular_file(folder, name.as_ref()).and_then(|opened| match opened {
        // Limit the number of bytes that are read, because the file may grow meanwhile.
        Some((file, _)) => file.take(most.saturating_add(1)).read_to_end(&mut content),
        None => Err(ErrorKind::NotFound.into()),
    });
    match read {
        Ok(_) if content.len() as u64 > most => unkept(ContentNotStoredReason::TooLarge).into(),
        Ok(_) => PathStateWithContent {
            state: FileState::File {
                digest: blake3::hash(&content).to_hex().to_string(),
                bytes: content.len() as u64,
                mode: permission_bits(metadata),
            },
            content: Some(content),
        },
        Err(_) => unkept(ContentNotStoredReason::Unreadable).into(),
    }
}
