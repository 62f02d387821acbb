//! Figures of whole rounds, from the sending of an input to the stored end of its turn. `--nocapture`
//! shows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rind_lib::Host;
use rind_lib::provider::scripted::{Reply, Script, Scripted};
use rind_lib::session::SessionStore;
use rind_nats::worker::{
    ClaimedSession, HostTurns, NatsWorker, QueuedInput, TurnFailure, TurnInbox, WorkerConfig,
    WorkerTurns,
};
use rind_nats::{NatsError, NatsSessions, QuotaLimits, TenantQuotas};
use rind_nats_tests::{NatsServers, ServerSetup};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// Rounds of the quiet tenant in one measurement.
const N_ROUNDS: usize = 100;

/// Inputs of the tenant that floods.
const N_FLOOD: usize = 10_000;

/// Turns of a host that say which inputs have ended.
struct TimedTurns {
    turns: HostTurns,
    ended: UnboundedSender<String>,
}

struct TimedSession {
    session: Box<dyn ClaimedSession>,
    ended: UnboundedSender<String>,
}

impl WorkerTurns for TimedTurns {
    fn claim<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, TurnFailure>> {
        Box::pin(async move {
            let session = self.turns.claim(session).await?;
            let ended = self.ended.clone();
            let timed: Box<dyn ClaimedSession> = Box::new(TimedSession { session, ended });
            Ok(timed)
        })
    }
}

