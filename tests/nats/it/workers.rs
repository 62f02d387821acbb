//! Tests of workers that are killed, paused and drained, and of servers that fail, while inputs
//! arrive: each input ends in one turn, no entry is lost or stored twice, and no effect happens
//! twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rind_lib::session::{Body, SessionStore};
use rind_nats::NatsSessions;
use rind_nats::worker::SessionInboxClient;
use rind_nats_tests::{NatsServers, ServerSetup};
use rustix::process::{Pid, Signal, kill_process};

/// Random generator with a fixed seed, for repeatable runs.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Workers of one class.
struct Workers {
    urls: String,
    effects: PathBuf,
    running: Vec<Child>,
    n_started: usize,
}

impl Workers {
    fn start_worker(&mut self) -> Child {
        self.start_slow_worker(300)
    }

    /// Starts a worker whose model takes this time for each answer.
    fn start_slow_worker(&mut self, delay_ms: u64) -> Child {
        self.n_started += 1;
        Command::new(env!("CARGO_BIN_EXE_nats-worker"))
            .env("RIND_TEST_DELAY_MS", delay_ms.to_string())
            .args([&self.urls, "t", "default"])
            .arg(format!("w{}", self.n_started))
            .arg(&self.effects)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn send(&self, n: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.running[n]), signal).unwrap();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Counts of faults.
#[derive(Debug, Default)]
struct Faults {
    workers_killed: usize,
    workers_paused: usize,
    servers_killed: usize,
    servers_paused: usize,
}

/// Parameters of a run.
struct Plan {
    setup: ServerSetup,
    seed: u64,
    n_sessions: usize,
    n_inputs: usize,
    /// Numbers of faults of workers and of servers to cause.
    worker_faults: usize,
    server_faults: usize,
}

fn session_id(n: usize) -> String {
    format!("s-{n}")
}

/// Sends all inputs, some of them twice.
fn send_inputs(inbox: &SessionInboxClient, plan: &Plan) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for input in 0..plan.n_inputs {
            for session in 0..plan.n_sessions {
                let (session, id) = (session_id(session), format!("i-{input}"));
                let text = format!("do <{input}>");
                inbox.send(&session, "default", &id, &text).await.unwrap();
                if input % 3 == 0 {
                    inbox.send(&session, "default", &id, &text).await.unwrap();
                }
            }
        }
    });
}

/// Waits until no input is left in the queue.
fn wait_until_done(inbox: &SessionInboxClient, until: Instant) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    loop {
        let status = runtime.block_on(inbox.cluster_status());
        if matches!(&status, Ok(status) if status.waiting == 0) {
            return;
        }
        assert!(Instant::now() < until, "inputs still wait: {status:?}");
        thread::sleep(Duration::from_millis(300));
    }
}

/// Returns the number of sessions that other workers took over from the running workers.
fn fenced(inbox: &SessionInboxClient) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let status = runtime.block_on(inbox.cluster_status()).unwrap();
    status.workers.iter().map(|worker| worker.fenced).sum()
}

/// Checks the entries of all sessions. Returns the number of ended turns and of calls that were cut
/// off.
fn check_sessions(store: &SessionStore, plan: &Plan) -> (usize, usize) {
    let (mut n_ended, mut n_unknown) = (0, 0);
    for session in 0..plan.n_sessions {
        let (entries, notices) = store.read_entries(&session_id(session)).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        let mut ids = BTreeMap::new();
        let mut ended = BTreeMap::new();
        let mut open = None;
        for entry in &entries {
            assert!(
                ids.insert(entry.id.clone(), ()).is_none(),
                "an entry is there twice"
            );
            match &entry.body {
                Body::TurnStart {
                    input_id: Some(id), ..
                } => open = Some(id.clone()),
                Body::TurnEnd { .. } => {
                    if let Some(id) = open.take() {
                        *ended.entry(id).or_insert(0_usize) += 1;
                    }
                }
                Body::Cut { calls, .. } => n_unknown += calls.len(),
                _ => {}
            }
        }
        // Each entry names the one before it, which proves that none is missing.
        for pair in entries.windows(2) {
            assert_eq!(
                pair[1].parent.as_ref(),
                Some(&pair[0].id),
                "an entry is missing"
            );
        }
        assert_eq!(
            ended.len(),
            plan.n_inputs,
            "{}: {ended:?}",
            session_id(session)
        );
        assert!(ended.values().all(|n| *n == 1), "{ended:?}");
        n_ended += ended.len();
    }
    (n_ended, n_unknown)
}

