//! Rind: an agent host. It owns the agent loop; everything that is opinion lives in plugins, which are sandboxed
//! WebAssembly components.
//!
//! Modules in reading order. Each may use those above it and none below; a test holds the order.

pub mod clock;
pub mod message;
pub mod paths;
pub mod point;

pub mod config;
pub mod event;

pub mod provider;
pub mod session;

pub mod prompt;
pub mod tool;

pub mod agent;
pub mod author;
