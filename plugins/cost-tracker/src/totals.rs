//! Adds up the costs of all sessions, in the plugin's store.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rind_sdk::prelude::*;

use crate::ledger::UsageSum;

/// Time for which the cached sums are used. Reading the sums of 200 sessions takes a tenth of a
/// second, by which it would delay the end of each turn.
const CACHED_COST_SUMS_TTL: Duration = Duration::from_secs(300);

/// Maximum number of sessions with separate totals. Each session writes only its own totals, so
/// that concurrent sessions lose nothing.
const MAX_SESSIONS_WITH_OWN_TOTALS: usize = 200;

/// Maximum number of sessions in the cache, to which sessions that begin during
/// [`CACHED_COST_SUMS_TTL`] are added.
const MAX_CACHED_SESSIONS: usize = 2 * MAX_SESSIONS_WITH_OWN_TOTALS;

/// Prefix of the store keys of sessions. Session ids sort by time.
const SESSION_STORE_KEY_PREFIX: &str = "session/";

/// Store key of [`RemovedSessionsUsageSum`].
const REMOVED_SESSIONS_SUM_STORE_KEY: &str = "earlier";

/// Store key of [`CachedCostSums`].
const CACHED_COST_SUMS_STORE_KEY: &str = "read";

/// Sum of the old sessions that no longer have a total of their own.
#[data]
#[derive(Default)]
#[serde(default)]
struct RemovedSessionsUsageSum {
    #[serde(flatten)]
    sum: UsageSum,
    /// Keys of sessions whose totals are already in this sum but not yet removed from the store. If
    /// the plugin stops before it removes them, this list prevents that they are counted twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removing: Vec<String>,
}

/// Cached totals of all sessions.
#[data]
#[derive(Default)]
#[serde(default)]
struct CachedCostSums {
    /// Time at which the sums of all sessions were read, in milliseconds since 1970.
    at_ms: u64,
    earlier: UsageSum,
    /// Sums of sessions by their keys.
    sums: BTreeMap<String, UsageSum>,
}

impl CachedCostSums {
    /// Whether the cached sums are still recent enough at the time `now_ms`.
    fn is_fresh(&self, now_ms: u64) -> bool {
        let age = now_ms.checked_sub(self.at_ms);
        age.is_some_and(|age| u128::from(age) < CACHED_COST_SUMS_TTL.as_millis())
    }
}

thread_local! {
    /// Copy of [`CachedCostSums`] in memory, as this session last read it from the store.
    static LAST_READ_COST_SUMS: RefCell<CachedCostSums> = RefCell::default();
}

/// Stores the sum of a session, and returns the sum over all sessions, in which the sums of other
/// sessions may be up to five minutes old.
pub(crate) fn store_session_total(session: &str, sum: &UsageSum) -> Result<UsageSum, Error> {
    let own = format!("{SESSION_STORE_KEY_PREFIX}{session}");
    store::set_json(&own, sum)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let mut read = LAST_READ_COST_SUMS.take();
    if !read.is_fresh(now_ms) || !read.sums.contains_key(&own) {
        read = refresh_cached_session_sums(&own, sum, now_ms)?;
    }
    let mut all = read.earlier.clone();
    for (_, other) in read.sums.iter().filter(|(key, _)| **key != own) {
        all.add_sum(other);
    }
    all.add_sum(sum);
    LAST_READ_COST_SUMS.set(read);
    Ok(all)
}

/// Returns the sums of the sessions from the cache in the plugin's store, and adds the session with
/// the key `own` to the cache if it is missing. Reads the sums of all sessions again if the cache
/// is too old or too large.
fn refresh_cached_session_sums(
    own: &str,
    sum: &UsageSum,
    now_ms: u64,
) -> Result<CachedCostSums, Error> {
    let mut read: CachedCostSums = store::get_json(CACHED_COST_SUMS_STORE_KEY)?.unwrap_or_default();
    let is_known = read.sums.contains_key(own);
    if !read.is_fresh(now_ms) || !is_known && read.sums.len() >= MAX_CACHED_SESSIONS {
        read = read_all_session_sums(now_ms)?;
    } else if is_known {
        return Ok(read);
    }
    read.sums.insert(own.to_owned(), sum.clone());
    store::set_json(CACHED_COST_SUMS_STORE_KEY, &read)?;
    Ok(read)
}

