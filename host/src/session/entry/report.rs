//! Entries about actions of plugins, in the format of the file.

use serde::Serialize;

use crate::point::trace::{AccessRecord, TraceRecord};

/// Report on an action of a plugin, which parses back as [`Body::Trace`](super::Body::Trace) or
/// [`Body::Access`](super::Body::Access). Reports are serialized directly: a step has many of them, and building a JSON value for each
/// takes longer than writing it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Report<'a> {
    /// Outcome of a hook call.
    Trace {
        /// The trace record.
        record: &'a TraceRecord,
    },
    /// Access of a plugin through its sandbox.
    Access {
        /// The access record.
        record: &'a AccessRecord,
    },
}

#[derive(Serialize)]
pub(in crate::session) struct ReportLine<'a> {
    pub(in crate::session) id: String,
    pub(in crate::session) parent: Option<&'a str>,
    pub(in crate::session) time: i64,
    #[serde(flatten)]
    pub(in crate::session) report: &'a Report<'a>,
}
