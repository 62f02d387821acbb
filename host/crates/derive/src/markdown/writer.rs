//! Writes the events of a Markdown parser as Markdown again.
//!
//! Text is escaped, so that only the structure in the events becomes Markdown syntax. HTML and
//! images are dropped, and a link is kept only if its target is a URL.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use super::super::text::{code_span, escape_markdown, fence_code, starts_markdown_block};
use super::{MarkdownBlockKind, is_rust_code_block, remove_hidden_lines};
use rind_lib::text::printable_text;

/// Maximum depth of nested lists and quotes; deeper ones are not indented further.
const MAX_LIST_AND_QUOTE_DEPTH: usize = 6;

/// Maximum length of inline code, in bytes.
const MAX_INLINE_CODE_BYTES: usize = 400;

/// HTML tags known to occur in Markdown documents. Any other tag is taken for a generic type such
/// as `Vec<T>`.
const KNOWN_HTML_TAGS: [&str; 26] = [
    "a", "b", "br", "center", "code", "dd", "details", "div", "dl", "dt", "em", "h1", "h2", "h3",
    "hr", "i", "img", "kbd", "p", "picture", "source", "span", "strong", "sub", "summary", "sup",
];

/// Writes the events of a Markdown parser as Markdown again.
#[derive(Default)]
pub(super) struct MarkdownWriter {
    kind: MarkdownBlockKind,
    pub(super) out: String,
    /// Prefixes that each line gets from the open lists and quotes, outermost first.
    prefixes: Vec<&'static str>,
    /// Number of the next item of each open list, outermost first; `None` for a bullet list.
    lists: Vec<Option<u64>>,
    /// Whether the next list item is the first in its block.
    is_first_item: bool,
    /// Language of the code block that is open, and its text so far.
    code: Option<(String, String)>,
    /// Byte offset in `out` at which the open link begins, and its URL.
    link: Option<(usize, String)>,
    /// Number of open HTML blocks, images and headings that are dropped.
    n_hidden: usize,
    is_in_heading: bool,
    /// Number of blocks that are open, one inside the other.
    depth: usize,
    /// Length of `out` at the end of the last complete block.
    pub(super) end: usize,
    /// Number of cells so far in the table row that is being written.
    n_cells: usize,
    is_in_cell: bool,
}

