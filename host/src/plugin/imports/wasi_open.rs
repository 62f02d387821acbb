//! Opens files and directories for WASI, and charges writes through open handles to the quota.
//!
//! Quotas apply to the `data` directory only; the workspace belongs to the user and is not counted.

use std::io;
use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags};
use wasmtime_wasi::p2::{DynOutputStream, FsError, FsResult};

use super::super::host::HostState;
use super::files::run_blocking;
use super::wasi_place::{Fd, Need, PlaceFailure, PlaceHandle, folder_permissions};
use super::wasi_streams::FileStream;
use crate::folder::{FolderBase, FolderError, FolderUsage, OpenOptions, OpenedNode};

/// Maximum number of directory entries that a guest lists at the same time, over all directories:
/// wasmtime keeps them in memory.
const MAX_LISTED: usize = 200_000;

fn open_options(open: OpenFlags, flags: DescriptorFlags) -> Result<OpenOptions, PlaceFailure> {
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(PlaceFailure::Theirs(ErrorCode::Unsupported.into()));
    }
    let how = OpenOptions {
        read: flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE),
        write: flags.contains(DescriptorFlags::WRITE),
        create: open.contains(OpenFlags::CREATE),
        exclusive: open.contains(OpenFlags::EXCLUSIVE),
        truncate: open.contains(OpenFlags::TRUNCATE),
        folder: open.contains(OpenFlags::DIRECTORY),
        // In WASI, appending is a property of the stream and not of the open flags.
        append: false,
    };
    if how.folder && (how.create || how.exclusive || how.truncate) {
        return Err(PlaceFailure::Theirs(ErrorCode::Invalid.into()));
    }
    Ok(how)
}

impl HostState {
    /// Opens the target of a path with the rules of [`crate::folder`]: opening never blocks on a
    /// pipe, and new files are charged to the quota.
    pub(super) async fn open_place(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Fd, PlaceFailure> {
        let how = open_options(open, flags)?;
        self.handles.check_room()?;
        let place = self.resolve_fd_path(fd, path, follow, Need::Read).await?;
        let (place, opened) = run_blocking(move || {
            let opened = place.open_node(how)?;
            Ok((place, opened))
        })
        .await?;
        let OpenedNode { file, is_folder } = opened;
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, how.read);
        mode.set(OpenMode::WRITE, how.write || how.create || how.truncate);
        let perms = folder_permissions(place.access());
        let grant = self.handles.known.get(&fd.rep());
        let grant = match grant.and_then(|handle| handle.base.as_ref()) {
            Some(FolderBase::Granted(grant) | FolderBase::Below { grant, .. }) => Some(*grant),
            Some(FolderBase::Nowhere) | None => None,
        };
        let (descriptor, base) = if is_folder {
            let dir = Dir::new(file, perms, mode, false);
            self.handles.note_opened(&dir.dir);
            let below = grant.map(|grant| FolderBase::Below {
                grant,
                names: place.names().to_vec(),
                folder: dir.dir.clone(),
            });
            // The empty directory contains nothing, so the only directory that can be opened below
            // it is the empty directory itself.
            let base = below.unwrap_or(FolderBase::Nowhere);
            (Descriptor::Dir(dir), Some(base))
        } else {
            let file = File::new(file, perms, mode, false);
            self.handles.note_opened(&file.file);
            if let Some(usage) = place.usage() {
                usage.note_opened(&file.file);
            }
            (Descriptor::File(file), None)
        };
        let handle = PlaceHandle {
            shown: place.to_string(),
            base,
            usage: place.usage().cloned(),
        };
        let fd = self
            .filesystem()
            .table
            .push(descriptor)
            .map_err(FsError::from)?;
        self.handles.known.insert(fd.rep(), handle);
        Ok(fd)
    }

    pub(super) fn opened_file(&mut self, fd: &Fd) -> Option<Arc<std::fs::File>> {
        match self.filesystem().table.get(fd) {
            Ok(Descriptor::File(file)) => Some(file.file.clone()),
            _ => None,
        }
    }

    /// Returns the size of an open file in bytes; 0 for a directory.
    pub(super) fn file_length(&mut self, fd: &Fd) -> Result<u64, FolderError> {
        match self.opened_file(fd) {
            Some(file) => Ok(file.metadata()?.len()),
            None => Ok(0),
        }
    }

    /// Returns the quota to which writes to an open file are charged.
    fn folder_usage(&self, fd: &Fd) -> Option<Arc<FolderUsage>> {
        self.handles.known.get(&fd.rep())?.usage.clone()
    }

    /// Marks an open file as being written to until the returned guard is dropped; `None` if the
    /// size of the file is not charged to a quota.
    pub(super) fn begin_writing(&mut self, fd: &Fd) -> Option<Arc<()>> {
        self.folder_usage(fd)?
            .begin_writing(&*self.opened_file(fd)?)
    }

    /// Charges the expected growth of an open file to the quota, if one applies. Returns the quota
    /// and the charged bytes, so that the caller can credit them if the file does not grow.
    pub(super) fn charge_growth(
        &mut self,
        fd: &Fd,
        grows: impl FnOnce(&std::fs::File) -> io::Result<u64>,
    ) -> Result<Option<(Arc<FolderUsage>, u64)>, FolderError> {
        let (Some(usage), Some(file)) = (self.folder_usage(fd), self.opened_file(fd)) else {
            return Ok(None);
        };
        let bytes = grows(&file)?;
        usage.grow_usage(bytes)?;
        Ok(Some((usage, bytes)))
    }

    /// Wraps an output stream of wasmtime so that each write is charged to the quota first.
    pub(super) fn charged_stream(
        &mut self,
        stream: Resource<DynOutputStream>,
        fd: u32,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let fd: Fd = Resource::new_borrow(fd);
        let Some(file) = self.opened_file(&fd) else {
            return Ok(stream);
        };
        let inner = self.filesystem().table.delete(stream)?;
        let stream: DynOutputStream = Box::new(FileStream {
            inner,
            file,
            position,
            usage: self.folder_usage(&fd),
            writing: None,
            access_log: self.access_log(),
            target: format!("write {}", self.shown_path(&fd)),
        });
        Ok(self.filesystem().table.push(stream)?)
    }

    /// Counts the entries of a directory before wasmtime reads all of them into memory; fails if
    /// the guest would list more than [`MAX_LISTED`] at the same time.
    pub(super) async fn n_entries(&mut self, fd: &Fd) -> Result<usize, FolderError> {
        let listed: usize = self.handles.listed.values().sum();
        let left = MAX_LISTED.saturating_sub(listed);
        let Ok(Descriptor::Dir(dir)) = self.filesystem().table.get(fd) else {
            return Ok(0);
        };
        let folder = dir.dir.clone();
        run_blocking(move || crate::folder::n_entries(&folder, left)).await
    }
}
