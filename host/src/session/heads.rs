//! The heads of all sessions, with a cache so that a thousand are listed at once.
//!
//! Owns the file `.heads.json` beside the sessions. It is rebuilt when it is missing, damaged or of
//! another version, and a head in it counts only while the size and the time of the session's file
//! are those that it was made from. The cache serves lists and is never trusted for anything else;
//! that it cannot be written is no error. Start from [`SessionStore::heads`].

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::guarded::{self, Lines, MAX_LINE_BYTES};
use super::head::{HeadBuilder, SessionHead};
use super::log::FILE;
use super::{Error, SessionStore};

/// Name of the cache in the folder of all sessions.
pub(super) const CACHE: &str = ".heads.json";

/// Version of the cache. Raise it when heads get another meaning.
const CACHE_VERSION: u32 = 2;

/// Maximum size of a cache that is read, in bytes.
const MAX_CACHE_BYTES: u64 = 256 << 20;

/// Heads of all sessions.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// Heads, the last written first.
    pub rows: Vec<SessionHead>,
    /// Messages about sessions that cannot be read.
    pub notices: Vec<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Cache {
    version: u32,
    heads: BTreeMap<String, Cached>,
}

#[derive(Serialize, Deserialize)]
struct Cached {
    /// Size, seconds and nanoseconds of the last change, and number of the file.
    stamp: (u64, i64, i64, u64),
    head: SessionHead,
}

fn stamp(meta: &Metadata) -> (u64, i64, i64, u64) {
    (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino())
}

impl SessionStore {
    /// Returns the heads of all sessions, the last written first. A session that cannot be read
    /// hides no other one. Takes no lock, and reads only what changed since the last call.
    pub fn heads(&self) -> Result<Heads, Error> {
        let cache = self.files()?.root().join(CACHE);
        let mut known = read_cache(&cache);
        let n_known = known.heads.len();
        let mut fresh = Cache {
            version: CACHE_VERSION,
            ..Cache::default()
        };
        let mut heads = Heads::default();
        let mut n_new = 0;
        for (id, folder) in self.folders()? {
            let path = folder.join(FILE);
            let (file, meta) = match open_session(&folder, &path) {
                Ok(Some(opened)) => opened,
                Ok(None) => continue,
                Err(error) => {
                    heads.notices.push(unreadable(&id, &error));
                    continue;
                }
            };
            let stamp = stamp(&meta);
            let cached = known.heads.remove(&id).filter(|old| old.stamp == stamp);
            let head = match cached {
                Some(cached) if cached.head.id == id => cached.head,
                _ => {
                    n_new += 1;
                    match head(&id, file, &meta) {
                        Ok(head) => head,
                        Err(error) => {
                            heads.notices.push(unreadable(&id, &error));
                            continue;
                        }
                    }
                }
            };
            heads.rows.push(head.clone());
            fresh.heads.insert(id, Cached { stamp, head });
        }
        if n_new > 0 || n_known != fresh.heads.len() {
            write_cache(&cache, &fresh);
        }
        let newest = |a: &SessionHead, b: &SessionHead| (b.updated, &b.id).cmp(&(a.updated, &a.id));
        heads.rows.sort_by(newest);
        Ok(heads)
    }
}

fn write_cache(path: &Path, cache: &Cache) {
    // A cache that cannot be written costs the next list its time, and nothing else.
    if let Ok(bytes) = serde_json::to_vec(cache) {
        let _ = crate::disk::replace_private(path, &bytes);
    }
}

/// Opens the file of a session; `None` if the folder has none.
fn open_session(folder: &Path, path: &Path) -> std::io::Result<Option<(File, Metadata)>> {
    match guarded::open(path) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == ErrorKind::NotFound && folder.exists() => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreadable(id: &str, error: &std::io::Error) -> String {
    format!(
        "session {id} is left out, its file cannot be read: {error}; see `rind session doctor {id}`"
    )
}

fn head(id: &str, file: File, meta: &Metadata) -> std::io::Result<SessionHead> {
    let mut builder = HeadBuilder::default();
    let mut lines = Lines::new(file, MAX_LINE_BYTES);
    while let Some(line) = lines.next()? {
        builder.take(&line);
    }
    Ok(SessionHead {
        id: id.to_owned(),
        bytes: meta.len(),
        updated: meta
            .mtime()
            .saturating_mul(1000)
            .saturating_add(meta.mtime_nsec() / 1_000_000),
        ..builder.finish()
    })
}

/// Reads the cache; an empty one if there is none that can be used.
fn read_cache(path: &Path) -> Cache {
    let read = || {
        let (file, meta) = guarded::open(path).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_CACHE_BYTES.min(meta.len()))
            .read_to_end(&mut bytes)
            .ok()?;
        let cache: Cache = serde_json::from_slice(&bytes).ok()?;
        (cache.version == CACHE_VERSION).then_some(cache)
    };
    read().unwrap_or_default()
}
