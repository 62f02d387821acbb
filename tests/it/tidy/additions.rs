//! Generates the lists of the architecture page that say which files an additional point or import
//! touches, from an example of each.

use std::collections::BTreeSet;

use super::table::Part;
use super::tree::{HOST, has_word, sources};

/// Page that holds the lists.
pub(super) const FILE: &str = ".github/ARCHITECTURE.md";

/// An example of an added point or import, and its names in the sources.
struct Example {
    /// Name in the docs.
    name: &'static str,
    /// Names in the code and the contract.
    words: &'static [&'static str],
}

const EXAMPLES: &[Example] = &[
    Example {
        name: "after-compact",
        words: &["after-compact", "after_compact", "AfterCompact"],
    },
    // The word `agents` alone also names subagents, so only longer names count.
    Example {
        name: "agents",
        words: &[
            "interface agents",
            "import agents",
            "mod agents",
            "own!(agents)",
            "plugin::{agents",
            "plugin::agents",
            "Agents, agents",
            "ExternalCall::Agents",
            "run_agent",
        ],
    },
];

/// Returns the lists as generated from the sources.
pub(super) fn parts() -> impl Iterator<Item = Part> {
    let [library, crates] = HOST;
    let folders = [
        library,
        crates,
        "sdk/rust/src",
        "sdk/rust/macros/src",
        "wit",
    ];
    let mut sources = sources(&folders, &["rs", "wit", "in"]);
    sources.retain(|source| !source.path.starts_with("wit/released/"));
    EXAMPLES.iter().map(move |example| {
        let names = |text: &str| example.words.iter().any(|word| has_word(text, word));
        let own = |text: &'_ str| {
            text.split("#[cfg(test)]\nmod tests")
                .next()
                .is_some_and(names)
        };
        let files = sources.iter().filter(|source| own(&source.text));
        let files: BTreeSet<String> = files
            .map(|source| format!("- `{}`\n", source.path))
            .collect();
        Part {
            start: format!("<!-- files of {} -->\n", example.name),
            end: format!("<!-- /files of {} -->", example.name),
            text: files.into_iter().collect(),
        }
    })
}
