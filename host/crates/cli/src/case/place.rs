//! Finds the source line in the message of a failed build or a faulty manifest, for reports that
//! show messages at source lines.
//!
//! Start from [`parse_source_location_in_message`].

use std::path::{Component, Path, PathBuf};

/// Finds the first `FILE:LINE` in a compiler's message for which the file is in the plugin's
/// folder.
pub(super) fn parse_source_location_in_message(
    folder: &Path,
    message: &str,
) -> Option<(PathBuf, usize)> {
    message.split_whitespace().find_map(|word| {
        let mut parts = word.trim_start_matches('(').split(':');
        let path = Path::new(parts.next()?);
        let path = path.strip_prefix(folder).unwrap_or(path);
        let digits = parts.next()?.trim_end_matches([',', ')']);
        let line = digits.parse().ok()?;
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let path = folder.join(path);
        (is_below && path.is_file()).then_some((path, line))
    })
}

/// Returns the line number in a message about a manifest, such as 12 in `line 12, [hooks.pre-tol]`.
pub(super) fn parse_error_line_number(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("line ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_of_the_plugin_is_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir(folder.join("src")).unwrap();
        for name in ["plugin.py", "src/lib.rs"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let whole = format!("{}/plugin.py:3: no", folder.display());
        for (message, expected) in [
            ("plugin.py:21: unterminated", Some(("plugin.py", 21))),
            (
                "error: no\n  --> src/lib.rs:24:63\n",
                Some(("src/lib.rs", 24)),
            ),
            ("at 12:30 in (plugin.py:7)", Some(("plugin.py", 7))),
            (&whole, Some(("plugin.py", 3))),
            ("other.py:1: no", None),
            ("../plugin.py:1: no", None),
            ("plugin.py: no", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, line)| (folder.join(name), line));
            assert_eq!(
                parse_source_location_in_message(folder, message),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn a_message_about_a_manifest_names_its_line() {
        for (message, expected) in [
            ("TOML parse error at line 10, column 1", Some(10)),
            ("line 12, [hooks.pre-tol]: there is no such point", Some(12)),
            ("it has more than 9 bytes", None),
        ] {
            assert_eq!(parse_error_line_number(message), expected, "{message}");
        }
    }
}
