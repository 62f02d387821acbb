//! Servers over HTTP, whose requests leave through the egress.

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
        (other.at("127.0.0.1", "/mcp"), "wants authorization"),
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
