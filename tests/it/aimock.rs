//! Tests the provider layer against aimock, a third-party mock model server whose authors check it
//! against the real APIs.
//!
//! The npm package is installed once under the target folder. On a machine without npm or without
//! access to the registry the tests are skipped; they assert that the package is really not
//! installed then.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it skips"
)]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rind::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult, ToolSpec};
use rind::provider::{
    Error, Finish, HttpConfig, ModelApiFormat, Provider, Request, RequestImagesByBlobId, Response,
    StreamEvent,
};
use rind_tests::cli::Rind;
use rind_tests::guests::workspace;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::provider::client_with;

/// Package with the version whose behavior the tests expect.
const PACKAGE: &str = "@copilotkit/aimock@1.43.0";

/// Maximum time until the server listens; it needs about a second.
const MAX_START: Duration = Duration::from_secs(20);

/// Returns the path of the server program, and installs it if needed; otherwise the reason why it
/// cannot be installed.
fn install() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aimock");
    let program = folder.join("node_modules/.bin/llmock");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let output = Command::new("npm")
        .args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ])
        .arg(&folder)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("npm cannot be run: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("npm install failed: {}", stderr.trim()));
    }
    Ok(program)
}

/// The running server, killed when dropped.
struct Aimock {
    child: Child,
    url: String,
}

impl Drop for Aimock {
    fn drop(&mut self) {
        // The server may have exited already; `wait` removes the zombie process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Aimock {
    fn start(program: &Path, fixtures: &Path) -> Self {
        // Another process may take the free port before the server does; then the server fails to
        // start.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut child = Command::new(program)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-c", "3", "-f"])
            .arg(fixtures)
            .args(["--strict", "--validate-on-load", "--log-level", "warn"])
            .env("AIMOCK_STRICT_TURN_INDEX", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("start llmock");
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert_eq!(child.try_wait().unwrap(), None, "llmock ended at once");
            assert!(started.elapsed() < MAX_START, "llmock does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
        }
    }
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "test-model".to_owned(),
        system: Vec::new(),
        messages,
        tools: vec![ToolSpec {
            name: "get_weather".to_owned(),
            description: "Weather of a city.".to_owned(),
            parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            effect_class: EffectClass::Read,
            plugin: None,
        }],
        temperature: None,
        max_tokens: None,
        output: None,
    }
}

async fn send(
    provider: &dyn Provider,
    messages: &[Message],
) -> (Result<Response, Error>, Vec<StreamEvent>) {
    let body = provider.build_request_body(
        &request(messages.to_vec()),
        &RequestImagesByBlobId::default(),
    );
    let mut events = Vec::new();
    let on = &mut |event| events.push(event);
    let result = provider.send(body, on, &CancellationToken::new()).await;
    (result, events)
}

/// Checks a conversation with one tool call: question, call, result and answer.
async fn talk(wire: ModelApiFormat, provider: &dyn Provider) {
    let name = wire.name();
    let mut messages = vec![Message::text(Role::User, "How is the weather?")];
    let (result, events) = send(provider, &messages).await;
    let response = result.unwrap();
    let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
    let [call] = &calls[..] else {
        panic!("{name}: one call, not {calls:?}");
    };
    assert_eq!(
        (call.name.as_str(), &call.arguments),
        ("get_weather", &json!({"city": "Oslo"}))
    );
    assert_eq!((response.finish, response.status), (Finish::ToolCalls, 200));
    let began = StreamEvent::ToolCall {
        name: "get_weather".to_owned(),
    };
    assert_eq!(events, [began], "{name}");

    let result = ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: "-3 degrees".into(),
        is_error: false,
    };
    let result = Message::new(Role::Tool, vec![Content::ToolResult(result)]);
    messages.extend([response.message, result]);
    let (result, events) = send(provider, &messages).await;
    let response = result.unwrap();
    assert_eq!(
        response.message.joined_text(),
        "It is cold in Oslo.",
        "{name}"
    );
    assert_eq!(response.finish, Finish::Done);
    assert!(events.len() > 1, "{name}: streamed in pieces");
    let used = (response.usage.input_tokens, response.usage.output_tokens);
    assert_eq!(used, (21, 6), "{name}");
}

