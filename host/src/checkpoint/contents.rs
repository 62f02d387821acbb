//! Stores contents of files by hash in a single append-only file.
//!
//! There is only one file because a snapshot stores thousands of contents, which then need only one
//! sync to disk. Owns the frames of the file (hash, length, bytes), the limit on its size, and the
//! check that a content still matches its hash. An incomplete frame at the end, left by a killed
//! process, is dropped. Start from [`FileContentStore`].

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::state::ContentNotStoredReason;
use crate::session::{open_guarded, set_private_permissions};

/// Name of the file in the checkpoint folder with the stored contents of workspace files.
pub(super) const STORED_CONTENTS_FILE_NAME: &str = "contents";

/// Length of the header (hash and length) before each content in the file, in bytes.
const CONTENT_HEADER_SIZE_IN_BYTES: u64 = 32 + 8;

/// Maximum length of a content that is read, in bytes; larger than any stored content. Without this
/// limit, a corrupt length could make the process allocate all memory.
const MAX_STORED_CONTENT_BYTES: u64 = 1 << 30;

type FileContentHash = [u8; 32];

/// Store of the contents of changed files, each under its hash.
#[derive(Debug)]
pub(super) struct FileContentStore {
    path: PathBuf,
    file: File,
    /// Offset in the file, and length, of each content, in bytes.
    index: HashMap<FileContentHash, (u64, u64)>,
    /// Offset in the file at which the last completely stored content ends, in bytes.
    len: u64,
    most: u64,
    /// Whether contents were added to the file since it was last synced to disk.
    is_unsynced: bool,
    /// Error of the disk. The store adds no contents after it.
    failure: Option<String>,
}

fn parse_content_hash(digest: &str) -> Option<FileContentHash> {
    let hash = blake3::Hash::from_hex(digest).ok()?;
    Some(*hash.as_bytes())
}

impl FileContentStore {
    /// Opens the store in `folder` for writing, up to `most` bytes in total. Only one process may
    /// have the store open for writing.
    pub(super) fn open(folder: &Path, most: u64) -> io::Result<Self> {
        let path = folder.join(STORED_CONTENTS_FILE_NAME);
        let mut options = OpenOptions::new();
        set_private_permissions(options.read(true).write(true).create(true).truncate(false));
        let (file, _) = open_guarded(&path, &mut options)?;
        let mut store = Self::new_with_index_from_file(path, file, most)?;
        store.file.set_len(store.len)?;
        store.file.seek(SeekFrom::Start(store.len))?;
        Ok(store)
    }

