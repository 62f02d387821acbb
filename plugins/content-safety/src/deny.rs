//! Patterns of text that must not be shown: those of the operator and those of built-in categories.
//! If one matches, the complete output is held back.

use regex_lite::Regex;
use rind_sdk::prelude::Error;

use crate::settings::SafetySettings;

/// Built-in categories of denied text, each with its patterns.
const DENIED_CATEGORY_PATTERNS: &[(&str, &[&str])] = &[
    (
        "destructive-command",
        &[
            r"\brm\s+(-\w+\s+|--[a-z-]+\s+)*(-\w*[rR]\w*|--recursive)\s+(-\w+\s+|--[a-z-]+\s+)*(/\*?|~/?\*?|\$HOME/?)(\s|[;&|`'\x22)]|$)",
            r"\bmkfs(\.\w+)?\s+(-\S+\s+)*/dev/",
            r"\bdd\s[^\n]*\bof=/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk)",
            r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:",
        ],
    ),
    (
        "private-key",
        &[r"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----"],
    ),
    (
        "reverse-shell",
        &[
            r"/dev/(tcp|udp)/[A-Za-z0-9.$\{-]",
            r"\b(nc|ncat|netcat)\s[^\n]*(-\w*[ec]\s*|--exec\s+|--sh-exec\s+)(/\w+)*/?(ba|z|da)?sh\b",
        ],
    ),
];

/// Returns the reason why a text must not be shown to the user; `None` if it may be shown. The
/// reason does not quote the text.
///
/// # Errors
/// A pattern of the operator is not a regular expression; the error contains its number.
pub(crate) fn find_denial_reason(
    text: &str,
    settings: &SafetySettings,
) -> Result<Option<String>, Error> {
    for (number, pattern) in (1..).zip(&settings.deny) {
        let regex = Regex::new(pattern).map_err(|error| {
            Error::invalid(format!(
                "deny pattern {number} of the settings is not a regular expression: {error}"
            ))
        })?;
        if regex.is_match(text) {
            return Ok(Some(format!(
                "it matches deny pattern {number} of the settings"
            )));
        }
    }
    for (name, patterns) in DENIED_CATEGORY_PATTERNS {
        if !settings.block.iter().any(|blocked| blocked == name) {
            continue;
        }
        for pattern in *patterns {
            if Regex::new(pattern).map_err(Error::other)?.is_match(text) {
                return Ok(Some(format!(
                    "it matches a pattern of the blocked category `{name}`"
                )));
            }
        }
    }
    Ok(None)
}
