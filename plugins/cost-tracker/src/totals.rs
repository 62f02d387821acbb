//! Costs of all sessions together, in the plugin's store.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rind_sdk::prelude::*;

use crate::ledger::UsageSum;

/// Time for which the sum of the other sessions, and the sum of each, is used again. Reading all of
/// them takes some fifteen milliseconds, and this runs at the end of every turn.
const OTHERS_HOLD: Duration = Duration::from_secs(60);

/// Key of the sums of sessions as they were last read, for sessions that are new since.
const READ: &str = "read";

/// Sums of sessions as they were read.
#[data]
#[derive(Default)]
struct ReadSums {
    /// Time in milliseconds since 1970.
    at_ms: u64,
    /// Sums by their keys.
    sums: BTreeMap<String, UsageSum>,
}

impl ReadSums {
    /// Whether the sums are used again at this time.
    fn is_fresh(&self, now_ms: u64) -> bool {
        let age = now_ms.checked_sub(self.at_ms);
        age.is_some_and(|age| u128::from(age) < OTHERS_HOLD.as_millis())
    }
}

/// Sessions that are kept apart. Each is written by its own session only, so that two at once lose
/// nothing.
const MAX_SESSIONS: usize = 200;

/// Sessions before those, in one sum.
const EARLIER: &str = "earlier";

/// Beginning of the keys of sessions. Their ids sort by time.
const PREFIX: &str = "session/";

/// Sum of the other sessions, as it was last read.
struct OtherTotals {
    session: String,
    read: SystemTime,
    sum: UsageSum,
}

thread_local! {
    static OTHERS: RefCell<Option<OtherTotals>> = const { RefCell::new(None) };
}

/// Stores the sum of a session, and returns the sum over all sessions. It may be up to a minute old
/// for sessions that run at the same time.
pub(crate) fn keep_total(session: &str, sum: &UsageSum) -> Result<UsageSum, Error> {
    let key = format!("{PREFIX}{session}");
    store::set_json(&key, sum)?;
    let now = SystemTime::now();
    let others = OTHERS.take().filter(|others| {
        let age = now.duration_since(others.read);
        others.session == session && age.is_ok_and(|age| age < OTHERS_HOLD)
    });
    let others = match others {
        Some(others) => others,
        None => OtherTotals {
            session: session.to_owned(),
            read: now,
            sum: sum_of_others(&key)?,
        },
    };
    let mut all = others.sum.clone();
    all.add_sum(sum);
    OTHERS.set(Some(others));
    Ok(all)
}

/// Returns the sum over all sessions but that of this key, and puts the oldest ones together when
/// there are too many.
fn sum_of_others(own: &str) -> Result<UsageSum, Error> {
    let mut keys = store::keys(PREFIX)?;
    keys.retain(|other| other != own);
    let mut earlier: UsageSum = store::get_json(EARLIER)?.unwrap_or_default();
    let excess = (keys.len() + 1).saturating_sub(MAX_SESSIONS);
    let kept = keys.split_off(excess.min(keys.len()));
    for old in &keys {
        if let Some(sum) = store::get_json(old)? {
            earlier.add_sum(&sum);
        }
        store::set_json(EARLIER, &earlier)?;
        store::remove(old)?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let known: ReadSums = store::get_json(READ)?.unwrap_or_default();
    let is_fresh = known.is_fresh(now_ms);
    let mut read = ReadSums {
        at_ms: now_ms,
        sums: BTreeMap::new(),
    };
    let mut all = earlier;
    for key in kept {
        let known = known.sums.get(&key).filter(|_| is_fresh).cloned();
        let sum = match known {
            Some(sum) => Some(sum),
            None => store::get_json(&key)?,
        };
        if let Some(sum) = sum {
            all.add_sum(&sum);
            read.sums.insert(key, sum);
        }
    }
    if !is_fresh && !read.sums.is_empty() {
        store::set_json(READ, &read)?;
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
    let keep = |number: usize| keep_total(&format!("{number:04}"), &sum).unwrap();
    for number in 0..MAX_SESSIONS + 30 {
        assert_eq!(keep(number).requests, number as u64 + 1);
    }
    assert_eq!(store::keys(PREFIX).unwrap().len(), MAX_SESSIONS);
    assert_eq!(keep(229).requests, 230, "a session counts once");
    store::remove(&format!("{PREFIX}0228")).unwrap();
    assert_eq!(keep(229).requests, 230, "not read again within a minute");
    assert_eq!(keep(227).requests, 229);
}
