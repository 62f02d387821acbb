//! Round-trip tests of entries.

use super::*;

fn entry(body: Body) -> Entry {
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
            removed: true,
        },
        Body::Custom {
            plugin: "p".into(),
            name: "n".into(),
            value: serde_json::json!({"a": [1, 2.5, null]}),
        },
    ];
    for body in bodies {
        let entry = entry(body);
        let line = entry.line().unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(Entry::parse(&line).unwrap(), entry);
    }
}

#[test]
fn an_unknown_type_is_kept_as_it_is() {
    let line = br#"{"id":"b","parent":"a","time":7,"type":"hologram","depth":3}"#;
    let entry = Entry::parse(line).unwrap();
    assert!(matches!(entry.body, Body::Unknown { .. }));
    let again: Value = serde_json::from_slice(&entry.line().unwrap()).unwrap();
    assert_eq!(again, serde_json::from_slice::<Value>(line).unwrap());
}

#[test]
fn a_known_type_with_wrong_fields_is_a_bad_line() {
    let line = br#"{"id":"b","parent":"a","time":7,"type":"message","message":5}"#;
    let error = Entry::parse(line).unwrap_err();
    assert_eq!(error, "it is of type `message`, but has another format");
}

#[test]
fn every_type_that_is_written_is_known() {
    let cut = entry(Body::Cut {
        turn: 1,
        reason: "r".into(),
        calls: Vec::new(),
    });
    let value = serde_json::to_value(&cut).unwrap();
    assert!(KNOWN.contains(&value["type"].as_str().unwrap()));
    assert_eq!(KNOWN.len(), 30);
}
