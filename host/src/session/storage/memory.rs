//! Stores sessions in memory, for the lifetime of the process.
//!
//! Owns only the lines and values of the sessions. Start from [`MemorySessions`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::{
    BlobKind, Blobs, FramePosition, Journal, OpenedJournal, SessionAddress, SessionListItem,
    SessionPage, Sessions, UnsyncedFrames,
};
use crate::clock;
use crate::lock::lock_ignoring_poison;
use crate::session::Error;
use crate::session::blobs::{compute_hash_name, is_hash_name};

/// Name of the store in messages.
const MEMORY_STORE_NAME: &str = "memory";

/// Store for programs that keep no sessions on disk. The sessions are lost when the last clone of
/// this value is dropped.
#[derive(Clone, Default)]
pub struct MemorySessions(Arc<Mutex<BTreeMap<SessionAddress, InMemorySession>>>);

impl std::fmt::Debug for MemorySessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MemorySessions")
            .field(&lock_ignoring_poison(&self.0).len())
            .finish()
    }
}

#[derive(Clone, Default)]
struct InMemorySession {
    lines: Vec<u8>,
    updated: i64,
    /// Whether a writer has the session open.
    is_open: bool,
    content: InMemorySessionBlobs,
    state: InMemorySessionBlobs,
}

impl InMemorySession {
    /// Returns a copy of the session with these lines. Later changes of one do not affect the
    /// other.
    fn deep_copy(&self, lines: Vec<u8>) -> Self {
        Self {
            lines,
            updated: clock::now_ms(),
            is_open: false,
            content: self.content.deep_copy(),
            state: self.state.deep_copy(),
        }
    }
}

fn unknown_session_error(at: &SessionAddress) -> Error {
    Error::Unknown {
        wanted: at.as_str().to_owned(),
        root: PathBuf::from(MEMORY_STORE_NAME),
    }
}

impl MemorySessions {
    fn create_journal(&self, at: &SessionAddress) -> Box<dyn Journal> {
        Box::new(InMemorySessionJournal {
            sessions: self.clone(),
            at: at.clone(),
            waiting: Vec::new(),
        })
    }
}

impl Sessions for MemorySessions {
    fn name(&self) -> String {
        MEMORY_STORE_NAME.to_owned()
    }

    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error> {
        let mut all = lock_ignoring_poison(&self.0);
        if all.contains_key(at) {
            return Err(at.already_exists_error());
        }
        let new = InMemorySession {
            updated: clock::now_ms(),
            is_open: true,
            ..InMemorySession::default()
        };
        all.insert(at.clone(), new);
        Ok(self.create_journal(at))
    }

    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error> {
        let mut all = lock_ignoring_poison(&self.0);
        let kept = all.get_mut(at).ok_or_else(|| unknown_session_error(at))?;
        if std::mem::replace(&mut kept.is_open, true) {
            return Err(Error::Locked {
                path: PathBuf::from(MEMORY_STORE_NAME).join(at.as_str()),
                pid: Some(std::process::id()),
            });
        }
        Ok(OpenedJournal {
            journal: self.create_journal(at),
            lines: kept.lines.clone(),
            notices: Vec::new(),
        })
    }

    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error> {
        let all = lock_ignoring_poison(&self.0);
        let lines = &all.get(at).ok_or_else(|| unknown_session_error(at))?.lines;
        let from = usize::try_from(from.as_u64()).unwrap_or(usize::MAX);
        Ok(lines.get(from..).unwrap_or_default().to_vec())
    }

    fn contains(&self, at: &SessionAddress) -> bool {
        lock_ignoring_poison(&self.0).contains_key(at)
    }

    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs> {
        let kept = lock_ignoring_poison(&self.0)
            .get(at)
            .map(|kept| match kind {
                BlobKind::Content => kept.content.clone(),
                BlobKind::State => kept.state.clone(),
            });
        Arc::new(kept.unwrap_or_default())
    }

    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error> {
        let depth = at.ids_from_root().count();
        let all = lock_ignoring_poison(&self.0);
        if !all.contains_key(at) {
            return Err(unknown_session_error(at));
        }
        let below = all
            .keys()
            .filter(|own| own.is_within_session(at) && own.ids_from_root().count() == depth + 1);
        Ok(below
            .filter_map(|own| own.ids_from_root().last())
            .map(str::to_owned)
            .collect())
    }

