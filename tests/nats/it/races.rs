//! Tests of writers that each believe to own the same session: each acknowledged line is stored
//! once and in order, and a writer that lost the session gets an error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rind_lib::session::{Error, FramePosition, SessionAddress, Sessions};
use rind_nats::NatsSessions;
use rind_nats_tests::{FaultProxy, NatsServers, ProxyFault, ServerSetup};

/// Removes the leases of a tenant again and again until `until` is set, as if they expired while
/// their holders continue.
fn drop_leases(servers: &NatsServers, tenant: &str, until: &AtomicBool) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.urls().split(',').collect::<Vec<_>>())
            .await
            .unwrap();
        let context = async_nats::jetstream::new(client);
        let stream = format!("KV_rind-{tenant}-leases");
        let stream = context.get_stream(stream).await.unwrap();
        let mut n_dropped = 0;
        while !until.load(Ordering::SeqCst) {
            n_dropped += stream.purge().await.map_or(0, |purged| purged.purged);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        n_dropped
    })
}

/// Result of one writer: its acknowledged lines, and how often it was fenced.
#[derive(Debug, Default)]
struct WriterReport {
    acknowledged: Vec<String>,
    n_fenced: u64,
}

fn write_in_a_race(
    store: &NatsSessions,
    at: &SessionAddress,
    writer: usize,
    end: Instant,
) -> WriterReport {
    let mut report = WriterReport::default();
    let mut n = 0;
    while Instant::now() < end {
        let Ok(mut opened) = store.open(at) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        loop {
            let line = format!("{{\"writer\":{writer},\"n\":{n}}}");
            n += 1;
            let written = opened.journal.append(format!("{line}\n").as_bytes());
            match written.and_then(|()| opened.journal.sync()) {
                Ok(()) => report.acknowledged.push(line),
                Err(Error::Fenced { .. }) => {
                    report.n_fenced += 1;
                    break;
                }
                Err(error) => panic!("{error:?}"),
            }
            if Instant::now() >= end {
                break;
            }
        }
    }
    report
}

/// Checks that each acknowledged line is in the session once and that lines of a writer are in
/// order; returns the number of lines.
fn check_lines(store: &NatsSessions, at: &SessionAddress, reports: &[WriterReport]) -> usize {
    let bytes = store.read(at, FramePosition::START).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        *count.entry(line).or_default() += 1;
    }
    for report in reports {
        let places: Vec<usize> = report
            .acknowledged
            .iter()
            .map(|line| {
                assert_eq!(count.get(line.as_str()), Some(&1), "{line}");
                text.lines().position(|own| own == line).unwrap()
            })
            .collect();
        assert!(places.is_sorted(), "{places:?}");
    }
    text.lines().count()
}

fn race(setup: ServerSetup, time: Duration) {
    let servers = NatsServers::start(setup);
    let at = SessionAddress::parse("one").unwrap();
    let stores: Vec<NatsSessions> = (0..4)
        .map(|_| NatsSessions::connect(servers.config("t")).unwrap())
        .collect();
    drop(stores[0].create(&at).unwrap());
    let is_over = AtomicBool::new(false);
    let end = Instant::now() + time;
    let (reports, n_dropped) = thread::scope(|scope| {
        let dropping = scope.spawn(|| drop_leases(&servers, "t", &is_over));
        let writers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(n, store)| {
                scope.spawn({
                    let at = &at;
                    move || write_in_a_race(store, at, n, end)
                })
            })
            .collect();
        let reports: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        is_over.store(true, Ordering::SeqCst);
        (reports, dropping.join().unwrap())
    });
    let n_lines = check_lines(&stores[0], &at, &reports);
    let n_acknowledged: usize = reports.iter().map(|report| report.acknowledged.len()).sum();
    let n_fenced: u64 = reports.iter().map(|report| report.n_fenced).sum();
    println!(
        "{setup:?}: {n_acknowledged} lines acknowledged, {n_lines} stored, {n_fenced} writers fenced, {n_dropped} leases dropped, 0 lost, 0 twice"
    );
    assert!(
        n_fenced > 5 && n_acknowledged > 100,
        "{n_fenced} {n_acknowledged}"
    );
}

