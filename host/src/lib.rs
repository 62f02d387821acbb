//! The library of Rind, an agent host. Programs use it through the crate `rind`, whose first page
//! says how.
//!
//! Modules are listed in layers, in reading order. Each may use those above its layer and none
//! below; a test holds the order. Items that are hidden from these pages are public for the tests
//! of this repository, and may change in any release.

// Data: no async, no network, no WebAssembly.
pub(crate) mod beneath;
pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod front_matter;
pub(crate) mod git;
#[doc(hidden)]
pub mod json;
pub(crate) mod lock;
#[macro_use]
pub(crate) mod macros;
pub mod message;
pub mod paths;
#[doc(hidden)]
pub mod text;
pub(crate) mod tokens;

// Where plugins act.
pub mod point;

// Permissions of plugins, and secrets that must not leave.
pub mod grant;
#[doc(hidden)]
pub mod secret;

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

// Skills.
pub mod skill;

// Network access of plugins.
pub mod egress;

// Prompts and context files.
pub(crate) mod prompt;

// Export of traces.
#[cfg(feature = "otel")]
pub mod telemetry;

// The agent loop, the sandbox.
pub mod agent;
pub mod plugin;

// Programs of the operator as hooks.
pub mod script;

// Builds of plugins.
#[doc(hidden)]
pub mod author;

// Packed and installed plugins, installed skills.
#[cfg(feature = "cli")]
pub(crate) mod package;

// The host, which puts the parts together.
pub mod host;

// Loops of plugins, which run side by side.
pub mod loops;

// Rules of the operator, from the settings of a run to its host.
#[cfg(feature = "cli")]
pub mod operator;

// Checks and tests of plugins for their authors.
#[cfg(feature = "cases")]
#[doc(hidden)]
pub mod cases;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod check;

// Skills that are derived from packages.
#[cfg(feature = "cli")]
pub(crate) mod derive;

// The command line.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use host::{Host, PluginFolders, Session};
