//! Checks that numbers in settings have bounds.

use super::tree::Source;

/// Types of numbers that need bounds, because an extreme value does not have the effect that an
/// operator expects. A `u16` is a priority, of which every value is valid.
const WIDE: &[&str] = &["u32", "u64", "usize", "i32", "i64", "f32", "f64"];

/// Reports numbers without bounds in files that contain settings.
pub(super) fn check(source: &Source) -> Vec<String> {
    let holds_settings = source.path.ends_with("/config.rs")
        || ["impl Section for", "number::within"]
            .iter()
            .any(|sign| source.text.contains(sign));
    if !holds_settings {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let (mut is_read, mut is_bounded, mut is_inside) = (false, false, false);
    for (at, line) in source.code() {
        let line = line.trim();
        if line.starts_with("#[derive(") {
            is_read = line.contains("Deserialize");
        } else if line.starts_with("pub struct") && line.ends_with('{') {
            is_inside = is_read;
        } else if line == "}" {
            (is_inside, is_read) = (false, false);
        }
        is_bounded |= line.contains("deserialize_with") || line.contains("serde(skip)");
        let Some((_, kind)) = line
            .strip_suffix(',')
            .and_then(|line| line.split_once(": "))
            .filter(|_| !line.starts_with("#["))
        else {
            continue;
        };
        let number = kind.trim_start_matches("Option<").trim_end_matches('>');
        if is_inside && !is_bounded && WIDE.contains(&number) {
            findings.push(format!(
                "{}:{at}: a number of settings without bounds; give it `deserialize_with = \"number::within::<…>\"`",
                source.path
            ));
        }
        is_bounded = false;
    }
    findings
}

#[test]
fn numbers_without_bounds_are_found() {
    let file = |field: &str| {
        let text = format!(
            "#[derive(Clone, Deserialize)]\npub struct Config {{\n    /// Doc.\n    {field}\n}}\nimpl Section for Config {{}}\n"
        );
        check(&Source::new("host/src/a.rs", &text))
    };
    for field in [
        "pub steps: u32,",
        "pub seconds: Option<u64>,",
        "pub share: f64,",
    ] {
        assert_eq!(file(field).len(), 1, "{field}");
    }
    for field in [
        "pub name: String,",
        "#[serde(deserialize_with = \"number::within::<1, 9, _, _>\")]\n    pub steps: u32,",
        "#[serde(skip)]\n    pub steps: u32,",
    ] {
        assert!(file(field).is_empty(), "{field}");
    }
}
