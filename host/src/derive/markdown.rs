//! Documentation of a package, in Markdown, as Markdown that cannot break out of its place in a skill.
//!
//! The text is parsed and written again: headings cannot be mistaken for those of the skill, code stays in its fence, tags,
//! comments and pictures go, and a link leads to an address or nowhere.

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd,
};

use super::text::{code, escaped, fenced, first_sentence, starts_with_mark};
use crate::text::printable;

/// Deepest list or quote that is indented.
const MAX_DEPTH: usize = 6;

/// Longest code within a line, in bytes.
const MAX_CODE_BYTES: usize = 400;

/// Tags of HTML that are written in Markdown; any other is taken for a type with parameters.
const TAGS: [&str; 26] = [
    "a", "b", "br", "center", "code", "dd", "details", "div", "dl", "dt", "em", "h1", "h2", "h3",
    "hr", "i", "img", "kbd", "p", "picture", "source", "span", "strong", "sub", "summary", "sup",
];

/// Kind of documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text within a part that has a heading of its own: headings become lines in bold.
    Plain,
    /// The same, with code that is Rust unless it says otherwise, as rustdoc takes it.
    Rust,
    /// A whole document: its title goes, other headings stay.
    Document,
}

/// Writes documentation again, whole blocks of it up to about `limit` bytes.
pub(super) fn prose(text: &str, kind: Kind, limit: usize) -> String {
    // `[`Name`]` is a link to an item, which the package's documentation resolves.
    let resolve = |link: BrokenLink<'_>| {
        let is_item = link.reference.starts_with('`');
        is_item.then_some((CowStr::Borrowed(""), CowStr::Borrowed("")))
    };
    let parser = Parser::new_with_broken_link_callback(text, Options::empty(), Some(resolve));
    let mut writer = Writer {
        kind,
        out: String::new(),
        prefixes: Vec::new(),
        lists: Vec::new(),
        is_first_item: false,
        code: None,
        link: None,
        n_hidden: 0,
        is_in_heading: false,
        depth: 0,
        end: 0,
    };
    for event in parser {
        writer.event(event);
        if writer.out.len() > limit {
            break;
        }
    }
    if writer.out.len() > limit {
        writer.out.truncate(writer.end);
        if !writer.out.is_empty() {
            writer.out.push_str("\n\n…");
        }
    }
    writer.out.trim().to_owned()
}

/// Returns the first sentence of documentation on one line of Markdown, of about `limit` bytes.
pub(super) fn first_line(text: &str, kind: Kind, limit: usize) -> String {
    // Longer than any sentence, and whole blocks of it.
    let docs = prose(text, kind, 8 << 10);
    sentence_line(&docs, limit)
}

