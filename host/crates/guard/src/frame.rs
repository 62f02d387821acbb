//! Messages between the program at a hook and the daemon: frames with a length before them.
//!
//! A request is a head in JSON and the bytes that the agent sent; a reply is JSON. The program at a
//! hook reads and writes with plain calls of the system, since it does nothing else meanwhile, and
//! the daemon with a runtime.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as PlainStream;
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

/// Returns frames as one text, to be written with one call of the system: each further one would
/// wake the other side once more, and an agent waits for the sum.
pub(crate) fn encode_frames(frames: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for frame in frames {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(frame);
    }
    Ok(bytes)
}

/// Checks the length that a frame claims to have.
fn check_length(length: [u8; 4], limit: usize) -> io::Result<usize> {
    let length = u32::from_be_bytes(length) as usize;
    match length > limit {
        true => Err(io::Error::other(format!(
            "a message of {length} bytes, at most {limit} are read"
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
    let length = check_length(length, limit)?;
    // Grow with what arrives: the length is a claim.
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

/// Reads the request of a connection, which has one.
pub(crate) async fn read_request(stream: &mut UnixStream) -> io::Result<(RequestHead, Vec<u8>)> {
    let mut stream = BufReader::new(stream);
    let head = read_frame(&mut stream, MAX_HEAD).await?;
    let head = serde_json::from_slice(&head)?;
    Ok((head, read_frame(&mut stream, MAX_PAYLOAD).await?))
}

pub(crate) async fn write_reply(stream: &mut UnixStream, reply: &DaemonReply) -> io::Result<()> {
    let bytes = encode_frames(&[&serde_json::to_vec(reply)?])?;
    stream.write_all(&bytes).await
}

/// Reads the reply of a connection, which has one.
pub(crate) fn read_reply(stream: &mut PlainStream) -> io::Result<DaemonReply> {
    let mut stream = io::BufReader::new(stream);
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = check_length(length, MAX_REPLY)?;
    let mut bytes = Vec::new();
    let n_read = stream.take(length as u64).read_to_end(&mut bytes)?;
    if n_read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}
