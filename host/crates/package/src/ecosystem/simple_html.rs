//! Parses the HTML page of a Python package (PEP 503), which many private indexes serve.
//!
//! As in pip, only links and their attributes are read. Everything else on the page is ignored.

/// Maximum number of links that are read from a page.
const MAX_LINKS_PER_PAGE: usize = 100_000;

/// Maximum length in bytes of a character reference after its `&`, including the `;`.
const MAX_CHARACTER_REFERENCE_BYTES: usize = 12;

/// Named HTML character references that are decoded in the page of a package index.
const NAMED_CHARACTER_REFERENCES: [(&str, char); 5] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
];

/// Link to a package file on the HTML page of a package index.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PackageFileLink {
    /// Text of the link, which is the name of the file.
    pub(super) text: String,
    /// URL of the package file, without the fragment.
    pub(super) url: String,
    /// SHA-256 of the package file, from the fragment of the URL.
    pub(super) sha256: Option<String>,
    /// Reason why the file was yanked, possibly empty; `None` if it was not yanked.
    pub(super) yanked: Option<String>,
    /// URL of the file's attestations (PEP 740), if the page names one.
    pub(super) provenance: Option<String>,
}

/// Lists the links of a page.
///
/// For example:
///
/// ```text
/// <a href="x-1.whl#sha256=00" data-yanked="broken">x-1.whl</a>
/// ```
pub(super) fn parse_package_file_links(page: &str) -> Vec<PackageFileLink> {
    let mut links = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(tag) = rest
            .strip_prefix(['a', 'A'])
            .filter(|after| after.starts_with(char::is_whitespace))
        else {
            continue;
        };
        let (attributes, after) = read_html_attributes(tag);
        let text = after.split('<').next().unwrap_or_default();
        links.push(file_link_from_attributes(attributes, text));
        rest = after;
        if links.len() == MAX_LINKS_PER_PAGE {
            break;
        }
    }
    links
}

fn file_link_from_attributes(attributes: Vec<(String, String)>, text: &str) -> PackageFileLink {
    let mut link = PackageFileLink {
        text: decode_html_entities(text.trim()),
        ..PackageFileLink::default()
    };
    // Assign in reverse order: if an attribute is repeated, its first occurrence applies.
    for (name, value) in attributes.into_iter().rev() {
        match name.as_str() {
            "href" => {
                let (url, fragment) = value.split_once('#').unwrap_or((&value, ""));
                link.url = url.to_owned();
                let mut parts = fragment.split('&');
                let hash = parts.find_map(|part| part.strip_prefix("sha256="));
                link.sha256 = hash.map(str::to_owned);
            }
            "data-yanked" => link.yanked = Some(value),
            "data-provenance" => link.provenance = Some(value),
            _ => {}
        }
    }
    link
}

/// Reads the attributes of a tag. Returns them, with decoded values, and the text after the tag.
fn read_html_attributes(tag: &str) -> (Vec<(String, String)>, &str) {
    let mut attributes = Vec::new();
    let mut rest = tag;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() {
            return (attributes, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (attributes, after);
        }
        let is_end = |c: char| c.is_whitespace() || "=>/".contains(c);
        // A `=` at the beginning is part of the attribute's name, as in browsers.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest.get(first..).and_then(|after| after.find(is_end));
        let (name, after) = rest.split_at(end.map_or(rest.len(), |end| end + first));
        let (value, after) = match after.trim_start().strip_prefix('=') {
            Some(value) => read_attribute_value(value.trim_start()),
            None => ("", after),
        };
        attributes.push((name.to_ascii_lowercase(), decode_html_entities(value)));
        rest = after;
    }
}

/// Reads an attribute's value. Returns it and the text after it.
fn read_attribute_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote).unwrap_or((quoted, ""));
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || c == '>');
    text.split_at(end.unwrap_or(text.len()))
}

/// Decodes character references such as `&amp;`, `&#38;` and `&#x26;`; unknown names stay
/// unchanged.
fn decode_html_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        // Search only the next few bytes: otherwise the time would be quadratic for a page full of
        // `&`.
        let end = after
            .bytes()
            .take(MAX_CHARACTER_REFERENCE_BYTES)
            .position(|byte| byte == b';');
        let entity = end.and_then(|end| {
            let (name, left) = after.split_at_checked(end)?;
            Some((decode_named_entity(name)?, left.get(1..)?))
        });
        match entity {
            Some((character, left)) => {
                decoded.push(character);
                rest = left;
            }
            None => {
                decoded.push('&');
                rest = after;
            }
        }
    }
    decoded + rest
}

fn decode_named_entity(name: &str) -> Option<char> {
    let code = name.strip_prefix('#');
    let Some(code) = code else {
        let mut named = NAMED_CHARACTER_REFERENCES.iter();
        return named.find(|(own, _)| *own == name).map(|(_, c)| *c);
    };
    let hex = code.strip_prefix(['x', 'X']);
    let number = match hex {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => code.parse(),
    };
    char::from_u32(number.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_with_their_attributes_decoded() {
        let page = "<!DOCTYPE html><!-- <a href=no>no</a> --><abbr x>y</abbr>\n\
                    <A class=x HREF='../x-1.whl#egg=x&amp;sha256=0a' data-yanked>x-1.whl</A><br>\
                    <a href=\"y.whl\" data-yanked=\"it &quot;breaks&quot; &#38; &#x41; &unknown;\" data-provenance=z>\n y&lt;.whl </a>";
        let links = parse_package_file_links(page);
        assert_eq!(
            links,
            [
                PackageFileLink {
                    text: "x-1.whl".to_owned(),
                    url: "../x-1.whl".to_owned(),
                    sha256: Some("0a".to_owned()),
                    yanked: Some(String::new()),
                    provenance: None,
                },
                PackageFileLink {
                    text: "y<.whl".to_owned(),
                    url: "y.whl".to_owned(),
                    sha256: None,
                    yanked: Some("it \"breaks\" & A &unknown;".to_owned()),
                    provenance: Some("z".to_owned()),
                },
            ]
        );
    }

    #[test]
    fn pages_that_are_made_to_take_long_are_read_in_a_moment() {
        let started = std::time::Instant::now();
        for text in ["&", "<a ", "<a x='", "<a><!--", "<a x=\"&"] {
            parse_package_file_links(&text.repeat((1 << 20) / text.len()));
        }
        assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
    }

    #[test]
    fn torn_pages_are_read_to_their_end() {
        for page in [
            "<",
            "<a",
            "<a ",
            "<a =",
            "<a = =>",
            "<a href",
            "<a href=",
            "<a href=\"",
            "<a href='x",
            "<!--",
            "<a / / >x",
            "&",
            "<a href=&>&",
            "<a é=é>é",
            "<a>&é;&#xé;&#x110000;&#;&;",
        ] {
            let links = parse_package_file_links(page);
            assert!(links.len() <= 1, "{page}: {links:?}");
        }
    }
}
