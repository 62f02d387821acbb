//! An HTTP server on the loopback address that answers as a test specifies and records its
//! requests, and a resolver of host names for tests.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rind::egress::HostNameResolver;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// First line without the HTTP version.
    pub line: String,
    /// Header lines, names in lower case.
    pub headers: Vec<String>,
    /// Body as it was received.
    pub body: Vec<u8>,
}

impl Received {
    /// Whether the request has this header line.
    pub fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line == header)
    }

    /// Whether the request has a header of this name.
    pub fn names(&self, header: &str) -> bool {
        let start = format!("{header}: ");
        self.headers.iter().any(|line| line.starts_with(&start))
    }
}

/// Header of an answer: each connection has only one answer, and no client must send a second
/// request while it closes.
const CLOSES: &str = "connection: close\r\n";

/// An answer of the server.
pub enum Reply {
    /// Status, header lines, body.
    Plain(u16, Vec<String>, Vec<u8>),
    /// Sends an endless body, one byte after each pause of this length.
    Drip(Duration),
    /// Sends nothing before [`Server::release`].
    Held,
    /// Sends these bytes and no more.
    Raw(Vec<u8>),
    /// Sends an event stream piece by piece; an empty piece waits for [`Server::release`].
    Stream(Vec<String>),
}

impl Reply {
    /// Returns an answer of status 200 with this body.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        Self::Plain(200, Vec::new(), body.as_bytes().to_vec())
    }

    /// Returns a redirect with this status.
    #[must_use]
    pub fn to(status: u16, location: &str) -> Self {
        Self::Plain(status, vec![format!("location: {location}")], Vec::new())
    }
}

type Responder = dyn Fn(&Received) -> Reply + Send + Sync;

/// A running server. It stops when dropped.
pub struct Server {
    /// Port on loopback.
    pub port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    held: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server that answers each request with this function.
    pub async fn start(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let held = Arc::new(Semaphore::new(0));
        let (log, gate) = (received.clone(), held.clone());
        let answer: Arc<Responder> = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, gate, answer) = (log.clone(), gate.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(request) = receive(&mut stream).await else {
                        return;
                    };
                    let reply = answer(&request);
                    // The host first asks a local server about its models. Such requests are not
                    // recorded, and must not use up the releases for which a stream waits.
                    let paths = ["/models", "/props", "/api/ps", "/api/show"];
                    let is_about_models = paths.iter().any(|path| request.line.ends_with(path));
                    if is_about_models && matches!(reply, Reply::Stream(_)) {
                        let unknown = Reply::Plain(404, Vec::new(), Vec::new());
                        let _ = send(&mut stream, unknown, &gate).await;
                        return;
                    }
                    log.lock().unwrap().push(request);
                    // Some tests are about clients that disconnect early.
                    let _ = send(&mut stream, reply, &gate).await;
                });
            }
        });
        Self {
            port,
            received,
            held,
            task,
        }
    }

    /// Returns the URL `http://HOST:PORT/PATH` of this server.
    pub fn at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the last request.
    #[must_use]
    pub fn last(&self) -> Received {
        self.received().pop().expect("nothing was sent")
    }

    /// Sends the next held piece.
    pub fn release_one(&self) {
        self.held.add_permits(1);
    }

    /// Sends all held answers and pieces.
    pub fn release(&self) {
        self.held.add_permits(1000);
    }
}

async fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        // A client that speaks TLS gets status 400, as from real servers.
        if bytes[0] == 0x16 {
            let refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            stream.write_all(refusal).await.ok()?;
            return None;
        }
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<String> = lines.map(str::to_owned).collect();
    let length: usize = headers
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received {
        line,
        headers,
        body,
    })
}

async fn send(stream: &mut TcpStream, reply: Reply, held: &Semaphore) -> io::Result<()> {
    match reply {
        Reply::Plain(status, headers, body) => {
            let mut head = format!(
                "HTTP/1.1 {status} Told\r\n{CLOSES}content-length: {}\r\n",
                body.len()
            );
            for header in headers {
                head.push_str(&header);
                head.push_str("\r\n");
            }
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(b"\r\n").await?;
            stream.write_all(&body).await
        }
        Reply::Drip(every) => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
            stream.write_all(head).await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(every).await;
            }
        }
        Reply::Held => {
            let permit = held.acquire().await.map_err(io::Error::other)?;
            permit.forget();
            stream
                .write_all(
                    format!("HTTP/1.1 200 OK\r\n{CLOSES}content-length: 0\r\n\r\n").as_bytes(),
                )
                .await
        }
        Reply::Raw(bytes) => stream.write_all(&bytes).await,
        Reply::Stream(pieces) => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            stream.write_all(head).await?;
            for piece in pieces {
                if piece.is_empty() {
                    held.acquire().await.map_err(io::Error::other)?.forget();
                }
                stream.write_all(piece.as_bytes()).await?;
                stream.flush().await?;
            }
            Ok(())
        }
    }
}

/// Resolver of host names for tests. Each look-up of a name returns its next list of addresses, and
/// the last list from then on.
#[derive(Default)]
pub struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    /// Sets the addresses that the name has at its first look-up, at its second, and so on.
    pub fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    /// Returns the names in the order of their look-ups.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl HostNameResolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut answers = self.answers.lock().unwrap();
        self.asked.lock().unwrap().push(host.to_owned());
        let found = answers.get_mut(host).map(|all| {
            if all.len() > 1 {
                all.remove(0)
            } else {
                all[0].clone()
            }
        });
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "nobody knows this name");
        Box::pin(async move { found.ok_or_else(unknown) })
    }
}

/// Returns a port of the loopback address on which no server listens.
pub async fn closed_port() -> u16 {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    listener.unwrap().local_addr().unwrap().port()
}

/// Compresses a byte and `n_runs` runs of 258 more as gzip, which takes 13 bits for each run: the
/// data grows by a factor of 158 when it is unpacked.
pub fn gzip(first: u8, n_runs: usize) -> Vec<u8> {
    let mut bytes = bomb(first, n_runs);
    let length = 1 + n_runs * 258;
    bytes.extend(crc32(first, length).to_le_bytes());
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes
}

/// Returns the data of [`gzip`] without the checksum at its end, which takes longer to compute than
/// the rest.
pub fn bomb(first: u8, n_runs: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // Header of the last block, with the fixed Huffman codes of the format.
    bits.push(1, 1);
    bits.push(1, 2);
    bits.code(0x30 + u32::from(first), 8);
    for _ in 0..n_runs {
        // A run of 258 bytes that repeat the byte before.
        bits.code(0b1100_0101, 8);
        bits.code(0, 5);
    }
    bits.code(0, 7);
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bytes.extend(bits.bytes);
    bytes
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    /// Appends the low `count` bits of a number, lowest bit first.
    fn push(&mut self, value: u32, count: u32) {
        for n in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> n & 1) as u8) << (self.used % 8);
            self.used += 1;
        }
    }

    /// Appends a Huffman code of `count` bits, highest bit first.
    fn code(&mut self, value: u32, count: u32) {
        for n in (0..count).rev() {
            self.push(value >> n, 1);
        }
    }
}

fn crc32(byte: u8, length: usize) -> u32 {
    let mut crc = u32::MAX;
    for _ in 0..length {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}
