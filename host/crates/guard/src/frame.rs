//! Length-prefixed messages between the hook program and the daemon.
//!
//! A request is two frames: a JSON head, and the bytes that the agent sent. A reply is one JSON
//! frame. The hook program uses blocking I/O because it does nothing else meanwhile; the daemon
//! uses tokio.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as PlainStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::agent::{AgentHookPoint, GuardedAgent};
use super::answer::HookAnswer;
use super::event::MAX_HOOK_PAYLOAD_BYTES;

/// Maximum size of the JSON head of a request to the daemon, in bytes.
const MAX_REQUEST_HEAD_BYTES: usize = 64 << 10;

/// Maximum size of a reply, in bytes. A reply may contain the payload's arguments or result, and
/// JSON may escape each of their characters.
const MAX_REPLY_BYTES: usize = 8 * MAX_HOOK_PAYLOAD_BYTES;

/// JSON head of a request to the daemon, before the agent's payload.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestHead {
    /// Id of the hook program's build and of the folders that the program uses.
    pub(crate) build: String,
    pub(crate) agent: GuardedAgent,
    pub(crate) point: AgentHookPoint,
    /// Folder in which the agent started the hook program.
    pub(crate) folder: PathBuf,
}

/// Reply of the guard's daemon to a hook program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DaemonReply {
    /// Answer that the hook program passes to the agent.
    Answer(HookAnswer),
    /// The daemon is about to be replaced by another one; contains the reason.
    Retired(String),
}

/// Encodes frames into one buffer, to be sent with a single write: each further write would wake
/// the receiver again and delay the agent.
pub(crate) fn encode_frames(frames: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for frame in frames {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(frame);
    }
    Ok(bytes)
}

/// Decodes the length prefix of a frame. Fails if the length exceeds the limit.
fn decode_frame_length(length: [u8; 4], limit: usize) -> io::Result<usize> {
    let length = u32::from_be_bytes(length) as usize;
    match length > limit {
        true => Err(io::Error::other(format!(
            "a message has {length} bytes; at most {limit} bytes are accepted"
        ))),
        false => Ok(length),
    }
}

pub(crate) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = decode_frame_length(length, limit)?;
    // The buffer grows as bytes arrive, because the announced length may be false.
    let mut bytes = Vec::new();
    let n_read = stream.take(length as u64).read_to_end(&mut bytes).await?;
    if n_read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

pub(crate) fn write_request(
    stream: &mut PlainStream,
    head: &RequestHead,
    payload: &[u8],
) -> io::Result<()> {
    stream.write_all(&encode_frames(&[&serde_json::to_vec(head)?, payload])?)
}

/// Reads the request of a connection to the daemon; a connection has only one.
pub(crate) async fn read_request(stream: &mut UnixStream) -> io::Result<(RequestHead, Vec<u8>)> {
    let mut stream = BufReader::new(stream);
    let head = read_frame(&mut stream, MAX_REQUEST_HEAD_BYTES).await?;
    let head = serde_json::from_slice(&head)?;
    Ok((head, read_frame(&mut stream, MAX_HOOK_PAYLOAD_BYTES).await?))
}

pub(crate) async fn write_reply(stream: &mut UnixStream, reply: &DaemonReply) -> io::Result<()> {
    let bytes = encode_frames(&[&serde_json::to_vec(reply)?])?;
    stream.write_all(&bytes).await
}

/// Reads the daemon's reply on a connection; a connection has only one.
pub(crate) fn read_reply(stream: &mut PlainStream) -> io::Result<DaemonReply> {
    let mut stream = io::BufReader::new(stream);
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = decode_frame_length(length, MAX_REPLY_BYTES)?;
    let mut bytes = Vec::new();
    let n_read = stream.take(length as u64).read_to_end(&mut bytes)?;
    if n_read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}
