//! Sessions of subagents below a session: which there are, how one comes to hold an archived turn, how they are read.
//!
//! They lie in the folder `agents` of the session above them. Ids come from a file that somebody may have changed, so none
//! becomes part of a path before it was checked. Start from [`Session::create_holder`].

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::{Body, Entry, Holder};
use super::live::Session;
use super::log::FILE;
use super::store::parse;
use super::{Error, SessionSpec};
use crate::disk::private_folder;

/// Name of the folder that holds the sessions of subagents.
const AGENTS: &str = "agents";

/// Longest id of a subagent, in bytes.
const MAX_ID_BYTES: usize = 64;

/// Maximum depth at which subagents of subagents are looked for: more than can be run.
const MAX_DEPTH: usize = 8;

/// A subagent that has a session of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Id of the subagent.
    pub agent: String,
    /// Task; of a holder, the subject of its turn.
    pub task: String,
    /// Whether it only keeps an archived turn.
    pub is_holder: bool,
}

/// Whether a text can be the id of a subagent: `[a-z0-9-]{1,64}`.
fn is_agent_id(text: &str) -> bool {
    let is_in_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(is_in_id)
}

/// Returns the subagent that an entry names.
pub(super) fn named_in(body: &Body) -> Option<Child> {
    let child = match body {
        Body::SubagentStart { agent, task, .. } => Child {
            agent: agent.clone(),
            task: task.clone(),
            is_holder: false,
        },
        Body::Replaced {
            holder: Some(Holder { agent, task }),
            ..
        } => Child {
            agent: agent.clone(),
            task: task.clone(),
            is_holder: true,
        },
        _ => return None,
    };
    is_agent_id(&child.agent).then_some(child)
}

/// The folder of a subagent's session below that of its parent, from `agents/ID` or `agents/ID/agents/ID`; `None` when the
/// text is anything else.
pub(super) fn path(below: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    let mut parts = below.split('/');
    while let Some(part) = parts.next() {
        let agent = parts
            .next()
            .filter(|id| part == AGENTS && is_agent_id(id))?;
        path.push(AGENTS);
        path.push(agent);
    }
    Some(path)
}

/// Copies the sessions of the subagents that `entries` name, and all below them.
pub(super) fn copy(from: &Path, to: &Path, entries: &[Entry]) -> Result<(), Error> {
    for Child { agent, .. } in entries.iter().filter_map(|entry| named_in(&entry.body)) {
        let (from, to) = (from.join(AGENTS).join(&agent), to.join(AGENTS).join(&agent));
        let (entries, _) = match read_from(&from.join(FILE), 0) {
            // Its folder may have been removed; what was said of it stays.
            Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            read => read?,
        };
        private_folder(&to).map_err(|source| Error::write(&to, source))?;
        let file = to.join(FILE);
        fs::copy(from.join(FILE), &file).map_err(|source| Error::write(&file, source))?;
        copy(&from, &to, &entries)?;
    }
    Ok(())
}

/// The entries of a file from a byte on, and what could not be read.
fn read_from(path: &Path, at: u64) -> Result<(Vec<Entry>, Vec<String>), Error> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|mut file| {
            file.seek(SeekFrom::Start(at))?;
            file.read_to_end(&mut bytes)
        })
        .map_err(|source| Error::read(path, source))?;
    parse(path, &bytes)
}

/// Location of a session. It holds nothing open, so that a thread which waits for the disk keeps no session from being closed.
#[derive(Clone, Debug)]
pub struct SessionFolder {
    id: Arc<str>,
    path: PathBuf,
}

impl SessionFolder {
    /// Makes the session of a subagent, in a folder of this one's. It is not in the list of sessions, and no turn of the user's
    /// goes on with it; `ID/agents/AGENT` reads it.
    pub fn create_child(&self, agent: &str, spec: &SessionSpec) -> Result<Session, Error> {
        let id = format!("{}/{AGENTS}/{agent}", self.id);
        let agents = self.path.join(AGENTS);
        let folder = agents.join(agent);
        private_folder(&agents)
            .and_then(|()| private_folder(&folder))
            .map_err(|source| Error::write(&folder, source))?;
        Session::create(Some(&self.id), &id, &folder, spec)
    }

    /// The entries that were written at this [`end`](Session::end) of the file and after it.
    pub(crate) fn entries_since(&self, end: u64) -> Result<Vec<Entry>, Error> {
        Ok(read_from(&self.path.join(FILE), end)?.0)
    }

    /// Reads the entries of the subagent with this id, one of `children` or below one of them; `None` when there is none.
    pub fn read_child(&self, children: &[Child], agent: &str) -> Result<Option<Vec<Entry>>, Error> {
        find(&self.path, children, agent, MAX_DEPTH)
    }
}

impl Session {
    /// Returns the folder of the subagent's session.
    #[must_use]
    pub fn place(&self) -> SessionFolder {
        SessionFolder {
            id: self.id().clone(),
            path: self.folder().to_owned(),
        }
    }

    /// Makes the session of a holder, with these entries in it, on the disk when this returns. After an error there is none.
    pub fn create_holder(
        &self,
        agent: &str,
        spec: &SessionSpec,
        entries: Vec<Entry>,
    ) -> Result<(), Error> {
        let made = self.place().create_child(agent, spec).and_then(|child| {
            child.append_copies(entries)?;
            child.sync()
        });
        if made.is_err() {
            self.remove_holder(agent);
        }
        made
    }

    /// Removes the session of a holder that this session does not reference: its turn stays where it is.
    pub fn remove_holder(&self, agent: &str) {
        // One that it speaks of is somebody else's.
        let is_new = !self.children().iter().any(|child| child.agent == agent);
        if is_new && is_agent_id(agent) {
            let _ = fs::remove_dir_all(self.folder().join(AGENTS).join(agent));
        }
    }
}

/// Looks for a subagent among those in `folder`, then among those that they have.
fn find(
    folder: &Path,
    children: &[Child],
    agent: &str,
    depth: usize,
) -> Result<Option<Vec<Entry>>, Error> {
    if children.iter().any(|child| child.agent == agent) {
        let file = folder.join(AGENTS).join(agent).join(FILE);
        return Ok(Some(read_from(&file, 0)?.0));
    }
    // A holder keeps what was said of the subagents of its turn; their sessions lie where they were made.
    for child in children
        .iter()
        .filter(|child| !child.is_holder && depth > 0)
    {
        let folder = folder.join(AGENTS).join(&child.agent);
        let Ok((entries, _)) = read_from(&folder.join(FILE), 0) else {
            continue;
        };
        let below: Vec<Child> = entries.iter().filter_map(|e| named_in(&e.body)).collect();
        if let Some(found) = find(&folder, &below, agent, depth - 1)? {
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
            assert_eq!(path(right), Some(right.into()));
        }
        let all = "|agents|agents/|agents/..|agents/../x|held-1|agents/a/b/c|/agents/a|agents/A|agents/a.b";
        for wrong in all.split('|') {
            assert_eq!(path(wrong), None, "{wrong}");
        }
        let start = |agent: &str| Body::SubagentStart {
            agent: agent.to_owned(),
            plugin: None,
            task: "t".to_owned(),
            tools: Vec::new(),
        };
        assert!(named_in(&start("sub-1")).is_some());
        assert_eq!(named_in(&start("../../other")), None);
        assert_eq!(named_in(&start(&"a".repeat(65))), None);
    }
}
