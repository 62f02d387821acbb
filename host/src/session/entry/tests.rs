//! Tests that write entries as JSON lines and read the lines again.

use super::*;

fn entry_with_body(body: Body) -> Entry {
    Entry {
        id: "b".into(),
        parent: Some("a".into()),
        time: 7,
        body,
    }
}

#[test]
fn an_entry_reads_back_as_it_was_written() {
    let bodies = [
        Body::Message {
            message: Message::text(crate::message::Role::User, "hi\nthere"),
        },
        Body::State {
            plugin: "p".into(),
            key: "k".into(),
            value: None,
            blob: None,
            len: None,
            removed: true,
        },
        Body::Custom {
            plugin: "p".into(),
            name: "n".into(),
            value: serde_json::json!({"a": [1, 2.5, null]}),
        },
    ];
    for body in bodies {
        let entry = entry_with_body(body);
        let line = entry.to_json_line().unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(Entry::parse_line(&line).unwrap(), entry);
    }
}

#[test]
fn an_entry_of_an_unknown_type_is_kept_unchanged() {
    let line = br#"{"id":"b","parent":"a","time":7,"type":"hologram","depth":3}"#;
    let entry = Entry::parse_line(line).unwrap();
    assert!(matches!(entry.body, Body::Unknown { .. }));
    let again: Value = serde_json::from_slice(&entry.to_json_line().unwrap()).unwrap();
    assert_eq!(again, serde_json::from_slice::<Value>(line).unwrap());
}

#[test]
fn a_known_type_with_wrong_fields_is_a_bad_line() {
    let line = br#"{"id":"b","parent":"a","time":7,"type":"message","message":5}"#;
    let error = Entry::parse_line(line).unwrap_err();
    assert_eq!(
        error,
        "the entry has the type `message`, but not the fields of this type"
    );
}

#[test]
fn every_entry_type_that_is_written_can_be_read() {
    let source = include_str!("../entry.rs");
    let body = source.split_once("pub enum Body {\n").unwrap().1;
    let body = body.split_once("\n}").unwrap().0;
    let indented = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = indented.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let names = variants.map(|line| {
        let name = line.trim_end_matches([' ', '{', '(', ',']);
        let kebab = name.char_indices().flat_map(|(at, c)| {
            let dash = (at > 0 && c.is_ascii_uppercase()).then_some('-');
            dash.into_iter().chain([c.to_ascii_lowercase()])
        });
        kebab.collect::<String>()
    });
    let mut written: Vec<String> = names.filter(|name| name != "unknown").collect();
    written.sort();
    let mut known = KNOWN_ENTRY_TYPES.to_vec();
    known.sort_unstable();
    assert_eq!(known, written);
}
