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
pub use connect::{GuardDaemonStarter, HookRequest, ask_daemon, is_daemon_listening};
pub use error::GuardError;
pub use files::{AgentFileRoots, FileChange};
pub use folder::GuardFolder;
pub use install::{
    GuardCommand, GuardInstallState, InstalledHook, find_hooks, install_state, plan_guard_install,
    plan_guard_removal,
};
pub use probe::{HookProbeCall, HookProbeOutcome, interpret_hook_output, probe_payload};
pub use serve::{GuardBackend, GuardSessionRequest, serve_guard};
pub use table::{AgentHookEffect, AgentHookTable, HookPointRow, hook_points_without_event};
