//! Subject of a call, as operator rules and "always" answers see it: a command or a file.
//!
//! Each tool reports the subject of its own calls. This module must not know how calls are decided.
//! Start from [`Subject`].

use super::command::{Command, MAX_COVER_BYTES};

/// Command, file or directory that a call is about. Rules match it in addition to the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// No subject: rules can only match the tool.
    #[default]
    Any,
    /// Shell command that the call runs.
    Command(Command),
    /// File of the workspace that the call is about.
    File(WorkspacePath),
    /// A directory of the workspace with everything below it.
    Tree(WorkspacePath),
}

/// Path of a call, resolved relative to the workspace if possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspacePath {
    /// Path relative to the workspace, with symlinks and `..` resolved; empty for the workspace
    /// itself.
    Known(String),
    /// The path cannot be resolved, or is outside the workspace.
    Unknown,
}

impl Subject {
    /// Returns the scope of an "always" answer, one text for each part. `tool` is the name of the
    /// tool.
    ///
    /// For example:
    ///
    /// ```text
    /// Any, tool bash                       every call of bash
    /// File("src/a.rs"), tool write_file    write_file in src/, not in folders below it
    /// Tree("src"), tool search             search in src/ and below it
    /// ```
    ///
    /// # Errors
    /// Reason why no "always" answer is possible.
    pub fn session_approval_scopes(&self, tool: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Any => Ok(vec![format!("every call of {tool}")]),
            Self::Command(command) => command.session_approval_scopes(),
            Self::File(WorkspacePath::Known(path)) | Self::Tree(WorkspacePath::Known(path))
                if path.len() > MAX_COVER_BYTES =>
            {
                Err("the path is too long for an `always` answer".to_owned())
            }
            Self::File(WorkspacePath::Known(path)) => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                Ok(vec![format!(
                    "{tool} in {}, not in folders below it",
                    format_workspace_folder_name(folder)
                )])
            }
            Self::Tree(WorkspacePath::Known(folder)) => Ok(vec![format!(
                "{tool} in {} and below it",
                format_workspace_folder_name(folder)
            )]),
            Self::File(WorkspacePath::Unknown) | Self::Tree(WorkspacePath::Unknown) => {
                Err("the target of this path is unknown".to_owned())
            }
        }
    }
}

fn format_workspace_folder_name(folder: &str) -> String {
    if folder.is_empty() {
        "the workspace's own folder".to_owned()
    } else {
        format!("{folder}/")
    }
}
