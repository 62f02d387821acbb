//! `rind:plugin/files`: files in the granted folders, whole and by path.
//!
//! Linked for all: a component that does not declare `filesystem` and imports it is refused before it is linked, and every
//! call is judged by the folders that were granted.

use super::super::bindings::rind::plugin::files;
use super::super::host::HostState;
use crate::folder::{EntryKind, FolderError, GrantedFolders};
use crate::point::handle::HandleError;
use crate::point::trace::AccessOutcome;

/// Bytes up to which an append to the plugin's own files stays on the current thread, once its folder has been counted: it goes
/// to the disk that sessions are written to at every step, and changing the thread would take longer than the write.
const INLINE_BYTES: usize = 16 << 10;

impl files::Host for HostState {
    async fn read(
        &mut self,
        path: String,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, HandleError> {
        self.on_files("read", path, move |folders, path| {
            folders.read(path, offset, length)
        })
        .await
    }

    async fn write(&mut self, path: String, content: Vec<u8>) -> Result<(), HandleError> {
        self.on_files("write", path, move |folders, path| {
            folders.write(path, &content)
        })
        .await
    }

    async fn append(&mut self, path: String, content: Vec<u8>) -> Result<(), HandleError> {
        let folders = &self.backing.folders;
        if path.starts_with("data/") && content.len() <= INLINE_BYTES && folders.is_counted() {
            let result = folders.append(&path, &content);
            return self.answered("append", &path, result);
        }
        self.on_files("append", path, move |folders, path| {
            folders.append(path, &content)
        })
        .await
    }

    async fn list(&mut self, path: String) -> Result<Vec<files::Entry>, HandleError> {
        self.on_files("list", path, |folders, path| {
            let entries = folders.list(path)?.into_iter();
            let entry = |entry: crate::folder::Entry| files::Entry {
                name: entry.name,
                kind: match entry.kind {
                    EntryKind::File => files::Kind::File,
                    EntryKind::Folder => files::Kind::Folder,
                    EntryKind::Other => files::Kind::Other,
                },
                size: entry.size,
            };
            Ok(entries.map(entry).collect())
        })
        .await
    }

    async fn create_folder(&mut self, path: String) -> Result<(), HandleError> {
        self.on_files("create-folder", path, |folders, path| {
            folders.create_folder(path)
        })
        .await
    }

    async fn remove(&mut self, path: String) -> Result<(), HandleError> {
        self.on_files("remove", path, |folders, path| folders.remove(path))
            .await
    }
}

impl HostState {
    /// Does blocking work on files, and records when it did not work. A call that is cancelled leaves the work to end by
    /// itself: a file is then written whole or not at all.
    async fn on_files<T: Send + 'static>(
        &mut self,
        verb: &str,
        path: String,
        work: impl FnOnce(&GrantedFolders, &str) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, HandleError> {
        let folders = self.backing.folders.clone();
        let named = path.clone();
        let result = blocking(move || work(&folders, &named)).await;
        self.answered(verb, &path, result)
    }

    /// Leaves a record of what did not work.
    fn answered<T>(
        &self,
        verb: &str,
        path: &str,
        result: Result<T, FolderError>,
    ) -> Result<T, HandleError> {
        result.map_err(|error| {
            self.record_files(&format!("{verb} {path}"), &error);
            error_for_guest(path, &error)
        })
    }

    /// Leaves a record of an attempt that was refused or failed.
    pub(super) fn record_files(&self, target: &str, error: &FolderError) {
        let outcome = if error.is_refusal() {
            AccessOutcome::Denied
        } else {
            AccessOutcome::Failed
        };
        self.access_log().files(target, outcome, &error.to_string());
    }
}

/// Runs work on files off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FolderError> + Send + 'static,
) -> Result<T, FolderError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(FolderError::Host))
}

fn error_for_guest(path: &str, error: &FolderError) -> HandleError {
    let text = format!("`{}`: {error}", crate::text::clean(path, 256));
    match error {
        FolderError::Invalid(_) => HandleError::InvalidInput(text),
        FolderError::TooMuch(_) | FolderError::Full { .. } => HandleError::Limit(text),
        FolderError::Io(io) if io.kind() == std::io::ErrorKind::NotFound => {
            HandleError::NotFound(text)
        }
        error if error.is_refusal() => HandleError::Denied(text),
        _ => HandleError::Failed(text),
    }
}
