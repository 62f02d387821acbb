//! Stores content-addressed files of a session, for data that is not text or is too large for an
//! entry.
//!
//! Owns the file names (the BLAKE3 hash of the content), the size limits, and the check that the
//! content of a file still matches its name. The module must not know the meaning of the bytes.
//! Start from [`SessionBlobs`].

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::Error;
use super::guarded;
use super::log::{
    SessionWriteSyncRule, fsync_folder, write_private_file_with_sync_rule, write_via_unnamed_file,
};
use super::storage::Blobs;
use crate::disk::create_private_folder;
use crate::lock::lock_ignoring_poison;
use crate::message::Blob;

/// Maximum size of a blob, in bytes.
pub const MAX_BLOB_BYTES: u64 = 8 << 20;

/// Maximum size of all blobs of a session, in bytes.
pub const MAX_TOTAL_BLOB_BYTES_PER_SESSION: u64 = 256 << 20;

/// Returns the name under which [`Blobs`] stores a value: the hash of its bytes.
pub(super) fn compute_hash_name(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Whether a text has the form of a name from [`compute_hash_name`]. Names come from plugins and
/// from files that may have been tampered with.
pub(super) fn is_hash_name(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 2 * blake3::OUT_LEN && text.bytes().all(is_hex)
}

/// A folder whose files are named by the BLAKE3 hash of their content.
#[derive(Clone, Debug)]
pub(super) struct HashNamedFilesFolder {
    folder: PathBuf,
    wait: SessionWriteSyncRule,
}

impl HashNamedFilesFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            wait: SessionWriteSyncRule::default(),
        }
    }

    /// Sets whether a write waits until the data is on the disk.
    pub(super) fn with_disk_sync_rule(self, wait: SessionWriteSyncRule) -> Self {
        Self { wait, ..self }
    }

    /// Returns the path for a name, or `None` if the name is not a hash.
    fn file_path(&self, name: &str) -> Option<PathBuf> {
        is_hash_name(name).then(|| self.folder.join(name))
    }

    fn file_path_or_damaged_error(&self, name: &str) -> Result<PathBuf, Error> {
        self.file_path(name)
            .ok_or_else(|| self.damaged_blob_error(name))
    }

    /// Copies all files to the folder of `to`, which does not exist yet. Used for a fork of a
    /// session, which needs its own copies.
    pub(super) fn copy_files_to(&self, to: &Self) -> Result<(), Error> {
        for (from, name) in self.list_files()? {
            create_private_folder(&to.folder)
                .map_err(|source| Error::write_error(&to.folder, source))?;
            let copy = to.folder.join(name);
            guarded::copy_regular_file(&from, &copy)?;
        }
        Ok(())
    }

    fn list_files(&self) -> Result<Vec<(PathBuf, std::ffi::OsString)>, Error> {
        let failed = |source| Error::read_error(&self.folder, source);
        match fs::read_dir(&self.folder) {
            Ok(entries) => entries
                .map(|entry| entry.map(|entry| (entry.path(), entry.file_name())))
                .collect::<Result<_, _>>()
                .map_err(failed),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(failed(source)),
        }
    }
}

impl Blobs for HashNamedFilesFolder {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.file_path_or_damaged_error(name)?;
        if self.get(name).is_ok() {
            return Ok(());
        }
        let failed = |source| Error::write_error(&path, source);
        create_private_folder(&self.folder).map_err(failed)?;
        // Some file systems do not support unnamed files, and a corrupt file may already have this
        // name. In both cases write a temporary file and rename it.
        if write_via_unnamed_file(&path, bytes, self.wait).is_err() {
            let half = self
                .folder
                .join(format!("{name}.{}.half", crate::clock::new_uuid_v7()));
            write_private_file_with_sync_rule(&half, bytes, self.wait)
                .and_then(|()| fs::rename(&half, &path))
                .map_err(|source| {
                    let _ = fs::remove_file(&half);
                    failed(source)
                })?;
        }
        if self.wait == SessionWriteSyncRule::Waits {
            fsync_folder(&self.folder);
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.file_path_or_damaged_error(name)?;
        let bytes = fs::read(&path).map_err(|source| Error::read_error(&path, source))?;
        if compute_hash_name(&bytes) != name {
            return Err(self.damaged_blob_error(name));
        }
        Ok(bytes)
    }

