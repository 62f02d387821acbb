//! `wasi:filesystem/types`: wasmtime's implementation with three additions: A path is first
//! resolved to its real location, and the operation then runs on a single name in that directory;
//! writes to `data` are charged to the quota; refused and failed operations are recorded.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::WasiFilesystemView;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, ErrorCode, HostDescriptor, HostDirectoryEntryStream,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::super::host::HostState;
use super::wasi_place::{
    Fd, GuestFileError, PathOperation, describe_fd, describe_path, describe_two_path_operation,
};
use super::wasi_streams::file_growth;
use crate::folder::FolderError;
use crate::point::trace::AccessOutcome;

impl types::Host for HostState {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let known = self.filesystem().table.get(&error)?;
        if let Some(FolderError::Full { .. }) = known.downcast_ref() {
            return Ok(Some(ErrorCode::Quota));
        }
        types::Host::filesystem_error_code(&mut self.filesystem(), error)
    }
}

/// Implements operations on an open file or directory, which are forwarded unchanged and recorded
/// if they fail.
macro_rules! on_handle {
    ($($verb:literal $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(&mut self, fd: Fd $(, $arg: $ty)*) -> FsResult<$answer> {
            let rep = fd.rep();
            let result = self.filesystem().$name(fd $(, $arg)*).await;
            self.convert_result_recording_failure(describe_fd($verb, rep), result.map_err(GuestFileError::Theirs))
        })*
    };
}

/// Runs one wasmtime operation at the resolved location of a path: `$folder` is a handle of the
/// parent directory, `$name` the last component of the path.
macro_rules! at {
    ($self:ident, $fd:ident, $path:ident, $follow:expr, $need:expr, |$place:ident, $folder:ident, $name:ident| $done:expr) => {
        async {
            let $place = $self.resolve_fd_path(&$fd, &$path, $follow, $need).await?;
            let $folder = $self.open_parent_handle(&$place)?;
            let rep = $folder.rep();
            let $name = $place.name().to_owned();
            let result: Result<_, GuestFileError> = async { Ok($done) }.await;
            $self.close_parent_folder_handle(rep)?;
            if let (Err(_), PathOperation::Add, Some(usage)) =
                (&result, $need, $place.data_folder_usage_counter())
            {
                usage.subtract_freed_usage(0, 1);
            }
            result
        }
        .await
    };
}

/// Implements operations on a path. A symlink at the end of the path is followed if the flags
/// require it. The path is resolved first, and wasmtime's operation then gets empty flags, so that
/// it never follows a symlink itself.
macro_rules! on_followed {
    ($($verb:literal $need:ident $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(
            &mut self,
            fd: Fd,
            flags: types::PathFlags,
            path: String
            $(, $arg: $ty)*
        ) -> FsResult<$answer> {
            let follow = follows_symlink(flags);
            let result = at!(self, fd, path, follow, PathOperation::$need, |place, folder, name| {
                let flags = types::PathFlags::empty();
                self.filesystem().$name(folder, flags, name $(, $arg)*).await?
            });
            self.convert_result_recording_failure(describe_path($verb, &path, fd.rep()), result)
        })*
    };
}

/// Implements the operations that remove the entry at a path.
macro_rules! on_removed {
    ($($verb:literal $name:ident;)*) => {
        $(async fn $name(&mut self, fd: Fd, path: String) -> FsResult<()> {
            let result = at!(self, fd, path, false, PathOperation::Remove, |place, folder, name| {
                self.filesystem().$name(folder, name).await?;
                place.release_removed_file_quota(place.last_refreshed_metadata());
            });
            self.convert_result_recording_failure(describe_path($verb, &path, fd.rep()), result)
        })*
    };
}

fn follows_symlink(flags: types::PathFlags) -> bool {
    flags.contains(types::PathFlags::SYMLINK_FOLLOW)
}

