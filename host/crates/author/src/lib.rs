//! Builds plugins: from a directory with sources to a directory that Rind loads.
//!
//! This crate must not know sessions or agents. Start from [`build::build_plugins`].

mod assemble;
pub mod build;
mod cargo_config;
mod compilation;
mod embedded;
mod error;
mod folder;
mod guest;
mod interpreted;
mod javascript;
mod lent;
pub mod new;
mod python;
mod rust;
mod sdk;
mod shared;
mod source_map;
mod sources;
mod target;
mod toolchain;
mod world;

pub use embedded::contract_interface_docs;
pub use error::BuildError;
pub use sdk::missing_sdk_symlink_path;
pub use sources::find_plugin_source_folders;
pub use toolchain::has_wasm_target;

/// Compilation target of Rust plugins.
pub const PLUGIN_COMPILE_TARGET: &str = target::WASM_TARGET_TRIPLE;
