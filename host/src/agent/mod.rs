//! The agent loop: from a user's input to the final output.
//!
//! Owns when everything happens: the points of a turn, the steps, the tool calls, what is written to the session before
//! what. It must not know wire formats, WebAssembly, or who shows its events; what a call may do is decided by `tool`, what
//! hooks change by `point`.
//!
//! Start from `Agent::run_turn`, in `turn`. The turn reads from top to bottom in `turn` (start to end), `input` (what comes in),
//! `system` (the system prompt), `step` (one request), `stream` (what is shown of its answer), `calls` (its tool calls), `end` (however it ends), `archive` (what
//! becomes of it then). What plugins may do while they are called stands in `scope` and `host_calls`; a request (`request`) and a
//! tool call (`call`) are the same for both, a question of the host's own (`ask`) too.

mod agent;
mod archive;
mod ask;
mod assess;
mod between;
mod blobs;
mod budget;
mod call;
mod calls;
mod compact;
mod config;
mod context;
mod ctx;
#[cfg(feature = "cases")]
mod direct;
mod emitter;
mod end;
mod halt;
mod handle;
mod host_calls;
mod input;
mod judged;
mod opening;
mod outcome;
mod pending;
mod reflect;
mod replace;
mod reply;
mod request;
mod scope;
mod sink;
mod skill;
mod spec;
mod steering;
mod step;
mod stop;
mod stream;
mod system;
mod turn;
mod turn_tools;
mod watchers;

pub(crate) use agent::Agent;
pub use archive::{
    ArchivalConfig, Style, SubagentsConfig, SummaryConfig, TriggerConfig, check as check_archival,
};
pub(crate) use between::Ended;
pub(crate) use budget::Spent;
#[cfg(feature = "cases")]
pub(crate) use call::NO_TOOL;
pub use compact::CompactConfig;
pub use config::AgentConfig;
#[cfg(feature = "cases")]
pub(crate) use direct::DirectTurn;
#[cfg(feature = "cli")]
pub(crate) use end::NO_ANSWER;
pub use handle::SessionHandle;
pub use outcome::{Error, TurnOutcome};
pub use reflect::ReflectConfig;
pub(crate) use replace::{Replacement, Replacements};
pub use sink::KeepInStore;
pub(crate) use spec::AgentSpec;
pub use steering::{SteerHandle, Waiting};