/// Reads the sums of all sessions, and merges the oldest ones into [`RemovedSessionsUsageSum`] when
/// there are too many.
fn read_all_session_sums(now_ms: u64) -> Result<CachedCostSums, Error> {
    let mut earlier: RemovedSessionsUsageSum =
        store::get_json(REMOVED_SESSIONS_SUM_STORE_KEY)?.unwrap_or_default();
    remove_merged_session_totals(&mut earlier)?;
    let mut old = store::keys(SESSION_STORE_KEY_PREFIX)?;
    let kept = old.split_off(old.len().saturating_sub(MAX_SESSIONS_WITH_OWN_TOTALS));
    for key in &old {
        if let Some(sum) = store::get_json(key)? {
            earlier.sum.add_sum(&sum);
        }
    }
    if !old.is_empty() {
        earlier.removing = old;
        store::set_json(REMOVED_SESSIONS_SUM_STORE_KEY, &earlier)?;
        remove_merged_session_totals(&mut earlier)?;
    }
    let mut sums = BTreeMap::new();
    for key in kept {
        if let Some(sum) = store::get_json(&key)? {
            sums.insert(key, sum);
        }
    }
    Ok(CachedCostSums {
        at_ms: now_ms,
        earlier: earlier.sum,
        sums,
    })
}

/// Removes from the store the totals of single sessions that were already added to the sum of the
/// oldest sessions.
fn remove_merged_session_totals(earlier: &mut RemovedSessionsUsageSum) -> Result<(), Error> {
    if earlier.removing.is_empty() {
        return Ok(());
    }
    for key in std::mem::take(&mut earlier.removing) {
        store::remove(&key)?;
    }
    store::set_json(REMOVED_SESSIONS_SUM_STORE_KEY, earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum() -> UsageSum {
        UsageSum {
            requests: 1,
            input: 3,
            ..UsageSum::default()
        }
    }

    /// Stores the sum of a session as a separate process would, and returns the number of requests
    /// of all sessions.
    fn keep(number: usize) -> u64 {
        LAST_READ_COST_SUMS.take();
        store_session_total(&format!("{number:04}"), &sum())
            .unwrap()
            .requests
    }

    fn n_kept() -> usize {
        store::keys(SESSION_STORE_KEY_PREFIX).unwrap().len()
    }

    #[test]
    fn old_sessions_are_put_together_and_nothing_is_lost() {
        rind_sdk::testing::reset();
        for number in 0..MAX_CACHED_SESSIONS {
            assert_eq!(keep(number), number as u64 + 1);
        }
        assert_eq!(n_kept(), MAX_CACHED_SESSIONS);
        assert_eq!(keep(MAX_CACHED_SESSIONS), 401, "the next one is too many");
        assert_eq!(n_kept(), MAX_SESSIONS_WITH_OWN_TOTALS);
        assert_eq!(keep(MAX_CACHED_SESSIONS), 401, "a session counts once");
        store::remove(CACHED_COST_SUMS_STORE_KEY).unwrap();
        assert_eq!(keep(MAX_CACHED_SESSIONS), 401);
    }

    #[test]
    fn a_stop_while_sessions_are_put_together_counts_none_twice() {
        rind_sdk::testing::reset();
        keep(1);
        keep(2);
        let earlier = RemovedSessionsUsageSum {
            sum: sum(),
            removing: vec![format!("{SESSION_STORE_KEY_PREFIX}0001")],
        };
        store::set_json(REMOVED_SESSIONS_SUM_STORE_KEY, &earlier).unwrap();
        store::remove(CACHED_COST_SUMS_STORE_KEY).unwrap();
        assert_eq!(keep(2), 2);
        assert_eq!(n_kept(), 1);
    }

    #[test]
    fn sums_are_read_again_when_they_are_old() {
        rind_sdk::testing::reset();
        keep(1);
        keep(2);
        store::remove(&format!("{SESSION_STORE_KEY_PREFIX}0001")).unwrap();
        assert_eq!(keep(2), 2);
        let mut read: CachedCostSums = store::get_json(CACHED_COST_SUMS_STORE_KEY)
            .unwrap()
            .unwrap();
        read.at_ms -= 300_000;
        store::set_json(CACHED_COST_SUMS_STORE_KEY, &read).unwrap();
        assert_eq!(keep(2), 1);
    }
}
