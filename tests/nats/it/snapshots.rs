//! Tests of snapshots: the files of a session move with it from worker to worker.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rind_lib::session::{Journal, SessionAddress, SessionBlobs, SessionStore, Sessions};
use rind_nats::{
    LostFileChangesReport, NatsError, NatsSessions, SnapshotSizeLimits, SnapshotStoreError,
    WorkspaceSnapshotStore,
};
use rind_nats_tests::{Machine, NatsServers, ServerSetup};

use super::front::start;

const SCRIPT: &str = r#"
[[reply]]
when = { contains = "make files", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo one > kept; printf 'ran' > sub.sh; chmod 750 sub.sh; mkdir -p d/e; echo deep > d/e/f; ln -s kept link; echo skipped > .gitignore; echo x > skipped" } }]
[[reply]]
when = { contains = "go on", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo two >> kept; stat -c %a sub.sh; cat link d/e/f; ls -A" } }]
[[reply]]
when = { contains = "change and hang", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo torn >> kept" } }]
[[reply]]
when = { contains = "change and hang", step = 2 }
times = 1
delay_ms = 60000
text = "Too late."
[[reply]]
times = 0
text = "Done."
"#;

fn folder(machine: &Machine, name: &str) -> String {
    let path = machine.path(name);
    std::fs::create_dir_all(&path).unwrap();
    path.display().to_string()
}

fn start_worker(machine: &mut Machine, folder: &str) -> u32 {
    machine.start_worker(&["--yes", "--snapshots", "--workspace", folder])
}

/// Runs a turn, and checks that it ends with the answer `Done.`.
fn run_turn(machine: &Machine, session: &str, text: &str) {
    let answer = machine.output(&["run"], &["--session", session, text]);
    assert_eq!(answer, "Done.\n");
}

fn read(folder: &str, name: &str) -> String {
    std::fs::read_to_string(Path::new(folder).join(name)).unwrap_or_default()
}

#[test]
fn another_worker_goes_on_with_the_files_of_a_worker_that_was_killed() {
    let (_servers, sessions, mut machine) = start(SCRIPT);
    let (one, two) = (folder(&machine, "one"), folder(&machine, "two"));
    let worker = start_worker(&mut machine, &one);
    run_turn(&machine, "s", "make files");
    assert_eq!(read(&one, "kept"), "one\n");
    machine.wait_for("the snapshot", |_| waiting(&machine_status(&sessions)) == 0);
    machine.kill(worker);
    start_worker(&mut machine, &two);
    run_turn(&machine, "s", "go on");
    assert_eq!(read(&two, "kept"), "one\ntwo\n");
    assert_eq!(read(&two, "d/e/f"), "deep\n");
    let mode = std::fs::metadata(Path::new(&two).join("sub.sh")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o750);
    let link = std::fs::read_link(Path::new(&two).join("link")).unwrap();
    assert_eq!(link, PathBuf::from("kept"));
    assert!(!Path::new(&two).join("skipped").exists());
    // Another session starts with an empty folder.
    run_turn(&machine, "other", "hello");
    assert!(!Path::new(&two).join("kept").exists());
    run_turn(&machine, "s", "hello");
    assert_eq!(read(&two, "kept"), "one\ntwo\n");
}

fn machine_status(sessions: &NatsSessions) -> rind_nats::worker::ClusterStatus {
    let inbox = rind_nats::worker::SessionInboxClient::open(sessions).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(inbox.cluster_status()).unwrap()
}

fn waiting(status: &rind_nats::worker::ClusterStatus) -> usize {
    status.waiting + status.claimed
}

#[test]
fn files_of_a_turn_whose_worker_was_killed_in_it_are_the_earlier_ones_and_the_model_is_told() {
    let (_servers, sessions, mut machine) = start(SCRIPT);
    let (one, two) = (folder(&machine, "one"), folder(&machine, "two"));
    let worker = start_worker(&mut machine, &one);
    run_turn(&machine, "s", "make files");
    machine.output(&["cluster", "send"], &["--session", "s", "change and hang"]);
    machine.wait_for("the change", |_| read(&one, "kept").contains("torn"));
    std::thread::sleep(Duration::from_millis(500));
    machine.kill(worker);
    let quick = SCRIPT.replace("60000", "300");
    std::fs::write(machine.path("script.toml"), quick).unwrap();
    start_worker(&mut machine, &two);
    machine.wait_for("the end of the turn", |_| {
        machine_status(&sessions).waiting == 0
    });
    assert_eq!(read(&two, "kept"), "one\n");
    let store = SessionStore::with_backend(std::sync::Arc::new(sessions));
    let (entries, _) = store.read_entries("s").unwrap();
    let told = serde_json::to_string(&entries).unwrap();
    assert!(told.contains("changes since then are missing"), "{told}");
    // A worker in the folder of the killed one sets the files aside that were not stored.
    machine.output(&["cluster", "drain"], &["default"]);
    start_worker(&mut machine, &one);
    run_turn(&machine, "other", "hello");
    assert_eq!(read(&one, "kept"), "");
    assert_eq!(unsaved(&one), "one\ntorn\n");
}

#[test]
fn an_input_that_comes_again_after_its_turn_tells_no_model_what_is_missing_and_the_next_one_does() {
    const NOTICE: &str = "changes since then are missing";
    let (_servers, sessions, mut machine) = start(SCRIPT);
    let folders = ["one", "two", "three"].map(|name| folder(&machine, name));
    let inbox = rind_nats::worker::SessionInboxClient::open(&sessions).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let send = |id: &str, text: &str| {
        let sent = inbox.send("s", "default", id, text);
        runtime.block_on(sent).unwrap();
    };
    let worker = start_worker(&mut machine, &folders[0]);
    run_turn(&machine, "s", "make files");
    machine.wait_for("the snapshot", |_| waiting(&machine_status(&sessions)) == 0);
    machine.kill(worker);
    // This worker has no snapshots, so it leaves the same log as a worker that was killed before it
    // stored one.
    let worker = machine.start_worker(&["--yes", "--workspace", &folders[1]]);
    send("twice", "hello");
    machine.wait_for("the turn", |_| waiting(&machine_status(&sessions)) == 0);
    machine.kill(worker);
    let store = SessionStore::with_backend(std::sync::Arc::new(sessions.clone()));
    let entries = || serde_json::to_string(&store.read_entries("s").unwrap().0).unwrap();
    send("twice", "hello");
    start_worker(&mut machine, &folders[2]);
    machine.wait_for("the input", |_| waiting(&machine_status(&sessions)) == 0);
    assert!(!entries().contains(NOTICE), "{}", entries());
    assert_eq!(read(&folders[2], "kept"), "one\n");
    for _ in 0..2 {
        run_turn(&machine, "s", "hello");
        // The start and the message of the first turn have the notice; the second turn adds none.
        assert_eq!(entries().matches(NOTICE).count(), 2, "{}", entries());
        machine.wait_for("the snapshot", |_| waiting(&machine_status(&sessions)) == 0);
    }
}

/// Returns the contents of the files `kept` that a worker set aside.
fn unsaved(folder: &str) -> String {
    let aside = std::fs::read_dir(Path::new(folder).join(".rind-worker/unsaved"));
    let folders = aside
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    folders
        .filter_map(|folder| std::fs::read_to_string(folder.join("kept")).ok())
        .collect()
}

struct Fleet {
    servers: NatsServers,
    sessions: NatsSessions,
    folders: tempfile::TempDir,
}

fn at() -> SessionAddress {
    SessionAddress::parse("s").unwrap()
}

impl Fleet {
    fn start() -> Self {
        let servers = NatsServers::start(ServerSetup::ONE);
        Self {
            sessions: NatsSessions::connect(servers.config("t")).unwrap(),
            servers,
            folders: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folders.path().join(name)
    }

    fn snapshots(&self, name: &str, limits: SnapshotSizeLimits) -> WorkspaceSnapshotStore {
        std::fs::create_dir_all(self.path(name)).unwrap();
        let sessions = NatsSessions::connect(self.servers.config("t")).unwrap();
        WorkspaceSnapshotStore::open(sessions, &self.path(name), limits).unwrap()
    }

    /// Opens the session with the store of this fleet, creating it if there is none.
    fn journal(&self) -> Box<dyn Journal> {
        match self.sessions.open(&at()) {
            Ok(opened) => opened.journal,
            Err(_) => self.sessions.create(&at()).unwrap(),
        }
    }

    /// Counts the stored messages with contents of files.
    fn n_values(&self) -> usize {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.servers.urls()).await.unwrap();
            let context = async_nats::jetstream::new(client);
            let mut n_values = 0;
            for partition in 0..2 {
                let stream = context.get_stream(format!("RIND-t-BLOB-{partition}")).await;
                n_values += stream.unwrap().cached_info().state.messages;
            }
            usize::try_from(n_values).unwrap()
        })
    }

    /// Removes the stored content of a file with these bytes.
    fn lose_value(&self, bytes: &[u8]) {
        let hash = SessionBlobs::compute_blob_id(bytes);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(self.servers.urls()).await.unwrap();
            let context = async_nats::jetstream::new(client);
            for partition in 0..2 {
                let stream = context.get_stream(format!("RIND-t-BLOB-{partition}")).await;
                let lost = format!("rind.t.blob.{partition}.s.=files.{hash}.>");
                stream.unwrap().purge().filter(lost).await.unwrap();
            }
        });
    }
}

