//! Errors that prevent a test case from running.

use std::io;

use rind_lib::host::{self, LoopRunError, PluginCommandError};
use rind_lib::plugin;

/// Error that prevents a test case from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A directory or file of the case cannot be created.
    #[error("cannot make the workspace of the case: {0}")]
    Io(#[from] io::Error),
    /// The path of a file in the case points outside the workspace.
    #[error("given.files: `{0}` is not a path inside the workspace")]
    Outside(String),
    /// A fixture cannot be copied.
    #[error("given.fixtures: `{path}` in `tests`: {source}")]
    Fixture {
        /// Path relative to the directory `tests`.
        path: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A payload does not have the type that its extension point requires.
    #[error("given.event: the payload of `{point}`: {message}")]
    Event {
        /// Name of the point.
        point: String,
        /// Description of the fault in the payload.
        message: String,
    },
    /// A value cannot be stored.
    #[error("given.store: `{key}`: {message}")]
    Store {
        /// Key of the value.
        key: String,
        /// Reason why the value cannot be stored.
        message: String,
    },
    /// A value cannot be put into the session state.
    #[error("given.state: `{key}`: {message}")]
    State {
        /// Key of the value.
        key: String,
        /// Reason why the value cannot be stored.
        message: String,
    },
    /// The skill of the case cannot be used.
    #[error("the skill cannot be used: {0}")]
    Skill(String),
    /// The commands of the case cannot be confined.
    #[error("commands cannot be confined: {0}")]
    Commands(String),
    /// The plugin of the case, or a plugin that it needs, cannot be loaded.
    #[error("the plugin cannot be loaded: {0}")]
    NotLoaded(String),
    /// The host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The host cannot be created.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] rind_lib::session::Error),
    /// The command of the case cannot be called.
    #[error("given.command: {0}")]
    Command(#[from] PluginCommandError),
    /// The loop of the case cannot be run.
    #[error("given.loop: {0}")]
    Loop(#[from] LoopRunError),
    /// The turn failed.
    #[error(transparent)]
    Agent(#[from] rind_lib::agent::Error),
}
