//! Plugins: the only folder that names wasmtime.
//!
//! [`manifest`] reads `plugin.toml`; [`contract`] says which versions of the contract are supported; [`engine`], [`compile`]
//! and `cache` turn bytes into native code; [`authority`] decides whether a component's imports and exports are covered;
//! [`load`] goes through every folder that is searched, and `loader` puts one plugin together with what it is granted;
//! `imports` are the host's interfaces; `instance` keeps one warm instance for each plugin and session; `hooks` and `tools`
//! make it look like any other hook or tool, and what it says leaves through `sanitize`. It reaches the session only through
//! [`crate::point::handle::AgentHandle`].
//!
//! Start from [`load::PluginSet::load`].

mod access_log;
mod astray;
#[doc(hidden)]
pub mod authority;
mod bindings;
pub(crate) mod cache;
pub mod commands;
pub mod compile;
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
pub(crate) mod foreign;
mod hooks;
mod host;
mod imports;
#[doc(hidden)]
pub mod inspect;
pub mod installed;
mod instance;
pub(crate) mod limits;
pub mod load;
mod loader;
pub mod loops;
pub mod manifest;
#[doc(hidden)]
pub mod meter;
mod nesting;
#[doc(hidden)]
pub mod open;
pub mod precompiled;
#[doc(hidden)]
pub mod prompts;
pub(crate) mod protected;
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
pub(crate) mod tools;
#[cfg(feature = "cli")]
pub(crate) mod trial;

pub use error::Error;
