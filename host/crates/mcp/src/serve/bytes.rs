//! Converts bytes to the content of a resource.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ResourceContents;

/// Converts bytes to the content of a resource: to text if the media type is textual and the bytes
/// are UTF-8, otherwise to base64.
pub(super) fn to_resource_contents(
    bytes: Vec<u8>,
    uri: &str,
    media_type: &str,
) -> ResourceContents {
    let read = match is_textual_media_type(media_type) {
        true => String::from_utf8(bytes).map_err(|error| error.into_bytes()),
        false => Err(bytes),
    };
    let contents = match read {
        Ok(text) => ResourceContents::text(text, uri),
        Err(bytes) => ResourceContents::blob(STANDARD.encode(bytes), uri),
    };
    contents.with_mime_type(media_type)
}

/// Whether a media type is textual.
fn is_textual_media_type(media_type: &str) -> bool {
    let base = media_type.split(';').next().unwrap_or_default().trim();
    base.starts_with("text/")
        || matches!(base, "application/json" | "application/xml")
        || base.ends_with("+json")
        || base.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_text_and_everything_else_base64() {
        let described = |bytes: &[u8], kind: &str| {
            let contents = to_resource_contents(bytes.to_vec(), "a:b", kind);
            let contents = serde_json::to_value(contents).unwrap();
            assert_eq!(contents["uri"], "a:b");
            assert_eq!(contents["mimeType"], kind);
            (contents["text"].clone(), contents["blob"].clone())
        };
        let none = || json!(null);
        assert_eq!(described(b"{}", "application/json"), (json!("{}"), none()));
        let kind = "text/plain; charset=utf-8";
        assert_eq!(described(b"abc", kind), (json!("abc"), none()));
        assert_eq!(described(b"abc", "x/y"), (none(), json!("YWJj")));
        // Bytes that are not UTF-8 are not converted lossily.
        assert_eq!(described(&[0xff], "text/plain"), (none(), json!("/w==")));
    }
}
