//! Lets Rind's plugins guard other agents through the hooks of those agents.
//!
//! Owns the tables of the agents (files, events, abilities of each event), the translation of their
//! JSON in both directions, the installed files, and the protocol between the hook program, which
//! an agent starts, and the daemon, which runs the plugins. The guard fails closed: a call that
//! cannot be read, judged in time or answered is refused in the agent's own format.
//!
//! The crate has no command line and reads no settings: the program implements
//! [`GuardSessionOpener`] and starts the daemon. Start from [`GuardedAgent`] and
//! [`ask_daemon_for_hook_answer`].

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

pub use agent::{AgentHookPoint, GuardedAgent};
pub use answer::HookAnswer;
pub use connect::{
    AgentHookRequest, GuardDaemonStarter, ask_daemon_for_hook_answer, is_daemon_listening,
};
pub use error::GuardFileOrDaemonError;
pub use files::{AgentSettingsRootFolders, FileChange};
pub use folder::GuardDaemonFolder;
pub use install::{
    GuardHookProgram, GuardInstallState, InstalledHook, find_hooks, plan_guard_install,
    plan_guard_removal, read_guard_install_state,
};
pub use probe::{
    AgentReactionToHookAnswer, SampleHookCall, hook_payload_for_probe, interpret_hook_output,
};
pub use serve::{GuardSessionOpener, GuardSessionRequest, run_guard_daemon};
pub use table::{AgentHookCapabilities, AgentHookEffect, HookPointRow, hook_points_without_event};
