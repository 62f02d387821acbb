//! The folder that built-in tools may touch, and nothing outside of it.
//!
//! Every path goes through one open folder handle, which the system resolves without ever leaving it: `..`, absolute paths
//! and links that lead out are refused, also when a link is swapped in between a check and its use. It must not know which
//! tool asks. Start from [`Workspace`].

mod error;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use tokio_util::sync::CancellationToken;

use super::subject::WorkspacePath;
use crate::git::leads_into_repository;
pub use error::WorkspaceError;

/// Grace for work that changes nothing, once it is canceled.
const CALLED_OFF: Duration = Duration::from_millis(100);

/// The folder that built-in tools may touch.
#[derive(Debug)]
pub struct Workspace {
    /// Root of the workspace, without links.
    root: PathBuf,
    /// Path as it was given, absolute; may contain links.
    given: PathBuf,
    dir: Dir,
}

impl Workspace {
    /// Opens an existing folder.
    ///
    /// # Errors
    /// It does not exist or cannot be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
        let given = std::path::absolute(root)?;
        let root = root.canonicalize()?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority())?;
        Ok(Self { root, given, dir })
    }

    /// Absolute path of the folder, without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The handle that everything goes through.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Runs blocking work on files off the async threads. When the returned future is dropped, or `cancel` is set, the work's
    /// own token is set; work that may take long must watch it.
    ///
    /// # Errors
    /// Those of the work, and [`WorkspaceError::Host`] when it panicked.
    pub async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        cancel: &CancellationToken,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let workspace = self.clone();
        let cancel = cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        tokio::task::spawn_blocking(move || work(&workspace, &cancel))
            .await
            .unwrap_or_else(|error| Err(WorkspaceError::Host(error.to_string())))
    }

    /// [Runs](Self::blocking) work that changes nothing: when it does not end soon after `cancel` is set, it is left behind, and
    /// so is work that takes longer than `limit`. It can stand in a computation that looks at no token.
    ///
    /// # Errors
    /// Those of the work, [`WorkspaceError::Cancelled`] and [`WorkspaceError::TooLong`].
    pub async fn looking<T: Send + 'static>(
        self: &Arc<Self>,
        cancel: &CancellationToken,
        limit: Duration,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let mut work = std::pin::pin!(self.blocking(cancel, work));
        let gone = async {
            cancel.cancelled().await;
            tokio::time::sleep(CALLED_OFF).await;
        };
        tokio::select! {
            biased;
            done = &mut work => done,
            () = gone => Err(WorkspaceError::Cancelled),
            () = tokio::time::sleep(limit) => Err(WorkspaceError::TooLong { seconds: limit.as_secs() }),
        }
    }

    /// The path relative to the root. An absolute path is taken when it begins with the root; whether a path really stays
    /// inside is found only when it is opened.
    ///
    /// # Errors
    /// The path is absolute and begins with something else.
    pub fn relative(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let asked = Path::new(path);
        let relative = if asked.is_absolute() {
            asked
                .strip_prefix(&self.root)
                .or_else(|_| asked.strip_prefix(&self.given))
                .map_err(|_| WorkspaceError::Escape {
                    path: path.to_owned(),
                })?
        } else {
            asked
        };
        Ok(plain(relative))
    }

    /// Resolves a path: links and `..` are followed as far as the path exists, the rest must be plain names.
    #[must_use]
    pub fn place(&self, path: &str) -> WorkspacePath {
        let Ok(relative) = self.relative(path) else {
            return WorkspacePath::Unknown;
        };
        let mut known = PathBuf::new();
        let mut names = relative.components();
        while let Some(name) = names.next() {
            let next = known.join(name);
            match self.dir.canonicalize(&next) {
                Ok(found) => known = plain(&found),
                // A link that leads nowhere yet may lead anywhere later.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && self.dir.symlink_metadata(&next).is_err() =>
                {
                    let rest: Vec<Component<'_>> = std::iter::once(name).chain(names).collect();
                    if rest
                        .iter()
                        .any(|name| !matches!(name, Component::Normal(_)))
                    {
                        return WorkspacePath::Unknown;
                    }
                    known.extend(rest);
                    break;
                }
                Err(_) => return WorkspacePath::Unknown,
            }
        }
        known.to_str().map_or(WorkspacePath::Unknown, |known| {
            WorkspacePath::Known(known.to_owned())
        })
    }

    /// Opens a regular file for reading and tells its size in bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn open_file(&self, path: &str) -> Result<(File, u64), WorkspaceError> {
        let relative = self.relative(path)?;
        if relative.as_os_str().is_empty() {
            return Err(WorkspaceError::NotAFile {
                path: path.to_owned(),
            });
        }
        let mut options = OpenOptions::new();
        // Opening a pipe that nobody writes to would wait for ever.
        options.read(true).custom_flags(nonblocking());
        let (file, metadata) = self
            .dir
            .open_with(&relative, &options)
            .and_then(|file| file.metadata().map(|metadata| (file, metadata)))
            .map_err(|source| WorkspaceError::from_io(path, source))?;
        if !metadata.is_file() {
            return Err(WorkspaceError::NotAFile {
                path: path.to_owned(),
            });
        }
        Ok((file, metadata.len()))
    }

    /// The path of an existing folder relative to the root; the root itself is empty.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn folder(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        let relative = self.relative(path)?;
        if relative.as_os_str().is_empty() {
            return Ok(relative);
        }
        let metadata = self
            .dir
            .metadata(&relative)
            .map_err(|source| WorkspaceError::from_io(path, source))?;
        if metadata.is_dir() {
            // Without `..`, which the walk's patterns could not be matched against.
            self.dir
                .canonicalize(&relative)
                .map(|folder| plain(&folder))
                .map_err(|source| WorkspaceError::from_io(path, source))
        } else {
            Err(WorkspaceError::NotAFolder {
                path: path.to_owned(),
            })
        }
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, WorkspaceError> {
        let (file, bytes) = self.open_file(path)?;
        let too_large = |bytes| WorkspaceError::TooLarge {
            path: path.to_owned(),
            bytes,
            cap,
        };
        if bytes > cap {
            return Err(too_large(bytes));
        }
        let mut content = Vec::new();
        // The size may be wrong: files grow, and those of `/proc` say 0.
        file.take(cap + 1)
            .read_to_end(&mut content)
            .map_err(|source| WorkspaceError::from_io(path, source))?;
        if content.len() as u64 > cap {
            return Err(too_large(content.len() as u64));
        }
        Ok(content)
    }

    /// Puts `content` in place of the file in one step and says whether the file is new. Missing folders are made, permissions
    /// are kept, and a link within the workspace stays a link.
    ///
    /// # Errors
    /// See [`WorkspaceError`]; the file is then as it was.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<bool, WorkspaceError> {
        let relative = self.relative(path)?;
        let not_a_file = || WorkspaceError::NotAFile {
            path: path.to_owned(),
        };
        let failed = |source| WorkspaceError::from_io(path, source);
        let is_link = self
            .dir
            .symlink_metadata(&relative)
            .is_ok_and(|metadata| metadata.is_symlink());
        let target = if is_link {
            self.dir.canonicalize(&relative).map_err(failed)?
        } else {
            relative
        };
        let name = target.file_name().ok_or_else(not_a_file)?;
        let in_repository = || WorkspaceError::Repository {
            path: path.to_owned(),
        };
        let known = self.place(path);
        if let WorkspacePath::Known(known) = &known
            && leads_into_repository(&self.root, known.split('/'))
        {
            return Err(in_repository());
        }
        let folder = self.make_folder(&target).map_err(failed)?;
        // Once more for the folder that is open now: a link to it may have been swapped in, and `..` may follow what was made.
        let is_free = match (self.names_of(&folder), &known) {
            (Some(names), _) => {
                let names = names.iter().map(String::as_str);
                let name = name.to_string_lossy();
                !leads_into_repository(&self.root, names.chain([name.as_ref()]))
            }
            (None, WorkspacePath::Known(_)) => true,
            (None, WorkspacePath::Unknown) => false,
        };
        if !is_free {
            return Err(in_repository());
        }
        let old = match folder.symlink_metadata(name) {
            Ok(metadata) if !metadata.is_file() => return Err(not_a_file()),
            Ok(metadata) if metadata.permissions().readonly() => {
                return Err(WorkspaceError::ReadOnly {
                    path: path.to_owned(),
                });
            }
            Ok(metadata) => Some(metadata.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let is_new = old.is_none();
        let temporary = format!(".rind-{}.tmp", crate::clock::new_id());
        // The rename takes the place of a link that was swapped in meanwhile; it does not follow it.
        write_new(&folder, &temporary, content, old)
            .and_then(|()| folder.rename(&temporary, &folder, name))
            .inspect_err(|_| {
                let _ = folder.remove_file(&temporary);
            })
            .map_err(failed)?;
        Ok(is_new)
    }

    /// The names that lead from the workspace to an open folder, where the system says them.
    fn names_of(&self, folder: &Dir) -> Option<Vec<String>> {
        let link = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        let real = std::fs::read_link(link).ok()?;
        let names = real.strip_prefix(&self.root).ok()?.iter();
        Some(
            names
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
        )
    }

    /// Opens the folder that `target` is in, and makes it if it is missing.
    fn make_folder(&self, target: &Path) -> io::Result<Dir> {
        match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                match self.dir.open_dir(parent) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => return opened,
                }
                self.dir.create_dir_all(parent)?;
                self.dir.open_dir(parent)
            }
            _ => self.dir.try_clone(),
        }
    }
}

fn write_new(
    folder: &Dir,
    name: &str,
    content: &[u8],
    permissions: Option<cap_std::fs::Permissions>,
) -> io::Result<()> {
    let mut file = folder.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    if let Some(permissions) = permissions {
        // Before the first byte, so that a private file's content is never readable by others.
        file.set_permissions(permissions)?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// The path without `.`; the root itself is then empty.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

/// Flags with which opening a pipe that nobody writes to does not wait.
pub(super) fn nonblocking() -> i32 {
    i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0)
}
