//! Creates the named pipe that a long-running process reads as its standard input.
//!
//! The pipe is in a private folder, which is removed together with the pipe. This module must not
//! depend on what is written to the pipe. Start from [`InputNamedPipe::create`].

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tokio::net::unix::pipe::Sender;

use rind_base::disk::TemporaryFolder;

/// File name of the named pipe in its private folder.
const INPUT_PIPE_FILE_NAME: &str = "input";

/// Named pipe in a private folder, through which a process gets its standard input.
#[derive(Debug)]
pub struct InputNamedPipe {
    path: PathBuf,
    _folder: TemporaryFolder,
}

impl InputNamedPipe {
    /// Creates a named pipe in a new temporary folder, whose name begins with `prefix`. Also opens
    /// the pipe and returns its write end, which stays usable if the reading process closes its
    /// end.
    ///
    /// # Errors
    /// The folder or the pipe cannot be created.
    pub async fn create(prefix: &'static str) -> io::Result<(Self, Sender)> {
        let made =
            tokio::task::spawn_blocking(move || Self::create_pipe_in_temporary_folder(prefix))
                .await;
        let pipe = made.map_err(io::Error::other)??;
        // Open the pipe for reading as well as writing; otherwise opening would block until the
        // process opens the pipe for reading.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&pipe.path, flags, Mode::empty())?;
        Ok((pipe, Sender::from_owned_fd(opened)?))
    }

    fn create_pipe_in_temporary_folder(prefix: &str) -> io::Result<Self> {
        let folder = TemporaryFolder::new(prefix)?;
        let path = folder.path().join(INPUT_PIPE_FILE_NAME);
        make_named_pipe(&path)?;
        Ok(Self {
            path,
            _folder: folder,
        })
    }

    /// Returns the path of the named pipe.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a named pipe that only its owner can open.
#[cfg(not(target_vendor = "apple"))]
fn make_named_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

#[cfg(target_vendor = "apple")]
fn make_named_pipe(path: &Path) -> io::Result<()> {
    use nix::sys::stat::Mode;
    Ok(nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?)
}
