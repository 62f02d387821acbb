//! Tests of complete Markdown texts, of links, and of hostile input.

use super::*;

fn plain(source: &str, columns: usize) -> Vec<String> {
    render_rows(source, columns)
        .iter()
        .map(|row| strip_styles(row))
        .collect()
}

#[test]
fn markdown_blocks_are_rendered_as_terminal_rows() {
    let source = "# Title\n\nSome *plain* words that go on with `code`.\n\n1. one\n2. two\n   - in\n\n> said\n\n```rust\nfn main() {\n\n}\n```\n\nend [here](http://a.b)\n";
    assert_eq!(
        plain(source, 24),
        [
            "# Title",
            "",
            "Some plain words that go",
            "on with `code`.",
            "",
            "1. one",
            "2. two",
            "   • in",
            "",
            "│ said",
            "",
            "  fn main() {",
            "",
            "  }",
            "",
            "end here (http://a.b)",
        ]
    );
}

#[test]
fn a_table_is_laid_out_in_columns_or_as_a_list_of_cells() {
    let source = "| name | what |\n|---|---|\n| a | the first |\n| bb | 日本 |\n";
    assert_eq!(
        plain(source, 40),
        [
            "name │ what",
            "─────┼──────────",
            "a    │ the first",
            "bb   │ 日本",
        ]
    );
    assert_eq!(
        plain(source, 12),
        [
            "name │ what",
            "─────┼──────",
            "a    │ the",
            "     │ first",
            "─────┼──────",
            "bb   │ 日本",
        ]
    );
}

#[test]
fn only_a_link_whose_text_is_its_address_is_clickable() {
    crate::render::look::set_hyperlink_support(true);
    let link = |source: &str| {
        let row = render_rows(source, 80).concat();
        let link = row
            .split_once("\u{1b}]8;;")
            .map(|(_, rest)| rest.to_owned());
        link.and_then(|rest| Some(rest.split_once("\u{1b}\\")?.0.to_owned()))
    };
    assert_eq!(
        link("[a](https://a.b/c?d=e#f)").as_deref(),
        Some("https://a.b/c?d=e#f")
    );
    assert_eq!(link("<http://a.b>").as_deref(), Some("http://a.b"));
    for other in [
        "[a](file:///etc/passwd)",
        "[a](javascript:alert(1))",
        "[a](https://bank.com@evil.com/)",
        "[a](https://bank.com\\@evil.com/)",
        "[a](https://b\u{430}nk.com/)",
        "[a](https://)",
        "[a](<https://a.b/\u{7}\u{1b}]8;;http://evil.com\u{1b}\\>)",
        "[a](https://a.b/&#27;&#92;x)",
        "[https://bank.com](src/main.rs)",
    ] {
        assert_eq!(link(other), None, "{other}");
    }
    // The link text stays as it is; the complete address is the hyperlink target in each row.
    let rows = render_rows("[https://bank.com](https://evil.com/a/long/path)", 20);
    let shown: Vec<String> = rows.iter().map(|row| strip_styles(row)).collect();
    assert_eq!(
        shown,
        ["https://bank.com", "(https://evil.com/a/", "long/path)"]
    );
    assert!(!rows[0].contains("\u{1b}]8"), "{rows:?}");
    for row in &rows[1..] {
        let whole = "\u{1b}]8;;https://evil.com/a/long/path\u{1b}\\";
        assert!(row.contains(whole), "{rows:?}");
        assert_eq!(
            crate::render::wrap::text_width(row),
            strip_styles(row).width()
        );
    }
    crate::render::look::set_hyperlink_support(false);
}

#[test]
fn no_control_sequence_of_the_source_reaches_the_terminal() {
    let source =
        "a\u{1b}[2J &#27;[2J `\u{1b}]0;x\u{7}`\n\n```\n\u{1b}[1A\n```\n\n[x](http://a\u{202e}b)";
    for row in plain(source, 60) {
        assert!(
            !row.contains('\u{1b}') && !row.contains('\u{202e}'),
            "{row:?}"
        );
    }
    // The rows contain the program's own styles, but no escape sequence from the source.
    let all = render_rows(source, 60).join("\n");
    assert!(
        !all.contains("\u{1b}[2J") && !all.contains("\u{1b}]"),
        "{all:?}"
    );
}

#[test]
fn no_row_is_wider_than_the_screen() {
    let source = "# A title of several words\n\n```rust\nlet a_long_name = \"日本語 and more words than a row has\";\n```\n\nwordswithoutanyblanks日本語日本語日本語 **bold**text and more\n\n- item with words\n  - 日本語 nested item\n\n> quoted words go on and on";
    for columns in 10..50 {
        for row in plain(source, columns) {
            assert!(row.width() <= columns, "{columns}: {row}");
        }
    }
}