#[test]
fn contents_are_stored_once_and_those_that_no_file_has_any_more_are_removed() {
    let fleet = Fleet::start();
    std::fs::create_dir_all(fleet.path("a")).unwrap();
    let own = WorkspaceSnapshotStore::open(
        fleet.sessions.clone(),
        &fleet.path("a"),
        SnapshotSizeLimits::default(),
    );
    let own = own.unwrap();
    let mut journal = fleet.journal();
    assert_eq!(own.restore("s").unwrap(), None);
    let write = |name: &str, text: &str| std::fs::write(fleet.path("a").join(name), text).unwrap();
    write("one", "same");
    write("two", "same");
    own.store_snapshot("s").unwrap();
    // Two messages for the content, which both files share, and two for the list of files.
    assert_eq!(fleet.n_values(), 4);
    own.store_snapshot("s").unwrap();
    assert_eq!(fleet.n_values(), 4);
    write("one", "new");
    own.store_snapshot("s").unwrap();
    assert_eq!(fleet.n_values(), 6);
    journal.append(b"{}\n").unwrap();
    drop(journal);
    let other = fleet.snapshots("b", SnapshotSizeLimits::default());
    assert_eq!(other.restore("s").unwrap(), None);
    assert_eq!(std::fs::read(fleet.path("b").join("one")).unwrap(), b"new");
    assert_eq!(std::fs::read(fleet.path("b").join("two")).unwrap(), b"same");
    assert_eq!(
        fleet.sessions.read(&at(), fleet.journal().end()).unwrap(),
        b""
    );
}

