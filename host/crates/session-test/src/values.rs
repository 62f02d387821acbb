//! Checks of stored values: each is stored under its hash, separately for each session and kind.

use rind_lib::session::{BlobKind, SessionBlobs};

use crate::{Checked, StoreHandles, check_equal, name_failed_operation, write_session};

pub(crate) fn a_value_is_kept_under_its_hash(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    for kind in [BlobKind::Content, BlobKind::State] {
        let (own, other) = (store.own.blobs(&at, kind), store.other.blobs(&at, kind));
        let (text, empty) = ("a value".repeat(1_000), String::new());
        let (name, of_empty) = (
            SessionBlobs::text_blob_id(&text),
            SessionBlobs::text_blob_id(&empty),
        );
        check_equal("length before", &other.length(&name), &None)?;
        if own.get(&name).is_ok() {
            return Err("the store returned a value that was not stored".to_owned());
        }
        for _ in 0..2 {
            name_failed_operation("keep a value", own.put(&name, text.as_bytes()))?;
            name_failed_operation("keep an empty value", own.put(&of_empty, b""))?;
        }
        check_equal(
            "value",
            &name_failed_operation("get a value", other.get(&name))?,
            &text.clone().into_bytes(),
        )?;
        check_equal(
            "value",
            &name_failed_operation("get a value", other.get(&of_empty))?,
            &Vec::new(),
        )?;
        check_equal("length", &other.length(&name), &Some(text.len() as u64))?;
        check_equal(
            "total",
            &name_failed_operation("add up", other.total())?,
            &(text.len() as u64),
        )?;
        let mut names = vec![name.clone(), of_empty.clone()];
        names.sort();
        check_equal(
            "names",
            &name_failed_operation("list names", other.names())?,
            &names,
        )?;
        own.release(&of_empty);
        check_equal(
            "the other value",
            &name_failed_operation("get a value", own.get(&name))?.len(),
            &text.len(),
        )?;
        name_failed_operation("keep it again", own.put(&of_empty, b""))?;
        check_equal(
            "value",
            &name_failed_operation("get a value", other.get(&of_empty))?,
            &Vec::new(),
        )?;
    }
    Ok(())
}

pub(crate) fn a_name_that_is_no_hash_is_refused(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    let blobs = store.own.blobs(&at, BlobKind::State);
    let upper = SessionBlobs::text_blob_id("x").to_uppercase();
    for name in [
        "",
        "../session.jsonl",
        "/etc/passwd",
        "a",
        upper.as_str(),
        &"é".repeat(32),
    ] {
        if blobs.put(name, b"x").is_ok() || blobs.get(name).is_ok() {
            return Err(format!(
                "the store accepted `{name}`, which is not a hash, as the name of a value"
            ));
        }
        check_equal("length", &blobs.length(name), &None)?;
        blobs.release(name);
    }
    check_equal(
        "lines",
        &crate::read_session_text(&*store.own, &at)?,
        &"1\n".to_owned(),
    )
}

pub(crate) fn values_of_one_kind_or_session_are_not_those_of_another(
    store: &StoreHandles,
) -> Checked {
    let one = write_session(&*store.own, "one", &["1\n"])?;
    let two = write_session(&*store.own, "two", &["1\n"])?;
    let name = SessionBlobs::text_blob_id("x");
    let content = store.own.blobs(&one, BlobKind::Content);
    name_failed_operation("keep a value", content.put(&name, b"x"))?;
    let others = [
        store.own.blobs(&one, BlobKind::State),
        store.own.blobs(&two, BlobKind::Content),
    ];
    for other in others {
        check_equal("length elsewhere", &other.length(&name), &None)?;
        check_equal(
            "total elsewhere",
            &name_failed_operation("add up", other.total())?,
            &0,
        )?;
        other.release(&name);
    }
    check_equal(
        "value",
        &name_failed_operation("get a value", content.get(&name))?,
        &b"x".to_vec(),
    )
}
