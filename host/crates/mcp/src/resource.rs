//! Checks the URIs of a server's resources, and converts its answers to content.
//!
//! A URI is sent to the server only if the server lists the URI or a template that matches it. The
//! host itself never opens a URI. Content is text or an image; other types are refused. Start from
//! [`ServerResourcesAndTemplates`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::ResourceContents;

use rind_lib::host::{FetchedPromptOrResource, ListedResource};
use rind_lib::message::PromptImageAttachment;
use rind_lib::message::blob::is_media_type;
use rind_lib::text::escape_and_truncate_line;

/// Maximum length of the URI of a resource, in bytes.
pub(crate) const MAX_RESOURCE_URI_BYTES: usize = 2 << 10;

/// Maximum number of resources and templates that one server can list.
pub(crate) const MAX_RESOURCES_PER_SERVER: usize = 10_000;

/// Maximum size of the text in one answer, in bytes.
pub(crate) const MAX_TEXT_BYTES_PER_ANSWER: usize = 256 << 10;

/// Maximum number of parts in a server's answer with the content of a resource.
const MAX_CONTENT_PARTS_PER_ANSWER: usize = 32;

/// Maximum number of images in a server's answer with the content of a resource.
const MAX_IMAGES_PER_ANSWER: usize = 10;

/// Maximum length of a quoted URI or type, in bytes.
const MAX_QUOTED_URI_BYTES: usize = 200;

/// Maximum length of a description in a list, in bytes.
const MAX_LISTED_DESCRIPTION_BYTES: usize = 200;

/// Maximum number of times that a URI is percent-decoded to find a hidden `..`.
const MAX_URI_PERCENT_DECODINGS: usize = 4;

/// Resources and templates that a server listed at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerResourcesAndTemplates {
    /// Resources that can be read at once, each with its URI.
    pub(crate) resources: Vec<ListedResource>,
    /// Resource templates, each with its RFC 6570 text.
    pub(crate) templates: Vec<ListedResource>,
}

impl ServerResourcesAndTemplates {
    /// Adds a resource, or a resource template if `template` is set. Shortens the texts of the
    /// entry to one line. Skips an entry whose URI could not be requested.
    ///
    /// # Errors
    /// The server lists too many; phrased to follow "the server".
    pub(crate) fn add_listed_resource(&mut self, mut listed: ListedResource) -> Result<(), String> {
        let address = listed.template.as_ref().unwrap_or(&listed.uri);
        // Skip a URI that is too long to be requested.
        if address.len() > MAX_RESOURCE_URI_BYTES {
            return Ok(());
        }
        if self.resources.len() + self.templates.len() >= MAX_RESOURCES_PER_SERVER {
            return Err(format!(
                "lists more than {MAX_RESOURCES_PER_SERVER} resources"
            ));
        }
        listed.name = escape_and_truncate_line(&listed.name, MAX_LISTED_DESCRIPTION_BYTES);
        listed.description =
            escape_and_truncate_line(&listed.description, MAX_LISTED_DESCRIPTION_BYTES);
        listed.media_type = listed.media_type.filter(|own| is_media_type(own));
        // Skip an entry whose URI or template could not be requested.
        match &listed.template {
            Some(template)
                if has_uri_scheme(uri_template_literal_prefix(template))
                    && template.chars().all(is_visible_char) =>
            {
                uri_template_literal_prefix(template).clone_into(&mut listed.uri);
                self.templates.push(listed);
            }
            None if check_resource_uri(&listed.uri).is_ok() => self.resources.push(listed),
            _ => {}
        }
        Ok(())
    }

    /// Whether the server lists this URI, or a template that the URI matches.
    pub(crate) fn contains_uri(&self, uri: &str) -> bool {
        self.resources.iter().any(|own| own.uri == uri)
            || self
                .templates
                .iter()
                .filter_map(|own| own.template.as_deref())
                .any(|own| matches_uri_template(own, uri))
    }

    /// Returns the resources and templates to propose to the user. The `uri` of a template is its
    /// text before the first expression.
    pub(crate) fn resource_suggestions_for_user(&self) -> Vec<ListedResource> {
        self.resources
            .iter()
            .chain(&self.templates)
            .cloned()
            .collect()
    }
}

