//! Examines sessions for damaged, missing and superfluous data. Decides which states of a session
//! are faults and which faults can be repaired. An examination only reads and takes no lock;
//! `repair` changes a session that no process has open, and keeps everything that it removes. A
//! session that cannot be examined does not prevent the examination of others. Start from
//! [`examine_session`].

mod chain;
mod repair;

pub use repair::repair_session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::blobs::compute_hash_name;
use super::children;
use super::entry::{Body, SESSION_FORMAT_VERSION};
use super::guarded;
use super::left_holders::{is_unfinished_archived_turn_holder, turn_number_if_turn_start};
use super::named::ReferencedBlobNames;
use super::parts::{SessionFile, SessionFileKind, list_session_files};
use super::transcript::SessionTranscript;
use super::{Error, SessionStore};

/// Maximum number of faulty lines of one file that are listed; further ones are only counted.
const MAX_LISTED_FAULTY_LINES: usize = 20;

/// Number and total size of a session's entries of one type, or of its files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionStorageUsage {
    /// Number of entries or files.
    pub count: u64,
    /// Total size of these entries or files, in bytes.
    pub bytes: u64,
}

/// Fault that the examination of a session found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionFault {
    /// Description of the fault and its location.
    pub what: String,
    /// Description of the repair; `None` if nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Whether the session works despite the fault: for example a file that nothing needs.
    pub is_harmless: bool,
}

/// Result of the examination of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionExamination {
    /// Id of the examined session.
    pub id: String,
    /// Faults, with and without a possible repair.
    pub faults: Vec<SessionFault>,
    /// Facts that are not faults, such as calls without a result, to which resuming the session
    /// would add one, or a holder agent that has not finished taking over its archived turn.
    pub notes: Vec<String>,
    /// Number and size of the data, by type of entry and kind of file.
    pub growth: BTreeMap<String, SessionStorageUsage>,
    /// Paths of the files and folders that a repair moves to `kept`.
    #[serde(skip)]
    aside: Vec<String>,
    /// Version of the format, if it is newer than this program knows. Nothing else is examined
    /// then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<u32>,
}

impl SessionExamination {
    /// Adds the faults, notes and totals that were found in one file of entries.
    fn add_findings_of_file(&mut self, own: Self) {
        self.faults.extend(own.faults);
        self.notes.extend(own.notes);
        self.newer = self.newer.or(own.newer);
        for (kind, growth) in own.growth {
            let all = self.growth.entry(kind).or_default();
            all.count += growth.count;
            all.bytes += growth.bytes;
        }
    }

    fn add_fault(&mut self, what: String, repair: Option<&str>) {
        let repair = repair.map(str::to_owned);
        self.faults.push(SessionFault {
            what,
            repair,
            is_harmless: false,
        });
    }

    /// Adds a fault that does not impair the session: a superfluous file or folder, which a repair
    /// moves to `kept`.
    fn add_superfluous_file_fault(&mut self, path: &str, what: String) {
        self.aside.push(path.trim_end_matches('/').to_owned());
        self.faults.push(SessionFault {
            what,
            repair: Some("it is moved to `kept` in the folder of the session".to_owned()),
            is_harmless: true,
        });
    }
}

/// Blobs, subagents and turns to which the entries in one session file refer.
#[derive(Debug, Default)]
struct SessionEntryReferences {
    blobs: ReferencedBlobNames,
    /// Ids that entries name: of subagents, and of the agents that hold archived turns.
    agents: BTreeSet<String>,
    /// Ids of the subagents for which no entry records a completed step: the program was killed
    /// while the subagent ran, or the session of the subagent could not be created.
    not_begun: BTreeSet<String>,
    /// Numbers of the turns that begin in this file.
    turns: BTreeSet<u32>,
    /// Numbers of the turns that are due to be archived.
    due: BTreeSet<u32>,
}

