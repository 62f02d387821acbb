//! State of the files to which WASI handles refer: the grant and the resolved path of each file.
//! Also records failed operations on these files.
//!
//! Every path is resolved to its real location and checked against the grant of that location
//! before wasmtime sees it, so that neither `..` nor a symlink leads out of a granted directory.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Weak};

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::{FsPerms, OpenMode};

use super::super::host::HostState;
use super::files::run_on_blocking_pool;
use crate::folder::{DataFolderUsage, FolderError, PathBaseFolder, ResolvedPath};
use crate::grant::{FolderAccess, GrantableFolder, RootFolderKind};
use crate::point::trace::AccessOutcome;

pub(super) type Fd = Resource<Descriptor>;

/// Maximum number of files and directories that an instance may hold open. Each uses a file
/// descriptor of the host process, and many systems allow a process only 1024.
const MAX_OPEN_FILES_AND_FOLDERS: usize = 128;

#[derive(Default)]
pub(in super::super) struct GuestFileHandles {
    /// Open handles of the guest, by resource number.
    pub(super) known: HashMap<u32, GuestFileHandle>,
    /// Number of entries in each directory that is being listed, by the resource number of the
    /// listing.
    pub(super) listed: HashMap<u32, usize>,
    /// Open files. Weak references, because a stream keeps its file open after the handle is
    /// closed.
    open: Vec<Weak<File>>,
}

#[derive(Clone)]
pub(super) struct GuestFileHandle {
    /// Name of the file or directory that access records show.
    pub(super) shown: String,
    /// Base for paths relative to this handle; `None` for a file.
    pub(super) base: Option<PathBaseFolder>,
    /// Counter of the data directory's usage, to which writes are charged; `None` elsewhere.
    pub(super) usage: Option<Arc<DataFolderUsage>>,
}

/// Operation that a guest wants to perform on a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PathOperation {
    Read,
    /// Changes an existing file.
    Write,
    /// Creates a file, directory or link.
    Add,
    /// Removes a file, directory or link.
    Remove,
}

/// Error of an operation, either from the host's checks or from wasmtime.
pub(super) enum GuestFileError {
    Ours(FolderError),
    Theirs(FsError),
}

impl From<FolderError> for GuestFileError {
    fn from(error: FolderError) -> Self {
        Self::Ours(error)
    }
}

impl From<FsError> for GuestFileError {
    fn from(error: FsError) -> Self {
        Self::Theirs(error)
    }
}

/// Converts an error into an error code for the guest.
pub(super) fn folder_error_code(error: FolderError) -> ErrorCode {
    match error {
        FolderError::Invalid(_) => ErrorCode::Invalid,
        FolderError::NotGranted
        | FolderError::Escape
        | FolderError::ReadOnly
        | FolderError::Reserved
        | FolderError::Protected { .. }
        | FolderError::Special => ErrorCode::NotPermitted,
        FolderError::GrantedFile { .. } => ErrorCode::NotDirectory,
        FolderError::Crosses => ErrorCode::CrossDevice,
        FolderError::Loop => ErrorCode::Loop,
        FolderError::TooMuch(_) => ErrorCode::InsufficientMemory,
        FolderError::Full { .. } => ErrorCode::Quota,
        FolderError::Io(error) => error.into(),
        FolderError::Host => ErrorCode::Io,
    }
}

fn is_access_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotPermitted
            | ErrorCode::Access
            | ErrorCode::Loop
            | ErrorCode::ReadOnly
            | ErrorCode::CrossDevice
            | ErrorCode::Quota
    )
}

pub(super) fn wasi_folder_permissions(access: FolderAccess) -> FsPerms {
    match access {
        FolderAccess::Read => FsPerms::ReadOnly,
        FolderAccess::Write => FsPerms::ReadWrite,
    }
}

fn wasi_open_mode(access: FolderAccess) -> OpenMode {
    match access {
        FolderAccess::Read => OpenMode::READ,
        FolderAccess::Write => OpenMode::READ | OpenMode::WRITE,
    }
}