/// Checks a URI before it is sent to a server.
///
/// # Errors
/// Reason, phrased to follow "the address".
pub(crate) fn check_resource_uri(uri: &str) -> Result<(), String> {
    if uri.len() > MAX_RESOURCE_URI_BYTES {
        return Err(format!(
            "has more than {} KiB",
            MAX_RESOURCE_URI_BYTES >> 10
        ));
    }
    if !has_uri_scheme(uri) {
        return Err("does not begin with a scheme such as `file:`".to_owned());
    }
    if !uri.chars().all(is_visible_char) {
        return Err("has blanks or characters that cannot be seen".to_owned());
    }
    if has_parent_dir_segment(uri) {
        return Err("has `..` in it, which could lead out of what the server shows".to_owned());
    }
    Ok(())
}

/// Whether a character is visible to the user, and so allowed in a URI.
fn is_visible_char(c: char) -> bool {
    c.is_ascii_graphic() || c.is_alphanumeric()
}

/// Whether a text begins with a URI scheme, such as `file:`.
fn has_uri_scheme(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Whether a part of a URI, in its path or elsewhere, is `..`, even if it is percent-encoded
/// several times.
fn has_parent_dir_segment(uri: &str) -> bool {
    let mut text = uri.to_ascii_lowercase();
    for _ in 0..MAX_URI_PERCENT_DECODINGS {
        let decoded = text
            .replace("%2e", ".")
            .replace("%2f", "/")
            .replace("%5c", "\\")
            .replace("%25", "%");
        if decoded == text {
            break;
        }
        text = decoded;
    }
    let mut parts = text.split(['/', '\\', ':', '?', '#', '&', '=', ';']);
    // Also refuse a URI that is still percent-encoded after all rounds: it probably hides `..`.
    parts.any(|part| part == "..") || text.contains("%25")
}

/// Returns the literal text of a URI template before its first expression.
fn uri_template_literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Whether a URI matches an RFC 6570 template. An expression such as `{name}` matches text without
/// `/`; an expression with an operator or `*` matches any text.
pub(crate) fn matches_uri_template(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let first = parts.next().unwrap_or_default();
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let Some((expression, literal)) = part.split_once('}') else {
            return false;
        };
        let is_simple = expression.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !expression.contains('*');
        let at = match (literal.is_empty(), parts.peek().is_none()) {
            (true, true) => Some(rest.len()),
            (false, true) => rest.ends_with(literal).then(|| rest.len() - literal.len()),
            // No literal separates this expression from the next one, so let this one match the
            // empty text.
            (true, false) => Some(0),
            (false, false) => rest.find(literal),
        };
        let Some(at) = at else {
            return false;
        };
        let (value, after) = rest.split_at(at);
        if is_simple && value.contains('/') {
            return false;
        }
        rest = after.strip_prefix(literal).unwrap_or_default();
    }
    rest.is_empty()
}

/// Converts the content of a resource into text and images.
///
/// # Errors
/// The answer is for another resource, too large, or neither text nor images; phrased to follow
/// "the server".
pub(crate) fn convert_resource_contents(
    uri: &str,
    contents: Vec<ResourceContents>,
) -> Result<FetchedPromptOrResource, String> {
    if contents.is_empty() {
        return Err("answered without any content".to_owned());
    }
    if contents.len() > MAX_CONTENT_PARTS_PER_ANSWER {
        return Err(format!(
            "answered with {} parts, more than the maximum of {MAX_CONTENT_PARTS_PER_ANSWER}",
            contents.len()
        ));
    }
    let is_many = contents.len() > 1;
    let mut fetched = FetchedPromptOrResource::default();
    for part in contents {
        let (own, media_type, content) = match part {
            ResourceContents::TextResourceContents {
                uri,
                mime_type,
                text,
                ..
            } => (uri, mime_type, DecodedResourcePartContent::Text(text)),
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => (uri, mime_type, decode_base64_part(&blob)?),
            _ => return Err("answered with a part of a kind that is not known".to_owned()),
        };
        check_answer_has_requested_uri(uri, &own)?;
        if is_many {
            fetched.text += &format!(
                "[{}]\n",
                escape_and_truncate_line(&own, MAX_QUOTED_URI_BYTES)
            );
        }
        add_content_part(&mut fetched, content, &media_type.unwrap_or_default())?;
    }
    Ok(fetched)
}

