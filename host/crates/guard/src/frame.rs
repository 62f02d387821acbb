//! Messages between the program at a hook and the daemon: frames with a length before them.
//!
//! A request is a head in JSON and the bytes that the agent sent; a reply is JSON.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::agent::{GuardPoint, GuardedAgent};
use super::answer::HookAnswer;
use super::event::MAX_PAYLOAD;

/// Maximum size of a head, in bytes.
const MAX_HEAD: usize = 64 << 10;

/// Maximum size of a reply, in bytes: arguments or a result, with everything escaped.
const MAX_REPLY: usize = 8 * MAX_PAYLOAD;

/// Head of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestHead {
    /// Build of the program, and the folders that it works with.
    pub(crate) build: String,
    pub(crate) agent: GuardedAgent,
    pub(crate) point: GuardPoint,
    /// Folder in which the agent started the program.
    pub(crate) folder: PathBuf,
}

/// Reply of the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DaemonReply {
    /// Answer for the agent.
    Answer(HookAnswer),
    /// The daemon is about to be replaced by another one, for this reason.
    Retired(String),
}

/// Writes frames with one call of the system: each further one would wake the other side once more,
/// and an agent waits for the sum.
pub(crate) async fn write_frames(stream: &mut UnixStream, frames: &[&[u8]]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for frame in frames {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(frame);
    }
    stream.write_all(&bytes).await
}

pub(crate) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(io::Error::other(format!(
            "a message of {length} bytes, at most {limit} are read"
        )));
    }
    // Grow with what arrives: the length is a claim.
    let mut bytes = Vec::new();
    let n_read = stream.take(length as u64).read_to_end(&mut bytes).await?;
    if n_read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

pub(crate) async fn write_request(
    stream: &mut UnixStream,
    head: &RequestHead,
    payload: &[u8],
) -> io::Result<()> {
    write_frames(stream, &[&serde_json::to_vec(head)?, payload]).await
}

/// Reads the request of a connection, which has one.
pub(crate) async fn read_request(stream: &mut UnixStream) -> io::Result<(RequestHead, Vec<u8>)> {
    let mut stream = BufReader::new(stream);
    let head = read_frame(&mut stream, MAX_HEAD).await?;
    let head = serde_json::from_slice(&head)?;
    Ok((head, read_frame(&mut stream, MAX_PAYLOAD).await?))
}

pub(crate) async fn write_reply(stream: &mut UnixStream, reply: &DaemonReply) -> io::Result<()> {
    write_frames(stream, &[&serde_json::to_vec(reply)?]).await
}

/// Reads the reply of a connection, which has one.
pub(crate) async fn read_reply(stream: &mut UnixStream) -> io::Result<DaemonReply> {
    let reply = read_frame(&mut BufReader::new(stream), MAX_REPLY).await?;
    Ok(serde_json::from_slice(&reply)?)
}
