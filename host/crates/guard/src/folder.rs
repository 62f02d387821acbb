//! Manages the private folder with the daemon's socket and locks.
//!
//! Another user who can create the socket could answer in place of the guard, so folder and socket
//! must belong to this user and be inaccessible to all others. Otherwise the guard refuses them
//! and does not repair them, because another user may have written their content.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rind_lib::disk::create_private_folder;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::geteuid;
use tokio::net::UnixListener;

use super::error::GuardFileOrDaemonError;

/// Name of the guard's folder, which lies in Rind's data folder.
const GUARD_FOLDER_NAME: &str = "guard";

/// File name of the Unix socket on which the guard's daemon listens.
const SOCKET_FILE_NAME: &str = "guard.sock";

/// File whose lock the daemon holds while it runs.
const DAEMON_LOCK_FILE_NAME: &str = "daemon.lock";

/// File whose lock a program holds while it starts a daemon.
const DAEMON_START_LOCK_FILE_NAME: &str = "start.lock";

/// Permission bits that give the group or other users access.
const GROUP_AND_OTHERS_MODE_BITS: u32 = 0o077;

/// Maximum time to connect to the socket of the guard's daemon.
const DAEMON_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of the path of the daemon's Unix socket, in bytes.
const MAX_SOCKET_PATH_BYTES: usize = 100;

/// Private folder of the guard, with the daemon's socket, locks and log.
#[derive(Clone, Debug)]
pub struct GuardDaemonFolder {
    path: PathBuf,
}

