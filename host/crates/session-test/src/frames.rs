//! Checks of a store's frames: their order, appends that wait for the next one, and the positions
//! between frames.

use rind_lib::session::FramePosition;

use crate::{
    Checked, StoreHandles, append_all_frames, check_equal, name_failed_operation,
    parse_session_address, read_session_text, write_session,
};

pub(crate) fn frames_come_back_in_order(store: &StoreHandles) -> Checked {
    let frames = ["{\"a\":1}\n", "{\"b\":2}\n{\"c\":3}\n", "{\"d\":\"é\"}\n"];
    let at = write_session(&*store.own, "one", &frames)?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &frames.concat(),
    )
}

pub(crate) fn frames_that_wait_go_before_the_next_one(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    append_all_frames(&mut *journal, &["1\n"])?;
    let before = journal.end();
    name_failed_operation("append", journal.append_with_next(b"2\n"))?;
    name_failed_operation("append", journal.append_with_next(b"3\n"))?;
    if journal.end() <= before {
        return Err(
            "the end position of the journal does not count frames that wait to be written"
                .to_owned(),
        );
    }
    append_all_frames(&mut *journal, &["4\n"])?;
    name_failed_operation("sync", journal.sync())?;
    check_equal("bytes", &journal.bytes(), &8)?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n2\n3\n4\n".to_owned(),
    )
}

pub(crate) fn a_sync_writes_the_frames_that_wait(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    name_failed_operation("append", journal.append_with_next(b"1\n"))?;
    name_failed_operation("sync", journal.sync())?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n".to_owned(),
    )?;
    name_failed_operation("append", journal.append_with_next(b"2\n"))?;
    name_failed_operation("write", journal.write_waiting())?;
    name_failed_operation("sync", journal.sync())?;
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n2\n".to_owned(),
    )
}

pub(crate) fn dropping_a_journal_writes_the_frames_that_wait(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    name_failed_operation("append", journal.append_with_next(b"1\n"))?;
    drop(journal);
    check_equal(
        "lines",
        &read_session_text(&*store.other, &at)?,
        &"1\n".to_owned(),
    )
}

pub(crate) fn a_session_is_read_from_each_position(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    let mut ends = vec![FramePosition::START];
    for frame in ["1\n", "22\n", "3\n3\n"] {
        append_all_frames(&mut *journal, &[frame])?;
        ends.push(journal.end());
    }
    name_failed_operation("sync", journal.sync())?;
    if !ends.is_sorted_by(|one, next| one < next) {
        return Err(format!(
            "the end position of the journal does not grow with every append: {ends:?}"
        ));
    }
    for (end, rest) in ends
        .into_iter()
        .zip(["1\n22\n3\n3\n", "22\n3\n3\n", "3\n3\n", ""])
    {
        let read = name_failed_operation("read", store.other.read(&at, end))?;
        check_equal(
            "the rest",
            &String::from_utf8_lossy(&read).into_owned(),
            &rest.to_owned(),
        )?;
    }
    Ok(())
}

pub(crate) fn large_and_many_frames_are_kept(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    let large = format!("\"{}\"\n", "x".repeat(3 << 20));
    append_all_frames(&mut *journal, &[&large])?;
    let mut expected = large;
    for n in 0..2_000 {
        let frame = format!("{n}\n");
        match n % 3 {
            0 => name_failed_operation("append", journal.append(frame.as_bytes()))?,
            _ => name_failed_operation("append", journal.append_with_next(frame.as_bytes()))?,
        }
        expected.push_str(&frame);
    }
    name_failed_operation("sync", journal.sync())?;
    let found = read_session_text(&*store.other, &at)?;
    match found == expected {
        true => Ok(()),
        false => Err(format!(
            "the frames that were read differ from those that were written: {} bytes instead of {}",
            found.len(),
            expected.len()
        )),
    }
}

pub(crate) fn a_session_that_is_opened_again_goes_on_after_its_last_frame(
    store: &StoreHandles,
) -> Checked {
    let at = write_session(&*store.own, "one", &["1\n", "2\n"])?;
    let mut opened = name_failed_operation("open a session", store.other.open(&at))?;
    check_equal("lines", &opened.lines, &b"1\n2\n".to_vec())?;
    check_equal("notices", &opened.notices, &Vec::new())?;
    let end = opened.journal.end();
    append_all_frames(&mut *opened.journal, &["3\n"])?;
    name_failed_operation("sync", opened.journal.sync())?;
    check_equal(
        "the rest",
        &name_failed_operation("read", store.own.read(&at, end))?,
        &b"3\n".to_vec(),
    )
}
