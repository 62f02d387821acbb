//! Creates the named pipe that a long-running process reads as its standard input.
//!
//! The pipe is in a private folder, which is removed together with the pipe. This module must not
//! depend on what is written to the pipe. Start from [`InputPipe::create`].

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe::{OpenOptions, Sender};

use rind_base::disk::TemporaryFolder;

/// File name of the pipe.
const PIPE: &str = "input";

/// A named pipe in a private folder.
#[derive(Debug)]
pub struct InputPipe {
    path: PathBuf,
    _folder: TemporaryFolder,
}

impl InputPipe {
    /// Creates a pipe in a folder whose name begins with `prefix`, and opens it for writing. The
    /// write end stays open if the process closes its read end.
    ///
    /// # Errors
    /// The folder or the pipe cannot be created.
    pub async fn create(prefix: &'static str) -> io::Result<(Self, Sender)> {
        let made = tokio::task::spawn_blocking(move || Self::create_files(prefix)).await;
        let pipe = made.map_err(io::Error::other)??;
        // Open the pipe for reading as well as writing; otherwise opening would block until the
        // process opens the pipe for reading.
        let sender = OpenOptions::new()
            .read_write(true)
            .open_sender(&pipe.path)?;
        Ok((pipe, sender))
    }

    fn create_files(prefix: &str) -> io::Result<Self> {
        let folder = TemporaryFolder::new(prefix)?;
        let path = folder.path().join(PIPE);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        Ok(Self {
            path,
            _folder: folder,
        })
    }

    /// Returns the path of the pipe.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
