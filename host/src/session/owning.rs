//! Sets titles of sessions, and removes sessions.
//!
//! Ensures that only the holder of a session's lock changes the session, and that an interrupted
//! removal leaves no partial session. Start from [`SessionStore::set_session_title`] and
//! [`SessionStore::remove`].

use super::entry::{Body, Entry};
use super::log::SESSION_FILE_NAME;
use super::store::{parse_session_entries, session_display_path};
use super::{Error, Session, SessionStore, parts};

/// Maximum length of a session's title, in characters.
const MAX_SESSION_TITLE_CHARS: usize = 200;

/// Size and time of last use of a session, by which sessions to remove are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSizeAndLastUse {
    /// Id of the session.
    pub id: String,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: i64,
    /// Total size of the session's files, in bytes.
    pub bytes: u64,
}

/// Returns a title on one line, truncated to [`MAX_SESSION_TITLE_CHARS`].
fn normalize_title(title: &str) -> String {
    let words: Vec<&str> = title.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .take(MAX_SESSION_TITLE_CHARS)
        .collect()
}

impl Session {
    /// Sets the title of this session, and returns the stored title.
    pub fn set_title(&self, title: &str) -> Result<String, Error> {
        let title = normalize_title(title);
        self.append(Body::Title {
            title: title.clone(),
        })?;
        self.sync()?;
        Ok(title)
    }
}

impl SessionStore {
    /// Sets the title of a session, and returns the stored title. Nothing else of the session
    /// changes: an open turn stays open.
    pub fn set_session_title(&self, id: &str, title: &str) -> Result<String, Error> {
        let title = normalize_title(title);
        let at = self.session_address(id)?;
        // `read_entries` refuses a session of a newer version. Call it first, because `open` would
        // repair the end of the file.
        self.read_entries(id)?;
        let mut opened = self.session_backend().open(&at)?;
        let name = session_display_path(&**self.session_backend(), &at);
        let (entries, _) = parse_session_entries(&name, &opened.lines)?;
        let last = entries.last();
        let entry = Entry {
            id: crate::clock::new_uuid_v7(),
            parent: last.map(|entry| entry.id.clone()),
            time: crate::clock::now_ms(),
            body: Body::Title {
                title: title.clone(),
            },
        };
        opened.journal.append(&entry.to_json_line()?)?;
        opened.journal.sync()?;
        Ok(title)
    }

    /// Removes a session with its blobs, subagents and archived turns. Fails if a process has it
    /// open. A session without a readable file is removed too.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        self.session_backend().remove(&self.session_address(id)?)
    }

    /// Returns the size and time of last use of every session, the last used first.
    pub fn list_session_usage(&self) -> Result<Vec<SessionSizeAndLastUse>, Error> {
        let mut all = Vec::new();
        for (id, folder) in self.session_folders()? {
            let meta = folder.join(SESSION_FILE_NAME).symlink_metadata();
            let Ok(updated) = meta.and_then(|meta| meta.modified()) else {
                continue;
            };
            let since = updated
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            all.push(SessionSizeAndLastUse {
                id,
                updated: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                bytes: parts::session_size_bytes(&folder),
            });
        }
        all.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        Ok(all)
    }
}

/// Returns the sessions to remove, the least recently used first: those last used before `before`
/// (in milliseconds since 1970), and then the least recently used others until the rest has at most
/// `max_bytes`. `all` is sorted as [`SessionStore::list_session_usage`] returns it.
#[must_use]
pub fn select_sessions_to_remove(
    all: &[SessionSizeAndLastUse],
    before: Option<i64>,
    max_bytes: Option<u64>,
) -> Vec<SessionSizeAndLastUse> {
    let mut total = 0_u64;
    let mut found = Vec::new();
    for own in all {
        let is_old = before.is_some_and(|before| own.updated < before);
        if !is_old {
            total = total.saturating_add(own.bytes);
        }
        if is_old || max_bytes.is_some_and(|most| total > most) {
            found.push(own.clone());
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sessions_are_surplus() {
        let stored = |id: &str, updated, bytes| SessionSizeAndLastUse {
            id: id.to_owned(),
            updated,
            bytes,
        };
        let all = [stored("c", 30, 5), stored("b", 20, 5), stored("a", 10, 1)];
        let ids = |before, most| {
            let found = select_sessions_to_remove(&all, before, most);
            found.into_iter().map(|own| own.id).collect::<String>()
        };
        assert_eq!(ids(None, None), "");
        assert_eq!(ids(Some(20), None), "a");
        assert_eq!(ids(None, Some(10)), "a");
        assert_eq!(ids(None, Some(9)), "ab");
        assert_eq!(ids(None, Some(0)), "abc");
        assert_eq!(ids(Some(15), Some(10)), "a");
    }
}
