//! The named pipe that a process which stays running reads as its standard input.
//!
//! Owns the private folder of the pipe, which is removed with it. It must not know what is written.
//! Start from [`InputPipe::create`].

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe::{OpenOptions, Sender};

use rind_base::disk::TemporaryFolder;

/// Name of the pipe in its folder.
const PIPE: &str = "input";

/// A named pipe in a private folder.
#[derive(Debug)]
pub struct InputPipe {
    path: PathBuf,
    _folder: TemporaryFolder,
}

impl InputPipe {
    /// Creates a pipe in a folder whose name begins with `prefix`, and its end for writing, which
    /// stays open if the process closes its own.
    ///
    /// # Errors
    /// The folder or the pipe cannot be created.
    pub async fn create(prefix: &'static str) -> io::Result<(Self, Sender)> {
        let made = tokio::task::spawn_blocking(move || Self::create_files(prefix)).await;
        let pipe = made.map_err(io::Error::other)??;
        // Opened for reading too, so that opening does not wait for the process.
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
