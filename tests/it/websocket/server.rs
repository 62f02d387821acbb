//! A WebSocket server that can break the protocol on purpose. It writes its frames without a
//! library.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Number of messages of [`Act::Stream`], of 64 KiB each.
pub(super) const STREAMED: usize = 500;

/// Behavior of the server after a request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Sends `hi`, echoes messages, and closes after `bye`.
    Echo,
    /// Sends the value of the handshake's header `x-key`.
    SayHandshake,
    /// Announces a message of 1 GiB, and sends it.
    Huge,
    /// Sends a message that consists of endlessly many fragments.
    HugeInParts,
    PingFlood,
    TextAfterClose,
    /// Masks a frame, as only clients may.
    Masked,
    Drop,
    /// Never answers.
    Silent,
    Redirect,
    Refuse,
    EndlessHeaders,
    WrongAccept,
    /// Chooses a subprotocol that was not offered.
    ForeignProtocol,
    /// Sends [`STREAMED`] messages as fast as the client reads them.
    Stream,
    /// Reads messages and sends none.
    Hold,
}

#[derive(Debug, Default)]
struct Seen {
    asked: Mutex<String>,
    n_connections: AtomicUsize,
    n_open: AtomicUsize,
    n_sent: AtomicUsize,
    sent_while_slow: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct SocketServer {
    address: SocketAddr,
    seen: Arc<Seen>,
}

impl SocketServer {
    pub(super) async fn start(act: Act) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let sees = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = sees.clone();
                seen.n_connections.fetch_add(1, Ordering::SeqCst);
                seen.n_open.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    // The client may disconnect at any time.
                    let _ = serve(stream, act, &seen).await;
                    seen.n_open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, seen }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn grant(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn url_base(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(super) fn url(&self) -> String {
        format!("{}/socket?a=b", self.url_base())
    }

    /// Returns the text of the last handshake request.
    pub(super) fn asked(&self) -> String {
        self.seen.asked.lock().unwrap().clone()
    }

    pub(super) fn n_connections(&self) -> usize {
        self.seen.n_connections.load(Ordering::SeqCst)
    }

    pub(super) fn n_open(&self) -> usize {
        self.seen.n_open.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes that were sent in the first three seconds.
    pub(super) fn sent_while_slow(&self) -> usize {
        self.seen.sent_while_slow.load(Ordering::SeqCst)
    }
}

/// Encodes a frame of a server from its first byte and its contents.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match content.len() {
        n @ 0..126 => bytes.push(u8::try_from(n).unwrap()),
        n @ 126..65_536 => {
            bytes.push(126);
            bytes.extend(u16::try_from(n).unwrap().to_be_bytes());
        }
        n => {
            bytes.push(127);
            bytes.extend((n as u64).to_be_bytes());
        }
    }
    bytes.extend(content);
    bytes
}

fn text(content: &str) -> Vec<u8> {
    frame(0x81, content.as_bytes())
}

fn close() -> Vec<u8> {
    frame(0x88, b"\x03\xe8done")
}

/// Reads a frame of a client, and returns its first byte and its contents.
async fn read_frame(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let first = stream.read_u8().await?;
    let length = stream.read_u8().await? & 0x7f;
    let length = match length {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        n => u64::from(n),
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await?;
    let mut content = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut content).await?;
    for (byte, key) in content.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    Ok((first, content))
}

async fn serve(mut stream: TcpStream, act: Act, seen: &Seen) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    *seen.asked.lock().unwrap() = head.clone();
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut own = lines.filter(|(own, _)| own.eq_ignore_ascii_case(name));
        own.next()
            .map(|(_, value)| value.to_owned())
            .unwrap_or_default()
    };
    let plain = |line: &str| format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n");
    match act {
        Act::Silent => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return Ok(());
        }
        Act::Redirect => {
            let location = plain("302 Found\r\nlocation: ws://127.0.0.1:1/");
            return stream.write_all(location.as_bytes()).await;
        }
        Act::Refuse => return stream.write_all(plain("403 Forbidden").as_bytes()).await,
        Act::EndlessHeaders => {
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\n")
                .await?;
            loop {
                stream.write_all(b"x-more: and more\r\n").await?;
            }
        }
        _ => {}
    }
    let key = format!(
        "{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
        header("sec-websocket-key")
    );
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    let accept = match act {
        Act::WrongAccept => "AAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned(),
        _ => STANDARD.encode(hash),
    };
    let protocol = match act {
        Act::ForeignProtocol => "other.v1",
        _ => "test.v1",
    };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\nsec-websocket-protocol: {protocol}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    speak(stream, act, seen, &header("x-key")).await
}

async fn speak(mut stream: TcpStream, act: Act, seen: &Seen, x_key: &str) -> std::io::Result<()> {
    match act {
        Act::Echo => {
            stream.write_all(&text("hi")).await?;
            loop {
                let (first, content) = read_frame(&mut stream).await?;
                stream.write_all(&frame(first, &content)).await?;
                if content == b"bye" {
                    return stream.write_all(&close()).await;
                }
            }
        }
        Act::SayHandshake => {
            stream.write_all(&text(&format!("x-key: {x_key}"))).await?;
            stream.write_all(&close()).await
        }
        Act::Huge => {
            let mut head = vec![0x81, 127];
            head.extend((1_u64 << 30).to_be_bytes());
            stream.write_all(&head).await?;
            for _ in 0..1 << 14 {
                stream.write_all(&[b'x'; 1 << 16]).await?;
            }
            Ok(())
        }
        Act::HugeInParts => {
            stream.write_all(&frame(0x01, b"x")).await?;
            loop {
                stream.write_all(&frame(0x00, &[b'x'; 1 << 16])).await?;
            }
        }
        Act::PingFlood => loop {
            stream.write_all(&frame(0x89, b"ping")).await?;
        },
        Act::TextAfterClose => {
            let all = [text("before"), close(), text("after")].concat();
            stream.write_all(&all).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            stream.write_all(&text("later")).await
        }
        Act::Masked => stream.write_all(&[0x81, 0x81, 0, 0, 0, 0, b'x']).await,
        Act::Stream => {
            let started = std::time::Instant::now();
            let message = frame(0x82, &[7; 1 << 16]);
            for _ in 0..STREAMED {
                stream.write_all(&message).await?;
                seen.n_sent.fetch_add(message.len(), Ordering::SeqCst);
                if started.elapsed() < Duration::from_secs(3) {
                    let sent = seen.n_sent.load(Ordering::SeqCst);
                    seen.sent_while_slow.store(sent, Ordering::SeqCst);
                }
            }
            stream.write_all(&close()).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        }
        Act::Hold => loop {
            read_frame(&mut stream).await?;
        },
        _ => Ok(()),
    }
}