    fn length(&self, name: &str) -> Option<u64> {
        let meta = fs::metadata(self.file_path(name)?);
        meta.ok().map(|meta| meta.len())
    }

    fn total(&self) -> Result<u64, Error> {
        let files = self.list_files()?;
        let sizes = files.iter().map(|(path, _)| fs::metadata(path));
        Ok(sizes.flatten().map(|meta| meta.len()).sum())
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let names = self.list_files()?.into_iter();
        let names = names.filter_map(|(_, name)| name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_hash_name(name)).collect();
        names.sort();
        Ok(names)
    }

    /// Removes the file of this name. Ignores an error, because a file that remains only wastes
    /// space.
    fn release(&self, name: &str) {
        if let Some(path) = self.file_path(name) {
            let _ = fs::remove_file(path);
        }
    }

    fn damaged_blob_error(&self, name: &str) -> Error {
        let path = self.file_path(name).unwrap_or_else(|| self.folder.clone());
        Error::Blob { path }
    }
}

/// Blobs to which the messages of a session and of its subagents refer. Cheap to clone; keeps no
/// file open. The docs of a method say if the method blocks.
#[derive(Clone, Debug)]
pub struct SessionBlobs {
    blobs: Arc<dyn Blobs>,
    /// Total size of all blobs in bytes; `None` until it is first needed.
    total: Arc<Mutex<Option<u64>>>,
}

impl SessionBlobs {
    /// Wraps `blobs` so that the size limits of a session apply to them.
    pub(super) fn new(blobs: Arc<dyn Blobs>) -> Self {
        let total = Arc::default();
        Self { blobs, total }
    }

    /// Stores the bytes of a blob, and returns once they are on the disk, so that no message can
    /// refer to a missing blob. Blocks.
    pub fn put(&self, blob: &Blob, bytes: &[u8]) -> Result<(), Error> {
        if compute_hash_name(bytes) != blob.id {
            return Err(self.blobs.damaged_blob_error(&blob.id));
        }
        self.put_bytes_with_id(&blob.id, bytes)
    }

    /// Returns the id under which a text is stored: the hash of its bytes.
    #[must_use]
    pub fn text_blob_id(text: &str) -> String {
        compute_hash_name(text.as_bytes())
    }

    /// Returns the id under which bytes are stored: their hash.
    #[must_use]
    pub fn compute_blob_id(bytes: &[u8]) -> String {
        compute_hash_name(bytes)
    }

    /// Stores a text under its [id](Self::text_blob_id). Blocks.
    pub fn put_text(&self, text: &str) -> Result<(), Error> {
        self.put_bytes_with_id(&Self::text_blob_id(text), text.as_bytes())
    }

    fn put_bytes_with_id(&self, id: &str, bytes: &[u8]) -> Result<(), Error> {
        let size = bytes.len() as u64;
        let limit = |what: &str, most: u64| Error::BlobLimit {
            size,
            what: format!("{what} has at most {most} bytes"),
        };
        if size > MAX_BLOB_BYTES {
            return Err(limit("a blob", MAX_BLOB_BYTES));
        }
        if self.blobs.get(id).is_ok() {
            return Ok(());
        }
        let mut total = lock_ignoring_poison(&self.total);
        let before = match *total {
            Some(known) => known,
            None => self.blobs.total()?,
        };
        if before + size > MAX_TOTAL_BLOB_BYTES_PER_SESSION {
            return Err(limit(
                "all that a session keeps",
                MAX_TOTAL_BLOB_BYTES_PER_SESSION,
            ));
        }
        self.blobs.put(id, bytes)?;
        *total = Some(before + size);
        Ok(())
    }

    /// Returns the bytes of the blob with this id, unless they are missing or corrupt. Blocks.
    pub fn get(&self, id: &str) -> Result<Vec<u8>, Error> {
        self.blobs.get(id)
    }
}