impl GuardDaemonFolder {
    /// Opens the guard's folder in a data folder, and creates it if it is missing.
    ///
    /// # Errors
    /// The folder does not belong to this user, others have access to it, or its path is too long
    /// for a socket.
    pub fn open(data: &Path) -> Result<Self, GuardFileOrDaemonError> {
        let path = data.join(GUARD_FOLDER_NAME);
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create_private_folder(data)
                    .map_err(|error| GuardFileOrDaemonError::file_error(data, error))?;
                match DirBuilder::new().mode(0o700).create(&path) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                        return Err(GuardFileOrDaemonError::file_error(&path, error));
                    }
                    _ => {}
                }
            }
            Err(error) => return Err(GuardFileOrDaemonError::file_error(&path, error)),
            Ok(_) => {}
        }
        let found = path
            .symlink_metadata()
            .map_err(|error| GuardFileOrDaemonError::file_error(&path, error))?;
        if !found.is_dir() {
            let why = "it is not a folder; remove it, so that the guard can make its own";
            return Err(GuardFileOrDaemonError::file_error(&path, why));
        }
        require_private_to_user(&path, &found)?;
        let folder = Self { path };
        let socket = folder.socket_path();
        if socket.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
            let why = format!(
                "the path is longer than {MAX_SOCKET_PATH_BYTES} bytes, too long for a socket; set RIND_HOME to a shorter one"
            );
            return Err(GuardFileOrDaemonError::file_error(&socket, why));
        }
        Ok(folder)
    }

    /// Returns the path of the private folder with the daemon's socket, locks and log.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file to which the daemon writes its log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// Returns the folder that keeps copies of the settings files which were changed.
    #[must_use]
    pub fn backup_folder_path(&self) -> PathBuf {
        self.path.join("copies")
    }

    fn socket_path(&self) -> PathBuf {
        self.path.join(SOCKET_FILE_NAME)
    }

    /// Connects to the daemon; `None` if none listens.
    ///
    /// # Errors
    /// The socket, or the process behind it, does not belong to this user, or the connection fails.
    pub(crate) fn connect_to_daemon(&self) -> Result<Option<UnixStream>, GuardFileOrDaemonError> {
        let socket = self.socket_path();
        let found = match socket.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| GuardFileOrDaemonError::file_error(&socket, error))?,
        };
        if !found.file_type().is_socket() {
            return Err(GuardFileOrDaemonError::file_error(
                &socket,
                "it is not a socket; remove it",
            ));
        }
        require_private_to_user(&socket, &found)?;
        let stream = match connect_with_timeout(&socket) {
            Err(error)
                if [ErrorKind::ConnectionRefused, ErrorKind::NotFound].contains(&error.kind()) =>
            {
                return Ok(None);
            }
            stream => stream.map_err(|error| GuardFileOrDaemonError::file_error(&socket, error))?,
        };
        require_same_user_peer(&stream)
            .map_err(|why| GuardFileOrDaemonError::file_error(&socket, why))?;
        Ok(Some(stream))
    }

    /// Listens on the socket. The caller must hold the daemon's lock, so an existing socket is a
    /// leftover and is replaced.
    ///
    /// # Errors
    /// The path exists and is not a socket of this user, or the socket cannot be created.
    pub(crate) fn create_listener(&self) -> Result<UnixListener, GuardFileOrDaemonError> {
        let socket = self.socket_path();
        if let Ok(found) = socket.symlink_metadata() {
            if !found.file_type().is_socket() {
                return Err(GuardFileOrDaemonError::file_error(
                    &socket,
                    "it is not a socket; remove it",
                ));
            }
            require_private_to_user(&socket, &found)?;
        }
        let own = self
            .path
            .join(format!("{SOCKET_FILE_NAME}.{}", std::process::id()));
        let listen = || -> io::Result<UnixListener> {
            match std::fs::remove_file(&own) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&own)?;
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600))?;
            // Rename the socket to its final name only now, so that no program can connect before
            // its permissions are set.
            std::fs::rename(&own, &socket)?;
            Ok(listener)
        };
        listen().map_err(|error| GuardFileOrDaemonError::file_error(&socket, error))
    }

    /// Removes the socket, so that no further program can connect.
    pub(crate) fn remove_socket(&self) {
        if let Err(error) = std::fs::remove_file(self.socket_path()) {
            tracing::debug!(%error, "the socket was not removed");
        }
    }

    /// Opens the file whose lock the daemon holds while it runs.
    ///
    /// # Errors
    /// The lock file cannot be opened.
    pub(crate) fn open_daemon_lock_file(&self) -> Result<File, GuardFileOrDaemonError> {
        self.open_lock_file(DAEMON_LOCK_FILE_NAME)
    }

    /// Writes this process's id, which is the daemon's, into the lock file.
    pub(crate) fn write_process_id(&self, lock: &mut File) {
        let noted = lock
            .set_len(0)
            .and_then(|()| write!(lock, "{}", std::process::id()));
        if let Err(error) = noted {
            tracing::debug!(%error, "the process id of the daemon was not recorded");
        }
    }

    /// Tries to lock a lock file. Returns `false` if another program holds the lock.
    ///
    /// # Errors
    /// The file cannot be locked, for example because the file system does not support locks.
    pub(crate) fn try_lock_file(&self, file: &File) -> Result<bool, GuardFileOrDaemonError> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => {
                Err(GuardFileOrDaemonError::file_error(&self.path, error))
            }
        }
    }

    /// Whether the socket exists. Without the socket, no program can reach the daemon.
    pub(crate) fn has_socket(&self) -> bool {
        self.socket_path().symlink_metadata().is_ok()
    }

    /// Opens the file whose lock a program holds while it starts a daemon.
    ///
    /// # Errors
    /// The lock file cannot be opened.
    pub(crate) fn open_start_lock_file(&self) -> Result<File, GuardFileOrDaemonError> {
        self.open_lock_file(DAEMON_START_LOCK_FILE_NAME)
    }

    fn open_lock_file(&self, name: &str) -> Result<File, GuardFileOrDaemonError> {
        let path = self.path.join(name);
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path);
        opened.map_err(|error| GuardFileOrDaemonError::file_error(&path, error))
    }
}

