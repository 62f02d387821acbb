//! Writes events to a file as lines of JSON, in the format of `--json`, for programs that follow a
//! session.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit_code::Usage;
use super::render;
use rind_lib::event::{NumberedEvent, Stamped};

/// A file to which events are appended. After a failed write, nothing more is written.
pub(super) struct EventLogFile {
    path: PathBuf,
    file: Option<File>,
    /// Number of the line that this process wrote last, from 1.
    n_lines: u64,
}

impl EventLogFile {
    /// Opens the file. A missing file is created, readable by its owner only.
    pub(super) fn open_file(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(0o600).open(path);
        let file =
            opened.with_context(|| Usage(format!("cannot open {} of --events", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
            n_lines: 0,
        })
    }

    /// Appends an event. A write error is reported once, and the turn continues.
    pub(super) fn write_event(&mut self, event: &Stamped) {
        let Some(file) = &mut self.file else {
            return;
        };
        self.n_lines += 1;
        let numbered = NumberedEvent {
            stamped: event,
            n: self.n_lines,
        };
        let line = serde_json::to_string(&numbered).map_err(std::io::Error::from);
        let written = line.and_then(|line| append_line_atomically(file, &(line + "\n")));
        if let Err(error) = written {
            self.file = None;
            render::print_warning(&format!(
                "cannot write to {} of --events; this event and later ones are missing there: {error}",
                self.path.display()
            ));
        }
    }
}

/// Appends a complete line. Truncates the file to its previous length after a partial write,
/// because readers must not find half a line.
fn append_line_atomically(file: &mut File, line: &str) -> std::io::Result<()> {
    let before = file.metadata().ok().filter(|found| found.is_file());
    let written = file.write_all(line.as_bytes());
    if written.is_err()
        && let Some(before) = before
        && let Ok(now) = file.metadata()
        && now.len().saturating_sub(before.len()) < line.len() as u64
    {
        // Ignore an error: the partial line then remains in the file.
        let _ = file.set_len(before.len());
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_and_a_full_disk_leaves_no_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut file = EventLogFile::open_file(&path).unwrap().file.unwrap();
        append_line_atomically(&mut file, "one\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        assert!(append_line_atomically(&mut full, "two\n").is_err());
        assert!(EventLogFile::open_file(folder.path()).is_err());
    }
}
