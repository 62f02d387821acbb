//! Appends to files, such as logs, without rewriting the file, so the cost does not depend on its
//! size.

use std::io::{self, Write};
use std::sync::Arc;

use rustix::io::Errno;

use super::whole::MAX_READ_OR_WRITE_BYTES;
use super::{FolderError, FolderOpenOptions, GrantedFolders};

impl GrantedFolders {
    /// Whether the usage of the data directory is known, so that an append need not count it first.
    #[must_use]
    pub fn is_data_usage_known(&self) -> bool {
        self.usage.has_valid_count()
    }

    /// Appends to a file, and creates it if needed; its directory must exist. Concurrent appends
    /// lose no data. If the disk is full or the host is killed, a part of the content may have been
    /// written.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<(), FolderError> {
        if content.len() > MAX_READ_OR_WRITE_BYTES {
            return Err(FolderError::TooMuch(format!(
                "at most {MAX_READ_OR_WRITE_BYTES} bytes are added in one call"
            )));
        }
        let place = self.resolve_path(path, true)?;
        let how = FolderOpenOptions {
            write: true,
            create: true,
            append: true,
            ..FolderOpenOptions::default()
        };
        let opened = place.open_file_or_folder(how)?;
        if opened.is_folder {
            return Err(Errno::ISDIR.into());
        }
        let file = Arc::new(opened.file);
        let Some(usage) = place.data_folder_usage_counter() else {
            return Ok((&*file).write_all(content)?);
        };
        // Another call that truncates or removes the file at the same time must not free quota that
        // this write still uses.
        usage.register_open_file(&file);
        let _writing = usage.register_write_in_progress(&file);
        usage.charge_open_file_growth(content.len() as u64)?;
        let mut left = content;
        let written = write_all(&file, &mut left);
        usage.subtract_freed_usage(left.len() as u64, 0);
        Ok(written?)
    }
}

/// Writes all bytes of `left`. After an error, `left` contains the bytes that were not written.
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
