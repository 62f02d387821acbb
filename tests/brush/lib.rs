//! The host's reader of shell commands, compiled by itself.
#![allow(
    unused_imports,
    dead_code,
    unreachable_pub,
    reason = "it is a module of another crate, which uses the rest"
)]

/// The reader, at its place in the host.
#[path = "../../host/src/tool"]
pub mod tool {
    pub mod command;

    pub mod subject {
        //! The part of `tool::subject` that the reader needs.

        /// A path in a workspace.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum WorkspacePath {
            /// The path from the workspace.
            Known(String),
            /// The path is unknown, or outside.
            Unknown,
        }
    }
}
