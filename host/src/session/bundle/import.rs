//! Imports an exported session into the store.
//!
//! The file is untrusted. It is unpacked into a temporary folder of the store, checked there and
//! renamed, so that an interrupted import leaves nothing that looks like a session. An import is
//! refused for an id that already exists, names that lead outside the folder or occur twice,
//! anything but regular files, truncated or damaged archives, blobs whose content does not match
//! their name, and newer versions of the format.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tar::{Archive, EntryType};

use crate::disk::{
    TemporaryFolder, create_private_folder, open_if_present, rename_without_replace,
};
use crate::paths::file_stem;
use crate::session::blobs::compute_hash_name;
use crate::session::entry::{Body, Entry, SESSION_FORMAT_VERSION};
use crate::session::guarded::{
    self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES, is_assignable_session_id,
    is_session_id,
};
use crate::session::log::{SESSION_FILE_NAME, fsync_folder, set_private_permissions};
use crate::session::moved::{SessionPartsCopySequence, copy_session};
use crate::session::parts::{SessionFileKind, list_session_files, session_file_kind};
use crate::session::{Error, SessionStore};

use super::create_temporary_store;

/// Prefix of the names of temporary folders in the folder of all sessions.
const TEMPORARY_IMPORT_FOLDER_PREFIX: &str = ".import-";

/// Size of a block of a tar archive, in bytes.
const TAR_BLOCK_BYTES: u64 = 512;

/// Maximum number of files in an imported archive.
const MAX_ARCHIVE_FILES: usize = 100_000;

/// Id of an imported session, and the notices about its import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedSessionIdAndNotices {
    /// Id of the imported session.
    pub id: String,
    /// Notices about unreadable lines, which are kept unchanged.
    pub notices: Vec<String>,
}

/// Imports an exported session into the store. The session gets the id `id`; if `id` is `None`, the
/// id in the archive, or the base name of a file that is not an archive.
pub fn import_session(
    store: &SessionStore,
    path: &Path,
    id: Option<&str>,
) -> Result<ImportedSessionIdAndNotices, Error> {
    let refused = |why: String| Error::Bundle {
        what: format!("{}", path.display()),
        why,
    };
    if store.require_file_backend().is_err() {
        return import_through_temporary_copy(store, path, id);
    }
    let opened = open_if_present(path).map_err(|source| Error::read_error(path, source))?;
    let mut file = opened.ok_or_else(|| refused("there is no such file".to_owned()))?;
    let root = store.require_file_backend()?.root_folder();
    create_private_folder(root).map_err(|source| Error::write_error(root, source))?;
    let aside = TemporaryFolder::new_in(TEMPORARY_IMPORT_FOLDER_PREFIX, root);
    let aside = aside.map_err(|source| Error::write_error(root, source))?;
    let form = is_session_archive(&mut file).map_err(|source| Error::read_error(path, source))?;
    let own = match form {
        true => unpack_archive(file, aside.path()).map_err(refused)?,
        false => {
            let stem = file_stem(path);
            let own = id.map_or(stem, str::to_owned);
            check_session_id(&own).map_err(refused)?;
            copy_session_lines(file, &aside.path().join(&own)).map_err(refused)?;
            own
        }
    };
    let new = id.unwrap_or(&own);
    check_session_id(new).map_err(refused)?;
    let (from, to) = (aside.path().join(&own), root.join(new));
    let notices = check_unpacked_session(&from, !form).map_err(|why| match why {
        SessionImportRefusal::Newer(found) => Error::Newer {
            path: path.to_owned(),
            found,
        },
        SessionImportRefusal::Text(why) => refused(why),
    })?;
    fsync_session_files(&from);
    rename_without_replace(&from, &to).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => refused(format!(
            "a session {new}, or a file of that name, already exists; pass another id with --id"
        )),
        _ => Error::write_error(&to, error),
    })?;
    fsync_folder(root);
    Ok(ImportedSessionIdAndNotices {
        id: new.to_owned(),
        notices,
    })
}

