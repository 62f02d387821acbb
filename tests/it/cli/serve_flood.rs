//! `rind serve --listen` under too many or too large requests: its sessions continue.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rind_tests::api::{Api, token};
use rind_tests::cli::Rind;
use serde_json::json;

const SLOW: &str = "[[reply]]\ntext = \"It ends.\"\ndelay_ms = 4000\ntimes = 0\n";

/// Runs `meanwhile` during a turn, and checks that the turn succeeds.
fn during_a_turn(api: &Api<'_>, meanwhile: impl FnOnce()) {
    let turns = format!("/v1/sessions/{}/turns", api.new_session());
    std::thread::scope(|scope| {
        let body = json!({ "text": "a", "wait": true });
        let turn = scope.spawn(move || api.post(&turns, &body));
        meanwhile();
        let turn = turn.join().unwrap().has_status(200);
        assert_eq!(turn.json()["output"], "It ends.");
    });
}

/// Memory of the server, in MiB.
fn memory(api: &Api<'_>) -> u64 {
    let path = format!("/proc/{}/statm", api.running.id());
    let text = std::fs::read_to_string(path).unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4 / 1024
}

/// Number of files and connections that the server has open.
fn n_files(api: &Api<'_>) -> usize {
    let path = format!("/proc/{}/fd", api.running.id());
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn ten_thousand_connections_keep_nobody_out_and_the_turns_go_on() {
    let rind = Rind::with_script(SLOW);
    let api = Api::start(&rind);
    during_a_turn(&api, || {
        let head = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: rind\r\nContent-Length: {}\r\n\r\n",
            1 << 20
        );
        let mut open = Vec::new();
        for n in 0..10_000 {
            let mut stream = api.connect();
            // One third of the connections sends nothing, one third a part of the head, and one
            // third a head without a token.
            let part = [0, 20, head.len()][n % 3];
            // The server may have closed the connection already.
            let _ = stream.write_all(&head.as_bytes()[..part]);
            open.push(stream);
            if n % 1000 == 999 {
                assert_eq!(api.get("/v1/sessions").status, 200, "after {n}");
            }
        }
        // The server may close connections with a delay on a busy machine.
        let started = Instant::now();
        while n_files(&api) > 700 {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{} files",
                n_files(&api)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn a_body_without_a_length_is_read_up_to_the_limit_and_no_further() {
    let rind = Rind::with_script(SLOW);
    let api = Api::start(&rind);
    // The first turn loads the plugins: their memory must not be counted as that of the connection.
    during_a_turn(&api, || {});
    let before = memory(&api);
    during_a_turn(&api, || {
        let mut stream = api.connect();
        let head = format!(
            "POST /v1/sessions HTTP/1.1\r\nHost: rind\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            token(&rind)
        );
        stream.write_all(head.as_bytes()).unwrap();
        let sent = send_chunks(&mut stream, 1 << 30);
        assert!(sent < 64 << 20, "{sent} bytes were taken");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
            "{answer}"
        );
        let grown = memory(&api).saturating_sub(before);
        assert!(grown < 200, "{grown} MiB more");
        assert_eq!(api.get("/v1/sessions").status, 200);
    });
}

/// Sends chunks until `most` bytes are sent or the server closes the connection. Returns the number
/// of bytes sent.
fn send_chunks(stream: &mut UnixStream, most: usize) -> usize {
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    while sent < most && stream.write_all(&chunk).is_ok() {
        sent += 0x10000;
    }
    sent
}
