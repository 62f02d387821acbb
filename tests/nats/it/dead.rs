//! Tests of dead letters: the input of a turn that always fails becomes one with its cause, other
//! sessions continue, and the letter can be sent again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rind_nats::NatsSessions;
use rind_nats::worker::{
    ClaimedSession, NatsWorker, QueuedInput, SessionInboxClient, WorkerConfig, WorkerTurnExecutor,
    WorkerTurnFailure,
};
use rind_nats_tests::{NatsServers, ServerSetup};
use tokio_util::sync::CancellationToken;

/// Turns that fail for the text `poison` until `is_mended` is set.
#[derive(Clone, Default)]
struct Failing {
    is_mended: Arc<AtomicBool>,
    session: String,
    /// Sessions and inputs whose turns ended. A set, because an input may be delivered twice.
    ended: Arc<Mutex<BTreeSet<(String, String)>>>,
    n_running: Arc<AtomicUsize>,
    most_running: Arc<AtomicUsize>,
}

impl WorkerTurnExecutor for Failing {
    fn claim_session<'a>(
        &'a self,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn ClaimedSession>, WorkerTurnFailure>> {
        let claimed: Box<dyn ClaimedSession> = Box::new(Self {
            session: session.to_owned(),
            ..self.clone()
        });
        Box::pin(async { Ok(claimed) })
    }
}

impl ClaimedSession for Failing {
    fn run<'a>(
        &'a mut self,
        input: &'a QueuedInput,
    ) -> BoxFuture<'a, Result<(), WorkerTurnFailure>> {
        Box::pin(async move {
            let running = self.n_running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.n_running.fetch_sub(1, Ordering::SeqCst);
            if input.text == "poison" && !self.is_mended.load(Ordering::SeqCst) {
                return Err(WorkerTurnFailure::Failed(
                    "the disk is\u{1b}[2J full".to_owned(),
                ));
            }
            let ended = (self.session.clone(), input.id.clone());
            self.ended.lock().unwrap().insert(ended);
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

async fn wait_for(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} does not happen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_always_fails_is_a_dead_letter_and_can_be_sent_again() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let config = servers.config("t");
    let sessions = tokio::task::spawn_blocking(|| NatsSessions::connect(config).unwrap());
    let sessions = sessions.await.unwrap();
    let inbox = SessionInboxClient::open(&sessions).unwrap();
    let turns = Failing::default();
    let worker = WorkerConfig {
        max_attempts: 2,
        slots: 3,
        ..WorkerConfig::new("fast", "one")
    };
    let worker = NatsWorker::new(sessions.clone(), worker, Arc::new(turns.clone())).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    inbox.send("bad", "fast", "i-1", "poison").await.unwrap();
    for n in 0..20 {
        inbox
            .send(&format!("good-{n}"), "fast", "i-1", "hello")
            .await
            .unwrap();
    }
    // The class `slow` has no worker.
    inbox.send("other", "slow", "i-1", "hello").await.unwrap();
    wait_for("the dead letter", async || {
        inbox.list_dead_letters(10).await.unwrap().len() == 1
    })
    .await;
    let dead = inbox.list_dead_letters(10).await.unwrap().pop().unwrap();
    assert_eq!((dead.session.as_str(), dead.attempts), ("bad", 2));
    assert!(
        dead.cause.contains("full") && !dead.cause.contains('\u{1b}'),
        "{dead:?}"
    );
    let error = inbox
        .wait_for_turn_end(&sessions, "bad", "i-1")
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("given up after 2 attempts"),
        "{error}"
    );
    wait_for("the end of the others", async || {
        turns.ended.lock().unwrap().len() == 20
    })
    .await;
    assert!(turns.most_running.load(Ordering::SeqCst) <= 3);
    let status = inbox.cluster_status().await.unwrap();
    assert_eq!((status.waiting, status.dead), (1, 1), "{status:?}");
    assert_eq!(status.workers[0].class, "fast");
    turns.is_mended.store(true, Ordering::SeqCst);
    assert_eq!(inbox.resend_dead_letters("bad").await.unwrap(), 1);
    wait_for("the turn that was sent again", async || {
        turns.ended.lock().unwrap().len() == 21
    })
    .await;
    assert_eq!(inbox.list_dead_letters(10).await.unwrap(), []);
    assert_eq!(inbox.drain_workers("slow").await.unwrap(), []);
    assert_eq!(inbox.drain_workers("fast").await.unwrap().len(), 1);
    let report = running.await.unwrap().unwrap();
    assert_eq!(report.dead, 1);
    assert!(report.turns >= 21, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_would_change_a_subject_and_too_many_are_refused() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let config = servers.config("t");
    let sessions = tokio::task::spawn_blocking(|| NatsSessions::connect(config).unwrap());
    let inbox = SessionInboxClient::open(&sessions.await.unwrap()).unwrap();
    for (session, class, id) in [
        ("a/agents/b", "c", "i"),
        ("*", "c", "i"),
        ("..", "c", "i"),
        ("a", "*", "i"),
        ("a", "C", "i"),
        ("a", "c", "i\r\nRind-Class: x"),
        ("a", "c", ""),
    ] {
        assert!(
            inbox.send(session, class, id, "text").await.is_err(),
            "{session} {class} {id}"
        );
    }
    assert!(
        inbox
            .send("a", "c", "i", &"x".repeat(600 << 10))
            .await
            .is_err()
    );
    for n in 0..1_000 {
        inbox
            .send("full", "c", &format!("i-{n}"), "text")
            .await
            .unwrap();
    }
    let refused = inbox
        .send("full", "c", "one-more", "text")
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("maximum messages"),
        "{refused}"
    );
    inbox.send("other", "c", "i", "text").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_wake_was_never_sent_is_found_and_a_foreign_one_is_made_valid() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let config = servers.config("t");
    let sessions = tokio::task::spawn_blocking(|| NatsSessions::connect(config).unwrap());
    let sessions = sessions.await.unwrap();
    let turns = Failing::default();
    let worker = WorkerConfig::new("default", "one");
    let worker = NatsWorker::new(sessions, worker, Arc::new(turns.clone())).unwrap();
    let client = async_nats::connect(servers.urls()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Rind-Input", "../../etc");
    headers.insert("Rind-Class", "* >");
    let payload = vec![0xff, 0x1b, b'x'];
    let sent = context.publish_with_headers("rind.t.in.swept", headers, payload.into());
    sent.await.unwrap().await.unwrap();
    // The worker also ignores wakes for a session that does not exist or for an invalid id.
    for subject in ["rind.t.wake.default.nobody", "rind.t.wake.default.~~~"] {
        let sent = context.publish(subject, "".into()).await.unwrap();
        sent.await.unwrap();
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    wait_for("the turn of the input", async || {
        turns.ended.lock().unwrap().len() == 1
    })
    .await;
    let stream = context.get_stream("RIND-t-WAKE").await.unwrap();
    wait_for("the end of the wakes", async || {
        stream.get_info().await.unwrap().state.messages == 0
    })
    .await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap().turns, 1);
}
