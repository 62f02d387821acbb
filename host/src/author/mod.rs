//! Builds plugins: from a folder with source to a folder that Rind loads.
//!
//! It must not know sessions or agents. Start from [`build::build`].

mod assemble;
pub mod build;
mod cargo_config;
mod compilation;
mod embedded;
mod error;
mod folder;
mod interpreted;
mod javascript;
mod lent;
pub mod new;
mod python;
mod rust;
mod sources;
mod target;
mod toolchain;
mod world;

#[cfg(feature = "cli")]
pub(crate) use embedded::interface_docs;
pub use error::BuildError;
pub use sources::sources;
pub use toolchain::has_target;

/// The target that plugins in Rust are compiled to.
pub const TARGET: &str = target::TARGET;
