//! Counts of all places, across sessions, in the plugin's store: one key for each place, so that learning writes little.

use rind_sdk::prelude::{Error, store};

use crate::follow::{Followers, places};

const PREFIX: &str = "after/";

/// Most places that are kept.
const MOST_PLACES: usize = 512;

/// Counts that `tool` came after these.
pub(crate) fn learn(before: &[String], tool: &str) -> Result<(), Error> {
    for place in places(before) {
        let key = key(place);
        let kept = followers(place)?;
        if kept.is_none() {
            make_room()?;
        }
        let mut followers = kept.unwrap_or_default();
        followers.add(tool);
        store::set_json(&key, &followers)?;
    }
    Ok(())
}

/// What came after these tools.
pub(crate) fn followers(place: &[String]) -> Result<Option<Followers>, Error> {
    // What cannot be read is learned anew: it is worth less than a working plugin.
    let text = store::get(&key(place))?;
    Ok(text.and_then(|text| rind_sdk::serde_json::from_str(&text).ok()))
}

/// Removes the quarter of the places that was seen least, once there are too many. A quarter, so that this is rare.
fn make_room() -> Result<(), Error> {
    let keys = store::keys(PREFIX)?;
    if keys.len() < MOST_PLACES {
        return Ok(());
    }
    let mut seen = Vec::with_capacity(keys.len());
    for key in keys {
        let followers: Followers = store::get_json(&key)
            .unwrap_or_default()
            .unwrap_or_default();
        seen.push((followers.total(), key));
    }
    seen.sort_unstable();
    seen.iter()
        .take(MOST_PLACES / 4)
        .try_for_each(|(_, key)| store::remove(key))
}

/// Names of tools hold no `/`.
fn key(place: &[String]) -> String {
    format!("{PREFIX}{}", place.join("/"))
}
