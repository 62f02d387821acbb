//! A session as one page of HTML: without scripts, links and anything from elsewhere.
//!
//! The policy of the page allows nothing but its own style sheet, by its hash. Every text is escaped,
//! so that policy is a second wall and not the first.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::blocks::Block;

/// Style sheet of the page.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:.5rem;border-radius:.3rem}\
h3{margin-top:2rem;border-top:1px solid #8886;padding-top:1rem}p{margin:.3rem 0}.about{opacity:.7}";

pub(super) fn page(title: &str, blocks: &[Block]) -> String {
    let title = escaped(title);
    let style_hash = STANDARD.encode(Sha256::digest(STYLE));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{style_hash}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
    );
    for block in blocks {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Session(id, facts) => {
                let facts = facts
                    .iter()
                    .map(|fact| format!("<li>{}</li>", escaped(fact)));
                let facts: String = facts.collect();
                writeln!(
                    page,
                    "<h2>Session {}</h2><ul class=\"about\">{facts}</ul>",
                    escaped(id)
                )
            }
            Block::Turn(name, about) => writeln!(
                page,
                "<h3>{}</h3><p class=\"about\">{}</p>",
                escaped(name),
                escaped(about)
            ),
            Block::Text(name, text) => writeln!(
                page,
                "<p><b>{}</b></p><pre>{}</pre>",
                escaped(name),
                escaped(text)
            ),
            Block::Line(text) => writeln!(page, "<p>{}</p>", escaped(text)),
        };
    }
    page + "</body></html>\n"
}

fn escaped(text: &str) -> String {
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
            Block::Session(text(), vec![text()]),
            Block::Turn(text(), text()),
            Block::Text(text(), text()),
            Block::Line(text()),
        ];
        let page = page(hostile, &blocks);
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
}
