//! Rind: an agent host. It owns the agent loop; everything that is opinion lives in plugins, which are sandboxed
//! WebAssembly components.
//!
//! Modules stand in layers, in reading order. Each may use those above its layer and none below; a test holds the order.

// Data: no async, no network, no WebAssembly.
pub mod clock;
pub mod disk;
pub mod git;
pub mod json;
pub mod message;
pub mod paths;
pub mod text;
pub mod tokens;

// Whether a log of what happened is whole.
pub mod audit;

// Where plugins act.
pub mod point;

// What they may touch, and what must not get out.
pub mod grant;
pub mod secret;

// What is said of it, and how it is set.
pub mod config;
pub mod event;

// What a turn is made of.
pub mod folder;
pub mod price;
pub mod provider;
pub mod session;
pub mod tool;

// How plugins reach the network.
pub mod egress;

// What the model is told.
pub mod prompt;

// Where it is told of.
#[cfg(feature = "otel")]
pub mod telemetry;

// What runs it.
pub mod agent;
pub mod author;
pub mod plugin;

// What puts it together.
pub mod host;

// What people use.
pub mod cli;

pub use host::{Host, PluginFolders, Session};
