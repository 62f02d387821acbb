//! Client of the HTTP API for tests: one request per connection, over a Unix socket or loopback,
//! written as raw bytes so that a test can send malformed ones.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Rind, Running};

/// Time after which an answer counts as missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and what a client needs to reach it.
pub struct Api<'r> {
    /// Process of the server.
    pub running: Running<'r>,
    socket: PathBuf,
    token: String,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and header lines, in lower case.
    pub head: String,
    /// Body.
    pub body: String,
}

impl Answer {
    /// Reads the body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Checks the status and returns the answer.
    #[must_use]
    #[track_caller]
    pub fn has_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Parses the body as server-sent events: type and data of each.
    #[must_use]
    pub fn events(&self) -> Vec<(String, Value)> {
        let blocks = self.body.split("\n\n");
        let event = |block: &str| {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            let data = serde_json::from_str(field("data: ")?).ok()?;
            Some((field("event: ")?.to_owned(), data))
        };
        blocks.filter_map(event).collect()
    }
}

impl<'r> Api<'r> {
    /// Starts the server on a Unix socket, and waits until it accepts connections.
    pub fn start(rind: &'r Rind) -> Self {
        Self::start_with(rind, &[])
    }

    /// Starts the server with further arguments.
    pub fn start_with(rind: &'r Rind, more: &[&str]) -> Self {
        let socket = rind.user_home().join("api");
        let address = format!("unix:{}", socket.display());
        let args = [&["serve", "--listen", &address], more].concat();
        let mut running = rind.start(&args);
        running.wait_until(|_| UnixStream::connect(&socket).is_ok());
        Self {
            running,
            socket,
            token: token(rind),
        }
    }

    /// Sends a request with the token.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.send_as(method, path, "*/*", body)
    }

    /// Sends a request that accepts one type of answer.
    #[must_use]
    pub fn send_as(&self, method: &str, path: &str, accept: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: rind\r\nAccept: {accept}\r\nAuthorization: Bearer {}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        exchange(&self.socket, &(head + &body))
    }

    /// Sends a GET request with the token.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    /// Sends a POST request with this JSON body and the token.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body))
    }

    /// Connects to the server without sending anything.
    #[must_use]
    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    /// Makes a session and returns its id.
    #[must_use]
    pub fn new_session(&self) -> String {
        let made = self.post("/v1/sessions", &serde_json::json!({}));
        let made = made.has_status(201).json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Waits until a question is open, and returns the first one.
    #[must_use]
    pub fn question(&self) -> Value {
        for _ in 0..6000 {
            let open = self.get("/v1/questions").has_status(200).json();
            if let Some(first) = open["questions"].get(0) {
                return first.clone();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing was asked");
    }
}

/// Returns the API token that the server stored when it first ran.
#[must_use]
pub fn token(rind: &Rind) -> String {
    let path = rind.home().join("data/serve-token");
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Sends these bytes to a Unix socket and reads the response.
#[must_use]
pub fn exchange(socket: &Path, request: &str) -> Answer {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    read_answer(stream, request.as_bytes())
}

/// Sends a POST request with a body of any content type and the token.
#[must_use]
pub fn exchange_bytes(api: &Api<'_>, path: &str, kind: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: rind\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: \
         {}\r\nAccept: text/html\r\n\r\n",
        api.token,
        body.len()
    );
    read_answer(api.connect(), &[head.as_bytes(), body].concat())
}

/// Sends these bytes to a port on loopback and reads the response.
#[must_use]
pub fn exchange_at(port: u16, request: &str) -> Answer {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    read_answer(stream, request.as_bytes())
}

fn read_answer(mut stream: impl Read + Write, request: &[u8]) -> Answer {
    // The server may answer and close the connection before it has read the whole request.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}