/// Content of one part of a resource, decoded from the protocol.
enum DecodedResourcePartContent {
    Text(String),
    Bytes(Vec<u8>),
}

fn decode_base64_part(blob: &str) -> Result<DecodedResourcePartContent, String> {
    let bytes = STANDARD.decode(blob);
    let bytes = bytes.map_err(|_| "answered with bytes that are not base64")?;
    Ok(DecodedResourcePartContent::Bytes(bytes))
}

/// Checks that the answer to a request for the resource `asked` has the URI `asked` or a URI below
/// it.
pub(crate) fn check_answer_has_requested_uri(asked: &str, own: &str) -> Result<(), String> {
    let below = own.strip_prefix(asked.trim_end_matches('/'));
    let is_below =
        below.is_some_and(|rest| rest.starts_with('/')) && check_resource_uri(own).is_ok();
    if own == asked || is_below {
        return Ok(());
    }
    Err(format!(
        "answered with another resource than the one that was asked for: `{}`",
        escape_and_truncate_line(own, MAX_QUOTED_URI_BYTES)
    ))
}

fn add_content_part(
    fetched: &mut FetchedPromptOrResource,
    content: DecodedResourcePartContent,
    media_type: &str,
) -> Result<(), String> {
    let named = match is_media_type(media_type) {
        true => media_type,
        false => "no known type",
    };
    let text = match content {
        DecodedResourcePartContent::Text(text) => text,
        DecodedResourcePartContent::Bytes(bytes) => {
            if let Ok(image) = PromptImageAttachment::image(bytes.clone()) {
                fetched.images.push(image);
                if fetched.images.len() > MAX_IMAGES_PER_ANSWER {
                    return Err(format!(
                        "answered with more than {MAX_IMAGES_PER_ANSWER} images"
                    ));
                }
                return Ok(());
            }
            if named.starts_with("image/") {
                let why = PromptImageAttachment::image(bytes)
                    .err()
                    .unwrap_or_default();
                return Err(format!(
                    "answered with {named} that is not supported: {why}"
                ));
            }
            String::from_utf8(bytes).map_err(|error| {
                let n_bytes = error.as_bytes().len();
                format!(
                    "answered with {n_bytes} bytes of {named}; only text and images can be put into an input"
                )
            })?
        }
    };
    if text.contains('\0') {
        return Err(format!(
            "answered with binary data as text ({named}); only text and images can be put into an input"
        ));
    }
    if fetched.text.len().saturating_add(text.len()) > MAX_TEXT_BYTES_PER_ANSWER {
        return Err(format!(
            "answered with more than {} KiB of text; ask for a part of it",
            MAX_TEXT_BYTES_PER_ANSWER >> 10
        ));
    }
    fetched.text += &text;
    if !fetched.text.ends_with('\n') {
        fetched.text.push('\n');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_address_is_plain_and_leads_nowhere_else() {
        for good in [
            "file:///a/b.txt",
            "docs://x",
            "db+x:a",
            "note:ü",
            "a:b..c/d..",
        ] {
            assert_eq!(check_resource_uri(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "a b://x",
            "://x",
            "file:///a/../b",
            "file:///..",
            "file:///a/%2e%2E/b",
            "file:///a/%252e%252e/b",
            "file:///a/%25252525252e%25252525252e/b",
            "file:///a%2f..%2fb",
            "file:///a\\..\\b",
            "x:..",
            "x:a?p=../b",
            "file:///a\u{202e}b",
            "file:///a\u{1b}[2J",
            "file:///a\n",
            &format!("x:{}", "y".repeat(MAX_RESOURCE_URI_BYTES)),
        ] {
            assert!(check_resource_uri(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_listed_or_fits_a_template_may_be_asked_for() {
        let mut list = ServerResourcesAndTemplates::default();
        let one = |uri: &str| ListedResource {
            uri: uri.to_owned(),
            ..ListedResource::default()
        };
        list.add_listed_resource(one("docs://one")).unwrap();
        list.add_listed_resource(one("docs://a/../b")).unwrap();
        for template in [
            "db://{table}/rows/{id}",
            "tree:///{+path}",
            "wild:///{path*}.md",
            "{+anything}",
            "{scheme}://x",
            "broken://{x",
            "hidden://\u{202e}{x}",
            "blank://a b/{x}",
        ] {
            let template = Some(template.to_owned());
            list.add_listed_resource(ListedResource {
                template,
                ..ListedResource::default()
            })
            .unwrap();
        }
        for (uri, expected) in [
            ("docs://one", true),
            ("docs://two", false),
            ("docs://a/../b", false),
            ("db://users/rows/7", true),
            ("db://users/x/rows/7", false),
            ("db://users/rows/7/8", false),
            ("tree:///a/b/c", true),
            ("wild:///a/b.md", true),
            ("wild:///a/b.txt", false),
            ("https://a.example/", false),
            ("broken://y", false),
        ] {
            assert_eq!(list.contains_uri(uri), expected, "{uri}");
        }
        let proposed: Vec<String> = list
            .resource_suggestions_for_user()
            .into_iter()
            .map(|own| own.uri)
            .collect();
        assert_eq!(
            proposed,
            ["docs://one", "db://", "tree:///", "wild:///", "broken://"]
        );
        let many = (0..=MAX_RESOURCES_PER_SERVER)
            .find_map(|n| list.add_listed_resource(one(&format!("a:{n}"))).err());
        assert!(many.unwrap().contains("more than 10000"));
    }

    fn read(contents: Value) -> Result<FetchedPromptOrResource, String> {
        convert_resource_contents("a://b", serde_json::from_value(contents).unwrap())
    }

    #[test]
    fn text_and_images_are_taken_and_everything_else_is_refused_by_name() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let fine = read(json!([
            {"uri": "a://b", "text": "one"},
            {"uri": "a://b/c", "blob": "dHdv", "mimeType": "text/plain"},
            {"uri": "a://b", "blob": png, "mimeType": "text/html"},
        ]))
        .unwrap();
        assert_eq!(fine.text, "[a://b]\none\n[a://b/c]\ntwo\n[a://b]\n");
        assert_eq!(fine.images.len(), 1);
        for (contents, expected) in [
            (json!([]), "without any content"),
            (
                json!([{"uri": "a://c", "text": "x"}]),
                "another resource than the one that was asked for: `a://c`",
            ),
            (
                json!([{"uri": "a://b/../c", "text": "x"}]),
                "another resource",
            ),
            (json!([{"uri": "a://bc", "text": "x"}]), "another resource"),
            (json!([{"uri": "a://b", "blob": "%"}]), "not base64"),
            (
                json!([{"uri": "a://b", "blob": "/wD/", "mimeType": "application/pdf"}]),
                "3 bytes of application/pdf",
            ),
            (
                json!([{"uri": "a://b", "blob": "/wD/", "mimeType": "\u{1b}[2J"}]),
                "3 bytes of no known type",
            ),
            (
                json!([{"uri": "a://b", "blob": "AAAA", "mimeType": "image/png"}]),
                "image/png that is not supported",
            ),
            (json!([{"uri": "a://b", "text": "a\u{0}b"}]), "binary data"),
            (
                json!([{"uri": "a://b", "text": "x".repeat(MAX_TEXT_BYTES_PER_ANSWER + 1)}]),
                "more than 256 KiB",
            ),
            (
                json!(vec![
                    json!({"uri": "a://b", "text": "x"});
                    MAX_CONTENT_PARTS_PER_ANSWER + 1
                ]),
                "33 parts",
            ),
            (
                json!(vec![
                    json!({"uri": "a://b", "blob": png});
                    MAX_IMAGES_PER_ANSWER + 1
                ]),
                "more than 10 images",
            ),
        ] {
            let why = read(contents).unwrap_err();
            assert!(why.contains(expected), "{expected}: {why}");
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
