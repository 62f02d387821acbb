//! Checks of writers: a session has one writer at most, even when several programs compete.

use std::sync::Barrier;
use std::thread;

use rind_lib::session::{FramePosition, SessionAddress, Sessions};

use crate::{
    Checked, StoreHandles, append_all_frames, check_equal, check_refused,
    is_existing_session_error, is_locked_session_error, is_unknown_session_error,
    name_failed_operation, parse_session_address, read_session_text, write_session,
};

/// Number of threads that compete to write to one session in a check.
const RIVALS: usize = 8;

pub(crate) fn a_session_is_created_once(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    check_refused(
        "to create it while it is open",
        store.other.create(&at),
        is_existing_session_error,
    )?;
    append_all_frames(&mut *journal, &["1\n"])?;
    name_failed_operation("sync", journal.sync())?;
    drop(journal);
    check_refused(
        "to create it again",
        store.other.create(&at),
        is_existing_session_error,
    )?;
    check_equal(
        "lines",
        &read_session_text(&*store.own, &at)?,
        &"1\n".to_owned(),
    )
}

pub(crate) fn a_session_has_one_writer(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    append_all_frames(&mut *journal, &["1\n"])?;
    check_refused(
        "to open what is being created",
        store.other.open(&at),
        is_locked_session_error,
    )?;
    drop(journal);
    let opened = name_failed_operation("open it", store.other.open(&at))?;
    check_refused(
        "to open what is open",
        store.own.open(&at),
        is_locked_session_error,
    )?;
    drop(opened);
    name_failed_operation("open it again", store.own.open(&at)).map(drop)
}

/// Returns how many of several threads succeed when all try at the same moment. Their results, such
/// as open sessions, are kept until all threads have tried.
fn count_winners<T: Send>(
    store: &StoreHandles,
    try_once: impl Fn(&dyn Sessions) -> Option<T> + Sync,
) -> usize {
    let barrier = Barrier::new(RIVALS);
    thread::scope(|scope| {
        let rivals: Vec<_> = (0..RIVALS)
            .map(|n| {
                let handle = if n % 2 == 0 { &store.own } else { &store.other };
                let (barrier, try_once) = (&barrier, &try_once);
                scope.spawn(move || {
                    barrier.wait();
                    let won = try_once(&**handle);
                    barrier.wait();
                    won.is_some()
                })
            })
            .collect();
        let results = rivals.into_iter().map(|rival| rival.join());
        results.filter(|won| matches!(won, Ok(true))).count()
    })
}

pub(crate) fn of_many_that_create_a_session_at_once_one_succeeds(store: &StoreHandles) -> Checked {
    for n in 0..20 {
        let at = parse_session_address(&format!("race-{n}"))?;
        let n_won = count_winners(store, |handle| handle.create(&at).ok());
        check_equal("programs that created it", &n_won, &1)?;
    }
    Ok(())
}

pub(crate) fn of_many_that_open_a_session_at_once_one_succeeds(store: &StoreHandles) -> Checked {
    for n in 0..20 {
        let at = write_session(&*store.own, &format!("race-{n}"), &["1\n"])?;
        let n_won = count_winners(store, |handle| handle.open(&at).ok());
        check_equal("programs that opened it", &n_won, &1)?;
    }
    Ok(())
}

pub(crate) fn a_session_is_read_while_it_is_written(store: &StoreHandles) -> Checked {
    let at = parse_session_address("one")?;
    let mut journal = name_failed_operation("create a session", store.own.create(&at))?;
    for n in 1..=3_usize {
        append_all_frames(&mut *journal, &["1\n"])?;
        name_failed_operation("sync", journal.sync())?;
        let read = read_session_text(&*store.other, &at)?;
        check_equal("lines after a sync", &read, &"1\n".repeat(n))?;
    }
    Ok(())
}

pub(crate) fn what_is_not_there_is_named(store: &StoreHandles) -> Checked {
    let missing = |at: &SessionAddress| {
        let (own, other) = (&store.own, &store.other);
        check_equal("whether it is there", &own.contains(at), &false)?;
        check_refused("to open", own.open(at), is_unknown_session_error)?;
        check_refused(
            "to read",
            other.read(at, FramePosition::START),
            is_unknown_session_error,
        )?;
        check_refused("to remove", own.remove(at), is_unknown_session_error)?;
        check_refused(
            "to list below",
            other.children(at),
            is_unknown_session_error,
        )
    };
    missing(&parse_session_address("one")?)?;
    write_session(&*store.own, "one", &["1\n"])?;
    missing(&parse_session_address("one/agents/sub-1")?)?;
    missing(&parse_session_address("two")?)
}
