//! Renders a session as a single HTML page, without scripts, links and external resources.
//!
//! The page's Content-Security-Policy allows only its own style sheet, by hash, and images embedded
//! in the page. Every text is escaped, so the policy is only the second line of defense.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::blocks::ExportPageBlock;
use rind_lib::message::Blob;

/// CSS style sheet of the exported HTML page.
const PAGE_STYLE_SHEET: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.5rem;border-radius:.3rem}\
h3{margin-top:2rem;border-top:1px solid #8886;padding-top:1rem}p{margin:.3rem 0}img{max-width:100%}.about{opacity:.7}";

/// Maximum total size of the images in a page, in bytes.
const MAX_TOTAL_IMAGE_BYTES: u64 = 32 << 20;

/// Embeds images in a page up to a maximum total size. `n_left` is the number of bytes that may
/// still be embedded.
pub(super) struct PageImageEmbedder<'a> {
    /// Function that reads the bytes of a blob; `None` if they are missing or corrupt.
    read: &'a dyn Fn(&Blob) -> Option<Vec<u8>>,
    seen: BTreeSet<String>,
    n_left: u64,
}

impl<'a> PageImageEmbedder<'a> {
    pub(super) fn new(read: &'a dyn Fn(&Blob) -> Option<Vec<u8>>) -> Self {
        Self {
            read,
            seen: BTreeSet::new(),
            n_left: MAX_TOTAL_IMAGE_BYTES,
        }
    }

    /// Returns a `data:` URL with the bytes of an image, or the reason why the image is not on the
    /// page.
    fn encode_data_url(&mut self, blob: &Blob) -> Result<String, &'static str> {
        if self.seen.contains(&blob.id) {
            return Err("shown above");
        }
        if blob.size > self.n_left {
            return Err("left out: the images of a page may have at most 32 MiB together");
        }
        let bytes = (self.read)(blob).ok_or("its bytes are missing or damaged")?;
        // The session is untrusted: derive the media type from the bytes, not from its records.
        let found = Blob::from_bytes(&bytes, "");
        if !found.is_image() || found.size > self.n_left {
            return Err("left out: the stored bytes are not the image that the session names");
        }
        self.n_left -= found.size;
        self.seen.insert(blob.id.clone());
        let media_type = found.media_type;
        Ok(format!(
            "data:{media_type};base64,{}",
            STANDARD.encode(&bytes)
        ))
    }
}

