//! Figures of the store beside that of the local files. `--nocapture` shows them.

use std::time::{Duration, Instant};

use rind_lib::session::{SessionAddress, SessionFiles, Sessions};
use rind_nats::NatsSessions;
use rind_nats_tests::{NatsServers, ServerSetup};

/// Number of appends that are awaited one by one.
const N_APPENDS: usize = 300;

/// Number of entries of a session that is resumed.
const N_ENTRIES: usize = 5_000;

/// Number of sessions that are created.
const N_SESSIONS: usize = 1_000;

fn entry() -> Vec<u8> {
    let mut line = format!("{{\"text\":\"{}\"}}", "x".repeat(588)).into_bytes();
    line.push(b'\n');
    line
}

fn address(text: &str) -> SessionAddress {
    SessionAddress::parse(text).unwrap()
}

/// Returns the median time of an append that is awaited.
fn append_time(store: &dyn Sessions) -> Duration {
    let mut journal = store.create(&address("appends")).unwrap();
    let line = entry();
    let mut times: Vec<Duration> = (0..N_APPENDS)
        .map(|_| {
            let began = Instant::now();
            journal.append(&line).unwrap();
            journal.sync().unwrap();
            began.elapsed()
        })
        .collect();
    times.sort();
    times[N_APPENDS / 2]
}

/// Returns the times to write a session of many entries and to resume it.
fn resume_time(store: &dyn Sessions) -> (Duration, Duration) {
    let at = address("large");
    let mut journal = store.create(&at).unwrap();
    let line = entry();
    let began = Instant::now();
    for n in 0..N_ENTRIES {
        journal.append(&line).unwrap();
        if n % 4 == 0 {
            journal.sync().unwrap();
        }
    }
    journal.sync().unwrap();
    let written = began.elapsed();
    drop(journal);
    let began = Instant::now();
    let opened = store.open(&at).unwrap();
    assert_eq!(opened.lines.len(), N_ENTRIES * line.len());
    (written, began.elapsed())
}

/// Returns the time of the creation of one of many sessions.
fn create_time(store: &dyn Sessions) -> Duration {
    let began = Instant::now();
    for n in 0..N_SESSIONS {
        let mut journal = store.create(&address(&format!("many-{n}"))).unwrap();
        journal.append(&entry()).unwrap();
    }
    began.elapsed() / u32::try_from(N_SESSIONS).unwrap()
}

#[test]
fn figures_beside_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::new(folder.path());
    let local = append_time(&files);
    let (written, resumed) = resume_time(&files);
    println!(
        "files: append {local:?}; {N_ENTRIES} entries written in {written:.0?}, resumed in {resumed:.1?}"
    );
    let begin = create_time(&files);
    println!("files: {N_SESSIONS} sessions, {begin:?} each");
    for (n_servers, is_synced) in [(1, false), (1, true), (3, false), (3, true)] {
        let servers = NatsServers::start(ServerSetup {
            n_servers,
            is_synced,
            ..ServerSetup::ONE
        });
        let store = NatsSessions::connect(servers.config("t").with_partitions(1)).unwrap();
        let setup = format!("R{n_servers}{}", if is_synced { " synced" } else { "" });
        let append = append_time(&store);
        let (written, resumed) = resume_time(&store);
        println!(
            "{setup}: append {append:?}, {:.1} times the local one; {N_ENTRIES} entries written in {written:.0?}, resumed in {resumed:.1?}",
            append.as_secs_f64() / local.as_secs_f64()
        );
        if n_servers == 1 && !is_synced {
            let (before, _) = servers.memory_and_files(0);
            let begin = create_time(&store);
            let (after, files) = servers.memory_and_files(0);
            println!(
                "{setup}: {N_SESSIONS} sessions, {begin:?} each; server {before} kB before, {after} kB after, {files} files open"
            );
            assert!(files < 500, "{files}");
        }
    }
}
