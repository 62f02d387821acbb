//! The host's reader of shell commands, compiled as a crate of its own.
#![allow(
    unused_imports,
    dead_code,
    unreachable_pub,
    reason = "it is a module of another crate, which uses the rest"
)]

/// Source of the reader in the host crate.
#[path = "../../host/src/tool"]
pub mod tool {
    pub mod command;

    pub mod subject {
        //! The items of `tool::subject` that the reader uses.

        /// A path in a workspace.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum WorkspacePath {
            /// A path relative to the workspace.
            Known(String),
            /// A path that is unknown or outside the workspace.
            Unknown,
        }
    }
}