pub(super) fn render_html_page(
    title: &str,
    blocks: &[ExportPageBlock],
    images: &mut PageImageEmbedder<'_>,
) -> String {
    let title = escape_html(title);
    let style_hash = STANDARD.encode(Sha256::digest(PAGE_STYLE_SHEET));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{style_hash}'; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{PAGE_STYLE_SHEET}</style></head>\n<body><h1>{title}</h1>\n"
    );
    for block in blocks {
        // Writing to a `String` cannot fail.
        let _ = match block {
            ExportPageBlock::Session(id, facts) => {
                let facts = facts
                    .iter()
                    .map(|fact| format!("<li>{}</li>", escape_html(fact)));
                let facts: String = facts.collect();
                writeln!(
                    page,
                    "<h2>Session {}</h2><ul class=\"about\">{facts}</ul>",
                    escape_html(id)
                )
            }
            ExportPageBlock::Turn(name, about) => writeln!(
                page,
                "<h3>{}</h3><p class=\"about\">{}</p>",
                escape_html(name),
                escape_html(about)
            ),
            ExportPageBlock::Text(name, text) => writeln!(
                page,
                "<p><b>{}</b></p><pre>{}</pre>",
                escape_html(name),
                escape_html(text)
            ),
            ExportPageBlock::Line(text) => writeln!(page, "<p>{}</p>", escape_html(text)),
            ExportPageBlock::Blob { blob, words, .. } if blob.is_image() => {
                match images.encode_data_url(blob) {
                    Ok(address) => {
                        let words = escape_html(words);
                        writeln!(page, "<p><img src=\"{address}\" alt=\"{words}\"></p>")
                    }
                    Err(why) => writeln!(page, "<p>{} ({why})</p>", escape_html(words)),
                }
            }
            ExportPageBlock::Blob {
                is_in_text: true, ..
            } => Ok(()),
            ExportPageBlock::Blob { words, .. } => writeln!(page, "<p>{}</p>", escape_html(words)),
        };
    }
    page + "</body></html>\n"
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_part_of_the_page() {
        let hostile = "</pre><script>alert(1)</script>\"'&";
        let text = || hostile.to_owned();
        let blocks = [
            ExportPageBlock::Session(text(), vec![text()]),
            ExportPageBlock::Turn(text(), text()),
            ExportPageBlock::Text(text(), text()),
            ExportPageBlock::Line(text()),
        ];
        let page = render_html_page(hostile, &blocks, &mut PageImageEmbedder::new(&|_| None));
        assert!(
            !page.contains("<script") && page.matches("</pre>").count() == 1,
            "{page}"
        );
        assert_eq!(page.matches("&lt;script&gt;").count(), 9, "{page}");
        assert!(
            page.contains("default-src 'none'; style-src 'sha256-"),
            "{page}"
        );
    }

    /// The shortest beginning of a file that is known as a PNG.
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01";

    fn shown(blob: &Blob) -> ExportPageBlock {
        ExportPageBlock::Blob {
            blob: blob.clone(),
            words: "[\" onerror=alert(1)]".to_owned(),
            is_in_text: true,
        }
    }

    #[test]
    fn images_are_in_the_page_once_and_nothing_else_is() {
        let image = Blob::from_bytes(PNG, "");
        let forged = Blob {
            media_type: "image/png".to_owned(),
            ..Blob::from_bytes(b"<svg onload=alert(1)>", "image/svg+xml")
        };
        let vector = Blob::from_bytes(b"<svg onload=alert(1)>", "image/svg+xml");
        let read = |blob: &Blob| match blob.id == image.id {
            true => Some(PNG.to_vec()),
            false => Some(b"<svg onload=alert(1)>".to_vec()),
        };
        let blocks = [&image, &image, &forged, &vector].map(shown);
        let page = render_html_page("x", &blocks, &mut PageImageEmbedder::new(&read));
        let source = format!("src=\"data:image/png;base64,{}\"", STANDARD.encode(PNG));
        assert_eq!(page.matches(&source).count(), 1, "{page}");
        assert_eq!(page.matches("<img ").count(), 1, "{page}");
        assert!(page.contains("(shown above)"), "{page}");
        assert!(
            page.contains("not the image that the session names"),
            "{page}"
        );
        assert!(
            !page.contains("\" onerror") && !page.contains("svg"),
            "{page}"
        );
        assert!(page.contains("img-src data:;"), "{page}");
    }

    #[test]
    fn images_past_the_limit_and_missing_ones_are_named() {
        let image = |size, id: &str| Blob {
            id: id.to_owned(),
            size,
            ..Blob::from_bytes(PNG, "")
        };
        let blocks =
            [image(MAX_TOTAL_IMAGE_BYTES + 1, "a"), image(1, "b")].map(|blob| shown(&blob));
        let page = render_html_page("x", &blocks, &mut PageImageEmbedder::new(&|_| None));
        assert!(!page.contains("<img "), "{page}");
        assert!(page.contains("at most 32 MiB"), "{page}");
        assert!(page.contains("missing or damaged"), "{page}");
        // The file has more bytes than the session's entry states.
        let read = |_: &Blob| {
            let mut bytes = PNG.to_vec();
            bytes.resize(usize::try_from(MAX_TOTAL_IMAGE_BYTES).unwrap() + 1, 0);
            Some(bytes)
        };
        let page = super::render_html_page(
            "x",
            &[shown(&image(1, "c"))],
            &mut PageImageEmbedder::new(&read),
        );
        assert!(!page.contains("<img "));
    }
}
