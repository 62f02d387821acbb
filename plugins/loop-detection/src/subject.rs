//! Subject of a call: a hash that is the same for the same call, and the file that it edits.

use rind_sdk::serde_json::Value;
use rind_sdk::types::ToolCall;

/// FNV-1a: small, and an attacker gains nothing from a collision here.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A hash of a call that does not depend on how its arguments are spaced and ordered.
///
/// For example:
///
/// ```text
/// read_file {"path":"a","from":1}      the same hash
/// read_file {"from": 1, "path": "a"}
/// ```
pub(crate) fn call_fingerprint(name: &str, arguments: &str) -> u64 {
    // Objects come back sorted by key.
    let arguments =
        rind_sdk::serde_json::from_str::<Value>(arguments).map(|value| value.to_string());
    hash(format!("{name} {}", arguments.unwrap_or_default()).as_bytes())
}

/// The file that a call edits, if it is a call of one of `tools`.
pub(crate) fn edited_file(call: &ToolCall, tools: &[String]) -> Option<String> {
    if !tools.contains(&call.name) {
        return None;
    }
    let arguments: Value = call.parse().ok()?;
    let path = ["path", "file_path"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_str())?;
    Some(tidy_path(path))
}

/// The same path for `a/b`, `./a//b` and `a/c/../b`.
fn tidy_path(path: &str) -> String {
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
