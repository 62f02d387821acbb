//! Colors code by its language.
//!
//! Maps file names and names of languages to syntaxes. Limits the amount of colored text and the
//! time, because models and files could contain text that takes long to color. Text is escaped
//! before it is parsed, so colors only enclose pieces of it. Does not display the code. Start from
//! [`CodeHighlighter`].

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anstyle::Style;
use syntect::highlighting::{
    Color, HighlightIterator, HighlightState, Highlighter, StyleModifier, Theme, ThemeItem,
    ThemeSettings,
};
use syntect::parsing::{ParseState, ScopeStack, SyntaxReference, SyntaxSet};

use super::look::{CodeTokenClass, color_of_token_class};
use super::style_text;

/// Maximum length of a line that is colored, in bytes.
const MAX_COLORED_LINE_BYTES: usize = 2_000;

/// Maximum number of lines of one block that are colored.
const MAX_COLORED_LINES_PER_BLOCK: usize = 5_000;

/// Maximum time for coloring one block; the rest of the block has no colors.
const BLOCK_COLORING_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of blocks that may exceed [`BLOCK_COLORING_TIMEOUT`]. After that nothing is
/// colored, because some text seems made to waste time.
const MAX_BLOCK_COLORING_TIMEOUTS: usize = 3;

/// Number of code blocks that have exceeded [`BLOCK_COLORING_TIMEOUT`] in this process.
static N_SLOW_CODE_BLOCKS_SEEN: AtomicUsize = AtomicUsize::new(0);

/// Common names of languages that the syntax set does not know, with a name that it knows.
const LANGUAGE_NAME_ALIASES: [(&str, &str); 9] = [
    ("shell", "sh"),
    ("console", "sh"),
    ("javascript", "js"),
    ("golang", "go"),
    ("c++", "cpp"),
    ("jsonc", "json"),
    ("docker", "dockerfile"),
    ("make", "makefile"),
    ("csharp", "cs"),
];

/// Scope selectors with the class of code that they become; `None` is not colored. The most
/// specific selector applies.
const TOKEN_CLASSES_BY_SCOPE: [(&str, Option<CodeTokenClass>); 15] = [
    ("comment", Some(CodeTokenClass::Comment)),
    ("string", Some(CodeTokenClass::Text)),
    (
        "constant, support.constant, variable.language",
        Some(CodeTokenClass::Value),
    ),
    ("constant.character.escape", Some(CodeTokenClass::Value)),
    ("keyword, storage", Some(CodeTokenClass::Keyword)),
    ("keyword.operator", None),
    (
        "keyword.operator.word, keyword.operator.logical.python",
        Some(CodeTokenClass::Keyword),
    ),
    (
        "entity.name.function, variable.function, support.function, support.macro, entity.name.macro",
        Some(CodeTokenClass::Function),
    ),
    ("entity.name.tag", Some(CodeTokenClass::Function)),
    (
        "entity.name.type, entity.name.class, entity.name.struct, entity.name.enum, entity.name.trait, entity.name.impl, entity.other.inherited-class, support.type, support.class",
        Some(CodeTokenClass::Type),
    ),
    (
        "entity.other.attribute-name, meta.annotation, variable.annotation, support.type.property-name, meta.mapping.key string",
        Some(CodeTokenClass::Attribute),
    ),
    (
        "entity.name.section, markup.heading",
        Some(CodeTokenClass::Keyword),
    ),
    ("markup.inserted", Some(CodeTokenClass::Text)),
    ("markup.deleted", Some(CodeTokenClass::Keyword)),
    (
        "meta.diff.range, meta.diff.header",
        Some(CodeTokenClass::Function),
    ),
];

/// Syntaxes of all languages, unpacked at first use.
static SYNTAX_SET: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

static TOKEN_CLASS_THEME: LazyLock<Theme> = LazyLock::new(build_token_class_theme);

static SYNTAX_HIGHLIGHTER: LazyLock<Highlighter<'static>> =
    LazyLock::new(|| Highlighter::new(&TOKEN_CLASS_THEME));

/// Returns a theme in which the red part of a color is the number of a [`CodeTokenClass`]. The
/// actual color is chosen when a piece is shown.
fn build_token_class_theme() -> Theme {
    let item = |(scopes, class): &(&str, Option<CodeTokenClass>)| {
        Some(ThemeItem {
            scope: scopes.parse().ok()?,
            style: StyleModifier {
                foreground: Some(encode_token_class_as_color(
                    class.map_or(0, |class| class as u8),
                )),
                ..StyleModifier::default()
            },
        })
    };
    Theme {
        settings: ThemeSettings {
            foreground: Some(encode_token_class_as_color(0)),
            ..ThemeSettings::default()
        },
        scopes: TOKEN_CLASSES_BY_SCOPE.iter().filter_map(item).collect(),
        ..Theme::default()
    }
}

