//! Costs of all sessions together, in the plugin's store.

use rind_sdk::prelude::*;

use crate::ledger::UsageSum;

/// Sessions that are kept apart. Each is written by its own session only, so that two at once lose
/// nothing.
const MAX_SESSIONS: usize = 200;

/// Sessions before those, in one sum.
const EARLIER: &str = "earlier";

/// Beginning of the keys of sessions. Their ids sort by time.
const PREFIX: &str = "session/";

/// Keeps the sum of a session, and puts the oldest ones together when there are too many.
pub(crate) fn keep_total(session: &str, sum: &UsageSum) -> Result<(), Error> {
    let key = format!("{PREFIX}{session}");
    store::set_json(&key, sum)?;
    let mut keys = store::keys(PREFIX)?;
    if keys.len() <= MAX_SESSIONS {
        return Ok(());
    }
    keys.retain(|other| *other != key);
    let mut earlier: UsageSum = store::get_json(EARLIER)?.unwrap_or_default();
    for old in keys.iter().take(keys.len() + 1 - MAX_SESSIONS) {
        if let Some(sum) = store::get_json(old)? {
            earlier.add_sum(&sum);
        }
        store::set_json(EARLIER, &earlier)?;
        store::remove(old)?;
    }
    Ok(())
}

/// Returns the sum over all sessions.
pub(crate) fn all_totals() -> Result<UsageSum, Error> {
    let mut all: UsageSum = store::get_json(EARLIER)?.unwrap_or_default();
    for key in store::keys(PREFIX)? {
        if let Some(sum) = store::get_json(&key)? {
            all.add_sum(&sum);
        }
    }
    Ok(all)
}

#[test]
fn old_sessions_are_put_together_and_nothing_is_lost() {
    rind_sdk::testing::reset();
    let sum = UsageSum {
        requests: 1,
        input: 3,
        ..UsageSum::default()
    };
    for number in 0..MAX_SESSIONS + 30 {
        keep_total(&format!("{number:04}"), &sum).unwrap();
    }
    assert_eq!(store::keys(PREFIX).unwrap().len(), MAX_SESSIONS);
    assert_eq!(all_totals().unwrap().requests, 230);
    keep_total("0229", &sum).unwrap();
    assert_eq!(all_totals().unwrap().requests, 230, "a session counts once");
}