/// Examines the files of a session. Fails only if the folder of the session cannot be read.
pub fn examine_session(store: &SessionStore, id: &str) -> Result<SessionExamination, Error> {
    let folder = store.session_folder(id)?;
    let mut found = SessionExamination {
        id: id.to_owned(),
        ..SessionExamination::default()
    };
    let files = list_session_files(&folder).map_err(|source| Error::read_error(&folder, source))?;
    let mut all = BTreeMap::new();
    let mut of_each = BTreeMap::new();
    for file in &files {
        if file.kind == SessionFileKind::Entries {
            let above = file.path.trim_end_matches("session.jsonl").to_owned();
            let mut own = SessionExamination::default();
            let wanted = examine_entries(&folder, &above, &mut own);
            all.insert(above.clone(), wanted);
            of_each.insert(above, own);
        }
    }
    for (above, own) in of_each {
        match is_unfinished_archived_turn_folder(&above, &all) {
            true => found.notes.push(format!(
                "{above} holds a copy of an archived turn that was not finished; the next archival creates it again"
            )),
            false => found.add_findings_of_file(own),
        }
    }
    if found.newer.is_some() {
        return Ok(found);
    }
    if !all.contains_key("") {
        let what = "it has no session.jsonl; `rind session rm` removes the rest";
        found.add_fault(what.to_owned(), None);
    }
    check_files_containing_no_entries(&folder, &files, &all, &mut found);
    Ok(found)
}

/// Examines one file of entries, and returns the data to which they refer. `above` is the path of
/// the file's folder within the session, with a `/` at the end; it is empty for the session itself.
fn examine_entries(
    folder: &Path,
    above: &str,
    found: &mut SessionExamination,
) -> SessionEntryReferences {
    let mut wanted = SessionEntryReferences::default();
    let path = folder.join(above).join("session.jsonl");
    let read = match chain::examine_entry_file(&path) {
        Ok(read) => read,
        Err(error) => {
            found.add_fault(
                format!("{above}session.jsonl cannot be read: {error}"),
                None,
            );
            return wanted;
        }
    };
    if read.version > SESSION_FORMAT_VERSION {
        found.newer = Some(read.version);
        return wanted;
    }
    for (n, what) in read.faults.iter().enumerate() {
        match n {
            MAX_LISTED_FAULTY_LINES => found.notes.push(format!(
                "{above}session.jsonl has {} more faults in its lines",
                read.faults.len() - MAX_LISTED_FAULTY_LINES
            )),
            n if n > MAX_LISTED_FAULTY_LINES => {}
            _ => found.add_fault(format!("{above}session.jsonl {}", what.text), what.repair),
        }
    }
    let mut transcript = SessionTranscript::default();
    for (body, bytes, kind) in &read.bodies {
        let growth = found.growth.entry(kind.clone()).or_default();
        growth.count += 1;
        growth.bytes += bytes;
        transcript.apply_entry_body(body);
        wanted.turns.extend(turn_number_if_turn_start(body));
        wanted
            .agents
            .extend(children::subagent_of_entry(body).map(|child| child.agent));
        match body {
            Body::SubagentStart {
                agent,
                is_continued: false,
                ..
            } => {
                wanted.not_begun.insert(agent.clone());
            }
            Body::SubagentEnd { agent, steps, .. } if *steps > 0 => {
                wanted.not_begun.remove(agent);
            }
            _ => {}
        }
        wanted.blobs.add_entry_blobs(body);
    }
    wanted.due.extend(transcript.due.keys());
    note_changes_made_on_resume(above, transcript, found);
    wanted
}

/// Adds notes about the changes that a resume would make: it closes an open turn and calls without
/// a result, and restores the pairing of calls and results.
fn note_changes_made_on_resume(
    above: &str,
    mut transcript: SessionTranscript,
    found: &mut SessionExamination,
) {
    if !above.is_empty() {
        return;
    }
    let open = transcript.calls_without_result();
    if transcript.is_turn_open {
        let names: Vec<&str> = open.iter().map(|call| call.name.as_str()).collect();
        let calls = match names.is_empty() {
            true => String::new(),
            false => format!(
                ", and its tool calls that have no result: {}",
                names.join(", ")
            ),
        };
        found.notes.push(format!(
            "turn {} has no end; resuming the session ends it{calls}",
            transcript.turn
        ));
    }
    let mended = transcript.repair_call_pairing().into_iter();
    found
        .notes
        .extend(mended.map(|what| format!("on a resume: {what}")));
}

