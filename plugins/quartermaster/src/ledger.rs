//! Counts of all places, across sessions, in the plugin's store: one key for each place, so that
//! learning writes little.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rind_sdk::prelude::{Error, caller, store};

use crate::follow::ToolFollowers;

const PREFIX: &str = "after/";

/// Maximum number of workspaces that are kept.
const MAX_PLACES: usize = 512;

/// Counts per workspace, as they were read at the start of a turn.
#[derive(Default)]
struct SeenPlaces {
    session: String,
    turn: u32,
    places: BTreeMap<String, Option<ToolFollowers>>,
}

thread_local! {
    /// Spares reading files after every call. Lessons of other sessions meanwhile are seen a turn
    /// later.
    static SEEN: RefCell<SeenPlaces> = RefCell::default();
}

/// Adds the lessons of a turn: one write for each place, however many calls there were.
pub(crate) fn keep_learnt(learnt: BTreeMap<String, ToolFollowers>) -> Result<(), Error> {
    SEEN.take();
    for (key, more) in learnt {
        let kept = read_followers(&key)?;
        if kept.is_none() {
            make_room()?;
        }
        let mut followers = kept.unwrap_or_default();
        followers.merge_followers(&more);
        store::set_json(&key, &followers)?;
    }
    Ok(())
}

/// Returns the followers of these tools, including those that are not stored yet.
pub(crate) fn find_followers(
    place: &[String],
    learnt: &BTreeMap<String, ToolFollowers>,
) -> Result<Option<ToolFollowers>, Error> {
    let key = key_of(place);
    let kept = read_seen(&key)?;
    let Some(more) = learnt.get(&key) else {
        return Ok(kept);
    };
    let mut followers = kept.unwrap_or_default();
    followers.merge_followers(more);
    Ok(Some(followers))
}

/// Reads a key once a turn.
fn read_seen(key: &str) -> Result<Option<ToolFollowers>, Error> {
    let (session, turn) = (caller::session(), caller::turn());
    SEEN.with_borrow_mut(|seen| {
        if (&seen.session, seen.turn) != (&session, turn) {
            *seen = SeenPlaces {
                session,
                turn,
                ..SeenPlaces::default()
            };
        }
        if let Some(kept) = seen.places.get(key) {
            return Ok(kept.clone());
        }
        let kept = read_followers(key)?;
        seen.places.insert(key.to_owned(), kept.clone());
        Ok(kept)
    })
}

fn read_followers(key: &str) -> Result<Option<ToolFollowers>, Error> {
    // A corrupt value is learned anew: a working plugin is worth more than the old counts.
    let text = store::get(key)?;
    Ok(text.and_then(|text| rind_sdk::serde_json::from_str(&text).ok()))
}

/// Removes the quarter of the places that was seen least, once there are too many. A quarter, so
/// that this is rare.
fn make_room() -> Result<(), Error> {
    let keys = store::keys(PREFIX)?;
    if keys.len() < MAX_PLACES {
        return Ok(());
    }
    let mut seen = Vec::with_capacity(keys.len());
    for key in keys {
        let followers: ToolFollowers = store::get_json(&key)
            .unwrap_or_default()
            .unwrap_or_default();
        seen.push((followers.total(), key));
    }
    seen.sort_unstable();
    seen.iter()
        .take(MAX_PLACES / 4)
        .try_for_each(|(_, key)| store::remove(key))
}

/// The key of a place. Names of tools hold no `/`.
pub(crate) fn key_of(place: &[String]) -> String {
    format!("{PREFIX}{}", place.join("/"))
}
