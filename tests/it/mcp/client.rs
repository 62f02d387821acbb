//! An MCP client that sends raw lines, so that a test can send invalid ones.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rind_tests::cli::Rind;
use serde_json::{Value, json};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and its streams.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: u64,
    /// Notifications and requests from the server that arrived between answers.
    pub(super) others: Vec<Value>,
}

impl Client {
    /// Starts `rind mcp serve`.
    pub(super) fn start(rind: &Rind, args: &[&str]) -> Self {
        let args = [&["mcp", "serve"], args].concat();
        let mut command = rind.command(&args);
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                // Each line of the output must be a message of the protocol.
                let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            last_id: 0,
            others: Vec::new(),
        }
    }

    /// Starts the server and initializes it as a client with these capabilities.
    pub(super) fn ready(rind: &Rind, args: &[&str], capabilities: &Value) -> Self {
        let mut client = Self::start(rind, args);
        let answer = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "tester", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "rind", "{answer}");
        client.notify("notifications/initialized", &json!({}));
        client
    }

    pub(super) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        // The server may have ended already; the missing answer shows that.
        let _ = input
            .write_all(line.as_bytes())
            .and_then(|()| input.write_all(b"\n"));
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.write(&message.to_string());
    }

    /// Sends a request and returns its id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&message.to_string());
        id
    }

    /// Waits for the next message of any kind.
    #[track_caller]
    pub(super) fn next(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("no message came")
    }

    /// Waits for the answer to the request with this id.
    #[track_caller]
    pub(super) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
            self.others.push(message);
        }
    }

    #[track_caller]
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The result of a call, or its error.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        match &answer["result"] {
            Value::Null => answer["error"].clone(),
            result => result.clone(),
        }
    }

    #[track_caller]
    pub(super) fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", &json!({}));
        let tools = answer["result"]["tools"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes standard input, waits for the server, and returns the exit code.
    pub(super) fn end(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a result.
pub(super) fn text_of(result: &Value) -> String {
    let content = result["content"].as_array().into_iter().flatten();
    let texts = content.filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}