/// Examines all files except those with entries, and reports the files that are missing.
fn check_files_containing_no_entries(
    folder: &Path,
    files: &[SessionFile],
    all: &BTreeMap<String, SessionEntryReferences>,
    found: &mut SessionExamination,
) {
    let content: BTreeSet<&String> = all.values().flat_map(|own| &own.blobs.content).collect();
    let prompts: BTreeSet<&String> = all.values().flat_map(|own| &own.blobs.prompts).collect();
    let mut there = BTreeSet::new();
    for file in files {
        if file.kind != SessionFileKind::Entries {
            let growth = found
                .growth
                .entry(format!("file: {}", file.kind))
                .or_default();
            growth.count += 1;
            growth.bytes += file.bytes;
        }
        there.insert(file.path.as_str());
        let (above, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let path = &file.path;
        match file.kind {
            SessionFileKind::Content | SessionFileKind::State => {
                let owner = above.trim_end_matches("content").trim_end_matches("blobs");
                let is_wanted = match file.kind {
                    SessionFileKind::Content => {
                        let name = name.to_owned();
                        content.contains(&name) || prompts.contains(&name)
                    }
                    _ => all
                        .get(owner)
                        .is_some_and(|own| own.blobs.state.values().any(|blob| blob == name)),
                };
                if !is_wanted {
                    found.add_superfluous_file_fault(path, format!("no entry refers to {path}"));
                } else if !has_content_matching_hash_name(&folder.join(path), name) {
                    let what = format!("{path} is corrupt: its hash does not match its name");
                    found.add_fault(what, None);
                }
            }
            SessionFileKind::Foreign => {
                found
                    .add_superfluous_file_fault(path, format!("{path} is not a file of a session"));
            }
            SessionFileKind::Odd => {
                found.add_superfluous_file_fault(
                    path,
                    format!("{path} is a link, a pipe or another special file"),
                );
            }
            SessionFileKind::Left if !path.starts_with("kept/") && path.ends_with(".half") => {
                let what = format!("{path} is left over from an unfinished write");
                found.add_superfluous_file_fault(path, what);
            }
            SessionFileKind::Left
            | SessionFileKind::Lock
            | SessionFileKind::Entries
            | SessionFileKind::Checkpoint => {}
        }
    }
    for id in content {
        if !there.contains(format!("content/{id}").as_str()) {
            found.add_fault(
                format!("content/{id} is missing, and a message refers to it"),
                None,
            );
        }
    }
    for (above, own) in all {
        let state = own.blobs.state.iter().filter(|_| above.is_empty());
        for ((plugin, key), blob) in state {
            if !there.contains(format!("{above}blobs/{blob}").as_str()) {
                let what = format!("{above}blobs/{blob} is missing: `{key}` of plugin {plugin}");
                found.add_fault(what, None);
            }
        }
        for agent in &own.agents {
            if !all.contains_key(&format!("{above}agents/{agent}/")) {
                let what = format!("{above}agents/{agent} is missing, although an entry names it");
                if own.not_begun.contains(agent) {
                    found.notes.push(format!(
                        "{what}; no entry records that the subagent began a step"
                    ));
                } else if above.is_empty() {
                    found.add_fault(what, None);
                } else {
                    // The folder may be that of a holder, which has a copy of the entries of a
                    // turn, but not the sessions of the subagents that these entries name.
                    found.notes.push(what);
                }
            }
        }
    }
    for above in all.keys().filter(|above| !above.is_empty()) {
        let (parent, agent) = split_agent_path(above);
        let is_named = |own: &SessionEntryReferences| own.agents.contains(agent);
        if !all.get(&parent).is_some_and(is_named)
            && !is_unfinished_archived_turn_folder(above, all)
        {
            found.add_superfluous_file_fault(
                above,
                format!("no entry names the subagent in {above}"),
            );
        }
    }
}

/// Splits the path of a subagent's folder into the path of its parent's folder and the id of the
/// subagent.
fn split_agent_path(above: &str) -> (String, &str) {
    let mut names = above.trim_end_matches('/').rsplitn(3, '/');
    let agent = names.next().unwrap_or_default();
    let parent = names.nth(1).map(|text| format!("{text}/"));
    (parent.unwrap_or_default(), agent)
}

/// Whether the folder `above` belongs to a holder (a subagent that keeps an archived turn) that no
/// entry names, because the process was killed while it archived the turn.
fn is_unfinished_archived_turn_folder(
    above: &str,
    all: &BTreeMap<String, SessionEntryReferences>,
) -> bool {
    let (parent, agent) = split_agent_path(above);
    let (Some(parent), Some(own)) = (all.get(&parent), all.get(above)) else {
        return false;
    };
    let is_named = above.is_empty() || parent.agents.contains(agent);
    !is_named && is_unfinished_archived_turn_holder(agent, &parent.due, &own.turns)
}

fn has_content_matching_hash_name(path: &Path, name: &str) -> bool {
    guarded::read_regular_file(path).is_ok_and(|bytes| compute_hash_name(&bytes) == name)
}
