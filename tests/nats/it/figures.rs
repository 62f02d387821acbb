//! Measures the NATS store and the local files in one run. `--nocapture` shows the figures;
//! `RIND_FIGURES=full` also measures 100,000 sessions, which takes some minutes.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rind_lib::Host;
use rind_lib::provider::scripted::{Reply, Script, Scripted};
use rind_lib::session::{FileSessionBackend, SessionAddress, SessionStore, Sessions};
use rind_nats::worker::SessionInboxClient;
use rind_nats::{NatsConfig, NatsSessions};
use rind_nats_tests::{NatsServers, ServerSetup, process_memory_and_files};

/// Number of appends that are awaited one by one.
const N_APPENDS: usize = 300;

/// Number of rounds with a model that answers at once.
const N_ROUNDS: usize = 40;

/// Number of entries of a session that is resumed.
const N_ENTRIES: usize = 5_000;

/// Number of threads that create sessions.
const N_THREADS: usize = 8;

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

/// Returns the median time of a round whose model answers at once, in one session.
fn round_time(store: Arc<dyn Sessions>) -> Duration {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let reply = Reply {
            times: Some(0),
            ..Reply::text("Fine.")
        };
        let model = Arc::new(Scripted::new(Script::new(vec![reply])));
        let host = Host::builder()
            .provider(model, "scripted")
            .store(SessionStore::with_backend(store))
            .build();
        let host = host.await.unwrap();
        let mut session = host.session().create_named("rounds").unwrap();
        let mut times = Vec::new();
        for _ in 0..N_ROUNDS {
            let began = Instant::now();
            session.turn("go").await.unwrap();
            session.stored().sync_on_blocking_thread().await.unwrap();
            times.push(began.elapsed());
        }
        session.close().await.unwrap();
        times.sort();
        times[N_ROUNDS / 2]
    })
}

/// Creates many sessions of one entry. Returns the time for each.
fn create_time(store: &dyn Sessions, n_sessions: usize) -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..N_THREADS {
            scope.spawn(move || {
                for n in (thread..n_sessions).step_by(N_THREADS) {
                    let mut journal = store.create(&address(&format!("many-{n}"))).unwrap();
                    journal.append(&entry()).unwrap();
                    journal.sync().unwrap();
                }
            });
        }
    });
    began.elapsed() / u32::try_from(n_sessions).unwrap()
}

/// Returns the time until the first page of the list of sessions is there.
fn list_time(store: &dyn Sessions) -> Duration {
    let began = Instant::now();
    assert_eq!(store.list(None, 50).unwrap().sessions.len(), 50);
    began.elapsed()
}

/// Numbers of sessions that are measured.
fn session_counts() -> &'static [usize] {
    match std::env::var("RIND_FIGURES").as_deref() {
        Ok("full") => &[1_000, 100_000],
        _ => &[1_000],
    }
}

fn show_single(name: &str, store: Arc<dyn Sessions>) {
    let append = append_time(&*store);
    let round = round_time(store.clone());
    let (written, resumed) = resume_time(&*store);
    println!(
        "{name}: append {append:.1?}; round {round:.1?}; {N_ENTRIES} entries written in {written:.1?}, resumed in {resumed:.1?}"
    );
}

#[test]
fn figures_beside_the_local_store() {
    let folder = tempfile::tempdir().unwrap();
    show_single("files", Arc::new(FileSessionBackend::new(folder.path())));
    for (n_servers, is_synced) in [(1, false), (1, true), (3, false), (3, true)] {
        let servers = NatsServers::start(ServerSetup {
            n_servers,
            is_synced,
            ..ServerSetup::ONE
        });
        let store = NatsSessions::connect(servers.config("t").with_partitions(1)).unwrap();
        let sync = if is_synced { ", synced" } else { "" };
        show_single(&format!("{n_servers} servers{sync}"), Arc::new(store));
    }
}

#[test]
fn many_sessions_open_no_file_each_and_take_little_memory() {
    for &n_sessions in session_counts() {
        let folder = tempfile::tempdir().unwrap();
        let files = FileSessionBackend::new(folder.path());
        let created = create_time(&files, n_sessions);
        let listed = list_time(&files);
        println!(
            "files: {n_sessions} sessions, {created:.0?} each; a page of the list in {listed:.0?}"
        );
        let mut servers = NatsServers::start(ServerSetup::ONE);
        let config = NatsConfig::new(&servers.urls(), "t").unwrap();
        let store = NatsSessions::connect(config).unwrap();
        let own = std::process::id();
        let (server, _) = servers.memory_and_files(0);
        let (client, _) = process_memory_and_files(own);
        let created = create_time(&store, n_sessions);
        let (server_then, files) = servers.memory_and_files(0);
        let (client_then, client_files) = process_memory_and_files(own);
        let listed = list_time(&store);
        println!(
            "1 servers: {n_sessions} sessions, {created:.0?} each; server {} MB more, {files} files open; client {} MB more, \
             {client_files} files open; a page of the list in {listed:.0?}",
            server_then.saturating_sub(server) / 1024,
            client_then.saturating_sub(client) / 1024,
        );
        assert!(files < 500 && client_files < 500, "{files}, {client_files}");
        servers.kill(0);
        let began = Instant::now();
        servers.start_server(0);
        assert!(store.open(&address("many-7")).is_ok());
        let up = began.elapsed();
        let (server, _) = servers.memory_and_files(0);
        println!(
            "after SIGKILL a session is open again in {up:.1?}; the server has {} MB",
            server / 1024
        );
    }
}

#[test]
fn a_session_whose_worker_was_killed_is_taken_over_when_its_lease_ends() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let folder = tempfile::tempdir().unwrap();
    let store = NatsSessions::connect(servers.config("t")).unwrap();
    let inbox = SessionInboxClient::open(&store).unwrap();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_nats-worker"))
        .env("RIND_TEST_DELAY_MS", "60000")
        .args([&servers.urls(), "t", "default", "w"])
        .arg(folder.path().join("effects"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sent = inbox.send("s", "default", "i-1", "do <1>");
    runtime.block_on(sent).unwrap();
    while !store.contains(&address("s")) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let began = Instant::now();
    assert!(store.open(&address("s")).is_err(), "the lease holds");
    while store.open(&address("s")).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (taken, lease) = (began.elapsed(), store.lease_duration());
    println!("taken over {taken:.1?} after SIGKILL of the worker, with leases of {lease:?}");
    assert!(taken < lease + Duration::from_secs(3), "{taken:?}");
}
