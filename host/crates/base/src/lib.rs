//! Functions for files, time, text and secrets, which all crates of Rind, an agent host, use.
//!
//! No module here depends on agents, plugins or the network, and each can be understood without the
//! others.

pub mod beneath;
pub mod clock;
pub mod disk;
pub mod front_matter;
pub mod git;
pub mod json;
pub mod lock;
pub mod near;
pub mod paths;
pub mod rank;
pub mod secret;
pub mod text;
pub mod tokens;