/// Imports an exported session into a store that does not keep sessions in files: imports it into
/// temporary files with all checks, and copies the session from there to the store.
fn import_through_temporary_copy(
    store: &SessionStore,
    path: &Path,
    id: Option<&str>,
) -> Result<ImportedSessionIdAndNotices, Error> {
    let (_aside, files) = create_temporary_store()?;
    let imported = import_session(&SessionStore::from_files(files.clone()), path, id)?;
    let at = store.session_address(&imported.id)?;
    if store.session_backend().contains(&at) {
        return Err(at.already_exists_error());
    }
    let to = (&**store.session_backend(), &at);
    copy_session((&files, &at), to, SessionPartsCopySequence::LinesLast)?;
    Ok(imported)
}

fn check_session_id(id: &str) -> Result<(), String> {
    match is_assignable_session_id(id) {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not a session id (letters, digits, `-`, `_` and `.`); pass an id with --id",
            crate::text::escape_and_truncate_line(id, 96)
        )),
    }
}

/// Whether a file is a tar archive. Seeks to the beginning of the file.
fn is_session_archive(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(TAR_BLOCK_BYTES).read_to_end(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(start.get(257..262) == Some(b"ustar"))
}

fn create_private_file(path: &Path) -> io::Result<File> {
    set_private_permissions(OpenOptions::new().write(true).create_new(true)).open(path)
}

fn copy_session_lines(mut file: File, folder: &Path) -> Result<(), String> {
    let copied = create_private_folder(folder)
        .and_then(|()| create_private_file(&folder.join(SESSION_FILE_NAME)))
        .and_then(|mut copy| io::copy(&mut file, &mut copy));
    copied.map(drop).map_err(|error| error.to_string())
}

/// Unpacks an archive into a folder, and returns the id of the session in it.
fn unpack_archive(mut file: File, into: &Path) -> Result<String, String> {
    check_archive_end(&mut file)?;
    let mut archive = Archive::new(BufReader::new(file));
    let torn = |error: io::Error| format!("the archive is cut off or damaged: {error}");
    let mut id: Option<String> = None;
    let mut seen = BTreeSet::new();
    for entry in archive.entries().map_err(torn)? {
        let mut entry = entry.map_err(torn)?;
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path =
            path.map_err(|_| "the archive contains an entry whose name is not UTF-8".to_owned())?;
        let shown = crate::text::escape_and_truncate_line(&path, 200);
        if entry.header().entry_type() != EntryType::Regular {
            return Err(format!("`{shown}` is not a regular file"));
        }
        let (own, below) = path.split_once('/').unwrap_or((&path, ""));
        if !is_session_id(own) {
            return Err(format!("`{shown}` does not begin with the id of a session"));
        }
        if id.get_or_insert_with(|| own.to_owned()) != own {
            return Err(format!(
                "the archive has more than one session: `{shown}` belongs to another one"
            ));
        }
        if !matches!(
            session_file_kind(below),
            SessionFileKind::Entries | SessionFileKind::Content | SessionFileKind::State
        ) {
            return Err(format!("`{shown}` is not a file of a session"));
        }
        if !seen.insert(path.clone()) || seen.len() > MAX_ARCHIVE_FILES {
            return Err(format!(
                "the archive has `{shown}` twice, or more than {MAX_ARCHIVE_FILES} files"
            ));
        }
        // `session_file_kind` accepted the name, so the path stays within the folder.
        let to = into.join(&path);
        let folder = to.parent().unwrap_or(into);
        let written = create_private_folder(folder)
            .and_then(|()| create_private_file(&to))
            .and_then(|mut file| io::copy(&mut entry, &mut file));
        let n_written =
            written.map_err(|error| format!("`{shown}` cannot be unpacked: {error}"))?;
        if n_written != entry.size() {
            return Err(format!("the archive is cut off within `{shown}`"));
        }
    }
    let mut rest = archive.into_inner();
    let mut buffer = [0; 8192];
    loop {
        match rest.read(&mut buffer).map_err(torn)? {
            0 => break,
            n if buffer.iter().take(n).all(|byte| *byte == 0) => {}
            _ => return Err("the archive has data after its end".to_owned()),
        }
    }
    id.ok_or_else(|| "the archive is empty".to_owned())
}

/// Checks that an archive ends with two blocks of zeros, and seeks to its beginning.
fn check_archive_end(file: &mut File) -> Result<(), String> {
    let torn = || "it is cut off: the blocks that end an archive are missing".to_owned();
    let mut last = Vec::new();
    let len = file.seek(SeekFrom::End(0)).map_err(|_| torn())?;
    if len % TAR_BLOCK_BYTES != 0 || len < 2 * TAR_BLOCK_BYTES {
        return Err(torn());
    }
    file.seek(SeekFrom::Start(len - 2 * TAR_BLOCK_BYTES))
        .and_then(|_| file.read_to_end(&mut last))
        .and_then(|_| file.seek(SeekFrom::Start(0)))
        .map_err(|_| torn())?;
    match last.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(torn()),
    }
}

