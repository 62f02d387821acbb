//! The reference pages of the manual, `host/docs/reference`, which are generated from the code.
//!
//! Owns comparing the pages with what is generated; `RIND_BLESS=1` writes them. Start from [`pages`].

mod commands;
mod places;
mod settings;
mod structs;
mod variables;

use super::tree;

/// Folder of the pages.
const FOLDER: &str = "host/docs/reference";

/// Line below the title of each page.
const MADE: &str = "<!-- Generated from the code: `RIND_BLESS=1 cargo test -p rind-tests tidy` writes this page. -->";

/// A generated page.
pub(super) struct Page {
    /// Name of the file.
    name: &'static str,
    title: &'static str,
    /// Text below the title.
    text: String,
}

impl Page {
    fn path(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }

    fn whole(&self) -> String {
        format!("# {}\n\n{MADE}\n\n{}\n", self.title, self.text.trim())
    }

    /// Compares the page with its file. With `RIND_BLESS` it writes the file if they differ, and
    /// else it fails.
    pub(super) fn settle(&self) {
        let (path, whole) = (self.path(), self.whole());
        let found = std::fs::read_to_string(tree::root().join(&path)).unwrap_or_default();
        if found == whole {
            return;
        }
        assert!(
            std::env::var_os("RIND_BLESS").is_some(),
            "{path} is not current, first at `{}`; `RIND_BLESS=1 cargo test -p rind-tests tidy` writes it",
            first_difference(&found, &whole)
        );
        std::fs::write(tree::root().join(path), whole).unwrap();
    }
}

/// Returns the first line of `wanted` that differs from `found`.
fn first_difference<'a>(found: &str, wanted: &'a str) -> &'a str {
    let mut found = found.lines();
    let mut wanted = wanted.lines();
    wanted
        .find(|line| found.next() != Some(line))
        .unwrap_or_default()
}

/// Returns the generated pages.
pub(super) fn pages() -> Vec<Page> {
    vec![
        settings::page(),
        commands::page(),
        variables::page(),
        places::page(),
    ]
}

/// Reports variables and files that the code names and the reference does not list.
pub(super) fn missing() -> Vec<String> {
    [variables::missing(), places::missing()].concat()
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the sources of the host without tests.
fn host() -> Vec<tree::Source> {
    let mut sources = tree::sources(&tree::HOST, &["rs"]);
    sources
        .retain(|source| !source.path.ends_with("/tests.rs") && !source.path.contains("/tests/"));
    for source in &mut sources {
        if let Some((own, _)) = source.text.split_once("#[cfg(test)]\nmod tests") {
            source.text = own.to_owned();
        }
    }
    sources
}

#[test]
fn the_first_line_that_differs_is_named() {
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), "c");
    assert_eq!(first_difference("a\n", "a\nb\n"), "b");
}