#[test]
fn a_folder_with_other_files_is_not_taken_and_nothing_in_it_changes() {
    let fleet = Fleet::start();
    let path = fleet.path("mine");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("thesis"), "precious").unwrap();
    let refused =
        WorkspaceSnapshotStore::open(fleet.sessions, &path, SnapshotSizeLimits::default());
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("files that no worker put there"),
        "{refused}"
    );
    assert_eq!(std::fs::read(path.join("thesis")).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
}

#[test]
fn what_is_too_large_or_leaves_the_folder_is_named_and_the_last_snapshot_stays() {
    let fleet = Fleet::start();
    std::fs::create_dir_all(fleet.path("a")).unwrap();
    let limits = SnapshotSizeLimits {
        max_bytes: 100,
        max_files: 5,
    };
    let own =
        WorkspaceSnapshotStore::open(fleet.sessions.clone(), &fleet.path("a"), limits).unwrap();
    let _journal = fleet.journal();
    own.restore("s").unwrap();
    let path = fleet.path("a");
    std::fs::write(path.join("small"), "fits").unwrap();
    symlink("/etc/passwd", path.join("out")).unwrap();
    symlink("small", path.join("in")).unwrap();
    own.store_snapshot("s").unwrap();
    own.record_turn_begin();
    std::fs::write(path.join("large"), "x".repeat(200)).unwrap();
    let refused = own.store_snapshot("s").unwrap_err().to_string();
    assert!(refused.contains("more than 100 bytes"), "{refused}");
    std::fs::remove_file(path.join("large")).unwrap();
    for n in 0..6 {
        std::fs::write(path.join(format!("f-{n}")), "").unwrap();
    }
    let refused = own.store_snapshot("s").unwrap_err().to_string();
    assert!(
        refused.contains("more than 5 files, folders and links"),
        "{refused}"
    );
    let other = fleet.snapshots("b", limits);
    other.restore("s").unwrap();
    let mut names: Vec<_> = std::fs::read_dir(fleet.path("b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".rind-worker", "in", "small"]);
    let small = SnapshotSizeLimits {
        max_bytes: 3,
        ..limits
    };
    let small = fleet.snapshots("c", small).restore("s").unwrap_err();
    let small = rind_lib::text::format_error_chain(&small);
    assert!(small.contains("it has 4 bytes, more than 3"), "{small}");
    let few = SnapshotSizeLimits {
        max_files: 1,
        ..limits
    };
    let few = fleet.snapshots("d", few).restore("s").unwrap_err();
    let few = rind_lib::text::format_error_chain(&few);
    assert!(few.contains("more than 1 files"), "{few}");
}

/// Restores the session into the folder `a` with the fleet's own connection. Returns the snapshots
/// and the folder.
fn own_snapshots(fleet: &Fleet) -> (WorkspaceSnapshotStore, PathBuf) {
    let path = fleet.path("a");
    std::fs::create_dir_all(&path).unwrap();
    let limits = SnapshotSizeLimits::default();
    let own = WorkspaceSnapshotStore::open(fleet.sessions.clone(), &path, limits).unwrap();
    own.restore("s").unwrap();
    (own, path)
}

#[test]
fn a_worker_whose_own_folder_a_command_removed_goes_on_and_follows_no_link_in_its_place() {
    let fleet = Fleet::start();
    let _journal = fleet.journal();
    let (own, path) = own_snapshots(&fleet);
    let mark = path.join(".rind-worker");
    std::fs::write(path.join("f"), "1").unwrap();
    std::fs::remove_dir_all(&mark).unwrap();
    own.store_snapshot("s").unwrap();
    assert!(mark.is_dir());
    std::fs::remove_dir_all(&mark).unwrap();
    own.restore("other").unwrap();
    assert!(!path.join("f").exists());
    std::fs::remove_dir_all(&mark).unwrap();
    std::fs::create_dir(fleet.path("elsewhere")).unwrap();
    symlink(fleet.path("elsewhere"), &mark).unwrap();
    let refused = own.restore("s").unwrap_err();
    assert!(matches!(refused, NatsError::Files { .. }), "{refused}");
    assert!(refused.to_string().contains("is not a folder"), "{refused}");
    std::fs::remove_file(&mark).unwrap();
    own.restore("s").unwrap();
    assert_eq!(std::fs::read(path.join("f")).unwrap(), b"1");
    let elsewhere = std::fs::read_dir(fleet.path("elsewhere")).unwrap();
    assert_eq!(elsewhere.count(), 0);
}

#[test]
fn a_folder_that_nobody_may_write_is_set_aside_with_its_mode() {
    let fleet = Fleet::start();
    let _journal = fleet.journal();
    let (own, path) = own_snapshots(&fleet);
    own.record_turn_begin();
    std::fs::create_dir(path.join("closed")).unwrap();
    std::fs::write(path.join("closed/f"), "kept").unwrap();
    let mode = std::fs::Permissions::from_mode(0o500);
    std::fs::set_permissions(path.join("closed"), mode).unwrap();
    own.restore("other").unwrap();
    let aside = std::fs::read_dir(path.join(".rind-worker/unsaved")).unwrap();
    let folders: Vec<PathBuf> = aside.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1);
    let closed = folders[0].join("closed");
    assert_eq!(std::fs::read(closed.join("f")).unwrap(), b"kept");
    let mode = std::fs::metadata(&closed).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o500);
}

