//! Tests of the session file on disks that fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

use super::*;

/// Disk that accepts all writes and fails each sync after 100 milliseconds.
pub(in crate::session) struct BrokenDisk;

impl BrokenDisk {
    pub(in crate::session) fn new_session_log() -> SessionLog {
        SessionLog::with_log_file_operations(Arc::new(Self), "s.jsonl".into(), 0, None)
    }
}

impl SessionLogFileOperations for BrokenDisk {
    fn append_bytes(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn truncate_file(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Err(io::Error::other("a cable came loose"))
    }
}

/// Disk with limited room: the written bytes, and the maximum number of bytes.
#[derive(Clone)]
pub(in crate::session) struct SmallDisk(pub(in crate::session) Arc<Mutex<(Vec<u8>, usize)>>);

impl SmallDisk {
    pub(in crate::session) fn log(room: usize) -> (Self, SessionLog) {
        let disk = Self(Arc::new(Mutex::new((Vec::new(), room))));
        let log =
            SessionLog::with_log_file_operations(Arc::new(disk.clone()), "s.jsonl".into(), 0, None);
        (disk, log)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
    }
}

impl SessionLogFileOperations for SmallDisk {
    fn append_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let (written, room) = &mut *self.0.lock().unwrap();
        let fits = bytes.len().min(room.saturating_sub(written.len()));
        written.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn truncate_file(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().0.truncate(len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Disk whose sync waits for the test at a barrier twice: when it begins, and before it ends.
#[derive(Clone)]
struct SlowDisk(Arc<Barrier>);

impl Default for SlowDisk {
    fn default() -> Self {
        Self(Arc::new(Barrier::new(2)))
    }
}

impl SessionLogFileOperations for SlowDisk {
    fn append_bytes(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn truncate_file(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.wait();
        self.0.wait();
        Ok(())
    }
}

/// Disk that counts its syncs.
#[derive(Clone, Default)]
struct CountingDisk(Arc<AtomicUsize>);

impl SessionLogFileOperations for CountingDisk {
    fn append_bytes(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn truncate_file(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_only_whole_lines() {
    let (disk, mut log) = SmallDisk::log(8);
    log.append(b"one\n").unwrap();
    let error = log.append(b"second\n").unwrap_err().to_string();
    assert_eq!(error, "cannot write s.jsonl");
    assert_eq!(disk.text(), "one\n");
}

#[test]
fn buffered_lines_are_written_before_the_next_one_and_survive_a_full_disk() {
    let (disk, mut log) = SmallDisk::log(12);
    log.append_with_next(b"one\n").unwrap();
    assert_eq!((disk.text().as_str(), log.end().as_u64()), ("", 4));
    log.append(b"two\n").unwrap();
    assert_eq!(
        (disk.text().as_str(), log.end().as_u64()),
        ("one\ntwo\n", 8)
    );
    log.append_with_next(b"three\n").unwrap();
    log.append(b"four\n").unwrap_err();
    assert_eq!(disk.text(), "one\ntwo\n");
    disk.0.lock().unwrap().1 = 100;
    log.sync().unwrap();
    assert_eq!(disk.text(), "one\ntwo\nthree\n");
    log.append_with_next(b"last\n").unwrap();
    drop(log);
    assert_eq!(disk.text(), "one\ntwo\nthree\nlast\n");
}

#[test]
fn a_disk_failure_is_reported_once_and_stops_all_later_appends() {
    let why = |error: Error| std::error::Error::source(&error).unwrap().to_string();
    let mut log = BrokenDisk::new_session_log();
    log.append(b"one\n").unwrap();
    // Another thread waits for the disk.
    log.take_unsynced().unwrap().unwrap().wait_for_sync();
    assert_eq!(why(log.append(b"two\n").unwrap_err()), "a cable came loose");
    let later = "an earlier write to the disk failed; open the session again";
    assert_eq!(why(log.append(b"two\n").unwrap_err()), later);
    assert_eq!(why(log.sync().unwrap_err()), later);
    assert_eq!(log.end().as_u64(), 4);
}

#[test]
fn lines_appended_during_a_sync_are_synced_next_time() {
    let disk = SlowDisk::default();
    let mut log =
        SessionLog::with_log_file_operations(Arc::new(disk.clone()), "s.jsonl".into(), 0, None);
    log.append(b"one\n").unwrap();
    let one = log.take_unsynced().unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || one.wait_for_sync());
        disk.0.wait();
        log.append(b"two\n").unwrap();
        disk.0.wait();
    });
    let two = log.take_unsynced().unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || two.wait_for_sync());
        disk.0.wait();
        disk.0.wait();
    });
    assert!(log.take_unsynced().unwrap().is_none());
}

#[test]
fn one_sync_covers_all_lines_appended_before_it() {
    let disk = CountingDisk::default();
    let mut log =
        SessionLog::with_log_file_operations(Arc::new(disk.clone()), "s.jsonl".into(), 0, None);
    let waits: Vec<_> = (0..20)
        .map(|_| {
            log.append(b"line\n").unwrap();
            log.take_unsynced().unwrap().unwrap()
        })
        .collect();
    for wait in waits {
        wait.wait_for_sync();
    }
    assert_eq!(disk.0.load(Ordering::Relaxed), 1);
    assert!(log.take_unsynced().unwrap().is_none());
}

#[test]
fn a_line_can_be_appended_again_after_disk_space_was_freed() {
    let (disk, mut log) = SmallDisk::log(8);
    log.append(b"one\n").unwrap();
    log.append(b"second\n").unwrap_err();
    disk.0.lock().unwrap().1 = 100;
    log.append(b"second\n").unwrap();
    log.sync().unwrap();
    assert_eq!(disk.text(), "one\nsecond\n");
}

#[test]
fn a_closed_session_can_be_opened_while_a_child_process_has_its_lock_file_open() {
    let folder = tempfile::tempdir().unwrap();
    let log = SessionLog::create_log(folder.path(), SessionWriteSyncRule::Waits).unwrap();
    // Simulates a child process between fork and exec, which inherits the descriptor.
    let inherited = log.lock.as_ref().unwrap().try_clone().unwrap();
    assert!(matches!(
        SessionLog::open_log(folder.path()),
        Err(Error::Locked { .. })
    ));
    drop(log);
    SessionLog::open_log(folder.path()).unwrap();
    drop(inherited);
}

#[test]
fn a_session_is_not_opened_through_a_symlink_and_the_target_stays_unchanged() {
    for name in [SESSION_FILE_NAME, LOCK_FILE_NAME] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("session")).unwrap();
        drop(SessionLog::create_log(&at("session"), SessionWriteSyncRule::Waits).unwrap());
        std::fs::write(at("elsewhere"), "mine").unwrap();
        std::fs::remove_file(at("session").join(name)).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("session").join(name)).unwrap();
        let Err(error) = SessionLog::open_log(&at("session")) else {
            panic!("{name} was opened");
        };
        let why = std::error::Error::source(&error).map(ToString::to_string);
        let said = format!("{error}: {}", why.unwrap_or_default());
        assert!(said.contains("links are not followed"), "{said}");
        assert_eq!(std::fs::read_to_string(at("elsewhere")).unwrap(), "mine");
    }
}

#[test]
fn a_temporary_session_is_not_synced_and_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SessionLog::create_log(folder.path(), SessionWriteSyncRule::Skips).unwrap();
    log.append(b"{}\n").unwrap();
    log.append_with_next(b"{\"a\":1}\n").unwrap();
    assert!(log.take_unsynced().unwrap().is_none());
    log.sync().unwrap();
    drop(log);
    let opened = SessionLog::open_log(folder.path()).unwrap();
    assert_eq!(opened.bytes, b"{}\n{\"a\":1}\n");
}
