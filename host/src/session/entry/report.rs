//! Serializes reports on the actions of plugins as entries of the session file.

use serde::Serialize;

use crate::point::trace::{AccessRecord, TraceRecord};

/// Report on an action of a plugin. The entry of a report parses as
/// [`Body::Trace`](super::Body::Trace) or [`Body::Access`](super::Body::Access). Reports are
/// serialized directly, without a JSON value or a flattened type in between: a step writes many
/// reports, and either would take longer than the write.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum PluginActionReport<'a> {
    /// Call of a hook, with its outcome.
    Trace(&'a TraceRecord),
    /// Access of a plugin's code to something outside its sandbox, such as a file or a host.
    Access(&'a AccessRecord),
}

impl PluginActionReport<'_> {
    /// Returns the value of the entry's `type` field.
    pub(in crate::session) fn entry_type(&self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Access(_) => "access",
        }
    }
}

#[derive(Serialize)]
pub(in crate::session) struct PluginActionReportLine<'a> {
    pub(in crate::session) id: String,
    pub(in crate::session) parent: Option<&'a str>,
    pub(in crate::session) time: i64,
    #[serde(rename = "type")]
    pub(in crate::session) entry_type: &'static str,
    pub(in crate::session) record: &'a PluginActionReport<'a>,
}
