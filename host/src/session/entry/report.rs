//! Entries about actions of plugins, in the format of the file.

use serde::Serialize;

use crate::point::trace::{AccessRecord, TraceRecord};

/// Report on an action of a plugin, which parses back as [`Body::Trace`](super::Body::Trace) or
/// [`Body::Access`](super::Body::Access). Reports are serialized directly, field by field: a step
/// has many of them, and a JSON value or a flattened type takes longer than writing it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Report<'a> {
    /// Outcome of a hook call.
    Trace(&'a TraceRecord),
    /// Access of a plugin through its sandbox.
    Access(&'a AccessRecord),
}

impl Report<'_> {
    /// Returns the type of the entry.
    pub(in crate::session) fn entry_type(&self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Access(_) => "access",
        }
    }
}

#[derive(Serialize)]
pub(in crate::session) struct ReportLine<'a> {
    pub(in crate::session) id: String,
    pub(in crate::session) parent: Option<&'a str>,
    pub(in crate::session) time: i64,
    #[serde(rename = "type")]
    pub(in crate::session) entry_type: &'static str,
    pub(in crate::session) record: &'a Report<'a>,
}
