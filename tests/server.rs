//! An HTTP server on the loopback address that answers as a test says, and keeps what it was sent; and names that only tests
//! know.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rind::egress::Resolve;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A request as it came.
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
    /// Whether this header line was sent.
    pub fn has(&self, header: &str) -> bool {
        self.headers.iter().any(|line| line == header)
    }

    /// Whether a header of this name was sent.
    pub fn names(&self, header: &str) -> bool {
        let start = format!("{header}: ");
        self.headers.iter().any(|line| line.starts_with(&start))
    }
}

/// Header of a connection that has one answer, so that no client sends a second request into its end.
const CLOSES: &str = "connection: close\r\n";

/// One answer.
pub enum Reply {
    /// Status, header lines, body.
    Plain(u16, Vec<String>, Vec<u8>),
    /// One byte of an endless body every so often.
    Drip(Duration),
    /// Sends nothing before [`Server::release`].
    Held,
    /// Sends these bytes and no more.
    Raw(Vec<u8>),
    /// An event stream: each piece is sent at once, an empty one waits for [`Server::release`].
    Stream(Vec<String>),
}

impl Reply {
    /// Status 200 with this body.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        Self::Plain(200, Vec::new(), body.as_bytes().to_vec())
    }

    /// A redirect.
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
    /// Starts one that answers each request so.
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
                    // A server on this machine is asked about its model first. That is none of the
                    // requests of a test, and must not take what a stream waits for.
                    let paths = ["/models", "/props", "/api/ps", "/api/show"];
                    let is_about_models = paths.iter().any(|path| request.line.ends_with(path));
                    if is_about_models && matches!(reply, Reply::Stream(_)) {
                        let unknown = Reply::Plain(404, Vec::new(), Vec::new());
                        let _ = send(&mut stream, unknown, &gate).await;
                        return;
                    }
                    log.lock().unwrap().push(request);
                    // A client that hangs up early is what some tests are about.
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

    /// `http://HOST:PORT/path` of this server.
    pub fn at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Every request so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The last request.
    #[must_use]
    pub fn last(&self) -> Received {
        self.received().pop().expect("nothing was sent")
    }

    /// Lets the next held piece go.
    pub fn release_one(&self) {
        self.held.add_permits(1);
    }

    /// Lets held answers go.
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
        // A client that speaks TLS is told off as real servers do.
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

/// Names and what each look-up answers: the first with the first list, the last list for all that come after.
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

    /// Names in the order in which they were looked up.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for Names {
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

/// A port of the loopback address where nobody listens.
pub async fn closed_port() -> u16 {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    listener.unwrap().local_addr().unwrap().port()
}

/// A byte and then so many runs of 258 more in the gzip format, which has 13 bits for each: it grows 158 times.
pub fn gzip(first: u8, n_runs: usize) -> Vec<u8> {
    let mut bytes = bomb(first, n_runs);
    let length = 1 + n_runs * 258;
    bytes.extend(crc32(first, length).to_le_bytes());
    bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
    bytes
}

/// The same without the checksum at its end, which takes longer to make than all the rest.
pub fn bomb(first: u8, n_runs: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with the codes of the format itself.
    bits.push(1, 1);
    bits.push(1, 2);
    bits.code(0x30 + u32::from(first), 8);
    for _ in 0..n_runs {
        // A run of 258 bytes, all as the byte before.
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
    /// Numbers begin with their lowest bit.
    fn push(&mut self, value: u32, count: u32) {
        for n in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> n & 1) as u8) << (self.used % 8);
            self.used += 1;
        }
    }

    /// Codes begin with their highest bit.
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
