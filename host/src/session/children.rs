//! Manages the sessions of subagents, which are stored below the session of their parent.
//!
//! Owns the folder `agents` in a session's folder: lists the subagents that entries name and those
//! that have a session, creates the session of a subagent or of a holder (which keeps an archived
//! turn), and reads these sessions. A subagent's session may contain a folder `agents` with further
//! subagents. The module must not know how a subagent is run.
//!
//! Invariant: ids are read from a file that may have been tampered with, so an id is validated
//! before it becomes part of a path. Start from [`Session::create_archive_holder_session`].

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::{Body, Entry, Holder};
use super::guarded;
use super::live::Session;
use super::log::SESSION_FILE_NAME;
use super::storage::{FramePosition, SessionAddress, Sessions};
use super::store::read_entries;
use super::{Error, SessionSpec};
use crate::event::SubagentState;

/// Name of the folder with the sessions of subagents.
pub(super) const SUBAGENTS_FOLDER_NAME: &str = "agents";

/// Maximum length of a subagent's id, in bytes.
const MAX_SUBAGENT_ID_BYTES: usize = 64;

/// Maximum depth of the search for nested subagents. The agent loop allows fewer levels.
const MAX_SUBAGENT_SEARCH_DEPTH: usize = 8;

/// A subagent whose messages are stored in a separate session, below that of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentSession {
    /// Id of the subagent.
    pub agent: String,
    /// Task of the subagent; for a holder, the subject of the turn that it keeps.
    pub task: String,
    /// Whether the subagent is a holder, which only keeps an archived turn.
    pub is_holder: bool,
    /// Name of the plugin that started the subagent; `None` if the model did.
    pub plugin: Option<String>,
    /// Name of the subagent's preset; `None` if it has none.
    pub preset: Option<String>,
    /// Names of the tools that the subagent may use.
    pub tools: Vec<String>,
    /// State in which the subagent ended; `None` if no entry records its end.
    pub state: Option<SubagentState>,
}

/// Applies an entry to the list of subagents. A subagent that is continued keeps its position in
/// the list and its first task.
pub(super) fn apply_entry_to_subagents(children: &mut Vec<SubagentSession>, body: &Body) {
    if let Body::SubagentEnd {
        agent,
        is_error,
        state,
        ..
    } = body
    {
        let of_error = match is_error {
            true => SubagentState::Failed,
            false => SubagentState::Answered,
        };
        let ended = children.iter_mut().rfind(|child| child.agent == *agent);
        if let Some(child) = ended {
            child.state = Some(state.unwrap_or(of_error));
        }
        return;
    }
    let Some(new) = subagent_of_entry(body) else {
        return;
    };
    let known = children
        .iter_mut()
        .find(|child| child.agent == new.agent && !child.is_holder && !new.is_holder);
    match known {
        Some(known) => {
            known.state = None;
            known.tools = new.tools;
        }
        None => children.push(new),
    }
}

/// Whether `text` is a valid id of a subagent: `[a-z0-9-]{1,64}`.
pub(super) fn is_agent_id(text: &str) -> bool {
    let is_in_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_SUBAGENT_ID_BYTES).contains(&text.len()) && text.bytes().all(is_in_id)
}

/// Returns the ids of the subagents that have a session in `folder`, the folder of their parent.
/// Skips symlinks, and folders without a `session.jsonl`, which a killed program leaves behind.
pub(super) fn stored_agent_ids(folder: &Path) -> Vec<String> {
    let agents: PathBuf = folder.join(SUBAGENTS_FOLDER_NAME);
    if !guarded::is_real_folder(&agents).unwrap_or_default() {
        return Vec::new();
    }
    let entries = fs::read_dir(agents).into_iter().flatten().flatten();
    let has_begun = |folder: &fs::DirEntry| {
        folder
            .path()
            .join(SESSION_FILE_NAME)
            .symlink_metadata()
            .is_ok()
    };
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let folders = folders.filter(has_begun);
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_agent_id(name)).collect();
    names.sort();
    names
}

/// Returns the subagent that an entry introduces: the entry records the start of a subagent, or the
/// creation of a holder. `None` for any other entry, and if the id is not valid.
pub(super) fn subagent_of_entry(body: &Body) -> Option<SubagentSession> {
    let child = match body {
        Body::SubagentStart {
            agent,
            plugin,
            task,
            tools,
            preset,
            ..
        } => SubagentSession {
            agent: agent.clone(),
            task: task.clone(),
            is_holder: false,
            plugin: plugin.clone(),
            preset: preset.clone(),
            tools: tools.clone(),
            state: None,
        },
        Body::Replaced {
            holder: Some(Holder { agent, task }),
            ..
        } => SubagentSession {
            agent: agent.clone(),
            task: task.clone(),
            is_holder: true,
            plugin: None,
            preset: None,
            tools: Vec::new(),
            state: None,
        },
        _ => return None,
    };
    is_agent_id(&child.agent).then_some(child)
}

