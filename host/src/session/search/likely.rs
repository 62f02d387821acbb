//! Sessions that may hold a text: a scan of the bytes of their files, on several threads.
//!
//! Most sessions do not hold the text, and one pass over the bytes of a whole file costs much less
//! than reading its lines. Whatever is odd about a file is left to the search, which reports it.
//! Start from [`likely_sessions`].

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::values::values_hold;
use super::{MAX_DEPTH, Wanted};
use crate::session::children::{self, AGENTS};
use crate::session::guarded;
use crate::session::log::FILE;

/// Size of the largest file that is read whole, in bytes. A larger one is left to the search.
const MAX_WHOLE_BYTES: u64 = 16 << 20;

/// Maximum number of threads.
const MAX_THREADS: usize = 8;

/// Returns for each session whether it may hold the text, in the order of `folders`.
pub(super) fn likely_sessions(folders: &[(String, PathBuf)], wanted: &Wanted) -> Vec<bool> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let n_each = folders.len().div_ceil(n_threads.min(MAX_THREADS)).max(1);
    std::thread::scope(|scope| {
        let parts = folders.chunks(n_each).map(|part| {
            let look = move || {
                let mut bytes = Vec::new();
                let of = |(_, folder): &(String, PathBuf)| may_hold(folder, wanted, &mut bytes, 0);
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

/// Whether the session in a folder, or one below it, may hold the text. `bytes` is a buffer.
fn may_hold(folder: &Path, wanted: &Wanted, bytes: &mut Vec<u8>, depth: usize) -> bool {
    match guarded::open(&folder.join(FILE)) {
        Ok((file, meta)) => {
            let is_likely = meta.len() > MAX_WHOLE_BYTES || file_may_hold(file, wanted, bytes);
            if is_likely {
                return true;
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) => return true,
    }
    if values_hold(folder, wanted, bytes) {
        return true;
    }
    let mut agents = match depth {
        MAX_DEPTH => Vec::new(),
        _ => children::stored_agents(folder),
    }
    .into_iter();
    agents.any(|agent| may_hold(&folder.join(AGENTS).join(agent), wanted, bytes, depth + 1))
}

fn file_may_hold(file: File, wanted: &Wanted, bytes: &mut Vec<u8>) -> bool {
    bytes.clear();
    // The file may grow meanwhile.
    match file.take(MAX_WHOLE_BYTES).read_to_end(bytes) {
        Ok(_) => wanted.may_be_in(bytes),
        Err(_) => true,
    }
}