impl ClaimedSession for TimedSession {
    fn run<'a>(&'a mut self, input: &'a QueuedInput) -> BoxFuture<'a, Result<(), TurnFailure>> {
        Box::pin(async move {
            self.session.run(input).await?;
            let _ = self.ended.send(input.id.clone());
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.session.close()
    }
}

/// A tenant with workers in this process.
struct Tenant {
    inbox: TurnInbox,
    quotas: TenantQuotas,
    ended: UnboundedReceiver<String>,
    stop: CancellationToken,
}

impl Tenant {
    /// Starts workers with four slots each, whose model takes this time for an answer.
    async fn start(servers: &NatsServers, name: &str, n_workers: usize, delay_ms: u64) -> Self {
        let (sender, ended) = unbounded_channel();
        let stop = CancellationToken::new();
        let mut first = None;
        for n in 0..n_workers {
            let config = servers.config(name);
            let sessions = tokio::task::spawn_blocking(|| NatsSessions::connect(config).unwrap());
            let sessions = sessions.await.unwrap();
            let reply = Reply {
                times: Some(0),
                delay_ms,
                ..Reply::text("Fine.")
            };
            let host = Host::builder()
                .provider(
                    Arc::new(Scripted::new(Script::new(vec![reply]))),
                    "scripted",
                )
                .store(SessionStore::over(Arc::new(sessions.clone())))
                .build()
                .await
                .unwrap();
            let quotas = TenantQuotas::of(&sessions);
            let turns = Arc::new(TimedTurns {
                turns: HostTurns::new(host).with_quotas(quotas.clone()),
                ended: sender.clone(),
            });
            let config = WorkerConfig {
                slots: 4,
                ..WorkerConfig::new("default", &format!("w{n}"))
            };
            let own = sessions.clone();
            let worker = tokio::task::spawn_blocking(|| NatsWorker::new(own, config, turns));
            tokio::spawn(worker.await.unwrap().unwrap().run(stop.clone()));
            first.get_or_insert((sessions, quotas));
        }
        let (sessions, quotas) = first.unwrap();
        let inbox = tokio::task::spawn_blocking(move || TurnInbox::open(&sessions).unwrap());
        Self {
            inbox: inbox.await.unwrap(),
            quotas,
            ended,
            stop,
        }
    }

    /// Returns the times of rounds, one after the other, each in a session of its own out of ten.
    async fn round_times(&mut self, what: &str) -> Vec<Duration> {
        let mut times = Vec::new();
        for n in 0..N_ROUNDS {
            let (session, id) = (format!("quiet-{}", n % 10), format!("{what}-{n}"));
            let began = Instant::now();
            let sent = self.inbox.send(&session, "default", &id, "go").await;
            sent.unwrap();
            while self.ended.recv().await.unwrap() != id {}
            times.push(began.elapsed());
        }
        times.sort();
        times
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn shown(times: &[Duration]) -> String {
    let at = |part: usize| times[times.len() * part / 100];
    format!("median {:.1?}, p99 {:.1?}", at(50), at(99))
}

/// Sends the inputs of the flood from sixteen tasks. Returns how many were stored and refused.
async fn flood(inbox: TurnInbox, prefix: &'static str) -> (usize, usize, Duration) {
    let (began, n_sent) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let senders = (0..16).map(|_| {
        let (inbox, n_sent) = (inbox.clone(), n_sent.clone());
        tokio::spawn(async move {
            let (mut stored, mut refused) = (0, 0);
            loop {
                let n = n_sent.fetch_add(1, Ordering::Relaxed);
                if n >= N_FLOOD {
                    return (stored, refused);
                }
                let (session, id) = (format!("noisy-{}", n % 100), format!("{prefix}-{n}"));
                match inbox.send(&session, "default", &id, "go").await {
                    Ok(()) => stored += 1,
                    Err(NatsError::OverQuota(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    let (mut stored, mut refused) = (0, 0);
    for sender in senders.collect::<Vec<_>>() {
        let (more, no) = sender.await.unwrap();
        (stored, refused) = (stored + more, refused + no);
    }
    (stored, refused, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_floods_is_limited_and_another_ends_all_of_its_rounds() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let mut quiet = Tenant::start(&servers, "quiet", 1, 300).await;
    let noisy = Tenant::start(&servers, "noisy", 1, 300).await;
    let limits = QuotaLimits {
        turns_a_minute: Some(300),
        ..QuotaLimits::default()
    };
    noisy.quotas.declare(limits).await.unwrap();
    // Each session of the quiet tenant has begun.
    for n in 0..10 {
        let (session, id) = (format!("quiet-{n}"), format!("first-{n}"));
        quiet
            .inbox
            .send(&session, "default", &id, "go")
            .await
            .unwrap();
        while quiet.ended.recv().await.unwrap() != id {}
    }
    let alone = quiet.round_times("alone").await;
    println!("quiet tenant alone: {}", shown(&alone));
    for what in ["limited", "unlimited"] {
        if what == "unlimited" {
            noisy.quotas.declare(QuotaLimits::default()).await.unwrap();
        }
        let flooding = tokio::spawn(flood(noisy.inbox.clone(), what));
        let beside = quiet.round_times(what).await;
        let (stored, refused, time) = flooding.await.unwrap();
        println!(
            "beside a tenant, {what} in its turns, that sends {N_FLOOD} inputs in {time:.1?}, of which {stored} were stored \
             and {refused} refused: {}",
            shown(&beside)
        );
        assert_eq!(stored + refused, N_FLOOD);
        assert_eq!(refused > 0, what == "limited");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_do_nearly_twice_the_rounds_of_one() {
    const N_INPUTS: usize = 96;
    let mut rates = Vec::new();
    for n_workers in [1, 2, 4] {
        let servers = NatsServers::start(ServerSetup::ONE);
        let mut tenant = Tenant::start(&servers, "t", n_workers, 300).await;
        let began = Instant::now();
        for n in 0..N_INPUTS {
            let (session, id) = (format!("s-{n}"), format!("i-{n}"));
            let sent = tenant.inbox.send(&session, "default", &id, "go").await;
            sent.unwrap();
        }
        for _ in 0..N_INPUTS {
            tenant.ended.recv().await.unwrap();
        }
        let rate = N_INPUTS as f64 / began.elapsed().as_secs_f64();
        println!("{n_workers} workers with 4 slots, a model of 300 ms: {rate:.1} rounds a second");
        rates.push(rate);
    }
    assert!(rates[1] >= 1.8 * rates[0], "{rates:?}");
}
