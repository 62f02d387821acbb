//! Subject of a call, as the operator's rules and a yes for the session see it: a command, or a file.
//!
//! A tool says it of its own calls. It must not know what is decided. Start from [`Subject`].

use super::command::{Command, MAX_COVER_BYTES};

/// Subject of a call, besides its tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// No subject: rules can only name the tool.
    #[default]
    Any,
    /// A command for a shell.
    Command(Command),
    /// A file of the workspace.
    File(WorkspacePath),
    /// A folder of the workspace with everything below it.
    Tree(WorkspacePath),
}

/// Path in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspacePath {
    /// The path from the workspace, without links and `..`; empty for the workspace itself.
    Known(String),
    /// The path is unknown, or outside.
    Unknown,
}

impl Subject {
    /// Returns the scope of a yes for the session, a text for each part. `tool` is its name.
    ///
    /// # Errors
    /// Reason why there is no such yes.
    pub fn covers(&self, tool: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Any => Ok(vec![format!("every call of {tool}")]),
            Self::Command(command) => command.covers(),
            Self::File(WorkspacePath::Known(path)) | Self::Tree(WorkspacePath::Known(path))
                if path.len() > MAX_COVER_BYTES =>
            {
                Err("its path is too long to be covered".to_owned())
            }
            Self::File(WorkspacePath::Known(path)) => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                Ok(vec![format!(
                    "{tool} in {}, not in folders below it",
                    folder_name(folder)
                )])
            }
            Self::Tree(WorkspacePath::Known(folder)) => Ok(vec![format!(
                "{tool} in {} and below it",
                folder_name(folder)
            )]),
            Self::File(WorkspacePath::Unknown) | Self::Tree(WorkspacePath::Unknown) => {
                Err("the target of this path is unknown".to_owned())
            }
        }
    }
}

fn folder_name(folder: &str) -> String {
    if folder.is_empty() {
        "the workspace's own folder".to_owned()
    } else {
        format!("{folder}/")
    }
}