/// Returns how many inputs had an effect; fails if one had it twice.
fn check_effects(effects: &Path) -> usize {
    let text = std::fs::read_to_string(effects).unwrap_or_default();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        *count.entry(line).or_default() += 1;
    }
    assert!(
        count.values().all(|n| *n == 1),
        "an effect happened twice: {count:?}"
    );
    count.len()
}

fn strike_workers(workers: &mut Workers, random: &mut Seeded, faults: &mut Faults) {
    let n = usize::try_from(random.below(workers.running.len() as u64)).unwrap();
    if random.below(3) == 0 {
        workers.send(n, Signal::STOP);
        // Longer than the lease, so that another worker takes the session over.
        thread::sleep(Duration::from_millis(4_500 + random.below(1_000)));
        workers.send(n, Signal::CONT);
        faults.workers_paused += 1;
    } else {
        workers.running[n].kill().unwrap();
        workers.running[n].wait().unwrap();
        workers.running[n] = workers.start_worker();
        faults.workers_killed += 1;
    }
}

fn run_plan(plan: &Plan) {
    let mut servers = NatsServers::start(plan.setup);
    let sessions = NatsSessions::connect(servers.config("t")).unwrap();
    let inbox = SessionInboxClient::open(&sessions).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut random, mut faults) = (Seeded(plan.seed), Faults::default());
    let began = Instant::now();
    let effects = folder.path().join("effects");
    let mut workers = Workers {
        urls: servers.urls(),
        effects: effects.clone(),
        running: Vec::new(),
        n_started: 0,
    };
    for _ in 0..4 {
        let worker = workers.start_worker();
        workers.running.push(worker);
    }
    thread::scope(|scope| {
        let sender = inbox.clone();
        scope.spawn(move || send_inputs(&sender, plan));
        let mut left = (plan.worker_faults, plan.server_faults);
        while left != (0, 0) {
            thread::sleep(Duration::from_millis(100 + random.below(500)));
            if left.1 > 0 && random.below(4) == 0 {
                // The leader of the stream, because only the leader answers.
                let n = servers.leader("RIND-t-LOG-0").unwrap_or_default();
                if random.below(2) == 0 {
                    servers.kill(n);
                    thread::sleep(Duration::from_secs(1));
                    servers.start_server(n);
                    faults.servers_killed += 1;
                } else {
                    servers.pause(n, true);
                    thread::sleep(Duration::from_secs(3));
                    servers.pause(n, false);
                    faults.servers_paused += 1;
                }
                left.1 -= 1;
            } else if left.0 > 0 {
                strike_workers(&mut workers, &mut random, &mut faults);
                left.0 -= 1;
            }
        }
    });
    wait_until_done(&inbox, Instant::now() + Duration::from_secs(120));
    let n_fenced = fenced(&inbox);
    drop(workers);
    let store = SessionStore::with_backend(std::sync::Arc::new(sessions));
    let (n_ended, n_unknown) = check_sessions(&store, plan);
    let n_effects = check_effects(&effects);
    println!(
        "{:?}, seed {}: {n_ended} inputs, each ended once; {n_effects} effects, none twice; {n_unknown} calls \"may have run\"; {n_fenced} sessions taken over from \
         workers that live; \
         0 entries lost or twice; {faults:?}; {:.0?}",
        plan.setup,
        plan.seed,
        began.elapsed()
    );
    assert_eq!(n_ended, plan.n_sessions * plan.n_inputs);
    assert!(n_effects <= n_ended);
}

#[test]
fn workers_that_die_and_freeze_lose_no_input_on_one_server() {
    run_plan(&Plan {
        setup: ServerSetup::ONE,
        seed: 0x5eed_0001,
        n_sessions: 200,
        n_inputs: 2,
        worker_faults: 20,
        server_faults: 0,
    });
}

