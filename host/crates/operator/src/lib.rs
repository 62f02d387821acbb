//! Applies the rules of the operator: creates a host from the settings of a run.
//!
//! A program resolves its arguments and environment once, into
//! [`ProgramRunSettings`](settings::ProgramRunSettings) and an
//! [`OperatorEnvironment`](environment::OperatorEnvironment). From these, the crate reads the
//! operator's files, decides on trust, policy, secrets and confinement, loads the plugins, and
//! creates the host. It knows no command line and no terminal: it asks questions through traits
//! that the program implements, shows warnings with a function of the program, and does not read
//! the process environment.

pub mod chat;
pub mod component;
pub mod confinement;
pub mod environment;
mod git_settings;
pub mod grants;
pub mod host;
pub mod keys;
pub mod load;
pub mod machine;
pub mod managed;
pub mod mcp;
pub mod misplaced;
pub mod model;
mod no_model;
pub mod other_agents;
pub mod overlooked;
pub mod plugin_flags;
pub mod plugin_set;
pub mod project;
pub mod project_commands;
pub mod project_hooks;
pub mod project_servers;
pub mod scripts;
pub mod secrets;
pub mod settings;
pub mod setup;
pub mod skills;
pub mod start;
pub mod usage;
