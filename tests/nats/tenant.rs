//! A tenant with workers whose model answers after a delay, and the sender of a flood of inputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rind_lib::Host;
use rind_lib::provider::scripted::{Reply, Script, Scripted};
use rind_lib::session::SessionStore;
use rind_nats::worker::{
    ClaimedSession, HostTurnRunner, NatsWorker, QueuedInput, SessionInboxClient, WorkerConfig,
    WorkerTurnExecutor, WorkerTurnFailure,
};
use rind_nats::{NatsConfig, NatsError, NatsSessions, TenantQuotaClient};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

/// Number of sessions over which the inputs of a flood are distributed.
pub const N_NOISY: usize = 100;

/// The beginning or end of an input's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnMoment {
    /// Id of the input.
    pub input: String,
    /// Time, in milliseconds since 1970.
    pub time_ms: i64,
    /// Whether the turn has ended, rather than begun.
    pub is_end: bool,
}

/// Turns of a host that report their beginnings and ends.
struct TimedTurns {
    turns: HostTurnRunner,
    moments: UnboundedSender<TurnMoment>,
}

struct TimedSession {
    session: Box<dyn ClaimedSession>,
    moments: UnboundedSender<TurnMoment>,
}

impl WorkerTurnExecutor for TimedTurns {
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>> {
        Box::pin(async move {
            let session = self.turns.claim_session(session).await?;
            let moments = self.moments.clone();
            let timed: Box<dyn ClaimedSession> = Box::new(TimedSession { session, moments });
            Ok(timed)
        })
    }
}

impl ClaimedSession for TimedSession {
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>> {
        Box::pin(async move {
            let tell = |is_end| {
                let _ = self.moments.send(TurnMoment {
                    input: input.id.clone(),
                    time_ms: rind_lib::clock::now_ms(),
                    is_end,
                });
            };
            tell(false);
            self.session.run(input).await?;
            tell(true);
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.session.close()
    }
}

/// A tenant with workers in this process. Dropping it stops the workers.
#[derive(Debug)]
pub struct TimedTenant {
    /// Queue of the tenant's inputs.
    pub inbox: SessionInboxClient,
    /// Quotas of the tenant.
    pub quotas: TenantQuotaClient,
    /// Beginnings and ends of turns, as they happen.
    pub moments: UnboundedReceiver<TurnMoment>,
    stop: CancellationToken,
}

impl TimedTenant {
    /// Starts workers with four slots each, whose model answers after this delay.
    ///
    /// # Panics
    /// The servers do not answer.
    pub async fn start(config: &NatsConfig, n_workers: usize, delay_ms: u64) -> Self {
        let (sender, moments) = unbounded_channel();
        let stop = CancellationToken::new();
        let mut first = None;
        for n in 0..n_workers {
            let config = config.clone();
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
                .store(SessionStore::with_backend(Arc::new(sessions.clone())))
                .build()
                .await
                .unwrap();
            let quotas = TenantQuotaClient::from_sessions(&sessions);
            let turns = Arc::new(TimedTurns {
                turns: HostTurnRunner::new(host).with_quotas(quotas.clone()),
                moments: sender.clone(),
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
        let inbox =
            tokio::task::spawn_blocking(move || SessionInboxClient::open(&sessions).unwrap());
        Self {
            inbox: inbox.await.unwrap(),
            quotas,
            moments,
            stop,
        }
    }

    /// Waits until the turn of an input has begun, or has ended, and returns the time.
    ///
    /// # Panics
    /// The workers have stopped.
    pub async fn moment(&mut self, input: &str, is_end: bool) -> i64 {
        loop {
            let moment = self.moments.recv().await.unwrap();
            if moment.input == input && moment.is_end == is_end {
                return moment.time_ms;
            }
        }
    }
}

impl Drop for TimedTenant {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Counts of a flood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloodCounts {
    /// Inputs that were stored.
    pub stored: usize,
    /// Inputs that a quota refused.
    pub refused: usize,
}

/// Sends the inputs of a flood from sixteen tasks.
///
/// # Panics
/// An input fails.
pub async fn flood(inbox: &SessionInboxClient, prefix: &str, n_inputs: usize) -> FloodCounts {
    let n_sent = Arc::new(AtomicUsize::new(0));
    let senders = (0..16).map(|_| {
        let (inbox, n_sent, prefix) = (inbox.clone(), n_sent.clone(), prefix.to_owned());
        tokio::spawn(async move {
            let mut counts = FloodCounts::default();
            loop {
                let n = n_sent.fetch_add(1, Ordering::Relaxed);
                if n >= n_inputs {
                    return counts;
                }
                let (session, id) = (format!("noisy-{}", n % N_NOISY), format!("{prefix}-{n}"));
                match inbox.send(&session, "default", &id, "go").await {
                    Ok(()) => counts.stored += 1,
                    Err(NatsError::OverQuota(_)) => counts.refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    let mut counts = FloodCounts::default();
    for sender in senders.collect::<Vec<_>>() {
        let more = sender.await.unwrap();
        counts.stored += more.stored;
        counts.refused += more.refused;
    }
    counts
}