#[test]
fn workers_and_servers_that_die_and_freeze_lose_no_input_on_three_servers() {
    run_plan(&Plan {
        setup: ServerSetup {
            is_synced: true,
            ..ServerSetup::THREE
        },
        seed: 0x5eed_0002,
        n_sessions: 12,
        n_inputs: 6,
        worker_faults: 10,
        server_faults: 3,
    });
}

#[test]
fn a_worker_that_is_told_to_end_leaves_its_turn_to_another() {
    let plan = Plan {
        setup: ServerSetup::ONE,
        seed: 0,
        n_sessions: 1,
        n_inputs: 2,
        worker_faults: 0,
        server_faults: 0,
    };
    let servers = NatsServers::start(plan.setup);
    let sessions = NatsSessions::connect(servers.config("t")).unwrap();
    let inbox = SessionInboxClient::open(&sessions).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut workers = Workers {
        urls: servers.urls(),
        effects: folder.path().join("effects"),
        running: Vec::new(),
        n_started: 0,
    };
    let slow = workers.start_slow_worker(8_000);
    workers.running.push(slow);
    send_inputs(&inbox, &plan);
    let store = SessionStore::with_backend(std::sync::Arc::new(sessions.clone()));
    let began = Instant::now();
    while !store
        .read_entries(&session_id(0))
        .is_ok_and(|(entries, _)| {
            entries
                .iter()
                .any(|entry| matches!(entry.body, Body::TurnStart { .. }))
        })
    {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "the turn does not begin"
        );
        thread::sleep(Duration::from_millis(50));
    }
    workers.send(0, Signal::TERM);
    let told = Instant::now();
    let mut child = workers.running.remove(0);
    let other = workers.start_worker();
    workers.running.push(other);
    assert!(child.wait().unwrap().success());
    // The worker's grace period is five seconds.
    assert!(
        told.elapsed() < Duration::from_secs(15),
        "{:?}",
        told.elapsed()
    );
    wait_until_done(&inbox, Instant::now() + Duration::from_secs(60));
    assert_eq!(check_sessions(&store, &plan).0, 2);
    assert_eq!(check_effects(&workers.effects), 2);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(inbox.wait_for_turn_end(&sessions, "s-0", "i-1"));
    assert_eq!(ended.unwrap().output, "done");
}

/// Returns the time in which `n_workers` workers run one turn in each of `n_sessions` sessions.
fn time_of(n_workers: usize, n_sessions: usize) -> Duration {
    let servers = NatsServers::start(ServerSetup::ONE);
    let sessions = NatsSessions::connect(servers.config("t")).unwrap();
    let inbox = SessionInboxClient::open(&sessions).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut workers = Workers {
        urls: servers.urls(),
        effects: folder.path().join("effects"),
        running: Vec::new(),
        n_started: 0,
    };
    for _ in 0..n_workers {
        let worker = workers.start_slow_worker(300);
        workers.running.push(worker);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    while runtime
        .block_on(inbox.cluster_status())
        .unwrap()
        .workers
        .len()
        < n_workers
    {
        thread::sleep(Duration::from_millis(100));
    }
    let began = Instant::now();
    runtime.block_on(async {
        for session in 0..n_sessions {
            let session = session_id(session);
            inbox
                .send(&session, "default", "i-0", "do <0>")
                .await
                .unwrap();
        }
    });
    wait_until_done(&inbox, Instant::now() + Duration::from_secs(120));
    let time = began.elapsed();
    assert_eq!(check_effects(&workers.effects), n_sessions);
    time
}

#[test]
fn two_workers_end_turns_nearly_twice_as_fast_as_one() {
    const N_SESSIONS: usize = 32;
    let (one, two) = (time_of(1, N_SESSIONS), time_of(2, N_SESSIONS));
    println!(
        "{N_SESSIONS} turns of two requests of 300 ms and a tool of 300 ms, two slots a worker: one worker {one:.1?}, two {two:.1?}, {:.2} times",
        one.as_secs_f64() / two.as_secs_f64()
    );
    // The limit is loose, because on a busy machine the workers compete for processors.
    assert!(two < one.mul_f64(0.75), "{one:?} {two:?}");
}
