//! Checks of the lists of sessions and subagents, of removal and of forks.

use std::collections::BTreeSet;

use rind_lib::session::{BlobKind, SessionBlobs};

use crate::{
    Checked, StoreHandles, append_all_frames, check_equal, check_refused,
    is_existing_session_error, is_locked_session_error, is_unknown_session_error,
    name_failed_operation, parse_session_address, read_session_text, write_session,
};

pub(crate) fn sessions_are_listed_in_pages(store: &StoreHandles) -> Checked {
    check_equal(
        "an empty store",
        &name_failed_operation("list", store.own.list(None, 10))?
            .sessions
            .len(),
        &0,
    )?;
    let ids = ["a", "b", "b-1", "c.1", "d_2", "e", "z"];
    for id in ids.iter().rev() {
        write_session(&*store.own, id, &["1\n"])?;
    }
    write_session(&*store.own, "c.1/agents/sub-1", &["1\n"])?;
    for limit in [1, 3, 7, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        for _ in 0..=ids.len() {
            let page = name_failed_operation("list", store.other.list(after.as_deref(), limit))?;
            if page.sessions.len() > limit {
                return Err(format!(
                    "a page of at most {limit} sessions has {}",
                    page.sessions.len()
                ));
            }
            for listed in page.sessions {
                check_equal("bytes", &listed.bytes, &2)?;
                if listed.updated <= 0 {
                    return Err("a listed session has no time of its last change".to_owned());
                }
                found.push(listed.id);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        check_equal("listed", &found, &ids.map(str::to_owned).to_vec())?;
        check_equal("the page after the last", &after, &None)?;
    }
    Ok(())
}

pub(crate) fn subagents_are_listed_below_their_session(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    write_session(&*store.own, "one-more", &["1\n"])?;
    for agent in ["sub-2", "sub-1", "sub-1/agents/held-3"] {
        write_session(&*store.own, &format!("one/agents/{agent}"), &["2\n"])?;
    }
    let below = |at: &str| {
        name_failed_operation(
            "list below",
            store.other.children(&parse_session_address(at)?),
        )
    };
    check_equal(
        "below",
        &below("one")?,
        &vec!["sub-1".to_owned(), "sub-2".to_owned()],
    )?;
    check_equal(
        "below",
        &below("one/agents/sub-1")?,
        &vec!["held-3".to_owned()],
    )?;
    check_equal("below", &below("one-more")?, &Vec::new())?;
    let deep = parse_session_address("one/agents/sub-1/agents/held-3")?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &deep)?,
        &"2\n".to_owned(),
    )?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n".to_owned(),
    )
}

pub(crate) fn a_removed_session_is_gone_with_all_that_it_has(store: &StoreHandles) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n"])?;
    let child = write_session(&*store.own, "one/agents/sub-1", &["2\n"])?;
    let name = SessionBlobs::text_blob_id("x");
    let blobs = store.own.blobs(&at, BlobKind::Content);
    name_failed_operation("keep a value", blobs.put(&name, b"x"))?;
    drop(blobs);
    name_failed_operation("remove a subagent", store.own.remove(&child))?;
    check_equal(
        "below",
        &name_failed_operation("list below", store.other.children(&at))?,
        &Vec::new(),
    )?;
    write_session(&*store.own, "one/agents/sub-1", &["2\n"])?;
    name_failed_operation("remove a session", store.other.remove(&at))?;
    for gone in [&at, &child] {
        check_equal("whether it is there", &store.own.contains(gone), &false)?;
        check_refused(
            "to open what was removed",
            store.own.open(gone),
            is_unknown_session_error,
        )?;
    }
    check_equal(
        "listed",
        &name_failed_operation("list", store.own.list(None, 10))?
            .sessions
            .len(),
        &0,
    )?;
    write_session(&*store.own, "one", &["3\n"])?;
    check_equal(
        "below",
        &name_failed_operation("list below", store.own.children(&at))?,
        &Vec::new(),
    )?;
    let blobs = store.other.blobs(&at, BlobKind::Content);
    check_equal("value of the removed one", &blobs.length(&name), &None)
}

pub(crate) fn a_session_that_is_open_is_not_removed(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    append_all_frames(&mut *journal, &["1\n"])?;
    check_refused(
        "to remove what is open",
        store.other.remove(&at),
        is_locked_session_error,
    )?;
    append_all_frames(&mut *journal, &["2\n"])?;
    name_failed_operation("sync", journal.sync())?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n2\n".to_owned(),
    )
}

pub(crate) fn a_fork_has_its_own_lines_values_and_subagents(store: &StoreHandles) -> Checked {
    let from = write_session(&*store.own, "one", &["1\n", "2\n"])?;
    for agent in ["sub-1", "sub-1/agents/sub-9", "sub-2"] {
        write_session(&*store.own, &format!("one/agents/{agent}"), &["3\n"])?;
    }
    let name = SessionBlobs::text_blob_id("x");
    for kind in [BlobKind::Content, BlobKind::State] {
        name_failed_operation(
            "keep a value",
            store.own.blobs(&from, kind).put(&name, b"x"),
        )?;
    }
    let to = parse_session_address("two")?;
    let agents = BTreeSet::from(["sub-1".to_owned(), "sub-404".to_owned()]);
    // The original session may be open during the fork.
    let mut opened = name_failed_operation("open a session", store.own.open(&from))?;
    name_failed_operation("fork", store.other.fork(&from, &to, b"1\n", &agents))?;
    append_all_frames(&mut *opened.journal, &["4\n"])?;
    drop(opened);
    check_equal(
        "lines",
        &read_session_text(&*store.own, &to)?,
        &"1\n".to_owned(),
    )?;
    check_equal(
        "below",
        &name_failed_operation("list below", store.own.children(&to))?,
        &vec!["sub-1".to_owned()],
    )?;
    let deep = parse_session_address("two/agents/sub-1/agents/sub-9")?;
    check_equal(
        "lines",
        &read_session_text(&*store.own, &deep)?,
        &"3\n".to_owned(),
    )?;
    for kind in [BlobKind::Content, BlobKind::State] {
        // The fork keeps a value that the original session has released.
        store.own.blobs(&from, kind).release(&name);
        let value = name_failed_operation("get a value", store.own.blobs(&to, kind).get(&name))?;
        check_equal("value", &value, &b"x".to_vec())?;
    }
    name_failed_operation("remove a session", store.own.remove(&from))?;
    check_equal(
        "lines",
        &read_session_text(&*store.own, &deep)?,
        &"3\n".to_owned(),
    )?;
    name_failed_operation("open the fork", store.own.open(&to)).map(drop)
}

pub(crate) fn a_fork_replaces_no_session(store: &StoreHandles) -> Checked {
    let from = write_session(&*store.own, "one", &["1\n"])?;
    let to = write_session(&*store.own, "two", &["2\n"])?;
    let none = BTreeSet::new();
    check_refused(
        "to fork to what is there",
        store.other.fork(&from, &to, b"1\n", &none),
        is_existing_session_error,
    )?;
    check_equal(
        "lines",
        &read_session_text(&*store.own, &to)?,
        &"2\n".to_owned(),
    )?;
    let missing = parse_session_address("three")?;
    let forked = store
        .own
        .fork(&missing, &parse_session_address("four")?, b"1\n", &none);
    check_refused(
        "to fork what is not there",
        forked,
        is_unknown_session_error,
    )?;
    check_equal(
        "whether it is there",
        &store.own.contains(&parse_session_address("four")?),
        &false,
    )
}
