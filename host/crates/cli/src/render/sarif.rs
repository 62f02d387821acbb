//! Renders the faults of plugins as SARIF 2.1.0 (OASIS), which tools that show results of static
//! analysis read.

use std::path::Path;

use serde_json::{Value, json};

use rind_check::{CHECK_RULES, PluginCheckResult, PluginFault};

/// URL of the JSON Schema of SARIF 2.1.0.
const SARIF_JSON_SCHEMA_URL: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns the SARIF report on all checked plugins.
pub(in super::super) fn build_sarif_report(all: &[PluginCheckResult]) -> Value {
    let rules = CHECK_RULES.iter().map(|(rule, subject)| {
        json!({
            "id": rule,
            "shortDescription": { "text": subject },
            "defaultConfiguration": { "level": "error" },
        })
    });
    let faults = all.iter().flat_map(|checked| &checked.faults);
    json!({
        "$schema": SARIF_JSON_SCHEMA_URL,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "rind plugin check",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "results": faults.map(build_sarif_result).collect::<Vec<_>>(),
        }],
    })
}

fn build_sarif_result(fault: &PluginFault) -> Value {
    let mut place = json!({ "artifactLocation": { "uri": to_uri_reference(&fault.path) } });
    if let Some(line) = fault.line {
        place["region"] = json!({ "startLine": line });
    }
    json!({
        "ruleId": fault.rule,
        "level": "error",
        "message": { "text": fault.message },
        "locations": [{ "physicalLocation": place }],
    })
}

/// Returns a path as a URI reference (RFC 3986), relative to the root of the sources.
fn to_uri_reference(path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.strip_prefix("./").unwrap_or(&path);
    let encoded = path.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        assert_eq!(
            to_uri_reference(Path::new("./a b/%.toml")),
            "a%20b/%25.toml"
        );
        assert_eq!(
            to_uri_reference(Path::new("p/plugin.toml")),
            "p/plugin.toml"
        );
    }
}