/// Checks that a file belongs to this user and that no other user can access it.
fn require_private_to_user(
    path: &Path,
    found: &std::fs::Metadata,
) -> Result<(), GuardFileOrDaemonError> {
    let own = geteuid().as_raw();
    if found.uid() != own {
        let why = format!(
            "it belongs to user {}, but Rind runs as user {own}; remove it",
            found.uid()
        );
        return Err(GuardFileOrDaemonError::file_error(path, why));
    }
    if found.mode() & GROUP_AND_OTHERS_MODE_BITS != 0 {
        let why = format!(
            "other users have access to it (mode {:o}) and may have written its content; remove it",
            found.mode() & 0o777
        );
        return Err(GuardFileOrDaemonError::file_error(path, why));
    }
    Ok(())
}

/// Connects to a Unix socket, and fails after [`DAEMON_CONNECT_TIMEOUT`].
fn connect_with_timeout(path: &Path) -> io::Result<UnixStream> {
    let socket = open_socket()?;
    set_socket_timeout(&socket, Timeout::Send, Some(DAEMON_CONNECT_TIMEOUT))?;
    let address = SocketAddrUnix::new(path)?;
    // A connect with a timeout is interrupted if the process is stopped and continued, so retry it.
    retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(UnixStream::from(socket))
}

/// Opens a Unix socket that started programs do not inherit.
#[cfg(not(target_vendor = "apple"))]
fn open_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

#[cfg(target_vendor = "apple")]
fn open_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = socket_with(family, kind, SocketFlags::empty(), None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Returns the user id of the process at the other end of a connection.
#[cfg(not(target_vendor = "apple"))]
fn read_peer_user_id(stream: impl AsFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

#[cfg(target_vendor = "apple")]
fn read_peer_user_id(stream: impl AsFd) -> io::Result<u32> {
    Ok(nix::unistd::getpeereid(stream)?.0.as_raw())
}

/// Checks that the process at the other end of a connection runs as this user.
pub(crate) fn require_same_user_peer(stream: impl AsFd) -> Result<(), String> {
    let peer = read_peer_user_id(stream).map_err(|error| error.to_string())?;
    let own = geteuid().as_raw();
    match peer == own {
        true => Ok(()),
        false => Err(format!(
            "the process at the other end of the socket runs as user {peer}, not as user {own}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn data() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let data = data();
        let folder = GuardDaemonFolder::open(data.path()).unwrap();
        let mode = |mode| {
            let access = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), access).unwrap();
        };
        mode(0o755);
        let refused = GuardDaemonFolder::open(data.path())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("mode 755"), "{refused}");
        mode(0o700);
        GuardDaemonFolder::open(data.path()).unwrap();
        let elsewhere = data.path().join("elsewhere");
        std::fs::rename(folder.path(), &elsewhere).unwrap();
        symlink(&elsewhere, folder.path()).unwrap();
        let refused = GuardDaemonFolder::open(data.path())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("not a folder"), "{refused}");
    }

    #[tokio::test]
    async fn what_stands_in_place_of_the_socket_is_refused() {
        let data = data();
        let folder = GuardDaemonFolder::open(data.path()).unwrap();
        assert!(folder.connect_to_daemon().unwrap().is_none());
        std::fs::write(folder.socket_path(), "").unwrap();
        assert!(folder.connect_to_daemon().is_err());
        assert!(folder.create_listener().is_err());
        std::fs::remove_file(folder.socket_path()).unwrap();
        symlink(data.path(), folder.socket_path()).unwrap();
        assert!(folder.connect_to_daemon().is_err());
        assert!(folder.create_listener().is_err());
        std::fs::remove_file(folder.socket_path()).unwrap();
        let listener = folder.create_listener().unwrap();
        assert!(folder.connect_to_daemon().unwrap().is_some());
        std::fs::set_permissions(folder.socket_path(), std::fs::Permissions::from_mode(0o666))
            .unwrap();
        let refused = folder.connect_to_daemon().unwrap_err().to_string();
        assert!(refused.contains("mode 666"), "{refused}");
        drop(listener);
        std::fs::set_permissions(folder.socket_path(), std::fs::Permissions::from_mode(0o600))
            .unwrap();
        // A socket without a listener counts as absent.
        assert!(folder.connect_to_daemon().unwrap().is_none());
        folder.create_listener().unwrap();
    }
}
