//! Checks of values: stored under their hash, separately for each session and kind.

use rind_lib::session::{BlobKind, SessionBlobs};

use crate::{Checked, StoreHandles, done, same, write_session};

pub(crate) fn a_value_is_kept_under_its_hash(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    for kind in [BlobKind::Content, BlobKind::State] {
        let (own, other) = (store.own.blobs(&at, kind), store.other.blobs(&at, kind));
        let (text, empty) = ("a value".repeat(1_000), String::new());
        let (name, of_empty) = (SessionBlobs::text_id(&text), SessionBlobs::text_id(&empty));
        same("length before", &other.length(&name), &None)?;
        if own.get(&name).is_ok() {
            return Err("the store returned a value that was not stored".to_owned());
        }
        for _ in 0..2 {
            done("keep a value", own.put(&name, text.as_bytes()))?;
            done("keep an empty value", own.put(&of_empty, b""))?;
        }
        same(
            "value",
            &done("get a value", other.get(&name))?,
            &text.clone().into_bytes(),
        )?;
        same(
            "value",
            &done("get a value", other.get(&of_empty))?,
            &Vec::new(),
        )?;
        same("length", &other.length(&name), &Some(text.len() as u64))?;
        same(
            "total",
            &done("add up", other.total())?,
            &(text.len() as u64),
        )?;
        let mut names = vec![name.clone(), of_empty.clone()];
        names.sort();
        same("names", &done("list names", other.names())?, &names)?;
        own.release(&of_empty);
        same(
            "the other value",
            &done("get a value", own.get(&name))?.len(),
            &text.len(),
        )?;
        done("keep it again", own.put(&of_empty, b""))?;
        same(
            "value",
            &done("get a value", other.get(&of_empty))?,
            &Vec::new(),
        )?;
    }
    Ok(())
}

pub(crate) fn a_name_that_is_no_hash_is_refused(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    let blobs = store.own.blobs(&at, BlobKind::State);
    let upper = SessionBlobs::text_id("x").to_uppercase();
    for name in [
        "",
        "../session.jsonl",
        "/etc/passwd",
        "a",
        upper.as_str(),
        &"é".repeat(32),
    ] {
        if blobs.put(name, b"x").is_ok() || blobs.get(name).is_ok() {
            return Err(format!("`{name}` was mistaken for a hash"));
        }
        same("length", &blobs.length(name), &None)?;
        blobs.release(name);
    }
    same(
        "lines",
        &crate::lines_of(&*store.own, &at)?,
        &"1\n".to_owned(),
    )
}

pub(crate) fn values_of_one_kind_or_session_are_not_those_of_another(
    store: &StoreHandles,
) -> Checked {
    let one = write_session(&*store.own, "one", &["1\n"])?;
    let two = write_session(&*store.own, "two", &["1\n"])?;
    let name = SessionBlobs::text_id("x");
    let content = store.own.blobs(&one, BlobKind::Content);
    done("keep a value", content.put(&name, b"x"))?;
    let others = [
        store.own.blobs(&one, BlobKind::State),
        store.own.blobs(&two, BlobKind::Content),
    ];
    for other in others {
        same("length elsewhere", &other.length(&name), &None)?;
        same("total elsewhere", &done("add up", other.total())?, &0)?;
        other.release(&name);
    }
    same(
        "value",
        &done("get a value", content.get(&name))?,
        &b"x".to_vec(),
    )
}
