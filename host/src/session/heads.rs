//! Lists the heads of all sessions, with a cache that makes a list of a thousand sessions fast.
//!
//! Owns the cache file `.heads.json` in the folder that contains all sessions. The file is rebuilt
//! when it is missing, corrupt or of another version, and a head in it is used only while the size,
//! modification time and inode of the session's file are unchanged. The cache serves lists only,
//! and a failure to write the file is not an error. For a store without files, the heads are cached
//! in memory.
//! Start from [`SessionStore::list_session_summaries`].

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::guarded::{self, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use super::head::{SessionSummary, SessionSummaryBuilder};
use super::log::SESSION_FILE_NAME;
use super::storage::{FramePosition, SessionListItem};
use super::store::session_display_path;
use super::{Error, SessionStore};
use crate::lock::lock_ignoring_poison;

/// Name of the file with the cached heads of sessions, in the folder of all sessions.
pub(super) const SUMMARY_CACHE_FILE_NAME: &str = ".heads.json";

/// Version of the cache format. Increase it when the meaning of a head's field changes.
const SUMMARY_CACHE_FORMAT_VERSION: u32 = 2;

/// Maximum size of the cache file, in bytes; a larger one is ignored.
const MAX_SUMMARY_CACHE_FILE_BYTES: u64 = 256 << 20;

/// Summaries ([`SessionSummary`]) of all sessions, and notices about unreadable sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionSummaryList {
    /// Summaries of sessions, the most recently written session first.
    pub rows: Vec<SessionSummary>,
    /// Messages about sessions that cannot be read.
    pub notices: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct SessionSummaryFileCache {
    version: u32,
    heads: BTreeMap<String, CachedSessionSummary>,
}

#[derive(Serialize, Deserialize)]
struct CachedSessionSummary {
    /// Size, modification time (seconds and nanoseconds) and inode number of the session's file
    /// when the head was built.
    stamp: (u64, i64, i64, u64),
    head: SessionSummary,
}

fn file_metadata_stamp(meta: &Metadata) -> (u64, i64, i64, u64) {
    (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino())
}

impl SessionStore {
    /// Returns the heads of all sessions, the most recently written session first. A session that
    /// cannot be read is reported in the notices and does not affect the others. Takes no session's
    /// lock, and reads only the sessions that changed since the last call.
    pub fn list_session_summaries(&self) -> Result<SessionSummaryList, Error> {
        match self.require_file_backend() {
            Ok(files) => {
                self.list_file_backend_summaries(&files.root_folder().join(SUMMARY_CACHE_FILE_NAME))
            }
            Err(_) => self.list_non_file_backend_summaries(),
        }
    }

    /// Returns the heads (summaries) of all sessions in a store that keeps no files. Sessions that
    /// were written since the last call are read completely.
    fn list_non_file_backend_summaries(&self) -> Result<SessionSummaryList, Error> {
        let mut heads = SessionSummaryList::default();
        let mut kept = lock_ignoring_poison(self.cached_session_summaries());
        let mut known = std::mem::take(&mut *kept);
        for listed in self.list_valid_sessions()? {
            let old = known.remove(&listed.id);
            let same =
                |old: &SessionSummary| (old.updated, old.bytes) == (listed.updated, listed.bytes);
            let head = match old.filter(same) {
                Some(head) => head,
                None => match self.read_summary_of_listed_session(&listed) {
                    Ok(head) => head,
                    Err(error) => {
                        heads
                            .notices
                            .push(unreadable_session_notice(&listed.id, &error));
                        continue;
                    }
                },
            };
            heads.rows.push(head.clone());
            kept.insert(listed.id, head);
        }
        heads.sort_newest_first();
        Ok(heads)
    }

    fn read_summary_of_listed_session(
        &self,
        listed: &SessionListItem,
    ) -> Result<SessionSummary, Error> {
        let at = self.session_address(&listed.id)?;
        let lines = self.session_backend().read(&at, FramePosition::START)?;
        let name = session_display_path(&**self.session_backend(), &at);
        let built = build_session_summary_from_lines(&listed.id, &lines[..]);
        Ok(SessionSummary {
            bytes: listed.bytes,
            updated: listed.updated,
            ..built.map_err(|error| Error::read_error(&name, error))?
        })
    }

    fn list_file_backend_summaries(&self, cache: &Path) -> Result<SessionSummaryList, Error> {
        let mut known = read_summary_cache(cache);
        let n_known = known.heads.len();
        let mut fresh = SessionSummaryFileCache {
            version: SUMMARY_CACHE_FORMAT_VERSION,
            ..SessionSummaryFileCache::default()
        };
        let mut heads = SessionSummaryList::default();
        let mut n_new = 0;
        for (id, folder) in self.session_folders()? {
            let path = folder.join(SESSION_FILE_NAME);
            let (file, meta) = match open_session_file(&folder, &path) {
                Ok(Some(opened)) => opened,
                Ok(None) => continue,
                Err(error) => {
                    heads.notices.push(unreadable_session_notice(&id, &error));
                    continue;
                }
            };
            let stamp = file_metadata_stamp(&meta);
            let cached = known.heads.remove(&id).filter(|old| old.stamp == stamp);
            let head = match cached {
                Some(cached) if cached.head.id == id => cached.head,
                _ => {
                    n_new += 1;
                    match build_summary_from_file(&id, file, &meta) {
                        Ok(head) => head,
                        Err(error) => {
                            heads.notices.push(unreadable_session_notice(&id, &error));
                            continue;
                        }
                    }
                }
            };
            heads.rows.push(head.clone());
            fresh.heads.insert(id, CachedSessionSummary { stamp, head });
        }
        if n_new > 0 || n_known != fresh.heads.len() {
            write_summary_cache(cache, &fresh);
        }
        heads.sort_newest_first();
        Ok(heads)
    }
}

impl SessionSummaryList {
    /// Sorts the rows by the time of the last write, newest first.
    fn sort_newest_first(&mut self) {
        let newest =
            |a: &SessionSummary, b: &SessionSummary| (b.updated, &b.id).cmp(&(a.updated, &a.id));
        self.rows.sort_by(newest);
    }
}

fn write_summary_cache(path: &Path, cache: &SessionSummaryFileCache) {
    // Ignore errors: without the cache, the next list is slower but correct.
    if let Ok(bytes) = serde_json::to_vec(cache) {
        let _ = crate::disk::replace_private_file(path, &bytes);
    }
}

/// Opens the file of a session; `None` if the folder exists but has no session file.
fn open_session_file(folder: &Path, path: &Path) -> std::io::Result<Option<(File, Metadata)>> {
    match guarded::open_regular_file(path) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == ErrorKind::NotFound && folder.exists() => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable_session_notice(id: &str, error: &dyn std::error::Error) -> String {
    format!(
        "session {id} is not listed, because it cannot be read: {error}; see `rind session doctor {id}`"
    )
}

fn build_summary_from_file(
    id: &str,
    file: File,
    meta: &Metadata,
) -> std::io::Result<SessionSummary> {
    Ok(SessionSummary {
        bytes: meta.len(),
        updated: meta
            .mtime()
            .saturating_mul(1000)
            .saturating_add(meta.mtime_nsec() / 1_000_000),
        ..build_session_summary_from_lines(id, file)?
    })
}

/// Builds the summary of a session (its head) from the session's lines. The caller sets the size of
/// the session and the time of the last write.
fn build_session_summary_from_lines(id: &str, lines: impl Read) -> std::io::Result<SessionSummary> {
    let mut builder = SessionSummaryBuilder::default();
    let mut lines = LimitedLineReader::new(lines, MAX_SESSION_LINE_BYTES);
    while let Some(line) = lines.next()? {
        builder.apply_line(&line);
    }
    let id = id.to_owned();
    Ok(SessionSummary {
        id,
        ..builder.finish()
    })
}

/// Reads the cache; returns an empty one if the file is missing, corrupt or of another version.
fn read_summary_cache(path: &Path) -> SessionSummaryFileCache {
    let read = || {
        let (file, meta) = guarded::open_regular_file(path).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_SUMMARY_CACHE_FILE_BYTES.min(meta.len()))
            .read_to_end(&mut bytes)
            .ok()?;
        let cache: SessionSummaryFileCache = serde_json::from_slice(&bytes).ok()?;
        (cache.version == SUMMARY_CACHE_FORMAT_VERSION).then_some(cache)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::session::storage::{SessionAddress, Sessions};
    use crate::session::{MemorySessions, SessionTailReader};

    fn line(n: u32, fields: &str) -> Vec<u8> {
        format!("{{\"id\":\"{n}\",\"parent\":null,\"time\":{n},{fields}}}\n").into_bytes()
    }

    fn lines_of(tail: &mut SessionTailReader) -> Vec<u64> {
        let read = tail.read_more().unwrap();
        read.entries.iter().map(|entry| entry.line).collect()
    }

    #[test]
    fn a_store_without_files_has_heads_and_lines_that_can_be_followed() {
        const HEADER: &str =
            r#""type":"session","version":1,"workspace":"/w","provider":"p","model":"m""#;
        const START: &str =
            r#""type":"turn-start","turn":1,"input":"first words","source":"terminal""#;
        let kept = MemorySessions::default();
        let store = SessionStore::with_backend(Arc::new(kept.clone()));
        assert!(store.list_session_summaries().unwrap().rows.is_empty());
        let at = SessionAddress::parse("one").unwrap();
        let mut journal = kept.create(&at).unwrap();
        journal
            .append(&[line(1, HEADER), line(2, START)].concat())
            .unwrap();
        let turns = || store.list_session_summaries().unwrap().rows[0].turns;
        let head = store.list_session_summaries().unwrap().rows.remove(0);
        assert_eq!(
            (&*head.id, &*head.title, head.turns),
            ("one", "first words", 1)
        );
        let mut tail = store.open_session_tail_reader("one").unwrap();
        assert_eq!(lines_of(&mut tail), [1, 2]);
        assert!(lines_of(&mut tail).is_empty());
        journal.append(&line(3, START)).unwrap();
        assert_eq!((lines_of(&mut tail), turns()), (vec![3], 2));
        assert_eq!(
            store
                .read_entries_with_line_numbers("one")
                .unwrap()
                .entries
                .len(),
            3
        );
        assert!(matches!(
            store.read_entries_with_line_numbers("two"),
            Err(Error::Unknown { .. })
        ));
        assert!(
            store.check_session_exists("two").is_err() && store.check_session_exists("one").is_ok()
        );
    }
}
