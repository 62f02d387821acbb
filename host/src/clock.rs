//! Time and identifiers: the one place that reads the wall clock and makes ids.

/// Now in UTC, RFC 3339 to the second.
#[must_use]
pub(crate) fn now_text() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Now, as a point in time.
#[must_use]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// A time in UTC, RFC 3339 with microseconds: always of one length, so that it sorts as a text.
#[must_use]
pub(crate) fn to_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Writes a duration for people, in milliseconds or seconds.
#[cfg(feature = "cli")]
#[must_use]
pub(crate) fn millis(ms: u64) -> String {
    match ms {
        0 => "<1 ms".to_owned(),
        ms if ms < 1000 => format!("{ms} ms"),
        ms => format!("{:.1} s", ms as f64 / 1000.0),
    }
}

/// Milliseconds since 1970-01-01 UTC.
#[must_use]
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A fresh identifier: a UUID of version 7 (RFC 9562), so that ids sort by the time they were made.
#[must_use]
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// A fresh session identifier: when it was made, in UTC, and six random digits. People read and type these.
#[must_use]
pub(crate) fn new_session_id() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let id = new_id();
    let random = id.get(id.len().saturating_sub(6)..).unwrap_or_default();
    format!("{now}-{random}")
}

/// Today in the local time zone, as `2026-01-31`.
#[must_use]
pub(crate) fn today() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d").to_string()
}
