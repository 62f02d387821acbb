//! The format of an audit log: lines of JSON, each with the hash of the line before it, and the
//! head of the chain, which the session remembers.
//!
//! The plugin `audit-log` [writes](Writer) it, the host [checks](check) it. Must not know where
//! logs are: it is given the bytes of a log's files in order. Start from [`Line`].

mod check;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use check::{Checked, check};
pub use write::{EventPosition, LogEnd, Writer, continue_log, read_end};

/// Name of the plugin that keeps the log.
pub const PLUGIN: &str = "audit-log";

/// Key of the plugin's session state that holds the [`Head`] as JSON.
pub const HEAD_KEY: &str = "head";

/// Line of a log. Fields stand in alphabetical order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Name of the agent.
    pub agent: String,
    /// Event, an object with a `type`.
    pub event: Value,
    /// Number in the log, from 1.
    pub n: u64,
    /// SHA-256 of the line before it; of `rind audit SESSION` in the first.
    pub prev: String,
    /// Session id.
    pub session: String,
    /// Milliseconds since 1970.
    pub time: u64,
    /// Number of the turn.
    pub turn: u32,
}

impl Line {
    /// The `type` of its event.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.event["type"].as_str().unwrap_or_default()
    }
}

/// The last line of a chain, as the session remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session that the chain belongs to: a fork begins with the state of another.
    pub session: String,
    /// Number of the line, from 1; 0 before the first.
    pub n: u64,
    /// Hash of the line.
    pub hash: String,
}

impl Head {
    /// Returns the head of a chain without lines.
    #[must_use]
    pub fn of(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            n: 0,
            hash: root(session),
        }
    }
}

/// Computes SHA-256 as small hexadecimal digits.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |byte: u8| char::from(DIGITS[usize::from(byte)]);
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

/// Returns the value that the first line of a session holds instead of a previous hash.
#[must_use]
pub fn root(session: &str) -> String {
    hash(format!("rind audit {session}").as_bytes())
}