/// Returns the mount points of a granted directory. Standard libraries strip leading `/` and `.`
/// from paths and mount points alike, so mounting at `.` makes relative paths work.
fn list_folder_mounts(folder: &GrantableFolder) -> Vec<String> {
    match (folder.root, folder.below.join("/")) {
        (RootFolderKind::Data, _) => vec!["/data".to_owned()],
        (RootFolderKind::Workspace, below) if below.is_empty() => {
            vec![".".to_owned(), "/workspace".to_owned()]
        }
        (RootFolderKind::Workspace, below) => vec![below.clone(), format!("/workspace/{below}")],
    }
}

impl preopens::Host for HostState {
    /// Mounts the granted directories. A directory that cannot be opened now is mounted as the
    /// empty directory; each use of a path in it tries to open the granted directory again, so that
    /// every attempt fails with its own reason. If no directory is mounted at `.`, the empty
    /// directory is mounted at `/`: otherwise a standard library would itself refuse relative
    /// paths, and the attempt would not be recorded.
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let folders = self.backing.folders.clone();
        let handle = |shown: String, base| GuestFileHandle {
            shown,
            base: Some(base),
            usage: None,
        };
        let mut mounted = Vec::new();
        let mut is_rooted = false;
        for (number, (access, folder)) in folders.folders_with_access().enumerate() {
            let base = PathBaseFolder::Granted(number);
            let opened = folders
                .open_base_folder(&base)
                .or_else(|_| folders.open_base_folder(&PathBaseFolder::Nowhere));
            let Ok(file) = opened else {
                continue;
            };
            for name in list_folder_mounts(folder) {
                is_rooted |= name == ".";
                let handle = handle(folder.to_string(), base.clone());
                mounted.push((self.mount_folder(&file, access, handle)?, name));
            }
        }
        if !mounted.is_empty()
            && !is_rooted
            && let Ok(file) = folders.open_base_folder(&PathBaseFolder::Nowhere)
        {
            let handle = handle("/".to_owned(), PathBaseFolder::Nowhere);
            mounted.push((
                self.mount_folder(&file, FolderAccess::Read, handle)?,
                "/".to_owned(),
            ));
        }
        Ok(mounted)
    }
}

impl GuestFileHandles {
    /// Fails if the instance already has [`MAX_OPEN_FILES_AND_FOLDERS`] files and directories open.
    pub(super) fn check_open_limit(&mut self) -> Result<(), FolderError> {
        self.open.retain(|file| file.strong_count() > 0);
        if self.open.len() < MAX_OPEN_FILES_AND_FOLDERS {
            return Ok(());
        }
        let text = format!(
            "the plugin already has {MAX_OPEN_FILES_AND_FOLDERS} files and folders open, which is the maximum"
        );
        Err(FolderError::TooMuch(text))
    }

    /// Counts a file as open until the last other reference to it is dropped.
    pub(super) fn track_open_file(&mut self, file: &Arc<File>) {
        self.open.push(Arc::downgrade(file));
    }
}

impl HostState {
    fn mount_folder(
        &mut self,
        file: &File,
        access: FolderAccess,
        handle: GuestFileHandle,
    ) -> wasmtime::Result<Fd> {
        self.handles.check_open_limit()?;
        let file = file.try_clone()?;
        let dir = Dir::new(
            file,
            wasi_folder_permissions(access),
            wasi_open_mode(access),
            false,
        );
        self.handles.track_open_file(&dir.dir);
        let fd = self.filesystem().table.push(Descriptor::Dir(dir))?;
        self.handles.known.insert(fd.rep(), handle);
        Ok(fd)
    }

    /// Resolves a path relative to an open directory and checks that the intended operation is
    /// granted. If the operation creates a file or directory, counts it toward the quota.
    pub(super) async fn resolve_fd_path(
        &mut self,
        fd: &Fd,
        path: &str,
        follow: bool,
        need: PathOperation,
    ) -> Result<ResolvedPath, FolderError> {
        let base = self.handles.known.get(&fd.rep());
        let base = base.and_then(|handle| handle.base.clone());
        let base = base.ok_or_else(|| FolderError::Io(std::io::ErrorKind::NotADirectory.into()))?;
        let (folders, path) = (self.backing.folders.clone(), path.to_owned());
        run_on_blocking_pool(move || {
            let mut place = folders.resolve_path_from_base(&base, &path, follow)?;
            if need != PathOperation::Read {
                place.check_write_allowed()?;
            }
            place.check_trailing_slash()?;
            if need == PathOperation::Remove {
                if folders.has_granted_folder_inside(&place) {
                    return Err(FolderError::ReadOnly);
                }
                place.refresh_metadata()?;
            }
            if need == PathOperation::Add
                && let Some(usage) = place.data_folder_usage_counter()
            {
                usage.charge_quota(0, 1)?;
            }
            Ok(place)
        })
        .await
    }

