//! Client of the Agent Client Protocol for tests. It writes lines to the program's standard input
//! as raw bytes, so that a test can send malformed ones, and checks every message of the program
//! against the protocol's published schema.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::Rind;

/// The schema of version 1, as the npm package `@agentclientprotocol/sdk` 2.4.0 publishes it, without its descriptions.
const SCHEMA: &str = include_str!("recorded/acp-v1.json");

/// Time after which a message counts as missing.
const PATIENCE: Duration = Duration::from_secs(90);

/// Type in the published schema of each method's result.
const RESULTS: [(&str, &str); 10] = [
    ("authenticate", "AuthenticateResponse"),
    ("initialize", "InitializeResponse"),
    ("session/close", "CloseSessionResponse"),
    ("session/list", "ListSessionsResponse"),
    ("session/load", "LoadSessionResponse"),
    ("session/new", "NewSessionResponse"),
    ("session/prompt", "PromptResponse"),
    ("session/resume", "ResumeSessionResponse"),
    (
        "session/set_config_option",
        "SetSessionConfigOptionResponse",
    ),
    ("session/set_mode", "SetSessionModeResponse"),
];

/// Type in the published schema of the parameters of each request and notification that the program
/// sends.
const PARAMS: [(&str, &str); 4] = [
    ("$/cancel_request", "CancelRequestNotification"),
    ("elicitation/create", "CreateElicitationRequest"),
    ("session/request_permission", "RequestPermissionRequest"),
    ("session/update", "SessionNotification"),
];

/// A client and the program that it talks to. Dropping the client kills the program.
pub struct AcpClient<'r> {
    rind: &'r Rind,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last_id: u64,
    methods: BTreeMap<u64, String>,
    responses: BTreeMap<u64, Value>,
    asked: VecDeque<Value>,
    checks: BTreeMap<String, jsonschema::Validator>,
    /// Parameters `update` of all `session/update` notifications so far; each has `sessionUpdate`.
    pub updates: Vec<Value>,
    /// Notifications besides updates, and errors without an id.
    pub notes: Vec<Value>,
}

