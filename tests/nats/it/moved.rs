//! Tests of moving sessions between files and servers, byte for byte.

use std::sync::Arc;

use rind_lib::session::{BlobKind, Sessions};
use rind_lib::session::{
    FramePosition, SessionAddress, SessionBlobs, SessionExportFormat, SessionSpec, SessionStore,
    import_session, prepare_session_export,
};
use rind_nats::NatsSessions;
use rind_nats_tests::{NatsServers, ServerSetup};

fn exported(store: &SessionStore, id: &str) -> (SessionExportFormat, Vec<u8>) {
    let bundle = prepare_session_export(store, id).unwrap();
    let mut bytes = Vec::new();
    bundle.write(&mut bytes).unwrap();
    (bundle.export_format(), bytes)
}

fn spec() -> SessionSpec {
    SessionSpec {
        workspace: "/srv".into(),
        provider: "scripted".to_owned(),
        model: "m".to_owned(),
    }
}

#[test]
fn a_session_with_lines_alone_goes_both_ways_byte_for_byte() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let folder = tempfile::tempdir().unwrap();
    let nats = NatsSessions::connect(servers.config("t")).unwrap();
    let (files, remote) = (
        SessionStore::new(folder.path().join("files")),
        SessionStore::with_backend(Arc::new(nats)),
    );
    drop(files.create_with_id("one", &spec()).unwrap());
    let (form, bytes) = exported(&files, "one");
    assert_eq!(form, SessionExportFormat::Lines);
    let file = folder.path().join("one.jsonl");
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(import_session(&remote, &file, None).unwrap().id, "one");
    assert!(import_session(&remote, &file, None).is_err());
    assert_eq!(exported(&remote, "one"), (form, bytes.clone()));
    std::fs::write(&file, &exported(&remote, "one").1).unwrap();
    import_session(&files, &file, Some("two")).unwrap();
    assert_eq!(exported(&files, "two").1, bytes);
}

#[test]
fn what_one_program_writes_another_lists_reads_and_follows() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let store = || {
        let sessions = NatsSessions::connect(servers.config("t")).unwrap();
        SessionStore::with_backend(Arc::new(sessions))
    };
    let (writer, reader) = (store(), store());
    assert!(reader.list_session_summaries().unwrap().rows.is_empty());
    assert!(
        reader.read_entries_with_line_numbers("one").is_err()
            && reader.check_session_exists("one").is_err()
    );
    drop(writer.create_with_id("one", &spec()).unwrap());
    let mut tail = reader.open_session_tail_reader("one").unwrap();
    let lines = |tail: &mut rind_lib::session::SessionTailReader| {
        let read = tail.read_more().unwrap();
        read.entries
            .iter()
            .map(|entry| entry.line)
            .collect::<Vec<u64>>()
    };
    assert_eq!(lines(&mut tail), [1]);
    let head = reader.list_session_summaries().unwrap().rows.remove(0);
    assert_eq!(
        (&*head.id, &*head.workspace, head.turns),
        ("one", "/srv", 0)
    );
    // Opening the session adds a line.
    drop(writer.resume("one", &spec()).unwrap());
    assert_eq!(lines(&mut tail), [2]);
    let again = reader.list_session_summaries().unwrap().rows.remove(0);
    assert!(
        again.bytes > head.bytes,
        "the head is that of the new lines"
    );
    assert_eq!(
        reader
            .read_entries_with_line_numbers("one")
            .unwrap()
            .entries
            .len(),
        2
    );
}

#[test]
fn values_subagents_and_a_cut_off_line_go_both_ways_byte_for_byte() {
    let servers = NatsServers::start(ServerSetup::ONE);
    let folder = tempfile::tempdir().unwrap();
    let nats = NatsSessions::connect(servers.config("t")).unwrap();
    let files = SessionStore::new(folder.path().join("files"));
    let remote = SessionStore::with_backend(Arc::new(nats.clone()));
    let session = files.create_with_id("one", &spec()).unwrap();
    session
        .state_set("p", "k", Some(&"v".repeat(700_000)))
        .unwrap();
    session.blobs().put_text(&"t".repeat(1_300_000)).unwrap();
    drop(session);
    let store = files.session_backend();
    for child in ["one/agents/sub-1", "one/agents/sub-1/agents/held-2"] {
        let at = SessionAddress::parse(child).unwrap();
        store.create_with_lines(&at, b"{\"id\":\"x\",\"parent\":null,\"time\":1,\"type\":\"session\",\"version\":1,\"workspace\":\"/\",\"provider\":\"p\",\"model\":\"m\"}\n{\"half").unwrap();
    }
    let (form, bytes) = exported(&files, "one");
    assert_eq!(form, SessionExportFormat::Archive);
    let file = folder.path().join("one.tar");
    std::fs::write(&file, &bytes).unwrap();
    import_session(&remote, &file, None).unwrap();
    assert!(exported(&remote, "one").1 == bytes, "the archives differ");
    let at = SessionAddress::parse("one").unwrap();
    let text = SessionBlobs::text_blob_id(&"t".repeat(1_300_000));
    assert_eq!(
        nats.blobs(&at, BlobKind::Content).length(&text),
        Some(1_300_000)
    );
    let child = SessionAddress::parse("one/agents/sub-1").unwrap();
    let opened = nats.open(&child).unwrap();
    assert!(
        opened.notices[0].contains("cut off after 6 bytes"),
        "{:?}",
        opened.notices
    );
    assert!(opened.lines.ends_with(b"}\n"));
    drop(opened);
    let read = nats.read(&child, FramePosition::START).unwrap();
    assert!(read.ends_with(b"}\n"));
}
