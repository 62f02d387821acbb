//! Checks docs of modules and items: each module has one, and its words are plain.

use super::tree::Source;

/// Reports a module file that does not begin with a doc of its purpose.
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

/// Words with which no doc may begin: a doc begins with a verb in the third person or with a
/// technical noun.
const OPENINGS: &[&str] = &[
    "Also",
    "Anything",
    "As",
    "At",
    "Both",
    "Everybody",
    "Everything",
    "For",
    "From",
    "How",
    "In",
    "It",
    "Its",
    "Made",
    "Nobody",
    "Nothing",
    "Of",
    "On",
    "So",
    "Somebody",
    "Something",
    "Taken",
    "That",
    "Their",
    "These",
    "They",
    "Those",
    "To",
    "Told",
    "Until",
    "What",
    "When",
    "Where",
    "Which",
    "While",
    "Who",
    "Whom",
    "Whose",
    "Why",
    "With",
    "Written",
];

/// Phrases that are hard to understand or to search for, each with a plain replacement.
const PHRASES: &[(&str, &str)] = &[
    ("wants a look", "a warning"),
    ("counts for nothing", "has no effect"),
    ("anybody's to give", "not verified"),
    ("more than there can be", "a sentinel"),
    ("with word to everybody", "emitting events"),
    (
        "held until you say yes",
        "needs permissions that you have not granted",
    ),
    ("asked about: the table", "not granted: the default"),
    ("once more ends the program", "press Ctrl-C again to quit"),
    ("say it at a terminal", "grant them at a terminal"),
    ("nothing but a file", "stored as a file"),
    ("the inner one decides", "the innermost applies"),
    ("is nobody's business", "is private"),
    ("all the same", "still"),
    ("goes on without it", "continues without it"),
];

/// Files that contain the phrases as data.
const ALLOWED: &[&str] = &["tests/it/tidy/docs.rs"];

/// Whether a line of a doc is a name alone, such as `The file.`
fn repeats_a_name(doc: &str) -> bool {
    let words: Vec<&str> = doc.split_whitespace().collect();
    matches!(words[..], ["The", word] if word.ends_with('.'))
}

/// Reports docs whose first word is not a verb or a noun or that are a name alone, and phrases that have plainer words.
pub(super) fn check_words(source: &Source) -> Vec<String> {
    if ALLOWED.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut was_doc = false;
    for (at, line) in source.text.lines().enumerate() {
        let line = line.trim();
        let doc = ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let first = doc
            .filter(|_| !was_doc)
            .and_then(|doc| doc.split_whitespace().next());
        was_doc = doc.is_some();
        if let Some(word) = first.filter(|word| OPENINGS.contains(word)) {
            findings.push(format!(
                "{}:{}: the doc begins with `{word}`; begin with a verb or a noun",
                source.path,
                at + 1
            ));
        }
        if let Some(doc) = doc.filter(|doc| repeats_a_name(doc)) {
            findings.push(format!(
                "{}:{}: the doc `{}` says no more than a name; say the unit, the meaning or the source",
                source.path,
                at + 1,
                doc.trim()
            ));
        }
        for (phrase, better) in PHRASES {
            if line.contains(phrase) {
                findings.push(format!(
                    "{}:{}: `{phrase}`; write `{better}`",
                    source.path,
                    at + 1
                ));
            }
        }
    }
    findings
}

#[test]
fn docs_that_begin_without_a_name_and_odd_phrases_are_found() {
    for text in [
        "/// What leaves a guest.\nfn a() {}",
        "//! How a turn speaks.",
        "/// The file.\npath: PathBuf,",
        "/// Fine.\nfn a() {}\n    /// Its name.\n    b: u8,",
        "//! Fine.\nlet text = \"so this counts for nothing\";",
    ] {
        let findings = check_words(&Source::new("a.rs", text));
        assert_eq!(findings.len(), 1, "{text}: {findings:?}");
    }
    for text in [
        "/// Sanitizes text that leaves a guest.\n/// What follows a first line is free.\nfn a() {}",
        "/// Whether it failed.\n// What the caller sees.",
    ] {
        assert_eq!(
            check_words(&Source::new("a.rs", text)),
            Vec::<String>::new(),
            "{text}"
        );
    }
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
