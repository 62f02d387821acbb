//! MCP servers over HTTP, whose requests go through the egress.

use rind_tests::cli::Rind;
use rind_tests::server::{Received, Reply, Server};
use serde_json::{Value, json};

use super::{ECHOES, results, turn};

/// Answers of a server over Streamable HTTP that has one tool.
pub(super) fn answer(received: &Received) -> Reply {
    let Ok(message) = serde_json::from_slice::<Value>(&received.body) else {
        return Reply::Plain(405, Vec::new(), Vec::new());
    };
    let id = &message["id"];
    let json = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let headers = vec![
            "content-type: application/json".to_owned(),
            "mcp-session-id: s-1".to_owned(),
        ];
        Reply::Plain(200, headers, body.into_bytes())
    };
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => json(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        })),
        "tools/list" => json(json!({"tools": [{
            "name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"},
        }]})),
        "tools/call" => {
            let token = received
                .headers
                .iter()
                .find(|line| line.starts_with("authorization: "));
            let text = format!("echo with {}", token.map_or("nothing", String::as_str));
            let result = json!({"content": [{"type": "text", "text": text}]});
            let result = json!({"jsonrpc": "2.0", "id": id, "result": result});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1,
            }});
            let body = format!("data: {progress}\n\ndata: {result}\n\n");
            let headers = vec!["content-type: text/event-stream".to_owned()];
            Reply::Plain(200, headers, body.into_bytes())
        }
        _ => Reply::Plain(202, Vec::new(), Vec::new()),
    }
}