enum SessionImportRefusal {
    Newer(u32),
    Text(String),
}

/// Checks an unpacked session: the version, the first entry, and the content of blobs. Returns
/// messages about unreadable lines; with `is_strict`, such a line is an error.
fn check_unpacked_session(
    folder: &Path,
    is_strict: bool,
) -> Result<Vec<String>, SessionImportRefusal> {
    let text = |error: io::Error| SessionImportRefusal::Text(error.to_string());
    let mut notices = Vec::new();
    let mut has_entries = false;
    for part in list_session_files(folder).map_err(text)? {
        let path = folder.join(&part.path);
        match part.kind {
            SessionFileKind::Entries => {
                has_entries |= part.path == SESSION_FILE_NAME;
                check_session_lines(&path, &part.path, is_strict, &mut notices)?;
            }
            _ => {
                let name = part.path.rsplit('/').next().unwrap_or_default();
                let (mut file, _) = guarded::open_regular_file(&path).map_err(text)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(text)?;
                if compute_hash_name(&bytes) != name {
                    return Err(SessionImportRefusal::Text(format!(
                        "`{}` is corrupt: its hash does not match its name",
                        part.path
                    )));
                }
            }
        }
    }
    match has_entries {
        true => Ok(notices),
        false => Err(SessionImportRefusal::Text(format!(
            "it has no {SESSION_FILE_NAME}"
        ))),
    }
}

fn check_session_lines(
    path: &Path,
    name: &str,
    is_strict: bool,
    notices: &mut Vec<String>,
) -> Result<(), SessionImportRefusal> {
    let text = |error: io::Error| SessionImportRefusal::Text(error.to_string());
    let (file, _) = guarded::open_regular_file(path).map_err(text)?;
    let mut lines = LimitedLineReader::new(file, MAX_SESSION_LINE_BYTES);
    let mut has_header = false;
    loop {
        let mut is_torn = false;
        let parsed = match lines.next().map_err(text)? {
            None => break,
            Some(LimitedFileLine::Whole(line)) => Entry::parse_line(line),
            Some(LimitedFileLine::Torn(line)) => {
                is_torn = true;
                Entry::parse_line(line)
            }
            Some(LimitedFileLine::TooLong(n)) => {
                Err(format!("the line has {n} bytes, which is too many"))
            }
        };
        let number = lines.number;
        match parsed {
            Ok(Entry {
                body: Body::Session { version, .. },
                ..
            }) => {
                if version > SESSION_FORMAT_VERSION {
                    return Err(SessionImportRefusal::Newer(version));
                }
                has_header = true;
            }
            Ok(_) if has_header && !(is_torn && is_strict) => {}
            Ok(_) if is_torn => {
                return Err(SessionImportRefusal::Text(
                    "its last line is cut off".to_owned(),
                ));
            }
            Ok(_) => {
                return Err(SessionImportRefusal::Text(format!(
                    "it is not a session: line {number} of {name} comes before the entry that begins a session"
                )));
            }
            Err(why) if is_strict => {
                return Err(SessionImportRefusal::Text(format!(
                    "the file is cut off, damaged or not a session: line {number} cannot be read: {why}"
                )));
            }
            Err(why) => notices.push(format!("{name}:{number}: this line cannot be read: {why}")),
        }
    }
    match has_header {
        true => Ok(()),
        false => Err(SessionImportRefusal::Text(format!(
            "{name} has no entry that begins a session"
        ))),
    }
}

/// Syncs the files of a folder to the disk. Errors are ignored.
fn fsync_session_files(folder: &Path) {
    let all = list_session_files(folder).unwrap_or_default();
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for part in all {
        let path = folder.join(part.path);
        if let Ok((file, _)) = guarded::open_regular_file(&path) {
            let _ = file.sync_all();
        }
        folders.extend(path.parent().map(Path::to_owned));
    }
    folders.iter().for_each(|folder| fsync_folder(folder));
}