/// The same, of documentation that was written again before.
pub(super) fn sentence_line(docs: &str, limit: usize) -> String {
    let text = first_paragraph(docs).unwrap_or_default();
    let mut line = String::new();
    let mut is_cut = false;
    for word in first_sentence(text).split_whitespace() {
        if line.len() + word.len() > limit {
            is_cut = true;
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if is_cut {
        // Code that is cut in the middle is left out.
        if line.matches('`').count() % 2 == 1 {
            line.truncate(line.rfind('`').unwrap_or_default());
        }
        line = format!("{} …", line.trim_end());
    }
    line
}

/// Returns the first block of text in documentation that was written again before.
pub(super) fn first_paragraph(docs: &str) -> Option<&str> {
    let is_text = |block: &&str| {
        let is_other = block.starts_with(['#', '-', '>']) || block.starts_with("```");
        !is_other && !block.trim().is_empty()
    };
    docs.split("\n\n").find(is_text)
}

struct Writer {
    kind: Kind,
    out: String,
    /// Begin each line within lists and quotes.
    prefixes: Vec<&'static str>,
    /// Number of the next item of each open list, outermost first.
    lists: Vec<Option<u64>>,
    /// Whether the next item is the first in a block of its own.
    is_first_item: bool,
    /// Language and text of an open block of code.
    code: Option<(String, String)>,
    /// Place of an open link in `out`, and its address.
    link: Option<(usize, String)>,
    /// Open blocks of HTML, pictures and headings that go.
    n_hidden: usize,
    is_in_heading: bool,
    /// Open blocks.
    depth: usize,
    /// Length up to the last whole block.
    end: usize,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            _ if self.n_hidden > 0 => {}
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) => {
                // `struct@Name` says which of several items rustdoc is to link to.
                let name = match text.split_once('@') {
                    Some((_, name)) if self.link.is_some() && self.kind == Kind::Rust => name,
                    _ => &*text,
                };
                let text = code(name, MAX_CODE_BYTES);
                self.out.push_str(&text);
            }
            Event::InlineHtml(html) if !is_html(&html) => self.text(&html),
            Event::SoftBreak | Event::HardBreak => match self.is_in_heading {
                true => self.out.push(' '),
                false => self.new_line(),
            },
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        self.depth += 1;
        match tag {
            Tag::Paragraph => self.new_block(),
            Tag::Heading { level, .. } => {
                self.new_block();
                self.is_in_heading = true;
                match (self.kind, level) {
                    (Kind::Document, HeadingLevel::H1) => self.n_hidden += 1,
                    (Kind::Document, HeadingLevel::H2) => self.out.push_str("## "),
                    (Kind::Document, _) => self.out.push_str("### "),
                    (Kind::Plain | Kind::Rust, _) => self.out.push_str("**"),
                }
            }
            Tag::BlockQuote(_) => {
                self.new_block();
                if self.prefixes.len() < MAX_DEPTH {
                    self.out.push_str("> ");
                }
                self.prefix("> ");
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
                    self.new_block();
                    self.is_first_item = true;
                }
                self.lists.push(first);
            }
            Tag::Item => {
                if !std::mem::take(&mut self.is_first_item) {
                    self.new_line();
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
                self.prefix(prefix);
            }
            Tag::Emphasis if !self.is_in_heading && self.n_hidden == 0 => self.out.push('*'),
            Tag::Strong if !self.is_in_heading && self.n_hidden == 0 => self.out.push_str("**"),
            Tag::Link { dest_url, .. } => self.link = Some((self.out.len(), dest_url.to_string())),
            Tag::HtmlBlock | Tag::Image { .. } | Tag::MetadataBlock(_) => self.n_hidden += 1,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        self.depth = self.depth.saturating_sub(1);
        match tag {
            TagEnd::Heading(level) => {
                self.is_in_heading = false;
                match (self.kind, level) {
                    (Kind::Document, HeadingLevel::H1) => {
                        self.n_hidden = self.n_hidden.saturating_sub(1);
                    }
                    (Kind::Document, _) => {}
                    (Kind::Plain | Kind::Rust, _) => self.out.push_str("**"),
                }
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.prefixes.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::Emphasis if !self.is_in_heading && self.n_hidden == 0 => self.out.push('*'),
            TagEnd::Strong if !self.is_in_heading && self.n_hidden == 0 => self.out.push_str("**"),
            TagEnd::Link => self.link(),
            TagEnd::HtmlBlock | TagEnd::Image | TagEnd::MetadataBlock(_) => {
                self.n_hidden = self.n_hidden.saturating_sub(1);
            }
            _ => {}
        }
        // A heading without what it is about is not kept.
        if self.depth == 0 && !matches!(tag, TagEnd::Heading(_)) {
            self.end = self.out.trim_end().len();
        }
    }

    fn prefix(&mut self, prefix: &'static str) {
        // Beyond the deepest level nothing is indented further.
        let is_deep = self.prefixes.len() >= MAX_DEPTH;
        self.prefixes.push(if is_deep { "" } else { prefix });
    }

    fn new_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("- ") {
            self.out.push('\n');
        }
        self.out.extend(self.prefixes.iter().copied());
    }

    /// Begins a block: after the mark of an item in its line, otherwise after an empty line.
    fn new_block(&mut self) {
        let is_after_mark =
            self.out.ends_with("- ") || self.out.ends_with("> ") || self.out.ends_with(". ");
        if self.out.is_empty() || (is_after_mark && self.is_at_mark()) {
            return;
        }
        let kept = self.out.trim_end_matches([' ', '\n']).len();
        self.out.truncate(kept);
        self.out.push('\n');
        let prefix: String = self.prefixes.concat();
        self.out.push_str(prefix.trim_end());
        self.new_line();
    }

    /// Whether the last line has nothing but prefixes and the mark of an item.
    fn is_at_mark(&self) -> bool {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.chars()
            .all(|c| c.is_ascii_digit() || " ->.".contains(c))
    }

    fn text(&mut self, text: &str) {
        let text = escaped(&printable(text));
        let is_start = self.out.is_empty() || self.is_at_mark() || self.out.ends_with('\n');
        if is_start && starts_with_mark(&text) {
            self.out.push('\\');
        }
        // A line break within a text is none of the source's.
        self.out.push_str(&text.replace('\n', " "));
    }

    fn code_block(&mut self) {
        let Some((info, text)) = self.code.take() else {
            return;
        };
        if self.n_hidden > 0 || text.trim().is_empty() {
            return;
        }
        self.new_block();
        let block = match self.kind == Kind::Rust && is_rust(&info) {
            true => fenced("rust", &without_hidden_lines(&text)),
            false => fenced(&info, &text),
        };
        for (at, line) in block.trim_end().lines().enumerate() {
            if at > 0 {
                self.new_line();
            }
            self.out.push_str(line);
        }
    }

    /// Closes a link: one to an address stays, any other is its text.
    fn link(&mut self) {
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

/// Whether this is HTML, and not a type with parameters that somebody wrote without marks of code.
fn is_html(tag: &str) -> bool {
    let inner = tag.trim_start_matches(['<', '/']);
    let end = inner
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(inner.len());
    let name = inner.get(..end).unwrap_or_default();
    tag.starts_with("<!") || tag.starts_with("<?") || TAGS.contains(&name)
}

/// Whether a block of code is Rust, as rustdoc takes it.
fn is_rust(info: &str) -> bool {
    const OF_RUSTDOC: [&str; 8] = [
        "",
        "rust",
        "ignore",
        "no_run",
        "should_panic",
        "compile_fail",
        "edition2021",
        "edition2024",
    ];
    let first = info.split([',', ' ']).next().unwrap_or_default();
    OF_RUSTDOC.contains(&first)
}

/// Lines that rustdoc hides go: they make an example compile and tell nothing.
fn without_hidden_lines(text: &str) -> String {
    let is_hidden = |line: &&str| {
        let line = line.trim_start();
        line == "#" || line.starts_with("# ")
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_hidden(line)).collect();
    lines.join("\n")
}

/// Returns the first block of Rust in documentation, if it is short enough to be shown whole.
pub(super) fn first_example(text: &str, max_lines: usize) -> Option<String> {
    let mut code: Option<String> = None;
    for event in Parser::new_ext(text, Options::empty()) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if is_rust(&info) => {
                code = Some(String::new());
            }
            Event::Text(text) => {
                if let Some(code) = &mut code {
                    code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(code) = code.take() else { continue };
                let code = without_hidden_lines(&code);
                let is_short = code.lines().count() <= max_lines && !code.trim().is_empty();
                return is_short.then_some(code);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_keeps_its_shape_and_loses_what_would_act() {
        let text = "# Title\n\nSee [`Foo`] and [the book](https://example.com/a) or [here](../x.md).\n\n- one\n  more\n- two\n  1. \
                    a\n  2. b\n\n> said\n\n```rust,no_run\n# use x;\nlet a = 1;\n```\n\n<p align=\"center\">hi</p>\n\nVec<String> \
                    <!-- x -->end\n";
        let expected = "**Title**\n\nSee `Foo` and [the book](https://example.com/a) or here.\n\n- one\n  more\n- two\n  1. a\n  2. \
                        b\n\n> said\n\n```rust\nlet a = 1;\n```\n\nVec&lt;String> end";
        assert_eq!(prose(text, Kind::Rust, 4000), expected);
        assert_eq!(prose("# T\n\n## U\n\nx", Kind::Document, 4000), "## U\n\nx");
    }

    #[test]
    fn a_fence_cannot_be_closed_and_a_cut_text_ends_with_a_whole_block() {
        let text = "````\n```\n# not a heading\n````\n";
        assert_eq!(
            prose(text, Kind::Plain, 400),
            "````\n```\n# not a heading\n````"
        );
        let long = format!("first\n\n{}", "second ".repeat(100));
        assert_eq!(prose(&long, Kind::Rust, 100), "first\n\n…");
        let deep = format!("{}x", "> ".repeat(5_000));
        assert!(prose(&deep, Kind::Rust, 1_000).len() < 1_100);
    }

    #[test]
    fn what_is_written_is_read_the_same_again() {
        let sources = [
            "\\# no heading\n\n\\- no list\n\n1\\. no number",
            "a `b` *c* **d**\ne",
            "- a\n\n  b\n- c\n\n      code\n",
            "> - x\n>   y\n\nz",
        ];
        for source in sources {
            let once = prose(source, Kind::Rust, 4000);
            assert_eq!(prose(&once, Kind::Rust, 4000), once, "{source:?}");
        }
    }
}
