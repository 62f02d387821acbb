//! Subagents: agents that do a part of the work, each with its own task, session and tools.
//!
//! `preset` is the table of presets and reads presets from files, `notice` describes faults in
//! those files, `grant` selects the tools for a task, `start` starts or continues a subagent, `run`
//! runs it, and `registry` lists the subagents of this process. The other files are tools of the
//! model. A subagent never has more tools or permissions than its parent, cannot ask the user, and
//! ends with the turn of its parent. Its session is kept, so that any later turn can continue it.
//!
//! A subagent that holds an archived turn is called a holder. It never runs; the modules must not
//! know how a turn becomes a holder. Start from [`start::start_subagent`].

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
