//! Builds plugins: from a folder with a crate to a folder that Rind loads.
//!
//! It must not know sessions or agents. Start from [`build::build`].

mod assemble;
pub mod build;
mod crates;
mod error;
mod toolchain;

pub use error::BuildError;
pub use toolchain::{TARGET, has_target};