    fn remove(&self, at: &SessionAddress) -> Result<(), Error> {
        let mut all = lock_ignoring_poison(&self.0);
        let kept = all.get(at).ok_or_else(|| unknown_session_error(at))?;
        if kept.is_open {
            return Err(Error::Locked {
                path: PathBuf::from(MEMORY_STORE_NAME).join(at.as_str()),
                pid: Some(std::process::id()),
            });
        }
        all.retain(|own, _| !own.is_within_session(at));
        Ok(())
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error> {
        let all = lock_ignoring_poison(&self.0);
        let roots = all
            .iter()
            .filter(|(at, _)| at.as_str() == at.root_session_id());
        let mut rest = roots.filter(|(at, _)| after.is_none_or(|after| at.as_str() > after));
        let listed = |(at, kept): (&SessionAddress, &InMemorySession)| SessionListItem {
            id: at.as_str().to_owned(),
            updated: kept.updated,
            bytes: kept.lines.len() as u64,
        };
        let sessions: Vec<SessionListItem> = rest.by_ref().take(limit).map(listed).collect();
        let last = sessions.last().map(|last| last.id.clone());
        let next = rest.next().and(last);
        Ok(SessionPage { sessions, next })
    }

    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let mut all = lock_ignoring_poison(&self.0);
        if all.contains_key(to) {
            return Err(to.already_exists_error());
        }
        let kept = all.get(from).ok_or_else(|| unknown_session_error(from))?;
        let mut copies = vec![(to.clone(), kept.deep_copy(lines.to_vec()))];
        for (at, kept) in &*all {
            let is_below = at != from && at.is_within_session(from);
            let agent = at.ids_from_root().nth(from.ids_from_root().count());
            if !is_below || !agent.is_some_and(|agent| agents.contains(agent)) {
                continue;
            }
            let below = at.as_str().get(from.as_str().len()..).unwrap_or_default();
            let address = SessionAddress::parse(&format!("{to}{below}"));
            let copy = kept.deep_copy(kept.lines.clone());
            copies.extend(address.map(|address| (address, copy)));
        }
        all.extend(copies);
        Ok(())
    }
}

struct InMemorySessionJournal {
    sessions: MemorySessions,
    at: SessionAddress,
    waiting: Vec<u8>,
}

impl Journal for InMemorySessionJournal {
    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        if frame.is_empty() && self.waiting.is_empty() {
            return Ok(());
        }
        let mut all = lock_ignoring_poison(&self.sessions.0);
        let kept = all
            .get_mut(&self.at)
            .ok_or_else(|| unknown_session_error(&self.at))?;
        kept.lines.append(&mut self.waiting);
        kept.lines.extend_from_slice(frame);
        kept.updated = clock::now_ms();
        Ok(())
    }

    fn append_with_next(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.waiting.extend_from_slice(frame);
        Ok(())
    }

    fn end(&self) -> FramePosition {
        FramePosition::from_u64(self.bytes())
    }

    fn bytes(&self) -> u64 {
        let all = lock_ignoring_poison(&self.sessions.0);
        let written = all.get(&self.at).map_or(0, |kept| kept.lines.len());
        (written + self.waiting.len()) as u64
    }

    fn take_unsynced(&mut self) -> Result<Option<Box<dyn UnsyncedFrames>>, Error> {
        self.write_waiting()?;
        Ok(None)
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for InMemorySessionJournal {
    fn drop(&mut self) {
        // Ignore an error: nothing depends on buffered frames.
        let _ = self.write_waiting();
        if let Some(kept) = lock_ignoring_poison(&self.sessions.0).get_mut(&self.at) {
            kept.is_open = false;
        }
    }
}

#[derive(Clone, Debug, Default)]
struct InMemorySessionBlobs(Arc<Mutex<HashMap<String, Vec<u8>>>>);

impl InMemorySessionBlobs {
    fn deep_copy(&self) -> Self {
        Self(Arc::new(Mutex::new(lock_ignoring_poison(&self.0).clone())))
    }
}

impl Blobs for InMemorySessionBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if !is_hash_name(name) {
            return Err(self.damaged_blob_error(name));
        }
        lock_ignoring_poison(&self.0)
            .entry(name.to_owned())
            .or_insert_with(|| bytes.to_vec());
        Ok(())
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let found = lock_ignoring_poison(&self.0).get(name).cloned();
        let found = found.filter(|bytes| compute_hash_name(bytes) == name);
        found.ok_or_else(|| self.damaged_blob_error(name))
    }

    fn length(&self, name: &str) -> Option<u64> {
        lock_ignoring_poison(&self.0)
            .get(name)
            .map(|bytes| bytes.len() as u64)
    }

    fn total(&self) -> Result<u64, Error> {
        Ok(lock_ignoring_poison(&self.0)
            .values()
            .map(|bytes| bytes.len() as u64)
            .sum())
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = lock_ignoring_poison(&self.0).keys().cloned().collect();
        names.sort();
        Ok(names)
    }

    fn release(&self, name: &str) {
        lock_ignoring_poison(&self.0).remove(name);
    }

    fn damaged_blob_error(&self, name: &str) -> Error {
        let path = PathBuf::from(MEMORY_STORE_NAME).join(name);
        Error::Blob { path }
    }
}
