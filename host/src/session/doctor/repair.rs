//! Repair of a session: takes out what cannot be read and what nothing refers to, and keeps it.
//!
//! Everything that is taken out lies in `kept/TIME` of the session's folder, the whole file of
//! entries among it. The new file of entries is written beside the old one and renamed over it, so
//! a stopped repair leaves the old one or the new one. The bytes of other entries stay, except for
//! the id of the entry before them where the chain was broken.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Examination, examine_session};
use crate::disk::{private_folder, rename_new};
use crate::session::entry::Entry;
use crate::session::guarded::{self, Line, Lines, MAX_LINE_BYTES};
use crate::session::log::{FILE, lock_session, sync_folder};
use crate::session::parts::{KEPT, PartKind, parts};
use crate::session::{Error, SessionStore};

/// Repairs a session as far as it can be, and returns messages about the repairs. Fails if a
/// process has the session open; leaves a session of a newer version alone.
pub fn repair_session(store: &SessionStore, id: &str) -> Result<Vec<String>, Error> {
    let folder = store.folder_of(id)?;
    let lock = lock_session(&folder)?;
    // Examine again under the lock, because earlier findings may be outdated.
    let found = examine_session(store, id)?;
    let mut done = Vec::new();
    if let Some(version) = found.newer {
        let path = folder.join(FILE);
        return Err(Error::Newer {
            path,
            found: version,
        });
    }
    if found.faults.iter().any(|fault| fault.repair.is_some()) {
        let kept = folder.join(KEPT);
        if kept.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Err(Error::write_error(
                &kept,
                std::io::Error::other("it is not a folder; remove it"),
            ));
        }
        let kept = kept.join(crate::clock::new_id());
        private_folder(&kept).map_err(|source| Error::write_error(&kept, source))?;
        files(&folder, &kept, &found, &mut done)?;
        aside(&folder, &kept, &found, &mut done)?;
        sync_folder(&folder);
    }
    let _ = lock.unlock();
    Ok(done)
}

/// Repairs each file of entries that needs it.
fn files(
    folder: &Path,
    kept: &Path,
    found: &Examination,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    let all = parts(folder).map_err(|source| Error::read_error(folder, source))?;
    // Do not repair files that are moved away.
    let is_aside = |path: &str| {
        let mut asides = found.aside.iter();
        asides.any(|aside| Path::new(path).starts_with(aside))
    };
    let is_needed = |kind, path: &str| kind == PartKind::Entries && !is_aside(path);
    for part in all.iter().filter(|part| is_needed(part.kind, &part.path)) {
        let path = folder.join(&part.path);
        let examined = super::chain::read(&path);
        let needs = examined.is_ok_and(|read| {
            let mut faults = read.faults.iter();
            faults.any(|fault| fault.repair.is_some())
        });
        if !needs {
            continue;
        }
        let copy = kept.join(&part.path);
        let above = copy.parent().unwrap_or(kept);
        private_folder(above).map_err(|source| Error::write_error(above, source))?;
        guarded::copy(&path, &copy)?;
        let n_out = rewrite(&path)?;
        done.push(format!(
            "{}: {n_out} unreadable lines were removed and the others linked again; the file as it was is kept in {}",
            part.path,
            copy.display()
        ));
    }
    Ok(())
}

/// Rewrites a file of entries without the unreadable lines, and returns their number.
fn rewrite(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::write_error(path, source);
    let (file, _) = guarded::open(path).map_err(|source| Error::read_error(path, source))?;
    let mut lines = Lines::new(file, MAX_LINE_BYTES);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new()
        .prefix(".session.jsonl.")
        .suffix(".half")
        .tempfile_in(folder)
        .map_err(failed)?;
    let (mut n_out, mut last) = (0, None);
    while let Some(line) = lines.next().map_err(failed)? {
        let (Line::Whole(text) | Line::Torn(text)) = line else {
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
            false => linked(text, &entry, last.as_deref()),
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

/// Returns the line of an entry with a new `parent`. If the line has the format that this program
/// writes, only these bytes change.
fn linked(text: &[u8], entry: &Entry, last: Option<&str>) -> Vec<u8> {
    let json = |value: Option<&str>| serde_json::to_string(&value).unwrap_or_default();
    let old = format!("\"parent\":{}", json(entry.parent.as_deref()));
    let new = format!("\"parent\":{}", json(last));
    let changed = memchr::memmem::find(text, old.as_bytes()).map(|at| {
        let mut line = text.get(..at).unwrap_or_default().to_vec();
        line.extend_from_slice(new.as_bytes());
        line.extend_from_slice(text.get(at + old.len()..).unwrap_or_default());
        line
    });
    let is_right = |line: &Vec<u8>| {
        let parsed = Entry::parse_line(line);
        parsed.is_ok_and(|own| own.parent.as_deref() == last && own.body == entry.body)
    };
    changed.filter(is_right).unwrap_or_else(|| text.to_vec())
}

/// Moves files and subagents that do not belong to the session to the folder `kept`.
fn aside(
    folder: &Path,
    kept: &Path,
    found: &Examination,
    done: &mut Vec<String>,
) -> Result<(), Error> {
    for path in &found.aside {
        let to = kept.join(path);
        let above: PathBuf = to.parent().unwrap_or(kept).to_owned();
        private_folder(&above).map_err(|source| Error::write_error(&above, source))?;
        let from = folder.join(path);
        match rename_new(&from, &to) {
            Ok(()) => done.push(format!("{path} was moved to {}", to.display())),
            // The file was in a folder that was already moved.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::write_error(&to, source)),
        }
    }
    Ok(())
}
