//! Archival: moves a finished turn out of the conversation. A subagent without tools, the holder,
//! keeps the complete turn on disk; the conversation keeps the user's message and a summary with
//! the holder's id.
//!
//! Decides when a turn is moved, which messages stay in the conversation and how the model reads
//! the moved ones; hooks of `before-archive` may refuse or provide their own summary. A holder is
//! only data: it has no process, the number of holders is unlimited, and no model runs until a
//! query. Archival is atomic: the turn stays as it was until one entry is written that replaces its
//! messages.
//!
//! When a turn ends, it is only [recorded](join::TurnsToArchiveQueue::record_turn_due_for_archive)
//! as due in the session. Due turns are prepared while the next turn of the conversation runs, in
//! this process or another, and moved between two steps of that turn. Therefore no turn waits for a
//! summary, and a conversation without a further turn costs nothing. If the summary fails, the next
//! turn tries again, a few times. If compaction has removed a due turn from the conversation, the
//! turn is still archived, from the session's file.
//!
//! A subagent archives in the same way, into its own holders, if its depth is below `depth_cap`.
//! Its due turns are prepared when it is continued.

pub(super) mod config;
mod find;
mod finished;
pub(super) mod join;
pub(super) mod live;
mod passages;
mod prepare;
pub(super) mod query;
mod summary;
mod transcript;
mod trigger;

pub use config::{
    ArchivalConfig, ArchivalSubagentListConfig, ArchiveSummaryConfig, ArchiveTriggerConfig,
    SummaryStyle, check_archival_config,
};

#[cfg(test)]
#[cfg(feature = "scripted")]
mod tests;