impl<'r> AcpClient<'r> {
    /// Starts the program with further arguments.
    #[must_use]
    pub fn start(rind: &'r Rind, more: &[&str]) -> Self {
        let args = [&["acp"], more].concat();
        let mut command = rind.command(&args);
        rind.choose_script(&mut command);
        let log = File::create(rind.user_home().join("acp.log")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            rind,
            stdin: child.stdin.take(),
            child,
            lines,
            last_id: 0,
            methods: BTreeMap::new(),
            responses: BTreeMap::new(),
            asked: VecDeque::new(),
            checks: BTreeMap::new(),
            updates: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Starts the program and sends `initialize` with the capabilities of this client.
    #[must_use]
    pub fn initialized(rind: &'r Rind, more: &[&str], capabilities: Value) -> Self {
        let mut client = Self::start(rind, more);
        let hello = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let told = client.call("initialize", hello);
        assert_eq!(told["protocolVersion"], 1);
        client
    }

    /// Begins a session in the workspace.
    pub fn new_session(&mut self) -> String {
        let cwd = self.rind.workspace();
        let made = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a line.
    pub fn send_line(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        // The program may have exited; the test notices that when it waits for an answer.
        let _ = stdin.write_all(line).and_then(|()| stdin.write_all(b"\n"));
        let _ = stdin.flush();
    }

    /// Sends a request, and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.methods.insert(id, method.to_owned());
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_line(message.to_string().as_bytes());
        id
    }

    /// Sends a notification (a message that gets no answer).
    pub fn tell(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send_line(message.to_string().as_bytes());
    }

    /// Answers a request of the program.
    pub fn answer(&mut self, request: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.send_line(message.to_string().as_bytes());
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.result(id)
    }

    /// Sends a request that must fail, and returns code and message of the error.
    #[track_caller]
    pub fn refused(&mut self, method: &str, params: Value) -> (i64, String) {
        let id = self.send(method, params);
        self.error(id)
    }

    /// Waits for the result of a request.
    #[track_caller]
    pub fn result(&mut self, id: u64) -> Value {
        let response = self.response(id);
        assert!(
            response.get("result").is_some(),
            "{response}\n{}",
            self.log()
        );
        response["result"].clone()
    }

    /// Waits for the error of a request.
    #[track_caller]
    pub fn error(&mut self, id: u64) -> (i64, String) {
        let response = self.response(id);
        let error = &response["error"];
        let message = error["message"].as_str();
        let message = message.unwrap_or_else(|| panic!("no error: {response}"));
        (error["code"].as_i64().unwrap(), message.to_owned())
    }

    #[track_caller]
    fn response(&mut self, id: u64) -> Value {
        self.wait_for("a response", |own| own.responses.remove(&id))
    }

    /// Sends a prompt, and returns the id of the request.
    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send(
            "session/prompt",
            json!({"sessionId": session, "prompt": prompt}),
        )
    }

    /// Runs a prompt during which the program asks nothing, and returns the stop reason.
    #[track_caller]
    pub fn run(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        self.stopped(id)
    }

    /// Waits for the end of a prompt, and returns the stop reason.
    #[track_caller]
    pub fn stopped(&mut self, id: u64) -> String {
        let result = self.result(id);
        result["stopReason"].as_str().unwrap().to_owned()
    }

    /// Waits for the next request that the program sends to the client.
    #[track_caller]
    pub fn asked(&mut self) -> Value {
        self.wait_for("a request", |own| own.asked.pop_front())
    }

    /// Waits until `found` returns a value, and processes the messages that arrive meanwhile.
    #[track_caller]
    pub fn wait_for<T>(&mut self, what: &str, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            match self.lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => self.take_line(&line),
                Err(RecvTimeoutError::Timeout) if started.elapsed() < PATIENCE => {}
                Err(why) => panic!("{what} never came: {why}\n{}", self.log()),
            }
        }
    }

    /// Waits for an update of this kind, starting at index `from` in [`updates`](Self::updates).
    #[track_caller]
    pub fn update_after(&mut self, from: usize, kind: &str) -> Value {
        self.wait_for(kind, |own| {
            let mut new = own.updates.iter().skip(from);
            new.find(|update| update["sessionUpdate"] == kind).cloned()
        })
    }

    /// Returns the joined text of the chunks of this kind, starting at index `from` in
    /// [`updates`](Self::updates).
    #[must_use]
    pub fn text_after(&self, from: usize, kind: &str) -> String {
        let new = self.updates.iter().skip(from);
        let new = new.filter(|update| update["sessionUpdate"] == kind);
        new.filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    /// Returns the text that the model has written so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.text_after(0, "agent_message_chunk")
    }

    fn take_line(&mut self, line: &str) {
        let message: Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("no message: {e}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        if let Some(method) = message["method"].as_str() {
            let kind = PARAMS.iter().find(|(name, _)| *name == method);
            let (_, kind) = kind.unwrap_or_else(|| panic!("it must not send {method}"));
            self.check(kind, &message["params"]);
            match (message.get("id").is_some(), method) {
                (true, _) => self.asked.push_back(message),
                (false, "session/update") => {
                    let mut update = message["params"]["update"].clone();
                    update["session"] = message["params"]["sessionId"].clone();
                    self.updates.push(update);
                }
                (false, _) => self.notes.push(message),
            }
            return;
        }
        let id = message["id"].as_u64();
        if let Some(error) = message.get("error") {
            self.check("Error", error);
        } else {
            let method = self.methods[&id.unwrap()].clone();
            let (_, kind) = RESULTS.iter().find(|(name, _)| *name == method).unwrap();
            self.check(kind, &message["result"]);
        }
        match id {
            Some(id) => drop(self.responses.insert(id, message)),
            None => self.notes.push(message),
        }
    }

    /// Checks a value against a published type.
    fn check(&mut self, kind: &str, value: &Value) {
        let check = self.checks.entry(kind.to_owned()).or_insert_with(|| {
            let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
            let definitions = schema["$defs"].take();
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/$defs/{kind}"),
                "$defs": definitions,
            });
            jsonschema::validator_for(&schema).unwrap()
        });
        let faults: Vec<String> = check.iter_errors(value).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{kind}: {faults:?}: {value}");
    }

    /// Returns what the program has written to standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.rind.user_home().join("acp.log")).unwrap_or_default()
    }

    /// Closes the program's standard input, and returns its exit code.
    pub fn close(mut self) -> Option<i32> {
        self.stdin = None;
        self.exit_code()
    }

    /// Sends a signal, and returns the exit code; `None` if the signal killed the program.
    pub fn signal(mut self, name: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-s", name, &id])
            .status();
        assert!(sent.unwrap().success());
        self.exit_code()
    }

    fn exit_code(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it never ended\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for AcpClient<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
