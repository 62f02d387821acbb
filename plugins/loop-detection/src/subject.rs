//! Identifies repeated calls and edits: computes a hash that is equal for equal calls, and finds
//! the file that a call edits.

use std::io;

use rind_sdk::serde_json::{self, Value};
use rind_sdk::types::ToolCall;

/// Returns the FNV-1a hash. A cryptographic hash is not needed: an attacker gains nothing from a
/// collision.
pub(crate) fn fnv1a_hash(bytes: &[u8]) -> u64 {
    Fnv1aHash::default().with_bytes(bytes).0
}

/// FNV-1a hash of the bytes that are written to it.
struct Fnv1aHash(u64);

impl Default for Fnv1aHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1aHash {
    fn with_bytes(&self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

impl io::Write for Fnv1aHash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self = self.with_bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a hash of a call that does not depend on whitespace in its arguments or on their order.
///
/// For example:
///
/// ```text
/// read_file {"path":"a","from":1}      the same hash
/// read_file {"from": 1, "path": "a"}
/// ```
pub(crate) fn call_fingerprint(name: &str, arguments: &str) -> u64 {
    let mut text = Fnv1aHash::default()
        .with_bytes(name.as_bytes())
        .with_bytes(b" ");
    // The parsed arguments have sorted keys, so the order of the keys does not affect the hash.
    // Arguments that are not JSON are not hashed.
    if let Ok(arguments) = serde_json::from_str::<Value>(arguments) {
        // Writing to a hash never fails.
        let _ = serde_json::to_writer(&mut text, &arguments);
    }
    text.0
}

/// Returns the file that a call edits, if its tool is one of `tools`.
pub(crate) fn edited_file_path(call: &ToolCall, tools: &[String]) -> Option<String> {
    if !tools.contains(&call.name) {
        return None;
    }
    let arguments: Value = call.parse().ok()?;
    let path = ["path", "file_path"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_str())?;
    Some(normalize_edited_path(path))
}

/// Normalizes a path: `./a//b` and `a/c/../b` become `a/b`.
fn normalize_edited_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}