#[test]
fn no_snapshot_hides_what_is_missing_before_a_model_knows_and_none_is_of_another_session() {
    let fleet = Fleet::start();
    let mut journal = fleet.journal();
    journal
        .append(b"{\"type\":\"turn-start\",\"input_id\":\"i\"}\n{\"type\":\"turn-end\"}\n")
        .unwrap();
    journal.sync().unwrap();
    let (own, _) = own_snapshots(&fleet);
    assert!(
        own.has_turn_of_input_ended("s", "i").unwrap()
            && !own.has_turn_of_input_ended("s", "j").unwrap()
    );
    let untold = own.store_snapshot("s").unwrap_err();
    assert!(matches!(untold, SnapshotStoreError::Untold), "{untold}");
    own.record_session_closed("s");
    assert!(own.restore("s").unwrap().is_some() && own.has_file_loss_unknown_to_model());
    assert!(own.is_snapshot_current("s").unwrap());
    own.record_model_told_of_file_loss();
    let other = own.store_snapshot("other").unwrap_err().to_string();
    assert!(other.contains("those of another session"), "{other}");
    own.store_snapshot("s").unwrap();
    assert_eq!(own.restore("s").unwrap(), None);
    assert!(!own.is_leased_elsewhere("s").unwrap());
    let elsewhere = fleet.snapshots("b", SnapshotSizeLimits::default());
    assert!(elsewhere.is_leased_elsewhere("s").unwrap());
    // Another worker adds a turn without a snapshot after the files were restored.
    elsewhere.restore("s").unwrap();
    assert!(elsewhere.is_snapshot_current("s").unwrap());
    journal
        .append(b"{\"type\":\"turn-start\",\"input_id\":\"k\"}\n")
        .unwrap();
    journal.sync().unwrap();
    assert!(!elsewhere.is_snapshot_current("s").unwrap());
}