fn machine(url: &str, settings: &str) -> Rind {
    let rind = Rind::with_script(ECHOES);
    rind.config(&format!("[mcp.docs]\nurl = \"{url}\"\n{settings}"));
    rind.user_file("config/secrets.toml", "DOCS_TOKEN = \"token-1234567\"\n");
    let secrets = rind.home().join("config/secrets.toml");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(secrets, mode).unwrap();
    rind
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_gets_its_secret_and_the_model_does_not() {
    let server = Server::start(answer).await;
    let rind = machine(
        &server.at("127.0.0.1", "/mcp"),
        "headers = { authorization = \"Bearer {DOCS_TOKEN}\" }\n",
    );
    let (test, ran) = tokio::task::spawn_blocking(move || {
        let test = rind.run(&["mcp", "test", "docs", "--yes"]);
        (test, turn(&rind))
    })
    .await
    .unwrap();
    assert_eq!(test.code, Some(0), "{}{}", test.stdout, test.stderr);
    let found = results(&ran);
    assert!(found[0].contains("[masked: DOCS_TOKEN]"), "{found:?}");
    assert!(!ran.stdout.contains("token-1234567"), "{}", ran.stdout);
    assert!(
        server
            .received()
            .iter()
            .any(|one| one.has("authorization: Bearer token-1234567"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_to_other_hosts_and_wrong_answers_are_named() {
    let server = Server::start(|_: &Received| Reply::to(307, "http://169.254.169.254/")).await;
    let other = Server::start(|_: &Received| {
        Reply::Plain(
            401,
            vec!["www-authenticate: Bearer realm=x".to_owned()],
            Vec::new(),
        )
    })
    .await;
    let page = Server::start(|_: &Received| {
        Reply::Plain(
            200,
            vec!["content-type: text/html".to_owned()],
            b"<html>".to_vec(),
        )
    })
    .await;
    for (url, expected) in [
        (server.at("127.0.0.1", "/mcp"), "169.254.169.254"),
        (other.at("127.0.0.1", "/mcp"), "requires a login"),
        (page.at("127.0.0.1", "/mcp"), "text/html"),
    ] {
        let rind = machine(&url, "");
        let ran = tokio::task::spawn_blocking(move || rind.run(&["mcp", "test", "docs", "--yes"]))
            .await
            .unwrap();
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}

/// A stream of events as a server sends it.
fn events(body: &str) -> Reply {
    let headers = vec!["content-type: text/event-stream".to_owned()];
    Reply::Plain(200, headers, body.as_bytes().to_vec())
}

/// The JSON message in a request's body; null if there is none.
fn message_of(received: &Received) -> Value {
    serde_json::from_slice(&received.body).unwrap_or_default()
}

/// The result of a call with this id.
fn result_event(id: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "the result"}]});
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
    format!("data: {message}\n\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_asks_in_the_course_of_a_call() {
    let server = Server::start(|received: &Received| {
        let message = message_of(received);
        if message["method"] != "tools/call" {
            return answer(received);
        }
        let asked = json!({"jsonrpc": "2.0", "id": 700, "method": "elicitation/create", "params": {
            "message": "Who is there?", "requestedSchema": {"type": "object", "properties": {
                "name": {"type": "string"},
            }},
        }});
        Reply::Stream(vec![
            format!("data: {asked}\n\n"),
            String::new(),
            result_event(&message["id"]),
        ])
    })
    .await;
    let rind = machine(&server.at("127.0.0.1", "/mcp"), "");
    let running = tokio::task::spawn_blocking(move || {
        let test = rind.run(&["mcp", "test", "docs", "--yes"]);
        (test, turn(&rind))
    });
    let answered = || {
        let received = server.received();
        received
            .iter()
            .map(message_of)
            .find(|message| message["id"] == 700)
    };
    // The server sends the result only after its question was answered.
    while answered().is_none() && !running.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(answered().unwrap()["result"]["action"], "decline");
    server.release_one();
    let (test, ran) = running.await.unwrap();
    assert_eq!(test.code, Some(0), "{}{}", test.stdout, test.stderr);
    assert_eq!(results(&ran), ["the result"], "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_ends_before_its_answer_is_continued_where_it_ended() {
    let id = std::sync::Mutex::new(Value::Null);
    let server = Server::start(move |received: &Received| {
        let message = message_of(received);
        if message["method"] == "tools/call" {
            *id.lock().unwrap() = message["id"].clone();
            return events("id: first\nretry: 300\ndata: \n\n");
        }
        match received.has("last-event-id: first") {
            // The first continuation ends without the answer, and the second has it.
            true => events("id: second\ndata: \n\n"),
            false if received.has("last-event-id: second") => {
                events(&result_event(&id.lock().unwrap()))
            }
            false => answer(received),
        }
    })
    .await;
    let rind = machine(&server.at("127.0.0.1", "/mcp"), "");
    let (test, ran) = tokio::task::spawn_blocking(move || {
        let test = rind.run(&["mcp", "test", "docs", "--yes"]);
        (test, turn(&rind))
    })
    .await
    .unwrap();
    assert_eq!(test.code, Some(0), "{}{}", test.stdout, test.stderr);
    assert_eq!(results(&ran), ["the result"], "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_fails_behind_its_headers_is_in_the_record() {
    let server = Server::start(|received: &Received| {
        match message_of(received)["method"] == "tools/call" {
            // The stream has more bytes than an answer may have.
            true => events(&format!(": {}\n", "x".repeat(1_022)).repeat(11 << 10)),
            false => answer(received),
        }
    })
    .await;
    let rind = machine(&server.at("127.0.0.1", "/mcp"), "timeout_seconds = 20\n");
    let (rind, ran) = tokio::task::spawn_blocking(move || {
        rind.run(&["mcp", "test", "docs", "--yes"]);
        let ran = turn(&rind);
        (rind, ran)
    })
    .await
    .unwrap();
    assert!(ran.stdout.contains("\"is_error\":true"), "{}", ran.stdout);
    let records = rind.entries("access");
    let failed: Vec<&Value> = records
        .iter()
        .map(|entry| &entry["record"])
        .filter(|record| record["outcome"] == "failed")
        // The `DELETE` that ends the session may be cut off when the program ends, so it is not
        // counted.
        .filter(|record| !record["target"].as_str().unwrap().starts_with("DELETE "))
        .collect();
    assert_eq!(failed.len(), 1, "{records:?}");
    assert_eq!(failed[0]["plugin"], "mcp:docs");
    let target = failed[0]["target"].as_str().unwrap();
    assert!(target.starts_with("POST http://127.0.0.1:"), "{target}");
    let reason = failed[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("10485760 bytes") || reason.contains("10 MiB"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_every_stream_is_left() {
    let server = Server::start(|received: &Received| {
        let is_call = message_of(received)["method"] == "tools/call";
        let continues = received.names("last-event-id");
        match is_call || continues {
            true => events("id: again\nretry: 0\ndata: \n\n"),
            false => answer(received),
        }
    })
    .await;
    let rind = machine(&server.at("127.0.0.1", "/mcp"), "timeout_seconds = 60\n");
    let ran = tokio::task::spawn_blocking(move || {
        rind.run(&["mcp", "test", "docs", "--yes"]);
        turn(&rind)
    })
    .await
    .unwrap();
    assert!(ran.stdout.contains("\"is_error\":true"), "{}", ran.stdout);
    // The call failed because of this limit and not because of the timeout.
    let why = "it ended the stream of its answer 50 times without the answer";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    let continued = server.received();
    let continued = continued
        .iter()
        .filter(|one| one.has("last-event-id: again"));
    assert_eq!(continued.count(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_a_stream_of_events_is_masked_in_every_piece() {
    let server = Server::start(|received: &Received| {
        let message = message_of(received);
        if message["method"] != "tools/call" {
            return answer(received);
        }
        let result = json!({"content": [{"type": "text", "text": "it is token-1234567, yes"}]});
        let result = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let line = format!("data: {result}\n\n");
        // The secret is split between two chunks.
        let (begun, rest) = line.split_at(line.find("1234567").unwrap() + 2);
        Reply::Stream(vec![begun.to_owned(), rest.to_owned()])
    })
    .await;
    let rind = machine(
        &server.at("127.0.0.1", "/mcp"),
        "headers = { authorization = \"Bearer {DOCS_TOKEN}\" }\n",
    );
    let ran = tokio::task::spawn_blocking(move || {
        rind.run(&["mcp", "test", "docs", "--yes"]);
        turn(&rind)
    })
    .await
    .unwrap();
    assert_eq!(results(&ran), ["it is [masked: DOCS_TOKEN], yes"]);
}
