//! Refusals of writes to files that the model does not know, with advice for the model.

use super::super::known::FileWriteRefusal;
use super::super::subject::WorkspacePath;
use super::super::workspace::Workspace;

/// Maximum size, in bytes, of a file whose content is compared to find out whether the file has
/// changed; of a larger file, the attributes are compared. Also the maximum size for edits.
pub(super) const MAX_COMPARED_FILE_BYTES: u64 = 8 << 20;

/// Returns the key of a file in `FilesSeenByModel`: its path with symlinks resolved, so that each
/// file has one key.
pub(super) fn canonical_file_key(workspace: &Workspace, path: &str) -> String {
    match workspace.resolve_path(path) {
        WorkspacePath::Known(place) => place,
        WorkspacePath::Unknown => path.to_owned(),
    }
}

/// Formats the reason why a file is not written, with advice.
pub(super) fn format_write_refusal(path: &str, why: FileWriteRefusal) -> String {
    match why {
        FileWriteRefusal::Unread => format!(
            "`{path}` is not written: it exists, and you have not read it since this session was opened. Read it with read_file \
             first, or change a part of it with edit_file"
        ),
        FileWriteRefusal::Changed => format!(
            "`{path}` is not written: it changed since you last read or wrote it, by a person, a command or another agent. Read it \
             again with read_file, and make the change in what is there now"
        ),
        FileWriteRefusal::Partly => format!(
            "`{path}` is not written: the conversation does not have all of its text (only a part was read, or a result was cut, \
             masked or compacted). Read the whole file with read_file first, or change a part of it with edit_file"
        ),
        FileWriteRefusal::SameStep => format!(
            "`{path}` is not written: it was read in the same step, so this content was made without knowing it. You have the \
             text now; call again with what should be in the file"
        ),
    }
}
