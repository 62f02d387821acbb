//! Repairs a session: removes unreadable lines and superfluous files, and keeps a copy of them.
//!
//! Everything that is removed is kept in `kept/TIME` of the session's folder, for a changed file of
//! entries the complete old file. The new file is written next to the old one and renamed over it,
//! so after an interrupted repair the file is either the old or the new one. The other entries keep
//! their bytes, except for the `parent` of an entry that did not refer to the one before it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{SessionExamination, examine_session};
use crate::disk::{create_private_folder, rename_without_replace};
use crate::session::entry::Entry;
use crate::session::guarded::{self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use crate::session::log::{SESSION_FILE_NAME, fsync_folder, lock_session};
use crate::session::parts::{REMOVED_DATA_FOLDER_NAME, SessionFileKind, list_session_files};
use crate::session::{Error, SessionStore};

/// Repairs all faults of a session that can be repaired, and returns messages about the repairs.
/// Fails if a process has the session open, or if the session has a newer version of the format.
pub fn repair_session(store: &SessionStore, id: &str) -> Result<Vec<String>, Error> {
    let folder = store.session_folder(id)?;
    let lock = lock_session(&folder)?;
    // Examine again under the lock, because earlier findings may be outdated.
    let found = examine_session(store, id)?;
    let mut done = Vec::new();
    if let Some(version) = found.newer {
        let path = folder.join(SESSION_FILE_NAME);
        return Err(Error::Newer {
            path,
            found: version,
        });
    }
    if found.faults.iter().any(|fault| fault.repair.is_some()) {
        let kept = folder.join(REMOVED_DATA_FOLDER_NAME);
        if kept.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Err(Error::write_error(
                &kept,
                std::io::Error::other("it is not a folder; remove it"),
            ));
        }
        let kept = kept.join(crate::clock::new_uuid_v7());
        create_private_folder(&kept).map_err(|source| Error::write_error(&kept, source))?;
        repair_entry_files(&folder, &kept, &found, &mut done)?;
        move_superfluous_files(&folder, &kept, &found, &mut done)?;
        fsync_folder(&folder);
    }
    let _ = lock.unlock();
    Ok(done)
}

/// Repairs each file of entries that has a repairable fault.
fn repair_entry_files(
    folder: &Path,
    kept: &Path,
    found: &SessionExamination,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    let all = list_session_files(folder).map_err(|source| Error::read_error(folder, source))?;
    // Do not repair files that are moved to the folder `kept` anyway.
    let is_aside = |path: &str| {
        let mut asides = found.aside.iter();
        asides.any(|aside| Path::new(path).starts_with(aside))
    };
    let is_needed = |kind, path: &str| kind == SessionFileKind::Entries && !is_aside(path);
    for part in all.iter().filter(|part| is_needed(part.kind, &part.path)) {
        let path = folder.join(&part.path);
        let examined = super::chain::examine_entry_file(&path);
        let needs = examined.is_ok_and(|read| {
            let mut faults = read.faults.iter();
            faults.any(|fault| fault.repair.is_some())
        });
        if !needs {
            continue;
        }
        let copy = kept.join(&part.path);
        let above = copy.parent().unwrap_or(kept);
        create_private_folder(above).map_err(|source| Error::write_error(above, source))?;
        guarded::copy_regular_file(&path, &copy)?;
        let n_out = rewrite_without_unreadable_lines(&path)?;
        done.push(format!(
            "{}: {n_out} unreadable lines were removed and the others linked again; the file as it was is kept in {}",
            part.path,
            copy.display()
        ));
    }
    Ok(())
}

/// Rewrites a file of entries without the unreadable lines, and returns the number of these lines.
fn rewrite_without_unreadable_lines(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::write_error(path, source);
    let (file, _) =
        guarded::open_regular_file(path).map_err(|source| Error::read_error(path, source))?;
    let mut lines = LimitedLineReader::new(file, MAX_SESSION_LINE_BYTES);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new()
        .prefix(".session.jsonl.")
        .suffix(".half")
        .tempfile_in(folder)
        .map_err(failed)?;
    let (mut n_out, mut last) = (0, None);
    while let Some(line) = lines.next().map_err(failed)? {
        let (LimitedFileLine::Whole(text) | LimitedFileLine::Torn(text)) = line else {
            return Err(failed(std::io::Error::other(
                "a line is too long to be read; nothing was changed",
            )));
        };
        let Ok(entry) = Entry::parse_line(text) else {
            n_out += 1;
            continue;
        };
        let line = match entry.parent == last {
            true => text.to_vec(),
            false => replace_parent_entry_id(text, &entry, last.as_deref()),
        };
        new.write_all(&line)
            .and_then(|()| new.write_all(b"\n"))
            .map_err(failed)?;
        last = Some(entry.id);
    }
    new.as_file().sync_all().map_err(failed)?;
    new.persist(path).map_err(|error| failed(error.error))?;
    Ok(n_out)
}

/// Returns the line of an entry with its `parent` changed to `last`. All other bytes stay the same;
/// if the line is not formatted as this program writes it, only all other values stay the same.
fn replace_parent_entry_id(text: &[u8], entry: &Entry, last: Option<&str>) -> Vec<u8> {
    let is_right = |line: &Vec<u8>| {
        let parsed = Entry::parse_line(line);
        parsed.is_ok_and(|own| own.parent.as_deref() == last && own.body == entry.body)
    };
    let changed = replace_parent_id_bytes(text, entry, last).filter(is_right);
    let changed = changed.or_else(|| reserialize_with_parent_id(text, last).filter(is_right));
    changed.unwrap_or_else(|| text.to_vec())
}

/// Replaces the first text in a line that is formatted like the field `parent` of its entry as this
/// program writes it; `None` if there is no such text. The caller must check the returned line,
/// because the text may be part of another value.
fn replace_parent_id_bytes(text: &[u8], entry: &Entry, last: Option<&str>) -> Option<Vec<u8>> {
    let json = |value: Option<&str>| serde_json::to_string(&value).unwrap_or_default();
    let old = format!("\"parent\":{}", json(entry.parent.as_deref()));
    let at = memchr::memmem::find(text, old.as_bytes())?;
    let mut line = text.get(..at)?.to_vec();
    line.extend_from_slice(format!("\"parent\":{}", json(last)).as_bytes());
    line.extend_from_slice(text.get(at + old.len()..)?);
    Some(line)
}

/// Parses a line, sets its field `parent` to `last`, and writes the line again.
fn reserialize_with_parent_id(text: &[u8], last: Option<&str>) -> Option<Vec<u8>> {
    let mut fields: Map<String, Value> = serde_json::from_slice(text).ok()?;
    fields.insert("parent".to_owned(), last.into());
    serde_json::to_vec(&fields).ok()
}

/// Moves files and sessions of subagents that do not belong to the session to the folder `kept`.
fn move_superfluous_files(
    folder: &Path,
    kept: &Path,
    found: &SessionExamination,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    for path in &found.aside {
        let to = kept.join(path);
        let above: PathBuf = to.parent().unwrap_or(kept).to_owned();
        create_private_folder(&above).map_err(|source| Error::write_error(&above, source))?;
        let from = folder.join(path);
        match rename_without_replace(&from, &to) {
            Ok(()) => done.push(format!("{path} was moved to {}", to.display())),
            // The file is missing because its folder has already been moved.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::write_error(&to, source)),
        }
    }
    Ok(())
}