    /// Opens the store for reading, while another process may append to it. Returns `None` if the
    /// file does not exist.
    pub(super) fn open_read_only(folder: &Path) -> io::Result<Option<Self>> {
        let path = folder.join(STORED_CONTENTS_FILE_NAME);
        match open_guarded(&path, OpenOptions::new().read(true)) {
            Ok((file, _)) => Self::new_with_index_from_file(path, file, 0).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Builds the index of the stored contents from the headers of all complete frames in the file.
    fn new_with_index_from_file(path: PathBuf, file: File, most: u64) -> io::Result<Self> {
        let end = file.metadata()?.len();
        let (mut index, mut at) = (HashMap::new(), 0_u64);
        let mut head = [0_u8; 40];
        while at.saturating_add(CONTENT_HEADER_SIZE_IN_BYTES) <= end {
            file.read_exact_at(&mut head, at)?;
            let (hash, len) = head.split_at(32);
            let len = u64::from_le_bytes(len.try_into().unwrap_or_default());
            let start = at + CONTENT_HEADER_SIZE_IN_BYTES;
            let Some(next) = start.checked_add(len).filter(|next| *next <= end) else {
                break;
            };
            index.insert(hash.try_into().unwrap_or_default(), (start, len));
            at = next;
        }
        Ok(Self {
            path,
            file,
            index,
            len: at,
            most,
            is_unsynced: false,
            failure: None,
        })
    }

    /// Whether the store has the content with this hash.
    pub(super) fn contains(&self, digest: &str) -> bool {
        parse_content_hash(digest).is_some_and(|hash| self.index.contains_key(&hash))
    }

    /// Adds a content with the hash `digest`, unless the store already contains it.
    ///
    /// # Errors
    /// The reason why the content was not stored.
    pub(super) fn store_content(
        &mut self,
        digest: &str,
        content: &[u8],
    ) -> Result<(), ContentNotStoredReason> {
        let hash = parse_content_hash(digest).ok_or(ContentNotStoredReason::Unreadable)?;
        if self.index.contains_key(&hash) {
            return Ok(());
        }
        let len = content.len() as u64;
        if self.failure.is_some() {
            return Err(ContentNotStoredReason::Disk);
        }
        if self.len.saturating_add(CONTENT_HEADER_SIZE_IN_BYTES + len) > self.most {
            return Err(ContentNotStoredReason::Limit);
        }
        let mut frame = Vec::with_capacity(content.len() + 40);
        frame.extend_from_slice(&hash);
        frame.extend_from_slice(&len.to_le_bytes());
        frame.extend_from_slice(content);
        if let Err(error) = self.file.write_all(&frame) {
            self.failure = Some(error.to_string());
            // Truncating may succeed even on a full disk; if it fails, the next process drops the
            // incomplete frame.
            let _ = self.file.set_len(self.len);
            return Err(ContentNotStoredReason::Disk);
        }
        self.index
            .insert(hash, (self.len + CONTENT_HEADER_SIZE_IN_BYTES, len));
        self.len += CONTENT_HEADER_SIZE_IN_BYTES + len;
        self.is_unsynced = true;
        Ok(())
    }

    /// Returns the disk error that stopped all further writes, if there was one.
    pub(super) fn first_write_error(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Syncs all added contents to disk. After an error nothing more is added, because the state of
    /// the disk is unknown.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_unsynced)
            && let Err(error) = self.file.sync_data()
        {
            self.failure = Some(error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// Returns a content after checking its hash; `None` if it is missing or corrupt.
    pub(super) fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let hash = parse_content_hash(digest)?;
        let (at, len) = *self
            .index
            .get(&hash)
            .filter(|(_, len)| *len <= MAX_STORED_CONTENT_BYTES)?;
        let mut content = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut content, at).ok()?;
        (*blake3::hash(&content).as_bytes() == hash).then_some(content)
    }

    /// Atomically rewrites the file so that it contains only these contents.
    pub(super) fn delete_all_contents_except(
        &mut self,
        wanted: &HashSet<String>,
    ) -> io::Result<()> {
        let mut wanted: Vec<(u64, u64)> = wanted
            .iter()
            .filter_map(|digest| self.index.get(&parse_content_hash(digest)?).copied())
            .collect();
        wanted.sort_unstable();
        let n_bytes: u64 = wanted
            .iter()
            .map(|(_, len)| CONTENT_HEADER_SIZE_IN_BYTES + len)
            .sum();
        if n_bytes >= self.len {
            return Ok(());
        }
        let half = self.path.with_extension("half");
        let mut options = OpenOptions::new();
        set_private_permissions(options.read(true).write(true).create(true).truncate(false));
        let (new, _) = open_guarded(&half, &mut options)?;
        new.set_len(0)?;
        let mut out = BufWriter::new(&new);
        for (at, len) in wanted {
            self.file
                .seek(SeekFrom::Start(at - CONTENT_HEADER_SIZE_IN_BYTES))?;
            io::copy(
                &mut Read::by_ref(&mut self.file).take(CONTENT_HEADER_SIZE_IN_BYTES + len),
                &mut out,
            )?;
        }
        out.flush()?;
        drop(out);
        new.sync_data()?;
        fs::rename(&half, &self.path)?;
        let (path, most) = (self.path.clone(), self.most);
        *self = Self::new_with_index_from_file(path, new, most)?;
        self.file.seek(SeekFrom::Start(self.len)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(content: &[u8]) -> String {
        blake3::hash(content).to_hex().to_string()
    }

    #[test]
    fn contents_are_found_again_after_a_torn_write_and_after_others_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FileContentStore::open(folder.path(), 1 << 20).unwrap();
        for content in [&b"one"[..], b"", b"two", b"one"] {
            store.store_content(&digest(content), content).unwrap();
        }
        store.sync().unwrap();
        let len = store.len;
        drop(store);
        let path = folder.path().join(STORED_CONTENTS_FILE_NAME);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&[7; 50]).unwrap();
        let mut store = FileContentStore::open(folder.path(), 1 << 20).unwrap();
        assert_eq!(store.len, len);
        assert_eq!(store.get(&digest(b"two")).unwrap(), b"two");
        assert_eq!(store.get(&digest(b"")).unwrap(), b"");
        assert_eq!(store.get(&digest(b"three")), None);
        let wanted = HashSet::from([digest(b"two"), digest(b"gone")]);
        store.delete_all_contents_except(&wanted).unwrap();
        assert!(store.contains(&digest(b"two")) && !store.contains(&digest(b"one")));
        store.store_content(&digest(b"four"), b"four").unwrap();
        drop(store);
        let store = FileContentStore::open_read_only(folder.path())
            .unwrap()
            .unwrap();
        assert_eq!(store.get(&digest(b"two")).unwrap(), b"two");
        assert_eq!(store.get(&digest(b"four")).unwrap(), b"four");
    }

    #[test]
    fn a_changed_content_is_none_and_the_limit_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FileContentStore::open(folder.path(), 100).unwrap();
        store.store_content(&digest(b"one"), b"one").unwrap();
        let refused = store.store_content(&digest(&[1; 60]), &[1; 60]);
        assert_eq!(refused, Err(ContentNotStoredReason::Limit));
        let path = folder.path().join(STORED_CONTENTS_FILE_NAME);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let store = FileContentStore::open_read_only(folder.path())
            .unwrap()
            .unwrap();
        assert_eq!(store.get(&digest(b"one")), None);
    }
}
