//! Exports a session to one file and imports it again, byte for byte.
//!
//! Owns the two formats of an exported file. If the session consists only of complete lines, the
//! file is a copy of its `session.jsonl`. If the session has blobs, subagents or an incomplete last
//! line, the file is a tar archive of its folder, with `ID/session.jsonl` and so on. The lock,
//! checkpoints, leftovers of interrupted writes and foreign files are not exported. Start from
//! [`prepare_session_export`] and [`import_session`].

mod import;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

pub use import::{ImportedSessionIdAndNotices, import_session};

use super::guarded;
use super::log::SESSION_FILE_NAME;
use super::moved::{SessionPartsCopySequence, copy_session};
use super::parts::{SessionFile, SessionFileKind, list_session_files};
use super::storage::files::FileSessionBackend;
use super::{Error, SessionStore};
use crate::disk::TemporaryFolder;

/// Format of an exported session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionExportFormat {
    /// Copy of the file `session.jsonl`.
    Lines,
    /// A tar archive of the folder of the session.
    Archive,
}

/// A session that is about to be exported.
#[derive(Debug)]
pub struct SessionToExport {
    id: String,
    folder: std::path::PathBuf,
    parts: Vec<SessionFile>,
    form: SessionExportFormat,
    /// Messages about files that are not exported: files in the session's folder that no version of
    /// Rind creates.
    left_out: Vec<String>,
    /// Temporary folder with a copy of the session, if the store does not keep sessions in files.
    /// Dropping this value removes the folder.
    _aside: Option<TemporaryFolder>,
}

impl SessionToExport {
    /// Returns the format in which the session is written.
    #[must_use]
    pub fn export_format(&self) -> SessionExportFormat {
        self.form
    }

    /// Returns messages about files in the session's folder that are not exported, because Rind
    /// does not create such files.
    #[must_use]
    pub fn messages_about_omitted_files(&self) -> &[String] {
        &self.left_out
    }

    /// Writes the session to `out`. Entries that are appended while a file is read are not
    /// included.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        if self.form == SessionExportFormat::Lines {
            return self
                .write_session_lines(out)
                .map_err(|source| self.session_export_error(source));
        }
        let mut archive = tar::Builder::new(out);
        for part in &self.parts {
            let path = self.folder.join(&part.path);
            let (file, meta) =
                guarded::open_regular_file(&path).map_err(|e| Error::read_error(&path, e))?;
            let mut rest = FixedLengthReader {
                file,
                left: meta.len(),
            };
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(0o600);
            header.set_size(meta.len());
            let name = format!("{}/{}", self.id, part.path);
            archive
                .append_data(&mut header, name, &mut rest)
                .map_err(|source| self.session_export_error(source))?;
        }
        let ended = archive.into_inner().map(drop);
        ended.map_err(|source| self.session_export_error(source))
    }

    fn write_session_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let (file, meta) = guarded::open_regular_file(&self.folder.join(SESSION_FILE_NAME))?;
        let mut rest = FixedLengthReader {
            file,
            left: meta.len(),
        };
        io::copy(&mut rest, out).map(drop)
    }

    fn session_export_error(&self, source: io::Error) -> Error {
        Error::Bundle {
            what: format!("the session {}", self.id),
            why: source.to_string(),
        }
    }
}

/// Reader of a file that may change meanwhile. Reads exactly as many bytes as the file had when it
/// was opened, and fails if the file has become shorter.
struct FixedLengthReader {
    file: File,
    left: u64,
}

impl Read for FixedLengthReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = (&mut self.file).take(self.left).read(buffer)?;
        if n_read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other(
                "a file became shorter while it was read; try again",
            ));
        }
        self.left -= n_read as u64;
        Ok(n_read)
    }
}

/// Writes a private file to `path`: `write` writes to a temporary file, which is synced to the disk
/// and then renamed. So the file at `path` is always complete.
pub fn write_private_file_atomically(
    path: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |source| Error::write_error(path, source);
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(failed(io::Error::other(
            "this name exists and is not a regular file; choose another name",
        )));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".rind-export-")
        .tempfile_in(folder)
        .map_err(failed)?;
    write(&mut file)?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path)
        .map(drop)
        .map_err(|error| failed(error.error))
}

/// Prepares the export of a session: lists its files, and chooses the format. Takes no lock, so the
/// session may be open.
///
/// If the store keeps no files, the session is copied to temporary files first.
pub fn prepare_session_export(store: &SessionStore, id: &str) -> Result<SessionToExport, Error> {
    if id.contains('/') {
        return Err(Error::Bundle {
            what: format!("`{id}`"),
            why: "subagents are exported with their session; omit `/agents/…`".to_owned(),
        });
    }
    if store.require_file_backend().is_err() {
        return copy_session_for_export(store, id);
    }
    let folder = store.session_folder(id)?;
    let mut all =
        list_session_files(&folder).map_err(|source| Error::read_error(&folder, source))?;
    // Read the entries first, because the session may be open: the files to which an entry refers
    // were written before the entry, so they exist when they are read later.
    all.sort_by_key(|part| part.kind);
    let mut left_out = Vec::new();
    all.retain(|part| match part.kind {
        SessionFileKind::Entries | SessionFileKind::Content | SessionFileKind::State => true,
        // Checkpoints are useful only with the workspace on this machine.
        SessionFileKind::Lock | SessionFileKind::Left | SessionFileKind::Checkpoint => false,
        SessionFileKind::Foreign | SessionFileKind::Odd => {
            left_out.push(format!(
                "{} is left out, because it is not one of the files of a session",
                folder.join(&part.path).display()
            ));
            false
        }
    });
    let is_plain = all.len() == 1 && ends_with_line_feed(&folder.join(SESSION_FILE_NAME))?;
    let form = match is_plain {
        true => SessionExportFormat::Lines,
        false => SessionExportFormat::Archive,
    };
    Ok(SessionToExport {
        id: id.to_owned(),
        folder,
        parts: all,
        form,
        left_out,
        _aside: None,
    })
}

/// Prepares the export of a session in a store without files, through a copy in temporary files.
fn copy_session_for_export(store: &SessionStore, id: &str) -> Result<SessionToExport, Error> {
    let at = store.session_address(id)?;
    let (aside, files) = create_temporary_store()?;
    let from = (&**store.session_backend(), &at);
    copy_session(from, (&files, &at), SessionPartsCopySequence::LinesFirst)?;
    let bundle = prepare_session_export(&SessionStore::from_files(files), id)?;
    Ok(SessionToExport {
        _aside: Some(aside),
        ..bundle
    })
}

/// Creates a store of files in a temporary folder, and returns both. Dropping the folder removes
/// the files.
fn create_temporary_store() -> Result<(TemporaryFolder, FileSessionBackend), Error> {
    let folder = TemporaryFolder::new(".rind-sessions-").map_err(|source| Error::Bundle {
        what: "a session in a store without files".to_owned(),
        why: format!("no temporary folder can be made: {source}"),
    })?;
    let files = FileSessionBackend::new(folder.path()).without_disk_sync();
    Ok((folder, files))
}

/// Whether a file ends with a line feed.
fn ends_with_line_feed(path: &Path) -> Result<bool, Error> {
    let failed = |source| Error::read_error(path, source);
    let (mut file, meta) = guarded::open_regular_file(path).map_err(failed)?;
    if meta.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))
        .and_then(|_| file.read_exact(&mut last))
        .map_err(failed)?;
    Ok(last == *b"\n")
}
