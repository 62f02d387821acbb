//! Functions for files, time, text and secrets, which all crates of Rind, an agent host, use.
//!
//! Nothing here knows agents, plugins or the network. Each module can be read alone.

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
