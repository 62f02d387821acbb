//! Searches large values that plugins keep in a session, such as outputs of tools that were too
//! long for the conversation.
//!
//! A large value is stored in a file of its own, so the lines of the session do not contain its
//! text. Small values are stored in the lines; most of them are bookkeeping of plugins, and they
//! are not searched. Start from [`search_plugin_values`].

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{
    SearchMatch, SessionSearchCallback, SessionSearchHitOrNotice, SessionSearchPattern,
    snippet_around_match,
};
use crate::session::blobs::is_hash_name;
use crate::session::entry::{Body, Entry};
use crate::session::guarded::{self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use crate::session::log::SESSION_FILE_NAME;
use crate::session::state::MAX_STATE_VALUE_BYTES;
use crate::session::storage::files::LARGE_STATE_VALUES_FOLDER_NAME;

/// Returns name and path of each file in a session's folder that stores a large state value, in the
/// order of the names.
fn list_plugin_value_files(folder: &Path) -> Vec<(String, PathBuf)> {
    let folder = folder.join(LARGE_STATE_VALUES_FOLDER_NAME);
    if !guarded::is_real_folder(&folder).unwrap_or_default() {
        return Vec::new();
    }
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let named = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        is_hash_name(&name).then(|| (name, file.path()))
    });
    let mut named: Vec<(String, PathBuf)> = named.collect();
    named.sort();
    named
}

/// Reads the file of a large value into `bytes`; `None` if it cannot be read, which `rind session
/// doctor` reports.
fn read_plugin_value_file(path: &Path, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.clear();
    let (file, _) = guarded::open_regular_file(path).ok()?;
    file.take(MAX_STATE_VALUE_BYTES as u64)
        .read_to_end(bytes)
        .ok()?;
    Some(())
}

/// Whether a large value of the session in a folder contains the text. `bytes` is a buffer that is
/// reused for all files.
pub(super) fn values_contain_text(
    folder: &Path,
    wanted: &SessionSearchPattern,
    bytes: &mut Vec<u8>,
) -> bool {
    let mut files = list_plugin_value_files(folder).into_iter();
    files.any(|(_, path)| {
        read_plugin_value_file(&path, bytes).is_some() && wanted.text.is_match(bytes)
    })
}

/// Searches the large values of the session in a folder.
pub(super) fn search_plugin_values(
    id: &str,
    folder: &Path,
    wanted: &SessionSearchPattern,
    tell: SessionSearchCallback<'_>,
) -> ControlFlow<()> {
    let mut bytes = Vec::new();
    for (name, path) in list_plugin_value_files(folder) {
        if read_plugin_value_file(&path, &mut bytes).is_none() {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some(at) = wanted.text.find(text.as_bytes()) else {
            continue;
        };
        // Skip a value that no entry refers to, such as one whose entry was never written.
        let Some(owner) = find_last_value_reference(&folder.join(SESSION_FILE_NAME), &name) else {
            continue;
        };
        let [before, found, after] = snippet_around_match(&text, at.range());
        tell(SessionSearchHitOrNotice::Hit(SearchMatch {
            session: id.to_owned(),
            turn: owner.turn,
            line: owner.line,
            time: owner.time,
            role: format!("value {} of plugin {}", owner.key, owner.plugin),
            before,
            found,
            after,
        }))?;
    }
    ControlFlow::Continue(())
}

/// Plugin and key that a large value belongs to, and the position of the entry that stored the
/// value.
struct PluginValueReference {
    plugin: String,
    key: String,
    turn: u32,
    line: u64,
    time: i64,
}

/// Finds the last entry in the session file `path` that refers to the value `name`.
fn find_last_value_reference(path: &Path, name: &str) -> Option<PluginValueReference> {
    let (file, _): (File, _) = guarded::open_regular_file(path).ok()?;
    let mut lines = LimitedLineReader::new(file, MAX_SESSION_LINE_BYTES);
    let (mut turn, mut owner) = (0, None);
    while let Ok(Some(line)) = lines.next() {
        let (LimitedFileLine::Whole(text) | LimitedFileLine::Torn(text)) = line else {
            continue;
        };
        let is_start = super::find_entry_type(text) == b"turn-start";
        if !is_start && memchr::memmem::find(text, name.as_bytes()).is_none() {
            continue;
        }
        let Ok(entry) = Entry::parse_line(text) else {
            continue;
        };
        match entry.body {
            Body::TurnStart { turn: started, .. } => turn = started,
            Body::State {
                plugin,
                key,
                blob: Some(blob),
                ..
            } if blob == name => {
                owner = Some(PluginValueReference {
                    plugin,
                    key,
                    turn,
                    line: lines.number,
                    time: entry.time,
                });
            }
            _ => {}
        }
    }
    owner
}
