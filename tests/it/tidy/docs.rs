//! Docs of modules.

use super::tree::Source;

/// A module file that does not begin with what it is for.
pub(super) fn check_module(source: &Source) -> Option<String> {
    let first = source.text.lines().next().unwrap_or_default();
    let is_there = first
        .strip_prefix("//!")
        .is_some_and(|doc| !doc.trim().is_empty());
    (!is_there).then(|| {
        format!(
            "{}: it does not begin with `//!` and what it is for",
            source.path
        )
    })
}

#[test]
fn a_module_without_docs_at_its_top_is_found() {
    for text in [
        "",
        "use a::b;\n//! Late.",
        "//!\n//! Nothing.",
        "/// Of an item.",
    ] {
        assert!(check_module(&Source::new("a.rs", text)).is_some(), "{text}");
    }
    assert!(check_module(&Source::new("a.rs", "//! Docs.\n")).is_none());
}
