//! `rind mcp serve --listen`: the token, the origin of requests, and both versions of the protocol
//! over HTTP.

use std::os::unix::net::UnixStream;

use rind_tests::api::{Answer, exchange, exchange_at};
use rind_tests::cli::{Rind, Running};
use serde_json::{Value, json};

/// A running server that listens on a Unix socket.
struct HttpServer<'r> {
    running: Running<'r>,
    socket: std::path::PathBuf,
    token: String,
}

impl<'r> HttpServer<'r> {
    fn start(rind: &'r Rind, more: &[&str]) -> Self {
        let socket = rind.user_home().join("mcp");
        let address = format!("unix:{}", socket.display());
        let args = [&["mcp", "serve", "--listen", &address], more].concat();
        let mut running = rind.start(&args);
        running.wait_until(|_| UnixStream::connect(&socket).is_ok());
        let token = std::fs::read_to_string(rind.home().join("data/mcp-token")).unwrap();
        Self {
            running,
            socket,
            token: token.trim().to_owned(),
        }
    }

    fn send(&self, message: &Value, headers: &[(&str, &str)]) -> Answer {
        exchange(&self.socket, &post(message, &self.token, "rind", headers))
    }
}

/// An HTTP request with this message as its body.
fn post(message: &Value, token: &str, host: &str, headers: &[(&str, &str)]) -> String {
    let body = message.to_string();
    let more: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: application/json, text/event-stream\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The last message in the body of an answer, which may be an event stream.
fn message_of(answer: &Answer) -> Value {
    let lines = answer.body.lines().map(str::trim);
    let mut found = lines.rev().filter_map(|line| {
        let json = line.strip_prefix("data:").unwrap_or(line).trim();
        serde_json::from_str::<Value>(json)
            .ok()
            .filter(Value::is_object)
    });
    found.next().unwrap_or_else(|| panic!("{answer:?}"))
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "web", "version": "1"},
    }})
}

fn call(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "Ada"}}})
}

#[test]
fn both_eras_of_the_protocol_are_served_over_http() {
    let rind = Rind::default();
    rind.managed("hello");
    let server = HttpServer::start(&rind, &[]);
    let begun = server.send(&initialize(), &[]).has_status(200);
    let session = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap()
        .trim()
        .to_owned();
    assert_eq!(message_of(&begun)["result"]["serverInfo"]["name"], "rind");
    let own = [("mcp-session-id", session.as_str())];
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.send(&told, &own).status, 202);
    let called = server.send(&call(2), &own).has_status(200);
    assert!(
        message_of(&called).to_string().contains("Hello, Ada!"),
        "{called:?}"
    );

    let mut modern = call(3);
    modern["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "greet"),
    ];
    let called = server.send(&modern, &headers).has_status(200);
    assert!(
        message_of(&called).to_string().contains("Hello, Ada!"),
        "{called:?}"
    );
    let ended = server.running;
    ended.signal("TERM");
    let ran = ended.end();
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
}

#[test]
fn requests_without_the_token_and_from_elsewhere_are_refused() {
    let rind = Rind::default();
    rind.managed("hello");
    let server = HttpServer::start(&rind, &[]);
    let mode = std::fs::metadata(rind.home().join("data/mcp-token"))
        .unwrap()
        .permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    let wrong = exchange(&server.socket, &post(&initialize(), "wrong", "rind", &[]));
    assert_eq!(wrong.status, 401, "{wrong:?}");
    let foreign = server.send(&initialize(), &[("Origin", "https://attacker.example")]);
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let nowhere = server.send(&call(1), &[("mcp-session-id", "made-up")]);
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
    drop(server);

    // A server at a TCP address requires its own name as the host, against DNS rebinding.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    let mut running = rind.start(&["mcp", "serve", "--listen", &address]);
    running.wait_until(|_| std::net::TcpStream::connect(&address).is_ok());
    let token = std::fs::read_to_string(rind.home().join("data/mcp-token")).unwrap();
    for (host, status) in [
        (address.as_str(), 200),
        ("attacker.example", 403),
        ("127.0.0.1:1", 403),
    ] {
        let answer = exchange_at(port, &post(&initialize(), token.trim(), host, &[]));
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
    let outside = rind.run(&["mcp", "serve", "--listen", "0.0.0.0:7464"]);
    assert_eq!(outside.code, Some(2), "{}", outside.stderr);
}

#[test]
fn a_header_that_repeats_an_argument_must_have_its_value() {
    let rind = Rind::default();
    rind.managed("suite");
    let server = HttpServer::start(&rind, &[]);
    let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "test_custom_header", "arguments": {"region": "north"},
    }});
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
    });
    let own = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "test_custom_header"),
    ];
    // The header is checked on the very first request, too.
    for (header, status) in [
        (None, 400),
        (Some("south"), 400),
        (Some("=?base64?bm9yd!!!GhA=?="), 400),
        (Some("north"), 200),
        (Some("=?base64?bm9ydGg=?="), 200),
    ] {
        let mut headers = own.to_vec();
        headers.extend(header.map(|value| ("mcp-param-region", value)));
        let answer = server.send(&message, &headers).has_status(status);
        match status {
            200 => assert!(
                message_of(&answer).to_string().contains("north"),
                "{answer:?}"
            ),
            _ => assert_eq!(message_of(&answer)["error"]["code"], -32020, "{answer:?}"),
        }
    }
    assert_eq!(rind.entries("tool-start").len(), 2);
}
