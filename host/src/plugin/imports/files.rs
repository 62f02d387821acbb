//! `rind:plugin/files`: whole-file access by path in the granted directories.
//!
//! Linked for every plugin: a component that imports this interface without declaring `filesystem`
//! is refused before linking, and each call checks the granted directories.

use std::sync::Arc;

use super::super::bindings::rind::plugin::files;
use super::super::host::HostState;
use crate::folder::{FolderEntryKind, FolderError, GrantedFolders};
use crate::point::handle::HostFunctionError;
use crate::point::trace::AccessOutcome;

/// Maximum size in bytes of an append to the plugin's own files that runs on the current thread,
/// not in the blocking pool. The append runs there only if the size of the directory is already
/// known. The session file on the same disk is written at every step anyway, and switching threads
/// would take longer than the write.
const MAX_INLINE_FILE_APPEND_BYTES: usize = 16 << 10;

impl files::Host for HostState {
    async fn read(
        &mut self,
        path: String,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, HostFunctionError> {
        self.run_blocking_file_operation("read", path, move |folders, path| {
            folders.read_file_range(path, offset, length)
        })
        .await
    }

    async fn write(&mut self, path: String, content: Vec<u8>) -> Result<(), HostFunctionError> {
        let content: Arc<[u8]> = content.into();
        let written = content.clone();
        let change = GuestPathOperation {
            verb: "write",
            content: Some(content),
            follows: true,
        };
        self.run_blocking_file_change(change, path, move |folders, path| {
            folders.write(path, &written)
        })
        .await
    }

    async fn append(&mut self, path: String, content: Vec<u8>) -> Result<(), HostFunctionError> {
        let folders = &self.backing.folders;
        if path.starts_with("data/")
            && content.len() <= MAX_INLINE_FILE_APPEND_BYTES
            && folders.is_data_usage_known()
        {
            let result = folders.append(&path, &content);
            return self.record_and_convert_error("append", &path, result);
        }
        self.run_blocking_file_change(
            GuestPathOperation::new("append", true),
            path,
            move |folders, path| folders.append(path, &content),
        )
        .await
    }

    async fn list(&mut self, path: String) -> Result<Vec<files::Entry>, HostFunctionError> {
        self.run_blocking_file_operation("list", path, |folders, path| {
            let entries = folders.list(path)?.into_iter();
            let entry = |entry: crate::folder::FolderEntry| files::Entry {
                name: entry.name,
                kind: match entry.kind {
                    FolderEntryKind::File => files::Kind::File,
                    FolderEntryKind::Folder => files::Kind::Folder,
                    FolderEntryKind::Other => files::Kind::Other,
                },
                size: entry.size,
            };
            Ok(entries.map(entry).collect())
        })
        .await
    }

    async fn create_folder(&mut self, path: String) -> Result<(), HostFunctionError> {
        self.run_blocking_file_change(
            GuestPathOperation::new(CREATE_FOLDER_OPERATION_NAME, true),
            path,
            |folders, path| folders.create_folder(path),
        )
        .await
    }

    async fn remove(&mut self, path: String) -> Result<(), HostFunctionError> {
        self.run_blocking_file_change(
            GuestPathOperation::new("remove", false),
            path,
            |folders, path| folders.remove_path(path),
        )
        .await
    }
}

/// Verb in access records for the creation of a folder and its missing parents.
const CREATE_FOLDER_OPERATION_NAME: &str = "create-folder";

/// Change that a plugin makes to the file or folder at a path.
struct GuestPathOperation {
    verb: &'static str,
    /// New content of the file; `None` if the content is not known before the operation.
    content: Option<Arc<[u8]>>,
    /// Whether a symlink at the end of the path is followed.
    follows: bool,
}

impl GuestPathOperation {
    fn new(verb: &'static str, follows: bool) -> Self {
        let content = None;
        Self {
            verb,
            content,
            follows,
        }
    }
}

impl HostState {
    /// Runs blocking work that changes a path. In the workspace, the previous state of the path is
    /// saved first.
    async fn run_blocking_file_change<T: Send + 'static>(
        &mut self,
        change: GuestPathOperation,
        path: String,
        work: impl FnOnce(&GrantedFolders, &str) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, HostFunctionError> {
        let backing = &self.backing;
        // Create no recorder for a plugin that can write only to its own folders: some such plugins
        // write in every hook.
        let recorder = backing.folders.can_change_workspace().then(|| {
            let handle = &backing.handle;
            handle.file_change_recorder(&backing.plugin, &self.call.caller)
        });
        let recorder = recorder.flatten();
        self.run_blocking_file_operation(change.verb, path, move |folders, path| {
            let begun = recorder.and_then(|recorder| {
                let makes_parents = change.verb == CREATE_FOLDER_OPERATION_NAME;
                let own = folders.resolve_workspace_path(path, change.follows, makes_parents)?;
                let record = recorder.begin_change(&own, change.content.as_deref())?;
                Some((recorder, record))
            });
            let result = work(folders, path);
            if let Some((recorder, record)) = begun {
                recorder.end_change(record, result.is_ok());
            }
            result
        })
        .await
    }

    /// Runs blocking file work and records failures. If the call is cancelled, the work still
    /// completes: a file is written completely or not at all.
    async fn run_blocking_file_operation<T: Send + 'static>(
        &mut self,
        verb: &str,
        path: String,
        work: impl FnOnce(&GrantedFolders, &str) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, HostFunctionError> {
        let folders = self.backing.folders.clone();
        let named = path.clone();
        let result = run_on_blocking_pool(move || work(&folders, &named)).await;
        self.record_and_convert_error(verb, &path, result)
    }

    /// Records the access if `result` is an error, and converts that error for the guest.
    pub(super) fn record_and_convert_error<T>(
        &self,
        verb: &str,
        path: &str,
        result: Result<T, FolderError>,
    ) -> Result<T, HostFunctionError> {
        result.map_err(|error| {
            self.record_file_access(&format!("{verb} {path}"), &error);
            convert_folder_error(path, &error)
        })
    }

    /// Records a file access of the plugin that was refused or that failed.
    pub(super) fn record_file_access(&self, target: &str, error: &FolderError) {
        let outcome = if error.is_refusal() {
            AccessOutcome::Denied
        } else {
            AccessOutcome::Failed
        };
        self.access_log()
            .record_failed_file_access(target, outcome, &error.to_string());
    }
}

/// Runs blocking operations on files on the thread pool for such work.
pub(super) async fn run_on_blocking_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FolderError> + Send + 'static,
) -> Result<T, FolderError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(FolderError::Host))
}

fn convert_folder_error(path: &str, error: &FolderError) -> HostFunctionError {
    let text = format!(
        "`{}`: {error}",
        crate::text::escape_and_truncate_line(path, 256)
    );
    match error {
        FolderError::Invalid(_) => HostFunctionError::InvalidInput(text),
        FolderError::TooMuch(_) | FolderError::Full { .. } => HostFunctionError::Limit(text),
        FolderError::Io(io) if io.kind() == std::io::ErrorKind::NotFound => {
            HostFunctionError::NotFound(text)
        }
        error if error.is_refusal() => HostFunctionError::Denied(text),
        _ => HostFunctionError::Failed(text),
    }
}