    /// Creates the granted directory that a handle refers to, if `path` refers to that directory
    /// and the directory does not exist yet. Returns whether the directory was created.
    pub(super) async fn create_granted_folder(
        &mut self,
        fd: &Fd,
        path: &str,
    ) -> Result<bool, GuestFileError> {
        let base = self.handles.known.get(&fd.rep());
        let base = base.and_then(|handle| handle.base.clone());
        let is_itself = path.split('/').all(|name| matches!(name, "" | "."));
        let Some(base) = base.filter(|_| is_itself) else {
            return Ok(false);
        };
        let folders = self.backing.folders.clone();
        Ok(run_on_blocking_pool(move || folders.create_missing_granted_folder(&base)).await?)
    }

    /// Creates a temporary handle on the parent directory of a resolved path, for one wasmtime
    /// operation on a single name in it.
    pub(super) fn open_parent_handle(&mut self, place: &ResolvedPath) -> FsResult<Fd> {
        let file = place.parent_folder().try_clone()?.into_std_file();
        let access = place.allowed_access();
        let dir = Dir::new(
            file,
            wasi_folder_permissions(access),
            wasi_open_mode(access),
            false,
        );
        Ok(self.filesystem().table.push(Descriptor::Dir(dir))?)
    }

    pub(super) fn close_parent_folder_handle(&mut self, lent: u32) -> FsResult<()> {
        let lent: Fd = Resource::new_own(lent);
        self.filesystem().table.delete(lent)?;
        Ok(())
    }

    /// Returns the name under which access records show the file of a handle.
    pub(super) fn display_path(&self, fd: &Fd) -> String {
        let handle = self.handles.known.get(&fd.rep());
        handle.map_or_else(String::new, |handle| handle.shown.clone())
    }

    /// Converts a result for the guest, and records a failure. `target` describes the attempted
    /// operation.
    pub(super) fn convert_result_recording_failure<T>(
        &self,
        target: impl FnOnce(&Self) -> String,
        result: Result<T, GuestFileError>,
    ) -> FsResult<T> {
        match result {
            Ok(value) => Ok(value),
            Err(GuestFileError::Ours(error)) => {
                self.record_file_access(&target(self), &error);
                Err(folder_error_code(error).into())
            }
            Err(GuestFileError::Theirs(error)) => {
                if let Some(code) = error.downcast_ref() {
                    let outcome = if is_access_refusal(*code) {
                        AccessOutcome::Denied
                    } else {
                        AccessOutcome::Failed
                    };
                    let reason = code.name().replace('-', " ");
                    self.access_log()
                        .record_failed_file_access(&target(self), outcome, &reason);
                }
                Err(error)
            }
        }
    }
}

/// Describes an operation on an open file or directory, for access records.
pub(super) fn describe_fd(verb: &str, fd: u32) -> impl FnOnce(&HostState) -> String {
    move |state| format!("{verb} {}", state.display_path(&Resource::new_borrow(fd)))
}

/// Describes an operation on `path`, for access records.
pub(super) fn describe_path<'a>(
    verb: &'a str,
    path: &'a str,
    fd: u32,
) -> impl FnOnce(&HostState) -> String + 'a {
    move |state| {
        let folder = state.display_path(&Resource::new_borrow(fd));
        format!("{verb} {path} in {folder}")
    }
}

/// Describes an operation on two paths, for access records.
pub(super) fn describe_two_path_operation<'a>(
    verb: &'a str,
    (from, from_fd): (&'a str, u32),
    (to, to_fd): (&'a str, u32),
) -> impl FnOnce(&HostState) -> String + 'a {
    move |state| {
        let from = describe_path(verb, from, from_fd)(state);
        describe_path(&format!("{from} to"), to, to_fd)(state)
    }
}
