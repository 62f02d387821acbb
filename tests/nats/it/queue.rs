//! Tests of the API of a server whose turns workers run, where it differs from a server that runs
//! them itself.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::front::{COMMAND, start};

#[test]
fn a_session_that_exists_is_not_created_again_and_events_that_cannot_come_are_refused() {
    let (_servers, _sessions, mut machine) = start(COMMAND);
    machine.start_worker(&[]);
    machine.start_front(&["--class", "default"]);
    let own = json!({"id": "mine"});
    let _ = machine.post("/v1/sessions", &own).has_status(201);
    // The session can be created again, because nothing is stored before its first input.
    let _ = machine.post("/v1/sessions", &own).has_status(201);
    let turn = json!({"text": "hello", "wait": true});
    let ended = machine
        .post("/v1/sessions/mine/turns", &turn)
        .has_status(200);
    assert_eq!(ended.json()["output"], "Fine.");
    let refused = machine.post("/v1/sessions", &own).has_status(409);
    assert!(
        refused.body.contains("the session mine exists already"),
        "{refused:?}"
    );
    let token = std::fs::read_to_string(machine.path("home/data/serve-token")).unwrap();
    let body = r#"{"text": "hello"}"#;
    let request = format!(
        "POST /v1/sessions/mine/turns HTTP/1.0\r\nHost: rind\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    let mut socket = UnixStream::connect(machine.path("api")).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("follow `/v1/sessions/ID/events`"),
        "{answer}"
    );
}
