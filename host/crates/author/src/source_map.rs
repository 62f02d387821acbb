//! Converts a source map into a table from lines of the bundle to lines of the plugin's source, so
//! that errors at run time can name the source line.
//!
//! Columns are ignored, since the bundle is not minified. Start from
//! [`generate_source_positions_script`].

use std::path::Path;

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;

/// Directory of the SDK within a plugin's directory. Errors do not name source lines of the SDK.
const SDK_FOLDER_NAME: &str = "rind-sdk";

/// JavaScript source map, version 3 of the format (ECMA-426).
#[derive(Deserialize)]
struct SourceMap {
    sources: Vec<String>,
    mappings: String,
}

/// Returns a line of JavaScript that defines, for the entry module, the source position of each
/// line of the bundle. `map` is the text of the source map, `folder` the directory of the bundle,
/// and `plugin` the plugin's directory: sources outside of it, and the SDK, are left out. Returns
/// an empty text if the map is invalid; error messages then have no source positions.
pub(super) fn generate_source_positions_script(map: &str, folder: &Path, plugin: &Path) -> String {
    let Ok(map) = serde_json::from_str::<SourceMap>(map) else {
        return String::new();
    };
    let own_name = |source: &String| {
        // Sources are URLs, but older bundlers write paths.
        let decoded = percent_decode_str(source).decode_utf8().ok();
        let decoded = decoded.and_then(|path| folder.join(&*path).canonicalize().ok());
        let path = decoded.or_else(|| folder.join(source).canonicalize().ok())?;
        let own = path.strip_prefix(plugin).ok()?;
        (!own.starts_with(SDK_FOLDER_NAME)).then(|| own.display().to_string())
    };
    let sources: Vec<Option<String>> = map.sources.iter().map(own_name).collect();
    // Two numbers for each line of the bundle: the index of the source or -1, and the line in it.
    // The first pair stands for line 0, because lines are counted from 1.
    let mut lines: Vec<i64> = vec![-1, 0];
    let (mut source, mut line) = (0, 0);
    for group in map.mappings.split(';') {
        let mut first = None;
        for segment in group.split(',').filter(|segment| !segment.is_empty()) {
            let Some(fields) = decode_vlq(segment) else {
                return String::new();
            };
            if let [_, source_step, line_step, ..] = fields[..] {
                source += source_step;
                line += line_step;
                first.get_or_insert((source, line));
            }
        }
        let (at, line) = first.unwrap_or((-1, 0));
        let is_own = usize::try_from(at)
            .ok()
            .and_then(|at| sources.get(at))
            .is_some_and(Option::is_some);
        lines.extend([if is_own { at } else { -1 }, line + 1]);
    }
    let places = json!({ "sources": sources, "lines": lines });
    format!("\nglobalThis.__rindPlaces = {places};\n")
}

/// Decodes the numbers of a segment of a source map. They are encoded in base64 VLQ: least
/// significant digits first, and the lowest bit is the sign.
fn decode_vlq(segment: &str) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0_i64, 0_u32);
    for byte in segment.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        number |= i64::from(digit & 31).checked_shl(shift)?;
        if digit & 32 == 0 {
            let is_negative = number & 1 == 1;
            number >>= 1;
            numbers.push(if is_negative { -number } else { number });
            (number, shift) = (0, 0);
        } else {
            shift += 5;
            if shift > 40 {
                return None;
            }
        }
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_segment_are_read() {
        for (segment, numbers) in [
            ("AAAA", Some(vec![0, 0, 0, 0])),
            ("ACDgB", Some(vec![0, 1, -1, 16])),
            ("", Some(vec![])),
            ("A!", None),
            ("//////////", None),
        ] {
            assert_eq!(decode_vlq(segment), numbers, "{segment}");
        }
    }

    #[test]
    fn each_line_leads_to_the_plugins_source_and_the_sdk_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let plugin = root.join("plugin");
        for file in ["src/plugin.js", "rind-sdk/src/hook.js"] {
            let file = plugin.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let map = r#"{"version":3,"sources":["../plugin/rind-sdk/src/hook.js","../plugin/src/plugin.js"],"mappings":"AAAA;;ACCA;AAEA"}"#;
        std::fs::create_dir(root.join("made")).unwrap();
        let found = generate_source_positions_script(map, &root.join("made"), &plugin);
        assert_eq!(
            found,
            "\nglobalThis.__rindPlaces = {\"sources\":[null,\"src/plugin.js\"],\"lines\":[-1,0,-1,1,-1,1,1,2,1,4]};\n"
        );
        assert_eq!(generate_source_positions_script("{", &root, &plugin), "");
        // The source map may name the sources as URLs or as paths.
        let plugin = root.join("a%20b% c");
        std::fs::create_dir(&plugin).unwrap();
        std::fs::write(plugin.join("p%41.js"), "").unwrap();
        for source in ["../a%2520b%25%20c/p%2541.js", "../a%20b% c/p%41.js"] {
            let map = json!({"version": 3, "sources": [source], "mappings": "AAAA"}).to_string();
            let found = generate_source_positions_script(&map, &root.join("made"), &plugin);
            assert!(
                found.contains(r#""sources":["p%41.js"]"#),
                "{source}: {found}"
            );
        }
    }
}
