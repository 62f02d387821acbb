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
    /// A fixture of the case cannot be copied into the workspace.
    #[error("given.fixtures: `{path}` in `tests`: {source}")]
    Fixture {
        /// Path of the fixture, relative to the directory `tests`.
        path: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A payload does not have the type that its extension point requires.
    #[error("given.event: the payload of `{point}`: {message}")]
    Event {
        /// Name of the extension point.
        point: String,
        /// Description of the fault in the payload.
        message: String,
    },
    /// A value in `given.store` cannot be put into the plugin's store.
    #[error("given.store: `{key}`: {message}")]
    Store {
        /// Key of the value in the plugin's store.
        key: String,
        /// Reason why the value cannot be stored.
        message: String,
    },
    /// A value in `given.state` cannot be put into the session state.
    #[error("given.state: `{key}`: {message}")]
    State {
        /// Key of the value in the session state.
        key: String,
        /// Reason why the value cannot be put into the session state.
        message: String,
    },
    /// The tested skill cannot be used; the text gives the reason.
    #[error("the skill cannot be used: {0}")]
    Skill(String),
    /// The shell commands of the case cannot be confined; the text gives the reason.
    #[error("commands cannot be confined: {0}")]
    Commands(String),
    /// The plugin of the case, or a plugin that it needs, cannot be loaded.
    #[error("the plugin cannot be loaded: {0}")]
    NotLoaded(String),
    /// The host's loader of plugins failed.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The host that runs the case cannot be created.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The session in which the case runs failed.
    #[error(transparent)]
    Session(#[from] rind_lib::session::Error),
    /// The slash command in `given.command` cannot be called.
    #[error("given.command: {0}")]
    Command(#[from] PluginCommandError),
    /// The loop in `given.loop` cannot be run.
    #[error("given.loop: {0}")]
    Loop(#[from] LoopRunError),
    /// The turn of the case failed.
    #[error(transparent)]
    Agent(#[from] rind_lib::agent::Error),
}
