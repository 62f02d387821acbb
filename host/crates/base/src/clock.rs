//! Time and identifiers: the only module that reads the wall clock and generates ids.

/// Returns the current time in UTC as RFC 3339, with second precision.
#[must_use]
pub fn format_current_time() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Returns the current time, as a UTC timestamp.
#[must_use]
pub fn current_time() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Formats a time in UTC as RFC 3339 with microseconds. All texts have the same length, so sorting
/// them as texts sorts by time.
#[must_use]
pub fn format_timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Formats a duration for display: short ones in milliseconds, longer ones in seconds.
#[must_use]
pub fn format_duration_ms(ms: u64) -> String {
    match ms {
        0 => "<1 ms".to_owned(),
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{:.1} s", ms as f64 / 1000.0),
    }
}

/// Returns the current time in milliseconds since 1970-01-01 UTC.
#[must_use]
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Generates an identifier: a UUID of version 7 (RFC 9562), so that ids sort by creation time.
#[must_use]
pub fn new_uuid_v7() -> String {
    // Format into a buffer on the stack: formatting through `Display` takes longer than creating
    // the id.
    let mut buffer = uuid::Uuid::encode_buffer();
    let id = uuid::Uuid::now_v7().simple();
    id.encode_lower(&mut buffer).to_owned()
}

/// Generates a session identifier: the creation time in UTC and six random hex digits. People read
/// and type these ids.
#[must_use]
pub fn new_session_id() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let id = new_uuid_v7();
    let random = id.get(id.len().saturating_sub(6)..).unwrap_or_default();
    format!("{now}-{random}")
}

/// Returns the current date in the local time zone, for example `2026-01-31`.
#[must_use]
pub fn current_date() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d").to_string()
}
