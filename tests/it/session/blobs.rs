//! Tests of blobs: bytes that a session stores beside its entries.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rind::message::{Blob, Content, Message, Role};
use rind::session::{Body, Error, MAX_BLOB_BYTES, MAX_TOTAL_BLOB_BYTES_PER_SESSION, Session};

use super::{TempStore, user};

const DOT: &[u8] = include_bytes!("../../recorded/dot.png");

fn keep(session: &Session, bytes: &[u8]) -> Blob {
    let blob = Blob::from_bytes(bytes, "application/octet-stream");
    session.blobs().put(&blob, bytes).unwrap();
    blob
}

/// Returns the path of the blob's file.
fn file(session: &Session, blob: &Blob) -> std::path::PathBuf {
    session
        .local_folder()
        .unwrap()
        .join("content")
        .join(&blob.id)
}

#[test]
fn bytes_are_kept_once_in_private_files_and_survive_resume_and_fork() {
    let place = TempStore::new();
    let session = place.create();
    let blob = keep(&session, DOT);
    assert_eq!(keep(&session, DOT), blob);
    let content = vec![Content::Blob(blob.clone())];
    let message = Message::new(Role::User, content);
    session.append(Body::Message { message }).unwrap();
    session.append(user("and then")).unwrap();
    let folder = session.local_folder().unwrap().join("content");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().collect();
    assert_eq!(files.len(), 1);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder), mode(&file(&session, &blob))),
        (0o700, 0o600)
    );
    let id = session.id().to_string();
    drop(session);

    let session = place.resume(&id).unwrap();
    let blobs: Vec<Blob> = session
        .messages()
        .iter()
        .flat_map(Message::blobs)
        .cloned()
        .collect();
    assert_eq!(blobs, std::slice::from_ref(&blob));
    assert_eq!(session.blobs().get(&blob.id).unwrap(), DOT);
    // A fork has its own copy, which stays when the original's files are removed.
    let spec = crate::harness::session_spec(std::path::Path::new("/w"));
    let fork = place.store.fork(&id, None, &spec).unwrap();
    fs::remove_dir_all(session.local_folder().unwrap().join("content")).unwrap();
    assert_eq!(fork.blobs().get(&blob.id).unwrap(), DOT);
    assert!(matches!(
        session.blobs().get(&blob.id),
        Err(Error::Read { .. })
    ));
}

#[test]
fn changed_bytes_and_ids_that_are_none_are_errors_and_good_bytes_mend_a_file() {
    let place = TempStore::new();
    let session = place.create();
    let blob = keep(&session, DOT);
    fs::write(file(&session, &blob), b"something else").unwrap();
    assert!(matches!(
        session.blobs().get(&blob.id),
        Err(Error::Blob { .. })
    ));
    keep(&session, DOT);
    assert_eq!(session.blobs().get(&blob.id).unwrap(), DOT);
    fs::write(session.local_folder().unwrap().join("secret"), DOT).unwrap();
    for id in [
        "",
        "../secret",
        "..",
        &blob.id[1..],
        &blob.id.to_uppercase(),
    ] {
        assert!(
            matches!(session.blobs().get(id), Err(Error::Blob { .. })),
            "{id}"
        );
    }
    let other = Blob::from_bytes(b"other", "");
    assert!(matches!(
        session.blobs().put(&other, DOT),
        Err(Error::Blob { .. })
    ));
}

#[test]
fn a_blob_and_all_of_a_session_are_bounded_also_after_a_resume() {
    let place = TempStore::new();
    let session = place.create();
    let large = vec![0; MAX_BLOB_BYTES as usize + 1];
    let error = session
        .blobs()
        .put(&Blob::from_bytes(&large, ""), &large)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} bytes cannot be stored: a blob has at most {MAX_BLOB_BYTES} bytes",
            MAX_BLOB_BYTES + 1
        )
    );
    keep(&session, DOT);
    // A sparse file, which counts with its length.
    let filler = session
        .local_folder()
        .unwrap()
        .join("content")
        .join("0".repeat(64));
    let file = fs::File::create(filler).unwrap();
    file.set_len(MAX_TOTAL_BLOB_BYTES_PER_SESSION - DOT.len() as u64 - 4)
        .unwrap();
    let id = session.id().to_string();
    drop(session);
    let session = place.resume(&id).unwrap();
    keep(&session, b"abcd");
    // A blob that is stored already takes no more space.
    keep(&session, DOT);
    let error = session
        .blobs()
        .put(&Blob::from_bytes(b"e", ""), b"e")
        .unwrap_err();
    assert!(
        error.to_string().contains("all that a session keeps"),
        "{error}"
    );
    assert!(matches!(error, Error::BlobLimit { size: 1, .. }));
}
