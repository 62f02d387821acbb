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
use super::files::run_on_blocking_pool;
use super::wasi_place::{
    Fd, GuestFileError, GuestFileHandle, PathOperation, wasi_folder_permissions,
};
use super::wasi_streams::QuotaFileOutputStream;
use crate::folder::{
    DataFolderUsage, FolderError, FolderOpenOptions, OpenedFileOrFolder, PathBaseFolder,
};

/// Maximum number of entries in all directories that a guest lists at the same time, because
/// wasmtime keeps these entries in memory.
const MAX_LISTED_FOLDER_ENTRIES: usize = 200_000;

fn convert_open_flags(
    open: OpenFlags,
    flags: DescriptorFlags,
) -> Result<FolderOpenOptions, GuestFileError> {
    let synchronous = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synchronous) {
        return Err(GuestFileError::Theirs(ErrorCode::Unsupported.into()));
    }
    let how = FolderOpenOptions {
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
        return Err(GuestFileError::Theirs(ErrorCode::Invalid.into()));
    }
    Ok(how)
}

impl HostState {
    /// Opens the target of a path with the rules of [`crate::folder`]: opening never blocks on a
    /// pipe, and new files are counted toward the quota.
    pub(super) async fn open_guest_path(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Fd, GuestFileError> {
        let how = convert_open_flags(open, flags)?;
        self.handles.check_open_limit()?;
        let place = self
            .resolve_fd_path(fd, path, follow, PathOperation::Read)
            .await?;
        let (place, opened) = run_on_blocking_pool(move || {
            let opened = place.open_file_or_folder(how)?;
            Ok((place, opened))
        })
        .await?;
        let OpenedFileOrFolder { file, is_folder } = opened;
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, how.read);
        mode.set(OpenMode::WRITE, how.write || how.create || how.truncate);
        let perms = wasi_folder_permissions(place.allowed_access());
        let grant = self.handles.known.get(&fd.rep());
        let grant = match grant.and_then(|handle| handle.base.as_ref()) {
            Some(PathBaseFolder::Granted(grant) | PathBaseFolder::Below { grant, .. }) => {
                Some(*grant)
            }
            Some(PathBaseFolder::Nowhere) | None => None,
        };
        let (descriptor, base) = if is_folder {
            let dir = Dir::new(file, perms, mode, false);
            self.handles.track_open_file(&dir.dir);
            let below = grant.map(|grant| PathBaseFolder::Below {
                grant,
                names: place.path_components().to_vec(),
                folder: dir.dir.clone(),
            });
            // `below` is `None` only for the empty directory, which replaces a directory that
            // cannot be opened; below it only that directory itself can be opened.
            let base = below.unwrap_or(PathBaseFolder::Nowhere);
            (Descriptor::Dir(dir), Some(base))
        } else {
            let file = File::new(file, perms, mode, false);
            self.handles.track_open_file(&file.file);
            if let Some(usage) = place.data_folder_usage_counter() {
                usage.register_open_file(&file.file);
            }
            (Descriptor::File(file), None)
        };
        let handle = GuestFileHandle {
            shown: place.to_string(),
            base,
            usage: place.data_folder_usage_counter().cloned(),
        };
        let fd = self
            .filesystem()
            .table
            .push(descriptor)
            .map_err(FsError::from)?;
        self.handles.known.insert(fd.rep(), handle);
        Ok(fd)
    }

    pub(super) fn find_open_file(&mut self, fd: &Fd) -> Option<Arc<std::fs::File>> {
        match self.filesystem().table.get(fd) {
            Ok(Descriptor::File(file)) => Some(file.file.clone()),
            _ => None,
        }
    }

    /// Returns the size of an open file in bytes; 0 for a directory.
    pub(super) fn file_length(&mut self, fd: &Fd) -> Result<u64, FolderError> {
        match self.find_open_file(fd) {
            Some(file) => Ok(file.metadata()?.len()),
            None => Ok(0),
        }
    }

    /// Returns the quota to which writes to an open file are charged.
    fn quota_of_open_file(&self, fd: &Fd) -> Option<Arc<DataFolderUsage>> {
        self.handles.known.get(&fd.rep())?.usage.clone()
    }

    /// Marks an open file as being written to until the returned guard is dropped; `None` if the
    /// size of the file is not charged to a quota.
    pub(super) fn register_open_file_write(&mut self, fd: &Fd) -> Option<Arc<()>> {
        self.quota_of_open_file(fd)?
            .register_write_in_progress(&*self.find_open_file(fd)?)
    }

    /// Adds the expected growth of an open file to the usage that the quota counts, if a quota
    /// applies. Returns that usage and the added bytes, so that the caller can subtract them if the
    /// file does not grow.
    pub(super) fn charge_file_growth(
        &mut self,
        fd: &Fd,
        grows: impl FnOnce(&std::fs::File) -> io::Result<u64>,
    ) -> Result<Option<(Arc<DataFolderUsage>, u64)>, FolderError> {
        let (Some(usage), Some(file)) = (self.quota_of_open_file(fd), self.find_open_file(fd))
        else {
            return Ok(None);
        };
        let bytes = grows(&file)?;
        usage.charge_open_file_growth(bytes)?;
        Ok(Some((usage, bytes)))
    }

    /// Wraps an output stream of wasmtime so that each write is first charged to the plugin's
    /// storage quota.
    pub(super) fn wrap_stream_with_quota(
        &mut self,
        stream: Resource<DynOutputStream>,
        fd: u32,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let fd: Fd = Resource::new_borrow(fd);
        let Some(file) = self.find_open_file(&fd) else {
            return Ok(stream);
        };
        let inner = self.filesystem().table.delete(stream)?;
        let stream: DynOutputStream = Box::new(QuotaFileOutputStream {
            inner,
            file,
            position,
            usage: self.quota_of_open_file(&fd),
            writing: None,
            access_log: self.access_log(),
            target: format!("write {}", self.display_path(&fd)),
        });
        Ok(self.filesystem().table.push(stream)?)
    }

    /// Counts the entries of a directory before wasmtime reads all of them into memory; fails if
    /// the guest would list more than [`MAX_LISTED_FOLDER_ENTRIES`] at the same time.
    pub(super) async fn count_listed_entries(&mut self, fd: &Fd) -> Result<usize, FolderError> {
        let listed: usize = self.handles.listed.values().sum();
        let left = MAX_LISTED_FOLDER_ENTRIES.saturating_sub(listed);
        let Ok(Descriptor::Dir(dir)) = self.filesystem().table.get(fd) else {
            return Ok(0);
        };
        let folder = dir.dir.clone();
        run_on_blocking_pool(move || crate::folder::count_entries(&folder, left)).await
    }
}
