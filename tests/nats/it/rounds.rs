//! Measures complete rounds, from the sending of an input to the stored end of its turn.
//! `--nocapture` shows the figures.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rind_lib::clock::now_ms;
use rind_nats::{NatsSessions, TenantQuotaClient, TenantQuotaLimits};
use rind_nats_tests::{NatsServers, ServerSetup, TimedTenant};

/// Rounds of the quiet tenant in one measurement.
const N_ROUNDS: usize = 100;

/// Inputs of the tenant that floods.
const N_FLOOD: usize = 10_000;

/// Maximum number of turns of the flooding tenant that may end while an input of the quiet tenant
/// waits for a worker: two for each of the flooding tenant's slots.
const MAX_OTHERS_TURNS: usize = 8;

/// Times of a round of the quiet tenant, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Round {
    sent: i64,
    begun: i64,
    ended: i64,
}

/// Runs rounds one after the other, in ten sessions by turns.
async fn rounds(tenant: &mut TimedTenant, what: &str) -> Vec<Round> {
    let mut rounds = Vec::new();
    for n in 0..N_ROUNDS {
        let (session, id) = (format!("quiet-{}", n % 10), format!("{what}-{n}"));
        let sent = now_ms();
        let stored = tenant.inbox.send(&session, "default", &id, "go").await;
        stored.unwrap();
        let begun = tenant.moment(&id, false).await;
        let ended = tenant.moment(&id, true).await;
        rounds.push(Round { sent, begun, ended });
    }
    rounds
}

fn shown(rounds: &[Round]) -> String {
    let at = |of: fn(&Round) -> i64, part: usize| {
        let mut times: Vec<i64> = rounds.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() * part / 100]
    };
    let (whole, begin) = (
        |one: &Round| one.ended - one.sent,
        |one: &Round| one.begun - one.sent,
    );
    format!(
        "median {} ms, p99 {} ms; until the turn begins {} and {} ms",
        at(whole, 50),
        at(whole, 99),
        at(begin, 50),
        at(begin, 99)
    )
}

/// The program `nats-flood`, and the lines of its output.
struct Flood {
    program: Child,
    lines: Receiver<String>,
}

impl Flood {
    fn start(servers: &NatsServers) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nats-flood"))
            .args([&servers.urls(), "noisy", &N_FLOOD.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(program.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { program, lines }
    }

    /// Kills the program. Returns the times at which its turns ended. If the flood was complete, it
    /// also returns the numbers of stored and refused inputs and the duration in milliseconds.
    fn end(mut self) -> (Option<[i64; 3]>, Vec<i64>) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
        let (mut counts, mut ends) = (None, Vec::new());
        while let Ok(line) = self.lines.recv() {
            let numbers: Vec<i64> = line
                .split(' ')
                .skip(1)
                .map(|n| n.parse().unwrap())
                .collect();
            match &numbers[..] {
                [end] => ends.push(*end),
                other => counts = Some(other.try_into().unwrap()),
            }
        }
        (counts, ends)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_floods_keeps_no_turn_of_another_tenant_waiting() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let mut quiet = TimedTenant::start(&servers.config("quiet"), 1, 300).await;
    let config = servers.config("noisy");
    let noisy = tokio::task::spawn_blocking(|| {
        let sessions = NatsSessions::connect(config).unwrap();
        rind_nats::worker::SessionInboxClient::open(&sessions).unwrap();
        TenantQuotaClient::from_sessions(&sessions)
    });
    let noisy = noisy.await.unwrap();
    // Runs one turn in each session of the quiet tenant, so that the measured rounds create none.
    for n in 0..10 {
        let (session, id) = (format!("quiet-{n}"), format!("first-{n}"));
        let sent = quiet.inbox.send(&session, "default", &id, "go").await;
        sent.unwrap();
        quiet.moment(&id, true).await;
    }
    let alone = rounds(&mut quiet, "alone").await;
    println!("quiet tenant alone: {}", shown(&alone));
    let limited = TenantQuotaLimits {
        turns_a_minute: Some(300),
        ..TenantQuotaLimits::default()
    };
    for (what, limits) in [
        ("limited", limited),
        ("unlimited", TenantQuotaLimits::default()),
    ] {
        noisy.declare_limits(limits).await.unwrap();
        let flood = Flood::start(&servers);
        let beside = rounds(&mut quiet, what).await;
        let (counts, ends) = tokio::task::spawn_blocking(|| flood.end()).await.unwrap();
        println!(
            "beside a tenant, {what} in its turns, that sends {N_FLOOD} inputs: {}; it had {} turns; stored, refused, ms: {counts:?}",
            shown(&beside),
            ends.len()
        );
        let others = |round: &Round| {
            let waits = round.sent..round.begun;
            ends.iter().filter(|end| waits.contains(end)).count()
        };
        let others = beside.iter().map(others).max().unwrap();
        assert!(
            others <= MAX_OTHERS_TURNS,
            "{others} turns of the other tenant came before"
        );
        assert!(!ends.is_empty());
        if let Some([stored, refused, _]) = counts {
            assert_eq!(stored + refused, 10_000);
            assert_eq!(refused > 0, what == "limited");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_do_nearly_twice_the_rounds_of_one() {
    const N_INPUTS: usize = 96;
    let mut rates = Vec::new();
    for n_workers in [1, 2, 4] {
        let servers = NatsServers::start(ServerSetup::ONE);
        let mut tenant = TimedTenant::start(&servers.config("t"), n_workers, 300).await;
        let began = Instant::now();
        for n in 0..N_INPUTS {
            let (session, id) = (format!("s-{n}"), format!("i-{n}"));
            let sent = tenant.inbox.send(&session, "default", &id, "go").await;
            sent.unwrap();
        }
        let mut n_ended = 0;
        while n_ended < N_INPUTS {
            n_ended += usize::from(tenant.moments.recv().await.unwrap().is_end);
        }
        let rate = N_INPUTS as f64 / began.elapsed().as_secs_f64();
        println!("{n_workers} workers with 4 slots, a model of 300 ms: {rate:.1} rounds a second");
        rates.push(rate);
    }
    assert!(rates[1] >= 1.8 * rates[0], "{rates:?}");
}
