//! Checks of writers: a session has one writer at most, even when several programs compete.

use std::sync::Barrier;
use std::thread;

use rind_lib::session::{Position, SessionAddress, Sessions};

use crate::{
    Checked, StoreHandles, address, append_all, done, is_existing, is_locked, is_unknown, lines_of,
    refused, same, write_session,
};

/// Number of threads that compete in a check.
const RIVALS: usize = 8;

pub(crate) fn a_session_is_created_once(store: &StoreHandles) -> Checked {
    let at = address("one")?;
    let mut journal = done("create a session", store.own.create(&at))?;
    refused(
        "to create it while it is open",
        store.other.create(&at),
        is_existing,
    )?;
    append_all(&mut *journal, &["1\n"])?;
    done("sync", journal.sync())?;
    drop(journal);
    refused("to create it again", store.other.create(&at), is_existing)?;
    same("lines", &lines_of(&*store.own, &at)?, &"1\n".to_owned())
}

pub(crate) fn a_session_has_one_writer(store: &StoreHandles) -> Checked {
    let at = address("one")?;
    let mut journal = done("create a session", store.own.create(&at))?;
    append_all(&mut *journal, &["1\n"])?;
    refused(
        "to open what is being created",
        store.other.open(&at),
        is_locked,
    )?;
    drop(journal);
    let opened = done("open it", store.other.open(&at))?;
    refused("to open what is open", store.own.open(&at), is_locked)?;
    drop(opened);
    done("open it again", store.own.open(&at)).map(drop)
}

/// Counts how many of several threads succeed at the same moment. Their results, such as open
/// sessions, are kept until all threads have tried.
fn winners<T: Send>(
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
        let at = address(&format!("race-{n}"))?;
        let n_won = winners(store, |handle| handle.create(&at).ok());
        same("programs that created it", &n_won, &1)?;
    }
    Ok(())
}

pub(crate) fn of_many_that_open_a_session_at_once_one_succeeds(store: &StoreHandles) -> Checked {
    for n in 0..20 {
        let at = write_session(&*store.own, &format!("race-{n}"), &["1\n"])?;
        let n_won = winners(store, |handle| handle.open(&at).ok());
        same("programs that opened it", &n_won, &1)?;
    }
    Ok(())
}

pub(crate) fn a_session_is_read_while_it_is_written(store: &StoreHandles) -> Checked {
    let at = address("one")?;
    let mut journal = done("create a session", store.own.create(&at))?;
    for n in 1..=3_usize {
        append_all(&mut *journal, &["1\n"])?;
        done("sync", journal.sync())?;
        let read = lines_of(&*store.other, &at)?;
        same("lines after a sync", &read, &"1\n".repeat(n))?;
    }
    Ok(())
}

pub(crate) fn what_is_not_there_is_named(store: &StoreHandles) -> Checked {
    let missing = |at: &SessionAddress| {
        let (own, other) = (&store.own, &store.other);
        same("whether it is there", &own.contains(at), &false)?;
        refused("to open", own.open(at), is_unknown)?;
        refused("to read", other.read(at, Position::START), is_unknown)?;
        refused("to remove", own.remove(at), is_unknown)?;
        refused("to list below", other.children(at), is_unknown)
    };
    missing(&address("one")?)?;
    write_session(&*store.own, "one", &["1\n"])?;
    missing(&address("one/agents/sub-1")?)?;
    missing(&address("two")?)
}