impl HostDescriptor for HostState {
    on_handle! {
        "advise" advise(offset: u64, length: u64, advice: types::Advice) -> ();
        "sync" sync_data() -> ();
        "flags of" get_flags() -> types::DescriptorFlags;
        "type of" get_type() -> types::DescriptorType;
        "set-times" set_times(accessed: types::NewTimestamp, modified: types::NewTimestamp) -> ();
        "read" read(length: u64, offset: u64) -> (Vec<u8>, bool);
        "sync" sync() -> ();
        "stat" stat() -> types::DescriptorStat;
        "stat" metadata_hash() -> types::MetadataHashValue;
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        self.filesystem().is_same_object(a, b).await
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        let rep = fd.rep();
        let result = async {
            let before = self.file_length(&fd)?;
            let charged = self.charge_file_growth(&fd, |_| Ok(size.saturating_sub(before)))?;
            let file = self.find_open_file(&fd);
            let result = self.filesystem().set_size(fd, size).await;
            if let (Some((usage, grown)), Some(file)) = (charged, file) {
                match &result {
                    Ok(()) => usage.credit_truncation(&file, before.saturating_sub(size)),
                    Err(_) => usage.subtract_freed_usage(grown, 0),
                }
            }
            Ok(result?)
        };
        let result = result.await;
        self.convert_result_recording_failure(describe_fd("resize", rep), result)
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        let rep = fd.rep();
        let result = async {
            let length = bytes.len() as u64;
            let _writing = self.register_open_file_write(&fd);
            let charged =
                self.charge_file_growth(&fd, |file| file_growth(file, Some(offset), length))?;
            let result = self.filesystem().write(fd, bytes, offset).await;
            if let (Err(_), Some((usage, grown))) = (&result, charged) {
                usage.subtract_freed_usage(grown, 0);
            }
            Ok(result?)
        };
        let result = result.await;
        self.convert_result_recording_failure(describe_fd("write", rep), result)
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let rep = fd.rep();
        let result = self.filesystem().read_via_stream(fd, offset);
        self.convert_result_recording_failure(
            describe_fd("read", rep),
            result.map_err(GuestFileError::Theirs),
        )
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        let rep = fd.rep();
        let stream = self.filesystem().write_via_stream(fd, offset);
        let result =
            stream.and_then(|stream| self.wrap_stream_with_quota(stream, rep, Some(offset)));
        self.convert_result_recording_failure(
            describe_fd("write", rep),
            result.map_err(GuestFileError::Theirs),
        )
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        let rep = fd.rep();
        let stream = self.filesystem().append_via_stream(fd);
        let result = stream.and_then(|stream| self.wrap_stream_with_quota(stream, rep, None));
        self.convert_result_recording_failure(
            describe_fd("append to", rep),
            result.map_err(GuestFileError::Theirs),
        )
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let rep = fd.rep();
        let result = async {
            let n_entries = self.count_listed_entries(&fd).await?;
            let stream = self.filesystem().read_directory(fd).await?;
            self.handles.listed.insert(stream.rep(), n_entries);
            Ok(stream)
        };
        let result = result.await;
        self.convert_result_recording_failure(describe_fd("list", rep), result)
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        match self.create_granted_folder(&fd, &path).await {
            Ok(false) => {}
            made => {
                return self.convert_result_recording_failure(
                    describe_path("create-folder", &path, fd.rep()),
                    made.map(drop),
                );
            }
        }
        let result = at!(
            self,
            fd,
            path,
            false,
            PathOperation::Add,
            |place, folder, name| self.filesystem().create_directory_at(folder, name).await?
        );
        self.convert_result_recording_failure(
            describe_path("create-folder", &path, fd.rep()),
            result,
        )
    }

    on_followed! {
        "stat" Read stat_at() -> types::DescriptorStat;
        "stat" Read metadata_hash_at() -> types::MetadataHashValue;
        "set-times" Write set_times_at(accessed: types::NewTimestamp, modified: types::NewTimestamp) -> ();
    }

    on_removed! {
        "remove-folder" remove_directory_at;
        "remove" unlink_file_at;
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        flags: types::PathFlags,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        // A hard link makes both names refer to one file, so the old name must be writable as well.
        let result = at!(
            self,
            fd,
            path,
            false,
            PathOperation::Write,
            |old, from, old_name| {
                at!(
                    self,
                    new_fd,
                    new_path,
                    false,
                    PathOperation::Add,
                    |new, to, name| {
                        old.check_same_grant(&new)?;
                        self.filesystem()
                            .link_at(from, flags, old_name, to, name)
                            .await?
                    }
                )?
            }
        );
        self.convert_result_recording_failure(
            describe_two_path_operation("link", (&path, fd.rep()), (&new_path, new_fd.rep())),
            result,
        )
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        let result = at!(
            self,
            fd,
            path,
            false,
            PathOperation::Add,
            |place, folder, name| {
                place.check_symlink_target(&target)?;
                self.filesystem()
                    .symlink_at(folder, target.clone(), name)
                    .await?
            }
        );
        self.convert_result_recording_failure(
            describe_path("symlink", &format!("{target} to {path}"), fd.rep()),
            result,
        )
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        let result = at!(
            self,
            fd,
            path,
            false,
            PathOperation::Read,
            |place, folder, name| self.filesystem().readlink_at(folder, name).await?
        );
        self.convert_result_recording_failure(describe_path("readlink", &path, fd.rep()), result)
    }

    async fn rename_at(
        &mut self,
        fd: Fd,
        path: String,
        new_fd: Fd,
        new_path: String,
    ) -> FsResult<()> {
        let result = at!(
            self,
            fd,
            path,
            false,
            PathOperation::Remove,
            |old, from, old_name| {
                at!(
                    self,
                    new_fd,
                    new_path,
                    false,
                    PathOperation::Remove,
                    |new, to, name| {
                        let replaced = old.check_rename(&new)?;
                        self.filesystem()
                            .rename_at(from, old_name, to, name)
                            .await?;
                        new.release_removed_file_quota(replaced);
                    }
                )?
            }
        );
        self.convert_result_recording_failure(
            describe_two_path_operation("rename", (&path, fd.rep()), (&new_path, new_fd.rep())),
            result,
        )
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: types::PathFlags,
        path: String,
        open_flags: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> FsResult<Fd> {
        let result = self
            .open_guest_path(&fd, &path, follows_symlink(path_flags), open_flags, flags)
            .await;
        self.convert_result_recording_failure(describe_path("open", &path, fd.rep()), result)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.handles.known.remove(&fd.rep());
        HostDescriptor::drop(&mut self.filesystem(), fd)
    }
}

impl HostDirectoryEntryStream for HostState {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        let rep = stream.rep();
        loop {
            let stream = Resource::new_borrow(rep);
            let read = self.filesystem().read_directory_entry(stream).await;
            let is_unreadable =
                |error: &FsError| error.downcast_ref() == Some(&ErrorCode::IllegalByteSequence);
            match read {
                // Skip the entry: a standard library stops listing at the first error, which would
                // hide the remaining entries.
                Err(error) if is_unreadable(&error) => {
                    let why = "an entry whose name is not UTF-8 was left out of a listing";
                    self.access_log()
                        .record_failed_file_access("list", AccessOutcome::Failed, why);
                }
                read => return read,
            }
        }
    }

    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.handles.listed.remove(&stream.rep());
        HostDirectoryEntryStream::drop(&mut self.filesystem(), stream)
    }
}