/// Parses a path such as `agents/ID` or `agents/ID/agents/ID`, of any depth, and returns it as the
/// relative path of a subagent's session; `None` if the text has another form.
pub(super) fn parse_subagent_path(below: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    let mut parts = below.split('/');
    while let Some(part) = parts.next() {
        let agent = parts
            .next()
            .filter(|id| part == SUBAGENTS_FOLDER_NAME && is_agent_id(id))?;
        path.push(SUBAGENTS_FOLDER_NAME);
        path.push(agent);
    }
    Some(path)
}

/// Returns the ids of the subagents and holders that entries record.
pub(super) fn recorded_agent_ids(entries: &[Entry]) -> BTreeSet<String> {
    let named = entries
        .iter()
        .filter_map(|entry| subagent_of_entry(&entry.body));
    named.map(|child| child.agent).collect()
}

/// Address of a session together with the store that keeps it. Has no file open: a thread that
/// still reads a closed session does not keep the session open.
#[derive(Clone, Debug)]
pub struct SessionAddressAndStore {
    address: SessionAddress,
    store: Arc<dyn Sessions>,
}

impl SessionAddressAndStore {
    /// Creates the session of a subagent below this session. A subagent's session is not in the
    /// list of sessions and cannot be resumed by itself, but can be read as `ID/agents/AGENT`.
    pub fn create_subagent_session(
        &self,
        agent: &str,
        spec: &SessionSpec,
    ) -> Result<Session, Error> {
        let child = self.subagent_location(agent)?;
        Session::create(
            Some(self.address.as_str()),
            child.address,
            child.store,
            spec,
        )
    }

    /// Opens the session of a subagent again, to continue the subagent. Repairs it like any
    /// session that is resumed.
    pub fn open_subagent_session(&self, agent: &str, spec: &SessionSpec) -> Result<Session, Error> {
        let child = self.subagent_location(agent)?;
        Session::open(child.address, child.store, spec)
    }

    /// Returns the location of a subagent's session, whether or not that session exists.
    pub(super) fn subagent_location(&self, agent: &str) -> Result<Self, Error> {
        let address = self.address.subagent_address(agent);
        let unknown = || Error::Unknown {
            wanted: format!("{}/{SUBAGENTS_FOLDER_NAME}/{agent}", self.address),
            root: self.store.name().into(),
        };
        Ok(Self {
            address: address.ok_or_else(unknown)?,
            store: self.store.clone(),
        })
    }

    /// Returns the entries from a position on; see [`Session::next_entry_position`].
    pub(crate) fn read_entries_since(&self, from: FramePosition) -> Result<Vec<Entry>, Error> {
        Ok(read_entries(&*self.store, &self.address, from)?.0)
    }

    fn read_entries(&self) -> Result<Vec<Entry>, Error> {
        self.read_entries_since(FramePosition::START)
    }

    /// Reads the sessions of `children`, the newest first, and of the subagents below them. Calls
    /// `take` with each of them and its entries until `take` stops the search. Holders below a
    /// subagent are skipped: the file of the subagent contains their messages too.
    pub(crate) fn visit_children(
        &self,
        children: &[SubagentSession],
        take: &mut SubagentVisitor<'_>,
    ) {
        let mut seen = HashSet::new();
        let _ = visit_subagents(self, children, MAX_SUBAGENT_SEARCH_DEPTH, &mut seen, take);
    }

    /// Returns the entries of the subagent with the id `agent`. Searches `children` and the
    /// subagents below each of them; `None` if none has this id.
    pub fn read_subagent_entries(
        &self,
        children: &[SubagentSession],
        agent: &str,
    ) -> Result<Option<Vec<Entry>>, Error> {
        find_subagent_entries(self, children, agent, MAX_SUBAGENT_SEARCH_DEPTH)
    }
}

impl Session {
    /// Returns the address of this session and its store.
    #[must_use]
    pub fn session_location(&self) -> SessionAddressAndStore {
        SessionAddressAndStore {
            address: self.storage_address().clone(),
            store: self.session_backend().clone(),
        }
    }

    /// Creates the session of a holder (a subagent for an archived turn) with these entries, and
    /// returns once the entries are on the disk. If this fails, the incomplete session is removed.
    pub fn create_archive_holder_session(
        &self,
        agent: &str,
        spec: &SessionSpec,
        entries: Vec<Entry>,
    ) -> Result<(), Error> {
        let made = self
            .session_location()
            .create_subagent_session(agent, spec)
            .and_then(|child| {
                child.append_copied_entries(entries)?;
                child.sync()
            });
        if made.is_err() {
            self.remove_archive_holder_session(agent);
        }
        made
    }

