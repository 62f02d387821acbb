//! `list_files`: lists files and directories of the workspace.

use std::ops::ControlFlow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::subject::Subject;
use super::super::walk::{
    MAX_WALK_DEPTH, WalkEndReason, WalkEntryKind, WorkspaceFileGlob, walk_workspace,
};
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{SharedTool, ToolOutput};
use super::{FileToolCall, build_file_tool, omit_changed_file_description};
use crate::message::EffectClass;

/// Maximum number of entries in one answer.
const MAX_LISTED_ENTRIES: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Folder to list, relative to the workspace. Default: the workspace itself.
    #[serde(default)]
    path: Option<String>,
    /// Number of levels of folders to list. Default: 1, or all of them when a glob is given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 64))]
    depth: Option<u32>,
    /// List only files that match, such as `*.rs` or `src/**/*.toml`. Without a slash it matches the name in any folder.
    #[serde(default)]
    glob: Option<String>,
}

pub(super) fn list_files_tool(workspace: &Arc<Workspace>) -> SharedTool {
    Arc::new(build_file_tool(
        "list_files",
        "Lists files and folders of the workspace, sorted, one path a line. Folders end in `/`, links in `@`. What \
                 .gitignore leaves out is left out.",
        EffectClass::Read,
        Subject::Tree,
        workspace,
        list_files,
        omit_changed_file_description,
    ))
}

fn list_files(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let glob = match asked
        .glob
        .as_deref()
        .map(WorkspaceFileGlob::new)
        .transpose()
    {
        Ok(glob) => glob,
        Err(why) => return Ok(ToolOutput::from_error_content(why)),
    };
    let start = workspace.resolve_existing_folder(asked.path.as_deref().unwrap_or("."))?;
    let depth = asked
        .depth
        .unwrap_or(if glob.is_some() { MAX_WALK_DEPTH } else { 1 });
    let mut text = String::new();
    let mut n_entries = 0;
    let end = walk_workspace(
        workspace,
        &start,
        depth,
        &call.cancel,
        &mut |_, path, kind| {
            let is_asked = match &glob {
                Some(glob) => kind != WalkEntryKind::Folder && glob.is_match(path, &start),
                None => true,
            };
            if is_asked {
                n_entries += 1;
                if n_entries <= MAX_LISTED_ENTRIES {
                    text.push_str(&path.to_string_lossy());
                    text.push_str(match kind {
                        WalkEntryKind::Folder => "/\n",
                        WalkEntryKind::Link => "@\n",
                        WalkEntryKind::File | WalkEntryKind::Other => "\n",
                    });
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    if n_entries > MAX_LISTED_ENTRIES {
        let n_more = n_entries - MAX_LISTED_ENTRIES;
        text.push_str(&format!(
            "[{n_more} more; list a folder or use a glob to see them]\n"
        ));
    }
    if end == WalkEndReason::TooMany {
        text.push_str(
            "[the workspace has more files than are looked at; list a folder within it]\n",
        );
    }
    if text.is_empty() {
        text.push_str("[nothing there]");
    }
    Ok(ToolOutput::ok(text))
}
