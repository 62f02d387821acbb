//! The fuzz targets without a fuzzer: the corpus unchanged, mutations of it, and random bytes.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use rind_tests::fuzz::{OUTCOME_BASE, TARGETS, Target, lift};

/// The corpus of a target: name and content of each file.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.display().to_string(), std::fs::read(&path).unwrap())
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

/// One change of a file of the corpus.
#[derive(Clone, Debug)]
enum Mutation {
    Insert(Index, Vec<u8>),
    Replace(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let words = select(vec![
        0,
        1,
        2,
        255,
        OUTCOME_BASE,
        OUTCOME_BASE + 36,
        131_072,
        u32::MAX,
    ]);
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..5),
        r#"[\[\]{}"':.,#\n\r\\ -]{1,3}"#.prop_map(String::into_bytes),
        "\\PC{1,4}".prop_map(String::into_bytes),
        words.prop_map(|word: u32| word.to_le_bytes().to_vec()),
    ];
    let at = any::<Index>;
    prop_oneof![
        (at(), piece.clone()).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (at(), piece).prop_map(|(at, piece)| Mutation::Replace(at, piece)),
        (at(), 1..40_usize).prop_map(|(at, n)| Mutation::Remove(at, n)),
        (at(), 1..60_usize, 1..60_usize).prop_map(|(at, n, times)| Mutation::Repeat(at, n, times)),
        at().prop_map(Mutation::Cut),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutation: &Mutation) -> Vec<u8> {
    let len = bytes.len();
    match mutation {
        Mutation::Insert(index, piece) => {
            let at = index.index(len + 1);
            bytes.splice(at..at, piece.iter().copied());
        }
        Mutation::Replace(index, piece) => {
            let at = index.index(len + 1);
            bytes.splice(at..(at + piece.len()).min(len), piece.iter().copied());
        }
        Mutation::Remove(index, n) => {
            let at = index.index(len + 1);
            bytes.drain(at..(at + n).min(len));
        }
        Mutation::Repeat(index, n, times) => {
            let at = index.index(len + 1);
            let again = bytes[at..(at + n).min(len)].repeat(*times);
            bytes.splice(at..at, again);
        }
        Mutation::Cut(index) => bytes.truncate(index.index(len + 1)),
    }
    bytes
}

/// Runs a target on the corpus, on mutations of it and on random bytes, `cases` in all.
fn run((name, target): &Target, cases: u32) {
    let files = corpus(name);
    assert!(!files.is_empty(), "{name} has a corpus");
    for (path, bytes) in &files {
        let tried = std::panic::catch_unwind(|| target(bytes));
        assert!(tried.is_ok(), "{path}");
    }
    let seeds: Vec<Vec<u8>> = files.into_iter().map(|(_, bytes)| bytes).collect();
    let mutated = (select(seeds), proptest::collection::vec(mutation(), 1..6))
        .prop_map(|(seed, mutations)| mutations.iter().fold(seed, mutate));
    let input = prop_oneof![9 => mutated, 1 => proptest::collection::vec(any::<u8>(), 0..200)];
    let config = ProptestConfig {
        failure_persistence: None,
        cases,
        ..ProptestConfig::default()
    };
    proptest!(config, |(bytes in input)| target(&bytes));
}

fn run_named(name: &str, cases: u32) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    run(target.unwrap(), cases);
}

#[test]
fn any_manifest_is_read_or_refused() {
    run_named("manifest", 2000);
}

#[test]
fn any_answer_of_a_provider_is_the_same_however_it_is_cut() {
    run_named("sse", 1000);
}

#[test]
fn any_session_file_is_read_or_refused_and_opens_again_as_it_opened() {
    run_named("session", 500);
}

#[test]
fn any_skill_is_read_or_refused_and_means_the_same_when_it_is_written() {
    run_named("skill", 2000);
}

#[test]
fn any_host_pattern_is_refused_or_written_out_as_it_reads() {
    run_named("host_pattern", 4000);
}

#[test]
fn any_json_is_parsed_within_its_bounds() {
    run_named("json", 3000);
}

#[test]
fn any_text_holds_no_secret_after_it_was_masked() {
    run_named("secret", 2000);
}

#[test]
fn any_memory_of_a_guest_is_an_outcome_or_a_failure() {
    run_named("outcome", 1500);
}

/// Memory that is not a valid outcome gets a distinct error for each fault.
#[test]
fn memory_that_is_no_outcome_is_told_apart_and_never_taken_for_one() {
    let at = OUTCOME_BASE;
    let memory = |pointer: u32, words: &[u32]| {
        let words = std::iter::once(&pointer).chain(words);
        words
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    // Valid outcomes, which show that the instance's memory is read at all.
    for (file, bytes) in corpus("outcome") {
        let expected = [("block", "because"), ("error", "no")];
        for (name, expected) in expected.iter().filter(|(name, _)| file.ends_with(name)) {
            assert!(lift(&[&bytes])[0].contains(expected), "{name}");
        }
    }
    let n_calls = memory(at, &[0, 3, 32_000, 1]);
    let table = [
        (
            "discriminant of the result",
            memory(at, &[7]),
            "discriminant",
        ),
        (
            "discriminant of the verdict",
            memory(at, &[0, 9]),
            "discriminant",
        ),
        (
            "pointer out of the memory",
            memory(u32::MAX - 3, &[]),
            "out of bounds",
        ),
        (
            "pointer that is not aligned",
            memory(at + 1, &[]),
            "aligned",
        ),
        (
            "string out of the memory",
            memory(at, &[0, 3, 131_000, 4096]),
            "out of bounds",
        ),
        (
            "string as long as can be said",
            memory(at, &[0, 3, at, u32::MAX]),
            "out of bounds",
        ),
        (
            "string that is no UTF-8",
            memory(at, &[0, 3, at + 16, 4, 0xffff_ffff]),
            "utf-8",
        ),
        (
            "list out of the memory",
            memory(at, &[0, 0, 0, 0, 0, 0, 0, at, 0x00ff_ffff]),
            "out of bounds",
        ),
        (
            "list whose length overflows",
            memory(at, &[0, 0, 0, 0, 0, 0, 0, at, 0x1000_0000]),
            "out of bounds",
        ),
    ];
    for (what, memory, expected) in table {
        let said = lift(&[&n_calls, &memory, &n_calls, &n_calls]);
        assert!(said[1].contains(expected), "{what}: {}", said[1]);
        assert_eq!(
            said[2..],
            ["1", "2"],
            "{what}: the instance was thrown away, its successor was not"
        );
    }
}
