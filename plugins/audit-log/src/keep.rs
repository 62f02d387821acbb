//! Stores the lines of the log in files (segments) in the plugin's `data` folder, and the head of
//! the hash chain in the session's state.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use rind_audit::{EventPosition, HEAD_KEY, Head, LogEnd, Writer, continue_log, read_end};
use rind_sdk::files;
use rind_sdk::prelude::*;

use crate::event::AuditEvent;

/// Size of a segment, in bytes, at which further lines go to a new segment.
const LOG_SEGMENT_ROTATION_BYTES: u64 = 128 << 10;

/// Number of bytes at the end of a segment that are read to find its last line. Lines are a few
/// hundred bytes.
const SEGMENT_TAIL_READ_BYTES: u32 = 8 << 10;

/// Appends one line per event to the audit log of the session.
pub(crate) fn append_events(events: &[AuditEvent]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let session = format_session_folder_name(&caller::session());
    let folder = format!("data/{session}");
    let agent = caller::agent();
    let place = EventPosition {
        time: current_unix_millis(),
        turn: caller::turn(),
        agent: &agent,
    };
    let kept = CACHED_LAST_LINE_NUMBER_AND_HASH
        .with(|cached| cached.get(HEAD_KEY))
        .ok()
        .flatten();
    let (mut writer, mut segment) = match CACHED_LOG_END
        .take()
        .filter(|last| Some(&last.head) == kept.as_ref())
    {
        Some(last) if last.head.session == session => (Writer::new(last.head), last.segment),
        _ => find_log_end(&folder, &session, kept, place)?,
    };
    for event in events {
        writer.add(place, event)?;
    }
    if segment.size >= LOG_SEGMENT_ROTATION_BYTES {
        segment = AuditLogSegmentFile {
            number: segment.number + 1,
            size: 0,
        };
    }
    files::append(
        &segment_path(&folder, segment.number),
        writer.text.as_bytes(),
    )?;
    segment.size += writer.text.len() as u64;
    let head = writer.head;
    CACHED_LAST_LINE_NUMBER_AND_HASH.with(|cached| cached.set(HEAD_KEY, head.clone()))?;
    CACHED_LOG_END.set(Some(LogEndAfterLastWrite { head, segment }));
    Ok(())
}

/// Numbered file of the audit log.
#[derive(Clone, Copy)]
struct AuditLogSegmentFile {
    number: u32,
    /// Size of the file, in bytes.
    size: u64,
}

/// End of the log after the last write of this instance.
struct LogEndAfterLastWrite {
    head: Head,
    segment: AuditLogSegmentFile,
}

thread_local! {
    static CACHED_LAST_LINE_NUMBER_AND_HASH: state::Cached<Head> = const { state::Cached::new() };

    /// Cached end of the log, so that the files are not read for every line. The cache is valid
    /// only if the session's state contains the same head: then no other line was written since. A
    /// failure, which may have left a partial line, clears the cache.
    static CACHED_LOG_END: Cell<Option<LogEndAfterLastWrite>> = const { Cell::new(None) };
}

/// Finds the end of the log in its files. If the files are damaged, the text to append begins with
/// lines that describe the damage.
fn find_log_end(
    folder: &str,
    session: &str,
    kept: Option<Head>,
    place: EventPosition<'_>,
) -> Result<(Writer, AuditLogSegmentFile), Error> {
    if kept.is_none() {
        // Create the folder before listing it: a listing that fails would be recorded in the trace
        // of every session.
        files::create_folder(folder)?;
    }
    let mut segment = read_last_log_segment(folder)?;
    let path = |number| segment_path(folder, number);
    let mut end = read_log_segment_tail(&path(segment.number), segment.size)?;
    if end.last.is_none() && segment.number > 1 {
        // If the last segment has no line yet, the last line is in the segment before it.
        end.last = read_end(&read_log_segment(&path(segment.number - 1))?).last;
    }
    if end.torn > 0 {
        let path = path(segment.number);
        let mut whole = read_log_segment(&path)?;
        whole.truncate(whole.len().saturating_sub(end.torn));
        files::write(&path, &whole)?;
        segment.size = whole.len() as u64;
    }
    Ok((continue_log(session, &end, kept, place)?, segment))
}

/// Returns the session's id as the name of a folder. Ids consist of ASCII letters, digits, `-`, `_`
/// and `.`, and do not begin with `.`; everything else is removed as a safeguard.
fn format_session_folder_name(session: &str) -> String {
    let is_fine = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = session.chars().filter(is_fine).collect();
    name.trim_start_matches('.').to_owned()
}

fn segment_path(folder: &str, number: u32) -> String {
    format!("{folder}/{number:04}.jsonl")
}

fn current_unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Returns the last segment; an empty first segment if the folder has no segments.
fn read_last_log_segment(folder: &str) -> Result<AuditLogSegmentFile, Error> {
    let entries = match files::list(folder) {
        Ok(entries) => entries,
        Err(Error::NotFound(_)) => {
            files::create_folder(folder)?;
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    let segments = entries.iter().filter_map(|entry| {
        let number = entry.name.strip_suffix(".jsonl")?.parse().ok()?;
        Some((number, entry.size))
    });
    let (number, size) = segments.max().unwrap_or((1, 0));
    Ok(AuditLogSegmentFile { number, size })
}

/// Reads the end of the log segment at `path`, whose size in bytes is `size`.
fn read_log_segment_tail(path: &str, size: u64) -> Result<LogEnd, Error> {
    if size == 0 {
        return Ok(read_end(&[]));
    }
    let tail = files::read(
        path,
        size.saturating_sub(SEGMENT_TAIL_READ_BYTES.into()),
        SEGMENT_TAIL_READ_BYTES,
    )?;
    let end = read_end(&tail);
    if end.last.is_some() || size <= SEGMENT_TAIL_READ_BYTES.into() {
        return Ok(end);
    }
    Ok(read_end(&read_log_segment(path)?))
}

/// Returns the bytes of a segment of the log; none if the file does not exist.
fn read_log_segment(path: &str) -> Result<Vec<u8>, Error> {
    match files::read_all(path) {
        Err(Error::NotFound(_)) => Ok(Vec::new()),
        read => read,
    }
}
