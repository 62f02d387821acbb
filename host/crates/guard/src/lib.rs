//! Lets Rind's plugins guard other agents through the hooks of those agents.
//!
//! Owns the tables of the agents (files, events, abilities of each event), the translation of their
//! JSON in both directions, the installed files, and the protocol between the hook program, which
//! an agent starts, and the daemon, which runs the plugins. The guard fails closed: a call that
//! cannot be read, judged in time or answered is refused in the agent's own format.
//!
//! The crate has no command line and reads no settings: the program implements [`GuardBackend`] and
//! starts the daemon. Start from [`GuardedAgent`] and [`ask_daemon`].

mod agent;
mod answer;
mod bridge;
mod codex_terminal;
mod codex_trust;
mod connect;
mod error;
mod event;
mod files;
mod folder;
mod formats;
mod frame;
mod install;
mod jsonc;
mod patch;
mod probe;
mod result;
mod serve;
mod sessions;
mod table;
mod tools;

pub use agent::{GuardPoint, GuardedAgent};
pub use answer::HookAnswer;
pub use connect::{DaemonStart, HookRequest, ask_daemon, daemon_answers};
pub use error::GuardError;
pub use files::{FileChange, GuardPlaces};
pub use folder::GuardFolder;
pub use install::{
    GuardCommand, InstallState, InstalledHook, find_hooks, plan_install, plan_removal, state_of,
};
pub use probe::{ProbeCall, ProbeOutcome, probe_payload, read_outcome};
pub use serve::{GuardBackend, GuardOrder, serve_guard};
pub use table::{AgentTable, HookAbility, PointRow, inert_points};
