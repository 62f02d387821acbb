//! Archival: a finished turn is moved out of the conversation. A subagent without tools, the
//! holder, keeps the whole of it on disk; the conversation keeps the user's message and a summary
//! with the holder's id.
//!
//! Decides when the move happens, which messages stay and how the model reads the rest; hooks of
//! `before-archive` may refuse or bring a summary of their own. A holder is data: it has no
//! process, their number is not limited, and no model runs until a query. Nothing is lost on the
//! way: until the one entry is written that replaces the messages, the turn is as it was.
//!
//! At its end a turn is only [noted](join::note_due) as due, in the session. Turns that are due are
//! prepared while the next turn of the conversation runs, in this process or another, and joined
//! between two steps of that turn: no turn waits for a summary, and a conversation that is over
//! costs none. When there is no summary the next turn tries again, a few times. A turn that
//! compaction took out before that still gets its holder, from the file of the session.
//!
//! Subagents archive in the same way, each into holders of its own, if their depth is below
//! `depth_cap`. A subagent has its next turn when it is continued.

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

pub use config::{ArchivalConfig, ListConfig, SummaryConfig, SummaryStyle, TriggerConfig, check};

#[cfg(test)]
#[cfg(feature = "scripted")]
mod tests;