/// Returns a color whose red component is the number of a token class.
fn encode_token_class_as_color(class: u8) -> Color {
    Color {
        r: class,
        g: 0,
        b: 0,
        a: 0,
    }
}

/// Highlighter of one block of code; keeps the parser's state between lines.
#[derive(Clone)]
pub(in super::super) struct CodeHighlighter {
    parser: ParseState,
    state: HighlightState,
    n_lines: usize,
    spent: Duration,
}

impl CodeHighlighter {
    /// Returns a highlighter for the language of a Markdown code block, such as `rust,ignore`;
    /// `None` if the language is unknown.
    pub(in super::super) fn for_language(info: &str) -> Option<Self> {
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}');
        let name = info.split(is_end).find(|word| !word.is_empty())?;
        let name = name.trim_start_matches('.').to_lowercase();
        let other = LANGUAGE_NAME_ALIASES
            .iter()
            .find(|(known, _)| *known == name);
        let name = other.map_or(&*name, |(_, name)| name);
        SYNTAX_SET.find_syntax_by_token(name).and_then(Self::new)
    }

    /// Returns a highlighter for a file with this name; `None` if the language is unknown.
    pub(in super::super) fn for_path(path: &str) -> Option<Self> {
        let path = Path::new(path);
        let name = path.file_name()?.to_str()?;
        let by_end = || SYNTAX_SET.find_syntax_by_extension(path.extension()?.to_str()?);
        let by_name = SYNTAX_SET.find_syntax_by_extension(name);
        by_name.or_else(by_end).and_then(Self::new)
    }

    fn new(syntax: &SyntaxReference) -> Option<Self> {
        let is_wanted = syntax.name != "Plain Text"
            && N_SLOW_CODE_BLOCKS_SEEN.load(Ordering::Relaxed) < MAX_BLOCK_COLORING_TIMEOUTS;
        is_wanted.then(|| Self {
            parser: ParseState::new(syntax),
            state: HighlightState::new(&SYNTAX_HIGHLIGHTER, ScopeStack::new()),
            n_lines: 0,
            spent: Duration::ZERO,
        })
    }

    /// Returns the next line of the block in colors. The line must be escaped already.
    pub(in super::super) fn highlight_next_line_to_string(&mut self, line: &str) -> String {
        let pieces = self.highlight_next_line_to_pieces(line, Style::new());
        let styled = pieces.iter().map(|(style, text)| style_text(*style, text));
        styled.collect()
    }

    /// Returns the pieces of the next line of the block, with their colors added to the style
    /// `behind`. The line must be escaped already.
    pub(in super::super) fn highlight_next_line_to_pieces(
        &mut self,
        line: &str,
        behind: Style,
    ) -> Vec<(Style, String)> {
        let is_over =
            self.n_lines >= MAX_COLORED_LINES_PER_BLOCK || self.spent >= BLOCK_COLORING_TIMEOUT;
        if is_over || line.len() > MAX_COLORED_LINE_BYTES {
            return vec![(behind, line.to_owned())];
        }
        self.n_lines += 1;
        let since = Instant::now();
        let pieces = self.try_highlight_line(line, behind);
        self.spent += since.elapsed();
        if self.spent >= BLOCK_COLORING_TIMEOUT {
            N_SLOW_CODE_BLOCKS_SEEN.fetch_add(1, Ordering::Relaxed);
        }
        pieces.unwrap_or_else(|| vec![(behind, line.to_owned())])
    }

    fn try_highlight_line(&mut self, line: &str, behind: Style) -> Option<Vec<(Style, String)>> {
        let text = format!("{line}\n");
        let operations = self.parser.parse_line(&text, &SYNTAX_SET).ok()?;
        let pieces =
            HighlightIterator::new(&mut self.state, &operations, &text, &SYNTAX_HIGHLIGHTER);
        let mut parts: Vec<(Style, String)> = Vec::new();
        for (style, text) in pieces {
            let text = text.trim_end_matches('\n');
            let number = style.foreground.r;
            let class = CodeTokenClass::ALL.iter().find(|own| **own as u8 == number);
            let color = class.map(|class| color_of_token_class(*class));
            let style = color.map_or(behind, |color| behind.fg_color(Some(color)));
            match parts.last_mut() {
                Some((last, before)) if *last == style => before.push_str(text),
                _ if text.is_empty() => {}
                _ => parts.push((style, text.to_owned())),
            }
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{escape_prose_for_display, strip_styles};
    use super::*;

    fn colored(mut code: CodeHighlighter, text: &str) -> Vec<String> {
        let lines = text.lines();
        lines
            .map(|line| code.highlight_next_line_to_string(&escape_prose_for_display(line)))
            .collect()
    }

    #[test]
    fn the_languages_that_models_name_are_known() {
        for name in [
            "rust",
            "rust,ignore",
            "python",
            "py",
            "javascript",
            "js",
            "typescript",
            "ts",
            "tsx",
            "json",
            "jsonc",
            "toml",
            "yaml",
            "bash",
            "sh",
            "shell",
            "console",
            "go",
            "c",
            "cpp",
            "c++",
            "java",
            "kotlin",
            "swift",
            "ruby",
            "php",
            "html",
            "css",
            "sql",
            "diff",
            "dockerfile",
            "docker",
            "makefile",
            "markdown",
            "xml",
            "lua",
            "zig",
            "{.rust}",
            "Rust",
            "csharp",
            "nix",
        ] {
            assert!(CodeHighlighter::for_language(name).is_some(), "{name}");
        }
        for name in ["", "text", "txt", "no-language", "plain text", ",,"] {
            assert!(CodeHighlighter::for_language(name).is_none(), "{name}");
        }
        for path in ["src/main.rs", "Makefile", "a/b.toml", "x.tsx", "Dockerfile"] {
            assert!(CodeHighlighter::for_path(path).is_some(), "{path}");
        }
        assert!(CodeHighlighter::for_path("notes.txt").is_none());
        assert!(CodeHighlighter::for_path("LICENSE").is_none());
    }

    #[test]
    fn pieces_have_their_colors_over_the_ends_of_lines() {
        let code = CodeHighlighter::for_language("rust").unwrap();
        let lines = colored(code, "/* one\ntwo */ fn a() -> u8 { 7 }");
        let comment = style_text(
            Style::new().fg_color(Some(color_of_token_class(CodeTokenClass::Comment))),
            "two */",
        );
        assert!(lines[1].starts_with(&comment), "{lines:?}");
        let keyword = style_text(
            Style::new().fg_color(Some(color_of_token_class(CodeTokenClass::Keyword))),
            "fn",
        );
        assert!(lines[1].contains(&keyword), "{lines:?}");
        let value = style_text(
            Style::new().fg_color(Some(color_of_token_class(CodeTokenClass::Value))),
            "7",
        );
        assert!(lines[1].contains(&value), "{lines:?}");
        assert_eq!(strip_styles(&lines[1]), "two */ fn a() -> u8 { 7 }");
    }

    #[test]
    fn nothing_is_added_to_hostile_text_and_nothing_is_lost() {
        let hostile = "let a = \"\u{1b}[2J\u{1b}]8;;http://x\u{7}\"; // \u{202e}x\r\n\u{9b}31m'\u{1b}\\ /* \u{0}";
        for name in ["rust", "python", "sh", "html", "json", "markdown", "yaml"] {
            let code = CodeHighlighter::for_language(name).unwrap();
            for (line, source) in colored(code, hostile).iter().zip(hostile.lines()) {
                assert_eq!(
                    strip_styles(line),
                    escape_prose_for_display(source),
                    "{name}"
                );
                let mut rest = line.as_str();
                while let Some(at) = rest.find('\u{1b}') {
                    rest = &rest[at + 1..];
                    let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    let is_style = rest[1..end]
                        .bytes()
                        .all(|b| b.is_ascii_digit() || b == b';');
                    assert!(rest.starts_with('[') && rest[end..].starts_with('m') && is_style);
                }
                assert!(!line.contains(['\u{9b}', '\u{7}', '\u{202e}', '\u{0}']));
            }
        }
    }

    #[test]
    fn code_that_costs_time_is_shown_without_colors_from_some_point_on() {
        let mut code = CodeHighlighter::for_language("rust").unwrap();
        let long = "(".repeat(MAX_COLORED_LINE_BYTES + 1);
        assert_eq!(code.highlight_next_line_to_string(&long), long);
        // As many lines as one likes cost no more than so much time.
        let line = "a::<".repeat(100);
        let since = Instant::now();
        for _ in 0..2 * MAX_COLORED_LINES_PER_BLOCK {
            assert_eq!(
                strip_styles(&code.highlight_next_line_to_string(&line)),
                line
            );
        }
        assert!(since.elapsed() < Duration::from_secs(60));
        N_SLOW_CODE_BLOCKS_SEEN.store(0, Ordering::Relaxed);
    }
}
