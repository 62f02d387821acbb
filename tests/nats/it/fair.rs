//! Tests of fairness between the sessions of a worker: none keeps a slot for long or delays the
//! timers of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::session::{SessionAddress, Sessions};
use rind_nats::NatsSessions;
use rind_nats::worker::{
    ClaimedSession, NatsWorker, QueuedInput, SessionInboxClient, WorkerConfig, WorkerTurnExecutor,
    WorkerTurnFailure,
};
use rind_nats_tests::{NatsServers, ServerSetup};
use tokio_util::sync::CancellationToken;

/// Turns that take this time, and record when each input's turn began.
#[derive(Clone)]
struct NotedTurns {
    time: Duration,
    held: Arc<Mutex<BTreeSet<String>>>,
    taken: Arc<Mutex<BTreeMap<String, Instant>>>,
}

struct NotedSession {
    turns: NotedTurns,
    id: String,
}

impl WorkerTurnExecutor for NotedTurns {
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>> {
        Box::pin(async move {
            if !self.held.lock().unwrap().insert(session.to_owned()) {
                return Err(WorkerTurnFailure::Busy);
            }
            let claimed: Box<dyn ClaimedSession> = Box::new(NotedSession {
                turns: self.clone(),
                id: session.to_owned(),
            });
            Ok(claimed)
        })
    }
}

impl ClaimedSession for NotedSession {
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>> {
        Box::pin(async move {
            let at = Instant::now();
            self.turns
                .taken
                .lock()
                .unwrap()
                .insert(input.id.clone(), at);
            tokio::time::sleep(self.turns.time).await;
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.turns.held.lock().unwrap().remove(&self.id);
        Box::pin(async {})
    }
}

async fn connect(servers: &NatsServers) -> NatsSessions {
    let config = servers.config("t");
    let sessions = tokio::task::spawn_blocking(|| NatsSessions::connect(config).unwrap());
    sessions.await.unwrap()
}

/// Starts a worker with one slot, whose turns take this time.
async fn start_worker(sessions: &NatsSessions, time: Duration) -> (NotedTurns, SessionInboxClient) {
    let turns = NotedTurns {
        time,
        held: Arc::default(),
        taken: Arc::default(),
    };
    let (own, noted) = (sessions.clone(), Arc::new(turns.clone()));
    let config = WorkerConfig {
        slots: 1,
        ..WorkerConfig::new("default", "w")
    };
    let opened = tokio::task::spawn_blocking(move || {
        let inbox = SessionInboxClient::open(&own).unwrap();
        (NatsWorker::new(own, config, noted).unwrap(), inbox)
    });
    let (worker, inbox) = opened.await.unwrap();
    tokio::spawn(worker.run(CancellationToken::new()));
    (turns, inbox)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_many_inputs_has_few_turns_before_another_session_has_its_own() {
    const N_INPUTS: usize = 60;
    let servers = NatsServers::start(ServerSetup::ONE);
    let sessions = connect(&servers).await;
    let (turns, inbox) = start_worker(&sessions, Duration::from_millis(40)).await;
    for n in 0..N_INPUTS {
        let id = format!("noisy-{n}");
        inbox.send("noisy", "default", &id, "go").await.unwrap();
    }
    for n in 0..5 {
        let id = format!("quiet-{n}");
        inbox.send("quiet", "default", &id, "go").await.unwrap();
        let sent = Instant::now();
        while !turns.taken.lock().unwrap().contains_key(&id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let taken = turns.taken.lock().unwrap().clone();
        let is_before = |at: &Instant| *at > sent && *at < taken[&id];
        let before = taken.values().filter(|at| is_before(at)).count();
        assert!(before <= 4, "{before} turns came before the one of {id}");
        assert!(taken.len() < N_INPUTS, "the flood has ended");
    }
    let all_taken = async {
        while turns.taken.lock().unwrap().len() < N_INPUTS + 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all_taken = tokio::time::timeout(Duration::from_secs(30), all_taken);
    all_taken.await.expect("an input was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_end_while_no_server_answers_hold_up_nothing_else_of_the_program() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let sessions = connect(&servers).await;
    let own = sessions.clone();
    let journals = tokio::task::spawn_blocking(move || {
        let create = |n| own.create(&SessionAddress::parse(&format!("s-{n}")).unwrap());
        (0..4).map(|n| create(n).unwrap()).collect::<Vec<_>>()
    });
    let journals = journals.await.unwrap();
    servers.pause(0, true);
    let closing: Vec<_> = journals
        .into_iter()
        .map(|mut journal| {
            tokio::spawn(async move {
                journal.append(b"{}\n").unwrap();
                drop(journal);
            })
        })
        .collect();
    let ticks = tokio::spawn(async {
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_millis(20)).await;
            longest = longest.max(began.elapsed());
        }
        longest
    });
    let longest = ticks.await.unwrap();
    servers.pause(0, false);
    for one in closing {
        one.await.unwrap();
    }
    assert!(
        longest < Duration::from_secs(1),
        "a timer was {longest:?} late"
    );
    let (own, all) = (sessions.clone(), 0..4);
    let stored = tokio::task::spawn_blocking(move || {
        all.map(|n| {
            own.open(&SessionAddress::parse(&format!("s-{n}")).unwrap())
                .unwrap()
                .lines
        })
        .collect::<Vec<_>>()
    });
    assert_eq!(stored.await.unwrap(), vec![b"{}\n".to_vec(); 4]);
}
