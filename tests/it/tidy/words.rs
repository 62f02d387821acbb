//! Finds words that do not belong in the tree: paths of a developer's machine, and remarks on how
//! the project is made.

use super::tree::{Source, has_word};

/// Folders that exist on one machine only.
const MACHINE: &[&str] = &["/work/", "/root/", "/home/"];

/// Words about how the project is made.
const MAKING: &[&str] = &[
    "ai-generated",
    "as an ai language model",
    "co-authored-by",
    "design.md",
    "prior-art",
    "seed 1",
    "seed 2",
    "seed 3",
    "seed 4",
    "seed 5",
    "style.md",
    "the seeds",
    "written by an ai",
];

/// Files that contain such words as data, each with the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "host/crates/base/src/paths.rs",
        "its tests compute the folders of a user",
    ),
    ("tests/it/tidy/words.rs", "it lists the words"),
];

pub(super) fn check(source: &Source) -> Vec<String> {
    if ALLOWED.iter().any(|(path, _)| source.path == *path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let small = line.to_lowercase();
        let machine = MACHINE.iter().find(|folder| is_absolute(line, folder));
        let making = MAKING.iter().find(|words| has_word(&small, words));
        for word in machine.into_iter().chain(making) {
            findings.push(format!("{}:{}: `{word}`", source.path, number + 1));
        }
    }
    findings
}

/// Whether the line contains a path that begins with `folder`, and not only a longer path or a URL
/// that contains it.
fn is_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/~}>)*".contains(c))
    })
}

#[test]
fn machine_paths_and_talk_of_the_making_are_found() {
    for line in [
        "see /work/shared/notes",
        "let path = \"/home/someone/rind\";",
        "`/root/.cargo`",
        "as Seed 3 says",
        "described in design.md",
        "Co-Authored-By: somebody",
    ] {
        let findings = check(&Source::new("a.md", &format!("fine\n{line}")));
        assert_eq!(findings.len(), 1, "{line}");
        assert!(findings[0].starts_with("a.md:2: "), "{findings:?}");
    }
}

#[test]
fn other_paths_and_words_are_fine() {
    for line in [
        "https://example.com/home/page",
        "{root}/work/a",
        "~/work/rind",
        "seed 12 of the generator",
        "homework/workshop",
    ] {
        assert_eq!(
            check(&Source::new("a.md", line)),
            Vec::<String>::new(),
            "{line}"
        );
    }
}
