//! Tests that unsuitable servers are refused with the reason, and that others report how safely
//! they store.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use rind_nats::{NatsConfig, NatsError, NatsSessions};
use rind_nats_tests::{NatsServers, ServerSetup, old_server_program};

/// Starts a fake server that only greets like a server of this version. Returns its address.
fn greeter(version: &'static str, jetstream: bool) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let greeting = format!(
                "INFO {{\"server_id\":\"x\",\"version\":\"{version}\",\"proto\":1,\"headers\":true,\
                 \"max_payload\":1048576,\"jetstream\":{jetstream}}}\r\n"
            );
            stream.write_all(greeting.as_bytes()).unwrap();
            thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    if line.starts_with("PING") {
                        let _ = stream.write_all(b"PONG\r\n");
                    }
                }
            });
        }
    });
    format!("nats://127.0.0.1:{port}")
}

fn refusal(url: &str) -> NatsError {
    NatsSessions::connect(NatsConfig::new(url, "t").unwrap()).unwrap_err()
}

#[test]
fn a_server_before_2_14_is_refused_with_its_version() {
    for version in ["2.9.10", "2.13.4", "2.0", "hostile\\u001b[2J"] {
        let text = refusal(&greeter(version, true)).to_string();
        assert!(text.contains("2.14 or later (2.15 is advised)"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let text = refusal(&greeter("2.9.10", true)).to_string();
    assert!(text.contains("has version 2.9.10"), "{text}");
}

#[test]
fn a_real_old_server_is_refused() {
    let port = TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(old_server_program())
        .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
        .arg(folder.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let error = refusal(&format!("nats://127.0.0.1:{port}"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(error, NatsError::OldServer { .. }), "{error}");
}

#[test]
fn a_server_without_jetstream_and_no_server_are_told_apart() {
    let error = refusal(&greeter("2.15.1", false));
    assert!(matches!(error, NatsError::NoJetStream { .. }), "{error}");
    let error = refusal("nats://user:secret@127.0.0.1:1");
    assert!(matches!(error, NatsError::Connect { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn the_report_says_what_a_power_failure_loses() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let store = NatsSessions::connect(servers.config("t")).unwrap();
    let report = store.durability_report().unwrap();
    assert_eq!(report.replicas, 1);
    let text: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.text.as_str())
        .collect();
    assert!(
        text.iter()
            .any(|text| text.contains("sync_interval: always")),
        "{text:?}"
    );
    assert!(
        text.iter().any(|text| text.contains("one replica")),
        "{text:?}"
    );
}