impl MarkdownWriter {
    pub(super) fn new(kind: MarkdownBlockKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Truncates the output within its first block, at the end of a word. Closes an open code block
    /// and drops open inline code.
    pub(super) fn truncate_output(&mut self, limit: usize) {
        self.out.truncate(self.out.floor_char_boundary(limit));
        let run = self.out.len() - self.out.trim_start_matches('`').len();
        if run >= 3 {
            let fence = "`".repeat(run);
            self.out.truncate(self.out.rfind('\n').unwrap_or_default());
            self.out.push_str(&format!("\n{fence}\n\n…"));
            return;
        }
        if self.out.matches('`').count() % 2 == 1 {
            self.out.truncate(self.out.rfind('`').unwrap_or_default());
        }
        let word = self.out.trim_end().rfind(char::is_whitespace);
        let is_whole = self.out.ends_with(char::is_whitespace);
        if let Some(word) = word.filter(|_| !is_whole) {
            self.out.truncate(word);
        }
        self.out.truncate(self.out.trim_end().len());
        self.out.push_str(" …");
    }

    pub(super) fn write_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            _ if self.n_hidden > 0 => {}
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.write_text(&text),
            },
            Event::Code(text) => {
                // `struct@Name` tells rustdoc which of several items of a name to link to; show
                // only the name.
                let name = match text.split_once('@') {
                    Some((_, name))
                        if self.link.is_some() && self.kind == MarkdownBlockKind::Rust =>
                    {
                        name
                    }
                    _ => &*text,
                };
                let text = code_span(name, MAX_INLINE_CODE_BYTES);
                self.out.push_str(&match self.is_in_cell {
                    true => text.replace('|', "\\|"),
                    false => text,
                });
            }
            Event::InlineHtml(html) if !is_html_tag(&html) => self.write_text(&html),
            Event::SoftBreak | Event::HardBreak => match self.is_in_heading {
                true => self.out.push(' '),
                false => self.begin_new_line(),
            },
            _ => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        self.depth += 1;
        match tag {
            Tag::Paragraph => self.begin_new_block(),
            Tag::Heading { level, .. } => {
                self.begin_new_block();
                self.is_in_heading = true;
                match (self.kind, level) {
                    (MarkdownBlockKind::Document, HeadingLevel::H1) => self.n_hidden += 1,
                    (MarkdownBlockKind::Document, HeadingLevel::H2) => self.out.push_str("## "),
                    (MarkdownBlockKind::Document, _) => self.out.push_str("### "),
                    (MarkdownBlockKind::Plain | MarkdownBlockKind::Rust, _) => {
                        self.out.push_str("**")
                    }
                }
            }
            Tag::BlockQuote(_) => {
                self.begin_new_block();
                if self.prefixes.len() < MAX_LIST_AND_QUOTE_DEPTH {
                    self.out.push_str("> ");
                }
                self.push_line_prefix("> ");
            }
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_new_block();
                    self.is_first_item = true;
                }
                self.lists.push(first);
            }
            Tag::Item => {
                if !std::mem::take(&mut self.is_first_item) {
                    self.begin_new_line();
                }
                let number = self.lists.last_mut().and_then(Option::as_mut);
                let (mark, prefix) = match number {
                    Some(n) => {
                        let mark = format!("{n}. ");
                        *n = n.saturating_add(1);
                        (mark, "   ")
                    }
                    None => ("- ".to_owned(), "  "),
                };
                self.out.push_str(&mark);
                self.push_line_prefix(prefix);
            }
            Tag::Table(columns) => {
                self.begin_new_block();
                self.n_cells = columns.len();
            }
            Tag::TableRow => self.begin_new_line(),
            Tag::TableCell => {
                self.out.push_str("| ");
                self.is_in_cell = true;
            }
            Tag::Strikethrough if !self.is_in_heading && self.n_hidden == 0 => {
                self.out.push_str("~~");
            }
            Tag::Emphasis if !self.is_in_heading && self.n_hidden == 0 => self.out.push('*'),
            Tag::Strong if !self.is_in_heading && self.n_hidden == 0 => self.out.push_str("**"),
            Tag::Link { dest_url, .. } => self.link = Some((self.out.len(), dest_url.to_string())),
            Tag::HtmlBlock | Tag::Image { .. } | Tag::MetadataBlock(_) => self.n_hidden += 1,
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        self.depth = self.depth.saturating_sub(1);
        match tag {
            TagEnd::Heading(level) => {
                self.is_in_heading = false;
                match (self.kind, level) {
                    (MarkdownBlockKind::Document, HeadingLevel::H1) => {
                        self.n_hidden = self.n_hidden.saturating_sub(1);
                    }
                    (MarkdownBlockKind::Document, _) => {}
                    (MarkdownBlockKind::Plain | MarkdownBlockKind::Rust, _) => {
                        self.out.push_str("**")
                    }
                }
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.prefixes.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.write_code_block(),
            TagEnd::TableCell => {
                self.out.push(' ');
                self.is_in_cell = false;
            }
            TagEnd::TableRow => self.out.push('|'),
            TagEnd::TableHead => {
                self.out.push('|');
                self.begin_new_line();
                self.out.push_str(&"| --- ".repeat(self.n_cells));
                self.out.push('|');
            }
            TagEnd::Strikethrough if !self.is_in_heading && self.n_hidden == 0 => {
                self.out.push_str("~~");
            }
            TagEnd::Emphasis if !self.is_in_heading && self.n_hidden == 0 => self.out.push('*'),
            TagEnd::Strong if !self.is_in_heading && self.n_hidden == 0 => self.out.push_str("**"),
            TagEnd::Link => self.end_link(),
            TagEnd::HtmlBlock | TagEnd::Image | TagEnd::MetadataBlock(_) => {
                self.n_hidden = self.n_hidden.saturating_sub(1);
            }
            _ => {}
        }
        // A heading does not count as the end of a block, because its content would be cut off.
        if self.depth == 0 && !matches!(tag, TagEnd::Heading(_)) {
            self.end = self.out.trim_end().len();
        }
    }

    fn push_line_prefix(&mut self, prefix: &'static str) {
        // Beyond the maximum depth, blocks are not indented further.
        let is_deep = self.prefixes.len() >= MAX_LIST_AND_QUOTE_DEPTH;
        self.prefixes.push(if is_deep { "" } else { prefix });
    }

    fn begin_new_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("- ") {
            self.out.push('\n');
        }
        self.out.extend(self.prefixes.iter().copied());
    }

    /// Begins a block: on the line of a list marker, and otherwise after an empty line.
    fn begin_new_block(&mut self) {
        let is_after_mark =
            self.out.ends_with("- ") || self.out.ends_with("> ") || self.out.ends_with(". ");
        if self.out.is_empty() || (is_after_mark && self.is_after_list_marker()) {
            return;
        }
        let kept = self.out.trim_end_matches([' ', '\n']).len();
        self.out.truncate(kept);
        self.out.push('\n');
        let prefix: String = self.prefixes.concat();
        self.out.push_str(prefix.trim_end());
        self.begin_new_line();
    }

    /// Whether the last line contains only prefixes and a list marker.
    fn is_after_list_marker(&self) -> bool {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.chars()
            .all(|c| c.is_ascii_digit() || " ->.".contains(c))
    }

    fn write_text(&mut self, text: &str) {
        let mut text = escape_markdown(&printable_text(text));
        if self.is_in_cell {
            text = text.replace('|', "\\|");
        }
        let is_start =
            self.out.is_empty() || self.is_after_list_marker() || self.out.ends_with('\n');
        if is_start && starts_markdown_block(&text) {
            self.out.push('\\');
        }
        // Line breaks of the source are separate events; a line break inside a text comes from an
        // entity such as `&#10;` and would begin a new line here.
        self.out.push_str(&text.replace('\n', " "));
    }

    fn write_code_block(&mut self) {
        let Some((info, text)) = self.code.take() else {
            return;
        };
        if self.n_hidden > 0 || text.trim().is_empty() {
            return;
        }
        self.begin_new_block();
        let block = match self.kind == MarkdownBlockKind::Rust && is_rust_code_block(&info) {
            true => fence_code("rust", &remove_hidden_lines(&text)),
            false => fence_code(&info, &text),
        };
        for (at, line) in block.trim_end().lines().enumerate() {
            if at > 0 {
                self.begin_new_line();
            }
            self.out.push_str(line);
        }
    }

    /// Closes a link: keeps a link to a URL, and replaces any other link by its text.
    fn end_link(&mut self) {
        let Some((at, url)) = self.link.take() else {
            return;
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@&+,;=%".contains(c);
        let is_address =
            url.starts_with("https://") && url.chars().all(is_plain) && url.len() <= 300;
        let shown = self.out.get(at..).unwrap_or_default();
        if is_address
            && !shown.trim().is_empty()
            && !shown.contains(['[', ']', '\n'])
            && self.n_hidden == 0
        {
            self.out.insert(at, '[');
            self.out.push_str(&format!("]({url})"));
        }
    }
}

/// Whether a tag is HTML. Otherwise it is a generic type, written without code markup.
fn is_html_tag(tag: &str) -> bool {
    let inner = tag.trim_start_matches(['<', '/']);
    let end = inner
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(inner.len());
    let name = inner.get(..end).unwrap_or_default();
    tag.starts_with("<!") || tag.starts_with("<?") || KNOWN_HTML_TAGS.contains(&name)
}
