//! Where the lines are: segments in the plugin's `data` folder, and the head of the chain in the session's state.

use std::time::{SystemTime, UNIX_EPOCH};

use rind_sdk::files;
use rind_sdk::prelude::*;
use rind_sdk::serde_json::Value;

use crate::chain::{self, Head, Place};

/// Bytes after which a new segment begins. A file is written whole each time, so short ones are quicker.
const SEGMENT_BYTES: usize = 128 << 10;

/// Where the head of the chain is kept. The host reads it when it checks the log.
const HEAD: &str = "head";

/// Adds lines to the log of the session.
pub(crate) fn append(ctx: &CallContext, events: &[Value]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let session = name(&ctx.session);
    let folder = format!("data/{session}");
    let mut number = last_segment(&folder)?;
    let mut segment = read(&folder, number)?;
    let mut end = chain::end(&segment);
    if end.last.is_none() && number > 1 {
        // A segment that has no line yet goes on behind the one before it.
        end.last = chain::end(&read(&folder, number - 1)?).last;
    }
    let place = Place {
        time: now(),
        turn: ctx.turn,
        agent: &ctx.agent,
    };
    let kept: Option<Head> = state::get_json(HEAD).ok().flatten();
    let mut writer = chain::go_on(&session, &end, kept, place);
    for event in events {
        writer.add(place, event);
    }
    segment.truncate(end.whole);
    if segment.len() >= SEGMENT_BYTES {
        // A full segment is not written again, so what was cut off at its end is taken out now.
        if end.torn > 0 {
            files::write(&path(&folder, number), &segment)?;
        }
        number += 1;
        segment.clear();
    }
    segment.extend_from_slice(writer.text.as_bytes());
    files::write(&path(&folder, number), &segment)?;
    state::set_json(HEAD, &writer.head)
}

/// The session's id as the name of a folder. Ids have no other characters.
fn name(session: &str) -> String {
    let is_fine = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    session.chars().filter(is_fine).collect()
}

fn path(folder: &str, number: u32) -> String {
    format!("{folder}/{number:04}.jsonl")
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The number of the last segment; 1 where there is none.
fn last_segment(folder: &str) -> Result<u32, Error> {
    let entries = match files::list(folder) {
        Ok(entries) => entries,
        Err(Error::NotFound(_)) => {
            files::create_folder(folder)?;
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    let numbers = entries
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(".jsonl")?.parse().ok());
    Ok(numbers.max().unwrap_or(1))
}

/// The bytes of a segment; none where there is none.
fn read(folder: &str, number: u32) -> Result<Vec<u8>, Error> {
    match files::read_all(&path(folder, number)) {
        Err(Error::NotFound(_)) => Ok(Vec::new()),
        read => read,
    }
}
