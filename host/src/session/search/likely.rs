//! Selects the sessions that may contain a text, by scanning the bytes of their files on several
//! threads.
//!
//! Most sessions do not contain the text, and one pass over the bytes of a complete file costs much
//! less than reading its lines. A session whose file cannot be read counts as likely, so that the
//! search reports the error. Start from [`flag_possibly_matching_sessions`].

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::values::values_contain_text;
use super::{MAX_SEARCHED_SUBAGENT_DEPTH, SessionSearchPattern};
use crate::session::children::{self, SUBAGENTS_FOLDER_NAME};
use crate::session::guarded;
use crate::session::log::SESSION_FILE_NAME;

/// Maximum size, in bytes, of a file that is scanned completely. A session with a larger file is
/// assumed to contain the text.
const MAX_FULLY_SCANNED_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of threads that scan files at the same time.
const MAX_FILE_SCAN_THREADS: usize = 8;

/// Returns whether each session may contain the text, in the order of `folders`.
pub(super) fn flag_possibly_matching_sessions(
    folders: &[(String, PathBuf)],
    wanted: &SessionSearchPattern,
) -> Vec<bool> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let n_each = folders
        .len()
        .div_ceil(n_threads.min(MAX_FILE_SCAN_THREADS))
        .max(1);
    std::thread::scope(|scope| {
        let parts = folders.chunks(n_each).map(|part| {
            let look = move || {
                let mut bytes = Vec::new();
                let of = |(_, folder): &(String, PathBuf)| {
                    folder_may_contain_text(folder, wanted, &mut bytes, 0)
                };
                part.iter().map(of).collect::<Vec<bool>>()
            };
            (part.len(), scope.spawn(look))
        });
        let parts: Vec<_> = parts.collect();
        let of_part =
            |(n_sessions, look): (usize, std::thread::ScopedJoinHandle<'_, Vec<bool>>)| {
                look.join().unwrap_or_else(|_| vec![true; n_sessions])
            };
        parts.into_iter().flat_map(of_part).collect()
    })
}

/// Whether the session in a folder, or the session of one of its subagents, may contain the text.
/// `bytes` is a buffer that is reused for all files.
fn folder_may_contain_text(
    folder: &Path,
    wanted: &SessionSearchPattern,
    bytes: &mut Vec<u8>,
    depth: usize,
) -> bool {
    match guarded::open_regular_file(&folder.join(SESSION_FILE_NAME)) {
        Ok((file, meta)) => {
            let is_likely = meta.len() > MAX_FULLY_SCANNED_FILE_BYTES
                || file_may_contain_text(file, wanted, bytes);
            if is_likely {
                return true;
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) => return true,
    }
    if values_contain_text(folder, wanted, bytes) {
        return true;
    }
    let mut agents = match depth {
        MAX_SEARCHED_SUBAGENT_DEPTH => Vec::new(),
        _ => children::stored_agent_ids(folder),
    }
    .into_iter();
    agents.any(|agent| {
        folder_may_contain_text(
            &folder.join(SUBAGENTS_FOLDER_NAME).join(agent),
            wanted,
            bytes,
            depth + 1,
        )
    })
}

fn file_may_contain_text(file: File, wanted: &SessionSearchPattern, bytes: &mut Vec<u8>) -> bool {
    bytes.clear();
    // The file may have grown since its size was checked.
    match file.take(MAX_FULLY_SCANNED_FILE_BYTES).read_to_end(bytes) {
        Ok(_) => wanted.may_match_line(bytes),
        Err(_) => true,
    }
}
