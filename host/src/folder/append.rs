//! Adding to the end of a file: what logs do, at the cost of what is added and not of what is there.

use std::io::{self, Write};
use std::sync::Arc;

use rustix::io::Errno;

use super::whole::MAX_BYTES;
use super::{FolderError, GrantedFolders, How};

impl GrantedFolders {
    /// Whether what `data` holds is known, so that adding to it need not walk through it.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.usage.is_counted()
    }

    /// Adds to the end of a file, making it if needed; its folder must be there. Others who add at the same time lose nothing.
    /// When the disk is full or the host is killed, a part of it may be there.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<(), FolderError> {
        if content.len() > MAX_BYTES {
            return Err(FolderError::TooMuch(format!(
                "at most {MAX_BYTES} bytes are added in one call"
            )));
        }
        let place = self.find_place(path, true)?;
        let how = How {
            write: true,
            create: true,
            append: true,
            ..How::default()
        };
        let opened = place.open(how)?;
        if opened.is_folder {
            return Err(Errno::ISDIR.into());
        }
        let file = Arc::new(opened.file);
        let Some(usage) = place.usage() else {
            return Ok((&*file).write_all(content)?);
        };
        // Removing or shortening the file meanwhile frees nothing for certain.
        usage.opened(&file);
        let _writing = usage.writing(&file);
        usage.grow(content.len() as u64)?;
        let mut left = content;
        let written = write_all(&file, &mut left);
        usage.credit(left.len() as u64, 0);
        Ok(written?)
    }
}

/// Writes all of `left`, which is what has not been written when it fails.
fn write_all(mut file: &std::fs::File, left: &mut &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match file.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => *left = left.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
