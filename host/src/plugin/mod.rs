//! Loads plugins and runs them with wasmtime. No other module runs WebAssembly.
//!
//! [`manifest`] reads `plugin.toml`; [`contract`] lists the supported versions of the contract;
//! [`engine`], [`compile`] and `cache` turn bytes into native code; [`authority`] decides whether
//! the declared side effects and the grants cover a component's imports and exports; [`load`]
//! visits every plugin directory, and `loader` loads one plugin and links it with its grants;
//! `imports` are the host's interfaces; `instance` keeps one warm instance per plugin and session;
//! `hooks` and `tools` adapt exports to ordinary hooks and tools, and all text of a guest passes
//! through `sanitize`. The session is reachable only through [`crate::point::handle::AgentHandle`].
//!
//! Start from [`load::FoundPluginSet::load`].

mod access_log;
mod agent_loop;
mod astray;
#[doc(hidden)]
pub mod authority;
mod bindings;
#[doc(hidden)]
pub mod cache;
mod code_digest;
pub mod commands;
pub mod compile;
pub mod component;
#[doc(hidden)]
pub mod contract;
mod convert;
mod depend;
pub mod discover;
#[doc(hidden)]
pub mod engine;
mod engine_config;
pub mod error;
mod exports;
mod files;
#[doc(hidden)]
pub mod fixed;
#[doc(hidden)]
pub mod foreign;
mod function_store;
mod hooks;
mod host;
mod imports;
#[doc(hidden)]
pub mod inspect;
pub mod installed;
mod instance;
#[doc(hidden)]
pub mod limits;
pub mod load;
mod loader;
pub mod loops;
pub mod manifest;
#[doc(hidden)]
pub mod meter;
mod nesting;
#[doc(hidden)]
pub mod open;
#[doc(hidden)]
pub mod point_use;
pub mod precompiled;
#[doc(hidden)]
pub mod prompts;
#[doc(hidden)]
pub mod protected;
pub mod relied;
mod required;
mod sanitize;
mod settings;
pub mod startable;
mod stderr;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod surface;
#[doc(hidden)]
pub mod tools;
#[doc(hidden)]
pub mod trial;

pub use error::Error;
