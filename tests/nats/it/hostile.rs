//! Tests of foreign messages, interrupted copies, truncated frames and a full disk: errors are
//! clear, and no acknowledged entry is lost.

use std::time::Duration;

use async_nats::HeaderMap;
use rind_lib::session::{Error, FramePosition, SessionAddress, Sessions};
use rind_lib::text::format_error_chain;
use rind_nats::NatsSessions;
use rind_nats_tests::{NatsServers, ServerSetup};

/// Subject of the entries of the session `one`.
const SUBJECT: &str = "rind.t.log.0.one._";

/// Publishes a message to [`SUBJECT`], as a foreign program could.
fn publish(servers: &NatsServers, headers: &[(&str, &str)], payload: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.urls()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(*name, *value);
        }
        let sent = context
            .publish_with_headers(SUBJECT, all, payload.to_owned().into())
            .await;
        sent.unwrap().await.unwrap();
    });
}

fn store(servers: &NatsServers) -> NatsSessions {
    NatsSessions::connect(servers.config("t").with_partitions(1)).unwrap()
}

fn one() -> SessionAddress {
    SessionAddress::parse("one").unwrap()
}

#[test]
fn a_message_of_another_program_is_damage_that_is_named_and_fences_the_writer() {
    for headers in [
        &[][..],
        &[("Rind-At", "7")],
        &[("Rind-At", "-1")],
        &[("Rind-At", "18446744073709551615"), ("Rind-Taken", "x")],
        &[("Rind-At", "99999999999999999999999")],
    ] {
        let servers = NatsServers::start(ServerSetup::ONE);
        let store = store(&servers);
        let mut journal = store.create(&one()).unwrap();
        journal.append(b"1\n").unwrap();
        journal.sync().unwrap();
        publish(&servers, headers, "2\n");
        journal.append(b"3\n").unwrap();
        assert!(matches!(journal.sync(), Err(Error::Fenced { .. })));
        drop(journal);
        for error in [
            store.read(&one(), FramePosition::START).err(),
            store.open(&one()).err(),
        ] {
            let text = format_error_chain(&error.unwrap());
            assert!(
                text.contains("is damaged in the store"),
                "{headers:?}: {text}"
            );
        }
        store.remove(&one()).unwrap();
        drop(store.create(&one()).unwrap());
    }
}

#[test]
fn a_copy_that_was_stopped_is_no_session_and_is_replaced() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let store = store(&servers);
    publish(
        &servers,
        &[("Rind-At", "0"), ("Rind-Whole", "100")],
        "{\"a\":1}\n",
    );
    assert!(!store.contains(&one()));
    assert!(matches!(store.open(&one()), Err(Error::Unknown { .. })));
    assert_eq!(store.list(None, 10).unwrap().sessions, []);
    drop(store.create(&one()).unwrap());
    assert_eq!(store.read(&one(), FramePosition::START).unwrap(), b"");
}

#[test]
fn half_a_line_is_cut_off_when_the_session_is_opened_and_is_told() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let store = store(&servers);
    let mut journal = store.create(&one()).unwrap();
    journal.append(b"{\"a\":1}\n").unwrap();
    journal.sync().unwrap();
    drop(journal);
    let length = store
        .read(&one(), FramePosition::START)
        .unwrap()
        .len()
        .to_string();
    publish(&servers, &[("Rind-At", &length)], "{\"half\":");
    let mut opened = store.open(&one()).unwrap();
    assert_eq!(opened.lines, b"{\"a\":1}\n");
    assert!(
        opened.notices[0].contains("cut off after 8 bytes"),
        "{:?}",
        opened.notices
    );
    opened.journal.append(b"{\"b\":2}\n").unwrap();
    opened.journal.sync().unwrap();
    drop(opened);
    let opened = store.open(&one()).unwrap();
    assert_eq!(opened.lines, b"{\"a\":1}\n{\"b\":2}\n");
    assert_eq!(opened.notices, Vec::<String>::new());
}

#[test]
fn a_full_store_is_told_and_keeps_all_that_it_acknowledged() {
    let servers = NatsServers::start(ServerSetup {
        max_file_mb: 12,
        ..ServerSetup::ONE
    });
    let config = servers
        .config("t")
        .with_partitions(1)
        .with_retry_duration(Duration::from_secs(2));
    let store = NatsSessions::connect(config).unwrap();
    let mut journal = store.create(&one()).unwrap();
    let line = format!("\"{}\"\n", "x".repeat(400_000));
    let mut n_stored = 0;
    let error = loop {
        let appended = journal.append(line.as_bytes());
        match appended.and_then(|()| journal.sync()) {
            Ok(()) => n_stored += 1,
            Err(error) => break error,
        }
        assert!(n_stored < 100, "the store does not fill");
    };
    let text = format_error_chain(&error);
    assert!(text.contains("refused by the server"), "{text}");
    assert!(journal.append(b"1\n").is_err());
    drop(journal);
    assert_eq!(
        store.read(&one(), FramePosition::START).unwrap().len(),
        n_stored * line.len()
    );
    println!("{n_stored} lines stored, then: {text}");
}

#[test]
fn a_disk_that_fills_up_takes_no_line_and_loses_none() {
    let mut servers = NatsServers::start(ServerSetup {
        is_synced: true,
        disk_mb: Some(64),
        ..ServerSetup::ONE
    });
    let config = servers
        .config("t")
        .with_partitions(1)
        .with_retry_duration(Duration::from_secs(2));
    let store = NatsSessions::connect(config).unwrap();
    let mut journal = store.create(&one()).unwrap();
    let line = format!("\"{}\"\n", "x".repeat(100_000));
    let mut append = || {
        let appended = journal.append(line.as_bytes());
        appended.and_then(|()| journal.sync())
    };
    (0..20).for_each(|_| append().unwrap());
    servers.fill_disk(0);
    let error = (0..100).find_map(|_| append().err());
    let text = format_error_chain(&error.unwrap());
    assert!(
        text.contains("append") || text.contains("refused"),
        "{text}"
    );
    assert!(servers.log(0).contains("no space left on device"));
    drop(journal);
    let whole = line.repeat(20);
    let kept = store.read(&one(), FramePosition::START).unwrap();
    assert!(kept.len().is_multiple_of(line.len()) && kept.starts_with(whole.as_bytes()));
    println!(
        "a full disk: {text}; {} lines kept",
        kept.len() / line.len()
    );
    // After its disk has space again, the server must be restarted to write.
    servers.free_disk(0);
    servers.kill(0);
    servers.start_server(0);
    let mut journal = store.open(&one()).unwrap().journal;
    journal.append(b"1\n").unwrap();
    journal.sync().unwrap();
    let after = store.read(&one(), FramePosition::START).unwrap();
    assert_eq!(after, [&kept[..], b"1\n"].concat());
}