    /// Removes the session of a holder (a subagent for an archived turn), unless an entry of this
    /// session references it.
    pub fn remove_archive_holder_session(&self, agent: &str) {
        // Keep the session of a subagent with this id if an entry references it: it contains
        // another archived turn.
        let is_new = !self.subagents().iter().any(|child| child.agent == agent);
        if let Some(address) = self
            .storage_address()
            .subagent_address(agent)
            .filter(|_| is_new)
        {
            // After an error, `rind session doctor` finds the leftover files.
            let _ = self.session_backend().remove(&address);
        }
    }
}

/// Callback that receives each subagent with its entries, and decides whether the search continues.
pub(crate) type SubagentVisitor<'a> =
    dyn FnMut(&SubagentSession, Result<Vec<Entry>, Error>) -> ControlFlow<()> + 'a;

/// Reads the sessions of `children`, the newest first, each followed by the subagents below it.
/// `seen` contains the addresses that were read, because a file may name a subagent more than once.
fn visit_subagents(
    place: &SessionAddressAndStore,
    children: &[SubagentSession],
    depth: usize,
    seen: &mut HashSet<SessionAddress>,
    take: &mut SubagentVisitor<'_>,
) -> ControlFlow<()> {
    for child in children.iter().rev() {
        let Ok(own) = place.subagent_location(&child.agent) else {
            continue;
        };
        if !seen.insert(own.address.clone()) {
            continue;
        }
        let read = own.read_entries();
        let named = read
            .iter()
            .flatten()
            .filter_map(|e| subagent_of_entry(&e.body));
        let below: Vec<SubagentSession> = match child.is_holder || depth == 0 {
            true => Vec::new(),
            false => named.filter(|below| !below.is_holder).collect(),
        };
        take(child, read)?;
        visit_subagents(&own, &below, depth.saturating_sub(1), seen, take)?;
    }
    ControlFlow::Continue(())
}

/// Searches for a subagent among `children` of a session, then recursively among their subagents.
fn find_subagent_entries(
    place: &SessionAddressAndStore,
    children: &[SubagentSession],
    agent: &str,
    depth: usize,
) -> Result<Option<Vec<Entry>>, Error> {
    if children.iter().any(|child| child.agent == agent) {
        return place.subagent_location(agent)?.read_entries().map(Some);
    }
    // Skip holders (subagents that contain an archived turn): the session of a holder has copies of
    // the entries about the subagents of the archived turn, but not the sessions of these
    // subagents.
    for child in children
        .iter()
        .filter(|child| !child.is_holder && depth > 0)
    {
        let Ok(own) = place.subagent_location(&child.agent) else {
            continue;
        };
        let Ok(entries) = own.read_entries() else {
            continue;
        };
        let below: Vec<SubagentSession> = entries
            .iter()
            .filter_map(|e| subagent_of_entry(&e.body))
            .collect();
        if let Some(found) = find_subagent_entries(&own, &below, agent, depth - 1)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_subagents_become_part_of_a_path() {
        for right in ["agents/held-1", "agents/sub-1/agents/held-2"] {
            assert_eq!(parse_subagent_path(right), Some(right.into()));
        }
        let all = "|agents|agents/|agents/..|agents/../x|held-1|agents/a/b/c|/agents/a|agents/A|agents/a.b";
        for wrong in all.split('|') {
            assert_eq!(parse_subagent_path(wrong), None, "{wrong}");
        }
        let start = |agent: &str| Body::SubagentStart {
            agent: agent.to_owned(),
            plugin: None,
            task: "t".to_owned(),
            tools: Vec::new(),
            preset: None,
            is_continued: false,
        };
        assert!(subagent_of_entry(&start("sub-1")).is_some());
        assert_eq!(subagent_of_entry(&start("../../other")), None);
        assert_eq!(subagent_of_entry(&start(&"a".repeat(65))), None);
    }

    #[test]
    fn a_subagent_that_is_continued_stays_one_and_has_its_last_state() {
        let start = |task: &str, is_continued| Body::SubagentStart {
            agent: "sub-1".to_owned(),
            plugin: None,
            task: task.to_owned(),
            tools: vec![task.to_owned()],
            preset: Some("work".to_owned()),
            is_continued,
        };
        let end = |state| Body::SubagentEnd {
            agent: "sub-1".to_owned(),
            answer: String::new(),
            is_error: true,
            usage: Default::default(),
            state,
            steps: 1,
            cost_usd: 0.0,
        };
        let mut children = Vec::new();
        let mut states = Vec::new();
        for body in [
            start("one", false),
            end(Some(SubagentState::Stopped)),
            start("two", true),
            end(None),
        ] {
            apply_entry_to_subagents(&mut children, &body);
            states.push(children[0].state);
        }
        let expected = [
            None,
            Some(SubagentState::Stopped),
            None,
            Some(SubagentState::Failed),
        ];
        assert_eq!(states, expected);
        assert_eq!(children.len(), 1);
        assert_eq!(
            (&*children[0].task, &children[0].tools[..]),
            ("one", &["two".to_owned()][..])
        );
        assert_eq!(children[0].preset.as_deref(), Some("work"));
    }
}
