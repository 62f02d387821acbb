//! Derives the properties of a Gemini model from its name: the URL path, the version, and whether
//! the model accepts requests for thoughts.

/// Returns the URL path of a model below the API version. Adds `models/` to a name without a slash;
/// names in other collections, such as `tunedModels/NAME`, are used unchanged. A `.` or `..`
/// segment cannot leave this path: it is percent-encoded, and the server refuses the unknown name.
pub(super) fn model_path(name: &str) -> String {
    let segments: Vec<String> = name.split('/').map(encode_path_segment).collect();
    match segments.as_slice() {
        [only] => format!("models/{only}"),
        _ => segments.join("/"),
    }
}

/// Percent-encodes one segment of a URL path.
fn encode_path_segment(text: &str) -> String {
    if matches!(text, "." | "..") {
        // The percent sign is encoded too, because URL parsers read `%2E%2E` as `..`.
        return text.replace('.', "%252E");
    }
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // In a Gemini URL, a colon separates the model name from the method.
            '%' | ':' | '?' | '#' | '\\' => encoded.push_str(&format!("%{:02X}", u32::from(c))),
            c => encoded.push(c),
        }
    }
    encoded
}

/// Reads the version of a model from its name, such as (2, 5) in `gemini-2.5-flash`; `None` for a
/// name without one, such as `gemini-flash-latest`.
fn model_version(name: &str) -> Option<(u32, u32)> {
    let version = name.split_once("gemini-")?.1.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn is_gemini(name: &str) -> bool {
    name.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("gemini-"))
}

/// Whether a request may ask a model for its thoughts. Older models, and models for images and
/// speech, refuse such a request.
pub(super) fn model_accepts_include_thoughts(name: &str) -> bool {
    let is_other = ["image", "tts", "audio", "live", "embedding"]
        .iter()
        .any(|kind| name.contains(kind));
    is_gemini(name) && !is_other && model_version(name).is_none_or(|version| version >= (2, 5))
}

/// Whether a model refuses a call without a thought signature: Gemini 3 and later.
pub(super) fn requires_thought_signatures(name: &str) -> bool {
    is_gemini(name) && model_version(name).is_none_or(|(major, _)| major >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_path_that_stays_in_its_place() {
        for (name, expected) in [
            ("gemini-2.5-pro", "models/gemini-2.5-pro"),
            ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
            ("tunedModels/mine", "tunedModels/mine"),
            ("../v1/files", "%252E%252E/v1/files"),
            ("a/./b", "a/%252E/b"),
            ("a:b?c#d%2e", "models/a%3Ab%3Fc%23d%252e"),
            ("", "models/"),
        ] {
            assert_eq!(model_path(name), expected, "{name}");
        }
    }

    #[test]
    fn names_tell_what_a_model_does() {
        for (name, is_thinking, is_strict) in [
            ("gemini-1.5-pro", false, false),
            ("gemini-2.0-flash", false, false),
            ("gemini-2.5-flash", true, false),
            ("models/gemini-2.5-flash", true, false),
            ("gemini-2.5-flash-image", false, false),
            ("gemini-3-pro-preview", true, true),
            ("gemini-3.8-flash", true, true),
            ("gemini-flash-latest", true, true),
            ("gemma-3-27b-it", false, false),
            ("my-model", false, false),
        ] {
            assert_eq!(
                (
                    model_accepts_include_thoughts(name),
                    requires_thought_signatures(name)
                ),
                (is_thinking, is_strict),
                "{name}"
            );
        }
    }
}
