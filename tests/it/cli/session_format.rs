//! The format of sessions: a session of each version stays readable, and the schema and the page say what is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rind_tests::cli::Rind;
use serde_json::Value;

use crate::session::every::types_of_lines;

/// Folder with one session of each version of the format.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/it/session/kept");

const PAGE: &str = include_str!("../../../host/docs/session-format.md");

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn schema(rind: &Rind) -> Value {
    serde_json::from_str(&rind.run(&["schema", "session"]).exits(0).stdout).unwrap()
}

/// Types of entries that the schema has.
fn types(schema: &Value) -> BTreeSet<String> {
    let variants = schema["oneOf"]
        .as_array()
        .or(schema["anyOf"].as_array())
        .unwrap();
    let types = variants.iter().map(|one| {
        one["properties"]["type"]["const"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    types.collect()
}

#[test]
fn a_session_of_each_version_is_read_continued_and_exported() {
    for version in fs::read_dir(KEPT).unwrap() {
        let version = version.unwrap();
        let id = version.file_name().into_string().unwrap();
        let rind = Rind::with_script("[[reply]]\ntext = \"I know it.\"\n");
        copy(
            &version.path(),
            &rind.home().join("data/sessions").join(&id),
        );
        rind.run(&["session", "doctor", &id]).exits(0);
        let shown = rind
            .run(&["session", "show", &id, "--full"])
            .exits(0)
            .stdout;
        for text in [
            "A kept session",
            "write a file",
            "Count the files.",
            "careful",
            "There is one file.",
        ] {
            assert!(shown.contains(text), "{id}: {text}\n{shown}");
        }
        let found = rind.run(&["session", "search", "one file"]).exits(0).stdout;
        assert!(found.contains("There is one file."), "{found}");
        let ran = rind
            .run(&["run", "do you know it?", "--resume", &id])
            .exits(0);
        assert_eq!(ran.stdout, "I know it.\n");
        assert!(!ran.stderr.contains("cannot be read"), "{}", ran.stderr);
        rind.run(&["session", "export", &id, "-o", "out.md"])
            .exits(0);
    }
}

#[test]
fn every_line_that_is_written_matches_the_schema() {
    let rind = Rind::default();
    let check = jsonschema::validator_for(&schema(&rind)).unwrap();
    let mut seen = BTreeSet::new();
    for version in fs::read_dir(KEPT).unwrap() {
        let text = fs::read_to_string(version.unwrap().path().join("session.jsonl")).unwrap();
        seen.extend(types_of_lines(&check, &text));
    }
    assert!(seen.len() >= 18, "{seen:?}");
}

#[test]
fn the_page_names_every_type_of_entry() {
    let rind = Rind::default();
    let table = PAGE.split("## Types of entries").nth(1).unwrap();
    let named: BTreeSet<String> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .flat_map(|line| {
            line.split(" | ")
                .next()
                .unwrap()
                .split('`')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter(|word| word.starts_with(char::is_alphabetic))
        .collect();
    assert_eq!(named, types(&schema(&rind)));
}
