//! Searches all sessions, including those of subagents and archived turns, for a text.
//!
//! Owns which texts of a session can be found, and that a damaged file or line is reported and does
//! not stop the search. A first pass over the bytes of the files excludes the sessions without the
//! text. In the other sessions, a line is parsed only if its bytes may contain the text. There is
//! no index that could become stale. Start from [`search_sessions`].

mod likely;
mod texts;
mod values;

use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;

use super::children::{self, SUBAGENTS_FOLDER_NAME};
use super::entry::{Body, Entry};
use super::guarded::{self, LimitedFileLine, LimitedLineReader, MAX_SESSION_LINE_BYTES};
use super::head::find_entry_type;
use super::log::SESSION_FILE_NAME;
use super::{Error, SessionStore};

/// Maximum depth of nested subagents that are searched.
const MAX_SEARCHED_SUBAGENT_DEPTH: usize = 8;

/// Number of sessions in one batch. The batch is small, so that the first matches are reported
/// soon.
const SESSIONS_PER_SEARCH_BATCH: usize = 64;

/// Maximum number of bytes that a snippet shows before and after a match.
const MAX_SNIPPET_CONTEXT_BYTES: usize = 60;

/// Text to search for in sessions, as compiled patterns.
#[derive(Clone, Debug)]
pub struct SessionSearchPattern {
    /// Pattern for the decoded text of an entry.
    text: Regex,
    /// Pattern for the undecoded JSON of a line, in which special characters of a text are escaped.
    line: Regex,
}

/// Place in a session where the searched text was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchMatch {
    /// Id of the session; `ID/agents/AGENT` for a subagent or an archived turn.
    pub session: String,
    /// Number of the turn, 0 before the first.
    pub turn: u32,
    /// Number of the line in the session file.
    pub line: u64,
    /// Time of the entry, in milliseconds since 1970.
    pub time: i64,
    /// Author or origin of the text: `user`, `assistant`, `call NAME`, `result NAME`, and others.
    pub role: String,
    /// Text before the match on the same line, truncated.
    pub before: String,
    /// Matched text.
    pub found: String,
    /// Text after the match on the same line, truncated.
    pub after: String,
}

/// Match or notice that a search reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSearchHitOrNotice {
    /// Place where the searched text was found.
    Hit(SearchMatch),
    /// Message about a file or a line that cannot be read.
    Notice(String),
}

impl SessionSearchPattern {
    /// Creates a case-insensitive search for a text; `None` if the text is blank or very long.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let regex = |text: &str| {
            RegexBuilder::new(&regex::escape(text))
                .case_insensitive(true)
                .build()
                .ok()
        };
        let escaped = serde_json::to_string(text).ok()?;
        let escaped = escaped.trim_start_matches('"');
        Some(Self {
            text: regex(text)?,
            line: regex(escaped.strip_suffix('"').unwrap_or(escaped))?,
        })
    }

    /// Whether a line may contain the text. This holds for any line with a `\u` escape, because
    /// another program may escape characters that this program writes as they are.
    fn may_match_line(&self, line: &[u8]) -> bool {
        self.line.is_match(line) || memchr::memmem::find(line, b"\\u").is_some()
    }
}

/// Callback that receives each match and notice, and may end the search.
type SessionSearchCallback<'a> = &'a mut dyn FnMut(SessionSearchHitOrNotice) -> ControlFlow<()>;

