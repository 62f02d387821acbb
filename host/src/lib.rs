//! The library of Rind, an agent host. Programs use it through the crate `rind`, whose first page
//! explains how. The outer layers, up to the command line, are the crates in `host/crates`.
//!
//! Modules are declared in layers, in reading order. A module may use the modules of the layers
//! listed before its own and none of those listed after; a test checks this. Items that are hidden
//! from these pages are public only for the tests of this repository, and may change in any
//! release.

// Layer of data types: no async, no network, no WebAssembly. Most of it is in the crate
// `rind-base`.
#[macro_use]
pub(crate) mod macros;
pub mod message;
#[cfg(test)]
pub(crate) mod table;
pub use rind_base::paths;
#[doc(hidden)]
pub use rind_base::{
    beneath, clock, disk, front_matter, git, json, lock, near, rank, secret, text, tokens,
};

// Extension points, at which plugins act.
pub mod point;

// Permissions of plugins.
pub mod grant;

// Settings and events.
pub mod config;
pub mod event;

// Profiles of models.
pub mod model;

// Parts of a turn.
#[doc(hidden)]
pub mod folder;
pub mod price;
pub mod provider;
pub mod session;
pub mod tool;

// Checkpoints: copies of files as they were before tool calls changed them.
pub mod checkpoint;

// Skills.
pub mod skill;

// Network access of plugins.
pub mod egress;

// Prompts and context files.
#[doc(hidden)]
pub mod prompt;

// The agent loop and the sandbox of plugins.
pub mod agent;
pub mod plugin;

// Hooks that are programs of the operator instead of plugins.
pub mod script;

// The host, which combines the modules above.
pub mod host;

// The loops of plugins. They run concurrently with each other.
pub mod loops;

pub use host::{Host, PluginFolders, Session};
