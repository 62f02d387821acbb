//! A model server on loopback that replays bytes unchanged and records the requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// First byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// End of a reply after its last piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Ends as HTTP requires.
    Proper,
    /// The connection is closed in the middle of the body.
    Torn,
    /// Sends nothing more, and keeps the connection open until the client hangs up.
    Silence,
}

/// One answer of the server.
#[derive(Clone)]
pub(crate) struct Reply {
    head: String,
    pieces: Vec<Vec<u8>>,
    /// Milliseconds between two pieces.
    pause_ms: u64,
    end: End,
}

impl Reply {
    /// An event stream; every piece reaches the client as a chunk of its own.
    pub(crate) fn stream<P: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self {
            head: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                .to_owned(),
            pieces: pieces.into_iter().map(Into::into).collect(),
            pause_ms: 0,
            end: End::Proper,
        }
    }

    /// An answer that is not a stream, with further header lines.
    pub(crate) fn plain(status: u16, headers: &[&str], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        Self {
            head,
            pieces: vec![body.as_bytes().to_vec()],
            pause_ms: 0,
            end: End::Proper,
        }
    }

    /// A web page.
    pub(crate) fn page(body: &str) -> Self {
        Self {
            head: "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n".to_owned(),
            ..Self::plain(200, &[], body)
        }
    }

    /// This reply with `pause_ms` milliseconds between two pieces.
    pub(crate) fn every(mut self, pause_ms: u64) -> Self {
        self.pause_ms = pause_ms;
        self
    }

    /// This reply, but the connection is closed in the middle of the body.
    pub(crate) fn torn(mut self) -> Self {
        self.end = End::Torn;
        self
    }

    /// This reply, but the server stops sending and keeps the connection open.
    pub(crate) fn silent(mut self) -> Self {
        self.end = End::Silence;
        self
    }

    /// Accepts the connection and sends nothing.
    pub(crate) fn mute() -> Self {
        Self {
            head: String::new(),
            pieces: Vec::new(),
            pause_ms: 0,
            end: End::Silence,
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// First line without the HTTP version.
    pub(crate) line: String,
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<String>,
    /// Body of the request.
    pub(crate) body: Value,
}

impl Received {
    /// Whether this header line was sent.
    pub(crate) fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line == header)
    }
}

/// A running server. It stops when dropped.
pub(crate) struct Server {
    /// Address without a path, such as `http://127.0.0.1:4010`.
    pub(crate) url: String,
    /// Notified when a client hangs up on a silent reply.
    pub(crate) hung_up: Arc<Notify>,
    received: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server that sends `replies` in turn, and then repeats the last one.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let hung_up = Arc::new(Notify::new());
        let (log, notify) = (Arc::clone(&received), Arc::clone(&hung_up));
        let task = tokio::spawn(async move {
            let mut n_served = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = receive(&mut stream).await else {
                    continue;
                };
                let reply = replies[n_served.min(replies.len() - 1)].clone();
                if is_about_models(&request, &reply) {
                    let _ = stream
                        .write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                        .await;
                    continue;
                }
                log.lock().unwrap().push(request);
                n_served += 1;
                // Connections run in parallel, so that a silent reply does not block the next
                // client.
                let notify = Arc::clone(&notify);
                tokio::spawn(async move {
                    // The client may hang up early, which some tests are about.
                    let _ = answer(&mut stream, reply, &notify).await;
                });
            }
        });
        Self {
            url,
            hung_up,
            received,
            task,
        }
    }

    /// Returns the requests received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// Whether a request asks about models, but the next reply is a model's answer. Such a request does
/// not use up a reply.
fn is_about_models(request: &Received, reply: &Reply) -> bool {
    let is_answer = reply.head.contains("text/event-stream");
    let paths = ["/models", "/props", "/api/ps", "/api/show"];
    is_answer && paths.iter().any(|path| request.line.ends_with(path))
}

/// Reads the next request; `None` for a client that speaks TLS, which gets status 400 as from real
/// servers.
async fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        assert_ne!(
            stream.read_buf(&mut bytes).await.unwrap(),
            0,
            "a request without end"
        );
        if bytes[0] == TLS_HANDSHAKE {
            let refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            stream.write_all(refusal).await.unwrap();
            return None;
        }
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines
        .next()
        .unwrap()
        .trim_end_matches(" HTTP/1.1")
        .to_owned();
    let headers: Vec<String> = lines.map(str::to_owned).collect();
    let length: usize = headers
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        assert_ne!(
            stream.read_buf(&mut body).await.unwrap(),
            0,
            "a body without end"
        );
    }
    Some(Received {
        line,
        headers,
        // A `GET` request has no body.
        body: match &body[..] {
            [] => Value::Null,
            body => serde_json::from_slice(body).unwrap(),
        },
    })
}

async fn answer(stream: &mut TcpStream, reply: Reply, hung_up: &Notify) -> std::io::Result<()> {
    if !reply.head.is_empty() {
        stream.write_all(reply.head.as_bytes()).await?;
        let rest = b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(rest).await?;
    }
    for piece in reply.pieces.iter().filter(|piece| !piece.is_empty()) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk).await?;
        stream.flush().await?;
        if reply.pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(reply.pause_ms)).await;
        }
    }
    match reply.end {
        End::Proper => stream.write_all(b"0\r\n\r\n").await,
        End::Torn => Ok(()),
        End::Silence => {
            let mut buffer = [0];
            // This client sends nothing more, so the read returns only when the client hangs up.
            let _ = stream.read(&mut buffer).await;
            hung_up.notify_one();
            Ok(())
        }
    }
}