/// Searches all sessions, the most recently written first. Calls `tell` with each match as soon as
/// it is found; `tell` may end the search.
pub fn search_sessions(
    store: &SessionStore,
    wanted: &SessionSearchPattern,
    tell: &mut dyn FnMut(SessionSearchHitOrNotice) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut folders: Vec<_> = store.session_folders()?;
    let written = |folder: &Path| {
        let meta = folder.join(SESSION_FILE_NAME).symlink_metadata();
        meta.and_then(|meta| meta.modified()).ok()
    };
    folders.sort_by_cached_key(|(_, folder)| std::cmp::Reverse(written(folder)));
    for batch in folders.chunks(SESSIONS_PER_SEARCH_BATCH) {
        let likely = likely::flag_possibly_matching_sessions(batch, wanted);
        let likely = batch.iter().zip(likely).filter(|(_, likely)| *likely);
        for ((id, folder), _) in likely {
            if search_session_folder(id, folder, wanted, tell, 0).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Searches the session in a folder, and then its subagents, in the order of their names.
fn search_session_folder(
    id: &str,
    folder: &Path,
    wanted: &SessionSearchPattern,
    tell: SessionSearchCallback<'_>,
    depth: usize,
) -> ControlFlow<()> {
    let path = folder.join(SESSION_FILE_NAME);
    match guarded::open_regular_file(&path) {
        Ok((file, _)) => search_session_file(id, &path, file, wanted, tell)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => tell(unreadable_file_notice(&path, &error))?,
    }
    values::search_plugin_values(id, folder, wanted, tell)?;
    if depth == MAX_SEARCHED_SUBAGENT_DEPTH {
        return ControlFlow::Continue(());
    }
    for agent in children::stored_agent_ids(folder) {
        let below = folder.join(SUBAGENTS_FOLDER_NAME).join(&agent);
        search_session_folder(
            &format!("{id}/{SUBAGENTS_FOLDER_NAME}/{agent}"),
            &below,
            wanted,
            tell,
            depth + 1,
        )?;
    }
    ControlFlow::Continue(())
}

fn unreadable_file_notice(path: &Path, error: &std::io::Error) -> SessionSearchHitOrNotice {
    SessionSearchHitOrNotice::Notice(format!("{} cannot be searched: {error}", path.display()))
}

fn search_session_file(
    id: &str,
    path: &Path,
    file: File,
    wanted: &SessionSearchPattern,
    tell: SessionSearchCallback<'_>,
) -> ControlFlow<()> {
    let mut lines = LimitedLineReader::new(file, MAX_SESSION_LINE_BYTES);
    let mut turn = 0;
    let mut input = String::new();
    let mut n_damaged = 0_u64;
    loop {
        let (read, is_start) = match lines.next() {
            Ok(None) => break,
            Ok(Some(LimitedFileLine::Whole(line) | LimitedFileLine::Torn(line))) => {
                let is_start = find_entry_type(line) == b"turn-start";
                if !is_start && !wanted.may_match_line(line) {
                    continue;
                }
                (Entry::parse_line(line), is_start)
            }
            Ok(Some(LimitedFileLine::TooLong(n))) => {
                let why = format!(
                    "the line has {n} bytes, at most {MAX_SESSION_LINE_BYTES} are supported"
                );
                (Err(why), false)
            }
            Err(error) => return tell(unreadable_file_notice(path, &error)),
        };
        let entry = match read {
            Ok(entry) => entry,
            Err(why) => {
                n_damaged += 1;
                if n_damaged == 1 {
                    let (path, number) = (path.display(), lines.number);
                    tell(SessionSearchHitOrNotice::Notice(format!(
                        "{path}:{number}: this line cannot be searched: {why}"
                    )))?;
                }
                continue;
            }
        };
        if let Body::TurnStart {
            turn: number,
            input: text,
            ..
        } = &entry.body
        {
            turn = *number;
            input.clone_from(text);
        }
        for (role, text) in texts::searchable_texts(&entry.body) {
            // Skip the user's message, which repeats the input of the turn.
            if role == "user" && !is_start && *text == *input {
                continue;
            }
            if let Some(at) = wanted.text.find(text.as_bytes()) {
                let [before, found, after] = snippet_around_match(&text, at.range());
                tell(SessionSearchHitOrNotice::Hit(SearchMatch {
                    session: id.to_owned(),
                    turn,
                    line: lines.number,
                    time: entry.time,
                    role,
                    before,
                    found,
                    after,
                }))?;
            }
        }
    }
    match n_damaged {
        0 | 1 => ControlFlow::Continue(()),
        n => tell(SessionSearchHitOrNotice::Notice(format!(
            "{}: {} more lines cannot be searched",
            path.display(),
            n - 1
        ))),
    }
}

/// Returns the text before a match, the match, and the text after it. The texts around the match
/// are limited to its line and to [`MAX_SNIPPET_CONTEXT_BYTES`] bytes each.
fn snippet_around_match(text: &str, at: std::ops::Range<usize>) -> [String; 3] {
    let before = text.get(..at.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let start =
        text.ceil_char_boundary(start.max(at.start.saturating_sub(MAX_SNIPPET_CONTEXT_BYTES)));
    let after = text.get(at.end..).unwrap_or_default();
    let end = at.end
        + after
            .find('\n')
            .unwrap_or(after.len())
            .min(MAX_SNIPPET_CONTEXT_BYTES);
    let end = text.floor_char_boundary(end);
    [start..at.start, at.start..at.end, at.end..end]
        .map(|range| text.get(range).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_a_part_of_one_line() {
        let long = "ä".repeat(100);
        let text = format!("first\n{long}needle{long}\nlast");
        let at = text.find("needle").unwrap();
        let [before, found, after] = snippet_around_match(&text, at..at + 6);
        assert_eq!((before.len(), &*found, after.len()), (60, "needle", 60));
        assert_eq!(snippet_around_match("needle", 0..6), ["", "needle", ""]);
        assert_eq!(
            snippet_around_match("a\nneedle\nb", 2..8),
            ["", "needle", ""]
        );
    }

    #[test]
    fn lines_hold_texts_in_json_and_in_other_escapes() {
        let wanted = SessionSearchPattern::new("say \"Ä\"").unwrap();
        assert!(wanted.may_match_line("say \\\"ä\\\"".as_bytes()));
        assert!(wanted.may_match_line(br#"say \"\u00c4\""#));
        assert!(!wanted.may_match_line(b"say nothing"));
        assert!(SessionSearchPattern::new(" ").is_none());
    }
}