#[test]
fn a_full_store_is_named_and_the_last_snapshot_stays() {
    let servers = NatsServers::start(ServerSetup {
        max_file_mb: 4,
        ..ServerSetup::ONE
    });
    let folders = tempfile::tempdir().unwrap();
    let (one, two) = (folders.path().join("a"), folders.path().join("b"));
    std::fs::create_dir_all(&one).unwrap();
    std::fs::create_dir_all(&two).unwrap();
    let config = servers
        .config("t")
        .with_retry_duration(Duration::from_secs(1));
    let sessions = NatsSessions::connect(config).unwrap();
    let limits = SnapshotSizeLimits::default();
    let own = WorkspaceSnapshotStore::open(sessions.clone(), &one, limits).unwrap();
    let _journal = sessions.create(&at()).unwrap();
    own.restore("s").unwrap();
    std::fs::write(one.join("small"), "fits").unwrap();
    own.store_snapshot("s").unwrap();
    let noise: Vec<u8> = (0..8_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    std::fs::write(one.join("large"), noise).unwrap();
    let refused = own.store_snapshot("s").unwrap_err().to_string();
    assert!(refused.contains("refused by the server"), "{refused}");
    let other = WorkspaceSnapshotStore::open(sessions, &two, limits).unwrap();
    other.restore("s").unwrap();
    assert_eq!(std::fs::read(two.join("small")).unwrap(), b"fits");
    assert!(!two.join("large").exists() && one.join("large").exists());
}

#[test]
fn a_missing_content_is_named_and_the_files_in_the_folder_stay() {
    let fleet = Fleet::start();
    let writer = fleet.path("a");
    std::fs::create_dir_all(&writer).unwrap();
    let limits = SnapshotSizeLimits::default();
    let own = WorkspaceSnapshotStore::open(fleet.sessions.clone(), &writer, limits).unwrap();
    let _journal = fleet.journal();
    own.restore("s").unwrap();
    std::fs::write(writer.join("one"), "1").unwrap();
    std::fs::write(writer.join("two"), "2").unwrap();
    own.store_snapshot("s").unwrap();
    let other = fleet.snapshots("b", limits);
    std::fs::write(fleet.path("b").join("local"), "stays").unwrap();
    fleet.lose_value(b"2");
    let refused = rind_lib::text::format_error_chain(&other.restore("s").unwrap_err());
    assert!(
        refused.contains("the snapshot of the files of s is damaged"),
        "{refused}"
    );
    assert_eq!(
        std::fs::read(fleet.path("b").join("local")).unwrap(),
        b"stays"
    );
}

#[test]
fn a_worker_that_lost_its_session_records_no_snapshot_and_the_other_one_knows_what_is_missing() {
    let fleet = Fleet::start();
    std::fs::create_dir_all(fleet.path("a")).unwrap();
    let limits = SnapshotSizeLimits::default();
    let own =
        WorkspaceSnapshotStore::open(fleet.sessions.clone(), &fleet.path("a"), limits).unwrap();
    let mut journal = fleet.journal();
    own.restore("s").unwrap();
    std::fs::write(fleet.path("a").join("f"), "first").unwrap();
    own.store_snapshot("s").unwrap();
    journal
        .append(b"{\"type\":\"turn-start\",\"input_id\":\"i\"}\n{\"type\":\"turn-end\"}\n")
        .unwrap();
    journal.sync().unwrap();
    std::fs::write(fleet.path("a").join("f"), "second").unwrap();
    // Another program takes the session over after this one has lost its lease.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(fleet.servers.urls()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let leases = context.get_stream("KV_rind-t-leases").await.unwrap();
        leases.purge().await.unwrap();
    });
    let taker = NatsSessions::connect(fleet.servers.config("t")).unwrap();
    let _taken = taker.open(&at()).unwrap();
    let fenced = own.store_snapshot("s").unwrap_err();
    assert!(matches!(fenced, SnapshotStoreError::Fenced), "{fenced}");
    let other = fleet.snapshots("b", limits);
    assert_eq!(
        other.restore("s").unwrap(),
        Some(LostFileChangesReport { interrupted: None })
    );
    assert_eq!(std::fs::read(fleet.path("b").join("f")).unwrap(), b"first");
}