#[test]
fn four_writers_without_leases_lose_nothing_on_one_server() {
    race(ServerSetup::ONE, Duration::from_secs(5));
}

#[test]
fn four_writers_without_leases_lose_nothing_on_three_servers() {
    race(ServerSetup::THREE, Duration::from_secs(8));
}

#[test]
fn lost_answers_lose_no_line_and_repeat_none() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let proxy = FaultProxy::start(servers.port(0));
    let config = servers.config("t");
    let direct = NatsSessions::connect(config).unwrap();
    let through =
        rind_nats::NatsConfig::new(&format!("nats://127.0.0.1:{}", proxy.port()), "t").unwrap();
    let store =
        NatsSessions::connect(through.with_retry_duration(Duration::from_secs(30))).unwrap();
    let at = SessionAddress::parse("one").unwrap();
    let mut journal = store.create(&at).unwrap();
    let mut expected = String::new();
    for n in 0..480 {
        if n % 60 == 30 {
            proxy.set(ProxyFault::LosesAnswers);
        }
        let line = format!("{{\"n\":{n}}}\n");
        journal.append(line.as_bytes()).unwrap();
        if n % 60 == 30 {
            thread::sleep(Duration::from_millis(20));
            proxy.set(ProxyFault::None);
        }
        journal.sync().unwrap();
        expected.push_str(&line);
    }
    let read = direct.read(&at, FramePosition::START).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), expected);
    println!("answers lost {} times", proxy.n_lost());
    assert!(proxy.n_lost() > 5, "{}", proxy.n_lost());
}

#[test]
fn a_minority_takes_no_line_and_loses_none() {
    let servers = NatsServers::start(ServerSetup::THREE);
    let store = NatsSessions::connect(servers.config("t").with_partitions(1)).unwrap();
    let at = SessionAddress::parse("one").unwrap();
    let mut journal = store.create(&at).unwrap();
    journal.append(b"1\n").unwrap();
    journal.sync().unwrap();
    let leader = servers.leader("RIND-t-LOG-0").unwrap();
    let others = (0..3).filter(|n| *n != leader);
    others.clone().for_each(|n| servers.pause(n, true));
    let began = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            journal.append(b"2\n").unwrap();
            journal.sync().unwrap();
            began.elapsed()
        });
        thread::sleep(Duration::from_secs(4));
        others.for_each(|n| servers.pause(n, false));
        let waited = waiting.join().unwrap();
        println!("without a majority an append waited {waited:.1?}");
        assert!(waited >= Duration::from_secs(4), "{waited:?}");
    });
    journal.append(b"3\n").unwrap();
    journal.sync().unwrap();
    assert_eq!(store.read(&at, FramePosition::START).unwrap(), b"1\n2\n3\n");
}

#[test]
fn the_death_of_all_servers_and_the_loss_of_one_disk_lose_nothing() {
    const STREAM: &str = "RIND-t-LOG-0";
    let mut servers = NatsServers::start(ServerSetup {
        is_synced: true,
        ..ServerSetup::THREE
    });
    let store = NatsSessions::connect(servers.config("t").with_partitions(1)).unwrap();
    let at = SessionAddress::parse("one").unwrap();
    let mut journal = store.create(&at).unwrap();
    let mut expected = String::new();
    let mut write = |n: usize| {
        let line = format!("{{\"n\":{n}}}\n");
        journal.append(line.as_bytes()).unwrap();
        journal.sync().unwrap();
        expected.push_str(&line);
    };
    (0..100).for_each(&mut write);
    (0..3).for_each(|n| servers.kill(n));
    (0..3).for_each(|n| servers.start_server(n));
    (100..200).for_each(&mut write);
    let lost = servers.leader(STREAM).unwrap();
    servers.kill(lost);
    servers.lose_disk(lost);
    servers.start_server(lost);
    let began = Instant::now();
    while !servers.are_current(STREAM) {
        assert!(began.elapsed() < Duration::from_secs(60), "no copy is made");
        thread::sleep(Duration::from_millis(300));
    }
    // The majority now consists of the rebuilt copy and one other.
    servers.kill((lost + 1) % 3);
    (200..300).for_each(&mut write);
    let read = store.read(&at, FramePosition::START).unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), expected);
}
