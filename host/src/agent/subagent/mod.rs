//! Subagents: agents that do a part of the work, each with a task, a session and tools of its own.
//!
//! `preset` is the table of presets and reads those of files, `notice` describes what is wrong with
//! those files, `grant` selects the tools of a task, `start` begins a subagent or continues one,
//! `run` is its life, and `registry` knows the subagents of this process. The other files are tools
//! of the model. A subagent never has more than its parent, asks nobody, and ends with the turn of
//! its parent; its session stays, so that it can be continued in any later turn.
//!
//! The modules must not know how an archived turn becomes a holder, which is a subagent that never
//! runs. Start from [`start::start_subagent`].

pub(super) mod config;
pub(super) mod continued;
pub(super) mod find;
pub(super) mod grant;
mod list;
mod notice;
pub(super) mod preset;
pub(super) mod registry;
pub(super) mod report;
mod run;
mod spawn;
pub(super) mod start;
mod stop;
pub(super) mod tools;
mod wait;

pub use config::SubagentsConfig;
