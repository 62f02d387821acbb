//! Extracts the text of a page: converts HTML to Markdown, returns other text as it is, and refuses
//! everything else.

use rind_sdk::http::Response;
use rind_sdk::prelude::*;

/// HTML elements that are skipped, because they do not contain the main text of a page.
const SKIPPED_HTML_ELEMENTS: [&str; 10] = [
    "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "form", "head",
];

/// Returns the text of a page. A status other than 2xx is an error that quotes the beginning of the
/// answer.
pub(crate) fn response_page_text(response: &Response) -> Result<String, Error> {
    let kind = read_response_media_type(response);
    let text = decode_body_text(&kind, &response.body);
    if !(200..300).contains(&response.status) {
        let quoted: String = text
            .map(|text| page_to_markdown(&kind, &text))
            .unwrap_or_default();
        let quoted: String = quoted.chars().take(300).collect();
        return Err(format!(
            "the server answered with status {}: {}",
            response.status,
            quoted.trim()
        )
        .into());
    }
    let Some(text) = text else {
        let n_bytes = response.body.len();
        return Err(format!(
            "this is not a text but `{kind}` of {n_bytes} bytes, which cannot be shown"
        )
        .into());
    };
    Ok(page_to_markdown(&kind, &text))
}

/// Returns the media type of an answer in lower case, without parameters; `text/html` if the server
/// does not send one.
fn read_response_media_type(response: &Response) -> String {
    let header = response.headers.iter();
    let header = header.filter(|header| header.name.eq_ignore_ascii_case("content-type"));
    let value = header
        .map(|header| header.value.as_str())
        .next()
        .unwrap_or("text/html");
    value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Decodes a body as text; `None` if its media type is not textual. Invalid UTF-8 is replaced.
fn decode_body_text(kind: &str, body: &[u8]) -> Option<String> {
    let is_text = kind.starts_with("text/")
        || ["json", "xml", "javascript", "yaml", "toml"]
            .iter()
            .any(|end| kind.ends_with(end));
    is_text.then(|| String::from_utf8_lossy(body).into_owned())
}

fn page_to_markdown(kind: &str, text: &str) -> String {
    if !matches!(kind, "text/html" | "application/xhtml+xml") {
        return text.to_owned();
    }
    let converter = htmd::HtmlToMarkdown::builder()
        .skip_tags(SKIPPED_HTML_ELEMENTS.to_vec())
        .build();
    match converter.convert(text) {
        Ok(markdown) => collapse_blank_lines(&markdown),
        Err(_) => text.to_owned(),
    }
}

/// Collapses several blank lines into one.
fn collapse_blank_lines(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n").trim().to_owned()
}