/// Starts the server with these fixtures. Returns `None`, and prints the reason to standard error,
/// if it cannot be installed.
fn serve(folder: &Path, fixtures: &serde_json::Value) -> Option<Aimock> {
    // Two tests need the server, and two concurrent runs of npm in one folder fail.
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(program) => {
            let path = folder.join("fixtures.json");
            std::fs::write(&path, fixtures.to_string()).unwrap();
            Some(Aimock::start(program, &path))
        }
        Err(why) => {
            eprintln!("skipped, aimock cannot be installed: {why}");
            let installed =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("aimock/node_modules/.bin/llmock");
            assert!(!installed.exists(), "it is installed and must be used");
            None
        }
    }
}

/// Base URL of the server for a wire.
fn base_url(wire: ModelApiFormat, server: &Aimock) -> String {
    match wire {
        ModelApiFormat::AnthropicMessages | ModelApiFormat::Gemini => server.url.clone(),
        ModelApiFormat::OpenaiChat | ModelApiFormat::OpenaiResponses => {
            format!("{}/v1", server.url)
        }
    }
}

#[tokio::test]
async fn all_wires_agree_with_a_mock_server_that_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let usage = json!({"input_tokens": 21, "output_tokens": 6});
    let script = json!({"fixtures": [
        {"match": {"userMessage": "weather", "hasToolResult": true},
         "response": {"content": "It is cold in Oslo.", "usage": usage}},
        {"match": {"userMessage": "weather", "hasToolResult": false},
         "response": {"toolCalls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}},
        {"match": {"userMessage": "overload"},
         "response": {"error": {"message": "overloaded", "type": "overloaded_error"}, "status": 529}},
    ]});
    let Some(server) = serve(folder.path(), &script) else {
        return;
    };
    let http = HttpConfig {
        retry_delay_ms: 1,
        ..HttpConfig::default()
    };
    for wire in ModelApiFormat::ALL {
        let name = wire.name();
        let provider = client_with(wire, &base_url(wire, &server), http.clone());
        talk(wire, &*provider).await;
        let (result, events) = send(&*provider, &[Message::text(Role::User, "overload")]).await;
        let error = result.unwrap_err();
        let is_overloaded = matches!(
            error,
            Error::Overloaded {
                status: 529,
                attempts: 4,
                ..
            }
        );
        assert!(is_overloaded, "{name}: {error}");
        assert_eq!(events.len(), 3, "{name}: three announced retries");
    }
}

/// Runs the program in the folder of this repository: it makes the tool calls that the scripted
/// model requests, and prints the model's answer.
#[test]
fn the_program_works_through_all_wires_with_a_mock_server_that_is_not_ours() {
    let answer = "Rind is an agent host whose plugins are sandboxed components.";
    let call = |name: &str, path: &str| json!({"toolCalls": [{"name": name, "arguments": {"path": path}}]});
    let asked = |turn: u32| json!({"userMessage": "what does this project do?", "turnIndex": turn});
    let script = json!({"fixtures": [
        {"match": asked(0), "response": call("list_files", ".")},
        {"match": asked(1), "response": call("read_file", "Cargo.toml")},
        {"match": asked(2), "response": {"content": answer}},
    ]});
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = serve(folder.path(), &script) else {
        return;
    };
    for wire in ModelApiFormat::ALL {
        let name = wire.name();
        let rind = Rind::default();
        rind.config(&format!(
            "[providers.mock]\nwire = \"{name}\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n",
            base_url(wire, &server)
        ));
        let run = |args: &[&str]| {
            let mut command = rind.command(args);
            command.env("MOCK_KEY", "not-a-key");
            rind.finish(command.current_dir(workspace().join("host")))
                .exits(0)
        };
        let question = [
            "run",
            "--model",
            "mock/test-model",
            "what does this project do?",
        ];
        let ran = run(&question);
        assert_eq!(ran.stdout, format!("{answer}\n"), "{name}");
        for line in [
            "model: mock test-model".to_owned(),
            "● list_files .".to_owned(),
            "● read_file Cargo.toml".to_owned(),
        ] {
            assert!(
                ran.stderr.lines().any(|shown| shown.starts_with(&line)),
                "{name}: {line}\n{}",
                ran.stderr
            );
        }
        let ran = run(&[&question[..], &["--json"]].concat());
        let events = ran.json_lines();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert!(of("text-delta") > 1, "{name}: streamed in pieces");
        assert_eq!((of("step-start"), of("tool-end")), (3, 2), "{name}");
        let results = events.iter().filter(|event| event["type"] == "tool-end");
        for result in results {
            assert_ne!(result["result"]["is_error"], true, "{name}: {result}");
        }
    }
}
