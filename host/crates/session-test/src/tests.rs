//! Tests that the stores of the host pass all checks, and that the checks find deliberate faults of
//! other stores.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rind_lib::session::{
    BlobKind, Blobs, FileSessionBackend, MemorySessions, OpenedJournal, SessionPage,
};

use super::*;

fn failed_checks(make: impl Fn() -> StoreHandles) -> Vec<String> {
    let failed = CHECKS.iter().filter_map(|check| check.run(&make()).err());
    failed.collect()
}

#[test]
fn the_session_store_in_files_passes_all_checks() {
    let root = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    let new = || {
        made.set(made.get() + 1);
        let folder = root.path().join(made.get().to_string());
        StoreHandles::new(
            FileSessionBackend::new(&folder),
            FileSessionBackend::new(&folder),
        )
    };
    assert_eq!(failed_checks(new), Vec::<String>::new());
    let new = || {
        made.set(made.get() + 1);
        let files =
            FileSessionBackend::new(root.path().join(made.get().to_string())).without_disk_sync();
        StoreHandles::new(files.clone(), files)
    };
    assert_eq!(failed_checks(new), Vec::<String>::new());
}

#[test]
fn the_in_memory_session_store_passes_all_checks() {
    let new = || {
        let store = MemorySessions::default();
        StoreHandles::new(store.clone(), store)
    };
    assert_eq!(failed_checks(new), Vec::<String>::new());
}

/// Deliberate fault of the store under test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StoreFault {
    /// Several writers can open one session at the same time.
    NoLock,
    /// The store loses frames that wait to be appended.
    LosesWaiting,
    /// A page of the session list repeats the last session of the page before.
    RepeatsPage,
    /// A fork of a session contains none of the session's values.
    ForkWithoutValues,
    /// Removed sessions come back.
    KeepsRemoved,
}

#[derive(Clone, Debug)]
struct FaultyStore(MemorySessions, StoreFault);

struct LosingJournal(Box<dyn Journal>);

impl Journal for LosingJournal {
    fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.0.append(frame)
    }

    fn append_with_next(&mut self, _frame: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn end(&self) -> FramePosition {
        self.0.end()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn take_unsynced(
        &mut self,
    ) -> Result<Option<Box<dyn rind_lib::session::UnsyncedFrames>>, Error> {
        self.0.take_unsynced()
    }

    fn check(&self) -> Result<(), Error> {
        self.0.check()
    }
}

impl Sessions for FaultyStore {
    fn name(&self) -> String {
        self.0.name()
    }

    fn create(&self, at: &SessionAddress) -> Result<Box<dyn Journal>, Error> {
        let journal = self.0.create(at)?;
        Ok(match self.1 {
            StoreFault::LosesWaiting => Box::new(LosingJournal(journal)),
            _ => journal,
        })
    }

    fn open(&self, at: &SessionAddress) -> Result<OpenedJournal, Error> {
        match self.0.open(at) {
            Err(Error::Locked { .. }) if self.1 == StoreFault::NoLock => Ok(OpenedJournal {
                journal: MemorySessions::default().create(at)?,
                lines: self.0.read(at, FramePosition::START)?,
                notices: Vec::new(),
            }),
            opened => opened,
        }
    }

    fn read(&self, at: &SessionAddress, from: FramePosition) -> Result<Vec<u8>, Error> {
        self.0.read(at, from)
    }

    fn contains(&self, at: &SessionAddress) -> bool {
        self.0.contains(at)
    }

    fn blobs(&self, at: &SessionAddress, kind: BlobKind) -> Arc<dyn Blobs> {
        self.0.blobs(at, kind)
    }

    fn folder(&self, at: &SessionAddress) -> Option<PathBuf> {
        self.0.folder(at)
    }

    fn children(&self, at: &SessionAddress) -> Result<Vec<String>, Error> {
        self.0.children(at)
    }

    fn remove(&self, at: &SessionAddress) -> Result<(), Error> {
        match self.1 {
            StoreFault::KeepsRemoved => Ok(()),
            _ => self.0.remove(at),
        }
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, Error> {
        let mut page = self.0.list(after, limit)?;
        if self.1 == StoreFault::RepeatsPage
            && let Some(last) = page.sessions.first().cloned()
        {
            page.sessions.insert(0, last);
        }
        Ok(page)
    }

    fn fork(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if self.1 == StoreFault::ForkWithoutValues {
            return self.0.create(to)?.append(lines);
        }
        self.0.fork(from, to, lines, agents)
    }
}

#[test]
fn each_fault_of_a_store_is_found_by_name() {
    for (fault, expected) in [
        (StoreFault::NoLock, "a_session_has_one_writer"),
        (
            StoreFault::LosesWaiting,
            "frames_that_wait_go_before_the_next_one",
        ),
        (StoreFault::RepeatsPage, "sessions_are_listed_in_pages"),
        (
            StoreFault::ForkWithoutValues,
            "a_fork_has_its_own_lines_values_and_subagents",
        ),
        (
            StoreFault::KeepsRemoved,
            "a_removed_session_is_gone_with_all_that_it_has",
        ),
    ] {
        let new = || {
            let store = FaultyStore(MemorySessions::default(), fault);
            StoreHandles::new(store.clone(), store)
        };
        let found = failed_checks(new);
        let is_named = found.iter().any(|text| text.starts_with(expected));
        assert!(is_named, "{fault:?}: {found:?}");
    }
}
